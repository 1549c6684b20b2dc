"""Dirichlet process mixture of rows, with a choice of emissions."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from ...base import BaseSampledEstimator, FitStrategy, Run
from ...emissions import EMISSIONS, BaseEmission
from ...emissions._abilities import HasClusters, LearnsPrior
from ...emissions._clusters.base import Clusters
from ...emissions._estimator import WithEmission, sort_hyperparameters
from ...emissions._protocols import RowEmission
from ...emissions._registry import ROW_FAMILIES
from ...emissions._rounding import spread_rows
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler, Slice
from ...samplers._latent.stick_breaking import LEAST_CONCENTRATED, MOST_CONCENTRATED
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, fit_context
from .._imputation.imputation import ImputesCells, Memberships
from .conditions import fitted_mixture
from .fit_strategy import PartitionFit
from .inference import PartitionInference
from .model import check_settings
from .posterior_draws import PartitionDraw, draw_parameters, with_new
from .starts import find_clusters, labels_of_all, searched_rows, spread_start


@fitted_mixture
class DPMixture(WithEmission, ImputesCells, PartitionInference, DensityMixin, BaseSampledEstimator):
    r"""Dirichlet process mixture, which infers the number of clusters; for numbers, counts, events or categories.

    Each row belongs to one of infinitely many components, of which finitely many have rows:

    .. math::

        \omega_j = v_j \prod_{l<j} (1 - v_l), \; v_j \sim \mathrm{Beta}(1, \alpha), \quad
        \eta_j \sim G_0, \quad z_i \sim \omega, \quad x_i \sim p(x \mid \eta_{z_i}).

    The emission sets the distribution within a component, and the conjugate prior :math:`G_0` of its parameters. There
    is no truncation: the sampler draws partitions of the rows from their exact posterior distribution.

    Parameters
    ----------
    emission : str or BaseEmission instance, default="gaussian"
        How rows are distributed given their component: "bernoulli", "categorical", "gaussian", "multinomial",
        "negative_binomial", "poisson" or "von_mises_fisher"; or "auto" for tables with columns of several kinds
        (:class:`~skmanifold.emissions.Columns`). An instance has the prior's hyperparameters:
        :class:`~skmanifold.emissions.Bernoulli`, :class:`~skmanifold.emissions.Categorical`,
        :class:`~skmanifold.emissions.Columns`, :class:`~skmanifold.emissions.Gaussian`,
        :class:`~skmanifold.emissions.Multinomial`, :class:`~skmanifold.emissions.NegativeBinomial`,
        :class:`~skmanifold.emissions.Poisson` or :class:`~skmanifold.emissions.VonMisesFisher`; or a user-defined one.
        A name stands for its defaults. All but "multinomial" and "von_mises_fisher" allow missing cells (NaN).
    sampler : {"slice"} or BaseSampler instance, default="slice"
        Sampler of the posterior: :class:`~skmanifold.samplers.Slice`, an exact slice sampler with minibatches and
        split-merge moves.
    concentration : float or None, default=None
        Concentration :math:`\alpha`, at most 1e6. Larger values give more components, and from some thousands on
        passes take a time proportional to it. None learns it.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of the concentration, if it is learned. The mean, shape / rate, is at most
        1e6.
    init : {"auto"}, int or array-like of shape (n_samples,), default="auto"
        Number of initial clusters, or initial labels. Initial clusters have centres that are spread over the rows, as
        in k-means++; a few passes adapt them, and superfluous ones are merged. "auto" is 100, or the number of rows if
        that is smaller, and for most emissions also smaller numbers, of which the start with the highest evidence is
        used.
    max_iter : int, default=200
        Number of passes over the rows, including burn-in.
    batch_size : int, "auto" or None, default="auto"
        Rows of a minibatch, after which components and weights are redrawn. With "auto" there are at most 20
        minibatches, and drawing components takes at most about a fifth of the time. None uses all rows. The posterior
        does not depend on it.
    burn_in : int, default=None
        Number of discarded initial passes; None discards half of them.
    thin : int, default=2
        After burn-in, every `thin`-th pass is kept in ``posterior_``.
    n_chains : int, default=1
        Number of independent chains; the draws of all chains are used.
    max_draws_bytes : int, default=2**28
        Approximate memory limit for draws of labels and components. Beyond it, fewer complete draws are kept, evenly
        spaced, but at least one for each chain.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bitwise the same for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. Chains run in parallel first.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The point partition: among the partitions with no more components than the median of the draws, the one with
        the smallest expected variation of information to the draws [3]_ that a greedy search finds. Components are in
        order of decreasing size.
    n_components_ : int
        Number of components of one partition, the point partition ``labels_``, and at most the median of
        ``posterior_["n_components"]``. The posterior mode of the number, ``n_components_posterior_.argmax()``, is
        often larger: draws also have small components that differ from draw to draw, which the point partition leaves
        out.
    weights_ : ndarray of shape (n_components_,)
        Weights of the components, ``sizes / (n_samples + concentration_)``. They sum to less than 1. The rest is the
        weight of components without fitted rows.
    components_ : ndarray of shape (n_components_, n_features) or list of ndarray
        Posterior means of the expected row of each component, given the point partition. For "categorical", an array of
        category probabilities for each column, of shape (n_components_, n_categories). For
        :class:`~skmanifold.emissions.Columns`, a list with an array for each column.
    covariances_ : ndarray
        Gaussian components only: posterior means of the covariances given the point partition, of shape
        (n_components_, n_features, n_features), (n_features, n_features) if tied, or variances of shape
        (n_components_, n_features).
    mean_directions_ : ndarray of shape (n_components_, n_features)
        Von Mises-Fisher components only: directions of the sums of the rows of each component.
    concentrations_ : ndarray of shape (n_components_,)
        Von Mises-Fisher components only: posterior means of the concentrations given the point partition.
    typical_rows_ : ndarray of shape (n_components_,)
        Indices of fitted rows: the row of each component with the highest density in it.
    concentration_ : float
        Posterior mean of the concentration, or the given value.
    n_components_posterior_ : ndarray
        Posterior probabilities of 0, 1, 2, ... components with rows, the shares of the draws. They overestimate a
        finite number, see Notes.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_joint"``, log p(X, partition | concentration); ``"n_components"``;
        ``"concentration"``; and, for as many draws as `max_draws_bytes` allows, ``"weights"``, ``"components"`` and,
        for Gaussians, ``"covariances"``, for directions ``"concentrations"`` (padded with NaN, the largest component
        first) and ``"labels"``, which number the components of the same draw: ``"weights"[..., k]`` and
        ``"components"[..., k, :]`` are of the component with label k. Those of different draws do not correspond to
        each other.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log joint density of every pass. It becomes flat in any mode; compare fits by `score` on held-out rows.
    n_categories_ : ndarray of shape (n_features_in_,)
        "categorical" only: number of categories of each column.
    named_blocks_ : Bunch
        :class:`~skmanifold.emissions.Columns` only: the fitted attributes of each block, by its name.
    categories_ : list of ndarray or None
        :class:`~skmanifold.emissions.Columns` only: the categories of each column, None for numbers.
    emission_ : BaseEmission
        The emission that was used. It has the learned numbers of the prior of Gaussian components, and the learned
        dispersions of negative binomial ones, see Notes.
    sampler_ : BaseSampler
        The sampler that was used.
    n_iter_ : int
        Number of passes; fewer than `max_iter` if a callback stopped the fit.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPCategoricalMixture : The same model for categories and counts, also on streams.
    ExponentialFamilyMixture : The same emissions with a given number of components.
    sklearn.mixture.BayesianGaussianMixture : Truncated variational mixture of Gaussians.

    Notes
    -----
    If the rows come from a finite mixture, the number of its components is overestimated: with a fixed concentration
    the posterior does not concentrate at the true number, however many rows there are [4]_. Superfluous components are
    small. Evaluate a fit by `score` on held-out rows.

    Clusters of rows are not always clusters of the emission: a group whose shape is not Gaussian is described by
    several Gaussian components.

    The number of Gaussian components depends on the prior of means and covariances. Hyperparameters of
    :class:`~skmanifold.emissions.Gaussian` that are None are learned before sampling, by maximum marginal likelihood
    given partitions of a random sample of at most 20,000 rows (100,000 for full covariances of 32 columns or more,
    which start from one number of seeds). The partitions come from several numbers of seeds, a few
    passes and merges; the one with the highest estimated evidence is used. The learned prior does not depend on the
    number of components in the draws, and is the same for all chains. Given hyperparameters are not learned. This is
    empirical Bayes: the rows are used twice, and ``posterior_`` does not contain the uncertainty of the learned numbers
    because they are fixed during sampling. So intervals can be too narrow, most of all with few rows. To see how much
    the result depends on the prior, repeat the fit with other numbers, for example with those of ``emission_`` and
    twice its `mean_precision_prior`. Dispersions of :class:`~skmanifold.emissions.NegativeBinomial` are learned in the
    same way.

    The density of a cluster of equal rows has no bound. If columns have numbers on a grid (rounded, or rounded and then
    standardised), priors and initial labels are found with each number spread uniformly over its cell of the grid. If
    more rows are equal than rounding explains, repeated rows are left out of this search, and a warning shows how many
    they are. The draws are given the rows as they are: intervals treat repeated rows as separate observations, and
    columns with few different numbers can have a cluster for each number, if there are very many rows.

    References
    ----------
    .. [1] M. Kalli, J. E. Griffin and S. G. Walker, "Slice sampling mixture models", Statistics and Computing 21, 2011.
    .. [2] D. B. Dahl, "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process
       mixture models", technical report, 2005.
    .. [3] S. Wade and Z. Ghahramani, "Bayesian cluster analysis: point estimation and credible balls", Bayesian
       Analysis 13, 2018.
    .. [4] J. W. Miller and M. T. Harrison, "A simple example of Dirichlet process mixture inconsistency for the number
       of components", NeurIPS 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from skmanifold import DPMixture
    >>> X = load_iris().data
    >>> mixture = DPMixture(random_state=0).fit(X)
    >>> mixture.predict_proba(X[:5]).shape[0]
    5
    >>> X[0, 2] = float("nan")  # a missing cell
    >>> int(mixture.predict(X[:1])[0]) == int(mixture.labels_[0])
    True
    """

    _samplers = {Slice.short_name: Slice}  # noqa: RUF012
    _emissions: ClassVar[dict[str, type[BaseEmission]]] = EMISSIONS
    _families: ClassVar[dict[str, type]] = ROW_FAMILIES
    _emission_protocol = RowEmission
    _family_needs: ClassVar[dict[str, tuple[type, ...]]] = {}
    _single_threaded = "all"
    _of_some_fits = ("n_categories_", "_layout")
    _parameter_constraints: dict = {  # noqa: RUF012
        "emission": [StrOptions(set(EMISSIONS)), HasMethods(["get_params", "set_params"])],
        "concentration": [None, Interval(Real, LEAST_CONCENTRATED, MOST_CONCENTRATED, closed="both")],
        "concentration_prior": ["array-like"],
        "init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), "array-like"],
        "batch_size": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    labels_: np.ndarray
    concentration_: float
    emission_: Any
    _family: Any

    def __init__(
        self,
        emission: str | BaseEmission = "gaussian",
        *,
        sampler: str | BaseSampler = "slice",
        concentration: float | None = None,
        concentration_prior: ArrayLike = (1.0, 1.0),
        init: Literal["auto"] | int | ArrayLike = "auto",
        max_iter: int = 200,
        batch_size: int | Literal["auto"] | None = "auto",
        burn_in: int | None = None,
        thin: int = 2,
        n_chains: int = 1,
        max_draws_bytes: int = 2**28,
        random_state: RandomStateLike = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.emission = emission
        self.sampler = sampler
        self.concentration = concentration
        self.concentration_prior = concentration_prior
        self.init = init
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.max_draws_bytes = max_draws_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Fit the mixture to rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as the emission requires: real numbers, zeros and ones, counts, or codes of categories. NaN is a
            missing value, which "multinomial" does not allow.
        y : None
            Ignored.

        Returns
        -------
        self : DPMixture

        Raises
        ------
        ValueError
            If X has values that the emission does not allow, or a parameter is incompatible with X.
        IncompatibleError
            If the emission or the sampler lacks something that this model needs.
        """
        return self._fit(X)

    @property
    def components_(self) -> np.ndarray | list[np.ndarray]:
        """Posterior means of the expected row of each component, given the point partition."""
        return self._expected("components_")

    @property
    def covariances_(self) -> np.ndarray:
        """Posterior means of the covariances of Gaussian components, given the point partition."""
        return self._expected("covariances_")

    @property
    def mean_directions_(self) -> np.ndarray:
        """Mean directions of von Mises-Fisher components, given the point partition."""
        return self._expected("mean_directions_")

    @property
    def concentrations_(self) -> np.ndarray:
        """Posterior means of the concentrations of von Mises-Fisher components, given the point partition."""
        return self._expected("concentrations_")

    def _strategy(self, X, run: Run) -> FitStrategy:
        emission: Any = self._resolve_emission()
        rows = emission.read(self, X, reset=True)
        sort_hyperparameters(emission, getattr(self, "feature_names_in_", None))
        family = emission.bind(rows, 1)
        self._check_family(emission, family, [HasClusters], type(self).__name__)
        clusters = family.clusters(rows)
        check_settings(self, clusters)
        key = subkey(run.key, Purpose.PRIOR)
        searched = searched_rows(clusters, rows, key)
        start = spread_start(self.init, clusters, searched)  # refuses wrong labels before long work
        if isinstance(emission, LearnsPrior) and (free := emission.free_hyperparameters()):
            with Workers(self.n_jobs) as workers:
                spread = spread_rows(rows, key)
                before = clusters if spread is rows else family.clusters(spread)
                found = find_clusters(before, searched, free, key, workers)
                emission, before = emission.with_prior_of(found.clusters), before.with_prior(found.clusters.prior)
                family = emission.bind(rows, 1)
                clusters = family.clusters(rows)
                start = spread_start(self.init, clusters if spread is rows else family.clusters(spread), searched)
                if self.n_chains == 1 and isinstance(self.init, str):  # several chains start from different clusters
                    start = labels_of_all(before, found, workers)
        settled = {"_family": family, "emission_": emission}
        settled |= {name: vars(self)[name] for name in emission.stores}
        return PartitionFit(self, run, clusters, start, settled)

    def _expected(self, name: str) -> Any:
        check_is_fitted(self)
        attributes = self._clusters_of_no_rows().expected(self._summary.statistics)
        if name not in attributes:
            raise AttributeError(f"The emission {type(self.emission_).__name__} has no {name}.")
        return attributes[name]

    def _clusters_of(self, X: MatrixLike) -> Clusters:
        rows = self._read(X)
        return self._family.clusters(rows)

    def _read(self, X: MatrixLike) -> Any:
        check_is_fitted(self)
        return self.emission_.read(self, X, reset=False)

    def _log_densities_of(self, rows: Any) -> np.ndarray:
        return self._log_densities_in(self._family.clusters(rows))

    def _expected_memberships(self, rows: Any, workers: Workers) -> Iterator[Memberships]:
        clusters = self._family.clusters(rows)
        for draw in self._draws:
            assert isinstance(draw, PartitionDraw)
            shares = softmax(draw.log_terms(clusters, workers), axis=1)
            yield shares, clusters.cell_attributes(with_new(draw.statistics))

    def _drawn_memberships(self, rows: Any, draw: int, key: np.uint64, workers: Workers) -> Memberships:
        clusters, partition = self._family.clusters(rows), self._draws[draw]
        assert isinstance(partition, PartitionDraw)
        drawn = draw_parameters(clusters, partition.statistics, partition.concentration, key, workers)
        shares = softmax(drawn.log_terms(clusters, workers), axis=1)
        labels, statistics = np.arange(shares.shape[1]), with_new(partition.statistics)
        components = clusters.draw_components(statistics, labels, subkey(key, Purpose.COMPONENTS), workers)
        return shares, clusters.drawn_attributes(components)

    def _n_parameter_draws(self) -> int:
        return len(self._draws)

    def _clusters_of_no_rows(self) -> Clusters:
        return self._family.clusters()

    def _new_rows(self, rng: np.random.RandomState, statistics: Any, labels: np.ndarray) -> Any:
        key = np.uint64(rng.randint(0, 2**63, dtype=np.uint64))
        return self._as_table(self._family.clusters().new_rows(statistics, labels.astype(np.int32), key))

    def _attributes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._family.clusters().expected_of_blocks(self._summary.statistics)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_summary")

    def __sklearn_tags__(self) -> Any:
        tags, kind = super().__sklearn_tags__(), self._emission_kind
        tags.input_tags.sparse = kind.allows_sparse
        tags.input_tags.allow_nan = kind.allows_missing
        tags.input_tags.categorical = kind.has_codes
        tags.input_tags.positive_only = kind.positive_only
        return tags
