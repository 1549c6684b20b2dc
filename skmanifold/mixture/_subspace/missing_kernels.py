"""Rows with missing cells near affine subspaces: densities of observed cells, and cells given the observed ones.

With noise precision g, centre c and orthonormal directions u_j with ratios r_j of precisions, a row is

    x = c + (A s + e) / sqrt(g),   s ~ N(0, I_d),   e ~ N(0, I_m),   A = (sqrt(1 / r_j - 1) u_j)_j.

Let A_O be the rows of A of the observed cells, and y the observed gaps from the centre times sqrt(g). The coordinates s
given y are normal with precision M = I + A_O' A_O and mean b = M^-1 A_O' y. The log density of the observed cells needs
the determinant of M and |y - A_O b|^2 + |b|^2, which is accurate for rows near the subspace. All is of the size d.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...emissions._cells import DependentNumbers, ExpectedCells
from ...emissions._dense_rows import IncompleteRows, find_missing
from ...emissions._gaussian.missing_kernels import HALF_LOG_2PI, are_alike
from ...random._keys import fold_in
from ...random._variates import normal
from ...utils._njit import njit

_MOST_SQUARES = 1e6  # loadings whose sums may be subtracted
_LEAST_SHARE = 1e-12  # of a component, in expected values


@njit(cache=True, nogil=True)
def _fill_squares(loadings, squares):
    """Fill the sums of squares of the columns of A of each component, (K, capacity)."""
    squares[:] = 0.0
    for k in range(len(loadings)):
        for a in range(loadings.shape[1]):
            for i in range(loadings.shape[2]):
                squares[k, i] += loadings[k, a, i] * loadings[k, a, i]


class Loadings(NamedTuple):
    """Components in the form of this module."""

    loadings: np.ndarray  # (K, m, capacity)
    squares: np.ndarray  # (K, capacity), sums of squares of the columns of A; A'A is diagonal
    dims: np.ndarray  # (K,)
    centres: np.ndarray  # (K, m)
    roots: np.ndarray  # (K,), square roots of the noise precisions

    @classmethod
    def of(cls, subspaces: Any) -> Loadings:
        """Those of `Subspaces`."""
        ratios = np.where(subspaces.is_direction(), subspaces.ratios, 1.0)
        bases = np.where(subspaces.is_direction()[..., np.newaxis], subspaces.bases, 0.0)
        loadings = np.ascontiguousarray((bases * np.sqrt(1.0 / ratios - 1.0)[..., np.newaxis]).mT)
        squares = np.empty(ratios.shape)
        _fill_squares(loadings, squares)
        roots, centres = np.sqrt(subspaces.noise), np.require(subspaces.centres, requirements=["C", "W"])
        return cls(loadings, squares, np.array(subspaces.dims), centres, roots)


@njit(cache=True, nogil=True)
def _fill_root(loadings, squares, d, seen, missing, n_missing, root):
    """Fill the Cholesky factor of M; returns the log of its determinant.

    M is a sum over observed cells, or the sum over all less that over missing ones, if that is shorter and accurate.
    """
    by_missing = 2 * n_missing < len(seen)
    for i in range(d):
        by_missing = by_missing and squares[i] < _MOST_SQUARES
    chosen, n_chosen, sign = (missing, n_missing, -1.0) if by_missing else (seen, len(seen) - n_missing, 1.0)
    for i in range(d):
        for j in range(i):
            root[i, j] = 0.0
        root[i, i] = 1.0 + squares[i] if by_missing else 1.0
    for t in range(n_chosen):
        row = loadings[chosen[t]]
        for i in range(d):
            entry = sign * row[i]
            for j in range(i + 1):
                root[i, j] += entry * row[j]
    log_root = 0.0
    for i in range(d):
        for j in range(i + 1):
            total = root[i, j]
            for b in range(j):
                total -= root[i, b] * root[j, b]
            root[i, j] = total / root[j, j] if j < i else math.sqrt(max(total, 1.0))
        log_root += math.log(root[i, i])
    return log_root


@njit(cache=True, nogil=True)
def _fill_coordinates(X, row, centre, root_noise, loadings, d, seen, n_seen, root, noise, gaps, out):
    """Fill `out` with the mean of the coordinates, or a draw if `noise` has normal variates, and the scaled `gaps`."""
    out[:d] = 0.0
    for t in range(n_seen):
        a = seen[t]
        gap = root_noise * (X[row, a] - centre[a])
        gaps[t] = gap
        for i in range(d):
            out[i] += gap * loadings[a, i]
    for i in range(d):
        total = out[i]
        for j in range(i):
            total -= root[i, j] * out[j]
        out[i] = total / root[i, i]
    for i in range(d):
        out[i] += noise[i]
    for i in range(d - 1, -1, -1):
        total = out[i]
        for j in range(i + 1, d):
            total -= root[j, i] * out[j]
        out[i] = total / root[i, i]


@njit(cache=True, nogil=True)
def _along(loadings, a, d, coordinates):
    """Entry a of A s."""
    total = 0.0
    for i in range(d):
        total += loadings[a, i] * coordinates[i]
    return total


@njit(cache=True, nogil=True)
def add_terms_of_incomplete(X, patterns, start, stop, loadings, squares, dims, centres, roots, out):
    """Add the log densities of the observed cells of the rows start to stop to `out`, (stop - start, K)."""
    m, capacity = loadings.shape[1:]
    seen, missing, gaps = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    root, coordinates, nothing = np.empty((capacity, capacity)), np.empty(capacity), np.zeros(capacity)
    for k in range(len(dims)):
        d, own, last, log_root, n_seen = dims[k], loadings[k], -1, 0.0, 0
        log_scale = math.log(roots[k]) - HALF_LOG_2PI
        for row in range(start, stop):
            if not are_alike(X, patterns, row, last):
                n_missing = find_missing(X, row, seen, missing)
                n_seen = m - n_missing
                log_root = _fill_root(own, squares[k], d, seen, missing, n_missing, root)
                last = row
            _fill_coordinates(X, row, centres[k], roots[k], own, d, seen, n_seen, root, nothing, gaps, coordinates)
            total = 0.0
            for t in range(n_seen):
                left = gaps[t] - _along(own, seen[t], d, coordinates)
                total += left * left
            for i in range(d):
                total += coordinates[i] * coordinates[i]
            out[row - start, k] += n_seen * log_scale - log_root - 0.5 * total


@njit(cache=True, nogil=True)
def draw_missing(X, start, stop, labels, first_row, loadings, squares, dims, centres, roots, key, out):
    """Draw the missing cells of the rows start to stop given the observed ones and the label; `out` has all cells.

    The draws of a row depend on the key and its number, which is `first_row` for the first row of X.
    """
    m, capacity = loadings.shape[1:]
    seen, missing, gaps = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    root, coordinates, noise = np.empty((capacity, capacity)), np.empty(capacity), np.empty(capacity)
    for row in range(start, stop):
        n_missing, k = find_missing(X, row, seen, missing), labels[row]
        for a in range(m):
            out[row, a] = X[row, a]
        if n_missing == 0:
            continue
        d, own, child = dims[k], loadings[k], fold_in(key, first_row + row)
        for i in range(d):
            noise[i] = normal(child, i)
        _fill_root(own, squares[k], d, seen, missing, n_missing, root)
        _fill_coordinates(X, row, centres[k], roots[k], own, d, seen, m - n_missing, root, noise, gaps, coordinates)
        for t in range(n_missing):
            a = missing[t]
            out[row, a] = centres[k, a] + (_along(own, a, d, coordinates) + normal(child, d + t)) / roots[k]


@njit(cache=True, nogil=True)
def _add_moments(X, patterns, shares, loadings, squares, dims, centres, roots, firsts, seconds):
    """Add the moments of missing cells given the observed ones, times the shares of the components, (n, K)."""
    m, capacity = loadings.shape[1:]
    seen, missing, gaps = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m)
    root, coordinates, nothing = np.empty((capacity, capacity)), np.empty(capacity), np.zeros(capacity)
    image = np.empty(capacity)
    for k in range(len(dims)):
        d, own, last, n_missing = dims[k], loadings[k], -1, 0
        for row in range(len(X)):
            share = shares[row, k]
            if patterns[row] == 0 or share < _LEAST_SHARE:
                continue
            if not are_alike(X, patterns, row, last):
                n_missing = find_missing(X, row, seen, missing)
                _fill_root(own, squares[k], d, seen, missing, n_missing, root)
                last = row
            _fill_coordinates(
                X, row, centres[k], roots[k], own, d, seen, m - n_missing, root, nothing, gaps, coordinates
            )
            for t in range(n_missing):
                a, variance = missing[t], 1.0
                for i in range(d):
                    total = own[a, i]
                    for j in range(i):
                        total -= root[i, j] * image[j]
                    image[i] = total / root[i, i]
                    variance += image[i] * image[i]
                mean = centres[k, a] + _along(own, a, d, coordinates) / roots[k]
                firsts[row, a] += share * mean
                seconds[row, a] += share * (mean * mean + variance / (roots[k] * roots[k]))


class SubspaceCells(DependentNumbers):
    """Cells near subspaces, which depend on each other through the coordinates."""

    def __init__(self, subspaces: Any) -> None:
        self._loadings = Loadings.of(subspaces)
        squares = np.square(self._loadings.loadings).sum(axis=2)
        super().__init__(subspaces.centres, (1.0 + squares) / subspaces.noise[:, np.newaxis])

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations given the observed cells."""
        patterns = IncompleteRows.of_values(values).patterns
        _add_moments(values, patterns, np.ascontiguousarray(shares), *self._loadings, out.firsts, out.seconds)

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows with missing cells drawn given the observed ones."""
        out = np.empty(values.shape)
        draw_missing(values, 0, len(values), labels, first_row, *self._loadings, key, out)
        return out
