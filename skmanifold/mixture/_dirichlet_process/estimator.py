"""Dirichlet process mixture of rows, with a choice of emissions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import DensityMixin

from ...base import BaseSampledEstimator, FitStrategy, Minibatch, Run, StreamStrategy, takes_minibatches
from ...emissions import BaseEmission
from ...emissions._abilities import HasClusters, LearnsPrior
from ...emissions._estimator import sort_hyperparameters
from ...emissions._family import Family
from ...random._keys import Purpose, subkey
from ...samplers import SCIR, SGRHMC, SGRLD, BaseSampler, Slice
from ...samplers._latent.stick_breaking import LEAST_CONCENTRATED, MOST_CONCENTRATED
from ...utils._inputs.tables import is_sparse
from ...utils._sklearn import HasMethods, Interval, StrOptions
from ...utils._threads import Workers
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .fit_strategy import PartitionFit, PartitionStream, RowsToPartition, StochasticFit, check_clusters, passes_of
from .inference import PartitionInference
from .model import AUTO_CLUSTERS, Start
from .starts import find_clusters, labels_of_all, searched_rows, spread_start
from .stochastic_slice import StochasticSlice


@dataclass(eq=False, repr=False)
class DPMixture(PartitionInference, DensityMixin, BaseSampledEstimator):
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
        (:class:`~skmanifold.emissions.Columns`), where numbers have the form of covariances with the highest evidence.
        An instance has the prior's hyperparameters:
        :class:`~skmanifold.emissions.Bernoulli`, :class:`~skmanifold.emissions.Categorical`,
        :class:`~skmanifold.emissions.Columns`, :class:`~skmanifold.emissions.Gaussian`,
        :class:`~skmanifold.emissions.Multinomial`, :class:`~skmanifold.emissions.NegativeBinomial`,
        :class:`~skmanifold.emissions.Poisson` or :class:`~skmanifold.emissions.VonMisesFisher`; or a user-defined one.
        A name stands for its defaults. All but "multinomial" and "von_mises_fisher" allow missing cells (NaN).
    sampler : str or BaseSampler instance, default="slice"
        Sampler of the posterior:

        - ``"slice"`` (:class:`~skmanifold.samplers.Slice`): exact slice sampler with minibatches and split-merge moves.
        - ``"scir"`` (:class:`~skmanifold.samplers.SCIR`), for "categorical" and "multinomial": the stochastic slice
          sampler of [5]_. Sticks and components are updated by Cox-Ingersoll-Ross steps with scaled counts of a
          minibatch. It supports `partial_fit`.
        - ``"sgrld"``, ``"sgrhmc"`` (:class:`~skmanifold.samplers.SGRLD`, :class:`~skmanifold.samplers.SGRHMC`): the
          same with Riemannian steps. They are biased if `category_prior` is small, and are offered for comparison.

        Names use the step sizes of [5]_, table 3.
    weights_sampler : str, BaseSampler instance or None, default=None
        Sampler of the sticks, for samplers other than ``"slice"``. None uses the same sampler as `sampler`.
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
    clusters : {"merged", "components"} or int, default="merged"
        What the labels, and all attributes and methods that refer to them, describe. "merged" are clusters of
        components that overlap, with no valley between them, see `merge_components`. With "components" each component
        is a cluster. A number is that of the clusters, or that of the components if these are fewer. The fit does not
        depend on it, and it may be set after the fit. After `partial_fit` each component is a cluster.
    max_iter : int, default=200
        Number of passes over the rows, including burn-in.
    batch_size : int, "auto" or None, default="auto"
        Rows of a minibatch, after which components and weights are redrawn. With "auto" there are at most 20
        minibatches (100 for samplers other than `Slice`), and drawing components takes at most about a fifth of the
        time. None uses all rows. The stationary distribution of `Slice` does not depend on it. The minibatches of
        `Slice` for large tables have random groups of up to 32 consecutive rows, which takes less time.
    burn_in : int, default=None
        Number of discarded initial passes; None discards half of them.
    thin : int, default=2
        After burn-in, every `thin`-th pass is kept in ``posterior_``; for a stream, every `thin`-th minibatch.
    n_chains : int, default=1
        Number of independent chains; the draws of all chains are used.
    hyperparameters : {"draw", "learn"}, default="draw"
        What happens to hyperparameters of the emission that are None, see Notes: "learn" fixes them before sampling,
        "draw" also draws them in each pass, which makes intervals wider.
    outliers : bool, default=False
        Whether rows may be outliers, which are in no component: a row is one with an unknown probability, with a
        Beta(1, 19) prior. Numbers of outliers are uniform over the range of the fitted columns, with the same density
        outside of it, and directions are uniform; counts, events and categories have the distribution of a row of a
        new component. Needs the sampler ``"slice"``. `sample` draws no outliers.
    total_samples : int, default=1_000_000
        `partial_fit` only: number of rows in the whole stream.
    learning_decay : float, default=0.7
        `partial_fit` only: minibatch t has weight ``(learning_offset + t) ** -learning_decay`` in the statistics.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values make the first minibatches count less.
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
        Clusters of the fitted rows, ``component_clusters_[component_labels_]``, the largest first. Not set by
        `partial_fit`. With ``outliers=True`` rows that are outliers in more than half of the draws have label -1.
    component_labels_ : ndarray of shape (n_samples,)
        Components of the fitted rows, the point partition: among the partitions with no more components than the median
        of the draws, the one with the smallest expected variation of information to the draws [3]_ that a greedy search
        finds. Components are in order of decreasing size. Not set by `partial_fit`.
    component_clusters_ : ndarray of int
        The cluster of each component of the point partition.
    n_components_ : int
        Number of clusters. With ``clusters="components"`` it is at most the median of ``posterior_["n_components"]``,
        and often smaller than ``n_components_posterior_.argmax()``: draws also have small components that differ from
        draw to draw, which the point partition leaves out. After `partial_fit`, the number of components with an
        expected size of at least half a row.
    outlier_weight_ : float
        With ``outliers=True``: posterior mean of the probability that a row is an outlier; ``posterior_`` has the draws
        as ``"outlier_weight"``.
    weights_ : ndarray of shape (n_components_,)
        Weights of the clusters, ``sizes / (n_samples + concentration_)``. They sum to less than 1. The rest is the
        weight of components without fitted rows.
    components_ : ndarray of shape (n_components_, n_features) or list of ndarray
        Posterior means of the expected row of each cluster, given the point partition. For "categorical", an array of
        category probabilities for each column, of shape (n_components_, n_categories). For
        :class:`~skmanifold.emissions.Columns`, a list with an array for each column.
    covariances_ : ndarray
        Gaussian components only: posterior means of the covariances of the clusters, within and between their
        components, given the point partition, of shape (n_components_, n_features, n_features), or variances of shape
        (n_components_, n_features); (n_features, n_features) if tied and no components are merged.
    mean_directions_ : ndarray of shape (n_components_, n_features)
        Von Mises-Fisher components only: directions of ``components_``.
    concentrations_ : ndarray of shape (n_components_,)
        Von Mises-Fisher components only: posterior means of the concentrations given the point partition; of a cluster
        with several components, the concentration whose mean cosine is the length of its row in ``components_``.
    typical_rows_ : ndarray of shape (n_components_,)
        Indices of fitted rows: of the largest component of each cluster, the row with the highest density in it. Not
        set by `partial_fit`.
    concentration_ : float
        Posterior mean of the concentration, or the given value.
    n_components_posterior_ : ndarray
        Posterior probabilities of 0, 1, 2, ... clusters with rows, the shares of the draws. Those of components
        overestimate a finite number, see Notes.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_joint"``, log p(X, partition | concentration); ``"n_components"``, of components;
        ``"concentration"``; and, for as many draws as `max_draws_bytes` allows, ``"weights"``, ``"components"`` and,
        for Gaussians, ``"covariances"``, for directions ``"concentrations"`` (padded with NaN, the component with the
        most rows first for "slice", else that with the largest weight), ``"component_clusters"``, the merged cluster of
        each component (padded with -1), and ``"labels"``, which number the components of the same draw:
        ``"weights"[..., k]`` and ``"components"[..., k, :]`` are of the component with label k. Those of different
        draws do not correspond to each other. After `partial_fit`, there are no ``"log_joint"``, ``"labels"`` and
        ``"component_clusters"``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log joint density of every pass. It becomes flat in any mode; compare fits by `score` on held-out rows. Not
        set by `partial_fit`.
    n_categories_ : ndarray of shape (n_features_in_,)
        "categorical" only: number of categories of each column.
    named_blocks_ : Bunch
        :class:`~skmanifold.emissions.Columns` only: attributes of the components in each block, by its name.
    categories_ : list of ndarray or None
        :class:`~skmanifold.emissions.Columns` only: the categories of each column, None for numbers.
    emission_ : BaseEmission
        The emission that was used. It has the learned numbers of the prior of Gaussian components, the learned powers
        of transforms, and the learned dispersions of negative binomial components, see Notes.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches passed to `partial_fit` since the last `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPCategoricalMixture : The same model with defaults for categories and counts.
    ExponentialFamilyMixture : The same emissions with a given number of components.
    sklearn.mixture.BayesianGaussianMixture : Truncated variational mixture of Gaussians.

    Notes
    -----
    If the rows come from a finite mixture, the number of its components is overestimated: with a fixed concentration
    the posterior does not concentrate at the true number, however many rows there are [4]_. Superfluous components are
    small. Evaluate a fit by `score` on held-out rows.

    Components are not always groups of rows: a group whose shape is not Gaussian is described by several Gaussian
    components, which `clusters` merges by default.

    The number of Gaussian components depends on the prior of means and covariances. Hyperparameters of
    :class:`~skmanifold.emissions.Gaussian` that are None are learned before sampling, by maximum marginal likelihood
    given partitions of a random sample of at most 20,000 rows (100,000 for full covariances of 32 columns or more,
    which start from one number of seeds); of those from several numbers of seeds, a few passes and merges, the one with
    the highest estimated evidence is used. So are dispersions of :class:`~skmanifold.emissions.NegativeBinomial`, the
    `category_prior` of :class:`~skmanifold.emissions.Categorical` if it is None, and transforms of columns. By default
    these numbers are then drawn in each pass, from their posterior given the partition; ``posterior_`` contains them if
    the emission is not in a block of :class:`~skmanifold.emissions.Columns`, and the emission documents their prior.
    With ``hyperparameters="learn"`` they are fixed. This is empirical Bayes: the rows are used twice, so that intervals
    are too narrow, most of all with few rows. In simulations with three components and 30 rows, 90% intervals of
    variances covered 63% of the true ones with learned hyperparameters of wider priors, and 86% with drawn ones.

    The density of a cluster of equal rows has no bound. Therefore numbers on a grid (rounded, also before
    standardising) stand for unknown numbers within the cells of the grid, which are drawn in each pass, see
    :class:`~skmanifold.emissions.Gaussian`. If more rows are equal than rounding explains, repeated rows are left out
    of the search for initial clusters, with a warning, and hyperparameters are learned but not drawn. Otherwise
    repeated rows are separate observations.

    References
    ----------
    .. [1] M. Kalli, J. E. Griffin and S. G. Walker, "Slice sampling mixture models", Statistics and Computing 21, 2011.
    .. [2] D. B. Dahl, "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process
       mixture models", technical report, 2005.
    .. [3] S. Wade and Z. Ghahramani, "Bayesian cluster analysis: point estimation and credible balls", Bayesian
       Analysis 13, 2018.
    .. [4] J. W. Miller and M. T. Harrison, "A simple example of Dirichlet process mixture inconsistency for the number
       of components", NeurIPS 2013.
    .. [5] J. Baker, P. Fearnhead, E. B. Fox and C. Nemeth, "Large-scale stochastic sampling from the probability
       simplex", NeurIPS 2018, section 5.2 and appendix D.

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

    _samplers = {sampler.short_name: sampler for sampler in (Slice, SCIR, SGRLD, SGRHMC)}  # noqa: RUF012
    # Step sizes of table 3 of [5]
    _settings = {"scir": {"step_size": 0.1}, "sgrld": {"step_size": 0.001}, "sgrhmc": {"step_size": 0.02}}  # noqa: RUF012
    _blocks = ("sampler", "weights_sampler", "emission")
    _single_threaded = "all"
    _of_some_fits = ("n_categories_", "_layout")
    _of_rows = "component_labels_", "_typical_rows", "_draws", "_states", "_merges"
    _of_no_stream = (*BaseSampledEstimator._of_no_stream, *_of_rows)
    _parameter_constraints = {  # noqa: RUF012
        "weights_sampler": [None, StrOptions(set(_samplers) - {"slice"}), HasMethods(["init", "step"])],
        "concentration": [None, Interval(Real, LEAST_CONCENTRATED, MOST_CONCENTRATED, closed="both")],
        "init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left"), "array-like"],
        "clusters": [StrOptions({"merged", "components"}), Interval(Integral, 1, None, closed="left")],
        "hyperparameters": [StrOptions({"draw", "learn"})],
        "outliers": ["boolean"],
        "batch_size": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    emission: str | BaseEmission = "gaussian"
    _: KW_ONLY
    sampler: str | BaseSampler = "slice"
    weights_sampler: str | BaseSampler | None = None
    concentration: float | None = None
    concentration_prior: ArrayLike = (1.0, 1.0)
    init: Literal["auto"] | int | ArrayLike = "auto"
    clusters: Literal["merged", "components"] | int = "merged"
    max_iter: int = 200
    batch_size: int | Literal["auto"] | None = "auto"
    burn_in: int | None = None
    thin: int = 2
    n_chains: int = 1
    hyperparameters: Literal["draw", "learn"] = "draw"
    outliers: bool = False
    total_samples: int = 1_000_000
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    max_draws_bytes: int = 2**28
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Fit the mixture to rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows as the emission requires: real numbers, zeros and ones, counts, or codes of categories. NaN is a
            missing value, which "multinomial" does not allow.
        y : Ignored

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If X has values that the emission does not allow, or a parameter is incompatible with X.
        IncompatibleError
            If the emission or the sampler lacks something that this model needs.
        """
        return self._fit(X)

    @available_if(takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Update the fit with a minibatch of rows; only its contribution to the statistics is kept.

        The first minibatch is fitted by the exact sampler, and should contain rows of every component. After `fit`, the
        chains continue from their last states. The method exists only if the sampler supports streams.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, or codes of categories. The first minibatch and `min_categories` determine the categories.
        y : Ignored

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            As in `fit`, or if the number of columns, the emission or the sampler has changed since the first call.
        IncompatibleError
            If the emission has no categories, or the sampler needs all rows at once.
        """
        return self._partial_fit(X)

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
        passes = passes_of(self, run.sampler)
        strategy = StochasticFit if isinstance(passes, StochasticSlice) else PartitionFit
        return strategy(self, run, passes, self._set_up(X, run, subkey(run.key, Purpose.ROUNDING)))

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        passes, key = passes_of(self, batch.sampler), subkey(batch.key, Purpose.ROUNDING, batch.n_batches + 1)
        if batch.is_first:
            return PartitionStream(self, batch, passes, self._set_up(X, batch, key))
        emission = self._resolve_emission()
        self._check_unchanged(emission)
        clusters = self._family.clusters(self._read_rows(emission, X, key, reset=False))
        check_clusters(self, batch.sampler, emission, clusters)
        return PartitionStream(self, batch, passes, RowsToPartition(clusters, 1, {}))

    def _set_up(self, X: MatrixLike, run: Run | Minibatch, key: np.uint64) -> RowsToPartition:
        """The rows, which the emission reads with the key."""
        emission: Any = self._resolve_emission()
        is_automatic = isinstance(getattr(emission, "blocks", None), str)
        rows = self._read_rows(emission, X, key, reset=True)
        emission = emission.with_resolution_of(rows)
        sort_hyperparameters(emission, getattr(self, "feature_names_in_", None))
        family = self._bound(emission, rows)
        self._check_offers(emission, family, [HasClusters], type(self).__name__)
        clusters = family.clusters(rows)
        check_clusters(self, run.sampler, emission, clusters)
        emissions = emission.with_each_covariance() if is_automatic else [emission]
        emission, family, clusters, start = self._started(emissions, rows, family, clusters, run.key)
        if self.outliers:
            family = family.with_ranges(rows)
            clusters = family.clusters(rows)
        fitted = {"_family": family, "emission_": emission, "_fitted_on_sparse": is_sparse(X)}
        may_lack = self._emission_kind.allows_missing and not is_sparse(X) and hasattr(rows, "cells")
        n_missing = np.isnan(rows.cells()).sum(axis=1) if may_lack else np.zeros(1, int)
        known = fitted | {name: vars(self)[name] for name in emission.stores}
        return RowsToPartition(clusters, start, known, n_missing if n_missing.any() else None)

    def _bound(self, emission: Any, rows: Any) -> Any:
        """The family of rows."""
        return emission.bind(rows, 1)

    def _started(
        self, emissions: list[Any], rows: Any, family: Any, clusters: Family, key: np.uint64
    ) -> tuple[Any, Any, Family, Start]:
        """The emission, the family and the clusters, with free hyperparameters learned, and initial labels.

        `family` and `clusters` are those of the first emission. The one whose clusters have the most evidence is used.
        """
        emission, key = emissions[0], subkey(key, Purpose.PRIOR)
        searched = searched_rows(emission, clusters, rows, key)
        start = spread_start(self.init, clusters, searched)  # refuses wrong labels before long work
        if isinstance(emission, LearnsPrior) and emission.free_hyperparameters():
            with Workers(self.n_jobs) as workers:
                families = [family, *(self._bound(other, rows) for other in emissions[1:])]
                tried = [clusters, *(own.clusters(rows) for own in families[1:])]
                each = [
                    find_clusters(before, searched, AUTO_CLUSTERS, emission.free_hyperparameters(), key, workers)
                    for emission, before in zip(emissions, tried, strict=True)
                ]
                best = int(np.argmax([found.evidence for found in each]))
                found, emission, before = each[best], emissions[best], tried[best]
                free = emission.free_hyperparameters()
                emission, before = emission.with_prior_of(found.clusters), before.with_prior_of(found.clusters)
                family = emission.bind(rows, 1)
                clusters = family.clusters(rows)
                start = spread_start(self.init, clusters, searched)
                if self.n_chains == 1 and isinstance(self.init, str):  # several chains start from different clusters
                    start = labels_of_all(before, found, workers)
            n_searched = min(clusters.n_rows, clusters.start_effort().most_rows)
            # The density of clusters of rows that repeat others has no bound as a function of the hyperparameters.
            has_repeats = searched is not None and len(searched) < n_searched
            if self.hyperparameters == "draw" and not has_repeats:
                family = family.with_hyperprior(free, families[best])
                clusters = clusters.with_hyperprior(free, tried[best])
        return emission, family, clusters, start
