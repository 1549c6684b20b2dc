"""Counts of a partition, draws from the posterior of a mixture, and the predictive densities that they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...emissions._codes import Table
from ...inference._draw_store import DrawStore
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...utils._conditions import MOST_COUNTED, Array, Real, Sizes
from ...utils._declared import holds
from ...utils._threads import Workers, split_range
from .predictive_kernels import add_given_counts, add_given_parameters, log_sums

_TOLERANCE = 1e-6  # of sums to one
_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities
_CELLS_OF_TASK = 20_000  # some milliseconds with a few tokens per row
_EXPECTED_COMPONENTS = 50  # to estimate the memory of a draw


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    categories=Array("int64", ("n_categories", "capacity"), low=0, high=MOST_COUNTED),
)
class MixtureCounts(NamedTuple):
    """Counts by label. Not every label below `capacity` has rows."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    categories: np.ndarray  # (n_categories, capacity) int64: numbers of tokens; the labels of a category are contiguous

    @property
    def capacity(self) -> int:
        """Number of labels that the arrays can hold."""
        return len(self.sizes)

    @property
    def occupied(self) -> np.ndarray:
        """Labels with rows, ascending."""
        return np.flatnonzero(self.sizes)

    def by_size(self) -> np.ndarray:
        """Labels with rows, the largest component first."""
        return self.occupied[np.argsort(-self.sizes[self.occupied], kind="stable")]

    @property
    def n_used(self) -> int:
        """Highest label with rows, plus one."""
        return int(self.occupied[-1]) + 1

    def with_capacity(self, n_labels: int) -> MixtureCounts:
        """Counts with a capacity of at least `n_labels`; this object itself if its capacity suffices."""
        if n_labels <= self.capacity:
            return self
        wider = no_counts(len(self.categories), 2 * n_labels)
        wider.sizes[: self.capacity] = self.sizes
        wider.categories[:, : self.capacity] = self.categories
        return wider

    def with_labels(self, new_labels: np.ndarray) -> MixtureCounts:
        """Counts after relabelling: label j, if it has rows, becomes ``new_labels[j]``."""
        occupied = self.occupied
        after = no_counts(len(self.categories), max(self.capacity, int(new_labels.max()) + 1))
        after.sizes[new_labels[occupied]] = self.sizes[occupied]
        after.categories[:, new_labels[occupied]] = self.categories[:, occupied]
        return after


def no_counts(n_categories: int, capacity: int) -> MixtureCounts:
    """Counts of no rows."""
    return MixtureCounts(np.zeros(capacity, np.int64), np.zeros((n_categories, capacity), np.int64))


@holds(
    sizes=Array("int64 float64", ("n_clusters",), above=0, high=MOST_COUNTED),
    categories=Array("int64 float64", ("n_categories", "n_clusters"), low=0, high=MOST_COUNTED),
    concentration=Real(above=0, high=MOST_CONCENTRATED),
)
class CountedDraw(NamedTuple):
    """A drawn partition of the rows, represented by the counts of its components; the rest is integrated out."""

    sizes: np.ndarray  # (K,) int64, all positive
    categories: np.ndarray  # (n_categories, K) int64
    concentration: float

    def log_terms(self, table: Table, prior: float, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K + 1); the last column is for a new component without rows."""
        shares = np.append(self.sizes, self.concentration)
        with_empty = np.concatenate((self.categories, np.zeros((len(self.categories), 1), np.int64)), axis=1)
        return _given_counts(table, np.log(shares) - np.log(shares.sum()), with_empty, prior, workers)


def counted(counts: MixtureCounts, concentration: float) -> CountedDraw:
    """The partition with these counts, the largest component first."""
    labels = counts.by_size()
    return CountedDraw(counts.sizes[labels], counts.categories[:, labels], concentration)


def _agree(draw: ParameterDraw, sizes: Sizes) -> str | None:
    sums = np.exp(draw.log_weights).sum()
    return None if abs(sums - 1.0) <= _TOLERANCE else "has weights that do not sum to one"


@holds(
    _agree,
    log_weights=Array("float64", ("n_clusters+1",), high=_TOLERANCE, infinite=True),
    log_components=Array("float64", ("n_categories", "n_clusters"), high=_TOLERANCE, infinite=True),
    concentration=Real(above=0, high=MOST_CONCENTRATED),
)
class ParameterDraw(NamedTuple):
    """Drawn weights and components."""

    log_weights: np.ndarray  # (K + 1,): of the components, and the sum of all others
    log_components: np.ndarray  # (n_categories, K)
    concentration: float

    def log_terms(self, table: Table, prior: float, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K + 1); the last column is for a new component without rows."""
        log_components = np.ascontiguousarray(self.log_components, np.float64)
        terms = _begin(table, self.log_weights[:-1])
        shared = table.indptr, table.indices, table.counts.astype(np.float64), log_components, terms
        workers.run(add_given_parameters, [(a, b, *shared) for a, b in _tasks(terms)])
        empty = _given_counts(table, self.log_weights[-1:], np.zeros((table.n_categories, 1), np.int64), prior, workers)
        return np.concatenate((terms, empty), axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Weights of the components, (K,), and category probabilities, (K, n_categories)."""
        return {"weights": np.exp(self.log_weights[:-1]), "components": np.exp(self.log_components.T)}


def log_predictive(
    table: Table, draws: Sequence[CountedDraw | ParameterDraw], prior: float, workers: Workers
) -> np.ndarray:
    """Log of the density of each row, averaged over the draws, (n_rows,)."""
    out = np.empty(table.n_rows)
    for start, stop in split_range(table.n_rows, _ROWS_AT_ONCE):
        rows = table._replace(indptr=table.indptr[start : stop + 1])
        by_draw = [_log_sums(draw.log_terms(rows, prior, workers), workers) for draw in draws]
        out[start:stop] = _log_sums(np.ascontiguousarray(np.transpose(by_draw)), workers)
    return out - np.log(len(draws))


def _log_sums(terms: np.ndarray, workers: Workers) -> np.ndarray:
    out = np.empty(len(terms))
    workers.run(log_sums, [(a, b, terms, out) for a, b in _tasks(terms)])
    return out


def _given_counts(
    table: Table, log_weights: np.ndarray, categories: np.ndarray, prior: float, workers: Workers
) -> np.ndarray:
    """Log of weight times density, (n_rows, K), given the counts of the components."""
    cells = categories + prior
    totals = np.add.reduceat(cells, table.column_start[:-1], axis=0)
    terms = _begin(table, log_weights)
    shared = table.column_of(), cells, np.log(cells), totals, np.log(totals), terms
    data = table.indptr, table.indices, table.counts.astype(np.float64)
    workers.run(add_given_counts, [(a, b, *data, *shared) for a, b in _tasks(terms)])
    return terms


def _begin(table: Table, log_weights: np.ndarray) -> np.ndarray:
    return np.repeat(log_weights[None], table.n_rows, axis=0)


def _tasks(terms: np.ndarray) -> list[tuple[int, int]]:
    return split_range(len(terms), max(1, _CELLS_OF_TASK // max(1, terms.shape[1])))


def draw_store(mixture: Any, table: Table) -> DrawStore:
    """A store whose number of complete draws per chain takes about `max_draws_bytes` for all chains."""
    draw_bytes = 4 * table.n_rows + 24 * table.n_categories * _EXPECTED_COMPONENTS
    return DrawStore.within(mixture.max_draws_bytes, draw_bytes * mixture.n_chains, mixture.thin)
