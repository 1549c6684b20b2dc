"""Latent Dirichlet allocation with a choice of samplers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from operator import attrgetter
from typing import ClassVar, Literal, Self, TypeAlias

from ...base import (
    BaseSampledEstimator,
    FitStrategy,
    Minibatch,
    Run,
    StreamStrategy,
    samples_density,
    takes_minibatches,
)
from ...datasets import RowFiles
from ...inference._distributed_fits.sources import Stored
from ...samplers import (
    CVB0,
    EM,
    ESCA,
    SCIR,
    SGHMC,
    SGLD,
    SGRHMC,
    SGRLD,
    BaseSampler,
    CollapsedGibbs,
    Gibbs,
    MeanField,
    PolynomialDecay,
    StochasticMeanField,
)
from ...utils._sklearn import Interval, NumberOf, StrOptions
from ...utils._typing import ArrayLike, DaskLike, Ignored, RandomStateLike, available_if, fit_context
from .._posterior.inference import TopicInference
from .._posterior.uncertainty import TopicUncertainty
from .._tokens.fits import draws_documents, fits_by_minibatches
from .dirichlet_mle import DrawsTopicsFromPrior
from .edit_topics import EditsTopics
from .fit_strategies import fit_strategy, stream_strategy

_PASSES_OF_ESCA, _PASSES = 400, 200  # by default
_MAX_COMPONENTS = 65_535  # a topic is stored in 16 bits
AnyDocuments: TypeAlias = Stored | RowFiles | DaskLike
SeedWords: TypeAlias = Mapping[str, Sequence[str | int]] | Sequence[Sequence[str | int]] | None


@dataclass(eq=False, repr=False)
class StochasticLDA(DrawsTopicsFromPrior, EditsTopics, TopicInference, TopicUncertainty, BaseSampledEstimator):
    r"""Latent Dirichlet allocation with a choice of samplers.

    Document :math:`m` has topic proportions :math:`\theta_m \sim \mathrm{Dir}(\alpha)`, and topic :math:`k` has word
    probabilities :math:`\phi_k \sim \mathrm{Dir}(\beta_k)`. The topic of each token is drawn from :math:`\theta_m`, and
    its word from that topic.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K, at most 65,535.
    sampler : str or BaseSampler instance, default="esca"
        Sampling algorithm. Samplers by full passes over all documents:

        - ``"esca"`` (:class:`~skmanifold.samplers.ESCA`): stochastic EM with all tokens in parallel; the fastest. The
          name stands for ``ESCA(n_average=50, exclude_self=True)``; ``ESCA()`` is the algorithm of [2]_.
        - ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`): Gibbs sampling of the posterior, documents in parallel.
        - ``"collapsed_gibbs"`` (:class:`~skmanifold.samplers.CollapsedGibbs`): collapsed Gibbs sampling of the
          posterior; one core per chain, needs fewer passes.
        - ``"cvb0"`` (:class:`~skmanifold.samplers.CVB0`): deterministic variational inference; memory is proportional
          to K times the number of nonzero counts.
        - ``"em"`` (:class:`~skmanifold.samplers.EM`): the mode of proportions and topics. The fit ends early if it
          has converged; by name, `tol` is 1e-3.
        - ``"vb"`` (:class:`~skmanifold.samplers.MeanField`): mean-field variational inference with Dirichlet factors of
          topics and proportions ([1]_, [8]_), which maximises a lower bound of the evidence.

        Variational inference by minibatches:

        - ``"svb"`` (:class:`~skmanifold.samplers.StochasticMeanField`): the same with natural-gradient steps ([9]_).

        Minibatch samplers, which draw the topics from (an approximation of) their posterior:

        - ``"scir"`` (:class:`~skmanifold.samplers.SCIR`): no discretisation error for any prior; the cost of a step
          depends only on the words of the minibatch.
        - ``"sgrld"``, ``"sgrhmc"`` (:class:`~skmanifold.samplers.SGRLD`, :class:`~skmanifold.samplers.SGRHMC`):
          Riemannian, in the expanded-mean parametrisation. They are biased for a `topic_word_prior` below 1/2, and warn
          about it.
        - ``"sgld"``, ``"sghmc"`` (:class:`~skmanifold.samplers.SGLD`, :class:`~skmanifold.samplers.SGHMC`): the same
          without a metric, reflected at zero. For comparison only: they are inaccurate for rare words with any prior.

        The names of minibatch samplers use the settings of their papers.
    doc_topic_prior : float, array-like of shape (n_components,) or "auto", default=None
        Dirichlet parameters :math:`\alpha` of the proportions. With an array, topics have different prior proportions.
        "auto" learns one parameter per topic during burn-in, by Minka's fixed point on the counts of each pass ([3]_,
        [4]_); only for "esca", "gibbs", "collapsed_gibbs" and "cvb0". None is ``1 / n_components``. With None, "esca",
        "gibbs" and "collapsed_gibbs" have larger parameters in the first 80% of burn-in, because chains that begin with
        them find better topics: their sum decreases from a quarter of the mean length of a document, at most 50, to 1,
        by the same factor in each pass. A number is used in all passes.
    topic_word_prior : float, array-like or "auto", default=None
        Dirichlet parameters :math:`\beta` of the topics: a number; one number per word, shape (n_features,); one number
        per topic, shape (n_components, 1); or a matrix of shape (n_components, n_features), which can seed topics with
        chosen words. If X and the prior are data frames, columns are matched by name. "auto" learns one number during
        burn-in; only for the samplers that learn `doc_topic_prior`. None is 0.1, which is too large if the vocabulary
        has many rare words: "auto" then predicts new documents better.
    seed_words : dict of str to list of words, or list of lists of words, default=None
        Words that belong to chosen topics: entry k has the words of topic k; in a dict, its key is the name of the
        topic in `topics_as_frame`. The other topics have no seed words. A word is the name of a column (of a data
        frame, or of a :class:`~skmanifold.datasets.Corpus` with a vocabulary) or the index of a column. All tokens of a
        seed word have its topic; see Notes. Only for "esca", "gibbs", "collapsed_gibbs", "cvb0" and "scir".
        `partial_fit` uses the seed words of the first minibatch, or of the last `fit`.
    batch_size : int, default=50
        Minibatch samplers and "svb" only: number of documents in a minibatch of `fit`, drawn without replacement for
        each step ("svb" divides all documents into minibatches in each pass). None uses all documents. With other
        samplers a value other than the default gives a warning.
    n_local_sweeps : int, default=20
        Minibatch samplers only: number of Gibbs sweeps within each document of a minibatch.
    n_local_burn_in : int, default=10
        Minibatch samplers only: number of these sweeps to discard. The counts are averaged over the others.
    max_iter : int, default=None
        Number of passes over the data, burn-in included. None is 400 with "esca", which needs more passes than "gibbs"
        and "collapsed_gibbs" but less time for each, and 200 with other samplers.
    burn_in : int, default=None
        Number of initial passes to discard; None is half of `max_iter`.
    tol : float, default=None
        For samplers that estimate the topics, not for those that draw them. If given, burn-in ends early when all
        chains have settled, and the fit ends after the passes over which the sampler averages. A chain has settled when
        the mean log density of its last seven passes is less than that of the seven before plus `tol` nats per token;
        0.001 is a reasonable value. With the default `doc_topic_prior` this is checked after the passes with larger
        parameters, of which there are then at most 80. None makes `max_iter` passes.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``; in `partial_fit`, every `thin`-th minibatch.
    n_chains : int, default=1
        Number of independent chains. ``components_`` is the estimate of the chain with the highest mean log density.
        The other chains show whether the result is reproducible.
    n_predictive_draws : int, default=10
        Number of evenly spaced draws of the topics over which `score` and `perplexity` average; only for samplers that
        draw the topics.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of documents D in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: the weight of minibatch t in the statistics is
        ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values reduce the weight of the first minibatches.
    max_draws_bytes : int, default=2**28
        Largest memory for draws of the topics in ``posterior_``, in bytes. If they need more, fewer are kept, evenly
        spaced.
    n_stored_rows : int, default=0
        For "gibbs" and "collapsed_gibbs": number of documents, the first ones of X, whose
        numbers of tokens of each topic are kept in ``posterior_`` with each draw of the topics.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bit-identical for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. They are given to chains first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float32
        Word probabilities of each topic; rows sum to 1. The dense array is computed at each access. It raises an
        AttributeError if it would need more than 4 GiB.
    topic_word_counts_ : csr_array of shape (n_components, n_features), float64
        Expected number of tokens of each word in each topic (for `partial_fit`, in `total_samples` documents). Adding
        ``topic_word_prior_`` and normalising the rows gives ``components_``. Samplers that draw the topics by
        minibatches do not have it; their ``components_`` is the mean of their draws.
    doc_topic_prior_ : ndarray of shape (n_components,)
        The given or learned prior of the proportions.
    topic_word_prior_ : float or ndarray
        The given or learned prior of the topics.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in. There are ``(max_iter - burn_in) // thin`` draws, fewer after early stopping.

        - ``"log_likelihood"``, shape (n_chains, n_draws): log p(words | topics, proportions) at the estimate of each
          pass; for other samplers that draw topics, the sum over tokens of the log probability given the other tokens
          of the document. Collapsed Gibbs has ``"log_joint"`` instead, log p(words, topics of the tokens), and "vb" and
          "svb" have ``"objective"``, the lower bound of the evidence.
        - ``"topic_weights"``, shape (n_chains, n_draws, n_components): the topics' shares of the tokens.
        - ``"components"``, as many draws as `max_draws_bytes` allows: draws of the topics; for ESCA, CVB0, EM and
          variational inference estimates.
        - ``"doc_topic_counts"``, shape (n_chains, n, n_stored_rows, n_components): only with `n_stored_rows`, for the
          same draws as ``"components"``.

        After `partial_fit`, for samplers that draw the topics, these are the draws in the second half of the stream,
        and log likelihoods are per token.
    best_chain_ : int
        Index of the chain that ``components_`` comes from, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        Log likelihood (or log joint density, or lower bound of the evidence) after each pass, burn-in included; use it
        to check convergence. Not set by `partial_fit`.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes over the data; smaller than `max_iter` if `tol` or a callback ended the fit early. Not set by
        `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches used by `partial_fit` since the last `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Online variational Bayes.

    Notes
    -----
    X contains counts, dense or sparse: one row per document, one column per word. `fit` and `partial_fit` round
    fractional counts at random, with a seed that depends on row and column, and warn if this changes more than 5% of
    the sum. Other methods use fractional counts as weights. Empty documents are allowed; their proportions are the
    prior mean.

    With `seed_words`, where :math:`S_k` is the set of words of topic k, the prior of the topics is

    .. math:: \phi_k \sim \mathrm{Dir}(\beta'_k), \qquad \beta'_{kv} = \begin{cases}
        10^{-20} & \text{if } v \in S_l \text{ for an } l \neq k, \\ \beta_{kv} & \text{otherwise,} \end{cases}

    and tokens of the words in :math:`S_k` begin in topic k. The initial topics of other tokens are random as without
    seed words. The prior is the same in all passes, so samplers that draw from the posterior draw from that with this
    prior. Chains that begin with the seed words in their topics do not move them: it would need a draw of probability
    of the order of :math:`10^{-20}`. "cvb0" does not update the distributions over topics of these tokens.

    For each document, `transform` solves the fixed-point equation

    .. math:: D_k = \sum_v c_v \frac{(D_k + \alpha_k) \phi_{kv}}{\sum_l (D_l + \alpha_l) \phi_{lv}},
        \qquad \theta_k = \frac{D_k + \alpha_k}{\sum_v c_v + \sum_l \alpha_l},

    The result is deterministic and does not depend on the other documents.

    EM alternates these equations for all documents with the same for topics ([2]_, appendix B.2). Variational inference
    replaces probabilities by :math:`\exp(\psi(\cdot))` of Dirichlet parameters, with the digamma function
    :math:`\psi`:

    .. math:: r_{mvk} \propto e^{\psi(\gamma_{mk}) + \psi(\lambda_{kv}) - \psi(\sum_u \lambda_{ku})}, \qquad
        \gamma_{mk} = \alpha_k + \sum_v c_{mv} r_{mvk}, \qquad
        \lambda_{kv} = \beta_{kv} + \sum_m c_{mv} r_{mvk}.

    ``components_`` is the mean of the factors, and ``topic_word_counts_`` is :math:`\lambda - \beta`.

    In simulations of tiny corpora, intervals of 90% of probabilities of words contain the true value in 90% of the
    cases with "gibbs" and "collapsed_gibbs", 88 to 91% with "sgrld" and "sgrhmc", 84 to 86% with "scir", and 56 to 72%
    with "sgld" and "sghmc". Intervals of the passes of "esca" contain it in 51 to 70%; those of "cvb0" and "vb" have
    no meaning.

    References
    ----------
    .. [1] D. M. Blei, A. Y. Ng and M. I. Jordan, "Latent Dirichlet allocation", JMLR 3, 2003.
    .. [2] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [3] T. P. Minka, "Estimating a Dirichlet distribution", technical report, 2000.
    .. [4] H. M. Wallach, D. Mimno and A. McCallum, "Rethinking LDA: why priors matter", NIPS 2009.
    .. [5] S. Patterson and Y. W. Teh, "Stochastic gradient Riemannian Langevin dynamics on the probability simplex",
       NIPS 2013.
    .. [6] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015.
    .. [7] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth, "Large-scale stochastic sampling from the probability
       simplex", NeurIPS 2018.
    .. [8] M. D. Hoffman, D. M. Blei and F. Bach, "Online learning for latent Dirichlet allocation", NIPS 2010.
    .. [9] M. D. Hoffman, D. M. Blei, C. Wang and J. Paisley, "Stochastic variational inference", JMLR 14, 2013.

    Examples
    --------
    >>> from skmanifold import StochasticLDA
    >>> from skmanifold.datasets import make_lda_corpus
    >>> X = make_lda_corpus(n_samples=200, n_features=100, n_components=5, random_state=0).data
    >>> lda = StochasticLDA(n_components=5, random_state=0).fit(X)
    >>> lda.components_.shape
    (5, 100)
    >>> lda.transform(X[:3]).shape
    (3, 5)
    """

    _samplers = {  # noqa: RUF012
        sampler.short_name: sampler
        for sampler in (
            *(ESCA, Gibbs, CollapsedGibbs, CVB0, EM, MeanField, StochasticMeanField),
            *(SCIR, SGRLD, SGRHMC, SGLD, SGHMC),
        )
    }
    _settings = {  # noqa: RUF012
        "esca": {"n_average": 50, "exclude_self": True},
        "em": {"tol": 1e-3},  # a document has many tokens
        "vb": {"n_document_steps": 10, "n_restarts": 10},
        "svb": {"n_document_steps": 10, "n_restarts": 10},
        # Of section F.2 of [6] and table 2 of [7], where SCIR's h falls more slowly
        "scir": {"step_size": PolynomialDecay(0.5, 10.0, 0.6)},
        "sgrld": {"step_size": PolynomialDecay(0.01, 1000.0, 0.6)},
        "sgrhmc": {"step_size": 0.02},
        "sgld": {"step_size": 0.01},
        "sghmc": {"step_size": 0.1, "scheme": "euler"},
    }
    _unit = "token"
    _runs_in_shards = True
    _read_by: ClassVar[dict] = {
        "batch_size": fits_by_minibatches,
        **dict.fromkeys(("n_local_sweeps", "n_local_burn_in"), samples_density),
        "n_predictive_draws": attrgetter("draws_parameters"),
        "n_stored_rows": draws_documents,
    }
    _parameter_constraints = {  # noqa: RUF012
        "n_components": [NumberOf("HDPAdmixture infers the number of topics", _MAX_COMPONENTS)],
        "doc_topic_prior": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "topic_word_prior": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "seed_words": [None, Mapping, "array-like"],
        "n_local_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_local_burn_in": [Interval(Integral, 0, None, closed="left")],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "tol": [None, Interval(Real, 0, None, closed="left")],
    }

    n_components: int = 10
    _: KW_ONLY
    sampler: str | BaseSampler = "esca"
    doc_topic_prior: float | ArrayLike | Literal["auto"] | None = None
    topic_word_prior: float | ArrayLike | Literal["auto"] | None = None
    seed_words: SeedWords = None
    batch_size: int | None = 50
    n_local_sweeps: int = 20
    n_local_burn_in: int = 10
    max_iter: int | None = None
    burn_in: int | None = None
    tol: float | None = None
    thin: int = 2
    n_chains: int = 1
    n_predictive_draws: int = 10
    total_samples: int = 1_000_000
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    max_draws_bytes: int = 2**28
    n_stored_rows: int = 0
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: AnyDocuments, y: Ignored = None) -> Self:
        """Fit the model to a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus, list of Corpus, RowFiles, or Dask \
                collection
            Counts of words in documents; fractional counts are rounded at random. Accepted are

            - an array or a SciPy sparse matrix;
            - a :class:`~skmanifold.datasets.Corpus`, or a list of them, which is read from disk in pieces; requires
              ``sampler="esca"``;
            - :class:`~skmanifold.datasets.RowFiles`, which the workers of a cluster read; requires "esca" or "gibbs";
            - inside ``with distributed(client):`` (:func:`~skmanifold.distributed`), a Dask data frame, a Dask array
              whose blocks are dense or SciPy sparse matrices, or a Dask bag of documents. A document is a mapping from
              column index to count, or an array of column indices, one per token. Requires "esca" or "gibbs".
        y : Ignored

        Returns
        -------
        self : StochasticLDA

        Warns
        -----
        UserWarning
            If a parameter is set that the sampler does not use, such as `batch_size` with a sampler by full passes; or
            if rounding fractional counts changes more than 5% of their sum; or if seed words do not occur in X, and so
            have no effect.
        ConvergenceWarning
            If the log density after burn-in, with a sampler by full passes, still rises at the end of the fit by more
            than 0.005 nats per token in seven passes and by more than noise.

        Raises
        ------
        ValueError
            If X has values that are negative or not finite, no tokens, more than 100,000,000 tokens in a document or
            more than 2,147,483,647 in a matrix; if a prior has the wrong shape or sign; if a prior is "auto" and the
            sampler or the data do not allow it; if `tol` is given with a sampler that draws the topics or without
            burn-in; or if a seed word is not in X or in two topics, a topic has an empty
            list of seed words, there are more lists than topics, or the sampler does not allow seed words.
        TypeError
            If `seed_words` is not a mapping or sequence of lists of words or column indices.
        IncompatibleError
            If the sampler needs a method that the model does not have, or cannot read X from disk or from Dask.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Stored, y: Ignored = None) -> Self:
        """Update the model with one minibatch of documents.

        ESCA computes counts T_batch of the n documents of minibatch t by `n_local_sweeps` passes over its tokens with
        fixed topics. The statistics T become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. The initial statistics are those of the first minibatch
        after `n_first_sweeps` passes that also update the topics. Therefore the first minibatch should be large enough
        to contain every topic. After `fit`, the initial statistics are the fitted ones, scaled to `total_samples`.

        "svb" computes the factors of the documents with fixed topics and makes one natural-gradient step of the topics,
        of length ``rate``. The documents begin with equal shares of the topics. ESCA and "svb" can continue a fit by
        any sampler that has ``topic_word_counts_``.

        Minibatch samplers make one step, with the counts multiplied by ``total_samples / n``. After `fit`, they
        continue from its last state. The initial state of SCIR, here and in `fit`, is the topics of the first minibatch
        after two passes of ESCA over it. ``components_`` is the mean of the draws in the second half of the stream.

        A minibatch without tokens changes nothing but ``n_batch_iter_``. The estimator is fitted after the first
        minibatch with tokens.

        Available only if the sampler supports minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), Corpus or list of Corpus
            Counts of words in documents: one minibatch. A :class:`~skmanifold.datasets.Corpus`, or a list of them, is
            read into memory as a whole; use ``corpus.rows(start, stop)`` for a part of it.
        y : Ignored

        Returns
        -------
        self : StochasticLDA

        Raises
        ------
        ValueError
            If X has values that are negative or not finite, or too many tokens (see `fit`); if the number of features,
            `n_components` or the sampler changed since fitting began; or if a prior is "auto" and `fit` was not called
            before.
        IncompatibleError
            If the sampler needs a method that the model does not have.
        """
        return self._partial_fit(X)

    def _n_passes(self, sampler: BaseSampler) -> int:
        if self.max_iter is not None:
            return self.max_iter
        return _PASSES_OF_ESCA if isinstance(sampler, ESCA) else _PASSES

    def _strategy(self, X, run: Run) -> FitStrategy:
        return fit_strategy(self, X, run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy | None:
        return stream_strategy(self, X, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        self._check_number(self._n_features_out, "topics")
        if self._stream or samples_density(sampler):  # samplers of the tokens' topics continue from counts
            super()._check_continues(sampler)

    def _topic_names(self) -> dict[int, str]:
        return dict(enumerate(self.seed_words)) if isinstance(self.seed_words, Mapping) else {}
