"""The posterior of a Dirichlet-process mixture of categories, with the updates that samplers use."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from ...emissions._codes import Table
from ...metrics._partitions import compact_labels
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._log_gamma_ziggurat import gamma_tables
from ...random._variates import log_gamma_variate
from ...utils._threads import Workers, split_by_task, split_range
from .._labels import random_labels, read_labels
from .gibbs_kernels import count_rows, draw_columns, draw_labels, least_slice, move_rows, shuffle_rows
from .posterior_draws import MixtureCounts, ParameterDraw, no_counts
from .split_merge import split_merge
from .split_merge_kernels import log_marginal_of_counts

_ROWS_OF_TASK = 2048  # about a millisecond with fifty columns
_CELLS_OF_TASK = 100_000
_MIN_CAPACITY = 32
_AUTO_CLUSTERS = 100  # initial clusters of init="auto"
_MAX_TABLE_BYTES = 4 << 30  # of a table of category probabilities


class DPModel:
    """Rows of categories from a Dirichlet-process mixture.

    A component has a distribution over the categories of each column, with the prior Dirichlet(`category_prior`). A
    label is the index of a stick in the stick-breaking construction (`samplers/_latent/stick_breaking.py`).

    Parameters
    ----------
    table : Table
    category_prior : float
    concentration : float or None
        None learns it, with a gamma prior.
    concentration_prior : (float, float)
        Shape and rate of the gamma prior.
    init : int or ndarray of shape (n_rows,)
        Initial labels, or the number of random initial labels.
    batch_size : int or None
        Number of rows of a minibatch; None uses all rows.
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
        """Initial concentration: the given one, or the mean of its prior."""
        shape, rate = self.concentration_prior
        return shape / rate if self.concentration is None else float(self.concentration)

    def init_labels(self, key: np.uint64) -> np.ndarray:
        """Initial labels, (n_rows,) int32."""
        if isinstance(self.init, np.ndarray):
            return self.init.astype(np.int32)
        return random_labels(key, self.n_rows, self.init)

    def count(self, labels: np.ndarray) -> MixtureCounts:
        """Numbers of rows and tokens of each label."""
        counts = no_counts(self.table.n_categories, max(_MIN_CAPACITY, int(labels.max()) + 1))
        count_rows(*self._rows, labels, *counts)
        return counts

    def choose_batches(self, key: np.uint64) -> list[np.ndarray]:
        """Divide the rows into random minibatches; each row is in one of them."""
        if self.batch_size is None or self.batch_size >= self.n_rows:
            return [np.arange(self.n_rows)]
        order = np.empty(self.n_rows, np.int64)
        shuffle_rows(key, order)
        return [order[start:stop] for start, stop in split_range(self.n_rows, self.batch_size)]

    def least_slice(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, key: np.uint64) -> float:
        """Minimum of the slices of `rows`, u_i ~ U(0, weight of the label of row i)."""
        return least_slice(rows, labels, weights, key)

    def draw_components(self, counts: MixtureCounts, components: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw log probabilities of the categories, (n_categories, K), given the counts of the labels `components`."""
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
        """Draw new labels for `rows` given their slices, in place; returns the updated counts.

        Parameters
        ----------
        rows : (n,) int64
        labels : (n_rows,) int32
        counts : MixtureCounts
            Counts of all rows; its arrays are reused.
        log_table : (n_categories, K)
            Log category probabilities of the components whose weight is above the minimum slice.
        weights : (K,)
            Weights of these components, decreasing.
        components : (K,) int64
            Labels of these components.
        weight_of : (n_sticks,)
            Weights by label.
        key : uint64
            The key that was passed to `least_slice`.
        """
        out = np.empty(len(rows), np.int32)
        shared = *self._rows, log_table, weights, components, weight_of, labels, key
        pieces = split_range(len(rows), _ROWS_OF_TASK)
        self.workers.run(draw_labels, [(rows[a:b], *shared, out[a:b]) for a, b in pieces])
        counts = counts.with_capacity(int(components.max()) + 1)
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
        """Make split-merge moves of the partition, in place; returns the updated counts.

        The moves depend only on the partition. The labels after them do not follow the order of the weights.
        """
        counts = counts.with_capacity(len(counts.occupied) + n_moves)
        split_merge(self.table, labels, counts, concentration, self.category_prior, n_moves, n_scans, key)
        return counts

    def log_joint(self, counts: MixtureCounts, concentration: float) -> float:
        """Log p(data, partition | concentration), with components and weights integrated out."""
        start, prior = self.table.column_start, float(self.category_prior)
        occupied = counts.occupied
        of_partition = len(occupied) * math.log(concentration) + gammaln(counts.sizes[occupied]).sum()
        of_partition += gammaln(concentration) - gammaln(concentration + self.n_rows)
        columns = np.ascontiguousarray(counts.categories[:, occupied].T)
        return float(of_partition) + sum(log_marginal_of_counts(column, start, prior) for column in columns)

    def draw(self, counts: MixtureCounts, concentration: float, key: np.uint64) -> ParameterDraw:
        """Draw weights and components given the partition, the largest component first.

        The weights of the components and the total weight of all others are Dirichlet distributed. The parameters are
        the sizes and the concentration.
        """
        labels = counts.by_size()
        shapes = np.append(counts.sizes[labels], concentration)
        keys = fold_in_each(subkey(key, Purpose.WEIGHTS), np.append(labels, counts.capacity))
        log_weights = np.array([log_gamma_variate(*cell) for cell in zip(keys, shapes, strict=True)])
        log_components = self.draw_components(counts, labels, subkey(key, Purpose.COMPONENTS))
        return ParameterDraw(log_weights - logsumexp(log_weights), log_components, concentration)


def initial_labels(init: Any, n_rows: int) -> int | np.ndarray:
    """Number of random initial labels, or the labels that the user passed, renumbered without gaps."""
    if isinstance(init, str):
        return min(_AUTO_CLUSTERS, n_rows)
    if isinstance(init, Integral):
        return min(int(init), n_rows)
    return compact_labels(read_labels(init, n_rows, None, "init must be 'auto', a number of clusters, or"))


def build_model(mixture: Any, table: Table, init: int | np.ndarray, workers: Workers) -> DPModel:
    """Check the settings of the estimator and return the model of a table."""
    prior = np.asarray(mixture.concentration_prior)
    if prior.shape != (2,) or prior.dtype.kind not in "fiu" or not (np.isfinite(prior).all() and prior.min() > 0):
        raise ValueError(
            "concentration_prior must be two positive numbers, the shape and the rate of a gamma distribution; got "
            f"{mixture.concentration_prior!r}."
        )
    n_components = (mixture.concentration or 0.0) * math.log(1e3 * table.n_rows)  # expected above the minimum slice
    if 8 * n_components * table.n_categories > _MAX_TABLE_BYTES:
        raise ValueError(
            f"concentration={mixture.concentration:g} would need tables of {n_components:.1g} components, more than "
            f"{_MAX_TABLE_BYTES / 2**30:.0f} GiB: use a smaller concentration."
        )
    return DPModel(
        table,
        mixture._prior_of_categories(table),
        mixture.concentration,
        (float(prior[0]), float(prior[1])),
        init=init,
        batch_size=_batch_size(table) if mixture.batch_size == "auto" else mixture.batch_size,
        workers=workers,
    )


def _batch_size(table: Table) -> int:
    """So many rows that labelling them takes four times as long as drawing the components; at least 1% of all rows."""
    tokens_of_row = len(table.indices) / table.n_rows
    return max(int(240 * table.n_categories / (tokens_of_row + 12)), table.n_rows // 100, 1)
