"""Partitions that a mixture of affine subspaces may begin with, by K-flats."""

from __future__ import annotations

import numpy as np

from ..utils._random import Purpose, subkey
from ._subspace_start_kernels import refine_flats, seed_flats

N_ITERATIONS = 50  # most converge within ten
N_TRIES = 20
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
        labels = np.zeros(len(self.rows), np.int64)
        dimensions = self.dimensions
        if self.inferred:
            n_sizes = max(1, int(self.max_dimension).bit_length())
            dimensions = np.full(self.n_components, min(1 << n_try % n_sizes, self.rows.shape[1]))
        seed_flats(self.rows, subkey(key, Purpose.START, n_try), dimensions, labels)
        return labels

    def refine(self, labels, n_iter: int) -> tuple[np.ndarray, float]:
        """The partition to which `labels` lead, and its loss for a row."""
        labels = np.array(labels, np.int64)
        dimensions = self.dimensions.copy()
        loss = refine_flats(self.rows, labels, dimensions, self.inferred, self.max_dimension, _LEAST_NOISE, n_iter)
        return labels, loss / len(labels)

    def best(self, starts, n_iter: int) -> tuple[np.ndarray, float]:
        """The partition of least loss to which `starts` lead, the first of equals."""
        refined = [self.refine(labels, n_iter) for labels in starts]
        least = min(loss for _, loss in refined)
        return next(result for result in refined if result[1] <= least + _SAME_LOSS * (1.0 + abs(least)))


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
