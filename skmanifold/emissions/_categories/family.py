"""Families of tokens in categories, counts or codes, with a Dirichlet prior for the categories of each column."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ...random._log_gamma_ziggurat import gamma_tables
from ...utils._conditions import MOST_COUNTED, Array, refuse
from ...utils._threads import ONE, Workers, split_by_task, split_range
from .._codes import Table
from .._linear import LinearFamily
from .._linear_kernels import add_linear_scores
from .._linear_rows import LinearRows, refuse_fractions
from .._protocols import Arrays
from .._statistics import move_rows
from .kernels import (
    CategoryData,
    CategoryPosterior,
    add_given_counts,
    draw_columns,
    log_marginal_of_counts,
)

_TOLERANCE = 1e-6  # of sums of stored probabilities
_ROWS_MOVED = 1 << 12  # of a task, at least
_CELLS_DRAWN = 100_000  # of a task


class CategoryCounts(NamedTuple):
    """Counts by label."""

    sizes: Annotated[np.ndarray, Array("int64 float64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    # Numbers of tokens; the labels of a category are contiguous
    categories: Annotated[np.ndarray, Array("int64 float64", "n_categories capacity", low=0, high=MOST_COUNTED)]

    @property
    def label_axes(self) -> tuple[int, int]:
        """Axis of the labels in each array."""
        return 0, 1


class CategoryFamily(LinearFamily):
    """Base class of families whose components have a distribution over the categories of each column.

    Column c has the categories ``column_start[c]:column_start[c + 1]``, with Dirichlet parameters `prior`,
    (n_statistics,). The parameters are logs of probabilities, (n_statistics, K), which subclasses have as attributes in
    their own form. Statistics are numbers of tokens, in finite mixtures possibly fractions.
    """

    bounds_of_means = 0.0, np.inf  # which also hold for numbers of categories
    bytes_of_cell = 24.0
    rows_per_statistic: ClassVar[int] = 240
    prior: np.ndarray
    column_start: np.ndarray

    @property
    def n_statistics(self) -> int:  # type: ignore[override]
        """One for each category."""
        return len(self.prior)

    def prepare(self, rows: LinearRows | Table) -> CategoryData:
        """Rows and prior, as the kernels read them."""
        prior = float(self.prior[0])
        if (self.prior != prior).any():
            raise ValueError(
                "A Dirichlet process mixture with emission='multinomial' needs the same category_prior for all "
                "features: pass a number, Multinomial(category_prior=0.1)."
            )
        table = Table(*rows[:3], self.column_start)
        return CategoryData(*table, table.column_of(), prior)

    def _no_rows(self) -> Table:
        return Table(*LinearRows.none(0)[:3], self.column_start)

    # Statistics

    def no_statistics(self, capacity: int) -> CategoryCounts:
        """Counts of no rows."""
        return CategoryCounts(np.zeros(capacity, np.int64), np.zeros((self.n_statistics, capacity), np.int64))

    def new_posterior(self, capacity: int, statistics: CategoryCounts, key: np.uint64) -> CategoryPosterior:
        """Space for the numbers of tokens of each column by label, and for the categories of two sides."""
        n = self.n_statistics
        present = np.zeros(n, bool), np.empty(n, np.int64), np.zeros(1, np.int64)
        return CategoryPosterior(np.zeros((len(self.column_start) - 1, capacity)), *present)

    def count(self, labels: np.ndarray, statistics: CategoryCounts, workers: Workers) -> None:
        """Add all rows to the statistics of their labels; fractions are refused."""
        refuse_fractions(self.rows, "multinomial", "whole counts")
        super().count(labels, statistics, workers)

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

    # The posterior of the probabilities

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Dirichlet parameters of the categories, (n_statistics, K), and their sums by column."""
        cells = statistics[1] + self.prior[:, None]
        return cells, np.add.reduceat(cells, self.column_start[:-1])

    def _spread(self, of_columns: np.ndarray) -> np.ndarray:
        """Values of columns as those of their categories."""
        return np.repeat(of_columns, np.diff(self.column_start), axis=0)

    def mode(self, statistics: Arrays) -> np.ndarray:
        """The posterior mode in softmax coordinates, where probabilities are the posterior means."""
        cells, totals = self._posterior(statistics)
        return np.log(cells) - self._spread(np.log(totals))

    def draw(self, statistics: Arrays, key: np.uint64) -> np.ndarray:
        """Draw log probabilities from their Dirichlet posteriors, one for each column and component."""
        return self.draw_components(statistics, np.arange(len(statistics[0])), key, ONE)

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> np.ndarray:
        """Draw log probabilities of the categories, (n_statistics, K)."""
        start, out = self.column_start, np.empty((self.n_statistics, len(labels)))
        arguments = start, statistics[1], labels, self.prior, *gamma_tables(float(self.prior[0])), key, out
        tasks = split_by_task(start[:-1] * len(labels) // _CELLS_DRAWN)
        workers.run(draw_columns, [(first, stop, *arguments) for first, stop in tasks])
        return out

    def expected(self, statistics: Arrays) -> dict[str, Any]:
        """Posterior means as fitted attributes."""
        cells, totals = self._posterior(statistics)
        return self._attributes(cells / self._spread(totals))

    def log_marginals(self, statistics: CategoryCounts) -> np.ndarray:
        """Log probability of the tokens of each label, in their order."""
        of_labels = np.ascontiguousarray(statistics.categories.T)
        return np.array([log_marginal_of_counts(each, self.column_start, self.data.prior) for each in of_labels])

    # Densities of rows

    def add_log_densities(
        self, rows: LinearRows | Table, first: int, stop: int, parameters: Any, out: np.ndarray
    ) -> None:
        """Add the log densities of the rows `first` to `stop` given each component."""
        add_linear_scores(first, stop, *rows[:3], np.zeros(out.shape[1]), parameters, out)

    def add_log_predictive(self, statistics: CategoryCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        cells, totals = self._posterior(statistics)
        shared = *self.rows[:3], self.data.column_of, cells, np.log(cells), totals, np.log(totals)
        self._add_by_ranges(lambda a, b, scores: add_given_counts(a, b, *shared, scores), out, workers)

    def log_prior(self, parameters: np.ndarray) -> float:
        """Log prior density in softmax coordinates, up to a constant."""
        return float((self.prior[:, None] * parameters).sum())

    def log_likelihood(self, statistics: Arrays, parameters: Any) -> float:
        """Log density of rows with these statistics given their components."""
        return float((statistics[1] * parameters).sum())

    # Components

    def _attributes(self, probabilities: np.ndarray) -> dict[str, Any]:
        """The fitted attributes with these probabilities of the categories, (n_statistics, K)."""
        raise NotImplementedError

    def attributes(self, parameters: Any) -> dict[str, Any]:
        """The fitted attribute ``components_``, the probabilities of the categories."""
        return self._attributes(np.exp(parameters))

    def arrays_of(self, components: np.ndarray) -> dict[str, np.ndarray]:
        """Drawn probabilities of the categories, (K, n_statistics)."""
        return {"components": np.exp(components.T)}

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        where = "parameters"
        Array("float64", f"{self.n_statistics} {self.n_components}", high=_TOLERANCE)(parameters, where, {})
        sums = np.add.reduceat(np.exp(parameters), self.column_start[:-1])
        if not np.allclose(sums, 1.0, rtol=0.0, atol=_TOLERANCE):
            refuse(where, "contains probabilities that do not sum to one")

    def n_parameters(self) -> int:
        """Number of free parameters: one less than the number of categories for each column of each component."""
        return self.n_components * (self.n_statistics - len(self.column_start) + 1)
