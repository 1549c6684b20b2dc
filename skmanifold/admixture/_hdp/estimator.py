"""Topics of words whose number is inferred."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...base import BaseSampledEstimator, FitStrategy, Run, posterior_of_number
from ...inference._distributed_fits.sources import Stored
from ...inference._draw_store import draws_of
from ...random._discrete_variates import draw_partition
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler, Gibbs
from ...samplers._latent.stick_breaking import LEAST_CONCENTRATED, MOST_CONCENTRATED, concentration_or_draw
from ...topics.topic_word import TopicWord, topic_word_from_array
from ...utils._conditions import Array, Integer, Sizes
from ...utils._conditions import Real as RealNumber
from ...utils._declared import Saved
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, RandomStateLike, fit_context
from .._lda.estimator import AnyDocuments, StochasticLDA
from .._posterior.inference import TopicInference
from .._tokens.new_rows import DrawsTokensFromPrior, draw_dirichlet, draw_words
from .._tokens.topic_counts import TopicCounts, TopicPrior, topic_word_prior
from .fit_strategy import HDPFit
from .model import ConcentrationPriors
from .uncertainty import VaryingUncertainty

_MOST_TOPICS = 30_000  # twice as many numbers of topics fit into 16 bits
_SHARED_WITH_FIXED = {"n_features_in_", "feature_names_in_", "doc_topic_prior_", "topic_word_prior_"} | {
    *("_topic_counts", "_estimate", "_n_counted_rows", "_key")
}
_CONCENTRATION = [None, Interval(Real, LEAST_CONCENTRATED, MOST_CONCENTRATED, closed="both")]


_DRAWN = draws_of(
    "log_likelihood",
    needed=("n_components",),
    n_components=Array("int64", "n_chains n_draws", low=1),
    concentration=Array("float64", "n_chains n_draws", low=0),
    topic_concentration=Array("float64", "n_chains n_draws", low=0),
    topic_weights=Array("float64", "n_chains n_draws _", low=0, high=1, nan=True),
    topic_ids=Array("float64", "n_chains n_draws _", low=0, nan=True),
    components=Array("float32", "n_chains n_component_draws _ n_features", low=0, high=1, nan=True),
    doc_topic_counts=Array("float64 int64", "n_chains n_component_draws _ _", low=0, nan=True),
)


class _FittedTopics(DrawsTokensFromPrior, TopicInference, VaryingUncertainty, BaseSampledEstimator):
    """Fitted attributes, and what they must agree in."""

    n_components_: Annotated[int, Integer(1, size="n_components")]
    topic_weights_: Annotated[np.ndarray, Array("float64", "n_components", above=0, high=1)]
    topic_ids_: Annotated[np.ndarray, Array("int64", "n_components", low=0)]
    topic_word_prior_: Annotated[float | np.ndarray, topic_word_prior]
    concentration_: Annotated[float, RealNumber(above=0)]
    topic_concentration_: Annotated[float, RealNumber(above=0)]
    _posterior: Annotated[dict[str, np.ndarray], _DRAWN]
    _topic_counts: Saved[TopicCounts]
    _estimate: Saved[TopicWord]
    best_chain_: Annotated[int, Integer(below="n_chains")]
    _n_counted_rows: Annotated[int, Integer(low=1)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        posterior = self._posterior
        in_use = ~np.isnan(posterior["topic_ids"])
        if (in_use[..., 1:] & ~in_use[..., :-1]).any() or (in_use.sum(axis=-1) != posterior["n_components"]).any():
            return "has draws of topics with gaps"
        if (in_use != ~np.isnan(posterior["topic_weights"])).any():
            return "has draws of topics without weights"
        if "components" in posterior:
            drawn = ~np.isnan(posterior["components"])
            n_drawn = drawn.all(axis=-1).sum(axis=-1)
            complete = posterior["n_components"][:, self._component_draws]
            if drawn.any(axis=-1).sum() != n_drawn.sum() or (n_drawn != complete).any():
                return "has draws of topics with gaps"
        return super()._disagreement(sizes)


@dataclass(eq=False, repr=False)
class HDPAdmixture(_FittedTopics):
    r"""Topics of words whose number is inferred: the hierarchical Dirichlet process.

    Latent Dirichlet allocation with infinitely many topics, of which finitely many have tokens. The topics have weights
    :math:`b`, which all documents share, and document :math:`m` has topic proportions :math:`\theta_m`:

    .. math:: b_k = v_k \prod_{l<k} (1 - v_l), \; v_k \sim \mathrm{Beta}(1, \gamma), \quad
        \phi_k \sim \mathrm{Dir}(\beta), \quad \theta_m \sim \mathrm{DP}(\alpha, b).

    For the topics in use this is the prior :math:`\mathrm{Dir}(\alpha b)` of :class:`StochasticLDA`, with learned
    parameters. There is no truncation: the sampler draws from the posterior of the number of topics ([1]_).

    Parameters
    ----------
    concentration : float or None, default=None
        Concentration :math:`\alpha` of the documents, at most 1e6. Larger values give documents with more topics. None
        learns it.
    topic_concentration : float or None, default=None
        Concentration :math:`\gamma` of the weights, at most 1e6. Larger values give more topics. None learns it.
    topic_word_prior : float or array-like of shape (n_features,), default=0.1
        Dirichlet parameters :math:`\beta` of the topics: a number, or one number per word, which a pandas Series with
        words as labels assigns to columns of X by name. The number of topics depends on it: smaller values give more
        topics with fewer words.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of :math:`\alpha`, if it is learned.
    topic_concentration_prior : (float, float), default=(1.0, 0.1)
        Shape and rate of the gamma prior of :math:`\gamma`, if it is learned.
    sampler : {"gibbs"} or BaseSampler instance, default="gibbs"
        Sampler of the posterior: :class:`~skmanifold.samplers.Gibbs`, documents in parallel.
    init : {"auto"}, int or fitted StochasticLDA, default="auto"
        The initial topics. A number of topics, to which the tokens belong at random; "auto" is a quarter of the square
        root of the number of tokens, at least 10. Or the topics of a fitted :class:`StochasticLDA` or
        :class:`HDPAdmixture` of the same words. If the estimator is cloned, for example by a grid search, wrap this in
        :class:`sklearn.frozen.FrozenEstimator`, so that its topics are kept.
    n_split_merge : int, default=12
        Number of proposals in each pass, one in five to split a topic and the others to merge two.
    max_components : int, default=1000
        Largest number of topics, at most 30,000. It limits the memory. The fit warns if it is reached.
    max_iter : int, default=400
        Number of passes over the documents, burn-in included.
    burn_in : int, default=None
        Number of initial passes to discard; None is half of `max_iter`. The first 80% of them help a chain to find good
        topics: in their second half, similar topics are merged by an estimate of the posterior, because superfluous
        ones would remain for many passes. And if :math:`\alpha` is learned and the initial topics are random, it
        decreases from a quarter of the mean length of a document, at most 50, to 1.
    thin : int, default=2
        After burn-in, every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Number of independent chains. ``components_`` is the estimate of the chain with the highest mean log density.
    max_draws_bytes : int, default=2**28
        Approximate limit of the memory for draws of the topics in ``posterior_``, in bytes. If they need more, fewer
        are kept, evenly spaced.
    n_stored_rows : int, default=0
        Number of documents, the first ones of X, whose numbers of tokens of each topic are kept in ``posterior_`` with
        each draw of the topics.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bit-identical for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. They are given to chains first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features), float32
        Word probabilities of the topics of the best chain that are in use at its end and were in use in at least half
        of the passes after burn-in, in descending order of their shares of the tokens; rows sum to 1. They are means
        over these passes. The dense array is computed at each access. It raises an AttributeError if it would need more
        than 4 GiB.
    topic_word_counts_ : csr_array of shape (n_components_, n_features), float64
        Mean number of tokens of each word in each topic. Adding ``topic_word_prior_`` and normalising the rows gives
        ``components_``.
    n_components_ : int
        Number of these topics.
    n_components_posterior_ : ndarray
        Posterior probabilities of 0, 1, 2, ... topics with tokens, from the draws of all chains. They include topics
        of a few tokens, see Notes.
    topic_weights_ : ndarray of shape (n_components_,)
        Weights :math:`b_k` of the topics: posterior means. The rest, to a sum of 1, is the weight of other topics.
    topic_ids_ : ndarray of shape (n_components_,), int64
        A number for each topic that it keeps in all passes of its chain. In ``posterior_["topic_ids"]`` it shows
        whether a topic was in use in a draw. If a topic is split, the larger part keeps the number.
    concentration_, topic_concentration_ : float
        Posterior means of :math:`\alpha` and :math:`\gamma` in the best chain, or the given values.
    doc_topic_prior_ : ndarray of shape (n_components_,)
        :math:`\alpha b_k`, the prior of the proportions that `transform` uses.
    topic_word_prior_ : float or ndarray of shape (n_features,)
        The prior of the topics.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in, ``(max_iter - burn_in) // thin`` of each chain:

        - ``"log_likelihood"``: the sum over tokens of the log probability given the other tokens of the document.
        - ``"n_components"``, ``"concentration"``, ``"topic_concentration"``.
        - ``"topic_weights"`` and ``"topic_ids"``, shape (n_chains, n_draws, n_max): of the topics in use, then NaN.
        - ``"components"``, shape (n_chains, n, n_max, n_features): topics, for as many draws as `max_draws_bytes`
          allows.
        - ``"doc_topic_counts"``, shape (n_chains, n, n_stored_rows, n_max): only with `n_stored_rows`, for the
          same draws as ``"components"``.
    best_chain_ : int
        Index of the chain that ``components_`` comes from, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of each pass, burn-in included.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes; fewer than `max_iter` if a callback stopped the fit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    StochasticLDA : The same model with a given number of topics; faster, and with a choice of samplers.
    DPMixture : One component for each row, not for each token.

    Notes
    -----
    A pass draws the topics of the tokens in all documents in parallel. Then topics begin and end in a random part of
    the documents, with distributions over words integrated out, because topics that are drawn from the prior over all
    words would never be used. Splits and merges of topics are proposed ([2]_). Weights are drawn given numbers of
    tables ([1]_), and topics given the words of their tokens. Each of these steps leaves the posterior unchanged.

    The posterior of the number of topics depends on the model: on `topic_word_prior`, on the priors of the
    concentrations, and on the assumption that a topic has the same words in all documents. It is not an estimate of how
    many topics there are in some other sense, and it includes topics with a few tokens. The number of topics with at
    least one per cent of the tokens is more stable. In a large corpus the number changes slowly from pass to pass, so
    that chains with different starts can still have different numbers of topics at the end; compare them with
    `n_chains` or different `init`. Start with more topics than you expect: superfluous topics end sooner than new ones
    begin.

    `score`, `perplexity` and `transform` use ``components_`` and ``doc_topic_prior_``.

    References
    ----------
    .. [1] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei, "Hierarchical Dirichlet processes", JASA 101, 2006.
    .. [2] S. Jain and R. M. Neal, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture
       model", JCGS 13, 2004.

    Examples
    --------
    >>> from skmanifold import HDPAdmixture
    >>> from skmanifold.datasets import make_lda_corpus
    >>> X = make_lda_corpus(n_samples=200, n_features=100, n_components=5, random_state=0).data
    >>> hdp = HDPAdmixture(max_iter=100, random_state=0).fit(X)
    >>> hdp.transform(X[:3]).shape == (3, hdp.n_components_)
    True
    """

    _samplers = {Gibbs.short_name: Gibbs}  # noqa: RUF012
    _runs_in_shards = True
    _unit = "token"
    _parameter_constraints = {  # noqa: RUF012
        "concentration": _CONCENTRATION,
        "topic_concentration": _CONCENTRATION,
        "topic_word_prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "topic_concentration_prior": ["array-like"],
        "init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), HasMethods(["transform"])],
        "n_split_merge": [Interval(Integral, 0, None, closed="left")],
        "max_components": [Interval(Integral, 1, _MOST_TOPICS, closed="both")],
    }

    _: KW_ONLY
    concentration: float | None = None
    topic_concentration: float | None = None
    topic_word_prior: float | ArrayLike = 0.1
    concentration_prior: ArrayLike = (1.0, 1.0)
    topic_concentration_prior: ArrayLike = (1.0, 0.1)
    sampler: str | BaseSampler = "gibbs"
    init: Literal["auto"] | int | Any = "auto"
    n_split_merge: int = 12
    max_components: int = 1000
    max_iter: int = 400
    burn_in: int | None = None
    thin: int = 2
    n_chains: int = 1
    max_draws_bytes: int = 2**28
    n_stored_rows: int = 0
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: AnyDocuments, y: Ignored = None) -> Self:
        """Fit the model to a corpus.

        Inside ``with distributed(client):`` (:func:`~skmanifold.distributed`) the documents are sent to the workers of
        the cluster, or read there. Tokens are drawn there; births, splits and merges in this process, which receives
        the documents or tokens that they need.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus, list of Corpus, RowFiles, or Dask \
                collection
            Counts of words in documents; fractional counts are rounded at random. A
            :class:`~skmanifold.datasets.Corpus` and :class:`~skmanifold.datasets.RowFiles` are read into memory: of the
            workers inside ``with distributed(client):``, where X can also be a Dask array, data frame or bag.
        y : Ignored

        Returns
        -------
        self : HDPAdmixture

        Raises
        ------
        ValueError
            If X has values that are negative or not finite, no tokens, or too many tokens; if a prior has the wrong
            shape or sign; or if `init` has more than `max_components` topics, or topics of other words.
        NotFittedError
            If `init` is an estimator that is not fitted.
        IncompatibleError
            If the sampler needs a method that the model does not have.

        Warns
        -----
        ConvergenceWarning
            If the number of topics reached `max_components`.
        """
        return self._fit(X)

    def transform(self, X: Stored) -> np.ndarray:  # type: ignore[override]  # one estimate, not several draws
        """Infer the topic proportions of documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents; fractional counts are weights. A :class:`~skmanifold.datasets.Corpus`, or a
            list of them, is read from disk in blocks, with the same result as in memory.

        Returns
        -------
        doc_topic : ndarray of shape (n_samples, n_components_)
            Modes of the posterior of the proportions in softmax coordinates, given ``components_``; rows sum to 1.

        Raises
        ------
        ValueError
            If X has values that are negative or not finite, or another number of features than in `fit`.
        """
        return self._infer(X, average_draws=False)

    def to_fixed(self) -> StochasticLDA:
        """A fitted `StochasticLDA` with the topics of ``components_``, for `partial_fit`.

        Returns
        -------
        lda : StochasticLDA
            Its `doc_topic_prior` is ``doc_topic_prior_`` and its `topic_word_prior` is ``topic_word_prior_``. It has
            the same `transform` and `score`, and `partial_fit` continues from ``topic_word_counts_``. `fit` would begin
            again, with the same priors. It counts as fitted by one minibatch and has no ``posterior_``.
        """
        check_is_fitted(self)
        lda = StochasticLDA(
            self.n_components_,
            doc_topic_prior=self.doc_topic_prior_.copy(),
            topic_word_prior=self.topic_word_prior_,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        fitted = {name: value for name, value in vars(self).items() if name in _SHARED_WITH_FIXED}
        lda.__dict__.update(fitted, sampler_=lda._resolve_sampler(), _stream=None, n_batch_iter_=1)
        return lda

    @property
    def n_components_posterior_(self) -> np.ndarray:
        """Posterior probabilities of 0, 1, 2, ... topics with tokens."""
        check_is_fitted(self)
        return posterior_of_number(self._posterior["n_components"], self.n_components_)

    def _strategy(self, X: Any, run: Run) -> FitStrategy:
        return HDPFit(self, X, run)

    def _kept_draws(self) -> list:
        return []  # draws have different topics

    def _draw_from_prior(self, n_features: int | None, lengths: np.ndarray, key: np.uint64) -> tuple[Any, dict]:
        n_features = self.n_features_in_ if n_features is None else n_features
        rng = np.random.default_rng(int(subkey(key, Purpose.PRIOR)))
        given = ConcentrationPriors.of(self)
        alpha = concentration_or_draw(rng, given.alpha, *given.alpha_prior)
        gamma = concentration_or_draw(rng, given.gamma, *given.gamma_prior)
        tables = [draw_partition(rng, n, alpha) if n else np.zeros(0, np.int32) for n in lengths]
        n_tables = np.array([of.max(initial=-1) + 1 for of in tables])
        topics = draw_partition(rng, n_tables.sum(), gamma) if n_tables.any() else np.zeros(0, np.int32)
        n_topics = int(topics.max(initial=-1)) + 1
        first = np.cumsum(n_tables) - n_tables
        counts = np.zeros((len(lengths), n_topics), np.int64)
        for row, of in enumerate(tables):
            np.add.at(counts[row], topics[first[row] + of], 1)
        prior = np.broadcast_to(TopicPrior(self.topic_word_prior, 1, n_features).values, (n_topics, n_features))
        components = draw_dirichlet(prior, subkey(key, Purpose.TOPICS))
        X = draw_words(topic_word_from_array(components), counts, subkey(key, Purpose.ROWS))
        return X, {
            "n_components": np.array(n_topics),
            "concentration": np.array(alpha),
            "topic_concentration": np.array(gamma),
            "topic_weights": rng.dirichlet(np.append(np.bincount(topics), gamma))[:-1],
            "components": components,
            "doc_topic_counts": counts,
        }

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "topic_weights_")
