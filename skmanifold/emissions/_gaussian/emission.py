"""Emission of real features: Gaussian components with a conjugate prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, clone

from ...numerics.block_sums import BLOCK_ROWS
from ...sparse.counts import Counts
from ...utils._conditions import MOST_COUNTED
from ...utils._sklearn import Interval, StrOptions
from ...utils._threads import split_range
from ...utils._typing import ArrayLike, MatrixLike
from ...utils._validation import check_array
from .._base import WeighableEmission, refuse_unset
from .._dense_rows import DenseRows, read_dense
from .._rounding import cell_width, within_cells
from .base import GaussianFamily
from .dependent_columns import warn_of_dependent_columns
from .diagonal import DiagonalFamily
from .full import FullFamily, ProportionalFamily
from .hyperparameters import NormalPrior
from .tied import TiedFamily
from .transforms import YeoJohnson, transform_of_rows

_MOST_SCATTER = 1e305  # sums of several are finite


def location_and_covariance(X: np.ndarray, weights: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of columns, (d,), and covariances, (d, d), if `full`, or variances; from the observed cells.

    The variance is of observed cells. Covariances are of rows whose missing cells have the mean, scaled to these
    variances: positive semi-definite, which estimates of pairs from different rows might not be. Zero for columns with
    less than two cells. ValueError if the weights have no finite sum or values are too large.
    """
    total = weights.sum()
    if total == 0.0 or not math.isfinite(total):
        raise ValueError("X has no tokens.")
    seen = ~np.isnan(X)
    totals = weights @ seen
    mean = np.einsum("i,ij->j", weights, np.where(seen, X, 0.0)) / totals
    scatter = np.zeros((X.shape[1], X.shape[1]) if full else X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start, stop in split_range(len(X), BLOCK_ROWS):
            gaps = X[start:stop] - mean
            gaps[np.isnan(gaps)] = 0.0
            weighted = weights[start:stop, None] * gaps
            scatter += weighted.T @ gaps if full else np.einsum("ij,ij->j", weighted, gaps)
    if not np.all(np.abs(scatter) < _MOST_SCATTER):
        raise ValueError("X has values whose squares are too large for float64: scale it.")
    # The totals less one, but not less than half: weights may be fractions.
    degrees = np.where(totals > 0.0, np.maximum(totals - 1.0, totals / 2.0), np.inf)
    return mean, (scatter + scatter.T) / 2.0 / np.sqrt(np.outer(degrees, degrees)) if full else scatter / degrees


_RIDGE = 0.01  # share of the features' variances added to the default prior: features may be linearly dependent
_MEAN_PRECISION = 0.01
_LEAST_SQUARE = np.finfo(np.float64).tiny  # smaller numbers have fewer digits
_FAMILIES: dict[str, type[GaussianFamily]] = {
    "full": FullFamily,
    "tied": TiedFamily,
    "diag": DiagonalFamily,
    "spherical": DiagonalFamily,
    "proportional": ProportionalFamily,
}


@dataclass(eq=False, repr=False)
class Gaussian(WeighableEmission):
    r"""Real features, jointly normal given the component: Gaussian mixtures and Gaussian topics.

    .. math:: x_i \mid z_i = k \sim N(\mu_k, \Sigma_k), \qquad
        \Sigma_k \sim \mathrm{IW}(\Psi_0, \nu_0), \quad \mu_k \mid \Sigma_k \sim N(\mu_0, \Sigma_k / \kappa_0).

    The statistics of a component are its number of rows :math:`n_k`, their sum :math:`s_k` and the sum :math:`S_k` of
    :math:`x x'`. The mode in the natural parameters, :math:`\Sigma_k^{-1}` and :math:`\Sigma_k^{-1} \mu_k`, is

    .. math::

        \mu_k = \frac{\kappa_0 \mu_0 + s_k}{\kappa_0 + n_k}, \qquad
        \Sigma_k = \frac{\Psi_0 + \kappa_0 \mu_0 \mu_0' + S_k - (\kappa_0 + n_k) \mu_k \mu_k'}{\nu_0 - d - 2 + n_k}.

    With diagonal covariances each variance has an inverse gamma prior,
    :math:`\mathrm{IG}(\nu_0 / 2, \Psi_{0jj} / 2)`. The mode of each feature follows from the formula with 1 in place of
    :math:`d`. With spherical covariances the only variance of the component has the prior
    :math:`\mathrm{IG}(\nu_0 / 2, \Psi_0 / 2)`. Its mode is the sum of the diagonal of the numerator, with
    :math:`\Psi_0` added once, over :math:`\nu_0 - d - 2 + d n_k`.

    With a tied covariance all components have the same :math:`\Sigma \sim \mathrm{IW}(\Psi_0, \nu_0)`, with
    :math:`\mu_k \mid \Sigma \sim N(\mu_0, \Sigma / \kappa_0)`. The mode has the means above and, with the sum
    :math:`S` of :math:`x x'` over all n rows,

    .. math::

        \Sigma = \frac{\Psi_0 + K \kappa_0 \mu_0 \mu_0' + S - \sum_k (\kappa_0 + n_k) \mu_k \mu_k'}
        {\nu_0 - d - 1 - K + n}.

    Proportional covariances are :math:`\Sigma_k = \lambda_k A` with :math:`|A| = 1` ([4]_). They have no conjugate
    prior: the mode maximises the posterior density of "full" among such covariances. With the numerator :math:`M_k` and
    the denominator :math:`m_k` of :math:`\Sigma_k` above it satisfies

    .. math::

        \lambda_k = \frac{\mathrm{tr}(A^{-1} M_k)}{d \, m_k}, \qquad A \propto \sum_k M_k / \lambda_k,

    which are computed in turn until they no longer change ([5]_).

    In a mixture, cells with NaN are missing, and assumed missing at random: the density of a row is that of its
    observed cells, and a row without observed cells has density 1. With "diag" and "spherical" the statistics of a
    component count the observed cells of each feature, in place of :math:`n_k`. With matrices, ESCA and Gibbs sampling
    draw the missing cells of a row given its component and its observed cells, and EM uses their conditional means and
    covariances. The statistics of initial labels have the mean of the observed cells in missing cells.

    Parameters
    ----------
    covariance_type : {"full", "tied", "diag", "spherical", "proportional"}, default="full"
        One covariance matrix per component; one covariance matrix for all components; one variance per feature of a
        component; one variance for all features of a component; multiples of one covariance matrix, for a given number
        of components and samplers that use the mode ("em", "esca").
    mean_prior : array-like of shape (n_features,), default=None
        :math:`\mu_0`; None is the mean of the rows, of each column over its observed cells.
    mean_precision_prior : float or array-like of shape (n_features,), default=None
        :math:`\kappa_0`: the number of rows to which the prior of the mean is equivalent; with "diag" it may differ
        between columns. None is learned by mixtures, see Notes, and 0.01 where it is not learned.
    covariance_prior : float or array-like of shape (n_features,) or (n_features, n_features), default=None
        :math:`\Psi_0`, or its diagonal; for spherical covariances a number. None is learned by mixtures, see Notes, but
        with "tied" not by :class:`~skmanifold.DPMixture`. Where it is not learned, it is the covariance of the rows
        divided by :math:`K^{2/d}`, so that the components together have the volume of the data ([1]_): for matrices
        plus one percent of its diagonal, for "diag" the diagonal, for "spherical" its mean. A constant column has the
        mean variance of the others. With missing cells, variances are of observed cells, and covariances those of rows
        with the means of columns in missing cells, scaled to these variances. K is 1 in
        :class:`~skmanifold.DPMixture`.
    degrees_of_freedom_prior : float or array-like of shape (n_features,), default=None
        :math:`\nu_0`; with "diag" it may differ between columns. None is learned by mixtures together with
        :math:`\Psi_0`, except with "tied". Where it is not learned, also if `covariance_prior` is given, None is
        :math:`d + 3` (:math:`d + K + 2` for "tied", 4 for "diag"). Then the prior of the covariance is equivalent to
        one row, or for "spherical" to one number, and a component without rows has the covariance :math:`\Psi_0`.
    transform : {"auto"}, array-like of shape (n_features,) or None, default=None
        Powers :math:`\lambda_j` from 0 to 2 of Yeo-Johnson transforms of the columns, for skewed columns; 1 leaves a
        column as it is. "auto" learns them, see Notes; None transforms no column. Not for word vectors of admixtures.
    resolution : "auto", float or array-like of shape (n_features,), default=None
        Width :math:`h_j` of the cells to which the numbers of each column were rounded, 0 for exact numbers. "auto"
        finds grids, offset plus multiples of a width, with repeated numbers. None is "auto" for
        :class:`~skmanifold.DPMixture`, and 0 for other estimators; see Notes. Not for word vectors of admixtures.
    covariance_scale : float or array-like of shape (n_features,) or (n_features, n_features), default=None
        :math:`V` of the prior of :math:`\Psi_0` where :class:`~skmanifold.DPMixture` draws it, see Notes. None is the
        default of `covariance_prior`.

    Notes
    -----
    Mixtures learn the numbers that are None from the rows (empirical Bayes): how probable new rows are, and how many
    components there are, depends on them. With a partition of a sample of the rows, the numbers maximise the marginal
    likelihood: the means and covariances are integrated out. For full covariances it is the product over the clusters
    of

    .. math::

        p(X_k) = \pi^{-d n_k / 2} \left( \frac{\kappa_0}{\kappa_0 + n_k} \right)^{d/2}
        \frac{|\Psi_0|^{\nu_0 / 2}}{|\Psi_k|^{(\nu_0 + n_k) / 2}}
        \frac{\Gamma_d((\nu_0 + n_k) / 2)}{\Gamma_d(\nu_0 / 2)}, \qquad
        \Psi_k = \Psi_0 + W_k + \frac{\kappa_0 n_k}{\kappa_0 + n_k} (\bar x_k - \mu_0) (\bar x_k - \mu_0)',

    where :math:`W_k` is the sum of :math:`(x - \bar x_k) (x - \bar x_k)'` and :math:`\Gamma_d` the multivariate gamma
    function. For variances it is the same formula with :math:`d = 1` for each feature; a spherical component has one
    factor with :math:`\Psi_0` and :math:`\nu_0`, for the sum of the squares of all features. The prior mean of the
    covariances, :math:`\Psi_0 / (\nu_0 - d - 1)`, is a scale times the pooled covariance within the clusters. The
    marginal likelihood is multiplied by lognormal densities of the scale, of :math:`\nu_0 - d - 1` and of
    :math:`\kappa_0`, with medians 1, 2 and 0.1, and standard deviations of the logarithms 2, 1 and 0.5. They keep the
    numbers finite if there are few clusters; :math:`\kappa_0` is at least 0.01. "diag" and "spherical" have
    :math:`\nu_0 - 2` in place of :math:`\nu_0 - d - 1`. With "tied" only :math:`\kappa_0` is learned: the rows
    determine the common covariance. :math:`\mu_0` is not learned, and an improper prior stays as it is. ``emission_``
    of the estimator has the learned numbers.

    :class:`~skmanifold.ExponentialFamilyMixture` learns them from the sums of components, in place of those of a
    partition: after ten passes of EM from the labels of its first start, in a random sample if there are more than
    16,384 rows; `partial_fit` learns them from its first minibatch. For "full", "diag" and "spherical" the function
    above is maximised with a scale of at least 0.3, because columns of few different numbers could make it arbitrarily
    small, and with :math:`\nu_0` of at least 0.1 above the limit below which a component without rows has no mode. The
    numbers are rounded up to a percent. For "tied" :math:`\Psi_0` is the pooled covariance within the components, which
    has the weight of one row. For "proportional" it is a tenth of this covariance, with :math:`\nu_0 = d + 2.1`, which
    has the weight of a tenth of a row in each component. In both :math:`\kappa_0` is 0.01. A column that is constant in
    all rows keeps the variance of the default `covariance_prior`. Numbers of blocks of
    :class:`~skmanifold.emissions.Columns` are not learned.

    These numbers are then fixed, or in :class:`~skmanifold.DPMixture`, unless ``hyperparameters="learn"``, the start of
    a chain that also draws them, from their posterior given the partition. Then :math:`\Psi_0 = (\nu_0 - d - 1) s R`,
    where s is the scale, and the prior of R does not depend on a partition:

    .. math::

        R \sim W(d + 2, V / (d + 2)), \qquad R \mid \Sigma \sim W\Bigl(d + 2 + K \nu_0,
        \bigl[(d + 2) V^{-1} + (\nu_0 - d - 1) s \textstyle\sum_k \Sigma_k^{-1}\bigr]^{-1}\Bigr),

    for the K components that have rows. V is the covariance of all rows (`covariance_scale`), and s, :math:`\nu_0 - d
    - 1` and :math:`\kappa_0` have the lognormal priors above, between 1e-5 and 100, 0.5 and 1e4, 0.01 and 1e4. Each
    pass draws R or one of the three, chosen at random, by a slice update with means and covariances integrated out.
    With "diag" and "spherical" each variance has its own R, with 3 in place of :math:`d + 2`. In :math:`s R` the
    others leave at least a millionth of the variance of each column unexplained that they leave in V.

    A rounded number :math:`x_{ij}` stands for an unknown one between :math:`x_{ij} - h_j / 2` and :math:`x_{ij} + h_j /
    2`. :class:`~skmanifold.DPMixture` draws it in each pass from the normal distribution given the component and the
    other cells of the row, truncated to the cell, so that a cluster of equal numbers does not become arbitrarily thin.
    Scores of new rows are log probabilities of their cells divided by the volumes of these, with a normal distribution
    of the same variance, :math:`h_j^2 / 12`, in place of the uniform one within a cell. The error is below 0.02 nats
    for a standard deviation of at least half a cell within 2.5 of them, and at most 0.33 for each column in much
    thinner components. Drawn and imputed numbers are not rounded; imputed ones are predicted from the cells of their
    row with the same variances, which makes predictions from thin components stable. As :math:`h \to 0` all results
    become those of exact numbers.

    :class:`~skmanifold.ExponentialFamilyMixture` with ``"gibbs"`` draws the component and the numbers of a row from
    their joint distribution given the parameters and the cells, by rejection. The log likelihood of a draw is that of
    the cells divided by their volumes; with "full" and "tied" it is an unbiased estimate. Draws are exact unless the
    last of 10,000 proposals for a row is rejected, and used. This happens if many columns are strongly dependent
    within components that are much thinner than the cells.

    Other samplers take the numbers to be uniform within their cells: :math:`S_k` has :math:`n_k h_j^2 / 12` in
    addition on its diagonal, and membership probabilities follow from the mean of the log densities of these numbers,
    so that EM increases a lower bound of the likelihood of the cells. This is approximate: variances of components that
    are not much wider than a cell are too large by up to :math:`h_j^2 / 6`.

    With `transform` the components are normal distributions of transformed columns, :math:`t_j(x) = a_j + b_j \,
    \psi(u; \lambda_j)` with :math:`u = (x - m_j) / s_j`, where [3]_

    .. math::

        \psi(u; \lambda) = \begin{cases} ((1 + u)^\lambda - 1) / \lambda & u \ge 0 \\
        -((1 - u)^{2 - \lambda} - 1) / (2 - \lambda) & u < 0, \end{cases}

    with logarithms in place of a power 0. :math:`m_j` is the median of the observed cells of the fitted rows,
    :math:`s_j` their interquartile range divided by 1.349, and :math:`a_j` and :math:`b_j` keep the mean and the
    standard deviation of 65 quantiles of these cells, from the lowest to the highest, so that priors have the same
    scale for any power. Below the lowest and above the highest fitted value
    :math:`t_j` is a straight line. Densities of rows include the factors :math:`t_j'(x)`. ``components_`` are expected
    values of the columns, computed by quadrature from normal distributions, and drawn or imputed rows have the units of
    the columns; ``covariances_`` and the hyperparameters are those of transformed columns.

    "auto" chooses the power of a column that maximises the marginal likelihood of the column given clusters, and for
    matrices given the other columns, if that increases the logarithm by more than 3 compared with
    :math:`\lambda_j = 1`. :class:`~skmanifold.DPMixture` does so in the rounds of its search for initial clusters, and
    other estimators with clusters of k-means, twice: of the rows, and of the transformed rows. ``emission_`` of the
    estimator has the chosen powers. They are then fixed, or the start of a chain of :class:`~skmanifold.DPMixture` that
    draws the powers that are not 1, with a uniform prior from 0 to 2: in a fifth of the passes a slice update of one of
    them, given the partition, with means and covariances integrated out. What is known of a missing cell there is its
    transformed value, what is known of a rounded number its value in the units of the column.

    A fit warns about columns that are linear functions of others, up to rounding, and names them.

    The joint mode with respect to means and full covariances ([1]_; [2]_, eq. 73) has the same formula with a
    :math:`\nu_0` that is greater by :math:`2 d + 4`. It shrinks all covariances, strongly in components with few rows.

    Maximum likelihood is ``Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=d + 2)``
    (``d + K + 1`` for "tied", 3 for "diag"), for samplers that use the mode. Then the covariance of a component with
    too few rows becomes singular, and the fit ends with an error. Draws of the parameters need a proper prior:
    :math:`\kappa_0 > 0`, a positive definite :math:`\Psi_0`, and :math:`\nu_0 > d - 1` (:math:`\nu_0 > 0` for "diag"
    and "spherical").

    References
    ----------
    .. [1] C. Fraley and A. E. Raftery, "Bayesian regularization for normal mixture estimation and model-based
       clustering", Journal of Classification 24, 2007.
    .. [2] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.
    .. [3] I.-K. Yeo and R. A. Johnson, "A new family of power transformations to improve normality or symmetry",
       Biometrika 87, 2000.
    .. [4] B. K. Flury, "Proportionality of k covariance matrices", Statistics & Probability Letters 4, 1986.
    .. [5] G. Celeux and G. Govaert, "Gaussian parsimonious clustering models", Pattern Recognition 28, 1995.

    Examples
    --------
    >>> from skmanifold.emissions import Gaussian
    >>> Gaussian("diag")
    Gaussian(covariance_type='diag')
    """

    short_name = "gaussian"
    allows_missing = True
    allows_sparse = False
    positive_only = False
    has_vector_tokens = True
    row_family = token_family = FullFamily  # with default settings
    _parameter_constraints: ClassVar[dict] = {
        "covariance_type": [StrOptions(set(_FAMILIES))],
        "mean_prior": [None, "array-like"],
        "mean_precision_prior": [None, Interval(Real, 0, MOST_COUNTED, closed="both"), "array-like"],
        "covariance_prior": [None, Interval(Real, 0, None, closed="left"), "array-like"],
        "covariance_scale": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "resolution": [None, StrOptions({"auto"}), Interval(Real, 0, None, closed="left"), "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, -MOST_COUNTED, MOST_COUNTED, closed="both"), "array-like"],
        "transform": [None, StrOptions({"auto"}), "array-like"],
    }

    covariance_type: Literal["full", "tied", "diag", "spherical", "proportional"] = "full"
    mean_prior: ArrayLike | None = None
    mean_precision_prior: float | ArrayLike | None = None
    covariance_prior: float | ArrayLike | None = None
    degrees_of_freedom_prior: float | ArrayLike | None = None
    resolution: Literal["auto"] | float | ArrayLike | None = None
    covariance_scale: float | ArrayLike | None = None
    transform: Literal["auto"] | ArrayLike | None = None

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> DenseRows:
        """Validate X of finite numbers and NaN."""
        rows = read_dense(estimator, X, reset=reset, emission=self, missing=True)
        if reset:
            warn_of_dependent_columns(estimator, rows.values)
        return rows

    def family_type(self) -> type[GaussianFamily]:
        """The class of the families that `bind` makes."""
        return _FAMILIES[self.covariance_type]

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> GaussianFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        refuse_unset(self, "mean_prior", *(["covariance_prior"] if self.covariance_scale is None else []))
        if self.transform is not None:
            raise ValueError("The transform of Gaussian depends on the data: fit the estimator and omit n_features.")
        location = np.asarray(self.mean_prior, dtype=np.float64).reshape(1, -1)
        if location.shape[1] != n_features:
            raise ValueError(f"mean_prior must have shape ({n_features},); got ({location.shape[1]},).")
        return self._bind(location, np.ones(1), n_components, "rows")

    def bind_weighted(self, rows: DenseRows, n_components: int, row_weights: np.ndarray | None) -> GaussianFamily:
        """Make the family of rows; default priors use their weights."""
        what = "rows of X that have a weight"
        if row_weights is None:
            row_weights, what = np.ones(rows.n_rows), f"rows of X (n_samples={rows.n_rows})"
        return self._bind(rows.values, row_weights, n_components, what)

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> GaussianFamily:
        """Make the family of tokens, which are rows of `word_vectors`."""
        if self.transform is not None:
            raise ValueError("The transform of Gaussian is for columns of rows, not for word_vectors: set it to None.")
        if word_vectors is None:
            raise ValueError("emission='gaussian' needs word_vectors, one for each column of X.")
        vectors = check_array(word_vectors, dtype=np.float64, input_name="word_vectors")
        if len(vectors) != tokens.n_features:
            raise ValueError(
                f"word_vectors must have a row for each of the {tokens.n_features} columns of X; it has {len(vectors)}."
            )
        vectors = np.require(vectors, requirements=["C", "W"])
        weights = np.bincount(tokens.indices, weights=tokens.counts, minlength=tokens.n_features)
        family = self._bind(vectors, weights, n_components, "word_vectors of words that occur")
        family.word_vectors, family.word_weights, family.resolution = vectors, weights, None
        return family

    def free_hyperparameters(self) -> tuple[str, ...]:
        """Hyperparameters that mixtures learn, since they are None."""
        free = ["mean_precision"] if self.mean_precision_prior is None else []
        if self.covariance_prior is None:
            is_tied = self.covariance_type == "tied"
            free += ["covariance"] + ["degrees"] * (self.degrees_of_freedom_prior is None and not is_tied)
        return (*free, "transform") if isinstance(self.transform, str) else tuple(free)

    def with_prior_of(self, clusters: GaussianFamily) -> Gaussian:
        """The emission with the prior and the transform of clusters."""
        mean, mean_precision, covariance, degrees = clusters.prior
        given = float(covariance[0]) if self.covariance_type == "spherical" else covariance
        numbers, transform = (mean_precision, given, degrees), self.with_transform_of(clusters).transform
        return Gaussian(self.covariance_type, mean, *numbers, self.resolution, transform=transform)

    def with_resolution_of(self, rows: DenseRows) -> Gaussian:
        """The emission with the resolution of each column, found in rows unless it is given."""
        if not isinstance(rows, DenseRows) or not (self.resolution is None or isinstance(self.resolution, str)):
            return self
        return clone(self).set_params(resolution=np.array([cell_width(column) for column in rows.values.T]))

    def with_transform_of(self, family: GaussianFamily) -> Gaussian:
        """The emission with the powers of a family, if they are learned."""
        if not isinstance(self.transform, str):
            return self
        return clone(self).set_params(transform=family.powers)

    def _bind(self, X: np.ndarray, weights: np.ndarray, n_components: int, what: str) -> GaussianFamily:
        d = X.shape[1]
        location, covariance = location_and_covariance(X, weights, self.family_type().has_matrices)
        widths = self._widths(X)
        transform = None if self.transform is None else self._transform_of(X, weights, n_components)
        if transform is not None:
            X = transform.forward(X)
            location, covariance = location_and_covariance(X, weights, self.family_type().has_matrices)
        given = [name for name in ("covariance_prior", "covariance_scale") if getattr(self, name) is not None]
        if given:
            prior_covariance = self._given_covariance(given[0], d)
        else:
            seen = X if weights.all() else X[weights > 0.0]
            prior_covariance = self._default_covariance(seen, covariance, n_components, what)
        mean = location
        if self.mean_prior is not None:
            mean = check_array(self.mean_prior, dtype=np.float64, ensure_2d=False, input_name="mean_prior")
            if mean.shape != (d,):
                raise ValueError(f"mean_prior must have shape ({d},); got {mean.shape}.")
        default = {"diag": 4, "tied": d + n_components + 2}.get(self.covariance_type, d + 3)
        degrees = self._number_of_prior("degrees_of_freedom_prior", default, -MOST_COUNTED, d)
        precision = self._number_of_prior("mean_precision_prior", _MEAN_PRECISION, 0.0, d)
        family = self.family_type()(NormalPrior(mean, precision, prior_covariance, degrees), n_components, location)
        family.resolution, family.transform = widths, transform
        return family

    def _number_of_prior(self, name: str, default: float, least: float, d: int) -> float | np.ndarray:
        """A number of the prior, or those of the columns, (d,)."""
        given = getattr(self, name)
        if given is None or np.ndim(given) == 0:
            return float(default if given is None else given)
        values = check_array(given, dtype=np.float64, ensure_2d=False, input_name=name)
        if self.covariance_type != "diag" or values.shape != (d,) or not least <= values.min() <= values.max() < 1e300:
            raise ValueError(f"{name} must be a number, or with 'diag' {d} numbers of at least {least:g}.")
        return values

    def _widths(self, X: np.ndarray) -> np.ndarray | None:
        """Widths of the cells of each column; None if all are zero."""
        given = self.resolution
        if isinstance(given, str):
            given = self.with_resolution_of(DenseRows(X)).resolution
        widths = np.zeros(X.shape[1]) if given is None else np.asarray(given, dtype=np.float64)
        if widths.ndim > 1 or widths.size not in (1, X.shape[1]) or not (np.isfinite(widths) & (widths >= 0.0)).all():
            raise ValueError(f"resolution must be a number, or {X.shape[1]} numbers, that are finite and not negative.")
        return np.array(np.broadcast_to(widths, X.shape[1])) if widths.any() else None

    def _transform_of(self, X: np.ndarray, weights: np.ndarray, n_components: int) -> YeoJohnson | None:
        """The transform with the given powers, or with those that are learned from clusters of k-means."""
        d = X.shape[1]
        if not isinstance(self.transform, str):
            powers = check_array(self.transform, dtype=np.float64, ensure_2d=False, input_name="transform")
            if powers.shape != (d,) or not np.all((powers >= 0.0) & (powers <= 2.0)):
                raise ValueError(f"transform must have a power from 0 to 2 for each of the {d} columns; got {powers}.")
            return YeoJohnson.of_rows(X, weights, powers)
        spread = within_cells(X, np.array([cell_width(column) for column in X.T]))
        return transform_of_rows(self.family_type(), X, spread, weights, n_components)

    def _default_covariance(self, X: np.ndarray, covariance: np.ndarray, n_components: int, what: str) -> np.ndarray:
        """The covariance of the rows with the ridge; a constant column has the mean variance of the others."""
        full = covariance.ndim == 2
        squares = np.diag(covariance) if full else covariance
        lowest, highest = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
        with np.errstate(over="ignore"):
            too_close = (lowest < highest) & ((highest - lowest) ** 2 < _LEAST_SQUARE)
        if too_close.any():
            raise ValueError(
                f"Column {too_close.argmax()} of the {what} has values whose squares are too small for float64: scale "
                "it."
            )
        varying = (lowest < highest) & (squares > 0.0)  # rounding errors give constant columns a scatter
        if not varying.any():
            raise ValueError(
                f"All {what} are the same, so that there is no default covariance_prior: give a covariance_prior."
            )
        variances = np.where(varying, squares, 0.0)
        floor = np.where(varying, 0.0, variances[varying].mean())
        default = np.array([variances.mean()]) if self.covariance_type == "spherical" else variances + floor
        if full:
            default = np.where(np.outer(varying, varying), covariance, 0.0) + np.diag(floor + _RIDGE * variances)
        return default * n_components ** (-2.0 / len(varying))

    def _given_covariance(self, name: str, d: int) -> np.ndarray:
        form, values = self.covariance_type, np.array(getattr(self, name), dtype=np.float64)
        shapes = {"diag": ((), (d,)), "spherical": ((),)}.get(form, ((), (d,), (d, d)))
        if values.shape not in shapes or not np.isfinite(values).all():
            wanted = f"be finite and have shape {' or '.join(map(str, shapes))} for {form} covariances"
            raise ValueError(f"{name} must {wanted}; got {values.shape}.")
        if values.ndim < 2:
            values = np.full(1 if form == "spherical" else d, values)
            values = np.diag(values) if self.family_type().has_matrices else values
        lowest = values.min()
        if values.ndim == 2:  # of features with equal variances: rounding errors are those of the largest
            roots = np.sqrt(np.where(np.diag(values) > 0.0, np.diag(values), 1.0))
            lowest = np.linalg.eigvalsh(values / roots / roots[:, np.newaxis]).min()
        if not np.array_equal(values, values.T) or lowest < 0.0:
            raise ValueError(f"{name} must be symmetric and positive semi-definite.")
        return values
