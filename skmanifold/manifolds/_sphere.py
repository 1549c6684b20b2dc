"""Unit spheres, and the kernels of every round sphere about the origin."""

from __future__ import annotations

import math

import numpy as np

from ..numerics.reductions import dot
from ..utils._njit import njit
from ..utils._typing import ArrayLike
from ._shapes import RowsOfVectors
from ._validation import finite_array


class Sphere(RowsOfVectors):
    r"""Vectors of length r in :math:`\mathbb{R}^d`, by default unit vectors, or `n_points` of them.

    Geodesics are great circles; with :math:`a = \|v\| / r`,

    .. math::

        x(t) = x \cos(at) + \frac{v}{a} \sin(at), \qquad v(t) = v \cos(at) - a\, x \sin(at),

    and a velocity of zero stays where it is. Tangent projection is :math:`v - x\,(x^\top v) / r^2`. The base
    measure is the surface area (of each point, for several); random points are uniform.

    The flow keeps the length of x to rounding as long as v is tangent: project after every kick, and retract now and
    then.

    Parameters
    ----------
    d : int
        Dimension of the surrounding space, at least 1; d = 1 is the two points -1 and 1, between which samplers
        cannot move: they refuse it.
    n_points : int, default=None
        Shape ``(n_points, d)``, every row a point on the sphere; None: shape ``(d,)``, one point.
    radius : float or array-like of shape (n_points,), default=1.0
        r, of all points or of each. A larger sphere is a slower one: a sampler's step of length h on radius r turns
        the point by the angle h / r.

    Raises
    ------
    TypeError, ValueError
        If `d` or `n_points` is not a positive integer, or a radius not a positive number.

    References
    ----------
    Byrne, S. and Girolami, M. (2013). Geodesic Monte Carlo on embedded manifolds. Scandinavian Journal of Statistics
    40.
    """

    def __init__(self, d: int, n_points: int | None = None, radius: ArrayLike = 1.0) -> None:
        self.radius = radius
        super().__init__(d, n_points)

    def _set_up(self) -> None:
        super()._set_up()
        n_points = self.n_points or 1
        try:
            radii = np.array(self.radius, dtype=np.float64)
        except (TypeError, ValueError):
            radii = np.empty((0, 0))
        if radii.shape not in ((), (n_points,)) or not np.all((radii > 0) & (radii < np.inf)):
            raise ValueError(
                f"radius must be a positive number, or one for each point (n_points={self.n_points}); got "
                f"{self.radius!r}."
            )
        radii = radii.reshape(-1)
        self._radii = radii

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly."""
        x = rng.standard_normal(self.shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True) * self._lengths[..., None]

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless every vector has its length within `atol` times that."""
        excess = np.abs(np.linalg.norm(finite_array(x, self.shape), axis=-1) / self._lengths - 1)
        if (excess > atol).any():
            length = "1" if np.all(self._radii == 1) else "its radius"
            raise ValueError(
                f"A point on the sphere has length {length}, but the length of one of these is {excess.max():.3g} off."
            )

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Take the radial part off `v`, in place."""
        project_to_sphere(x, v, self._radii)

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Follow great circles for time `t`, in place."""
        flow_on_sphere(x, v, t, self._radii)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Scale `x` to its length, then take the radial part off `v`, in place."""
        retract_to_sphere(x, v, self._radii)

    @property
    def _lengths(self) -> np.ndarray:
        """Radii, one a point; without an axis for one point."""
        return self._radii[0] if self.n_points is None else np.broadcast_to(self._radii, self.n_points)


# In these kernels vectors lie along the last axis, and the i-th is on the sphere of radius ``radii[i % len(radii)]``
# about the origin.


@njit(cache=True, nogil=True)
def project_point(x, v, radius):
    """Make one `v` tangent at `x`."""
    along = dot(x, v) / (radius * radius)
    for j in range(x.shape[0]):
        v[j] -= along * x[j]


@njit(cache=True, nogil=True)
def project_to_sphere(x, v, radii):
    """Make `v` tangent at `x`."""
    x = x.reshape(-1, x.shape[-1])
    v = v.reshape(-1, v.shape[-1])
    for i in range(x.shape[0]):
        project_point(x[i], v[i], radii[i % len(radii)])


@njit(cache=True, nogil=True)
def flow_point(x, v, t, radius):
    """Move one point along its great circle for time `t`."""
    rate = math.sqrt(dot(v, v)) / radius
    cosine = math.cos(rate * t)
    sine = math.sin(rate * t)
    time_sinc = sine / rate if rate > 0 else t
    for j in range(x.shape[0]):
        x_j = x[j]
        x[j] = cosine * x_j + time_sinc * v[j]
        v[j] = cosine * v[j] - rate * sine * x_j


@njit(cache=True, nogil=True)
def flow_on_sphere(x, v, t, radii):
    """Move along great circles for time `t`."""
    x = x.reshape(-1, x.shape[-1])
    v = v.reshape(-1, v.shape[-1])
    for i in range(x.shape[0]):
        flow_point(x[i], v[i], t, radii[i % len(radii)])


@njit(cache=True, nogil=True)
def retract_to_sphere(x, v, radii):
    """Scale `x` to its radius and make `v` tangent there."""
    x = x.reshape(-1, x.shape[-1])
    v = v.reshape(-1, v.shape[-1])
    for i in range(x.shape[0]):
        radius = radii[i % len(radii)]
        scale = radius / math.sqrt(dot(x[i], x[i]))
        for j in range(x.shape[1]):
            x[i, j] *= scale
        project_point(x[i], v[i], radius)
