"""Gaussian family with a full covariance matrix for each component."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np

from ...random._keys import fold_in_each
from ...random._variates import fill_normal
from ...utils._conditions import Array, Condition, Counted, Lacking, OrNone, Sizes, Whole
from ...utils._declared import Held, holds
from .._dense_rows import DenseRows, IncompleteRows
from .._protocols import Arrays
from .base import (
    LEAST_SHARE,
    LOG_2PI,
    GaussianFamily,
    GaussianParameters,
    NormalPrior,
    is_definite,
    refuse_singular,
    values_of,
)
from .kernels import (
    add_full_densities,
    draw_full_components,
    factor_covariances,
    fill_full_posteriors,
)
from .missing import CompletingFamily

if TYPE_CHECKING:
    from .._clusters.gaussian.full import FullClusters

_PROPER: WeakSet[GaussianFamily] = WeakSet()  # families whose prior was found to be proper


def family_agrees(family: GaussianFamily, sizes: Sizes) -> str | None:
    full = isinstance(family, CompletingFamily)
    if (family.prior.covariance.ndim == 2) != full or family._width != (family.n_features if full else 1):
        return "has a prior of another shape"
    wanted = 1 if getattr(family, "spherical", False) else family.n_features
    return None if len(family.prior.covariance) == wanted else "has a prior of another shape"


OF_GAUSSIANS: dict[str, Condition] = {
    "origin": Array("float64", ("n_dimensions",)),
    "prior": Held(NormalPrior),
    "n_components": Counted("n_components"),
    "n_features": Counted("n_dimensions"),
    "_width": Whole(low=1),
    "word_vectors": Lacking(OrNone(Array("float64", ("n_tokens", "n_dimensions")))),
    "word_weights": Lacking(OrNone(Array("float64 int64", ("n_tokens",), low=0))),
}


@holds(family_agrees, **OF_GAUSSIANS)
class FullFamily(CompletingFamily):
    """Gaussian family with a full covariance matrix for each component.

    Parameters
    ----------
    prior : NormalPrior
        Prior of the means and covariances.
    n_components : int
        Number of components K.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        _, means, scatters = self._posterior(statistics)
        degrees = self.prior.degrees - self.n_features - 2.0 + statistics[0]
        covariances = scatters / np.where(degrees > 0.0, degrees, np.nan)[:, None, None]
        return self._parameters(means, covariances)

    def draw(self, statistics: Arrays, key: np.uint64) -> GaussianParameters:
        """Draw means and covariances from their posterior."""
        K, d = self.n_components, self.n_features
        if self not in _PROPER:
            self._check_proper(d - 1, is_definite(self.prior.covariance))
            _PROPER.add(self)
        precisions, means, scatters = self._posterior(statistics)
        covariances, factors, log_roots = np.empty((K, d, d)), np.empty((K, d, d)), np.empty(K)
        posterior = self.prior.degrees + statistics[0], precisions, scatters
        singular = draw_full_components(key, *posterior, LEAST_SHARE, means, covariances, factors, log_roots)
        if singular >= 0:
            refuse_singular(f"The covariance of component {singular}")
        return GaussianParameters(means + self.origin, covariances, factors, log_roots - 0.5 * d * LOG_2PI)

    def log_prior(self, parameters: GaussianParameters) -> float:
        """Log normal-inverse-Wishart density of the natural parameters, up to a constant."""
        d, prior = self.n_features, self.prior
        log_roots = np.log(np.diagonal(parameters.factors, axis1=1, axis2=2)).sum(axis=1)
        halves = parameters.factors @ (parameters.means - prior.mean)[:, :, None]
        spread = np.einsum("kab,bc,kac->k", parameters.factors, prior.covariance, parameters.factors)
        spread = spread + prior.mean_precision * (halves[:, :, 0] ** 2).sum(axis=1)
        return float(((prior.degrees - d - 2.0) * log_roots - 0.5 * spread).sum())

    def log_likelihood(self, statistics: Arrays, parameters: GaussianParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products = statistics
        means = parameters.means - self.origin
        lower = np.tril(products) + np.tril(products, -1).mT
        # Products about the mean are S - (s - n m) m' - m s'; the quadratic form needs only this, symmetric or not
        gaps = (sums - sizes[:, None] * means)[:, :, None] * means[:, None, :] + means[:, :, None] * sums[:, None, :]
        spread = np.einsum("kab,kbc,kac->", parameters.factors, lower - gaps, parameters.factors)
        return float(sizes @ parameters.offsets - 0.5 * spread)

    def clusters(self, rows: DenseRows | IncompleteRows | None = None) -> FullClusters:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        from .._clusters.gaussian.full import FullClusters  # its kernels are slow to import

        return FullClusters(values_of(rows, self.n_features), self.prior, self.origin)

    def n_parameters(self) -> int:
        """Number of free parameters: means and covariances."""
        d = self.n_features
        return self.n_components * (d + d * (d + 1) // 2)

    def sample(self, parameters: GaussianParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        out = np.empty((len(labels), self.n_features))
        fill_normal(fold_in_each(key, np.arange(len(labels))), 0, out)
        for k, covariance in enumerate(parameters.covariances):
            mine = labels == k
            out[mine] = parameters.means[k] + out[mine] @ np.linalg.cholesky(covariance).T
        return out

    def _add_densities(self, X, first, stop, parameters, out):
        add_full_densities(X, first, stop, parameters.means, parameters.factors, parameters.offsets, out)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precisions of the components' means in rows, their means relative to the origin, and the scatters."""
        sizes, sums, products = statistics
        prior, precisions = self.prior, self._precisions(sizes)
        means, scatters = np.empty(sums.shape), np.empty(products.shape)
        of_prior = prior.mean - self.origin, prior.mean_precision, prior.covariance
        fill_full_posteriors(precisions, sums, products, *of_prior, means, scatters)
        return precisions, means, scatters

    def _parameters(self, means: np.ndarray, covariances: np.ndarray) -> GaussianParameters:
        factors, log_roots = np.empty(covariances.shape), np.empty(len(means))
        singular = factor_covariances(np.ascontiguousarray(covariances), LEAST_SHARE, factors, log_roots)
        if singular >= 0:
            refuse_singular(f"The covariance of component {singular}")
        offsets = log_roots - 0.5 * self.n_features * LOG_2PI
        return GaussianParameters(means + self.origin, covariances, factors, offsets)
