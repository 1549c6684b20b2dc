"""Families of real numbers whose log densities and sums are kernels of one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics.block_sums import BlockSums
from ..utils._njit import njit
from ._family import Family
from ._protocols import Parameters
from ._seeds import cluster_rows
from .kernels import count_row, fill_scores


class CompiledFamily(Family):
    """Base class of conjugate families of real numbers that are written as six kernels, for all mixtures.

    A subclass has the methods ``prepare``, ``no_statistics``, ``new_posterior``, ``mode``, ``draw``,
    ``log_marginals``, ``attributes`` and ``sample``, and registers the kernels of `skmanifold.emissions.kernels` for
    the type that ``prepare`` returns. Log densities, sums, predictive densities, seeds and new rows follow from these.

    Attributes
    ----------
    n_components : int
        Number of components K.
    n_features : int
        Number of features.
    """

    def add_log_densities(self, rows: Any, first: int, stop: int, parameters: Parameters, out: np.ndarray) -> None:
        """Add the log densities of rows given each component."""
        scores, n = np.empty(out.shape), stop - first
        all_above, nothing = np.full(n, out.shape[1]), np.zeros(n, np.int64)
        _fill_scores(self.prepare(rows), first, stop, all_above, nothing, parameters, scores)
        out += scores

    def sum_labels(self, rows: Any, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Statistics of rows given their labels."""
        return self._sum(_count_labelled, rows, first, stop, first_block, labels)

    def sum_shares(self, rows: Any, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Statistics of rows given their membership probabilities."""
        return self._sum(_count_shared, rows, first, stop, first_block, shares)

    def _sum(self, kernel, rows, first, stop, first_block, memberships) -> BlockSums:
        data, kind = self.prepare(rows), type(self.no_statistics(0))

        def add(start, end, of_block, *arrays):
            kernel(data, start, end, of_block, kind(*arrays))

        return self._sum_each_block(first, stop, first_block, memberships, add)

    def seed_weighted_labels(self, rows: Any, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means, with features scaled to equal ranges."""
        return cluster_rows(rows.values, self.n_components, key, row_weights)


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
