"""Clusters of Gaussian rows, each with its own covariance matrix."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ....numerics.rank_one import fill_upper_root
from ....numerics.row_squares import ENTRIES
from ....utils._conditions import MOST_COUNTED, Array
from ....utils._declared import holds
from ....utils._threads import Workers, split_range
from ..._gaussian.base import LEAST_SHARE, LOG_2PI, NormalPrior, refuse_singular
from ..._gaussian.kernels import add_full_densities, order_by_label
from ..._gaussian.missing_kernels import fill_columns_and_precisions
from ..base import StartEffort
from ..statistics import OF_ROWS, occupied
from .base import GaussianClusters, log_student, predictive_factors, student_rows
from .full_kernels import FullComponents, FullData, count_sorted_rows, draw_components
from .full_predictive_kernels import add_given_sums, fill_posteriors, log_marginals
from .full_split_kernels import FullPosterior
from .learned_prior import MatrixMoments, PriorNumbers, best_numbers, pooled
from .tied_start import tied_labels

_MANY_COLUMNS = 32  # distances between rows say little then
_FAR = 84.0  # the random number of a label has 53 bits, so that smaller densities do not change it
_COST_OF_TASK = 2_000_000  # multiplications, about a millisecond


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    sums=Array("float64", ("capacity", "n_dimensions")),
    products=Array("float64", ("capacity", "n_dimensions", "n_dimensions")),
    completed=Array("float64", (None, "n_dimensions")),
)
class FullSums(NamedTuple):
    """Sums of rows by label."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    sums: np.ndarray  # (capacity, d), relative to the origin
    products: np.ndarray  # (capacity, d, d), about the origin; lower triangles
    completed: np.ndarray  # (n_incomplete, d): rows with missing cells, which have their current values

    @property
    def label_axes(self) -> tuple[int, int, int, int]:
        """Axis of the labels in each array."""
        return 0, 0, 0, OF_ROWS


