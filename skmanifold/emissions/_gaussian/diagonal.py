"""Gaussian family with diagonal or spherical covariances."""

from __future__ import annotations

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS
from ...random._keys import fold_in_each
from ...random._variates import fill_normal
from ...utils._conditions import FLAG
from ...utils._declared import holds
from .._clusters.gaussian.diagonal import DiagonalClusters
from .._dense_rows import DenseRows
from .._protocols import Arrays
from .base import LOG_2PI, GaussianFamily, GaussianParameters, NormalPrior, refuse_singular
from .families import OF_GAUSSIANS, family_agrees
from .kernels import add_diagonal_densities, fill_gammas_and_normals
from .missing_kernels import add_observed_diagonal_densities, count_labelled_missing, count_shared_missing


@holds(family_agrees, **OF_GAUSSIANS, spherical=FLAG)
class DiagonalFamily(GaussianFamily):
    """Gaussian family with one variance for each feature of a component, or one for all features.

    Missing cells are integrated out: each feature of a component has the statistics of its observed cells. A fourth
    statistic counts the missing cells.

    Parameters
    ----------
    prior : NormalPrior
        Prior of the means and variances.
    n_components : int
        Number of components K.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    spherical : bool
        Whether all features of a component share one variance.
    """

    def __init__(self, prior: NormalPrior, n_components: int, origin: np.ndarray, spherical: bool):
        super().__init__(prior, n_components, origin)
        self.spherical = spherical

    @property
    def _n_pooled(self) -> int:
        """Number of features that share a variance."""
        return self.n_features if self.spherical else 1

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, sums, squares and numbers of missing cells."""
        return *super().shapes(), (self.n_components, self.n_features)

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        _, means, squares = self._posterior(statistics)
        degrees = (self.prior.degrees - 2.0 + self._n_pooled * (statistics[0] - 1.0))[:, None]
        degrees = degrees - self._pooled(statistics[3])
        return self._parameters(means, squares / np.where(degrees > 0.0, degrees, np.nan))

    def draw(self, statistics: Arrays, key: np.uint64) -> GaussianParameters:
        """Draw means and variances from their posterior."""
        self._check_proper(0.0, self.prior.covariance.min() > 0.0)
        precision, means, squares = self._posterior(statistics)
        degrees = (self.prior.degrees + self._n_pooled * statistics[0])[:, None] - self._pooled(statistics[3])
        shapes = 0.5 * degrees
        gammas, normals = np.empty(squares.shape), np.empty(means.shape)
        fill_gammas_and_normals(key, shapes, gammas, normals)
        variances = 0.5 * squares / gammas
        return self._parameters(means + normals * np.sqrt(variances / precision), variances)

    def log_prior(self, parameters: GaussianParameters) -> float:
        """Log normal-inverse-gamma density of the natural parameters, up to a constant."""
        prior = self.prior
        gaps = prior.mean_precision * (parameters.means - prior.mean) ** 2
        variances = parameters.covariances
        if self.spherical:
            gaps, variances = gaps.sum(axis=1, keepdims=True), variances[:, :1]
        power = prior.degrees - 2.0 - self._n_pooled
        return float(-0.5 * (power * np.log(variances) + (prior.covariance + gaps) / variances).sum())

    def log_likelihood(self, statistics: Arrays, parameters: GaussianParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products, missing = statistics
        means = parameters.means - self.origin
        squares = products[:, :, 0] - means * (2.0 * sums - (sizes[:, None] - missing) * means)
        of_cells = sizes @ parameters.offsets - (missing * _cell_offsets(parameters)).sum()
        return float(of_cells - 0.5 * (parameters.factors * squares).sum())

    def clusters(self, rows: DenseRows | None = None) -> DiagonalClusters:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        self._check_proper(0.0, self.prior.covariance.min() > 0.0)
        values = np.empty((0, self.n_features)) if rows is None else rows.values
        return DiagonalClusters(values, self.prior, self.origin)

    def n_parameters(self) -> int:
        """Number of free parameters: means and variances."""
        return self.n_components * (self.n_features + (1 if self.spherical else self.n_features))

    def sample(self, parameters: GaussianParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        out = np.empty((len(labels), self.n_features))
        fill_normal(fold_in_each(key, np.arange(len(labels))), 0, out)
        return parameters.means[labels] + out * np.sqrt(parameters.covariances)[labels]

    def _add_densities(self, X, first, stop, parameters, out):
        add_diagonal_densities(X, first, stop, parameters.means, parameters.factors, parameters.offsets, out)

    def _add_observed(self, rows, chosen, places, parameters, out):
        of_cells = parameters.means, parameters.factors, _cell_offsets(parameters)
        add_observed_diagonal_densities(rows.values, chosen, places, *of_cells, out)

    def _add_labelled(self, rows, first, stop, labels, *arrays):
        *others, missing = arrays
        super()._add_labelled(rows, first, stop, labels, *others)
        if rows.has_missing:
            count_labelled_missing(rows.values, first, stop, BLOCK_ROWS, labels, missing)

    def _add_shared(self, rows, first, stop, shares, *arrays):
        *others, missing = arrays
        super()._add_shared(rows, first, stop, shares, *others)
        if rows.has_missing:
            count_shared_missing(rows.values, first, stop, shares, missing)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precisions of the means in observed cells, the means relative to the origin, and sums of squares."""
        sizes, sums, products, missing = statistics
        precision, prior_mean = self._precisions(sizes[:, None] - missing), self.prior.mean - self.origin
        means = (self.prior.mean_precision * prior_mean + sums) / precision
        squares = self.prior.mean_precision * prior_mean**2 + products[:, :, 0] - precision * means**2
        return precision, means, self.prior.covariance + np.maximum(self._pooled(squares), 0.0)

    def _pooled(self, of_features: np.ndarray) -> np.ndarray:
        """Sums over the features that share a variance, (K, 1) or (K, d)."""
        return of_features.sum(axis=1, keepdims=True) if self.spherical else of_features

    def _parameters(self, means: np.ndarray, variances: np.ndarray) -> GaussianParameters:
        if not np.all(variances > 0.0):
            singular = int(np.argmin(np.where(np.isnan(variances), 0.0, variances).min(axis=1)))
            refuse_singular(f"The covariance of component {singular}")
        variances = np.array(np.broadcast_to(variances, means.shape))
        offsets = -0.5 * (np.log(variances) + LOG_2PI).sum(axis=1)
        return GaussianParameters(means + self.origin, variances, 1.0 / variances, offsets)


def _cell_offsets(parameters: GaussianParameters) -> np.ndarray:
    """Log densities of the features at their means, (K, d)."""
    return -0.5 * (np.log(parameters.covariances) + LOG_2PI)
