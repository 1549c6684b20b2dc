"""The Euclidean space, where every law of a sampler is the textbook's."""

from __future__ import annotations

import numpy as np

from ..utils._njit import njit
from ._shapes import ShapedLikeArray
from ._validation import finite_array


class Euclidean(ShapedLikeArray):
    """Arrays of real numbers.

    Geodesics are straight lines, :math:`x(t) = x + t v`; the metric is the identity; the base measure is Lebesgue's.
    A random point is standard normal.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of a point; an integer d is kept as ``(d,)``.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not made of positive integers.
    """

    is_flat = True

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw standard normal coordinates."""
        return rng.standard_normal(self.shape)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` has the right shape and is finite."""
        finite_array(x, self.shape)

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Leave `v` alone: every vector is tangent."""

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Go straight on for time `t`."""
        _move_straight(x, v, t)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Do nothing: no point is off this manifold."""

    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write ones to `out`."""
        out.fill(1.0)

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write zeros to `out`."""
        out.fill(0.0)

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Do nothing: there is no wall."""


@njit(cache=True, nogil=True)
def _move_straight(x, v, t):
    x = x.reshape(-1)
    v = v.reshape(-1)
    for j in range(x.shape[0]):
        x[j] += t * v[j]
