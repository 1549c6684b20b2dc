"""Mixture of affine subspaces of inferred dimensions, with a choice of samplers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, Literal, Self

from sklearn.base import DensityMixin

from ...base import BaseSampledEstimator, FitStrategy, Minibatch, Run, StreamStrategy, takes_minibatches
from ...models._compatibility import is_compatible
from ...samplers import BaseSampler, ConwayWalk, FrameGibbs, Slice
from ...samplers._latent.stick_breaking import LEAST_CONCENTRATED, MOST_CONCENTRATED
from ...utils._sklearn import Interval, NumberOf, StrOptions
from ...utils._typing import ArrayLike, Ignored, MatrixLike, RandomStateLike, available_if, fit_context
from .fit_strategy import ProcessFit, SubspacesFit
from .inference import SubspaceInference
from .model import IncompleteSubspaceModel
from .stream import SubspaceStream


def _takes_minibatches(mixture: SubspaceMixture) -> bool:
    if mixture.n_components is None:
        raise AttributeError("partial_fit needs the number of subspaces, but n_components is None.")
    return takes_minibatches(mixture)


@dataclass(eq=False, repr=False)
class SubspaceMixture(SubspaceInference, DensityMixin, BaseSampledEstimator):
    r"""Mixture of affine subspaces of different dimensions, which infers the dimension of each cluster.

    A row is a point of one of K affine subspaces (lines, planes, ...), plus noise in the orthogonal directions:

    .. math::

        z_i \sim w, \quad x_i \mid z_i = k \sim N(c_k, \Sigma_k), \quad
        \Sigma_k^{-1} = g_k (I - U_k' U_k) + U_k' \mathrm{diag}(r_k g_k) U_k, \quad 0 < r_{kj} < 1,

    where the rows of :math:`U_k` are an orthonormal basis of :math:`d_k` directions, along which the precision is
    smaller than the precision :math:`g_k` of the noise. Dimensions, bases, centres and precisions are drawn from their
    posterior ([1]_, with corrected formulas).

    Parameters
    ----------
    n_components : int or None, default=2
        Number of subspaces K, at most the number of rows. None infers it: the subspaces are the components of a
        Dirichlet process mixture, of which finitely many have rows.
    dimensions : int, array-like of shape (n_components,) or None, default=None
        Dimensions of the subspaces, one for all or, if `n_components` is a number, one for each. None infers them.
    max_dimension : int or None, default=None
        Largest dimension that can be inferred; None is ``n_features - 1``. `dimensions` must not exceed it.
    sampler : str or BaseSampler instance, default="gibbs"
        Sampler of the posterior:

        - ``"gibbs"`` (:class:`~skmanifold.samplers.FrameGibbs`): exact updates of bases, by rotations in planes, and of
          dimensions, with the ratios integrated out. If `n_components` is None it stands for "slice".
        - ``"slice"`` (:class:`~skmanifold.samplers.Slice`), only if `n_components` is None: the same updates of the
          subspaces, labels given slices, and in each sweep 5 moves that split a cluster or merge two ([2]_).
        - ``"conway"`` (:class:`~skmanifold.samplers.ConwayWalk`): the random walk of [1]_ on the sphere in which
          subspaces of all dimensions are embedded, with a Gibbs posterior. It is suited to few features, and offered
          for comparison. It overestimates dimensions, because its loss hardly penalises directions of noise: for small
          simulated data, 20% of its 90% intervals of the sum of the dimensions contain the true value.
    noise : {"shared", "per_cluster"}, default="shared"
        Whether all subspaces have the same noise variance :math:`1 / g`.
    dimension_prior : float, array-like of shape (max_dimension + 1,) or None, default=None
        Prior of the dimensions. A number :math:`\eta` means :math:`p(d) \propto e^{-\eta d}`. An array is proportional
        to the probabilities of 0, 1, 2, .... None is 1. Given its dimension, a subspace has a uniform prior.
    ratio_prior : float, default=0.5
        Parameter a of the prior Beta(a, 1) of the ratios :math:`r_{kj}` of precisions along a subspace to :math:`g_k`.
    noise_prior : (float, float) or None, default=None
        Shape and rate of the gamma prior of the noise precisions :math:`g_k`, the rate in squared units of X. None is
        :math:`1 + h` and :math:`(0.001 + 0.01 h) v`, where v is the mean variance of the features and h is 0.0005 times
        the number of cells of X (divided by K for "per_cluster"). This bounds the noise variance from below by about
        :math:`10^{-5} v` if clusters lie exactly on subspaces.
    centre_prior_mean : array-like of shape (n_features,) or None, default=None
        Mean of the normal prior of the centres; None is the mean of X.
    centre_prior_variance : float or None, default=None
        Variance of the normal prior of the centres, in squared units of X. None is the mean variance of the features.
    weight_prior : float, default=1.0
        Parameter of the symmetric Dirichlet prior of the weights w. Not used if `n_components` is None.
    concentration : float or None, default=None
        Concentration of the Dirichlet process, at most 1e6, used if `n_components` is None. None learns it.
    concentration_prior : (float, float), default=(1.0, 1.0)
        Shape and rate of the gamma prior of the concentration, if it is learned.
    init : {"auto", "spectral", "k-flats", "k-means"} or array-like of shape (n_samples,), default="auto"
        Method for the initial partitions, or initial labels. "auto" uses all three methods in turn. If `n_components`
        is None there is one initial partition, by the first two methods, with the number of clusters that has the
        smallest loss of K-flats, as in BIC.
    max_iter : int, default=200
        Number of sweeps over the rows, including burn-in.
    burn_in : int, default=None
        Number of discarded initial sweeps; None discards half of them.
    thin : int, default=2
        After burn-in, every `thin`-th sweep is kept in ``posterior_``.
    n_init : int, default=5
        Number of initial partitions, the same for all chains. Each chain continues from the one with the highest log
        likelihood. With ``"gibbs"`` they are compared after a few sweeps from each, in which dimensions are limited to
        the larger of 8 and ``n_samples / (20 * n_components)``.
    n_chains : int, default=1
        Number of independent chains. The fitted attributes are those of the chain with the highest mean log
        likelihood; the others show whether the result is reproducible.
    n_predictive_draws : int, default=50
        Number of evenly spaced draws over which predictions are averaged.
    max_draws_bytes : int, default=2**28
        Approximate memory limit for draws. Beyond it, fewer draws are kept, evenly spaced, but at least the last.
    n_stored_rows : int, default=0
        Number of rows, the first ones of X, whose labels are kept in ``posterior_`` with each draw of the subspaces.
    learning_decay : float, default=0.7
        `partial_fit` only: the weight of minibatch t in the moments is ``(learning_offset + t) ** -learning_decay``.
    learning_offset : float, default=10.0
        `partial_fit` only: larger values reduce the weight of the first minibatches.
    random_state : int, RandomState instance or None, default=None
        Seed. The result is bitwise the same for every `n_jobs`.
    n_jobs : int, default=None
        Number of threads; None is 1, -1 uses all cores. Chains run in parallel first.
    verbose : int, default=0
        Print the log likelihood every `verbose` sweeps.

    Attributes
    ----------
    n_components_ : int
        Number of components. If it is inferred, the number that most draws of the best chain have; all other
        attributes and predictions are given this number, ``posterior_`` excepted, and leave out the weight of
        components without rows.
    n_components_posterior_ : ndarray
        Posterior probabilities of 0, 1, 2, ... components with rows.
    dimensions_ : ndarray of shape (n_components,)
        Dimensions of highest posterior probability. Components are in order of decreasing weight.
    dimension_posterior_ : ndarray of shape (n_components, max_dimension + 1)
        Posterior probabilities of the dimensions 0, 1, 2, ....
    bases_ : list of ndarray of shape (dimensions_[k], n_features)
        Orthonormal rows, which span the subspace nearest to the posterior mean of the projections.
    means_ : ndarray of shape (n_components, n_features)
        Posterior means of the centres.
    weights_ : ndarray of shape (n_components,)
        Posterior means of the weights.
    noise_variance_ : ndarray of shape (n_components,)
        Posterior means of the noise variances.
    labels_ : ndarray of shape (n_samples,)
        Most probable component of each row. Not set by `partial_fit`.
    posterior_ : dict of str to ndarray of shape (n_chains, n_draws, ...)
        Draws after burn-in, with matched components: ``"log_likelihood"`` (of all draws), ``"dimensions"``,
        ``"weights"``, ``"means"``, ``"noise_variance"``, and ``"bases"`` and the ``"variances"`` along them, padded
        with NaN. With `n_stored_rows` also ``"labels"``, of the first rows. If the number of components is inferred
        also ``"n_components"`` and ``"concentration"``, with ``"log_joint"``, log p(X, partition | subspaces,
        concentration), in place of ``"log_likelihood"``; draws with another number of components than
        ``n_components_`` are in order of decreasing size.
    centre_prior_mean_ : ndarray of shape (n_features,)
        The mean of the prior of the centres.
    best_chain_ : int
        Index of the chain of the fitted attributes, in the first axis of ``posterior_``.
    log_density_trace_ : ndarray of shape (n_chains, n_iter_)
        The log likelihood of every sweep, or the log joint density if the number of components is inferred.
    sampler_ : BaseSampler
    n_iter_ : int
        Number of sweeps; fewer than `max_iter` if a callback stopped the fit. Not set by `partial_fit`.
    n_batch_iter_ : int
        Number of minibatches used by `partial_fit` since the last `fit`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if X has them.

    See Also
    --------
    SubspaceClassifier : A mixture of subspaces for each class.
    DPMixture : A Dirichlet process mixture of other components, such as Gaussian ones with full covariances.
    sklearn.mixture.GaussianMixture : Components with full covariances.

    Notes
    -----
    Cells may be missing at random (NaN). They are drawn given the observed cells of their row, with the coordinates in
    the subspace integrated out for the labels. `score_samples` is then the density of the observed cells.

    The noise has the same variance in all directions. Scale columns of different units before the fit. If the variances
    of the columns within clusters decrease smoothly, most directions count as dimensions; a fit of several subspaces
    without `max_dimension` then warns. A component may lose all its rows; its parameters are then drawn from the prior.

    With a Dirichlet process the weights are those of stick breaking with the concentration :math:`\alpha`, and the
    parameters of each component have the same prior. Rows are normal within each subspace: a group of rows of another
    shape, such as several clumps in one plane, is described by several components.

    References
    ----------
    .. [1] B. St. Thomas, L. Lin, L.-H. Lim and S. Mukherjee, "Learning subspaces of different dimensions", 2014.
    .. [2] S. Jain and R. M. Neal, "Splitting and merging components of a nonconjugate Dirichlet process mixture model",
       Bayesian Analysis 2, 2007.

    Examples
    --------
    >>> from skmanifold import SubspaceMixture
    >>> from skmanifold.datasets import make_subspaces
    >>> X = make_subspaces(400, 3, (1, 2), noise_precision=50.0, random_state=0).data
    >>> mixture = SubspaceMixture(2, random_state=0).fit(X)
    >>> sorted(mixture.dimensions_.tolist())
    [1, 2]
    >>> mixture.transform(X[:5]).shape
    (5, 2)
    """

    _samplers = {sampler.short_name: sampler for sampler in (FrameGibbs, ConwayWalk, Slice)}  # noqa: RUF012
    _settings = {"slice": {"n_split_merge": 5}}  # noqa: RUF012  # each move takes about as long as a pass
    _positive = Interval(Real, 0, None, closed="neither")
    _single_threaded = "blas"
    _of_some_fits = ("_moments",)
    total_samples = 1  # moments of a stream are relative
    _of_no_stream = (*BaseSampledEstimator._of_no_stream, "labels_", "_stored_labels")
    _parameter_constraints = {  # noqa: RUF012
        "n_components": [None, NumberOf("with None the number of subspaces is inferred")],
        "dimensions": [None, Interval(Integral, 0, None, closed="left"), "array-like"],
        "max_dimension": [None, Interval(Integral, 0, None, closed="left")],
        "noise": [StrOptions({"shared", "per_cluster"})],
        "dimension_prior": [None, Interval(Real, None, None, closed="neither"), "array-like"],
        "ratio_prior": [_positive],
        "noise_prior": [None, "array-like"],
        "centre_prior_mean": [None, "array-like"],
        "centre_prior_variance": [None, _positive],
        "weight_prior": [_positive],
        "concentration": [None, Interval(Real, LEAST_CONCENTRATED, MOST_CONCENTRATED, closed="both")],
        "init": [StrOptions({"auto", "spectral", "k-flats", "k-means"}), "array-like"],
    }

    n_components: int | None = 2
    _: KW_ONLY
    dimensions: int | ArrayLike | None = None
    max_dimension: int | None = None
    sampler: str | BaseSampler = "gibbs"
    noise: Literal["shared", "per_cluster"] = "shared"
    dimension_prior: float | ArrayLike | None = None
    ratio_prior: float = 0.5
    noise_prior: ArrayLike | None = None
    centre_prior_mean: ArrayLike | None = None
    centre_prior_variance: float | None = None
    weight_prior: float = 1.0
    concentration: float | None = None
    concentration_prior: ArrayLike = (1.0, 1.0)
    init: Literal["auto", "spectral", "k-flats", "k-means"] | ArrayLike = "auto"
    max_iter: int = 200
    burn_in: int | None = None
    thin: int = 2
    n_init: int = 5
    n_chains: int = 1
    n_predictive_draws: int = 50
    max_draws_bytes: int = 2**28
    n_stored_rows: int = 0
    learning_decay: float = 0.7
    learning_offset: float = 10.0
    random_state: RandomStateLike = None
    n_jobs: int | None = None
    verbose: int = 0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Fit the mixture to rows.

        Parameters
        ----------
        tags.input_tags.sparse = True
        X : array-like of shape (n_samples, n_features)
            NaN marks a missing cell, which the samplers ``"gibbs"`` and ``"slice"`` draw.
        y : Ignored

        Returns
        -------
        self : SubspaceMixture

        Raises
        ------
        ValueError
            If X has infinite values, missing cells with ``"conway"``, or fewer rows than `n_components`, or a parameter
            is incompatible with X.
        IncompatibleError
            If the sampler needs something that this model does not provide.
        """
        return self._fit(X)

    @available_if(_takes_minibatches)
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: Ignored = None) -> Self:
        """Update the fit with a minibatch of rows.

        The labels of minibatch t are drawn given the current subspaces. The moments of the components per row (shares,
        means and scatter matrices) become ``(1 - rate) M + rate M_batch`` with ``rate = (learning_offset + t) **
        -learning_decay``. The subspaces are drawn given these moments of N rows, where N is the effective number of
        rows: the inverse of the sum of the squared weights that rows have in the moments. With more rows, the sampling
        error of the moments would count as further dimensions. With ``learning_decay=1`` and ``learning_offset=0`` all
        minibatches have the same weight.

        The first minibatch is fitted as in `fit`, by the initial partitions and the `n_pilot` steps of the sampler, so
        it should contain rows of every component. It also sets the priors that depend on the data. After `fit`, the
        moments are at first those of the last draw, for the number of rows of the fit. Attributes are means over the
        draws of the second half of the stream, at most `n_predictive_draws`. Components keep their order.

        The method exists only if the sampler supports minibatches. Each component needs a matrix of n_features x
        n_features, so there may be at most 2000 features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            NaN marks a missing cell in dense X.
        y : Ignored

        Returns
        -------
        self : SubspaceMixture

        Raises
        ------
        ValueError
            As in `fit`, or if X has more than 2000 features, or the number of columns, `n_components` or the sampler
            has changed since the first call.
        """
        return self._partial_fit(X)

    def _by_name(self) -> dict[str, Callable[[], BaseSampler]]:
        """Samplers by name; "gibbs" is `Slice` if the number of components is inferred."""
        names = super()._by_name()
        return names if self.n_components else {**names, "gibbs": names["slice"]}

    def _strategy(self, X, run: Run) -> FitStrategy:
        return (SubspacesFit if self.n_components else ProcessFit)(self, X, run)

    def _stream_strategy(self, X, batch: Minibatch) -> StreamStrategy:
        return SubspaceStream(self, X, batch)

    def _check_continues(self, sampler: BaseSampler) -> None:
        super()._check_continues(sampler)
        if "_key" not in vars(self):
            raise ValueError(
                "The fit was saved by an earlier release, without the key of its random streams: call fit."
            )
        self._check_number(self._family.n_components, "components")

    def __sklearn_tags__(self) -> Any:
        tags, kind = super().__sklearn_tags__(), self._samplers.get(self.sampler, type(self.sampler))
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = issubclass(kind, Slice) or is_compatible(kind, IncompleteSubspaceModel)
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_draws")
