"""Unit spheres, and the kernels of every round sphere about the origin."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..utils._dot import dot
from ._shapes import RowsOfVectors
from ._validation import finite_array


class Sphere(RowsOfVectors):
    r"""Vectors of unit length in :math:`\mathbb{R}^d`, or `n_points` of them.

    Geodesics are great circles; with :math:`a = \|v\|`,

    .. math::

        x(t) = x \cos(at) + \frac{v}{a} \sin(at), \qquad v(t) = v \cos(at) - a\, x \sin(at),

    and a velocity of zero stays where it is. Tangent projection is :math:`v - x\,(x^\top v)`. The base measure is the
    surface area (of each point, for several); random points are uniform.

    The flow keeps the length of x to rounding as long as v is tangent: project after every kick, and retract now and
    then.

    Parameters
    ----------
    d : int
        Dimension of the surrounding space, at least 1; d = 1 is the two points -1 and 1.
    n_points : int, default=None
        Shape ``(n_points, d)``, every row a point on the sphere; None: shape ``(d,)``, one point.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a positive integer.

    References
    ----------
    Byrne, S. and Girolami, M. (2013). Geodesic Monte Carlo on embedded manifolds. Scandinavian Journal of Statistics
    40.
    """

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly."""
        x = rng.standard_normal(self.shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless every vector has length one within `atol`."""
        excess = np.abs(np.linalg.norm(finite_array(x, self.shape), axis=-1) - 1)
        if (excess > atol).any():
            raise ValueError(
                f"A point on the sphere has length 1, but the length of one of these is {excess.max():.3g} off."
            )

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Take the radial part off `v`, in place."""
        project_to_sphere(x, v, 1.0)

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Follow great circles for time `t`, in place."""
        flow_on_sphere(x, v, t, 1.0)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Scale `x` to length one, then take the radial part off `v`, in place."""
        retract_to_sphere(x, v, 1.0)


@njit(cache=True, nogil=True)
def _take_off_radial_part(x, v, radius):
    along = dot(x, v) / (radius * radius)
    for j in range(x.shape[0]):
        v[j] -= along * x[j]


@njit(cache=True, nogil=True)
def project_to_sphere(x, v, radius):
    """Make `v` tangent at `x`; vectors along the last axis, the sphere of `radius` about the origin."""
    x = x.reshape(-1, x.shape[-1])
    v = v.reshape(-1, v.shape[-1])
    for i in range(x.shape[0]):
        _take_off_radial_part(x[i], v[i], radius)


@njit(cache=True, nogil=True)
def flow_on_sphere(x, v, t, radius):
    """Move along great circles for time `t`; vectors along the last axis, the sphere of `radius` about the origin."""
    x = x.reshape(-1, x.shape[-1])
    v = v.reshape(-1, v.shape[-1])
    for i in range(x.shape[0]):
        rate = math.sqrt(dot(v[i], v[i])) / radius
        cosine = math.cos(rate * t)
        sine = math.sin(rate * t)
        time_sinc = sine / rate if rate > 0 else t
        for j in range(x.shape[1]):
            x_j = x[i, j]
            x[i, j] = cosine * x_j + time_sinc * v[i, j]
            v[i, j] = cosine * v[i, j] - rate * sine * x_j


@njit(cache=True, nogil=True)
def retract_to_sphere(x, v, radius):
    """Scale `x` to `radius` and make `v` tangent there; vectors along the last axis, the centre at the origin."""
    x = x.reshape(-1, x.shape[-1])
    v = v.reshape(-1, v.shape[-1])
    for i in range(x.shape[0]):
        scale = radius / math.sqrt(dot(x[i], x[i]))
        for j in range(x.shape[1]):
            x[i, j] *= scale
        _take_off_radial_part(x[i], v[i], radius)
