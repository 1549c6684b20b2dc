"""Families of categories, counts or codes, with a Dirichlet prior for each column, and their kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ..numerics.simd import prefetch
from ..numerics.special import fill_exp, log_rising, log_rising_of_real
from ..random._keys import fold_in
from ..random._log_gamma_ziggurat import fill_log_gammas, gamma_tables
from ..utils._conditions import MOST_COUNTED, Array, refuse
from ..utils._njit import njit, njit_part
from ..utils._threads import ONE, Workers, split_by_task, split_range
from . import kernels
from ._codes import Table
from ._family import averaged
from ._linear import LinearFamily
from ._linear_kernels import add_entries, add_linear_scores, log_bayes_factor_of_counts, multiply_rising
from ._linear_rows import LinearRows, refuse_fractions
from ._protocols import Arrays
from ._statistics import move_entry, move_rows

_AHEAD = 3  # a row is prefetched so many rows before its use
_ITEMS_OF_LINE = 16  # of four bytes in a cache line of 64 bytes


class CategoryData(NamedTuple):
    """Rows of categories in CSR format, and the Dirichlet parameters of the categories of each column."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    column_start: np.ndarray  # (n_columns + 1,) int64
    column_of: np.ndarray  # (n_categories,) int32
    prior: np.ndarray  # (n_columns,)


class CategoryPosterior(NamedTuple):
    """Numbers of tokens of each column by label, and the categories that the rows on two sides have."""

    totals: np.ndarray  # (n_columns, capacity) float64
    is_present: np.ndarray  # (n_categories,) bool
    present: np.ndarray  # (n_categories,) int64
    n_present: np.ndarray  # (1,) int64


