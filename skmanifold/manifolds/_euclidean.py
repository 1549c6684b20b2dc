"""The Euclidean space."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..utils._njit import njit
from . import _geometry
from ._shapes import ShapedLikeArray
from ._validation import finite_array


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
@njit(cache=True, nogil=True)
def _project(geometry, x, v):
    pass


@_geometry.flow.of(FlatGeometry)
@njit(cache=True, nogil=True)
def _flow(geometry, x, v, t):
    _move_straight(x, v, t)


@_geometry.retract.of(FlatGeometry)
@njit(cache=True, nogil=True)
def _retract(geometry, x, v):
    pass
