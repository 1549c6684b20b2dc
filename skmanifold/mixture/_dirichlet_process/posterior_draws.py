"""Draws from the posterior of a mixture: partitions or parameters, and the predictive densities that they give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from ...emissions._family import Family
from ...emissions._statistics import by_size, held_statistics, selected
from ...inference._draw_store import DrawStore
from ...numerics.vector_math import fill_exp
from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import log_gamma_variate
from ...samplers._latent.stick_breaking import MOST_CONCENTRATED
from ...utils._conditions import Array, Real, Sizes
from ...utils._declared import holds
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._imputation.imputation import Memberships

_TOLERANCE = 1e-6  # of sums to one
_ROWS_AT_ONCE = 1 << 16  # tens of megabytes of log densities
_CELLS_OF_TASK = 20_000  # some milliseconds with a few tokens per row
_EXPECTED_COMPONENTS = 50  # to estimate the memory of a draw


def _sizes_agree(draw: PartitionDraw, sizes: Sizes) -> str | None:
    return None if np.min(draw.statistics.sizes) > 0 else "has a cluster without rows"


@holds(
    _sizes_agree,
    statistics=held_statistics,
    concentration=Real(above=0, high=MOST_CONCENTRATED),
)
class PartitionDraw(NamedTuple):
    """A drawn partition of the rows, represented by the statistics of its clusters; the rest is integrated out."""

    statistics: Any  # of K clusters with rows
    concentration: float

    def log_terms(self, clusters: Family, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K + 1); the last column is for a new component without rows."""
        shares = np.append(self.statistics.sizes, self.concentration)
        terms = _begin(clusters, np.log(shares) - np.log(shares.sum()))
        clusters.add_log_predictive(with_new(self.statistics), terms, workers)
        return terms

    def expected(self, clusters: Family, workers: Workers) -> Memberships:
        """Memberships of the rows, and expected parameters of the components and of a new one."""
        shares = softmax(self.log_terms(clusters, workers), axis=1)
        return shares, clusters.cell_attributes(with_new(self.statistics))

    def drawn(self, clusters: Family, key: np.uint64, workers: Workers) -> Memberships:
        """Memberships of the rows, and drawn parameters of the components and of a new one."""
        draw = draw_parameters(clusters, self.statistics, self.concentration, key, workers)
        shares = softmax(draw.log_terms(clusters, workers), axis=1)
        labels, statistics = np.arange(shares.shape[1]), with_new(self.statistics)
        components = clusters.draw_components(statistics, labels, subkey(key, Purpose.COMPONENTS), workers)
        return shares, clusters.drawn_attributes(components)


def with_new(statistics: Any) -> Any:
    """Statistics of all K clusters of a drawn partition, and of a new one without rows."""
    return selected(statistics, np.arange(len(statistics.sizes) + 1))


def partition_draw(statistics: Any, concentration: float) -> PartitionDraw:
    """The partition with these statistics, the largest component first."""
    return PartitionDraw(selected(statistics, by_size(statistics)), concentration)


def _agree(draw: ParameterDraw, sizes: Sizes) -> str | None:
    sums = np.exp(draw.log_weights).sum()
    return None if abs(sums - 1.0) <= _TOLERANCE else "has weights that do not sum to one"


