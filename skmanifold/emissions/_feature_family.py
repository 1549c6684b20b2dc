"""Base class of families of independent features whose cells may be missing: binary rows and counts."""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..utils._conditions import MOST_COUNTED, Array
from ..utils._declared import holds
from ..utils._threads import Workers, split_by_task, split_range
from ._clusters.base import Clusters
from ._clusters.linear.base import LinearComponents, LinearCounts
from ._clusters.linear.kernels import LinearSides, ZeroRow
from ._clusters.linear.seeds import seed_labels
from ._clusters.statistics import occupied
from ._linear import LinearFamily, LinearParameters, add_linear_scores
from ._linear_rows import LinearRows
from ._protocols import Arrays

_DRAWS_OF_TASK = 10_000  # some milliseconds
_CELLS_OF_TASK = 20_000  # some milliseconds with a few entries per row


class FeatureFamily(LinearFamily, Clusters):
    """Base class of families of rows with whole or fractional cells, some of which may be missing.

    Statistics are the sizes of the components, (K,), and sums by component, (K, 2 * n_features): of the features, and
    of missing cells. A bound family has `rows`, with whole cells, and `data`, which the kernels read.
    """

    draw_features: ClassVar[Any]  # kernel that draws the natural parameters of some features
    log_marginal_of_label: ClassVar[Any]  # kernel
    rows_per_feature: ClassVar[int]  # of a minibatch, times the entries of a row plus 12

    rows: LinearRows
    log_base: np.ndarray | None  # what does not depend on the parameters of components

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_components, self.n_statistics)

    def _arranged(self, sizes: np.ndarray, sums: np.ndarray) -> Arrays:
        """Statistics with the other order of the axes of the sums."""
        return sizes, sums.T

    def observed(self, statistics: Arrays) -> np.ndarray:
        """Numbers of observed cells, (K, n_features)."""
        return super().observed(self._arranged(*statistics)).T

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the posterior distributions given statistics, (K, n_features) each."""
        raise NotImplementedError

    def _by_feature(self, statistics: Arrays) -> tuple[np.ndarray, ...]:
        """Parameters of the posterior distributions, (n_features, K) each, with contiguous components."""
        return tuple(np.ascontiguousarray(array.T) for array in self._posterior(statistics))

    def n_parameters(self) -> int:
        """Number of free parameters: one for each feature of each component."""
        return self.n_components * self.n_features

    def clusters(self, rows: LinearRows | None = None) -> Any:
        """The family together with rows, as Dirichlet process mixtures use it."""
        return self._bound(LinearRows.none(self.n_features) if rows is None else rows)

    def _bound(self, rows: LinearRows) -> Any:
        bound = copy(self)
        bound.rows, bound.n_rows, bound.data, bound.log_base = rows, rows.n_rows, self._data_of(rows), rows.log_base
        return bound

    def _data_of(self, rows: LinearRows) -> Any:
        """Rows and prior, as the kernels read them."""
        raise NotImplementedError

    def part(self, start: int, stop: int) -> Any:
        """The clusters of some of the rows."""
        return self._bound(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> Any:
        """The clusters of the rows with these indices."""
        return self._bound(self.rows.take(rows))

    def no_statistics(self, capacity: int) -> LinearCounts:
        """Sums over no rows."""
        return LinearCounts(np.zeros(capacity, np.int64), np.zeros((capacity, self.n_statistics), np.int64))

    def new_cache(self, capacity: int) -> ZeroRow:
        """Space for the log density of a row of zeros given each label."""
        return ZeroRow(np.empty(capacity))

    def new_sides(self) -> LinearSides:
        """Two sides without rows."""
        n, groups = self.n_statistics, self.data.groups
        sums, of_groups = np.zeros((2, n), np.int64), np.zeros((2, len(groups.sizes)), np.int64)
        present, n_present = np.empty(n, np.int64), np.zeros(1, np.int64)
        return LinearSides(np.zeros(2, np.int64), sums, of_groups, present, n_present, groups.sizes.copy())

    def draw(self, statistics: Arrays, key: np.uint64) -> LinearParameters:
        """Draw the parameters from their posterior given statistics."""
        naturals = self._draw(statistics, np.arange(len(statistics[0])), key, Workers(1))
        return self._parameters_of_drawn(naturals)

    def draw_components(
        self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> LinearComponents:
        """Draw the parameters of the components."""
        naturals = self._draw(statistics, labels, key, workers)
        return LinearComponents(-naturals[self.n_features :].sum(axis=0), naturals)

    def _draw(self, statistics: Arrays, labels: np.ndarray, key: np.uint64, workers: Workers) -> np.ndarray:
        """Drawn natural parameters."""
        naturals = np.empty((self.n_statistics, len(labels)))
        arguments = *self._prior(), *map(np.ascontiguousarray, statistics), labels, key, naturals
        tasks = split_by_task(np.arange(self.n_features) * len(labels) // _DRAWS_OF_TASK)
        workers.run(type(self).draw_features, [(first, stop, *arguments) for first, stop in tasks])
        return naturals

    def log_marginal(self, statistics: LinearCounts) -> float:
        """Log density of all rows given their labels."""
        kernel, (sizes, sums) = type(self).log_marginal_of_label, statistics
        log_base = 0.0 if self.log_base is None else float(self.log_base.sum())
        return float(sum(kernel(self.data, sizes[label], sums[label]) for label in occupied(statistics))) + log_base

    def add_densities_of_rows(self, components: LinearComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        self._add(add_linear_scores, components[:2], out, workers)

    def _add(self, kernel: Any, tables: tuple, out: np.ndarray, workers: Workers) -> None:
        """Add log densities that `kernel` computes from `tables`."""
        tasks = split_range(len(out), max(1, _CELLS_OF_TASK // max(1, out.shape[1])))
        workers.run(kernel, [(a, b, *self.rows[:3], *tables, out[a:b]) for a, b in tasks])
        if self.log_base is not None:
            out += self.log_base[:, None]

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 16.0 * self.n_statistics * n_components

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        entries_of_row = len(self.rows.indices) / self.n_rows
        return int(self.rows_per_feature * self.n_features / (entries_of_row + 12))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds among the rows."""
        return seed_labels(self, self.rows, n_clusters, key)
