"""Partitions that a mixture of affine subspaces may begin with, by K-flats."""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import Purpose, subkey, uniform
from .k_flats_kernels import (
    claim_rows,
    deal_out,
    fit_axes,
    nearest_rows,
    pooled_noise,
    settle_dimensions,
    spectra_loss,
)

N_ITERATIONS = 50  # most converge within ten
N_TRIES = 20
_MAX_RESEEDED_ROUNDS = 10  # after these a cluster that lost its rows stays empty
_LEAST_ROWS = 4  # for each axis of a flat whose dimension is chosen
_SAME_LOSS = 1e-9  # relative: rounding must not choose among tries that end alike
_LEAST_NOISE = 1e-10  # beside a mean variance of 1: rows that lie on flats but for rounding
_LEAST_SPREAD = 1e-7  # of the largest singular value: below, a direction is rounding


def k_flats(
    X,
    n_components: int,
    dimensions,
    key: np.uint64,
    n_iter: int = N_ITERATIONS,
    n_tries: int = N_TRIES,
    max_dimension: int | None = None,
) -> tuple[np.ndarray, float]:
    """Partition rows by affine flats, the best of several tries.

    The loss is that of a mixture with hard labels: flat k has weight n_k / n, and on it rows spread with variances of
    their own along its axes and with one variance, the same for all flats, across. Half of log(n) for each parameter
    is added, so that flats of different dimensions compare. Distances alone would favour large flats.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    n_components : int
    dimensions : array-like of shape (n_components,), int or None
        None chooses them at every refit, by the loss.
    key : np.uint64
    n_iter : int
        Of each try, at most.
    n_tries : int
        From flats through random rows and their neighbours, of dimensions 1, 2, 4, ... in turn if they are to be
        chosen.
    max_dimension : int or None
        Of flats whose dimension is chosen. It is also less than that of the data, and no more than lets each axis of
        each flat have four rows: with fewer, a flat fits what is dealt to it and no row moves.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        Some of 0, ..., n_components - 1. There may be fewer clusters if there are few distinct rows.
    loss : float
        For a row, but for a constant that belongs to X and not to its partition.
    """
    flats = Flats(X, n_components, dimensions, max_dimension)
    return flats.best([flats.seed(key, n_try) for n_try in range(n_tries)], n_iter)


