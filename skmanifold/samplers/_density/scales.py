"""Linear coordinates y of a point x = L y, in which a sampler with unit mass has the mass matrix (L L')^-1.

A scale is a NamedTuple, whose class determines the kernels. Arrays are of one chain, with a leading axis of length 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...utils._by_type import by_type
from ...utils._njit import njit
from .integrator_kernels import by_chain


class UnitScale(NamedTuple):
    """L = I."""

    size: int


class DiagonalScale(NamedTuple):
    """L is diagonal."""

    roots: np.ndarray  # (n_chains, size)


class DenseScale(NamedTuple):
    """L is lower triangular."""

    roots: np.ndarray  # (n_chains, size, size)


@by_type
def fill_points(scale, c, y, x):
    """Write the point of chain c with coordinates y to x."""


@by_type
def fill_coordinates(scale, c, x, y):
    """Write the coordinates of the point x of chain c to y."""


@by_type
def pull_back(scale, c, gradient):
    """Replace a gradient by that in coordinates, L' g."""


@fill_points.of(UnitScale)
@njit(cache=True, nogil=True)
def _fill_points(scale, c, y, x):
    _copy(y, x)


@fill_coordinates.of(UnitScale)
@njit(cache=True, nogil=True)
def _fill_coordinates(scale, c, x, y):
    _copy(x, y)


@pull_back.of(UnitScale)
@njit(cache=True, nogil=True)
def _pull_back(scale, c, gradient):
    pass


@njit(cache=True, nogil=True)
def _copy(source, out):
    source, out = by_chain(source), by_chain(out)
    for i in range(source.shape[1]):
        out[0, i] = source[0, i]


@fill_points.of(DiagonalScale)
@njit(cache=True, nogil=True)
def _fill_points_diagonal(scale, c, y, x):
    y, x = by_chain(y), by_chain(x)
    for i in range(y.shape[1]):
        x[0, i] = scale.roots[c, i] * y[0, i]


@fill_coordinates.of(DiagonalScale)
@njit(cache=True, nogil=True)
def _fill_coordinates_diagonal(scale, c, x, y):
    y, x = by_chain(y), by_chain(x)
    for i in range(y.shape[1]):
        y[0, i] = x[0, i] / scale.roots[c, i]


@pull_back.of(DiagonalScale)
@njit(cache=True, nogil=True)
def _pull_back_diagonal(scale, c, gradient):
    gradient = by_chain(gradient)
    for i in range(gradient.shape[1]):
        gradient[0, i] *= scale.roots[c, i]


@fill_points.of(DenseScale)
@njit(cache=True, nogil=True)
def _fill_points_dense(scale, c, y, x):
    y, x, root = by_chain(y), by_chain(x), scale.roots[c]
    for i in range(y.shape[1]):
        total = 0.0
        for j in range(i + 1):
            total += root[i, j] * y[0, j]
        x[0, i] = total


@fill_coordinates.of(DenseScale)
@njit(cache=True, nogil=True)
def _fill_coordinates_dense(scale, c, x, y):
    y, x, root = by_chain(y), by_chain(x), scale.roots[c]
    for i in range(y.shape[1]):
        total = x[0, i]
        for j in range(i):
            total -= root[i, j] * y[0, j]
        y[0, i] = total / root[i, i]


@pull_back.of(DenseScale)
@njit(cache=True, nogil=True)
def _pull_back_dense(scale, c, gradient):
    gradient, root = by_chain(gradient), scale.roots[c]
    n = gradient.shape[1]
    for j in range(n):  # entries from j on are not yet changed
        total = 0.0
        for i in range(j, n):
            total += root[i, j] * gradient[0, i]
        gradient[0, j] = total
