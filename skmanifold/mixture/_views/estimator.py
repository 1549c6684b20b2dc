"""CrossCat: a partition of the columns, and in each of its views a Dirichlet process mixture of the rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Literal, Self

from sklearn.base import DensityMixin, clone

from ...base import BaseSampledEstimator, FitStrategy, Run
from ...emissions import BaseEmission, Categorical, Columns, Gaussian
from ...emissions._abilities import HasClusters, SeparatesColumns
from ...emissions._estimator import sort_hyperparameters
from ...models import IncompatibleError
from ...random._keys import Purpose, subkey
from ...samplers import BaseSampler, ViewSlice
from ...samplers._latent.stick_breaking import LEAST_CONCENTRATED, MOST_CONCENTRATED, check_concentration_prior
from ...utils._parameters import offers
from ...utils._sklearn import Interval, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, fit_context
from .._dirichlet_process.starts import searched_rows
from .._memberships import read_labels
from .comparisons import ComparesColumnsAndRows
from .fit_strategy import RowsInViews, ViewFit
from .prior import DrawsViewsFromPrior
from .proposals import ConcentrationPrior, compacted
from .starts import StartOfViews


@dataclass(eq=False, repr=False)
class CrossCat(ComparesColumnsAndRows, DrawsViewsFromPrior, DensityMixin, BaseSampledEstimator):
    r"""CrossCat: views of columns, each with its own clusters of the rows; for tables with many unrelated columns.

    The columns are divided into *views*. Columns of different views are independent. In each view there is a Dirichlet
    process mixture of the rows, in whose components the columns of the view are independent ([1]_):

    .. math::

        v &\sim \mathrm{CRP}(\gamma), \quad z_u \sim \mathrm{CRP}(\alpha_u), \quad
        \eta_{kj} \sim G_j, \quad x_{ij} \sim p_j(x \mid \eta_{z_{v_j i}, j}),

    where :math:`v_j` is the view of column j, and :math:`z_{ui}` the component of row i in view u. Each column has its
    own hyperparameters, which are drawn too. So columns that are independent of all others do not disturb the clusters
    of the rest, and one table may have several unrelated ways to group its rows.

    Parameters
    ----------
    emission : "auto" or Columns instance, default="auto"
        How the cells of a column are distributed given the component. "auto" chooses by the type of each column, see
        :class:`~skmanifold.emissions.Columns`; numbers have variances and no covariances, and the Dirichlet parameter
        of categories is drawn. Blocks of :class:`~skmanifold.emissions.Columns` must have independent columns, such as
        ``Gaussian("diag")``.
    sampler : str or BaseSampler instance, default="view_slice"
        Sampler of the posterior: ``"view_slice"`` (:class:`~skmanifold.samplers.ViewSlice`), exact.
    view_concentration : float or None, default=None
        Concentration :math:`\gamma` of the process of the columns. Larger values give more views. None draws it.
    view_concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of :math:`\gamma`, if it is drawn.
    concentration : float or None, default=None
        Concentration :math:`\alpha_u` in all views. None draws that of each view.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of :math:`\alpha_u`, if it is drawn.
    init : "auto" or array-like of shape (n_features,), default="auto"
        Initial views of the columns. With "auto" each chain begins with groups of columns that depend on each other in
        a random half of the rows.
    clusters : {"merged", "components"}, default="merged"
        What labels describe: clusters of components that overlap, with no valley between them, see
        :meth:`DPMixture.merge_components <skmanifold.DPMixture.merge_components>`, or components. It may be set after
        the fit.
    max_iter : int, default=200
        Number of passes, including burn-in. A pass draws the view of each column, and the rows of at most seven views
        on average, more often of those with many columns.
    batch_size : int, "auto" or None, default="auto"
        Rows of a minibatch in a view, after which components and weights are redrawn. "auto" is all rows of at most
        10,000, and otherwise as for :class:`~skmanifold.DPMixture`.
    burn_in : int, default=None
        Number of discarded initial passes; None discards half of them.
    thin : int, default=2
        After burn-in, every `thin`-th pass is kept.
    n_chains : int, default=4
        Number of independent chains; the draws of all are used.
    hyperparameters : {"draw", "learn"}, default="draw"
        Whether hyperparameters of the emission that are None are drawn in each pass, or learned before and then fixed.
    max_draws_bytes : int, default=2**28
        Approximate memory limit for draws. Beyond it, fewer draws are kept, evenly spaced, but at least one for each
        chain.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bitwise the same for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. Chains run in parallel.
    verbose : int, default=0
        Print the log density every `verbose` passes.

    Attributes
    ----------
    column_labels_ : ndarray of shape (n_features,)
        The view of each column in the estimate, the partition of the columns with the smallest expected variation of
        information to the draws that a greedy search finds.
    views_ : list of ndarray
        Names of the columns of each view, or their indices if X had no names; the view with the most columns is first.
    n_views_ : int
        Number of views of the estimate.
    labels_ : ndarray of shape (n_samples, n_views_)
        Clusters of the fitted rows in each view, the largest first.
    n_components_ : ndarray of shape (n_views_,)
        Number of clusters in each view.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in: ``"log_joint"``, the log density of X, all partitions and hyperparameters given the
        concentrations; ``"n_views"``; ``"view_concentration"``; and ``"column_labels"``, the view of each column.
    rhat_ : dict of str to float
        R-hat of ``"log_joint"`` and ``"n_views"``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log joint density of every pass.
    categories_ : list of ndarray or None
        The categories of each column, None for numbers.
    emission_ : Columns
        The emission that was used, with learned hyperparameters, which are the start of the chains.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of passes; fewer than `max_iter` if a callback stopped the fit.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    DPMixture : One partition of the rows for all columns, with covariances.

    Notes
    -----
    Not every view is a group of related columns: a column whose distribution is not that of one component, such as one
    with two modes, has a view of its own if it depends on no other column.

    Chains rarely agree on every column. `column_dependence` averages over all draws of all chains, and its Monte Carlo
    errors show how much they differ.

    References
    ----------
    .. [1] V. Mansinghka, P. Shafto, E. Jonas, C. Petschulat, M. Gasner and J. B. Tenenbaum, "CrossCat: a fully Bayesian
       nonparametric method for analyzing heterogeneous, high dimensional data", Journal of Machine Learning Research
       17, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold import CrossCat
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.integers(2, size=(100, 1))
    >>> X = np.hstack([rng.normal(4.0 * groups, 1.0, (100, 2)), rng.normal(size=(100, 2))])
    >>> model = CrossCat(max_iter=40, n_chains=2, random_state=0).fit(X)
    >>> bool(model.column_dependence().loc[0, 1] > 0.9)
    True
    """

    _samplers = {ViewSlice.short_name: ViewSlice}  # noqa: RUF012
    _emissions = {Columns.short_name: Columns}  # noqa: RUF012
    _families = {Columns.short_name: Columns.row_family}  # noqa: RUF012
    _blocks = ("sampler", "emission")
    _single_threaded = "all"
    _parameter_constraints = {  # noqa: RUF012
        "view_concentration": [None, Interval(Real, LEAST_CONCENTRATED, MOST_CONCENTRATED, closed="both")],
        "view_concentration_prior": ["array-like"],
        "concentration": [None, Interval(Real, LEAST_CONCENTRATED, MOST_CONCENTRATED, closed="both")],
        "init": [StrOptions({"auto"}), "array-like"],
        "clusters": [StrOptions({"merged", "components"})],
        "hyperparameters": [StrOptions({"draw", "learn"})],
        "batch_size": [None, StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    }

    emission: str | BaseEmission = "auto"
    _: KW_ONLY
    sampler: str | BaseSampler = "view_slice"
    view_concentration: float | None = None
    view_concentration_prior: ArrayLike = (1.0, 1.0)
    concentration: float | None = None
    concentration_prior: ArrayLike = (1.0, 1.0)
    init: Literal["auto"] | ArrayLike = "auto"
    clusters: Literal["merged", "components"] = "merged"
    max_iter: int = 200
    batch_size: int | Literal["auto"] | None = "auto"
    burn_in: int | None = None
    thin: int = 2
    n_chains: int = 4
    hyperparameters: Literal["draw", "learn"] = "draw"
    max_draws_bytes: int = 2**28
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Fit the views to rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A data frame, or an array. NaN and None are missing values.
        y : Ignored

        Returns
        -------
        self : estimator instance

        Raises
        ------
        ValueError
            If X has values that the emission does not allow, or a parameter is incompatible with X.
        IncompatibleError
            If a block of the emission has columns that are not independent given the component.
        """
        return self._fit(X)

    @property
    def _view_prior(self) -> tuple[float, float]:
        return check_concentration_prior(self.view_concentration_prior, "view_concentration_prior")

    @property
    def _row_prior(self) -> ConcentrationPrior:
        shape, rate = check_concentration_prior(self.concentration_prior, "concentration_prior")
        return ConcentrationPrior(self.concentration, shape, rate)

    def _strategy(self, X: Any, run: Run) -> FitStrategy:
        emission: Any = self._resolve_emission()
        is_automatic = isinstance(emission.blocks, str)
        rows = self._read_rows(emission, X, None, reset=True)
        emission = emission.with_resolution_of(rows)
        if is_automatic:
            emission = Columns([(name, _separable(own), columns) for name, own, columns in emission.blocks])
        sort_hyperparameters(emission, getattr(self, "feature_names_in_", None))
        family = emission.bind(rows, 1)
        whom = type(self).__name__
        for name, block in zip(family.names, family.blocks, strict=True):
            if not offers(block, SeparatesColumns):
                raise IncompatibleError(
                    f"{whom} needs columns that are independent given the component, such as those of "
                    f"Gaussian('diag'), but the columns of the block {str(name)!r} are not."
                )
        self._check_offers(emission, family, [HasClusters, SeparatesColumns], whom)
        family = family.separated()
        clusters = family.clusters(rows)
        start = StartOfViews(rows.cells(), None)
        if not isinstance(self.init, str):
            wanted = "init must be 'auto', or"
            start = StartOfViews(None, compacted(read_labels(self.init, clusters.n_features, None, wanted)))
        searched = searched_rows(emission, clusters, rows, subkey(run.key, Purpose.PRIOR))
        known = {"_family": family, "emission_": emission} | {name: vars(self)[name] for name in emission.stores}
        return ViewFit(self, run, RowsInViews(family, emission, rows, searched, start, known))


def _separable(emission: BaseEmission) -> BaseEmission:
    """The emission of a block that was chosen automatically, with independent columns and their own priors."""
    if isinstance(emission, Gaussian):
        return clone(emission).set_params(covariance_type="diag")
    return clone(emission).set_params(category_prior=None) if isinstance(emission, Categorical) else emission
