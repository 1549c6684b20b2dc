"""Clusters of categories: counts or codes, with a Dirichlet prior for the categories of each column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....random._log_gamma_ziggurat import gamma_tables
from ....utils._conditions import MOST_COUNTED, Array
from ....utils._declared import holds
from ....utils._threads import Workers, split_by_task, split_range
from ..._codes import Table
from ..._column_information import information_of_categories
from ..base import Clusters
from ..counting import count_rows, move_rows
from ..statistics import occupied
from . import split_kernels  # noqa: F401 - its kernels are chosen by type
from .kernels import CategoryData, CategoryPosterior, draw_columns
from .predictive_kernels import add_given_counts, add_given_parameters, log_marginal_of_counts

_ROWS_MOVED = 1 << 12  # of a task, at least
_CELLS_DRAWN = 100_000  # of a task
_CELLS_OF_TASK = 20_000  # some milliseconds with a few tokens per row


@holds(
    sizes=Array("int64 float64", ("capacity",), low=0, high=MOST_COUNTED),
    categories=Array("int64 float64", ("n_categories", "capacity"), low=0, high=MOST_COUNTED),
)
class CategoryCounts(NamedTuple):
    """Counts by label."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    categories: np.ndarray  # (n_categories, capacity) int64: numbers of tokens; the labels of a category are contiguous

    @property
    def label_axes(self) -> tuple[int, int]:
        """Axis of the labels in each array."""
        return 0, 1


