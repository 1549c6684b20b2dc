"""Gaussian family with one covariance matrix for all components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS
from ...numerics.triangular import fill_cholesky
from ...random._keys import fold_in_each, subkey
from ...random._variates import fill_normal
from ...utils._declared import holds
from .._dense_rows import DenseRows, IncompleteRows
from .._protocols import Arrays, TokenCounts
from .base import (
    LEAST_SHARE,
    LOG_2PI,
    TiedParameters,
    is_definite,
    refuse_singular,
    values_of,
)
from .families import OF_GAUSSIANS, family_agrees
from .kernels import (
    add_counted_products,
    add_labelled_products,
    add_shared_products,
    add_tied_densities,
    draw_full_components,
    factor_covariances,
)
from .missing import CompletingFamily

if TYPE_CHECKING:
    from .._clusters.gaussian.tied import TiedClusters


@holds(family_agrees, **OF_GAUSSIANS)
class TiedFamily(CompletingFamily):
    """Gaussian family with one full covariance matrix for all components.

    Parameters
    ----------
    prior : NormalPrior
        Prior of the means and of the covariance.
    n_components : int
        Number of components K.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    parameters_type: ClassVar[type | None] = TiedParameters

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, sums, and products of all rows together."""
        K, d = self.n_components, self.n_features
        return (K,), (K, d), (d, d)

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of means, the covariance, its factor and offsets."""
        K, d = self.n_components, self.n_features
        return (K, d), (d, d), (d, d), (K,)

    def mode(self, statistics: Arrays) -> TiedParameters:
        """The mode of the precision and its products with the means, which are the natural parameters."""
        _, means, scatter = self._posterior(statistics)
        degrees = self.prior.degrees - self.n_features - 1.0 - self.n_components + statistics[0].sum()
        return self._parameters(means, scatter / (degrees if degrees > 0.0 else np.nan))

    def draw(self, statistics: Arrays, key: np.uint64) -> TiedParameters:
        """Draw the covariance from its posterior, with the means integrated out, and then the means."""
        d = self.n_features
        self._check_proper(d - 1, is_definite(self.prior.covariance))
        precisions, means, scatter = self._posterior(statistics)
        covariances, factors, log_roots = np.empty((1, d, d)), np.empty((1, d, d)), np.empty(1)
        posterior = np.array([self.prior.degrees + statistics[0].sum()]), np.ones(1), scatter[np.newaxis]
        into = np.zeros((1, d)), covariances, factors, log_roots
        root = np.empty((d, d))
        if draw_full_components(key, *posterior, LEAST_SHARE, *into) >= 0 or not fill_cholesky(
            covariances[0], LEAST_SHARE, root
        ):
            _refuse_singular()
        normals = np.empty(means.shape)
        fill_normal(fold_in_each(subkey(key, 1), np.arange(len(means))), 0, normals)
        means += np.einsum("ab,kb->ka", root, normals) / np.sqrt(precisions)[:, np.newaxis]
        return self._whole(means, covariances[0], factors[0], log_roots[0])

    def log_prior(self, parameters: TiedParameters) -> float:
        """Log normal-inverse-Wishart density of the natural parameters, up to a constant."""
        prior, factor = self.prior, parameters.factors
        log_root = np.log(np.diagonal(factor)).sum()
        of_means = prior.mean_precision * ((parameters.means - prior.mean) @ factor.T) ** 2
        spread = np.einsum("ab,bc,ac->", factor, prior.covariance, factor) + of_means.sum()
        return float((prior.degrees - self.n_features - 1.0 - self.n_components) * log_root - 0.5 * spread)

    def log_likelihood(self, statistics: Arrays, parameters: TiedParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products = statistics
        means, factor = parameters.means - self.origin, parameters.factors
        # Products about the means, as for full covariances: the quadratic form does not need a symmetric matrix
        gaps = np.einsum("ka,kb->ab", sums - sizes[:, None] * means, means) + np.einsum("ka,kb->ab", means, sums)
        spread = np.einsum("ab,bc,ac->", factor, _symmetric(products) - gaps, factor)
        return float(sizes @ parameters.offsets - 0.5 * spread)

    def clusters(self, rows: DenseRows | IncompleteRows | None = None) -> TiedClusters:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        from .._clusters.gaussian.tied import TiedClusters  # its kernels are slow to import

        return TiedClusters(values_of(rows, self.n_features), self.prior, self.origin)

    def n_parameters(self) -> int:
        """Number of free parameters: means and the covariance."""
        d = self.n_features
        return self.n_components * d + d * (d + 1) // 2

    def sample(self, parameters: TiedParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`."""
        out = np.empty((len(labels), self.n_features))
        fill_normal(fold_in_each(key, np.arange(len(labels))), 0, out)
        return parameters.means[labels] + out @ np.linalg.cholesky(parameters.covariances).T

    def feature_variances(self, parameters: TiedParameters) -> np.ndarray:
        """Variances of the features within components."""
        return np.diagonal(parameters.covariances)

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of word vectors by component."""
        sizes, sums, products = map(np.zeros, self.shapes())
        table = counts.tocsr().astype(np.float64)
        n_tokens, n_features = table.shape[0], len(products)
        of_components = np.asarray(table.indptr, dtype=np.int64), np.asarray(table.indices, dtype=np.int32), table.data
        add_counted_products(self.word_vectors, *of_components, self.origin, sums, np.zeros((*sums.shape, 1)))
        each = np.arange(n_tokens + 1, dtype=np.int64), np.zeros(n_tokens, np.int32)
        of_tokens = np.asarray(table.sum(axis=1), dtype=np.float64).ravel()
        into = np.zeros((1, n_features)), products[np.newaxis]
        add_counted_products(self.word_vectors, *each, of_tokens, self.origin, *into)
        return sizes + counts.totals, sums, products

    def _add_densities(self, X, first, stop, parameters, out):
        of_means = parameters.means - self.origin, parameters.factors, parameters.offsets
        add_tied_densities(X, first, stop, self.origin, *of_means, out)

    def _add_labelled(self, rows, first, stop, labels, *arrays):
        sizes, sums, products = arrays
        X = rows.filled(first, stop, self.origin)
        n_blocks, _, d = sums.shape
        of_rows = X, 0, len(X), BLOCK_ROWS
        add_labelled_products(*of_rows, labels, self.origin, sizes, sums, np.zeros((*sums.shape, 1)))
        of_all = np.zeros((n_blocks, 1)), np.zeros((n_blocks, 1, d)), products[:, np.newaxis]
        add_labelled_products(*of_rows, np.zeros(len(X), np.int32), self.origin, *of_all)

    def _add_shared(self, rows, first, stop, shares, *arrays):
        sizes, sums, products = arrays
        X = rows.filled(first, stop, self.origin)
        of_rows, d = (X, 0, len(X)), self.n_features
        add_shared_products(*of_rows, shares, self.origin, sizes, sums, np.zeros((*sums.shape, 1)))
        weights = shares.sum(axis=1, keepdims=True)
        add_shared_products(*of_rows, weights, self.origin, np.zeros(1), np.zeros((1, d)), products[np.newaxis])

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Precisions of the components' means in rows, their means relative to the origin, and the scatter."""
        sizes, sums, products = statistics
        precisions, prior_mean = self._precisions(sizes), self.prior.mean - self.origin
        means = (self.prior.mean_precision * prior_mean + sums) / precisions[:, None]
        fixed = self.prior.covariance + self.n_components * self.prior.mean_precision * np.outer(prior_mean, prior_mean)
        return precisions, means, fixed + _symmetric(products) - np.einsum("k,ka,kb->ab", precisions, means, means)

    def _parameters(self, means: np.ndarray, covariance: np.ndarray) -> TiedParameters:
        factors, log_roots = np.empty((1, *covariance.shape)), np.empty(1)
        if factor_covariances(np.ascontiguousarray(covariance)[np.newaxis], LEAST_SHARE, factors, log_roots) >= 0:
            _refuse_singular()
        return self._whole(means, covariance, factors[0], log_roots[0])

    def _whole(self, means: np.ndarray, covariance: np.ndarray, factor: np.ndarray, log_root: Any) -> TiedParameters:
        offsets = np.full(len(means), log_root - 0.5 * self.n_features * LOG_2PI)
        return TiedParameters(means + self.origin, covariance, factor, offsets)


def _symmetric(lower: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T


def _refuse_singular() -> None:
    refuse_singular("The covariance of all components")
