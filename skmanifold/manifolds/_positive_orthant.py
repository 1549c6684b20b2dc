"""The positive orthant: gamma variables, and the simplex before it is normalised."""

from __future__ import annotations

import numpy as np

from ..utils._njit import njit
from ._shapes import ShapedLikeArray
from ._validation import check_non_negative, finite_array


class PositiveOrthant(ShapedLikeArray):
    r"""Arrays of positive numbers.

    As a diffusion's space it has the metric of Poisson counts, :math:`G^{-1} = \mathrm{diag}(x)`, whose divergence is
    one everywhere. As an embedded manifold it is a billiard table: straight lines with specular reflection,

    .. math:: x(t) = |x + t v|, \qquad v(t) = \mathrm{sign}(x + t v)\, v,

    which is exact for any time, since a straight line meets each wall once. The base measure is Lebesgue's. A random
    point has standard exponential coordinates.

    The boundary has measure zero, but gamma draws of small shape underflow to it: zero is a legal coordinate, and a
    negative one is not, whatever the tolerance.

    Parameters
    ----------
    shape : int or tuple of int
        Shape of a point; an integer d is kept as ``(d,)``.

    Raises
    ------
    TypeError, ValueError
        If `shape` is not made of positive integers.
    """

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw standard exponential coordinates."""
        return rng.standard_exponential(self.shape)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` has the right shape, is finite and nowhere negative."""
        check_non_negative(finite_array(x, self.shape))

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Leave `v` alone: every vector is tangent."""

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Go straight on for time `t`, bouncing off the walls."""
        _move_and_bounce(x, v, t)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Do nothing: the flow keeps the signs exactly."""

    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write `x` itself to `out`."""
        np.copyto(out, x)

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        """Write ones to `out`."""
        out.fill(1.0)

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Mirror negative coordinates, and turn their momenta round, in place."""
        if momentum is None:
            np.abs(x, out=x)
        else:
            _bounce(x, momentum)


@njit(cache=True, nogil=True)
def _move_and_bounce(x, v, t):
    x = x.reshape(-1)
    v = v.reshape(-1)
    for j in range(x.shape[0]):
        there = x[j] + t * v[j]
        if there < 0:
            there = -there
            v[j] = -v[j]
        x[j] = there


@njit(cache=True, nogil=True)
def _bounce(x, v):
    x = x.reshape(-1)
    v = v.reshape(-1)
    for j in range(x.shape[0]):
        if x[j] < 0:
            x[j] = -x[j]
            v[j] = -v[j]
