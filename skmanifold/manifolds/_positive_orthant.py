"""The positive orthant, for gamma variables and unnormalised proportions."""

from __future__ import annotations

import numpy as np

from ..utils._njit import njit
from ._shapes import ShapedLikeArray
from ._validation import check_non_negative, finite_array


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
