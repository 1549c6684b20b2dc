"""Latent Dirichlet allocation with pluggable samplers."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np

from ...base import (
    BaseSampledEstimator,
    FitStrategy,
    Minibatch,
    Run,
    StreamStrategy,
    draws_parameters,
    samples_density,
    takes_minibatches,
)
from ...inference._corpus_blocks import Stored
from ...samplers import (
    CVB0,
    ESCA,
    SCIR,
    SGHMC,
    SGLD,
    SGRHMC,
    SGRLD,
    BaseSampler,
    CollapsedGibbs,
    Gibbs,
    PolynomialDecay,
)
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike, DaskLike, Ignored, RandomStateLike, available_if, fit_context
from .._posterior.inference import TopicInference
from .._posterior.uncertainty import TopicUncertainty
from .conditions import fitted_topics as holds_topics
from .fit_strategies import fit_strategy, stream_strategy

_MAX_COMPONENTS = 65_535  # a topic is stored in 16 bits
Documents: TypeAlias = Stored | DaskLike


@holds_topics
class StochasticLDA(TopicInference, TopicUncertainty, BaseSampledEstimator):
    r"""Latent Dirichlet allocation: topics of documents, fitted by a sampler of choice.

    Document :math:`m` has proportions :math:`\theta_m \sim \mathrm{Dir}(\alpha)`, topic :math:`k` has word
    probabilities :math:`\phi_k \sim \mathrm{Dir}(\beta_k)`; each token first takes a topic from :math:`\theta_m`, then
    a word from that topic.

    Parameters
    ----------
    n_components : int, default=10
        Number of topics K, at most 65,535.
    sampler : str or BaseSampler instance, default="esca"
        How the topics are found. By passes over all documents:

        - ``"esca"`` (:class:`~skmanifold.samplers.ESCA`): stochastic EM over all tokens in parallel; the fastest.
        - ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`): draws from the posterior, documents in parallel.
        - ``"collapsed_gibbs"`` (:class:`~skmanifold.samplers.CollapsedGibbs`): draws from the posterior; one core a
          chain, fewer passes.
        - ``"cvb0"`` (:class:`~skmanifold.samplers.CVB0`): deterministic variational; memory K times the pairs.

        By minibatches, drawing the topics from (an approximation of) their posterior:

        - ``"scir"`` (:class:`~skmanifold.samplers.SCIR`): no discretisation error, whatever the prior; a step
          costs what the minibatch's words cost.
        - ``"sgrld"``, ``"sgrhmc"`` (:class:`~skmanifold.samplers.SGRLD`, :class:`~skmanifold.samplers.SGRHMC`):
          Riemannian, in the expanded mean; wrong where `topic_word_prior` is below 1/2, with a warning.
        - ``"sgld"``, ``"sghmc"`` (:class:`~skmanifold.samplers.SGLD`, :class:`~skmanifold.samplers.SGHMC`): the same
          without a metric, mirrored at zero; for comparison: rare words throw them off at any prior.

        A name stands for the settings of the sampler's paper, where it has any for topics.
    doc_topic_prior : float, array-like of shape (n_components,) or "auto", default=None
        Dirichlet parameters :math:`\alpha` of the proportions; a vector makes some topics commoner than others.
        "auto" learns one a topic during burn-in: Minka's fixed point on the counts of each pass ([3]_, [4]_), for
        samplers by passes. None is ``1 / n_components``.
    topic_word_prior : float, array-like or "auto", default=None
        Dirichlet parameters :math:`\beta` of the topics: a number, one number a word (shape (n_features,)), or a
        matrix of shape (n_components, n_features), which lets topics be seeded with words of one's own. Shape
        (n_components, 1) gives each topic a number. "auto" learns one number during burn-in. None is 0.1.
    batch_size : int, default=50
        Samplers by minibatches only: documents of a minibatch in `fit`, drawn without replacement at each step. None is
        all. Other samplers warn where it is set.
    n_local_sweeps : int, default=20
        Samplers by minibatches only: sweeps of Gibbs sampling within each document of a minibatch.
    n_local_burn_in : int, default=10
        How many of these go before the counts are kept, whose mean is used.
    max_iter : int, default=200
        Passes over the data, burn-in included.
    burn_in : int, default=None
        Passes thrown away; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``; of a stream, every `thin`-th minibatch.
    n_chains : int, default=1
        Independent chains. ``components_`` is the estimate of the chain with the highest mean log density; the others
        tell whether it reproduces.
    n_predictive_draws : int, default=10
        Samplers that draw the topics only: draws, evenly spaced, over which `score` and `perplexity` average.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of documents D in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t moves the statistics by ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory that draws of whole topics may take in ``posterior_``; where they would need more, fewer are kept, evenly
        spaced.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features), float32
        Word probabilities of each topic; rows sum to 1. Made anew from sparse counts whenever asked for; an
        AttributeError if it would take more than 4 GiB.
    topic_word_counts_ : csr_array of shape (n_components, n_features), float64
        Samplers by passes, and ESCA on streams: expected number of tokens of each word in each topic, as estimated
        (for `partial_fit`, in `total_samples` documents). Plus ``topic_word_prior_`` and divided by its rows' sums it
        is ``components_``; the other samplers' ``components_`` is the mean of their draws.
    doc_topic_prior_ : ndarray of shape (n_components,)
        The prior of the proportions, as given or learned.
    topic_word_prior_ : float or ndarray
        The prior of the topics, as given or learned.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_likelihood"`` (log p(words | topics, proportions) at the estimate of each pass; for
        collapsed Gibbs ``"log_joint"``, log p(words, tokens' topics); for the others that draw topics the sum of each
        token's log probability given its document's others), of shape (n_chains, n_draws); ``"topic_weights"``, the
        topics' shares of the tokens; and ``"components"``, as many as `max_draws_bytes` allows: draws of the topics, or
        of ESCA and CVB0 estimates. There are ``(max_iter - burn_in) // thin`` draws, fewer after an early stop. Of a
        stream they are those of its second half (log likelihoods per token), for samplers that draw the topics.
    best_chain_ : int
        The chain that ``components_`` comes from, the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood (or joint) of every pass, burn-in included: has it converged? Not set by `partial_fit`.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the data; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of words.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    sklearn.decomposition.LatentDirichletAllocation : Online variational Bayes.

    Notes
    -----
    X holds counts: a document a row, a word a column, dense or sparse. `fit` and `partial_fit` round fractions at
    random, keyed by row and column, and warn if this moves over 5% of the sum; other methods take them as weights.
    Empty documents are allowed; their proportions are the prior's mean.

    `transform` solves for each document the fixed point of

    .. math:: D_k = \sum_v c_v \frac{(D_k + \alpha_k) \phi_{kv}}{\sum_l (D_l + \alpha_l) \phi_{lv}},
        \qquad \theta_k = \frac{D_k + \alpha_k}{\sum_v c_v + \sum_l \alpha_l},

    which is deterministic and does not depend on the other documents.

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
        sampler.short_name: sampler for sampler in (ESCA, Gibbs, CollapsedGibbs, CVB0, SCIR, SGRLD, SGRHMC, SGLD, SGHMC)
    }
    _settings = {  # of section F.2 of [6] and table 2 of [7], where SCIR's h falls more slowly  # noqa: RUF012
        "scir": {"step_size": PolynomialDecay(0.5, 10.0, 0.6)},
        "sgrld": {"step_size": PolynomialDecay(0.01, 1000.0, 0.6)},
        "sgrhmc": {"step_size": 0.02},
        "sgld": {"step_size": 0.01},
        "sghmc": {"step_size": 0.1, "scheme": "euler"},
    }
    _read_by: ClassVar[dict] = {
        **dict.fromkeys(("batch_size", "n_local_sweeps", "n_local_burn_in"), samples_density),
        "n_predictive_draws": draws_parameters,
    }
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, _MAX_COMPONENTS, closed="both")],
        "doc_topic_prior": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "topic_word_prior": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "batch_size": [None, Interval(Integral, 1, None, closed="left")],
        "n_local_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_local_burn_in": [Interval(Integral, 0, None, closed="left")],
    }

    _n_counted_rows: int  # the documents that _topic_counts speaks for
    topic_word_prior_: float | np.ndarray
    n_batch_iter_: int

    def __init__(
        self,
        n_components: int = 10,
        *,
        sampler: str | BaseSampler = "esca",
        doc_topic_prior: float | ArrayLike | Literal["auto"] | None = None,
        topic_word_prior: float | ArrayLike | Literal["auto"] | None = None,
        batch_size: int | None = 50,
        n_local_sweeps: int = 20,
        n_local_burn_in: int = 10,
        max_iter: int = 200,
        burn_in: int | None = None,
        thin: int = 2,
        n_chains: int = 1,
        n_predictive_draws: int = 10,
        total_samples: int = 1_000_000,
        learning_decay: float = 0.7,
        learning_offset: float = 10.0,
        max_draws_bytes: int = 2**28,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.sampler = sampler
        self.doc_topic_prior = doc_topic_prior
        self.topic_word_prior = topic_word_prior
        self.batch_size = batch_size
        self.n_local_sweeps = n_local_sweeps
        self.n_local_burn_in = n_local_burn_in
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.n_predictive_draws = n_predictive_draws
        self.total_samples = total_samples
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.max_draws_bytes = max_draws_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Documents, y: Ignored = None) -> Self:
        """Find the topics of a corpus.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of words in documents.
        y : None
            Ignored.

        Returns
        -------
        self : StochasticLDA

        Warns
        -----
        UserWarning
            If a parameter is set that the sampler does not use, such as `batch_size` with a sampler by passes.

        Raises
        ------
        ValueError
            If X has negative or non-finite values, no tokens at all or too many (more than 100,000,000 in a document,
            or 2,147,483,647 in a matrix), or a prior has the wrong shape or sign.
        IncompatibleError
            If the sampler asks what this model cannot answer.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Stored, y: Ignored = None) -> Self:
        """Learn from one more minibatch of documents.

        With ESCA, minibatch t of n documents gives counts T_batch by `n_local_sweeps` passes over its tokens with
        the topics frozen; the statistics become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. They begin as those of the first minibatch after
        `n_first_sweeps` passes in which the topics move too: let it be large enough to show every topic. After `fit`,
        they go on from the fitted ones, scaled to `total_samples`.

        The samplers by minibatches make one step, with ``total_samples / n`` times the counts; they go on from where
        `fit` left them. SCIR begins, in a stream as in `fit`, with topics of the first minibatch after two passes of
        ESCA over it. ``components_`` is then the mean of draws in the second half of the stream.

        There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or Corpus
            Counts of words in documents. A :class:`~skmanifold.datasets.Corpus`, or a list of several, is one
            minibatch, which is read into memory; ``corpus.rows(start, stop)`` is a part of it.
        y : None
            Ignored.

        Returns
        -------
        self : StochasticLDA

        Raises
        ------
        ValueError
            If X has negative or non-finite values, no tokens at all or too many (as in `fit`), or its width or
            `n_components` or the sampler is not what it was when fitting began.
        """
        return self._partial_fit(X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        return fit_strategy(self, X, run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        return stream_strategy(self, X, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        if self.n_components != self._n_features_out:
            raise ValueError(f"n_components={self.n_components} cannot follow {self._n_features_out} topics: call fit.")
        if self._stream or samples_density(sampler):  # samplers of the tokens' topics continue from counts
            super()._check_continues(sampler)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "doc_topic_prior_")