class CategoryClusters(Clusters):
    """Rows of categories; a component has a distribution over the categories of each column.

    Parameters
    ----------
    table : Table
        Rows. Counts that are to be fitted are integers.
    prior : float
        Dirichlet parameter of each category.
    """

    def __init__(self, table: Any, prior: float) -> None:
        self.table = table
        self.prior = float(prior)
        indptr, indices, counts, column_start = table
        super().__init__(
            CategoryData(indptr, indices, counts, column_start, table.column_of(), self.prior), table.n_rows
        )
        self._gammas = gamma_tables(self.prior)

    def no_statistics(self, capacity: int) -> CategoryCounts:
        """Counts of no rows."""
        return CategoryCounts(np.zeros(capacity, np.int64), np.zeros((self.table.n_categories, capacity), np.int64))

    def new_posterior(self, capacity: int, statistics: CategoryCounts, key: np.uint64) -> CategoryPosterior:
        """Space for the numbers of tokens of each column by label, and for the categories of two sides."""
        n = self.table.n_categories
        present = np.zeros(n, bool), np.empty(n, np.int64), np.zeros(1, np.int64)
        return CategoryPosterior(np.zeros((self.table.n_columns, capacity)), *present)

    def count(self, labels: np.ndarray, statistics: CategoryCounts, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        count_rows(self.data, labels, 0, len(statistics.sizes), statistics)

    def move(
        self, rows: np.ndarray, new_labels: np.ndarray, labels: np.ndarray, statistics: CategoryCounts, workers: Workers
    ) -> None:
        """Move rows to their new labels; each task sums the changes of its rows, which are integers."""
        capacity = len(statistics.sizes)
        tasks = split_range(len(rows), max(_ROWS_MOVED, -(-len(rows) // workers.n_workers)))
        first, later = statistics, [self.no_statistics(capacity) for _ in tasks[1:]]
        changes = [first, *later]
        shared = 0, capacity, labels
        parts = zip(tasks, changes, strict=True)
        workers.run(move_rows, [(self.data, rows[a:b], new_labels[a:b], *shared, change) for (a, b), change in parts])
        for change in later:
            statistics.sizes[:] += change.sizes
            statistics.categories[:] += change.categories

    def draw_components(
        self, statistics: CategoryCounts, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> np.ndarray:
        """Draw log probabilities of the categories, (n_categories, K)."""
        start = self.table.column_start
        out = np.empty((self.table.n_categories, len(labels)))
        arguments = start, statistics.categories, labels, self.prior, *self._gammas, key, out
        tasks = split_by_task(start[:-1] * len(labels) // _CELLS_DRAWN)
        workers.run(draw_columns, [(first, stop, *arguments) for first, stop in tasks])
        return out

    def log_marginal(self, statistics: CategoryCounts) -> float:
        """Log probability of all tokens in their order given the labels."""
        start, prior = self.table.column_start, self.prior
        columns = np.ascontiguousarray(statistics.categories[:, occupied(statistics)].T)
        return float(sum(log_marginal_of_counts(column, start, prior) for column in columns))

    def add_log_predictive(self, statistics: CategoryCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        table = self.table
        cells = statistics.categories + self.prior
        totals = np.add.reduceat(cells, table.column_start[:-1], axis=0)
        shared = self.data.column_of, cells, np.log(cells), totals, np.log(totals), out
        data = table.indptr, table.indices, table.counts.astype(np.float64)
        workers.run(add_given_counts, [(a, b, *data, *shared) for a, b in _tasks(out)])

    def add_densities_of_rows(self, components: np.ndarray, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        table = self.table
        components = np.ascontiguousarray(components, np.float64)
        shared = table.indptr, table.indices, table.counts.astype(np.float64), components, out
        workers.run(add_given_parameters, [(a, b, *shared) for a, b in _tasks(out)])

    def arrays_of(self, components: np.ndarray) -> dict[str, np.ndarray]:
        """Drawn probabilities of the categories, (K, n_categories)."""
        return arrays_of_components(components)

    def expected(self, statistics: CategoryCounts) -> dict[str, Any]:
        """Posterior means of the probabilities of the categories, (K, n_categories)."""
        cells = statistics.categories.T + self.prior
        totals = np.add.reduceat(cells, self.table.column_start[:-1], axis=1)
        return {"components_": cells / np.repeat(totals, np.diff(self.table.column_start), axis=1)}

    def column_information(self, statistics: CategoryCounts) -> np.ndarray:
        """The contribution of each category to the mutual information of a token and its cluster, (n_categories,)."""
        return self._information(statistics, statistics.categories.sum(axis=0))

    def _information(self, statistics: CategoryCounts, weights: np.ndarray) -> np.ndarray:
        """The contribution of each category to the information about the cluster, (n_categories,)."""
        probabilities = self.expected(statistics)["components_"]
        if isinstance(probabilities, list):
            probabilities = np.concatenate(probabilities, axis=1)
        return information_of_categories(weights, probabilities)

    def part(self, start: int, stop: int) -> CategoryClusters:
        """The clusters of some of the rows."""
        return self._of(self.table._replace(indptr=self.table.indptr[start : stop + 1]))

    def subset(self, rows: np.ndarray) -> CategoryClusters:
        """The clusters of the rows with these indices."""
        return self._of(self.table.take(rows))

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 24.0 * self.table.n_categories * n_components

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        tokens_of_row = len(self.table.indices) / self.n_rows
        return int(240 * self.table.n_categories / (tokens_of_row + 12))

    def _of(self, table: Table) -> CategoryClusters:
        return type(self)(table, self.prior)


class CodeClusters(CategoryClusters):
    """Rows of codes: one token for each cell of a table that is not missing."""

    def kept_attributes(self) -> dict[str, Any]:
        """The number of categories of each column."""
        return {"n_categories_": np.diff(self.table.column_start)}

    def expected(self, statistics: CategoryCounts) -> dict[str, Any]:
        """Posterior means of the probabilities of the categories, (K, n_categories) for each column."""
        means = super().expected(statistics)["components_"]
        return {"components_": np.split(means, self.table.column_start[1:-1], axis=1)}

    def drawn_attributes(self, components: np.ndarray) -> dict[str, Any]:
        """Drawn probabilities of the categories, (K, n_categories) for each column."""
        return {"components_": np.split(np.exp(components.T), self.table.column_start[1:-1], axis=1)}

    def typical_cells(self, statistics: CategoryCounts) -> np.ndarray:
        """The most probable code of each column, (K, n_columns)."""
        return np.stack([column.argmax(axis=1) for column in self.expected(statistics)["components_"]], axis=1)

    def column_information(self, statistics: CategoryCounts) -> np.ndarray:
        """Mutual information of each column and the cluster, (n_columns,)."""
        return np.add.reduceat(self._information(statistics, statistics.sizes), self.table.column_start[:-1])


def arrays_of_components(components: np.ndarray) -> dict[str, np.ndarray]:
    """Drawn probabilities of the categories, (K, n_categories), given their logarithms."""
    return {"components": np.exp(components.T)}


def _tasks(terms: np.ndarray) -> list[tuple[int, int]]:
    return split_range(len(terms), max(1, _CELLS_OF_TASK // max(1, terms.shape[1])))