@holds(
    _agree,
    log_weights=Array("float64", ("n_clusters+1",), high=_TOLERANCE, infinite=True),
    components=Array("float64", ("n_categories", "n_clusters"), high=_TOLERANCE, infinite=True),
    concentration=Real(above=0, high=MOST_CONCENTRATED),
)
class ParameterDraw(NamedTuple):
    """Drawn weights and components; those of chains are log probabilities of categories."""

    log_weights: np.ndarray  # (K + 1,): of the components, and the sum of all others
    components: Any  # parameters of K components
    concentration: float

    def log_terms(self, clusters: Family, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K + 1); the last column is for a new component without rows."""
        terms = _begin(clusters, self.log_weights[:-1])
        clusters.add_densities_of_rows(self.components, terms, workers)
        empty = _begin(clusters, self.log_weights[-1:])
        clusters.add_log_density_of_new(self.components, empty, workers)
        return np.concatenate((terms, empty), axis=1)

    def expected(self, clusters: Family, workers: Workers) -> Memberships:
        """Memberships of the rows, and the parameters of the components and expected ones of a new component."""
        means = clusters.cell_attributes(clusters.no_statistics(1))["components_"]
        return self._memberships(clusters, np.log(np.hstack(means)).reshape(-1, 1), workers)

    def drawn(self, clusters: Family, key: np.uint64, workers: Workers) -> Memberships:
        """Memberships of the rows, and the parameters of the components and drawn ones of a new component."""
        labels = np.zeros(1, np.int64)
        new = clusters.draw_components(clusters.no_statistics(1), labels, subkey(key, Purpose.COMPONENTS), workers)
        return self._memberships(clusters, new, workers)

    def _memberships(self, clusters: Family, new: np.ndarray, workers: Workers) -> Memberships:
        shares = softmax(self.log_terms(clusters, workers), axis=1)
        return shares, clusters.drawn_attributes(np.append(self.components, new, axis=1))


def draw_parameters(
    clusters: Family, statistics: Any, concentration: float, key: np.uint64, workers: Workers
) -> ParameterDraw:
    """Draw weights and components given the partition, the largest component first.

    The weights of the components and the total weight of all others are Dirichlet distributed. The parameters are the
    sizes and the concentration.
    """
    labels = by_size(statistics)
    shapes = np.append(statistics.sizes[labels], concentration)
    keys = fold_in_each(subkey(key, Purpose.WEIGHTS), np.append(labels, len(statistics.sizes)))
    log_weights = np.array([log_gamma_variate(*cell) for cell in zip(keys, shapes, strict=True)])
    components = clusters.draw_components(statistics, labels, subkey(key, Purpose.COMPONENTS), workers)
    return ParameterDraw(log_weights - logsumexp(log_weights), components, concentration)


def arrays_of(draw: ParameterDraw, clusters: Any) -> dict[str, np.ndarray]:
    """Weights of the components, (K,), and their parameters as arrays."""
    return {"weights": np.exp(draw.log_weights[:-1]), **clusters.arrays_of(draw.components)}


def log_predictive(clusters: Any, draws: Sequence[PartitionDraw | ParameterDraw], workers: Workers) -> np.ndarray:
    """Log of the density of each row, averaged over the draws, (n_rows,)."""
    out = np.empty(clusters.n_rows)
    for start, stop in split_range(clusters.n_rows, _ROWS_AT_ONCE):
        rows = clusters.part(start, stop)
        by_draw = [_log_sums(draw.log_terms(rows, workers), workers) for draw in draws]
        out[start:stop] = _log_sums(np.ascontiguousarray(np.transpose(by_draw)), workers)
    return out - np.log(len(draws))


def _log_sums(terms: np.ndarray, workers: Workers) -> np.ndarray:
    out = np.empty(len(terms))
    tasks = split_range(len(terms), max(1, _CELLS_OF_TASK // max(1, terms.shape[1])))
    workers.run(_fill_log_sums, [(a, b, terms, out) for a, b in tasks])
    return out


def _begin(clusters: Family, log_weights: np.ndarray) -> np.ndarray:
    return np.repeat(log_weights[None], clusters.n_rows, axis=0)


def draw_store(mixture: Any, clusters: Family) -> DrawStore:
    """A store whose number of complete draws per chain takes about `max_draws_bytes` for all chains."""
    draw_bytes = 4 * clusters.n_rows + clusters.draw_bytes(_EXPECTED_COMPONENTS)
    return DrawStore.within(mixture.max_draws_bytes, draw_bytes * mixture.n_chains, mixture.thin)


@njit(cache=True, nogil=True)
def _fill_log_sums(first, stop, terms, out):
    """Log of the sum of each row's exponentials."""
    n = terms.shape[1]
    scratch = np.empty((2, n))
    for row in range(first, stop):
        largest = -np.inf
        for k in range(n):
            largest = max(largest, terms[row, k])
        for k in range(n):
            scratch[0, k] = terms[row, k] - largest
        fill_exp(n, scratch[0], scratch[1], scratch[0])
        total = 0.0
        for k in range(n):
            total += scratch[0, k]
        out[row] = largest + math.log(total)
