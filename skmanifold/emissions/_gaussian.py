"""Emission of real features: Gaussian components with a conjugate prior."""

from __future__ import annotations

import math
from numbers import Real
from typing import ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BLOCK_ROWS
from ..sparse.counts import Counts
from ..utils._sklearn import Interval, StrOptions
from ..utils._threads import split_range
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import check_array
from ._base import BaseEmission
from ._gaussian_base import NormalPrior
from ._gaussian_families import DiagonalFamily, FullFamily
from ._rows import DenseRows, read_dense

_RIDGE = 0.01  # share of the features' variances added to the default prior: features may be linearly dependent


class Gaussian(BaseEmission):
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

    Parameters
    ----------
    covariance_type : {"full", "diag", "spherical"}, default="full"
        Full covariance matrices; one variance per feature; one variance for all features.
    mean_prior : array-like of shape (n_features,), default=None
        :math:`\mu_0`; None is the mean of the rows.
    mean_precision_prior : float, default=0.01
        :math:`\kappa_0`: the number of rows to which the prior of the mean is equivalent.
    covariance_prior : float or array-like of shape (n_features,) or (n_features, n_features), default=None
        :math:`\Psi_0`, or its diagonal; for spherical covariances a number. None is the covariance of the rows divided
        by :math:`K^{2/d}`, so that the components together have the volume of the data ([1]_). For "full", one percent
        of its diagonal is added; "diag" uses the diagonal alone, "spherical" the mean of the diagonal. A column that
        has the same value in all rows has the mean variance of the other columns.
    degrees_of_freedom_prior : float, default=None
        :math:`\nu_0`; None is :math:`d + 3` (4 for "diag"). Then the prior of the covariance is equivalent to one row,
        or for "spherical" to one number, and a component without rows has the covariance :math:`\Psi_0`.

    Notes
    -----
    The joint mode with respect to means and full covariances ([1]_; [2]_, eq. 73) has the same formula with a
    :math:`\nu_0` that is greater by :math:`2 d + 4`. It shrinks all covariances, strongly in components with few rows.

    Maximum likelihood is ``Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=d + 2)`` (3
    for "diag"), for samplers that use the mode. Then the covariance of a component with too few rows becomes singular,
    and the fit ends with an error. Draws of the parameters need a proper prior: :math:`\kappa_0 > 0`, a positive
    definite :math:`\Psi_0`, and :math:`\nu_0 > d - 1` (:math:`\nu_0 > 0` if not full).

    References
    ----------
    .. [1] C. Fraley and A. E. Raftery, "Bayesian regularization for normal mixture estimation and model-based
       clustering", Journal of Classification 24, 2007.
    .. [2] M. Zaheer, M. Wick, J.-B. Tristan, A. Smola and G. Steele, "Exponential stochastic cellular automata for
       massively parallel inference", AISTATS 2016.

    Examples
    --------
    >>> from skmanifold.emissions import Gaussian
    >>> Gaussian("diag")
    Gaussian(covariance_type='diag')
    """

    short_name = "gaussian"
    allows_sparse = False
    positive_only = False
    has_vector_tokens = True
    _parameter_constraints: ClassVar[dict] = {
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "mean_prior": [None, "array-like"],
        "mean_precision_prior": [Interval(Real, 0, None, closed="left")],
        "covariance_prior": [None, Interval(Real, 0, None, closed="left"), "array-like"],
        "degrees_of_freedom_prior": [None, Interval(Real, None, None, closed="neither")],
    }

    def __init__(
        self,
        covariance_type: Literal["full", "diag", "spherical"] = "full",
        mean_prior: ArrayLike | None = None,
        mean_precision_prior: float = 0.01,
        covariance_prior: float | ArrayLike | None = None,
        degrees_of_freedom_prior: float | None = None,
    ) -> None:
        self.covariance_type = covariance_type
        self.mean_prior = mean_prior
        self.mean_precision_prior = mean_precision_prior
        self.covariance_prior = covariance_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> DenseRows:
        """Validate X of finite numbers.

        Parameters
        ----------
        estimator : estimator instance
            Validation stores the number and names of columns in it, as scikit-learn does.
        X : array-like of shape (n_samples, n_features)
            As the user gave it.
        reset : bool
            Whether to store the number and names of columns, or to compare them with those of `fit`.

        Returns
        -------
        rows : DenseRows
            Rows, with ``n_rows``, ``n_features`` and ``log_base``.

        Raises
        ------
        ValueError
            If X has values that the emission does not accept.
        """
        return read_dense(estimator, X, reset=reset, emission=self)

    def bind(self, rows: DenseRows, n_components: int) -> FullFamily | DiagonalFamily:
        """Make the family of rows.

        Parameters
        ----------
        rows : DenseRows
            What the emission's `read` returned.
        n_components : int
            Number of components K.

        Returns
        -------
        family : FullFamily or DiagonalFamily
            The family, a `RowFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the rows.
        """
        return self._bind(rows.values, np.ones(rows.n_rows), n_components, f"rows of X (n_samples={rows.n_rows})")

    def bind_tokens(
        self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None
    ) -> FullFamily | DiagonalFamily:
        """Make the family of tokens, which are rows of `word_vectors`.

        Parameters
        ----------
        tokens : Counts
            What `read_tokens` returned.
        n_components : int
            Number of components K.
        word_vectors : array-like of shape (n_features, n_dims), default=None
            One vector for each column of X, for emissions whose tokens are vectors.

        Returns
        -------
        family : FullFamily or DiagonalFamily
            The family, a `TokenFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the tokens.
        """
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
        family.word_vectors, family.word_weights = vectors, weights
        return family

    def _bind(self, X: np.ndarray, weights: np.ndarray, n_components: int, what: str) -> FullFamily | DiagonalFamily:
        d, full = X.shape[1], self.covariance_type == "full"
        location, scatter = _location_and_scatter(X, weights, full)
        if self.covariance_prior is None:
            seen = X if weights.all() else X[weights > 0.0]
            covariance = self._default_covariance_prior(seen, scatter, weights.sum(), n_components, what)
        else:
            covariance = self._given_covariance_prior(d)
        mean = location
        if self.mean_prior is not None:
            mean = check_array(self.mean_prior, dtype=np.float64, ensure_2d=False, input_name="mean_prior")
            if mean.shape != (d,):
                raise ValueError(f"mean_prior must have shape ({d},); got {mean.shape}.")
        degrees = self.degrees_of_freedom_prior
        prior = NormalPrior(
            mean=mean,
            mean_precision=float(self.mean_precision_prior),
            covariance=covariance,
            degrees=float((4 if self.covariance_type == "diag" else d + 3) if degrees is None else degrees),
        )
        if full:
            return FullFamily(prior, n_components, location)
        return DiagonalFamily(prior, n_components, location, self.covariance_type == "spherical")

    def _default_covariance_prior(
        self, X: np.ndarray, scatter: np.ndarray, n: float, n_components: int, what: str
    ) -> np.ndarray:
        """The covariance of the rows with the ridge; a constant column has the mean variance of the others."""
        full = self.covariance_type == "full"
        squares = np.diag(scatter) if full else scatter
        varying = (X.min(axis=0) < X.max(axis=0)) & (squares > 0.0)  # rounding errors give constant columns a scatter
        if not varying.any():
            raise ValueError(
                f"All {what} are the same, so that there is no default covariance_prior: give a covariance_prior."
            )
        variances = np.where(varying, squares, 0.0) / (n - 1.0)
        if self.covariance_type == "spherical":
            covariance = np.array([variances.mean()])
        else:
            floor = np.where(varying, 0.0, variances[varying].mean())
            if full:
                covariance = np.where(np.outer(varying, varying), scatter, 0.0) / (n - 1.0)
                covariance += np.diag(floor + _RIDGE * variances)
            else:
                covariance = variances + floor
        return covariance * n_components ** (-2.0 / len(varying))

    def _given_covariance_prior(self, d: int) -> np.ndarray:
        covariance_type, given = self.covariance_type, self.covariance_prior
        values = np.array(given, dtype=np.float64)
        shapes = {"full": ((), (d,), (d, d)), "diag": ((), (d,)), "spherical": ((),)}[covariance_type]
        if values.shape not in shapes or not np.isfinite(values).all():
            allowed = " or ".join(map(str, shapes))
            raise ValueError(
                f"covariance_prior must be finite and have shape {allowed} for {covariance_type} covariances; "
                f"got {values.shape}."
            )
        if covariance_type == "spherical":
            values = np.array([values])
        elif covariance_type == "diag":
            values = np.full(d, values)
        elif values.ndim < 2:
            values = np.diag(np.full(d, values))
        lowest = values.min() if covariance_type != "full" else np.linalg.eigvalsh(values).min()
        if not np.array_equal(values, values.T) or lowest < 0.0:
            raise ValueError("covariance_prior must be symmetric and positive semi-definite.")
        return values


def _location_and_scatter(X: np.ndarray, weights: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean of the rows, and the sum of products (or squares) about it."""
    total = weights.sum()
    if total == 0.0 or not math.isfinite(total):
        raise ValueError("X has no tokens.")
    mean = np.einsum("i,ij->j", weights, X) / total
    scatter = np.zeros((X.shape[1], X.shape[1]) if full else X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start, stop in split_range(len(X), BLOCK_ROWS):
            gaps = X[start:stop] - mean
            weighted = weights[start:stop, None] * gaps
            scatter += weighted.T @ gaps if full else np.einsum("ij,ij->j", weighted, gaps)
    if not np.isfinite(scatter).all():
        raise ValueError("X has values whose squares are too large for float64: scale it.")
    return mean, (scatter + scatter.T) / 2.0 if full else scatter
