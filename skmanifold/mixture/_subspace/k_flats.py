"""K-flats: initial partitions for a mixture of affine subspaces."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.symmetric_eigen import gram_of_columns, gram_of_rows, symmetric_eigen
from ...random._keys import Purpose, subkey, uniform
from .k_flats_kernels import (
    assign_nearer_rows,
    assign_rows,
    centre_rows,
    choose_dimensions_and_noise,
    nearest_rows,
    pooled_noise,
    spectra_loss,
    write_axes,
)

N_ITERATIONS = 50  # most runs converge within ten iterations
N_TRIES = 20
_MAX_RESEEDED_ROUNDS = 10  # after these rounds an empty cluster stays empty
_LEAST_ROWS = 4  # rows for each axis of a subspace whose dimension is selected
_SAME_LOSS = 1e-9  # relative tolerance, so that rounding does not decide between equal partitions
_LEAST_NOISE = 1e-10  # noise variance, relative to a mean variance of 1, of rows that lie exactly on subspaces
_LEAST_SPREAD = 1e-7  # relative singular value; smaller ones are rounding errors


def k_flats(
    X,
    n_components: int,
    dimensions,
    key: np.uint64,
    n_iter: int = N_ITERATIONS,
    n_tries: int = N_TRIES,
    max_dimension: int | None = None,
) -> tuple[np.ndarray, float]:
    """Partition rows by K-flats (affine subspaces), the best of several tries.

    The loss is that of a Gaussian mixture with hard labels. Subspace k has weight n_k / n, a variance along each of its
    axes, and a variance orthogonal to it that is shared by all subspaces. As in BIC, log(n) / 2 is added for each
    parameter, so that subspaces of different dimensions are comparable. Distances alone would favour large dimensions.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    n_components : int
    dimensions : array-like of shape (n_components,), int or None
        None selects them at every refit by the loss.
    key : np.uint64
    n_iter : int
        Maximum number of iterations of each try.
    n_tries : int
        Number of tries. Each starts from subspaces through random rows and their neighbours. If dimensions are
        selected, the tries start with the dimensions 1, 2, 4, ... in turn.
    max_dimension : int or None
        Maximum of a dimension that is selected. It is also limited by the number of features and to one axis for every
        four rows of a component: with fewer rows, a subspace fits any assigned rows and no row changes its label.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        Values from 0 to n_components - 1. There may be fewer clusters if there are few distinct rows.
    loss : float
        Loss per row, up to a constant that does not depend on the partition.
    """
    flats = KFlats(X, n_components, dimensions, max_dimension)
    return flats.best([flats.seed(key, n_try) for n_try in range(n_tries)], n_iter)


class KFlats:
    """The loss of K-flats on some rows, and its minimisation from initial partitions."""

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
        """Initial partition by subspaces through random rows and their neighbours."""
        dimensions = self.dimensions
        if self.inferred:
            n_sizes = max(1, int(self.max_dimension).bit_length())
            dimensions = np.full(self.n_components, min(1 << n_try % n_sizes, self.rows.shape[1]))
        return seed_subspaces(self.rows, subkey(key, Purpose.START, n_try), dimensions)

    def refine(self, labels, n_iter: int) -> tuple[np.ndarray, float]:
        """Improve a partition by Lloyd's iterations; returns the partition and its loss per row."""
        (n, width), n_subspaces = self.rows.shape, self.n_components
        labels, dimensions = np.array(labels, np.int64), self.dimensions.copy()
        sizes, means, spectra = np.empty(n_subspaces), np.zeros((n_subspaces, width)), np.zeros((n_subspaces, width))
        axes, costs = np.zeros((n_subspaces, self.max_dimension, width)), np.empty(n)
        for iteration in range(n_iter + 1):
            loss = 0.0
            for k in range(n_subspaces):
                members = np.flatnonzero(labels == k)
                sizes[k] = len(members)
                if len(members) == 0:
                    spectra[k] = 0.0
                    continue
                _fit_axes(self.rows, members, means[k], axes[k], spectra[k])
                loss -= sizes[k] * math.log(sizes[k] / n)
            noise, spectral_loss = self._fit_spectra(sizes, spectra, dimensions)
            loss += spectral_loss
            if iteration == n_iter:
                break
            n_moved = assign_rows(self.rows, sizes, means, axes, spectra, dimensions, noise, labels, costs)
            filled = iteration < _MAX_RESEEDED_ROUNDS and _reseed_empty(self.rows, dimensions, labels, costs)
            if n_moved == 0 and not filled:
                break
        return labels, loss / n

    def _fit_spectra(self, sizes, spectra, dimensions) -> tuple[float, float]:
        """Noise variance and loss of the spectra; selects `dimensions`, in place, if they are not given."""
        log_n = math.log(len(self.rows))
        if self.inferred:
            return choose_dimensions_and_noise(sizes, spectra, self.max_dimension, _LEAST_NOISE, log_n, dimensions)
        noise = pooled_noise(sizes, spectra, dimensions, _LEAST_NOISE)
        return noise, spectra_loss(sizes, spectra, dimensions, noise, log_n)

    def best(self, starts, n_iter: int) -> tuple[np.ndarray, float]:
        """Improve each initial partition; returns the one with the smallest loss, and the loss."""
        refined = [self.refine(labels, n_iter) for labels in starts]
        least = min(loss for _, loss in refined)
        return next(result for result in refined if result[1] <= least + _SAME_LOSS * (1.0 + abs(least)))


