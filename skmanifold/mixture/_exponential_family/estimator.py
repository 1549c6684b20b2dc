"""Mixtures of exponential families, one estimator for all of them."""

from __future__ import annotations

from numbers import Integral, Real
from typing import ClassVar, Literal, Self

import numpy as np
from sklearn.base import DensityMixin

from ...base import (
    BaseSampledEstimator,
    FitStrategy,
    Minibatch,
    Run,
    StreamStrategy,
    draws_parameters,
    takes_minibatches,
)
from ...callbacks._hooks import labels_of_all
from ...emissions import EMISSIONS, BaseEmission
from ...emissions._estimator import WithEmission
from ...numerics.block_sums import BlockSums
from ...samplers import EM, ESCA, BaseSampler, Gibbs
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .conditions import fitted_mixture
from .fit_strategies import RowsFit, RowsStream
from .inference import FamilyInference


@fitted_mixture
class ExponentialFamilyMixture(FamilyInference, WithEmission, DensityMixin, BaseSampledEstimator):
    r"""Mixture of an exponential family: Gaussians, latent classes, clusters of documents or of counts.

    .. math:: w \sim \mathrm{Dir}(\alpha), \quad z_i \sim \mathrm{Cat}(w), \quad x_i \mid z_i = k \sim p(x \mid \eta_k),

    with a conjugate prior of the parameters :math:`\eta_k`, which belongs to the emission.

    Parameters
    ----------
    n_components : int, default=1
        Number of components K.
    emission : {"bernoulli", "gaussian", "multinomial", "poisson"} or instance, default="gaussian"
        How rows are distributed given their component, with the prior's hyperparameters:
        :class:`~skmanifold.emissions.Bernoulli`, :class:`~skmanifold.emissions.Gaussian`,
        :class:`~skmanifold.emissions.Multinomial` or :class:`~skmanifold.emissions.Poisson`. A name stands for its
        defaults.
    sampler : {"esca", "em", "gibbs"} or instance, default="esca"
        How the parameters are found:

        - ``"esca"`` (:class:`~skmanifold.samplers.ESCA`): stochastic EM. A pass draws the components of all rows and
          sets the parameters to their mode; the noise leaves plateaus behind, the average of the last passes is near a
          maximum. Also learns from minibatches.
        - ``"em"`` (:class:`~skmanifold.samplers.EM`): climbs to a mode and stops there.
        - ``"gibbs"`` (:class:`~skmanifold.samplers.Gibbs`): draws parameters and components from the posterior.
    weight_prior : float, default=None
        Dirichlet parameter :math:`\alpha` of each weight; None is ``1 / n_components``.
    init : {"k-means++", "random"} or array-like of shape (n_samples,), default="k-means++"
        Initial labels. For Gaussian rows, those of k-means, features scaled to equal ranges ([3]_); for others, those
        of seeds that are chosen among the rows as k-means++ does, by likelihood. Or labels at random, from which it
        takes longer; or given labels, whole numbers from 0 to K - 1.
    max_iter : int, default=200
        Passes over the data, burn-in included; the most of them for "em".
    burn_in : int, default=None
        Passes thrown away; None is half of them.
    thin : int, default=2
        After burn-in every `thin`-th pass is kept in ``posterior_``.
    n_init : int, default=5
        Initial labels of each chain: after a few passes of stochastic EM from each, the one with the highest log
        likelihood goes on. 1 leaves out these passes. Of no use where `init` gives the labels.
    n_chains : int, default=1
        Independent chains with initial labels of their own. The estimate is that of the chain with the highest mean log
        likelihood after burn-in, for "em" of the highest in the end.
    n_polish : int, default=0
        Passes of EM that the estimate is improved by in the end, which makes a mode of the average that "esca" and
        "gibbs" end with.
    n_predictive_draws : int, default=10
        Samplers that draw the parameters only: draws, evenly spaced, over which `score_samples` averages.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t moves the statistics by ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
    max_draws_bytes : int, default=2**28
        Memory that draws of parameters may take; where they would need more, fewer are kept, evenly spaced.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is the same, bit for bit, for every `n_jobs`.
    n_jobs : int, default=None
        Threads; None is 1, -1 all cores. Chains take them first.
    verbose : int, default=0
        Print the log likelihood every `verbose` passes.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Shares of the components.
    components_ : ndarray of shape (n_components, n_features)
        What a row of each component is expected to be: probabilities of ones, probabilities of words, means or rates.
    covariances_ : ndarray of shape (n_components, n_features, n_features) or (n_components, n_features)
        Gaussian components only: covariances, or variances.
    labels_ : ndarray of shape (n_samples,)
        The likeliest component of each fitted row. Not set by `partial_fit`.
    emission_ : BaseEmission
        The emission, as it was used.
    sampler_ : BaseSampler
        The sampler that ran.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        After burn-in: ``"log_likelihood"`` of the parameters before each pass, ``"weights"``, and ``"components"``, as
        many as `max_draws_bytes` allow. Of "gibbs" these are draws from the posterior, of the others what the passes
        went through. Components may change places from draw to draw.
    best_chain_ : int
        The chain that the estimate comes from.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of every pass, burn-in included. Not set by `partial_fit`.
    converged_ : bool
        "em" only: whether the passes ended because nothing was gained any more.
    n_iter_ : int
        Passes over the data. Not set by `partial_fit`.
    n_batch_iter_ : int
        Minibatches seen by `partial_fit` since the last `fit`.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPCategoricalMixture : As many components as the rows ask for.
    sklearn.mixture.GaussianMixture : Gaussian mixtures by EM.

    Notes
    -----
    The statistics of ESCA's last passes are averaged (`n_average`), of Gibbs all after burn-in, and the parameters that
    these and the prior make most probable are the estimate. Averages of "gibbs" mean something as long as components
    keep their places in the chain, which they do if they are apart; `score_samples` does not need that.

    A component without rows has the mode of its prior.

    References
    ----------
    .. [1] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [2] G. Celeux and J. Diebolt, "The SEM algorithm: a probabilistic teacher algorithm derived from the EM algorithm
       for the mixture problem", Computational Statistics Quarterly 2, 1985.
    .. [3] G. W. Milligan and M. C. Cooper, "A study of standardization of variables in cluster analysis", Journal of
       Classification 5, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import ExponentialFamilyMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3.0, 1.0, (300, 2)), rng.normal(3.0, 0.5, (100, 2))])
    >>> mixture = ExponentialFamilyMixture(2, random_state=0).fit(X)
    >>> sorted(mixture.weights_.round(2).tolist())
    [0.25, 0.75]
    >>> mixture.transform(X[:5]).shape  # membership probabilities, for the next step of a pipeline
    (5, 2)
    >>> counts = rng.poisson(np.where(rng.random((200, 1)) < 0.5, [[1.0, 9.0]], [[9.0, 1.0]]))
    >>> clusters = ExponentialFamilyMixture(2, emission="poisson", sampler="em", random_state=0).fit(counts)
    >>> bool(clusters.converged_)
    True
    """

    _samplers = {sampler.short_name: sampler for sampler in (ESCA, EM, Gibbs)}  # noqa: RUF012
    _emissions = EMISSIONS
    _read_by: ClassVar[dict] = {"n_predictive_draws": draws_parameters}
    _single_threaded = "all"
    _of_some_fits = ("converged_", "covariances_")
    _of_no_stream = (*BaseSampledEstimator._of_no_stream, "labels_", "converged_", "covariances_")
    _parameter_constraints: dict = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "emission": [StrOptions(set(EMISSIONS)), HasMethods(["bind", "read"])],
        "weight_prior": [None, Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "n_polish": [Interval(Integral, 0, None, closed="left")],
    }

    labels_: np.ndarray
    best_chain_: int
    converged_: bool
    n_batch_iter_: int
    _sums: BlockSums  # statistics of the estimate
    _n_summed_rows: float  # that they speak for

    def __init__(
        self,
        n_components: int = 1,
        *,
        emission: str | BaseEmission = "gaussian",
        sampler: str | BaseSampler = "esca",
        weight_prior: float | None = None,
        init: Literal["k-means++", "random"] | ArrayLike = "k-means++",
        max_iter: int = 200,
        burn_in: int | None = None,
        thin: int = 2,
        n_init: int = 5,
        n_chains: int = 1,
        n_polish: int = 0,
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
        self.weight_prior = weight_prior
        self.init = init
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_init = n_init
        self.n_chains = n_chains
        self.n_polish = n_polish
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
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Find the components of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as the emission has them: real numbers; zeros and ones; counts. Sparse ones of all but Gaussian rows
            stay sparse. NaN is missing for "bernoulli" and "poisson".
        y : None
            Ignored.

        Returns
        -------
        self : ExponentialFamilyMixture

        Raises
        ------
        ValueError
            If X has values that the emission does not take or fewer rows than components, or a parameter does not fit
            it, or the covariance of a Gaussian component becomes singular.
        IncompatibleError
            If the sampler asks what this model cannot answer.

        Warns
        -----
        ConvergenceWarning
            If "em", with a tolerance that is not 0, has not converged after `max_iter` passes.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Learn from one more minibatch of rows.

        Minibatch t of n rows gives statistics T_batch of labels drawn with the parameters as they are; the statistics
        become ``(1 - rate) T + rate (total_samples / n) T_batch`` with ``rate = (learning_offset + t) **
        -learning_decay``. They begin as those of the first minibatch after `n_first_sweeps` passes of ESCA over it: let
        it be large enough to show every component. Hyperparameters that depend on the data are set by it too. After
        `fit`, statistics go on from the fitted ones, scaled to `total_samples`.

        There only if the sampler takes minibatches.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.
        y : None
            Ignored.

        Returns
        -------
        self : ExponentialFamilyMixture

        Raises
        ------
        ValueError
            As `fit`; or if its width, `n_components`, the emission or the sampler is not what it was when fitting
            began.
        """
        return self._partial_fit(X)

    def fit_predict(self, X: MatrixLike, y: Ignored = None) -> np.ndarray:
        """Fit, and return the likeliest component of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as in `fit`.
        y : None
            Ignored.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            ``labels_``.
        """
        return labels_of_all(self.fit(X), X)

    def _strategy(self, X, run: Run) -> FitStrategy:
        return RowsFit(self, X, self._resolve_emission(), run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        emission = self._resolve_emission()
        if not batch.is_first and type(emission) is not type(self.emission_):
            was = type(self.emission_).__name__
            raise ValueError(f"emission {type(emission).__name__} cannot follow {was}: call fit.")
        return RowsStream(self, X, emission, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        super()._check_continues(sampler)
        K = self._family.n_components
        if self.n_components != K:
            raise ValueError(f"n_components={self.n_components} cannot follow {K} components: call fit.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_position")
