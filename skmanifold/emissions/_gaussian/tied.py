"""Gaussian family with one covariance matrix for all components."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS
from ...numerics.triangular import fill_square
from ...random._keys import fold_in_each, subkey
from ...random._variates import fill_normal
from ...utils._conditions import MOST_COUNTED, Array
from ...utils._declared import holds
from ...utils._threads import Workers
from .._protocols import Arrays, TokenCounts
from .._statistics import OF_ROWS
from .base import LEAST_SHARE, OF_GAUSSIANS, TiedParameters, family_agrees
from .kernels import (
    add_counted_products,
    add_labelled_products,
    add_products,
    add_shared_products,
    add_tied_densities,
    draw_full_component,
    fill_images,
)
from .learned_prior import PriorNumbers, best_numbers
from .matrices import MatrixFamily, MatrixPosterior
from .tied_kernels import TiedComponents, TiedData, TiedPosterior, fill_tied_posterior


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    sums=Array("float64", ("capacity", "n_dimensions")),
    products=Array("float64", ("n_dimensions", "n_dimensions")),
    completed=Array("float64", (None, "n_dimensions")),
)
class TiedSums(NamedTuple):
    """Sums of rows by label, and sums of products of all rows."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    sums: np.ndarray  # (capacity, d), relative to the origin
    products: np.ndarray  # (d, d), about the origin, of all rows together; the lower triangle
    completed: np.ndarray  # (n_incomplete, d): rows with missing cells, which have their current values

    @property
    def label_axes(self) -> tuple[int, int, None, int]:
        """Axis of the labels in each array."""
        return 0, 0, None, OF_ROWS


