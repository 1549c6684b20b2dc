"""Clusters of Gaussian rows with one covariance matrix for all clusters."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from ....numerics.triangular import divide_by_lower, fill_cholesky
from ....random._keys import fold_in_each, subkey
from ....random._variates import fill_normal
from ....utils._conditions import MOST_COUNTED, Array
from ....utils._declared import holds
from ....utils._threads import Workers
from ..._gaussian.base import LEAST_SHARE, LOG_2PI, NormalPrior, refuse_singular
from ..._gaussian.kernels import add_products, add_tied_densities, draw_full_component
from ..._gaussian.missing_kernels import fill_columns_and_precisions
from ..statistics import OF_ROWS, occupied
from .base import GaussianClusters, log_student, predictive_factors, student_rows
from .learned_prior import PriorNumbers, best_numbers
from .tied_kernels import (
    TiedComponents,
    TiedData,
    add_student_densities,
    fill_means_and_images,
    fill_posterior_mean,
    fill_within,
)
from .tied_split_kernels import TiedPosterior


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


class TiedClusters(GaussianClusters):
    """Gaussian rows; each component has a mean, and all have the same covariance matrix.

    Parameters
    ----------
    values : ndarray of shape (n_rows, d)
        Rows; NaN where a cell is missing.
    prior : NormalPrior
        Prior of the means and of the covariance.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    def _data(self) -> TiedData:
        prior = self.prior
        covariance = np.ascontiguousarray(prior.covariance, np.float64)
        of_prior = prior.mean - self.origin, float(prior.mean_precision), covariance, float(prior.degrees)
        log_det = 2.0 * float(np.log(np.diagonal(np.linalg.cholesky(covariance))).sum())
        return TiedData(self.values, self._place, self._patterns, self.origin, *of_prior, log_det)

    def with_prior(self, prior: NormalPrior) -> TiedClusters:
        """These rows with another prior."""
        other = copy(self)
        other.prior = prior
        other.data = other._data()
        return other

    def with_learned_prior(self, statistics: TiedSums, free: Any) -> TiedClusters:
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
        _, factor, log_root = self._draw_covariance(statistics, key)
        return TiedPosterior(np.zeros((capacity, d)), factor, log_root, np.empty(d), np.empty(d), np.full(1, -1))

    def count(self, labels: np.ndarray, statistics: TiedSums, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        super().count(labels, statistics, workers)
        products = self._products_of(self.values, np.flatnonzero(self._place < 0))
        statistics.products[:] += products + self._products_of(statistics.completed)

    def redraw_missing(self, rows, new_labels, labels, statistics, components, place_of, key, workers) -> None:
        """Draw the missing cells of rows given their new labels; the rows keep their old labels in the statistics."""
        places = self._place[rows[self._place[rows] >= 0]].astype(np.int64)
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
        K, d = len(labels), self.n_features
        root, factor, log_root = self._draw_covariance(statistics, subkey(key, 0))
        means, images, normals = np.empty((K, d)), np.empty((K, d)), np.empty((K, d))
        fill_normal(fold_in_each(subkey(key, 1), np.arange(K)), 0, normals)
        fill_means_and_images(self.data, statistics, labels, root, factor, normals, means, images)
        columns, precisions = np.empty((1, d, d)), np.empty((1, d, d))
        if len(self._incomplete):
            fill_columns_and_precisions(factor[np.newaxis], columns, precisions)
        else:
            columns, precisions = columns[:0], precisions[:0]
        return TiedComponents(means, factor, images, np.full(K, log_root - 0.5 * d * LOG_2PI), columns, precisions)

    def log_marginal(self, statistics: TiedSums) -> float:
        """Log density of all rows given their labels."""
        d, prior = self.n_features, self.prior
        _, root, n = self._posterior(statistics)
        sizes = statistics.sizes[occupied(statistics)]
        degrees = prior.degrees + n
        of_scatter = prior.degrees * self.data.log_det - 2.0 * degrees * np.log(np.diagonal(root)).sum()
        of_means = -d * np.log1p(sizes / prior.mean_precision).sum()
        of_degrees = multigammaln(0.5 * degrees, d) - multigammaln(0.5 * prior.degrees, d)
        return float(of_degrees + 0.5 * (of_scatter + of_means - n * d * math.log(math.pi)))

    def add_log_density_of_new(self, components: TiedComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given a new component, whose mean is integrated out."""
        scale = math.sqrt(1.0 + 1.0 / self.prior.mean_precision)
        offsets = components.offsets[:1] - self.n_features * math.log(scale)
        self._add_normal(self.prior.mean[np.newaxis], components.factor[np.newaxis] / scale, offsets, out, workers)

    def arrays_of(self, components: TiedComponents) -> dict[str, np.ndarray]:
        """Drawn means, (K, d), and the covariance, (d, d)."""
        root = np.linalg.inv(components.factor)
        return {"components": components.means, "covariances": root @ root.T}

    def expected(self, statistics: TiedSums) -> dict[str, np.ndarray]:
        """Posterior means of the mean of each cluster, and of the covariance."""
        means, root, n = self._posterior(statistics)
        degrees = self.prior.degrees + n - self.n_features - 1.0
        scatter = root @ root.T
        return {
            "components_": means + self.origin,
            "covariances_": scatter / degrees if degrees > 0.0 else np.full_like(scatter, np.inf),
        }

    def cell_attributes(self, statistics: TiedSums) -> dict[str, np.ndarray]:
        """Means and covariances of the predictive distributions of clusters."""
        means, root, n = self._posterior(statistics)
        precisions = self.prior.mean_precision + statistics.sizes
        factors = predictive_factors(self.prior.degrees + n, self.n_features, precisions)
        covariances = (root @ root.T) * factors[:, np.newaxis, np.newaxis]
        return {"components_": means + self.origin, "covariances_": covariances}

    def new_rows(self, statistics: TiedSums, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of clusters `labels`, with the parameters integrated out."""
        means, root, n = self._posterior(statistics)
        precisions = self.prior.mean_precision + statistics.sizes
        degrees = np.full(len(means), self.prior.degrees + n - self.n_features + 1.0)
        scales = (precisions + 1.0) / precisions
        return student_rows(key, labels, means + self.origin, root[np.newaxis], scales, degrees)

    def log_densities_of_column(self, statistics: TiedSums, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column given each cluster, (n_values, K): Student t."""
        means, root, n = self._posterior(statistics)
        precisions = self.prior.mean_precision + statistics.sizes
        degrees = self.prior.degrees + n - self.n_features + 1.0
        squares = (root[column] ** 2).sum() * (precisions + 1.0) / precisions
        return log_student(values, means[:, column] + self.origin[column], squares, degrees)

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 8.0 * self.n_features * (2.0 * n_components + self.n_features)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 500 + 10 * self.n_features

    def _add_predictive(self, statistics, out, workers):
        means, factors, log_roots, shares, degrees = self._students(statistics, workers)
        d, power = self.n_features, 0.5 * (degrees[0] + self.n_features)
        constants = gammaln(power) - gammaln(power - 0.5 * d) + log_roots + 0.5 * d * np.log(shares / math.pi)
        shared = self.data, means - self.origin, factors[0], shares, constants, power, out
        tasks = self._tasks(len(constants), workers)
        workers.run(add_student_densities, [(start, stop, *shared) for start, stop in tasks])

    def _students(self, statistics: TiedSums, workers: Workers) -> tuple[np.ndarray, ...]:
        """Means, factor, its log determinant, shares and degrees of freedom of the predictive distributions."""
        means, root, n = self._posterior(statistics)
        factor = np.eye(self.n_features)
        divide_by_lower(factor, root)
        precisions = self.prior.mean_precision + statistics.sizes
        log_roots = np.full(len(means), -np.log(np.diagonal(root)).sum())
        degrees = np.full(len(means), self.prior.degrees + n - self.n_features + 1.0)
        return means + self.origin, factor[np.newaxis], log_roots, precisions / (precisions + 1.0), degrees

    def _factors_of(self, components: TiedComponents) -> np.ndarray:
        return components.factor[np.newaxis]

    def _add_normal_of_complete(self, means, factors, offsets, out, workers):
        shared = self.origin, means - self.origin, factors[0], offsets
        tasks = self._tasks(len(offsets), workers)
        workers.run(add_tied_densities, [(self.values, a, b, *shared, out[a:b]) for a, b in tasks])

    def _products_of(self, rows: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Sum of products of rows about the origin, (d, d): the lower triangle."""
        d = self.n_features
        order, products = np.arange(len(rows)) if chosen is None else chosen, np.zeros((d, d))
        add_products(rows, 0, order, 0, len(order), self.origin, np.empty((4, d)), np.zeros(d), products)
        return products

    def _posterior(self, statistics: TiedSums) -> tuple[np.ndarray, np.ndarray, int]:
        """Means of the clusters relative to the origin, the Cholesky factor of the scatter, and the number of rows."""
        d = self.n_features
        scatter, root, means = np.empty((d, d)), np.empty((d, d)), np.empty((len(statistics.sizes), d))
        n = fill_within(self.data, statistics, scatter)
        if not fill_cholesky(scatter, 0.0, root):
            refuse_singular("The covariance of all components")
        for label, mean in enumerate(means):
            fill_posterior_mean(self.data, statistics, label, mean)
        return means, root, int(n)

    def _draw_covariance(self, statistics: TiedSums, key: np.uint64) -> tuple[np.ndarray, np.ndarray, float]:
        """Draw the Cholesky factor of the covariance, its inverse, and the log determinant of the inverse."""
        d = self.n_features
        scatter, root, factor = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
        degrees = self.prior.degrees + fill_within(self.data, statistics, scatter)
        log_root = draw_full_component(key, degrees, 1.0, scatter, LEAST_SHARE, np.zeros(d), root, factor)
        if math.isnan(log_root):
            refuse_singular("The covariance of all components")
        return root, factor, float(log_root)