def seed_subspaces(rows, key: np.uint64, dimensions) -> np.ndarray:
    """Partition by subspaces through single rows and their neighbours; each row is chosen far from the earlier ones."""
    n = len(rows)
    labels, gaps = np.zeros(n, np.int64), np.full(n, np.inf)
    mean, spectrum = np.empty(rows.shape[1]), np.empty(rows.shape[1])
    for k, dimension in enumerate(dimensions):
        place, cumulative = uniform(key, k), np.cumsum(gaps)
        chosen = int(place * n)
        if k > 0 and cumulative[-1] > 0.0:
            chosen = min(int(np.searchsorted(cumulative, place * cumulative[-1], side="right")), n - 1)
        axes = np.empty((dimension, rows.shape[1]))
        _fit_axes(rows, nearest_rows(rows, chosen, min(2 * dimension + 1, n)), mean, axes, spectrum)
        assign_nearer_rows(rows, mean, axes, k, labels, gaps)
    return labels


def _fit_axes(rows, members, mean, axes, spectrum) -> None:
    """Write the mean of some rows, and the leading axes and decreasing spectrum of their scatter, padded with zeros."""
    centred = centre_rows(rows, members, mean)
    product = gram_of_rows(centred) if len(members) < rows.shape[1] else gram_of_columns(centred)
    write_axes(centred, *symmetric_eigen(product), axes, spectrum)


def _reseed_empty(rows, dimensions, labels, costs) -> bool:
    """Give each empty cluster the row with the largest cost and its neighbours; returns whether there was one."""
    empty = np.flatnonzero(np.bincount(labels, minlength=len(dimensions)) == 0)
    for n_filled, k in enumerate(empty):
        worst = costs.argmax()
        if costs[worst] == -np.inf:  # no row is left
            return n_filled > 0
        near = nearest_rows(rows, worst, max(1, min(2 * dimensions[k] + 1, len(rows) // len(dimensions))))
        labels[near], costs[near] = k, -np.inf
    return len(empty) > 0


def coordinates(X) -> np.ndarray:
    """Centred rows in the axes of their span, scaled to a mean variance of 1.

    Directions without variance are removed. They contain no information, and would bias the noise variance to zero.
    """
    centred = np.asarray(X, float) - np.mean(X, axis=0)
    scale = np.abs(centred).max(initial=0.0)
    if scale == 0.0:
        return np.zeros((len(centred), 1))
    left, sizes, _ = np.linalg.svd(centred / scale, full_matrices=False)
    kept = sizes > _LEAST_SPREAD * sizes[0]
    spread = np.sqrt(np.mean(np.square(sizes[kept])) / len(centred))
    return np.ascontiguousarray(left[:, kept] * (sizes[kept] / spread))
