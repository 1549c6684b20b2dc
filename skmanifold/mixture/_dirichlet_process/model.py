"""The posterior of a Dirichlet-process mixture of categories: what a sampler asks of the table of data."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, logsumexp

from ...random._keys import Purpose, fold_in_each, subkey
from ...random._log_gamma_ziggurat import gamma_tables
from ...random._variates import log_gamma_variate
from ...utils._threads import Workers, split_by_task, split_range
from .category_table import Table
from .cluster_counts import MixtureCounts, no_counts
from .component_kernels import draw_columns
from .gibbs_kernels import count_rows, draw_labels, least_slice, move_rows, shuffle_rows
from .posterior_draws import ParameterDraw
from .split_merge import split_merge
from .split_merge_kernels import log_marginal_of_counts

_ROWS_OF_TASK = 2048  # of a table of fifty columns, about a millisecond
_CELLS_OF_TASK = 100_000
_MIN_CAPACITY = 32


class DPModel:
    """Rows of categories, each of one component of a Dirichlet-process mixture.

    A component has a distribution over the categories of each column, Dirichlet(`category_prior`) before any row. A
    label is the number of a stick (`samplers._sticks`).

    Parameters
    ----------
    table : Table
    category_prior : float
    concentration : float or None
        None: learned, with a gamma prior.
    concentration_prior : (float, float)
        Shape and rate of that gamma.
    init : int or ndarray of shape (n_rows,)
        Labels to begin with, or the number of labels to deal out at random.
    batch_size : int or None
        Rows of a minibatch; None is all.
    workers : Workers
    """

    def __init__(
        self,
        table: Table,
        category_prior: float,
        concentration: float | None,
        concentration_prior: tuple[float, float],
        *,
        init: int | np.ndarray,
        batch_size: int | None,
        workers: Workers,
    ):
        self.table = table
        self.category_prior = category_prior
        self.concentration = concentration
        self.concentration_prior = concentration_prior
        self.init = init
        self.batch_size = batch_size
        self.workers = workers
        self._rows = (table.indptr, table.indices, table.counts)
        self._gammas = gamma_tables(float(category_prior))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    def init_concentration(self) -> float:
        """The concentration, or where it is learned its prior's mean."""
        shape, rate = self.concentration_prior
        return shape / rate if self.concentration is None else float(self.concentration)

    def init_labels(self, key: np.uint64) -> np.ndarray:
        """Labels to begin with, (n_rows,) int32."""
        if isinstance(self.init, np.ndarray):
            return self.init.astype(np.int32)
        return (fold_in_each(key, np.arange(self.n_rows)) % np.uint64(self.init)).astype(np.int32)

    def count(self, labels: np.ndarray) -> MixtureCounts:
        """Rows and tokens of each label."""
        counts = no_counts(self.table.n_categories, max(_MIN_CAPACITY, int(labels.max()) + 1))
        count_rows(*self._rows, labels, *counts)
        return counts

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Every row once, in minibatches at random."""
        if self.batch_size is None or self.batch_size >= self.n_rows:
            return [np.arange(self.n_rows)]
        order = np.empty(self.n_rows, np.int64)
        shuffle_rows(key, order)
        return [order[start:stop] for start, stop in split_range(self.n_rows, self.batch_size)]

    def least_slice(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, key: np.uint64) -> float:
        """The least of the slices of `rows`, u_i ~ U(0, weight of its label)."""
        return least_slice(rows, labels, weights, key)

    def draw_components(self, counts: MixtureCounts, components: np.ndarray, key: np.uint64) -> np.ndarray:
        """Log probabilities of categories, (n_categories, K): drawn given the counts of these labels."""
        start = self.table.column_start
        out = np.empty((self.table.n_categories, len(components)))
        arguments = start, counts.categories, components, float(self.category_prior), *self._gammas, key, out
        tasks = split_by_task(start[:-1] * len(components) // _CELLS_OF_TASK)
        self.workers.run(draw_columns, [(first, stop, *arguments) for first, stop in tasks])
        return out

    def sample_labels(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        counts: MixtureCounts,
        log_table: np.ndarray,
        weights: np.ndarray,
        components: np.ndarray,
        weight_of: np.ndarray,
        key: np.uint64,
    ) -> MixtureCounts:
        """Redraw the labels of `rows`, in place, given their slices; returns the counts that belong to them.

        Parameters
        ----------
        rows : (n,) int64
        labels : (n_rows,) int32
        counts : MixtureCounts
            Of all rows; its arrays are reused.
        log_table : (n_categories, K)
            Log probabilities of the components above the least slice.
        weights : (K,)
            Their weights, falling.
        components : (K,) int64
            Their labels.
        weight_of : (n_sticks,)
            Weights by label.
        key : uint64
            As given to `least_slice`.
        """
        out = np.empty(len(rows), np.int32)
        shared = *self._rows, log_table, weights, components, weight_of, labels, key
        pieces = split_range(len(rows), _ROWS_OF_TASK)
        self.workers.run(draw_labels, [(rows[a:b], *shared, out[a:b]) for a, b in pieces])
        counts = counts.with_room(int(components.max()) + 1)
        move_rows(rows, out, *self._rows, labels, *counts)
        return counts

    def split_merge(
        self,
        labels: np.ndarray,
        counts: MixtureCounts,
        concentration: float,
        n_moves: int,
        n_scans: int,
        key: np.uint64,
    ) -> MixtureCounts:
        """Propose to split components and to merge them, in place; returns the counts that belong to the labels.

        Only the partition is looked at: what labels the components have afterwards says nothing of their weights.
        """
        counts = counts.with_room(len(counts.occupied) + n_moves)
        split_merge(self.table, labels, counts, concentration, self.category_prior, n_moves, n_scans, key)
        return counts

    def log_joint(self, counts: MixtureCounts, concentration: float) -> float:
        """Log p(data, partition | concentration), components and weights integrated out."""
        start, prior = self.table.column_start, float(self.category_prior)
        occupied = counts.occupied
        of_partition = len(occupied) * math.log(concentration) + gammaln(counts.sizes[occupied]).sum()
        of_partition += gammaln(concentration) - gammaln(concentration + self.n_rows)
        columns = np.ascontiguousarray(counts.categories[:, occupied].T)
        return float(of_partition) + sum(log_marginal_of_counts(column, start, prior) for column in columns)

    def draw(self, counts: MixtureCounts, concentration: float, key: np.uint64) -> ParameterDraw:
        """Weights and components given the partition, the largest component first.

        The weights, and that of all components without rows together, are Dirichlet with the sizes and the
        concentration as parameters.
        """
        labels = counts.by_size()
        shapes = np.append(counts.sizes[labels], concentration)
        keys = fold_in_each(subkey(key, Purpose.STICKS), np.append(labels, counts.capacity))
        log_weights = np.array([log_gamma_variate(*cell) for cell in zip(keys, shapes, strict=True)])
        log_components = self.draw_components(counts, labels, subkey(key, Purpose.COMPONENTS))
        return ParameterDraw(log_weights - logsumexp(log_weights), log_components, concentration)
