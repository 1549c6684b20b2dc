"""Spheres, and the kernels of spheres about the origin."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..numerics.block_sums import dot
from ..utils._njit import njit, njit_part
from ..utils._typing import ArrayLike
from . import _geometry
from ._base import RowsOfVectors, check_excess, finite_array


class SphereGeometry(NamedTuple):
    """The geometry of vectors of length `radii` in d dimensions."""

    d: int
    radii: np.ndarray


class Sphere(RowsOfVectors):
    r"""Vectors of length r in :math:`\mathbb{R}^d`, by default unit vectors, or `n_points` of them.

    Geodesics are great circles; with :math:`a = \|v\| / r`,

    .. math::

        x(t) = x \cos(at) + \frac{v}{a} \sin(at), \qquad v(t) = v \cos(at) - a\, x \sin(at),

    and a point with velocity zero does not move. Tangent projection is :math:`v - x\,(x^\top v) / r^2`. The base
    measure is the surface area (for several points, the product measure); random points are uniform.

    The flow keeps the length of x to rounding if v is tangent. Call `project` after every change of the velocity, and
    `retract` from time to time.

    Parameters
    ----------
    d : int
        Dimension of the surrounding space, at least 1. For d = 1 the sphere consists of the points -1 and 1, between
        which samplers cannot move, so they raise an error.
    n_points : int, default=None
        Number of vectors. A point then has shape ``(n_points, d)``, and each row is on the sphere. None: one vector, of
        shape ``(d,)``.
    radius : float or array-like of shape (n_points,), default=1.0
        Radius r, one for all points or one for each. Samplers mix more slowly on a larger sphere: a step of length h
        on radius r rotates the point by the angle h / r.

    Raises
    ------
    TypeError, ValueError
        If `d` or `n_points` is not a positive integer, or a radius is not a positive number.

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
        self._radii = radii.reshape(-1)

    @property
    def geometry(self) -> SphereGeometry:
        """The geometry for compiled code."""
        return SphereGeometry(self.d, self._radii)

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly."""
        x = rng.standard_normal(self.shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True) * self._lengths[..., None]

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless the length of every vector is r within a relative tolerance of `atol`."""
        excess = np.linalg.norm(finite_array(x, self.shape), axis=-1) / self._lengths - 1
        length = "1" if np.all(self._radii == 1) else "equal to the radius"
        check_excess(excess, atol, f"A point of the sphere must have length {length}")

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Remove the radial part of `v`, in place."""
        project_to_sphere(x, v, self._radii)

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along great circles for time `t`, in place."""
        flow_on_sphere(x, v, t, self._radii)

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Scale `x` to the length r, then remove the radial part of `v`, in place."""
        retract_to_sphere(x, v, self._radii)

    @property
    def _lengths(self) -> np.ndarray:
        """Radii, one per point; a scalar if `n_points` is None."""
        return self._radii[0] if self.n_points is None else np.broadcast_to(self._radii, self.n_points)


# In these kernels vectors lie along the last axis, and the i-th is on the sphere of radius ``radii[i % len(radii)]``
# about the origin.


@njit_part
def project_point(x, v, radius):
    """Make one `v` tangent at `x`."""
    along = dot(x, v) / (radius * radius)
    for j in range(x.shape[0]):
        v[j] -= along * x[j]


@njit(cache=True, nogil=True)
def _rows(x, d):
    """As a matrix of points; where x is one, without a reshape, which takes longer than what follows."""
    if x.ndim == 2 and x.shape[1] == d:
        return x
    return x.reshape(-1, d)


@njit_part
def _project_rows(x, v, radii):
    for i in range(x.shape[0]):
        project_point(x[i], v[i], radii[i % len(radii)])


@njit_part
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


@njit_part
def _flow_of_rows(x, v, t, radii):
    for i in range(x.shape[0]):
        flow_point(x[i], v[i], t, radii[i % len(radii)])


@njit_part
def _retract_rows(x, v, radii):
    for i in range(x.shape[0]):
        radius = radii[i % len(radii)]
        scale = radius / math.sqrt(dot(x[i], x[i]))
        for j in range(x.shape[1]):
            x[i, j] *= scale
        project_point(x[i], v[i], radius)


@njit(cache=True, nogil=True)
def project_to_sphere(x, v, radii):
    """Make `v` tangent at `x`."""
    _project_rows(_rows(x, x.shape[-1]), _rows(v, x.shape[-1]), radii)


@njit(cache=True, nogil=True)
def flow_on_sphere(x, v, t, radii):
    """Move along great circles for time `t`."""
    _flow_of_rows(_rows(x, x.shape[-1]), _rows(v, x.shape[-1]), t, radii)


@njit(cache=True, nogil=True)
def retract_to_sphere(x, v, radii):
    """Scale `x` to its radius and make `v` tangent there."""
    _retract_rows(_rows(x, x.shape[-1]), _rows(v, x.shape[-1]), radii)


@_geometry.project.of(SphereGeometry)
@njit(cache=True, nogil=True)
def _project(geometry, x, v):
    _project_rows(_rows(x, geometry.d), _rows(v, geometry.d), geometry.radii)


@_geometry.flow.of(SphereGeometry)
@njit(cache=True, nogil=True)
def _flow(geometry, x, v, t):
    _flow_of_rows(_rows(x, geometry.d), _rows(v, geometry.d), t, geometry.radii)


@_geometry.retract.of(SphereGeometry)
@njit(cache=True, nogil=True)
def _retract(geometry, x, v):
    _retract_rows(_rows(x, geometry.d), _rows(v, geometry.d), geometry.radii)
