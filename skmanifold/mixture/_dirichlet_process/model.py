"""The posterior of a Dirichlet process mixture of any family of rows, with the updates that samplers use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ...emissions._statistics import by_size, occupied, with_capacity
from ...emissions.kernels import fill_scores
from ...metrics._partitions import compact_labels
from ...numerics.simd import prefetch
from ...numerics.special import fill_exp
from ...random._keys import Purpose, fold_in, subkey
from ...random._variates import fill_permutation, open_uniform
from ...utils._njit import njit, njit_part
from ...utils._threads import Workers, split_range
from .._memberships import ParameterDraw, draw_log_weights, log_partition_prior, random_labels, read_labels
from .split_merge import split_merge

_AHEAD = 8  # the label of a row is prefetched so many rows before its use
_ROWS_AT_ONCE = 64  # whose scores are stored


@njit(cache=True, nogil=True)
def least_slice(rows, labels, weights, key):
    """Minimum of the slices of the rows, u_i ~ U(0, weight of the component of row i)."""
    least = np.inf
    for row in rows:
        least = min(least, open_uniform(fold_in(key, row), 0) * weights[labels[row]])
    return least


@njit_part
def draw_from_logs(n, scores, scratch, uniform):
    """Draw an index below n with probability proportional to the exponential of its score; overwrites the scores."""
    largest = scores[0]
    for k in range(1, n):
        largest = max(largest, scores[k])
    for k in range(n):
        scores[k] -= largest
    fill_exp(n, scores, scratch[0], scratch[1])
    total = 0.0
    for k in range(n):
        total += scratch[1, k]
        scratch[0, k] = total
    at = uniform * total
    for k in range(n):
        if at < scratch[0, k]:
            return k
    return n - 1


@njit(cache=True, nogil=True)
def draw_labels(data, statistics, rows, components, weights, label_of, weight_of, place_of, labels, key, out):
    """Draw the component of each row given its slice, with the key of `least_slice`; the labels are in `out`, (n,).

    P(z = j) is proportional to the density of component j among those whose weight exceeds the slice, which come first:
    `weights` and `label_of`, (K,), are in decreasing order. `weight_of` and `place_of`, (n_sticks,), are by label.
    """
    n_components = len(weights)
    size = min(len(rows), _ROWS_AT_ONCE)
    scores, scratch = np.empty((size, n_components)), np.empty((2, n_components))
    n_above, current = np.empty(size, np.int64), np.empty(size, np.int64)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        _find_components_above(
            rows, first, first + len(some), weights, weight_of, place_of, labels, key, n_above, current
        )
        fill_scores(data, statistics, some, n_above, current, components, scores)
        _draw_from_scores(some, n_above, scores, label_of, key, scratch, out[first:])


# What does not depend on the family is in functions whose types are inferred once for all families.


@njit(cache=True, nogil=True)
def _find_components_above(rows, first, stop, weights, weight_of, place_of, labels, key, n_above, current):
    """Fill the number of components whose weight is above each row's slice, and the component that the row has."""
    for i in range(stop - first):
        if first + i + _AHEAD < len(rows):
            prefetch(labels, rows[first + i + _AHEAD])
        row = rows[first + i]
        level = open_uniform(fold_in(key, row), 0) * weight_of[labels[row]]
        n = 0
        while n < len(weights) and weights[n] > level:
            n += 1
        n_above[i], current[i] = n, place_of[labels[row]]


@njit(cache=True, nogil=True)
def _draw_from_scores(rows, n_above, scores, label_of, key, scratch, out):
    """Draw the label of each row among the first ``n_above[i]`` components; overwrites the scores."""
    for i in range(len(rows)):
        if n_above[i] <= 1:
            out[i] = label_of[0]
            continue
        u = open_uniform(fold_in(key, rows[i]), 1)
        out[i] = label_of[draw_from_logs(n_above[i], scores[i], scratch, u)]


Start = int | np.ndarray | Callable[[np.uint64], np.ndarray]  # initial labels; an int is the number of random ones

