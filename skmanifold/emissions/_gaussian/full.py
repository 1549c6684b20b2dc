"""Gaussian family with a full covariance matrix for each component."""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ...numerics.row_lanes import ENTRIES
from ...utils._conditions import MOST_COUNTED, Array
from ...utils._threads import Workers, split_range
from .._bound_rows import StartEffort
from .._statistics import OF_ROWS, occupied
from .base import GaussianParameters
from .full_kernels import FullData, FullPosterior, add_by_label
from .kernels import add_full_densities, order_by_label
from .learned_prior import MatrixMoments, pooled
from .matrices import MatrixFamily, symmetric

_MANY_COLUMNS = 32  # distances between rows say little then
_N_PASSES = 40
_ROWS_AT_ONCE = 1 << 12
_PRIOR_ROWS = 1.0  # with the mean of all rows, in each cluster


class FullSums(NamedTuple):
    """Sums of rows by label."""

    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    sums: Annotated[np.ndarray, Array("float64", "capacity n_dimensions")]  # relative to the origin
    # (capacity, d, d), about the origin; lower triangles
    products: Annotated[np.ndarray, Array("float64", "_ n_dimensions n_dimensions")]
    # Rows with missing cells, which have their current values
    completed: Annotated[np.ndarray, Array("float64", "_ n_dimensions")]

    @property
    def label_axes(self) -> tuple[int, int, int, int]:
        """Axis of the labels in each array."""
        return 0, 0, 0, OF_ROWS


class FullFamily(MatrixFamily):
    """Gaussian family with a full covariance matrix for each component."""

    data_type, sums_type = FullData, FullSums

    def _add_densities(self, X, first, stop, parameters, out):
        add_full_densities(X, first, stop, parameters.means, self._prepared(parameters), parameters.offsets, out)

    def _prepared(self, parameters: GaussianParameters) -> np.ndarray:
        d = self.n_features
        padded = np.zeros((len(parameters.means), d + -d % ENTRIES, d + -d % ENTRIES))
        padded[:, :d, :d] = parameters.factors
        return padded

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
        rooted = np.sqrt(sizes)[:, np.newaxis] * means
        scatters = symmetric(products) - rooted[:, :, np.newaxis] * rooted[:, np.newaxis, :]
        reference = prior.covariance
        if "covariance" in free:
            K, whole = len(labels), prior.covariance * len(labels) ** (-2.0 / d)
            reference = pooled(scatters.sum(axis=0), sizes.sum(), K, whole, d + 2.0)
        moments = MatrixMoments(sizes, means - (prior.mean - self.origin), scatters, reference)
        return self._with_best_prior(moments.log_marginal, free, reference)

    def count(self, labels: np.ndarray, statistics: FullSums, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        complete = np.flatnonzero(self.data.place < 0)
        ends, order = np.empty(len(statistics.sizes) + 1, np.int64), np.empty(len(complete), np.int64)
        order_by_label(labels[complete], ends, order)
        statistics.sizes[:] += np.diff(ends)
        shared = self.rows.values, complete[order], ends, self.origin, statistics.sums, statistics.products
        workers.run(add_by_label, [(*task, *shared) for task in self._ranges(np.diff(ends), workers)])
        if len(self._incomplete):
            self._count_some(self._incomplete, 1, labels, statistics, workers)

    def new_posterior(self, capacity: int, statistics: FullSums, key: np.uint64) -> FullPosterior:
        """Space for the posteriors of labels."""
        d = self.n_features
        of_labels = np.zeros((capacity, d)), np.zeros((capacity, d, d)), np.zeros(capacity), np.zeros(capacity)
        return FullPosterior(*of_labels, np.empty((d, d)), np.empty(d))

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
        return tied_labels(self._filled(), labels, n_clusters, scatter)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 1000 + 45 * self.n_features


def tied_labels(rows: np.ndarray, labels: np.ndarray, n_clusters: int, scatter: np.ndarray) -> np.ndarray:
    """The likeliest clusters, (n,) int32, after some passes of EM for Gaussian clusters with one covariance.

    Distances between complete rows say little in many dimensions. The passes, in time K d + d^2 per row, find the
    metric of the clusters from initial labels; a positive definite `scatter`, (d, d), is added to that within clusters.
    """
    n, d = rows.shape
    gaps = rows - rows.mean(axis=0)
    whole = gaps.T @ gaps + scatter
    sizes, sums = np.bincount(labels, minlength=n_clusters).astype(float), np.zeros((n_clusters, d))
    np.add.at(sums, labels, gaps)
    found = np.empty(n, np.int32)
    for _ in range(_N_PASSES):
        precisions = sizes + _PRIOR_ROWS
        means = sums / precisions[:, np.newaxis]
        within = (whole - (precisions[:, np.newaxis] * means).T @ means) / n
        images = solve_triangular(np.linalg.cholesky(within), np.vstack([means, np.eye(d)]).T, lower=True)
        weights = images[:, n_clusters:].T @ images[:, :n_clusters]  # of the columns, in the score of each cluster
        offsets = np.log(precisions) - 0.5 * (images[:, :n_clusters] ** 2).sum(axis=0)
        sizes, sums = np.zeros(n_clusters), np.zeros((n_clusters, d))
        for start, stop in split_range(n, _ROWS_AT_ONCE):
            scores = gaps[start:stop] @ weights + offsets
            found[start:stop] = scores.argmax(axis=1)
            scores -= scores.max(axis=1, keepdims=True)
            shares = np.exp(scores, out=scores)
            shares /= shares.sum(axis=1, keepdims=True)
            sizes += shares.sum(axis=0)
            sums += shares.T @ gaps[start:stop]
    return found
