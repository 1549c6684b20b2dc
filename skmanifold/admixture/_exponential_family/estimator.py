"""Admixtures of exponential families: grades of membership, topics of words or word vectors, gamma-Poisson factors."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from ...base import (
    BaseSampledEstimator,
    FitStrategy,
    Minibatch,
    Run,
    StreamStrategy,
    draws_parameters,
    takes_minibatches,
)
from ...emissions import EMISSIONS, BaseEmission
from ...emissions._protocols import DirichletFamily, TokenFamily
from ...samplers import ESCA, BaseSampler, Gibbs
from ...sparse.counts import Counts, check_tokens
from ...topics.proportions import check_doc_topic_prior
from ...utils._protocol_check import offers
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .conditions import fitted_admixture
from .fit_strategies import ComponentsFit, ComponentsStream
from .inference import FamilyAdmixtureInference
from .token_laws import tokens_of

_MAX_COMPONENTS = 65_535  # a component is stored in 16 bits


@fitted_admixture
class ExponentialFamilyAdmixture(FamilyAdmixtureInference, BaseSampledEstimator):
    r"""Admixture of an exponential family: every token of a row has a component, in the row's own proportions.

    Row :math:`m` has proportions :math:`\theta_m \sim \mathrm{Dir}(\alpha)`; each of its tokens first takes a component
    :math:`k` from :math:`\theta_m`, then its value from the component's law, whose parameters have their conjugate
    prior ([1]_). What a token is depends on `emission`:

    - ``"bernoulli"`` (:class:`~skmanifold.emissions.Bernoulli`): grades of membership ([2]_). Each observed cell, 0
      or 1, is a token of its own: a person answers each question as one of the types would.
    - ``"multinomial"`` (:class:`~skmanifold.emissions.Multinomial`): counts of words, as in
      :class:`~skmanifold.StochasticLDA`, and with the same result.
    - ``"gaussian"`` (:class:`~skmanifold.emissions.Gaussian`): counts of words that are vectors, `word_vectors`, and
      normal given the component ([3]_).
    - ``"poisson"`` (:class:`~skmanifold.emissions.Poisson`): counts whose total is random too, the gamma-Poisson model
      ([4]_): :math:`x_{mv} \sim \mathrm{Poisson}(\sum_k \theta_{mk} \phi_{kv})` with intensities
      :math:`\theta_{mk} \sim \mathrm{Ga}(\alpha_k, b)` in place of proportions. Given a row's total, its tokens are
      those of the multinomial admixture.

    Whatever the family, a token of value :math:`v` takes component :math:`k` with probability proportional to
    :math:`(D_{mk} + \alpha_k) \, p(v \mid k)`, :math:`D_{mk}` being the row's tokens in it.

    Parameters
    ----------
    n_components : int, default=10
        Number of components K, at most 65,535.
    emission : str or BaseEmission instance, default="multinomial"
        The law of the tokens: a name, which stands for the defaults, or an instance, which has the priors of the
        parameters; it may be a user-defined :class:`~skmanifold.emissions.TokenEmission`.
    sampler : str or BaseSampler instance, default="esca"
        How the components are found: ``"esca"`` (:class:`~skmanifold.samplers.ESCA`), stochastic EM over all tokens in
        parallel; or ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`), draws from the posterior.
    word_vectors : array-like of shape (n_features, n_dims), default=None
        "gaussian" only, and needed there: the vector of each column of X.
    doc_topic_prior : float or array-like of shape (n_components,), default=None
        Dirichlet parameters :math:`\alpha` of the proportions; shapes of the intensities. None is
        ``1 / n_components``.
    intensity_rate : float, default=None
        "poisson" only: rate b of the intensities' gamma prior. None lets the prior expect as many tokens of a row as
        the first rows seen have on average. No effect on the components.
    max_iter : int, default=200
        Passes over the data, burn-in included.
    burn_in : int, default=None
        Passes thrown away; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Independent chains. ``components_`` is the estimate of the chain with the highest mean log density; the others
        tell whether it reproduces.
    n_predictive_draws : int, default=10
        "gibbs" only: draws, evenly spaced, over which `score` and `perplexity` average.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t moves the statistics by ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory that draws of whole components may take in ``posterior_``; where they would need more, fewer are kept,
        evenly spaced.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Of each component: probabilities of a one ("bernoulli"), of the words ("multinomial", "poisson"; rows sum to 1,
        float32, an AttributeError if it would take more than 4 GiB), or the mean vector ("gaussian", of shape
        (n_components, n_dims)). Made anew whenever asked for.
    covariances_ : ndarray of shape (n_components, n_dims, n_dims) or (n_components, n_dims)
        "gaussian" only: covariances, or variances where the emission has no others.
    token_counts_ : csr_array of shape (n_components, n_tokens), float64
        Expected number of each token in each component (for `partial_fit`, in `total_samples` rows). For "bernoulli"
        the tokens are a zero and a one of each feature in turn, else the features.
    doc_topic_prior_ : ndarray of shape (n_components,)
        The prior of the proportions.
    intensity_rate_ : float
        "poisson" only: b, as given or from the data.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_likelihood"`` of each pass (for "esca" log p(tokens | parameters, proportions) at
        the estimates, for "gibbs" the sum of each token's log probability given its row's others), of shape (n_chains,
        n_draws); ``"topic_weights"``, the components' shares of the tokens; and, as many as `max_draws_bytes` allows,
        ``"components"`` and for "gaussian" ``"covariances"``: draws, or of ESCA estimates.
    best_chain_ : int
        The chain that ``components_`` comes from, the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of every pass, burn-in included: has it converged? Not set by `partial_fit`.
    emission_ : BaseEmission
        The emission that was used.
    sampler_ : BaseSampler
        The sampler that ran.
    n_iter_ : int
        Passes over the data; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    StochasticLDA : The multinomial admixture, with more samplers.

    Notes
    -----
    X is dense or sparse. For "bernoulli" it has zeros, ones and NaN, a missing cell, which is no token; zeros of a
    sparse X are observed, so that memory and time are those of a dense one: four bytes and more for each cell. The
    others take counts, and refuse NaN. To be fitted, fractions are rounded at random, up with the probability of the
    fraction, from a stream keyed by row and column, with a warning if this moves more than 5% of their sum;
    `transform`, `predict`, `score` and `perplexity` take fractions as they are. Rows without tokens are allowed; their
    proportions are the prior's mean.

    For "bernoulli" and "gaussian" a table of all tokens' densities given all components is made in each pass; for
    "multinomial" and "poisson" memory is that of non-zero counts.

    Tokens begin in components at random, of "gaussian" in clusters of their vectors (k-means from seeds that each chain
    draws for itself). A run may end in a local mode: `n_chains` tries several.

    References
    ----------
    .. [1] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [2] E. A. Erosheva, S. E. Fienberg and C. Joutard, "Describing disability through individual-level mixture
       models for multivariate binary data", Annals of Applied Statistics 1, 2007.
    .. [3] R. Das, M. Zaheer and C. Dyer, "Gaussian LDA for topic models with word embeddings", ACL 2015.
    .. [4] J. Canny, "GaP: a factor model for discrete data", SIGIR 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyAdmixture
    >>> rng = np.random.default_rng(0)
    >>> types = np.array([[0.9, 0.9, 0.9, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.9, 0.9, 0.9]])
    >>> X = rng.random((300, 6)) < rng.dirichlet([0.5, 0.5], 300) @ types
    >>> grades = ExponentialFamilyAdmixture(2, emission="bernoulli", random_state=0).fit(X)
    >>> grades.components_.shape
    (2, 6)
    >>> grades.transform(X[:3]).shape
    (3, 2)
    """

    _samplers = {sampler.short_name: sampler for sampler in (ESCA, Gibbs)}  # noqa: RUF012
    _read_by: ClassVar[dict] = {"n_predictive_draws": draws_parameters}
    _single_threaded = "blas"
    _of_some_fits = ("intensity_rate_",)
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, _MAX_COMPONENTS, closed="both")],
        "emission": [StrOptions(set(EMISSIONS)), HasMethods(["get_params", "set_params"])],
        "word_vectors": [None, "array-like"],
        "doc_topic_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "intensity_rate": [None, Interval(Real, 0, None, closed="neither")],
    }

    _n_counted_rows: int  # the rows that _topic_counts speaks for
    n_batch_iter_: int

    def __init__(
        self,
        n_components: int = 10,
        *,
        emission: str | BaseEmission = "multinomial",
        sampler: str | BaseSampler = "esca",
        word_vectors: ArrayLike | None = None,
        doc_topic_prior: float | ArrayLike | None = None,
        intensity_rate: float | None = None,
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
        self.emission = emission
        self.sampler = sampler
        self.word_vectors = word_vectors
        self.doc_topic_prior = doc_topic_prior
        self.intensity_rate = intensity_rate
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

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Find the components of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; for "bernoulli" zeros, ones and NaN.
        y : None
            Ignored.

        Returns
        -------
        self : ExponentialFamilyAdmixture

        Raises
        ------
        ValueError
            If X has values that the emission cannot make, no tokens at all or too many (more than 100,000,000 in a row
            or 2,147,483,647 in all), or a prior has the wrong shape or sign, or a parameter is given that belongs to
            another emission.
        IncompatibleError
            If the sampler needs what the model or its emission does not offer.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Learn from one more minibatch of rows.

        Minibatch t of n rows gives counts T_batch by `n_local_sweeps` passes over its tokens with the parameters
        frozen; the statistics become ``(1 - rate) T + rate (total_samples / n) T_batch`` with
        ``rate = (learning_offset + t) ** -learning_decay``. They begin as those of the first minibatch after
        `n_first_sweeps` passes in which the parameters move too: let it be large enough to show every component. After
        `fit`, they go on from the fitted ones, scaled to `total_samples`. The emission, with priors that depend on the
        data, stays that of the beginning.

        There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows, as in `fit`.
        y : None
            Ignored.

        Returns
        -------
        self : ExponentialFamilyAdmixture

        Raises
        ------
        ValueError
            If X has values that the emission cannot make, no tokens at all or too many (as in `fit`), or its width,
            `n_components` or the kind of emission is not what it was when fitting began.
        """
        return self._partial_fit(X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        return ComponentsFit(self, X, self._resolve_emission(), run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        emission = self._resolve_emission()
        if not batch.is_first:
            self._check_unchanged(emission)
        return ComponentsStream(self, X, emission, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        if self.n_components != self._n_features_out:
            raise ValueError(
                f"n_components={self.n_components} cannot follow {self._n_features_out} components: call fit."
            )

    def _resolve_emission(self) -> Any:
        """A fresh emission, and a ValueError if what belongs to another is given, or what it needs is not."""
        emission = super()._resolve_emission()
        if self.word_vectors is not None and not emission.has_vector_tokens:
            raise ValueError(f"word_vectors are for emission='gaussian', not {self.emission!r}.")
        if self.intensity_rate is not None and not emission.has_random_totals:
            raise ValueError(f"intensity_rate is for emission='poisson', not {self.emission!r}.")
        if self.word_vectors is None and emission.has_vector_tokens:
            raise ValueError(f"emission={self.emission!r} needs word_vectors, one for each column of X.")
        return emission

    def _check_unchanged(self, emission: BaseEmission) -> None:
        if type(emission) is not type(self.emission_):
            raise ValueError(f"emission={emission!r} cannot go on where {self.emission_!r} stopped: call fit.")

    def _row_prior(self) -> np.ndarray:
        alpha = 1.0 / self.n_components if self.doc_topic_prior is None else self.doc_topic_prior
        return check_doc_topic_prior(
            np.full(self.n_components, alpha) if np.ndim(alpha) == 0 else alpha, self.n_components
        )

    def _read(self, emission: BaseEmission, X, key: np.uint64, *, reset: bool) -> Counts:
        """Rows to fit."""
        counts = emission.read_tokens(self, X, key, reset=reset)
        if counts.n_tokens == 0:
            raise ValueError("X has no tokens: all cells are missing or zero, or fractions that were rounded to it.")
        check_tokens(counts)
        return counts

    def _begin(self, emission: Any, counts: Counts) -> dict[str, Any]:
        """What is settled by the first rows."""
        family: Any = emission.bind_tokens(counts, self.n_components, self.word_vectors)
        if not offers(family, DirichletFamily):
            self._check_family(emission, family, [TokenFamily], type(self).__name__)
            self._check_sampler_and_family(emission, family)
        begun: dict[str, Any] = {"emission_": emission, "_tokens": tokens_of(family, counts.n_features)}
        if emission.has_random_totals:
            rate = self.intensity_rate
            if rate is None:
                rate = self._row_prior().sum() * counts.n_rows / counts.n_tokens
            begun["intensity_rate_"] = float(rate)
        return begun

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "doc_topic_prior_")
