"""Rows to which a family is bound: their statistics by label, and their densities given components and clusters."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..utils._njit import njit
from ..utils._parameters import offers
from ..utils._threads import Workers, split_range
from ..utils._typing import available_if
from ._bound_defaults import BoundDefaults
from ._dense_rows import DenseRows
from ._protocols import HasKernels
from ._statistics import count_rows, label_axes, move_rows, occupied, selected, with_labels, without_rows
from .kernels import add_predictive, clear_sides, refresh_posterior

_N_SIDES = 3  # two, and a label for scratch
_ROWS_OF_TASK = 5_000  # whose labels change, at least: some tenths of a millisecond
_ENTRIES_OF_BATCH = 50_000  # of the scores of a minibatch


class StartEffort(NamedTuple):
    """How much is done to find initial clusters."""

    most_rows: int = 20_000  # of a random sample
    fewer_seeds: tuple[int, ...] = (30, 10, 3, 1)  # also tried: many small clusters may share a prior that suits them
    n_rounds: int = 3  # of passes, merges and learning of the prior
    least_size: float = 0.0  # relative to the average: a last round is tried with and without smaller clusters; 0: none


class BoundRows(BoundDefaults):
    """Base class of `Family`: the rows to which `clusters` has bound a family, as Dirichlet process mixtures use them.

    A bound family is a copy with `rows`, `n_rows`, `log_base`, and `data`, by whose type the kernels are chosen.
    """

    n_components: int
    n_features: int
    prior: Any = None
    rows: Any
    n_rows: int
    data: Any
    log_base: np.ndarray | None = None
    _last_given: Any = None  # what was drawn, and the family with it, which a pass needs several times
    cells_of_task: int = 20_000  # rows times components: some milliseconds with a few entries per row
    bytes_of_cell: ClassVar[float] = 16.0  # of the statistics of a label, in a drawn partition with its components

    # Families that need them have these methods.
    prepare: Callable[..., Any]
    no_statistics: Callable[..., Any]
    new_posterior: Callable[..., Any]
    log_marginals: Callable[..., np.ndarray]
    _with_drawn: Callable[..., Any]  # the family with these hyperparameters and numbers within cells
    with_learned_prior: Callable[..., Any]
    add_log_densities: Callable[..., None]
    seed_labels: Callable[..., np.ndarray]

    def with_components(self, n_components: int) -> Self:
        """The same family with another number of components.

        Parameters
        ----------
        n_components : int

        Returns
        -------
        family : Family
        """
        return self._replaced(n_components=n_components)

    def _replaced(self, **attributes: Any) -> Self:
        """A copy with other values of these attributes."""
        other = copy(self)
        vars(other).update(attributes)
        return other

    @available_if(lambda family: offers(family, HasKernels))
    def clusters(self, rows: Any = None) -> Self:
        """The family bound to rows, as Dirichlet process mixtures use it."""
        return self._bound(self._no_rows() if rows is None else rows)

    def _no_rows(self) -> Any:
        return DenseRows(np.empty((0, self.n_features)))

    def _bound(self, rows: Any) -> Self:
        """A copy that is bound to these rows."""
        bound = self._replaced(rows=rows, n_rows=rows.n_rows, log_base=rows.log_base)
        bound.data = bound.prepare(rows)
        return bound

    def part(self, start: int, stop: int) -> Self:
        """The family bound to the rows `start` to `stop`, or to the last."""
        return self._bound(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> Self:
        """The family bound to the rows with these indices.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64

        Returns
        -------
        family : Family
        """
        return self._bound(self.rows.take(rows))

    def with_prior(self, prior: Any) -> Self:
        """These rows with another prior, in the same units.

        Parameters
        ----------
        prior : object

        Returns
        -------
        family : Family
        """
        return self._replaced(prior=prior)._bound(self.rows)

    def with_prior_of(self, other: Any) -> Self:
        """These rows with the prior, and all else that was learned, of clusters of other rows.

        Parameters
        ----------
        other : Family

        Returns
        -------
        family : Family
        """
        return self.with_prior(other.prior)

    def given(self, statistics: Any) -> Self:
        """The family with the hyperparameters, and the numbers within cells, of these statistics.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        family : Family
        """
        drawn = [getattr(statistics, name, ()) for name in ("hyperparameters", "values")]
        if not any(map(len, drawn)):
            return self
        last, sources = self._last_given, [*drawn, getattr(self, "data", None)]  # a copy for other rows has other data
        if last is None or any(new is not old for new, old in zip(sources, last[0], strict=True)):
            self._last_given = last = sources, self._with_drawn(*drawn)
        return last[1]

    # Initial clusters and minibatches

    def start_effort(self) -> StartEffort:
        """How much is done to find initial clusters.

        Returns
        -------
        effort : StartEffort
        """
        return StartEffort()

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels, (n_rows,) int32, from seeds that are spread over the rows.

        Parameters
        ----------
        n_clusters : int
        key : uint64

        Returns
        -------
        labels : ndarray of shape (n_rows,), int32
        """
        family = self.with_components(min(n_clusters, self.n_rows))
        return family.seed_labels(self.rows, key).astype(np.int32)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components.

        Returns
        -------
        n_rows : int
        """
        return max(1, _ENTRIES_OF_BATCH // (1 + self._n_cells_of_label()))

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components.

        Parameters
        ----------
        n_components : float

        Returns
        -------
        n_bytes : float
        """
        return self.bytes_of_cell * n_components * self._n_cells_of_label()

    def _n_cells_of_label(self) -> int:
        """Number of entries of the statistics of a label, without its size."""
        return sum(array.size for array in selected(self.no_statistics(1), np.zeros(1, np.int64))[1:])

    # Statistics by label

    def split_merge_space(self, statistics: Any, key: np.uint64) -> tuple[Any, tuple[Any, Any]]:
        """Space for the posteriors of labels, and statistics and posteriors of the sides of a split, without rows.

        Parameters
        ----------
        statistics : NamedTuple
        key : uint64

        Returns
        -------
        posterior : NamedTuple
        sides : tuple of NamedTuple
            Statistics and posterior of two sides without rows, and of a label for scratch.
        """
        sides = self.no_statistics(_N_SIDES), self.new_posterior(_N_SIDES, statistics, key)
        clear_sides(self.data, *sides)
        return self.new_posterior(len(statistics.sizes), statistics, key), sides

    def count(self, labels: np.ndarray, statistics: Any, workers: Workers) -> None:
        """Add all rows to the statistics of their labels.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple
        workers : Workers
        """
        self._count_some(np.arange(self.n_rows), 1, labels, statistics, workers)

    def _count_some(self, rows: np.ndarray, sign: int, labels: np.ndarray, statistics: Any, workers: Workers) -> None:
        """Add rows to the statistics of their labels, or subtract them."""
        tasks = self._ranges(np.bincount(labels[rows], minlength=len(statistics.sizes)), workers)
        workers.run(count_rows, [(self.data, rows, sign, labels, *task, statistics) for task in tasks])

    def move(
        self, rows: np.ndarray, new_labels: np.ndarray, labels: np.ndarray, statistics: Any, workers: Workers
    ) -> None:
        """Move rows to their new labels in the statistics.

        Each task has a range of labels, so that the order of a sum does not depend on the number of threads.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
        new_labels : ndarray of shape (n,), int32
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple
        workers : Workers
        """
        n_labels, old = len(statistics.sizes), labels[rows]
        moved = old != new_labels
        n_moves = np.bincount(old[moved], minlength=n_labels) + np.bincount(new_labels[moved], minlength=n_labels)
        tasks = self._ranges(n_moves, workers)
        workers.run(move_rows, [(self.data, rows, new_labels, *task, labels, statistics) for task in tasks])

    def relabelled(self, labels: np.ndarray, statistics: Any, new_labels: np.ndarray, workers: Workers) -> Any:
        """Statistics after relabelling; `labels` are the new labels of all rows.

        Sums of numbers are added again, so that rounding errors of rows that moved do not accumulate.

        Parameters
        ----------
        labels : ndarray of shape (n_rows,), int32
        statistics : NamedTuple
        new_labels : ndarray of int64
        workers : Workers

        Returns
        -------
        statistics : NamedTuple
        """
        pairs = zip(statistics, label_axes(statistics), strict=True)
        if all(array.dtype.kind == "i" for array, axis in pairs if axis is not None):
            return with_labels(statistics, new_labels)
        again = without_rows(statistics, max(len(statistics.sizes), int(new_labels.max()) + 1))
        self.count(labels, again, workers)
        return again

    def _ranges(self, work: np.ndarray, workers: Workers) -> list[tuple[int, int]]:
        """Ranges of labels whose statistics are updated at the same time, with about equal sums of `work`."""
        n_tasks = min(workers.n_workers, 1 + int(work.sum()) // _ROWS_OF_TASK)
        if n_tasks == 1:  # small data have many such calls
            return [(0, len(work))]
        done = np.cumsum(work)
        ends = np.searchsorted(done, done[-1] * np.arange(1, n_tasks) / n_tasks, side="right")
        return list(pairwise([0, *ends.tolist(), len(work)]))

    # Densities

    def log_marginal(self, statistics: Any) -> float:
        """Log density of all rows given their labels, with the parameters integrated out: the sum of ``log_marginals``.

        Parameters
        ----------
        statistics : NamedTuple

        Returns
        -------
        log_density : float
            Of all rows together, in nats.
        """
        of_labels = self.log_marginals(selected(statistics, occupied(statistics)))
        return float(sum(of_labels.tolist())) + self._total_base()

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, K), the log predictive density of these rows given each cluster of `statistics`.

        Parameters
        ----------
        statistics : NamedTuple
        out : ndarray of shape (n_rows, K)
        workers : Workers
        """
        posterior = self.new_posterior(len(statistics.sizes), statistics, np.uint64(0))
        _refresh_all(self.data, statistics, posterior)
        shared = self.data, statistics, posterior
        self._add_by_ranges(lambda a, b, scores: _add_predictive(a, b, *shared, scores), out, workers)

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, K), the log density of these rows given each component.

        Parameters
        ----------
        components : object
        out : ndarray of shape (n_rows, K)
        workers : Workers
        """
        add = self.add_log_densities
        self._add_by_ranges(lambda a, b, scores: add(self.rows, a, b, components, scores), out, workers)

    def add_log_density_of_new(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, 1), the log density of these rows given a new component.

        Its parameters are integrated out, but for those that it shares with `components`.

        Parameters
        ----------
        components : object
        out : ndarray of shape (n_rows, 1)
        workers : Workers
        """
        self.add_log_predictive(self.no_statistics(1), out, workers)

    def add_log_broad(self, out: np.ndarray, workers: Workers) -> None:
        """Add to `out`, (n_rows, 1), the log density of these rows if they are outliers; by default that of a new row.

        Parameters
        ----------
        out : ndarray of shape (n_rows, 1)
        workers : Workers
        """
        self.add_log_predictive(self.no_statistics(1), out, workers)

    def _add_by_ranges(self, add: Callable[..., None], out: np.ndarray, workers: Workers) -> None:
        """Add log densities with ``add(first, stop, out[first:stop])`` for ranges of rows, and the rows' base."""
        workers.run(add, [(a, b, out[a:b]) for a, b in self._tasks(out.shape[1])])
        self._add_base(out)

    def _add_base(self, out: np.ndarray) -> None:
        """Add the rows' base to `out`, (n_rows, K)."""
        if self.log_base is not None:
            out += self.log_base[:, np.newaxis]

    def _total_base(self) -> float:
        """Sum of the rows' base."""
        return 0.0 if self.log_base is None else float(self.log_base.sum())

    def _tasks(self, n_labels: int) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        return split_range(self.n_rows, max(1, self.cells_of_task // max(1, n_labels)))


@njit(cache=True, nogil=True)
def _refresh_all(data, statistics, posterior):
    for label in range(len(statistics.sizes)):
        refresh_posterior(data, statistics, posterior, label)


@njit(cache=True, nogil=True)
def _add_predictive(first, stop, data, statistics, posterior, out):
    labels = np.arange(out.shape[1])
    for row in range(first, stop):
        add_predictive(data, statistics, posterior, row, labels, len(labels), out[row - first])