class Flats:
    """The loss of K-flats on some rows, and its descent from partitions."""

    def __init__(self, X, n_components: int, dimensions=None, max_dimension=None):
        self.rows = coordinates(X)
        self.n_components = n_components
        width = self.rows.shape[1]
        self.inferred = dimensions is None
        if self.inferred:
            most = min(max(1, len(self.rows) // (_LEAST_ROWS * n_components)), width - 1)
            most = most if max_dimension is None else min(most, max_dimension)
            self.dimensions = np.zeros(n_components, np.int64)
        else:
            self.dimensions = np.minimum(np.broadcast_to(np.asarray(dimensions, np.int64), n_components), width)
            most = int(self.dimensions.max())
        self.max_dimension = min(most, width)

    def seed(self, key: np.uint64, n_try: int) -> np.ndarray:
        """A partition by flats through random rows and their neighbours."""
        dimensions = self.dimensions
        if self.inferred:
            n_sizes = max(1, int(self.max_dimension).bit_length())
            dimensions = np.full(self.n_components, min(1 << n_try % n_sizes, self.rows.shape[1]))
        return seed_flats(self.rows, subkey(key, Purpose.START, n_try), dimensions)

    def refine(self, labels, n_iter: int) -> tuple[np.ndarray, float]:
        """The partition to which Lloyd's iterations lead from `labels`, and its loss for a row."""
        (n, width), n_flats = self.rows.shape, self.n_components
        labels, dimensions = np.array(labels, np.int64), self.dimensions.copy()
        sizes, means, spectra = np.empty(n_flats), np.zeros((n_flats, width)), np.zeros((n_flats, width))
        axes, costs = np.zeros((n_flats, self.max_dimension, width)), np.empty(n)
        for iteration in range(n_iter + 1):
            loss = 0.0
            for k in range(n_flats):
                members = np.flatnonzero(labels == k)
                sizes[k] = len(members)
                if len(members) == 0:
                    spectra[k] = 0.0
                    continue
                means[k], axes[k], spectra[k] = fit_axes(self.rows, members, self.max_dimension)
                loss -= sizes[k] * math.log(sizes[k] / n)
            noise, of_spectra = self._settle(sizes, spectra, dimensions)
            loss += of_spectra
            if iteration == n_iter:
                break
            n_moved = deal_out(self.rows, sizes, means, axes, spectra, dimensions, noise, labels, costs)
            filled = iteration < _MAX_RESEEDED_ROUNDS and _fill_empty(self.rows, dimensions, labels, costs)
            if n_moved == 0 and not filled:
                break
        return labels, loss / n

    def _settle(self, sizes, spectra, dimensions) -> tuple[float, float]:
        """The flats' noise and the loss of their spectra; `dimensions` are chosen anew if they are not given."""
        log_n = math.log(len(self.rows))
        if self.inferred:
            return settle_dimensions(sizes, spectra, self.max_dimension, _LEAST_NOISE, log_n, dimensions)
        noise = pooled_noise(sizes, spectra, dimensions, _LEAST_NOISE)
        return noise, spectra_loss(sizes, spectra, dimensions, noise, log_n)

    def best(self, starts, n_iter: int) -> tuple[np.ndarray, float]:
        """The partition of least loss to which `starts` lead, the first of equals."""
        refined = [self.refine(labels, n_iter) for labels in starts]
        least = min(loss for _, loss in refined)
        return next(result for result in refined if result[1] <= least + _SAME_LOSS * (1.0 + abs(least)))


def seed_flats(rows, key: np.uint64, dimensions) -> np.ndarray:
    """A partition by flats through single rows and their neighbours; each next row is one far from those before."""
    n = len(rows)
    labels, gaps = np.zeros(n, np.int64), np.full(n, np.inf)
    for k, dimension in enumerate(dimensions):
        place, rising = uniform(key, k), np.cumsum(gaps)
        chosen = int(place * n)
        if k > 0 and rising[-1] > 0.0:
            chosen = min(int(np.searchsorted(rising, place * rising[-1], side="right")), n - 1)
        mean, axes, _ = fit_axes(rows, nearest_rows(rows, chosen, min(2 * dimension + 1, n)), dimension)
        claim_rows(rows, mean, axes, k, labels, gaps)
    return labels


def _fill_empty(rows, dimensions, labels, costs) -> bool:
    """Give each flat without rows the worst explained row and its neighbours; returns whether there was one."""
    empty = np.flatnonzero(np.bincount(labels, minlength=len(dimensions)) == 0)
    for n_filled, k in enumerate(empty):
        worst = costs.argmax()
        if costs[worst] == -np.inf:  # all have been given away
            return n_filled > 0
        near = nearest_rows(rows, worst, max(1, min(2 * dimensions[k] + 1, len(rows) // len(dimensions))))
        labels[near], costs[near] = k, -np.inf
    return len(empty) > 0


def coordinates(X) -> np.ndarray:
    """Rows about their mean, in the axes of their own span and with a mean variance of 1.

    Directions in which rows do not differ say nothing, and would pull the noise of flats towards zero.
    """
    centred = np.asarray(X, float) - np.mean(X, axis=0)
    scale = np.abs(centred).max(initial=0.0)
    if scale == 0.0:
        return np.zeros((len(centred), 1))
    left, sizes, _ = np.linalg.svd(centred / scale, full_matrices=False)
    kept = sizes > _LEAST_SPREAD * sizes[0]
    spread = np.sqrt(np.mean(np.square(sizes[kept])) / len(centred))
    return np.ascontiguousarray(left[:, kept] * (sizes[kept] / spread))