class FullClusters(GaussianClusters):
    """Gaussian rows; each component has a mean and a covariance matrix.

    Parameters
    ----------
    values : ndarray of shape (n_rows, d)
        Rows; NaN where a cell is missing.
    prior : NormalPrior
        Prior of the means and covariances.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    def _data(self) -> FullData:
        prior, d = self.prior, self.n_features
        root = np.zeros((d, d))
        covariance = np.ascontiguousarray(prior.covariance, np.float64)
        log_det = float(fill_upper_root(covariance, root))
        of_prior = prior.mean - self.origin, float(prior.mean_precision), covariance, float(prior.degrees)
        return FullData(self.values, self._place, self._patterns, self.origin, *of_prior, root, log_det, _FAR)

    def among_others(self) -> FullClusters:
        """These rows as one of several blocks of columns: no component is far if other blocks may prefer it."""
        block = copy(self)
        block.data = self.data._replace(far=np.inf)
        return block

    def start_effort(self) -> StartEffort:
        """With many columns, more rows but fewer rounds: few rows do not tell clusters apart."""
        usual = StartEffort()
        is_large = self._has_many_columns and self.n_rows > usual.most_rows
        return StartEffort(100_000, (), 1, 0.25) if is_large else usual

    def with_prior(self, prior: NormalPrior) -> FullClusters:
        """These rows with another prior."""
        return FullClusters(self.values, prior, self.origin)

    def with_learned_prior(self, statistics: FullSums, free: Any) -> FullClusters:
        """These rows with the most probable prior given a partition."""
        labels, prior, d = occupied(statistics), self.prior, self.n_features
        sizes, products = statistics.sizes[labels], statistics.products[labels]
        means = statistics.sums[labels] / sizes[:, np.newaxis]
        products = np.tril(products) + np.tril(products, -1).mT
        rooted = np.sqrt(sizes)[:, np.newaxis] * means
        scatters = products - rooted[:, :, np.newaxis] * rooted[:, np.newaxis, :]
        reference = prior.covariance
        if "covariance" in free:
            K, whole = len(labels), prior.covariance * len(labels) ** (-2.0 / d)
            reference = pooled(scatters.sum(axis=0), sizes.sum(), K, whole, d + 2.0)
        moments = MatrixMoments(sizes, means - (prior.mean - self.origin), scatters, reference)
        given = PriorNumbers(1.0, prior.degrees, prior.mean_precision)
        factor, degrees, mean_precision = best_numbers(moments.log_marginal, given, free, d + 1.0)
        return self.with_prior(NormalPrior(prior.mean, mean_precision, factor * reference, degrees))

    def no_statistics(self, capacity: int) -> FullSums:
        """Sums of no rows."""
        d = self.n_features
        sums, products = np.zeros((capacity, d)), np.zeros((capacity, d, d))
        return FullSums(np.zeros(capacity, np.int64), sums, products, self._completed())

    def new_posterior(self, capacity: int, statistics: FullSums, key: np.uint64) -> FullPosterior:
        """Space for the posteriors of labels."""
        d = self.n_features
        of_labels = np.zeros((capacity, d)), np.zeros((capacity, d, d)), np.zeros(capacity), np.zeros(capacity)
        return FullPosterior(*of_labels, np.empty((d, d)), np.empty(d))

    def count(self, labels: np.ndarray, statistics: FullSums, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        complete = np.flatnonzero(self.data.place < 0)
        ends, order = np.empty(len(statistics.sizes) + 1, np.int64), np.empty(len(complete), np.int64)
        order_by_label(labels[complete], ends, order)
        shared = self.data, statistics, complete[order]
        present = np.flatnonzero(np.diff(ends)).tolist()
        workers.run(count_sorted_rows, [(*shared, ends[k], ends[k + 1], k) for k in present])
        if len(self._incomplete):
            self._count_incomplete(self._incomplete, 1, labels, statistics, workers)

    def relabelled(self, labels: np.ndarray, statistics: FullSums, new_labels: np.ndarray, workers: Workers) -> Any:
        """Sums by the new labels, added again: rounding errors of rows that moved do not accumulate."""
        capacity = max(len(statistics.sizes), int(new_labels.max()) + 1)
        again = self.no_statistics(capacity)._replace(completed=statistics.completed)
        self.count(labels, again, workers)
        return again

    @property
    def _has_many_columns(self) -> bool:
        return self.n_features >= _MANY_COLUMNS

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means; with many columns, of clusters with one covariance that EM finds from there."""
        labels = super().spread_labels(n_clusters, key)
        if n_clusters == 1 or not self._has_many_columns:
            return labels
        d, prior = self.n_features, self.prior
        scatter = (d + 2.0) / max(prior.degrees - d - 1.0, 0.5) * prior.covariance  # as of d + 2 rows
        values = np.where(np.isnan(self.values), self.origin, self.values)
        return tied_labels(values, labels, n_clusters, scatter)

    def draw_components(
        self, statistics: FullSums, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> FullComponents:
        """Draw the means and covariances of components."""
        K, d = len(labels), self.n_features
        n_padded = d + -d % ENTRIES
        means, factors, log_roots = np.empty((K, d)), np.zeros((K, n_padded, n_padded)), np.empty(K)
        shared = self.data, statistics, labels, LEAST_SHARE, key, means, factors, log_roots
        tasks = split_range(K, 1 + _COST_OF_TASK // (2 * d**3 + 1000))
        workers.run(draw_components, [(start, stop, *shared) for start, stop in tasks])
        if np.isnan(log_roots).any():
            refuse_singular("The covariance of a component")
        n_prepared = K if len(self._incomplete) else 0
        columns, precisions = np.empty((n_prepared, d, d)), np.empty((n_prepared, d, d))
        tasks = split_range(n_prepared, 1 + _COST_OF_TASK // (d**3 + 1000))
        each = np.ascontiguousarray(factors[:n_prepared, :d, :d]), columns, precisions
        workers.run(fill_columns_and_precisions, [tuple(array[a:b] for array in each) for a, b in tasks])
        return FullComponents(means, factors, log_roots - 0.5 * d * LOG_2PI, columns, precisions)

    def log_marginal(self, statistics: FullSums) -> float:
        """Log density of all rows given their labels."""
        labels = occupied(statistics)
        out = np.empty(len(labels))
        log_marginals(0, len(labels), self.data, statistics, labels, out)
        return float(out.sum())

    def arrays_of(self, components: FullComponents) -> dict[str, np.ndarray]:
        """Drawn means, (K, d), and covariances, (K, d, d)."""
        d = self.n_features
        roots = np.linalg.inv(components.factors[:, :d, :d])
        return {"components": components.means, "covariances": roots @ roots.mT}

    def expected(self, statistics: FullSums) -> dict[str, np.ndarray]:
        """Posterior means of the mean and the covariance of each cluster."""
        means, roots, _, _ = self._posteriors(statistics, Workers(1))
        degrees = (self.prior.degrees + statistics.sizes - self.n_features - 1.0)[:, np.newaxis, np.newaxis]
        scatters = roots @ roots.mT
        covariances = np.divide(scatters, degrees, out=np.full_like(scatters, np.inf), where=degrees > 0.0)
        return {"components_": means, "covariances_": covariances}

    def cell_attributes(self, statistics: FullSums) -> dict[str, np.ndarray]:
        """Means and covariances of the predictive distributions of clusters."""
        means, roots, _, _ = self._posteriors(statistics, Workers(1))
        precisions = self.prior.mean_precision + statistics.sizes
        factors = predictive_factors(self.prior.degrees + statistics.sizes, self.n_features, precisions)
        return {"components_": means, "covariances_": roots @ roots.mT * factors[:, np.newaxis, np.newaxis]}

    def new_rows(self, statistics: FullSums, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of clusters `labels`, with the parameters integrated out."""
        means, roots, _, _ = self._posteriors(statistics, Workers(1))
        precisions = self.prior.mean_precision + statistics.sizes
        degrees = self.prior.degrees + statistics.sizes - self.n_features + 1.0
        return student_rows(key, labels, means, roots, (precisions + 1.0) / precisions, degrees)

    def log_densities_of_column(self, statistics: FullSums, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column given each cluster, (n_values, K): Student t."""
        means, roots, _, _ = self._posteriors(statistics, Workers(1))
        precisions = self.prior.mean_precision + statistics.sizes
        degrees = self.prior.degrees + statistics.sizes - self.n_features + 1.0
        squares = (roots[:, column] ** 2).sum(axis=1) * (precisions + 1.0) / precisions
        return log_student(values, means[:, column], squares, degrees)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 1000 + 45 * self.n_features

    def _add_predictive(self, statistics, out, workers):
        means, _, factors, constants = self._posteriors(statistics, workers)
        shared = self.data, statistics.sizes, means, factors, constants, out
        tasks = self._tasks(len(constants), workers)
        workers.run(add_given_sums, [(start, stop, *shared) for start, stop in tasks])

    def _students(self, statistics: FullSums, workers: Workers) -> tuple[np.ndarray, ...]:
        """Means, factors, their log determinants, shares and degrees of freedom of the predictive distributions."""
        means, roots, factors, _ = self._posteriors(statistics, workers)
        log_roots = -np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        precisions = self.prior.mean_precision + statistics.sizes
        degrees = self.prior.degrees + statistics.sizes - self.n_features + 1.0
        return means, factors, log_roots, precisions / (precisions + 1.0), degrees

    def _factors_of(self, components: FullComponents) -> np.ndarray:
        return np.ascontiguousarray(components.factors[:, : self.n_features, : self.n_features])

    def _add_normal_of_complete(self, means, factors, offsets, out, workers):
        tasks = self._tasks(len(offsets), workers)
        workers.run(add_full_densities, [(self.values, a, b, means, factors, offsets, out[a:b]) for a, b in tasks])

    def _posteriors(self, statistics: FullSums, workers: Workers) -> tuple[np.ndarray, ...]:
        """Means of clusters, Cholesky factors of scatters, their inverses, and constants of predictive densities."""
        K, d = len(statistics.sizes), self.n_features
        arrays = np.empty((K, d)), np.empty((K, d, d)), np.empty((K, d, d)), np.empty(K)
        tasks = split_range(K, 1 + _COST_OF_TASK // (d**3 + 1000))
        workers.run(fill_posteriors, [(start, stop, self.data, statistics, *arrays) for start, stop in tasks])
        if np.isnan(arrays[-1]).any():
            refuse_singular("The covariance of a component")
        return arrays
