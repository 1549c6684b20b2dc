"""Gaussian family with a full covariance matrix for each component."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ...numerics.row_squares import ENTRIES
from ...random._keys import fold_in_each
from ...random._variates import fill_normal
from ...utils._conditions import MOST_COUNTED, Array
from ...utils._declared import holds
from ...utils._threads import Workers, split_range
from .._bound_rows import StartEffort
from .._protocols import Arrays
from .._statistics import OF_ROWS, occupied
from .base import LEAST_SHARE, OF_GAUSSIANS, GaussianParameters, NormalPrior, family_agrees
from .full_kernels import FullComponents, FullData, FullPosterior, count_sorted_rows, fill_posteriors
from .kernels import add_full_densities, draw_full_components, order_by_label
from .learned_prior import MatrixMoments, PriorNumbers, best_numbers, pooled
from .matrices import COST_OF_TASK, MatrixFamily
from .tied_start import tied_labels

_MANY_COLUMNS = 32  # distances between rows say little then


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


@holds(family_agrees, **OF_GAUSSIANS)
class FullFamily(MatrixFamily):
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

    data_type, sums_type, parameters_type = FullData, FullSums, GaussianParameters

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

    def _fill_posterior(self, statistics, labels, sizes, means, workers):
        d = self.n_features
        scatters = np.empty((len(labels), d, d))
        shared = self.data, statistics, labels, means, scatters
        tasks = split_range(len(labels), 1 + COST_OF_TASK // (10 * d**2 + 1000))
        workers.run(fill_posteriors, [(*task, *shared) for task in tasks])
        return scatters, self.prior.degrees + sizes

    def _draw(self, statistics: FullSums, labels: np.ndarray, key: np.uint64, workers: Workers) -> GaussianParameters:
        precisions, means, scatters, degrees = self._posterior(statistics, labels, workers)
        drawn = means, np.empty(scatters.shape), np.empty(scatters.shape), np.empty(len(means))
        shared = key, degrees, precisions, scatters, LEAST_SHARE, *drawn
        tasks = split_range(len(means), 1 + COST_OF_TASK // (2 * self.n_features**3 + 1000))
        self._refuse_singular(workers.run(draw_full_components, [(*task, *shared) for task in tasks]))
        return self._whole(*drawn)

    def _shaped(self, matrices: np.ndarray) -> np.ndarray:
        return matrices

    def _name_of(self, component: int) -> str:
        return f"component {component}"

    # Clusters of rows

    def among_others(self) -> FullFamily:
        """These rows as one of several blocks of columns: no component is far if other blocks may prefer it."""
        block = copy(self)
        block.data = self.data._replace(far=np.inf)
        return block

    def start_effort(self) -> StartEffort:
        """With many columns, more rows but fewer rounds: few rows do not tell clusters apart."""
        usual = StartEffort()
        is_large = self._has_many_columns and self.n_rows > usual.most_rows
        return StartEffort(100_000, (), 1, 0.25) if is_large else usual

    def with_learned_prior(self, statistics: FullSums, free: Any) -> FullFamily:
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
        values = np.where(np.isnan(self.rows.values), self.origin, self.rows.values)
        return tied_labels(values, labels, n_clusters, scatter)

    def draw_components(
        self, statistics: FullSums, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> FullComponents:
        """Draw the means and covariances of components."""
        parameters, d = self._draw(statistics, labels, key, workers), self.n_features
        n_padded = d + -d % ENTRIES
        padded = np.zeros((len(labels), n_padded, n_padded))
        padded[:, :d, :d] = parameters.factors
        return FullComponents(parameters, padded, *self._columns_and_precisions(parameters.factors, workers))

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 1000 + 45 * self.n_features
