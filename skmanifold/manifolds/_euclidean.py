"""The Euclidean space, and two subsets of it: the positive orthant and the probability simplex."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils._njit import njit
from . import _geometry
from ._base import RowsOfVectors, ShapedLikeArray, check_excess, check_non_negative, finite_array


class FlatGeometry(NamedTuple):
    """The geometry of a Euclidean space."""

    size: int


class Euclidean(ShapedLikeArray):
    """Arrays of real numbers.

    Geodesics are straight lines, :math:`x(t) = x + t v`; the metric is the identity; the base measure is the Lebesgue
    measure. A random point is standard normal.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of a point; an integer d is stored as ``(d,)``.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not an integer or a tuple of integers, or if one of them is not positive.
    """

    is_flat = True

    @property
    def geometry(self) -> FlatGeometry:
        """The geometry for compiled code."""
        return FlatGeometry(self.size)

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw standard normal coordinates."""
        return rng.standard_normal(self.shape)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` has the right shape and is finite."""
        finite_array(x, self.shape)

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Do nothing: every vector is tangent."""

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along straight lines for time `t`, in place."""
        _move_straight(x, v, t)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Do nothing: every array is a point of this manifold."""

    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write ones to `out`."""
        out.fill(1.0)

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write zeros to `out`."""
        out.fill(0.0)

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Do nothing: there is no boundary."""


@njit(cache=True, nogil=True)
def _move_straight(x, v, t):
    x = x.reshape(-1)
    v = v.reshape(-1)
    for j in range(x.shape[0]):
        x[j] += t * v[j]


@_geometry.project.of(FlatGeometry)
@_geometry.retract.of(FlatGeometry)
@njit(cache=True, nogil=True)
def _stay(geometry, x, v):
    """Do nothing: every array is a point, and every vector is tangent."""


@_geometry.flow.of(FlatGeometry)
@njit(cache=True, nogil=True)
def _flow(geometry, x, v, t):
    _move_straight(x, v, t)


class PositiveOrthant(ShapedLikeArray):
    r"""Arrays of positive numbers.

    For diffusions its metric is the Fisher information of Poisson counts, with :math:`G^{-1} = \mathrm{diag}(x)`, whose
    divergence is one everywhere. For geodesic samplers its flow consists of straight lines with specular reflection at
    the boundary,

    .. math:: x(t) = |x + t v|, \qquad v(t) = \mathrm{sign}(x + t v)\, v.

    This is exact for any time, because a straight line crosses each coordinate hyperplane at most once. The base
    measure is the Lebesgue measure. A random point has standard exponential coordinates.

    Zero is a valid coordinate, because gamma draws of small shape underflow to it, although the boundary has measure
    zero. Negative coordinates are never valid, whatever the tolerance.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of a point; an integer d is stored as ``(d,)``.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not an integer or a tuple of integers, or if one of them is not positive.
    """

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw standard exponential coordinates."""
        return rng.standard_exponential(self.shape)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` has the right shape, is finite and nowhere negative."""
        check_non_negative(finite_array(x, self.shape))

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Do nothing: every vector is tangent."""

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along straight lines for time `t`, with reflection at the boundary, in place."""
        _move_and_reflect(x, v, t)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Do nothing: the flow keeps coordinates non-negative exactly."""

    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write `x` itself to `out`."""
        np.copyto(out, x)

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write ones to `out`."""
        out.fill(1.0)

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Reflect negative coordinates at zero and reverse their momenta, in place."""
        if momentum is None:
            np.abs(x, out=x)
        else:
            _reflect(x, momentum)


@njit(cache=True, nogil=True)
def _move_and_reflect(x, v, t):
    x = x.reshape(-1)
    v = v.reshape(-1)
    for j in range(x.shape[0]):
        moved = x[j] + t * v[j]
        if moved < 0:
            moved = -moved
            v[j] = -v[j]
        x[j] = moved


@njit(cache=True, nogil=True)
def _reflect(x, v):
    x = x.reshape(-1)
    v = v.reshape(-1)
    for j in range(x.shape[0]):
        if x[j] < 0:
            x[j] = -x[j]
            v[j] = -v[j]


class Simplex(RowsOfVectors):
    """Probability vectors of `d` entries, or `n_points` of them.

    The base measure is the Lebesgue measure on the first d - 1 coordinates of each vector, for which the Dirichlet
    density has its usual form. Random points are uniform, Dirichlet(1, ..., 1). Zero is a valid coordinate; negative
    coordinates are never valid, whatever the tolerance.

    This manifold has neither a geodesic flow nor a diagonal metric. Samplers use exact transitions on it, as SCIR does,
    or a chart, with its Jacobian, to the positive orthant, a Euclidean space or the sphere.

    Parameters
    ----------
    d : int
        Number of entries, at least 1.
    n_points : int, default=None
        Number of vectors. A point then has shape ``(n_points, d)``, and each row is in the simplex. None: one vector,
        of shape ``(d,)``.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a positive integer.
    """

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly."""
        return rng.dirichlet(np.ones(self.d), size=self.n_points)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` is nowhere negative and every vector sums to one within `atol`."""
        x = finite_array(x, self.shape)
        check_non_negative(x)
        check_excess(x.sum(axis=-1) - 1, atol, "The entries of a point of the simplex must sum to 1")
