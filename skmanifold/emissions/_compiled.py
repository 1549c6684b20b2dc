"""Families whose densities and statistics are kernels of one row, from which this module derives all others."""

from __future__ import annotations

import math
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from ..numerics.block_sums import BLOCK_ROWS, BlockSums
from ..random._keys import subkey
from ..utils._njit import njit
from ..utils._threads import Workers, split_range
from ._base import Family
from ._clusters.base import Clusters
from ._clusters.statistics import occupied, selected
from ._dense_rows import DenseRows
from ._protocols import Parameters
from ._seeds import cluster_rows
from .kernels import add_predictive, count_row, fill_scores, refresh_posterior

_CELLS_OF_TASK = 20_000  # some milliseconds
_ENTRIES_OF_BATCH = 50_000  # of the scores of a minibatch
_PARAMETERS, _ROWS = 0, 1  # uses of a key


class CompiledFamily(Family, Clusters):
    """Base class of conjugate families of real numbers that are written as six kernels, for all mixtures.

    A subclass has the methods ``prepare``, ``no_statistics``, ``new_posterior``, ``mode``, ``mean``, ``draw``,
    ``log_marginals``, ``attributes`` and ``sample``, and registers the kernels of `skmanifold.emissions.kernels` for
    the type that ``prepare`` returns. Log densities, sums, predictive densities, seeds and new rows follow from these.

    Parameters
    ----------
    data : NamedTuple
        What ``prepare`` returned. Subclasses have other parameters: those of their prior.
    n_rows : int
        Number of rows.

    Attributes
    ----------
    n_components : int
        Number of components K.
    n_features : int
        Number of features.
    """

    rows: Any  # of a family that is bound to rows

    if TYPE_CHECKING:  # every family has its own

        def prepare(self, rows: Any) -> Any: ...

        def mode(self, statistics: Any) -> Parameters: ...

        def mean(self, statistics: Any) -> Parameters: ...

        def draw(self, statistics: Any, key: np.uint64) -> Parameters: ...

        def log_marginals(self, statistics: Any) -> np.ndarray: ...

        def attributes(self, parameters: Parameters) -> dict[str, Any]: ...

        def sample(self, parameters: Parameters, labels: np.ndarray, key: np.uint64) -> np.ndarray: ...

    def clusters(self, rows: Any = None) -> CompiledFamily:
        """The family bound to rows; None stands for no rows."""
        bound = copy(self)
        bound.rows = DenseRows(np.empty((0, self.n_features))) if rows is None else rows
        Clusters.__init__(bound, self.prepare(bound.rows), bound.rows.n_rows)
        return bound

    # Rows of finite mixtures

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the statistics of all components."""
        return tuple(array.shape for array in self.no_statistics(self.n_components))

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add the log densities of rows given each component."""
        scores, n = np.empty(out.shape), stop - first
        all_above, nothing = np.full(n, out.shape[1]), np.zeros(n, np.int64)
        _fill_scores(self.prepare(rows), first, stop, all_above, nothing, parameters, scores)
        out += scores

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of rows given their labels."""
        return self._sum_in_blocks(_count_labelled, rows, first, stop, first_block, labels)

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of rows given their membership probabilities."""
        return self._sum_in_blocks(_count_shared, rows, first, stop, first_block, shares)

    def _sum_in_blocks(self, kernel, rows, first, stop, first_block, labels_or_shares) -> BlockSums:
        data, kind = self.prepare(rows), type(self.no_statistics(0))

        def add(start, end, *arrays):
            for block, (a, b) in enumerate(split_range(end - start, BLOCK_ROWS)):
                of_block = kind(*(array[block] for array in arrays))
                kernel(data, first + start + a, first + start + b, labels_or_shares[start + a : start + b], of_block)

        return self.sum_blocks(stop - first, first_block, add)

    def seed_labels(self, rows: Any, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means, with features scaled to equal ranges; missing cells are at the means."""
        return self._seeded(rows, self.n_components, key)

    def seed_weighted_labels(self, rows: Any, key: np.uint64, row_weights: np.ndarray) -> np.ndarray:
        """Initial labels as of `seed_labels`, of weighted rows."""
        return self._seeded(rows, self.n_components, key, row_weights)

    def _seeded(self, rows: Any, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None) -> np.ndarray:
        filled = rows.filled(0, rows.n_rows, np.nanmean(rows.values, axis=0))
        return cluster_rows(filled, n_clusters, key, row_weights)

    # Clusters of Dirichlet process mixtures

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Parameters:
        """Draw the parameters of the components `labels`."""
        return self.draw(selected(statistics, labels), key)

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        posterior = self.new_posterior(len(statistics.sizes), statistics, np.uint64(0))
        _refresh_all(self.data, statistics, posterior)
        shared = self.data, statistics, posterior, out
        workers.run(_add_predictive, [(*task, *shared) for task in self._tasks(out)])
        self._add_base(out)

    def add_densities_of_rows(self, components: Parameters, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        tasks = self._tasks(out)
        workers.run(self.add_log_densities, [(self.rows, a, b, components, out[a:b]) for a, b in tasks])
        self._add_base(out)

    def log_marginal(self, statistics: Any) -> float:
        """Log density of all rows given their labels."""
        log_base = 0.0 if self.rows.log_base is None else float(self.rows.log_base.sum())
        return log_base + float(self.log_marginals(selected(statistics, occupied(statistics))).sum())

    def arrays_of(self, components: Parameters) -> dict[str, np.ndarray]:
        """Drawn parameters as arrays."""
        return {name.removesuffix("_"): array for name, array in self.attributes(components).items()}

    def expected(self, statistics: Any) -> dict[str, np.ndarray]:
        """Posterior means as fitted attributes."""
        return self.attributes(self.mean(statistics))

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw parameters for each row, and then the row."""
        drawn = self.draw(selected(statistics, labels), subkey(key, _PARAMETERS))
        return self.sample(drawn, np.arange(len(labels), dtype=np.int32), subkey(key, _ROWS))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means."""
        return self._seeded(self.rows, min(n_clusters, self.n_rows), key).astype(np.int32)

    def part(self, start: int, stop: int) -> CompiledFamily:
        """The family bound to some of the rows."""
        return self.clusters(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> CompiledFamily:
        """The family bound to the rows with these indices."""
        return self.clusters(self.rows.take(rows))

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 16.0 * n_components * self._n_cells_of_label()

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return max(1, _ENTRIES_OF_BATCH // self._n_cells_of_label())

    def _add_base(self, out: np.ndarray) -> None:
        if self.rows.log_base is not None:
            out += self.rows.log_base[:, np.newaxis]

    def _n_cells_of_label(self) -> int:
        return sum(math.prod(array.shape) for array in self.no_statistics(1))

    def _tasks(self, out: np.ndarray) -> list[tuple[int, int]]:
        return split_range(len(out), max(1, _CELLS_OF_TASK // max(1, out.shape[1])))


@njit(cache=True, nogil=True)
def _fill_scores(data, first, stop, n_above, current, parameters, scores):
    fill_scores(data, None, np.arange(first, stop), n_above, current, parameters, scores)


@njit(cache=True, nogil=True)
def _count_labelled(data, first, stop, labels, statistics):
    for row in range(first, stop):
        count_row(data, statistics, row, np.int64(labels[row - first]), 1)


@njit(cache=True, nogil=True)
def _count_shared(data, first, stop, shares, statistics):
    for row in range(first, stop):
        for k in range(shares.shape[1]):
            if shares[row - first, k] > 0.0:
                count_row(data, statistics, row, k, shares[row - first, k])


@njit(cache=True, nogil=True)
def _refresh_all(data, statistics, posterior):
    for label in range(len(statistics.sizes)):
        refresh_posterior(data, statistics, posterior, label)


@njit(cache=True, nogil=True)
def _add_predictive(first, stop, data, statistics, posterior, out):
    labels = np.arange(out.shape[1])
    for row in range(first, stop):
        add_predictive(data, statistics, posterior, row, labels, len(labels), out[row])