@holds(family_agrees, **OF_GAUSSIANS)
class TiedFamily(MatrixFamily):
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

    data_type, sums_type, parameters_type = TiedData, TiedSums, TiedParameters

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, sums, and products of all rows together."""
        K, d = self.n_components, self.n_features
        return (K,), (K, d), (d, d)

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of means, the covariance, its factor and offsets."""
        K, d = self.n_components, self.n_features
        return (K, d), (d, d), (d, d), (K,)

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

    def _fill_posterior(self, statistics, labels, sizes, means, workers):
        scatters = np.empty((1, self.n_features, self.n_features))
        n_rows = fill_tied_posterior(self.data, statistics, labels, means, scatters[0])
        return scatters, np.array([self.prior.degrees + n_rows])

    def _draw(self, statistics: TiedSums, labels: np.ndarray, key: np.uint64, workers: Workers) -> TiedParameters:
        """Draw the covariance, with the means integrated out, and then the means."""
        posterior = self._posterior(statistics, labels)
        root, factor, log_root = self._draw_factor(posterior, subkey(key, 0))
        covariance, normals, gaps = (
            np.empty(root.shape),
            np.empty(posterior.means.shape),
            np.empty(posterior.means.shape),
        )
        fill_square(root, covariance)
        fill_normal(fold_in_each(subkey(key, 1), np.arange(len(labels))), 0, normals)
        fill_images(root, normals, gaps)
        means = posterior.means + gaps / np.sqrt(posterior.precisions)[:, np.newaxis]
        return self._whole(means, covariance[np.newaxis], factor[np.newaxis], np.array([log_root]))

    def _draw_factor(self, posterior: MatrixPosterior, key: np.uint64) -> tuple[np.ndarray, np.ndarray, float]:
        """Draw the Cholesky factor of the covariance, its inverse, and the log determinant of the inverse."""
        (scatter,), d = posterior.scatters, self.n_features
        root, factor = np.empty((d, d)), np.empty((d, d))
        of_mean = 1.0, scatter, LEAST_SHARE, np.zeros(d)
        log_root = draw_full_component(key, posterior.degrees[0], *of_mean, root, factor)
        self._refuse_singular([0 if math.isnan(log_root) else -1])
        return root, factor, float(log_root)

    def _shaped(self, matrices: np.ndarray) -> np.ndarray:
        return matrices[0]

    def _name_of(self, component: int) -> str:
        return "all components"

    # Clusters of rows

    def with_learned_prior(self, statistics: TiedSums, free: Any) -> TiedFamily:
        """These rows with the most probable prior of the means given a partition."""
        prior = self.prior
        given = PriorNumbers(1.0, prior.degrees, prior.mean_precision)

        def log_marginal(numbers: PriorNumbers) -> float:
            return self.with_prior(prior._replace(mean_precision=numbers.mean_precision)).log_marginal(statistics)

        of_means = {"mean_precision"}.intersection(free)
        numbers = best_numbers(log_marginal, given, of_means, self.n_features + 1.0)
        return self.with_prior(prior._replace(mean_precision=numbers.mean_precision))

    def no_statistics(self, capacity: int) -> TiedSums:
        """Sums of no rows."""
        d = self.n_features
        return TiedSums(np.zeros(capacity, np.int64), np.zeros((capacity, d)), np.zeros((d, d)), self._completed())

    def new_posterior(self, capacity: int, statistics: TiedSums, key: np.uint64) -> TiedPosterior:
        """Space for the posteriors of labels, with a covariance drawn given the partition."""
        d = self.n_features
        _, factor, log_root = self._draw_factor(self._posterior(statistics), key)
        return TiedPosterior(np.zeros((capacity, d)), factor, log_root, np.empty(d), np.empty(d), np.full(1, -1))

    def count(self, labels: np.ndarray, statistics: TiedSums, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        super().count(labels, statistics, workers)
        products = self._products_of(self.rows.values, np.flatnonzero(self.data.place < 0))
        statistics.products[:] += products + self._products_of(statistics.completed)

    def redraw_missing(self, rows, new_labels, labels, statistics, components, place_of, key, workers) -> None:
        """Draw the missing cells of rows given their new labels; the rows keep their old labels in the statistics."""
        places = self.data.place[rows[self.data.place[rows] >= 0]].astype(np.int64)
        before = self._products_of(statistics.completed, places)
        super().redraw_missing(rows, new_labels, labels, statistics, components, place_of, key, workers)
        statistics.products[:] += self._products_of(statistics.completed, places) - before

    def relabelled(self, labels: np.ndarray, statistics: TiedSums, new_labels: np.ndarray, workers: Workers) -> Any:
        """Sums by the new labels, added again: rounding errors of rows that moved do not accumulate."""
        again = self.no_statistics(max(len(statistics.sizes), int(new_labels.max()) + 1))
        again = again._replace(completed=statistics.completed)
        if len(self._incomplete):
            self.count(labels, again, workers)
            return again
        super().count(labels, again, workers)
        return again._replace(products=statistics.products)

    def draw_components(
        self, statistics: TiedSums, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> TiedComponents:
        """Draw the covariance given the partition, and then the means of components."""
        parameters = self._draw(statistics, labels, key, workers)
        images = np.empty(parameters.means.shape)
        fill_images(parameters.factors, parameters.means - self.origin, images)
        factors = parameters.factors[np.newaxis]
        return TiedComponents(parameters, images, *self._columns_and_precisions(factors, workers))

    def add_log_density_of_new(self, components: TiedComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given a new component, whose mean is integrated out."""
        _, covariance, factor, offsets = components.parameters
        scale = math.sqrt(1.0 + 1.0 / self.prior.mean_precision)
        of_new = covariance * scale**2, factor / scale, offsets[:1] - self.n_features * math.log(scale)
        self._add_normal(TiedParameters(self.prior.mean[np.newaxis], *of_new), out, workers)

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 8.0 * self.n_features * (2.0 * n_components + self.n_features)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 500 + 10 * self.n_features

    def _products_of(self, rows: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Sum of products of rows about the origin, (d, d): the lower triangle."""
        d = self.n_features
        order, products = np.arange(len(rows)) if chosen is None else chosen, np.zeros((d, d))
        add_products(rows, 0, order, 0, len(order), self.origin, np.empty((4, d)), np.zeros(d), products)
        return products


def _symmetric(lower: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this lower triangle."""
    return np.tril(lower) + np.tril(lower, -1).T