@kernels.count_row.of(CategoryData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    for e in range(data.indptr[row], data.indptr[row + 1]):
        statistics.categories[data.indices[e], label] += sign * data.counts[e]


@kernels.merge_labels.of(CategoryData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    move_entry(statistics.sizes, kept, gone)
    for category in range(len(statistics.categories)):
        statistics.categories[category, kept] += statistics.categories[category, gone]
        statistics.categories[category, gone] = 0


@njit_part
def _prefetch_row(data, row):
    for e in range(data.indptr[row], data.indptr[row + 1], _ITEMS_OF_LINE):
        prefetch(data.indices, e)
        prefetch(data.counts, e)


@kernels.fill_scores.of(CategoryData)
@njit_part
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    for i in range(len(rows)):
        if i + _AHEAD < len(rows):
            _prefetch_row(data, rows[i + _AHEAD])
        n = n_above[i]
        if n > 1:
            for k in range(n):
                scores[i, k] = 0.0
            add_entries(data.indptr, data.indices, data.counts, rows[i], n, components, scores[i])


@njit(cache=True, nogil=True)
def draw_columns(first, stop, column_start, counts, components, prior, levels, edges, heights, key, out):
    """Draw probabilities of the columns `first` to `stop` from their Dirichlet posterior and write their logs to `out`.

    `counts` is (n_categories, capacity); `components`, (K,), are labels, those beyond the capacity without tokens. The
    draw of a cell of `out`, (n_categories, K), depends only on the key, the category and the index in `components`.
    `levels`, `edges` and `heights` are the `GammaTables` of the most frequent Dirichlet parameters.
    """
    n_components = len(components)
    largest, total = np.empty(n_components), np.empty(n_components)
    scratch, shapes = np.empty((2, n_components)), np.empty(n_components)
    bits, cells = np.empty(n_components, np.uint64), np.empty(n_components + 1, np.int64)
    capacity = counts.shape[1]
    for column in range(first, stop):
        begin, end = column_start[column], column_start[column + 1]
        largest[:] = -np.inf
        total[:] = 0.0
        for f in range(begin, end):
            for k in range(n_components):
                label = components[k]
                shapes[k] = prior[f] + (counts[f, label] if label < capacity else 0)
            fill_log_gammas(fold_in(key, f), shapes, levels, edges[0], heights[0], bits, cells, out[f])
            for k in range(n_components):
                largest[k] = max(largest[k], out[f, k])
        for f in range(begin, end):
            for k in range(n_components):
                scratch[0, k] = out[f, k] - largest[k]
            fill_exp(n_components, scratch[0], scratch[1], scratch[0])
            for k in range(n_components):
                total[k] += scratch[0, k]
        for k in range(n_components):
            total[k] = largest[k] + math.log(total[k])
        for f in range(begin, end):
            for k in range(n_components):
                out[f, k] -= total[k]


@njit(cache=True, nogil=True)
def add_given_counts(first, stop, indptr, indices, counts, column_of, cells, log_cells, totals, log_totals, out):
    """Add to `out`, (stop - first, K), the log densities of rows given counts of components, parameters integrated out.

    It is the Dirichlet-multinomial distribution without multinomial coefficients: rising factorials of ``cells`` =
    prior + counts, (n_categories, K), over those of ``totals``, their sums by column. Fractional counts are weights.
    """
    n_components = cells.shape[1]
    for row in range(first, stop):
        scores, e, end = out[row - first], indptr[row], indptr[row + 1]
        while e < end:
            column, tokens = column_of[indices[e]], 0.0
            while e < end and column_of[indices[e]] == column:
                f, count = indices[e], np.float64(counts[e])
                tokens += count
                e += 1
                if count == 1:
                    logs = log_cells[f]
                    for k in range(n_components):
                        scores[k] += logs[k]
                else:
                    for k in range(n_components):
                        scores[k] += _log_rising(cells[f, k], count)
            if tokens == 1:
                logs = log_totals[column]
                for k in range(n_components):
                    scores[k] -= logs[k]
            else:
                for k in range(n_components):
                    scores[k] -= _log_rising(totals[column, k], tokens)


@njit(cache=True, nogil=True)
def _log_rising(x, n):
    """Log of the rising factorial (x)_n; the result for a whole n does not depend on the type of the other counts."""
    return log_rising(x, np.int64(n)) if n == np.floor(n) else log_rising_of_real(x, n)


@njit_part
def _plus_log_marginal(total, counts, start, stop, prior):
    """A sum plus the log marginal probability of the cells of a column, with the categories `start` to `stop`."""
    n_tokens = np.int64(0)
    for category in range(start, stop):
        if counts[category] > 0:
            total += log_rising(prior, counts[category])
            n_tokens += counts[category]
    return total - log_rising(prior * (stop - start), n_tokens)


@njit(cache=True, nogil=True)
def log_marginal_of_counts(counts, column_start, prior):
    """Log marginal probability of rows whose summed `counts` are (n_categories,)."""
    result = 0.0
    for column in range(len(column_start) - 1):
        result = _plus_log_marginal(result, counts, column_start[column], column_start[column + 1], prior[column])
    return result


@njit(cache=True, nogil=True)
def log_marginals_of_columns(counts, column_start, prior):
    """Log marginal probabilities of the cells of each column; `counts` of labels are (n_labels, n_categories)."""
    out = np.zeros(len(column_start) - 1)
    for label in range(len(counts)):
        for column in range(len(out)):
            ends = column_start[column], column_start[column + 1]
            out[column] = _plus_log_marginal(out[column], counts[label], ends[0], ends[1], prior[column])
    return out


# Split-merge moves
#
# In column b, which has s_b categories, a component has a Dirichlet(a, ..., a) distribution, where a is ``prior[b]``.
# With the components integrated out, rows with counts n_f and column totals N_b have the marginal probability
# prod_b Gamma(a s_b) / Gamma(a s_b + N_b) prod_f Gamma(a + n_f) / Gamma(a), for their tokens in order.


@kernels.refresh_posterior.of(CategoryData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    for column in range(len(data.column_start) - 1):
        total = 0
        for category in range(data.column_start[column], data.column_start[column + 1]):
            total += statistics.categories[category, label]
        posterior.totals[column, label] = total


@kernels.add_predictive.of(CategoryData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    add_predictive(data, row, labels, n_labels, statistics.categories, posterior.totals, out)


@njit_part
def add_predictive(data, row, clusters, n_clusters, categories, totals, out):
    """Add to `out` the log density of one row given each of some clusters, as `add_given_counts` does.

    Nothing is prepared, so that counts may change between calls: `categories`, (n_categories, ...), and `totals`,
    (n_columns, ...), are numbers of tokens by cluster, without the prior.
    """
    indptr, indices, counts, column_start, column_of, prior = data
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column, tokens = column_of[indices[e]], np.int64(0)
        own = prior[column]
        while e < stop and column_of[indices[e]] == column:
            for c in range(n_clusters):
                out[c] += log_rising(own + categories[indices[e], clusters[c]], np.int64(counts[e]))
            tokens += counts[e]
            e += 1
        width = column_start[column + 1] - column_start[column]
        for c in range(n_clusters):
            out[c] -= log_rising(own * width + totals[column, clusters[c]], tokens)


@kernels.log_bayes_factor.of(CategoryData)
@njit_part
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    log_factor = 0.0
    for column in range(len(data.column_start) - 1):
        for category in range(data.column_start[column], data.column_start[column + 1]):
            counts = statistics.categories[category]
            log_factor += log_bayes_factor_of_counts(data.prior[column], counts[label_0], counts[label_1])
    for column in range(len(data.column_start) - 1):
        column_prior = data.prior[column] * (data.column_start[column + 1] - data.column_start[column])
        totals = posterior.totals[column]
        log_factor -= log_bayes_factor_of_counts(column_prior, totals[label_0], totals[label_1])
    return log_factor


@kernels.update_posterior.of(CategoryData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    """Add or remove a row, and list the categories that no earlier row has."""
    statistics.sizes[label] += sign
    for e in range(data.indptr[row], data.indptr[row + 1]):
        category, count = data.indices[e], sign * data.counts[e]
        statistics.categories[category, label] += count
        posterior.totals[data.column_of[category], label] += count
        if not posterior.is_present[category]:
            posterior.is_present[category] = True
            posterior.present[posterior.n_present[0]] = category
            posterior.n_present[0] += 1


@kernels.odds_of_sides.of(CategoryData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    indptr, indices, counts, column_start, column_of, prior = data
    categories, totals = statistics.categories, posterior.totals
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column = column_of[indices[e]]
        column_stop = column_start[column + 1]
        row_tokens, own = np.int64(0), prior[column]
        while e < stop and indices[e] < column_stop:
            category, tokens = indices[e], np.int64(counts[e])
            of_0, of_1 = categories[category, 0] + own, categories[category, 1] + own
            factor_1, factor_0, log_odds = multiply_rising(of_1, of_0, tokens, factor_1, factor_0, log_odds)
            row_tokens += tokens
            e += 1
        column_prior = own * (column_stop - column_start[column])
        of_0, of_1 = totals[column, 0] + column_prior, totals[column, 1] + column_prior
        factor_1, factor_0, log_odds = multiply_rising(of_0, of_1, row_tokens, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


@kernels.clear_sides.of(CategoryData)
@njit_part
def _clear_sides(data, statistics, posterior):
    for place in range(posterior.n_present[0]):
        category = posterior.present[place]
        column = data.column_of[category]
        posterior.is_present[category] = False
        statistics.categories[category, 0] = statistics.categories[category, 1] = 0
        posterior.totals[column, 0] = posterior.totals[column, 1] = 0.0
    posterior.n_present[0] = 0
    statistics.sizes[0] = statistics.sizes[1] = 0


_TOLERANCE = 1e-6  # of sums of stored probabilities
_ROWS_MOVED = 1 << 12  # of a task, at least
_CELLS_DRAWN = 100_000  # of a task


class CategoryCounts(NamedTuple):
    """Counts by label."""

    sizes: Annotated[np.ndarray, Array("int64 float64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    # Numbers of tokens; the labels of a category are contiguous
    categories: Annotated[np.ndarray, Array("int64 float64", "n_categories capacity", low=0, high=MOST_COUNTED)]
    # Dirichlet parameters of the columns, if chains draw them; else empty
    hyperparameters: Annotated[np.ndarray, Array("float64", "_", above=0)] = np.empty(0)

    @property
    def label_axes(self) -> tuple[int | None, ...]:
        """Axis of the labels in each array."""
        return 0, 1, None


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
    _attributes: Callable[..., dict[str, Any]]  # the fitted attributes with these probabilities, (n_statistics, K)

    @property
    def n_statistics(self) -> int:  # type: ignore[override]
        """One for each category."""
        return len(self.prior)

    def prepare(self, rows: LinearRows | Table) -> CategoryData:
        """Rows and prior, as the kernels read them."""
        prior = self.prior[self.column_start[:-1]]
        if (self.prior != self._spread(prior)).any():
            raise ValueError(
                "A Dirichlet process mixture with emission='multinomial' needs the same category_prior for all "
                "features: pass a number, Multinomial(category_prior=0.1)."
            )
        column_of = self._spread(np.arange(len(self.column_start) - 1, dtype=np.int32))
        return CategoryData(*rows[:3], self.column_start, column_of, prior)

    def _no_rows(self) -> Table:
        return Table.of(*LinearRows.none(0)[:3], self.column_start)

    # Statistics

    def no_statistics(self, capacity: int) -> CategoryCounts:
        """Counts of no rows."""
        counts = np.zeros((self.n_statistics, capacity), np.int64)
        return CategoryCounts(np.zeros(capacity, np.int64), counts, self.hyperparameters)

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
        later = [self.no_statistics(capacity) for _ in tasks[1:]]
        shared, parts = (0, capacity, labels), zip(tasks, [statistics, *later], strict=True)
        workers.run(move_rows, [(self.data, rows[a:b], new_labels[a:b], *shared, change) for (a, b), change in parts])
        for change in later:
            statistics.sizes[:] += change.sizes
            statistics.categories[:] += change.categories

    # The posterior of the probabilities

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Dirichlet parameters of the categories, (n_statistics, K), and their sums by column."""
        cells = statistics[1] + self.prior[:, None]
        return cells, self._sums_of_columns(cells)

    def _sums_of_columns(self, of_categories: np.ndarray) -> np.ndarray:
        """Sums over the categories of each column, along the first axis."""
        return np.add.reduceat(of_categories, self.column_start[:-1]) if len(of_categories) else of_categories

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
        if not self.n_statistics:
            return out
        arguments = start, statistics[1], labels, self.prior, *gamma_tables(self._frequent_prior()), key, out
        tasks = split_by_task(start[:-1] * len(labels) // _CELLS_DRAWN)
        workers.run(draw_columns, [(first, stop, *arguments) for first, stop in tasks])
        return out

    def _frequent_prior(self) -> float:
        """The Dirichlet parameter for which there are tables, whose computation takes some milliseconds."""
        return float(self.prior[0])

    def expected(self, statistics: Arrays, shares: np.ndarray | None = None) -> dict[str, Any]:
        """Posterior means as fitted attributes."""
        cells, totals = self._posterior(statistics)
        return averaged(self._attributes(cells / self._spread(totals)), shares)

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
        sums = self._sums_of_columns(np.exp(parameters))
        if not np.allclose(sums, 1.0, rtol=0.0, atol=_TOLERANCE):
            refuse(where, "contains probabilities that do not sum to one")

    def n_parameters(self) -> int:
        """Number of free parameters: one less than the number of categories for each column of each component."""
        return self.n_components * (self.n_statistics - len(self.column_start) + 1)