_LEAST_ROWS, _MOST_ROWS = 1024, 8192  # of a task: half a millisecond to some milliseconds with fifty columns
_LEAST_SLICES = 1 << 15  # of a task: some tenths of a millisecond
_TASKS_OF_WORKER = 4  # at least, if there are enough rows: the last tasks of the workers end at about the same time
_MIN_CAPACITY = 32
_ROWS_TOGETHER = 32  # in a minibatch, at most
_LEAST_GROUPS, _ROWS_OF_GROUP = 128, 2560  # in a minibatch, so that it is varied; few rows are in the cache anyway
AUTO_CLUSTERS = 100  # initial clusters of init="auto"


@dataclass(eq=False)
class DPModel:
    """Rows, with their family `clusters`, from a Dirichlet process mixture.

    A label is the index of a stick (`samplers/_latent/stick_breaking.py`). A concentration of None is learned, with a
    gamma prior (shape, rate). `init` has labels, their number if random, or is a function of a key. A `batch_size` of
    None is all.
    """

    clusters: Any
    concentration: float | None
    concentration_prior: tuple[float, float]
    init: Start
    batch_size: int | None
    workers: Workers

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.clusters.n_rows

    def init_concentration(self) -> float:
        """Initial concentration: the given one, or the mean of its prior, but at most the number of rows."""
        shape, rate = self.concentration_prior
        return min(shape / rate, float(self.n_rows)) if self.concentration is None else float(self.concentration)

    def init_labels(self, key: np.uint64) -> np.ndarray:
        """Initial labels, (n_rows,) int32."""
        if isinstance(self.init, np.ndarray):
            return self.init.astype(np.int32)
        if callable(self.init):
            return self.init(key)
        return random_labels(key, self.n_rows, self.init)

    def count(self, labels: np.ndarray) -> Any:
        """Statistics of each label."""
        statistics = self.clusters.no_statistics(max(_MIN_CAPACITY, int(labels.max()) + 1))
        self.clusters.given(statistics).count(labels, statistics, self.workers)
        return statistics

    def choose_batches(self, key: np.uint64, most_together: int = _ROWS_TOGETHER) -> list[np.ndarray]:
        """Divide the rows into random minibatches, each in the order of the rows, which is the order in memory.

        Large minibatches consist of random groups of up to `most_together` consecutive rows, which share cache lines.
        """
        if self.batch_size is None or self.batch_size >= self.n_rows:
            return [np.arange(self.n_rows)]
        together = max(1, min(self.batch_size // _LEAST_GROUPS, self.n_rows // _ROWS_OF_GROUP, most_together))
        order = np.empty(-(-self.n_rows // together), np.int64)
        fill_permutation(key, order)
        groups = [order[a:b] for a, b in split_range(len(order), -(-self.batch_size // together))]
        batches = [(together * np.sort(each)[:, np.newaxis] + np.arange(together)).ravel() for each in groups]
        return [rows[rows < self.n_rows] for rows in batches]

    def least_slice(self, rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, key: np.uint64) -> float:
        """Minimum of the slices of `rows`, u_i ~ U(0, weight of the label of row i)."""
        tasks = split_range(len(rows), max(_LEAST_SLICES, -(-len(rows) // self.workers.n_workers)))
        return min(self.workers.run(least_slice, [(rows[a:b], labels, weights, key) for a, b in tasks]))

    def draw_components(self, statistics: Any, components: np.ndarray, key: np.uint64) -> Any:
        """Draw the parameters of components given the statistics of their labels."""
        return self.clusters.given(statistics).draw_components(statistics, components, key, self.workers)

    def sample_labels(
        self,
        rows: np.ndarray,
        labels: np.ndarray,
        statistics: Any,
        parameters: Any,
        weights: np.ndarray,
        components: np.ndarray,
        weight_of: np.ndarray,
        key: np.uint64,
    ) -> Any:
        """Draw labels of `rows` given their slices, in place, with the key of `least_slice`; returns the statistics.

        `parameters`, `weights` and `components`, (K,), are those above the minimum slice, in order of decreasing
        weight; `weight_of`, (n_sticks,), has weights by label. The arrays of `statistics` are reused.
        """
        clusters = self.clusters.given(statistics)
        rows = clusters.sorted_rows(rows, labels)
        out = np.empty(len(rows), np.int32)
        place_of = np.zeros(len(weight_of), np.int64)
        place_of[components] = np.arange(len(components))
        shared = statistics, parameters, weights, components, weight_of, place_of, labels, key
        n_workers = self.workers.n_workers
        even = -(-len(rows) // (_TASKS_OF_WORKER * n_workers)) if n_workers > 1 else len(rows)
        tasks = split_range(len(rows), min(max(even, _LEAST_ROWS), _MOST_ROWS))
        self.workers.run(draw_labels, [(clusters.data, shared[0], rows[a:b], *shared[1:], out[a:b]) for a, b in tasks])
        statistics = with_capacity(statistics, int(components.max()) + 1)
        clusters.redraw_missing(rows, out, labels, statistics, parameters, place_of, key, self.workers)
        self.move(rows, out, labels, statistics)
        return statistics

    def move(self, rows: np.ndarray, new_labels: np.ndarray, labels: np.ndarray, statistics: Any) -> None:
        """Give rows new labels, in place, also in the statistics."""
        self.clusters.given(statistics).move(rows, new_labels, labels, statistics, self.workers)
        labels[rows] = new_labels

    def split_merge(
        self, labels: np.ndarray, statistics: Any, concentration: float, n_moves: int, n_scans: int, key: np.uint64
    ) -> Any:
        """Make split-merge moves of the partition, in place; returns the updated statistics.

        The moves depend only on the partition. The labels after them do not follow the order of the weights.
        """
        statistics = with_capacity(statistics, len(occupied(statistics)) + n_moves)
        split_merge(self.clusters.given(statistics), labels, statistics, concentration, n_moves, n_scans, key)
        return statistics

    def relabel(self, labels: np.ndarray, statistics: Any, new_labels: np.ndarray) -> tuple[np.ndarray, Any]:
        """Labels and statistics where label j, if it has rows, becomes ``new_labels[j]``."""
        labels = new_labels[labels]
        return labels, self.clusters.given(statistics).relabelled(labels, statistics, new_labels, self.workers)

    def redraw_hyperparameters(self, labels: np.ndarray, statistics: Any, key: np.uint64) -> Any:
        """Draw hyperparameters and rounded numbers given the partition; returns statistics that contain them."""
        return self.clusters.redraw_hyperparameters(labels, statistics, key, self.workers)

    def log_joint(self, statistics: Any, concentration: float) -> float:
        """Log p(data, partition, hyperparameters | concentration), with components and weights integrated out."""
        of_partition = log_partition_prior(statistics.sizes[occupied(statistics)], concentration)
        return of_partition + log_density_of(self.clusters, statistics)

    def draw(self, statistics: Any, concentration: float, key: np.uint64) -> ParameterDraw:
        """Draw weights and components given the partition, the largest component first.

        The weights and the total of all others have a Dirichlet distribution of the sizes and the concentration.
        """
        labels = by_size(statistics)
        components = self.draw_components(statistics, labels, subkey(key, Purpose.COMPONENTS))
        return ParameterDraw(draw_log_weights(statistics, labels, concentration, key), components, concentration)


def log_density_of(clusters: Any, statistics: Any) -> float:
    """Log density of the rows given a partition, and of the hyperparameters that are drawn."""
    return clusters.given(statistics).log_marginal(statistics) + clusters.log_hyperprior(statistics)


def initial_labels(init: Any, n_rows: int) -> int | np.ndarray:
    """Number of initial clusters, or the labels that the user passed, renumbered without gaps."""
    if isinstance(init, str):
        return min(AUTO_CLUSTERS, n_rows)
    if isinstance(init, Integral):
        return min(int(init), n_rows)
    return compact_labels(read_labels(init, n_rows, None, "init must be 'auto', a number of clusters, or"))
