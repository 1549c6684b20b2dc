"""Moves of `SGGMC` and `GSGNHT` along geodesics; see `moves`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...manifolds._geometry import flow, project, retract
from ...utils._by_type import by_type
from ...utils._njit import njit, njit_or_interpreted
from .integrator_kernels import (
    add_scaled,
    damp_and_kick,
    damp_and_kick_afresh,
    fill_coefficients_aboba,
    fill_coefficients_baoab,
    fill_coefficients_ou,
    move_thermostat,
)
from .moves import begin_step, make_steps, resample_momentum
from .noise_covariance import FULL_SIZE, Covariance, NoCovariance, fill_matrix_noise, fill_noise

ABOBA, OU, BAOAB = 0, 1, 2
SCHEMES = {"aboba": ABOBA, "ou": OU, "baoab": BAOAB}
_RETRACT_EVERY = 100  # steps; rounding errors become visible only after thousands of steps


class GeodesicFriction(NamedTuple):
    """`SGGMC`, and `SGHMC` with the exact Ornstein-Uhlenbeck step."""

    scheme: int
    friction: float
    resample_every: int = 0  # 0: never


class GeodesicThermostat(NamedTuple):
    """`GSGNHT`, and `SGNHT` with the exact Ornstein-Uhlenbeck step."""

    scheme: int
    strength: float
    mass: float
    dim: int
    resample_every: int = 0


@by_type
def drift(move, geometry, chains, time):
    """Move along geodesics."""


@by_type
def kick(move, geometry, covariance, chains, h):
    """Damping, noise and, except for BAOAB, the gradient step; the result may have a normal part."""


@by_type
def _kick_with(covariance, geometry, chains):
    """The velocity update with the coefficients of the chains."""


@njit_or_interpreted(cache=True, nogil=True)
def make_geodesic_steps(move, geometry, gradient, covariance, chains, h, first, n_steps):
    """Half a step along geodesics, friction, noise and gradient in the tangent space, half a step."""
    x, v, stop = chains.position, chains.momentum, first + n_steps
    kicks_first = move.scheme == BAOAB
    if not kicks_first:
        drift(move, geometry, chains, h / 2)
    for t in range(first, stop):
        if not begin_step(gradient, chains, t):
            return t
        resample_momentum(move.resample_every, chains, t)
        if kicks_first:
            add_scaled(v, h, chains.gradient)
            project(geometry, x, v)
            drift(move, geometry, chains, h / 2)
        kick(move, geometry, covariance, chains, h)
        project(geometry, x, v)
        # Half of this step and half of the next are one
        drift(move, geometry, chains, h / 2 if kicks_first or t + 1 == stop else h)
        if t % _RETRACT_EVERY == _RETRACT_EVERY - 1:
            retract(geometry, x, v)
    return -1


make_steps.of(GeodesicFriction)(make_geodesic_steps)
make_steps.of(GeodesicThermostat)(make_geodesic_steps)


@drift.of(GeodesicFriction)
@njit_or_interpreted(cache=True, nogil=True)
def drift_freely(move, geometry, chains, time):
    """Move along geodesics."""
    flow(geometry, chains.position, chains.momentum, time)


@drift.of(GeodesicThermostat)
@njit_or_interpreted(cache=True, nogil=True)
def _drift_with_thermostat(move, geometry, chains, time):
    flow(geometry, chains.position, chains.momentum, time)
    move_thermostat(chains.thermostat, chains.momentum, move.dim, time / move.mass)


@kick.of(GeodesicFriction)
@njit_or_interpreted(cache=True, nogil=True)
def _kick_with_friction(move, geometry, covariance, chains, h):
    friction = np.full(len(chains.keys), move.friction)
    _fill_coefficients(move.scheme, friction, move.friction, h, chains.coefficients)
    _kick_with(covariance, geometry, chains)


@kick.of(GeodesicThermostat)
@njit_or_interpreted(cache=True, nogil=True)
def _kick_with_thermostat(move, geometry, covariance, chains, h):
    _fill_coefficients(move.scheme, chains.thermostat, move.strength, h, chains.coefficients)
    _kick_with(covariance, geometry, chains)


@njit(cache=True, nogil=True)
def _fill_coefficients(scheme, friction, strength, h, out):
    if scheme == ABOBA:
        fill_coefficients_aboba(friction, strength, h, out)
    elif scheme == OU:
        fill_coefficients_ou(friction, strength, h, out)
    else:
        fill_coefficients_baoab(friction, strength, h, out)


@_kick_with.of(NoCovariance)
@njit_or_interpreted(cache=True, nogil=True)
def _kick_plainly(covariance, geometry, chains):
    damp_and_kick_afresh(chains.momentum, chains.keys, chains.coefficients, chains.gradient)


@_kick_with.of(Covariance)
def _kick_compensated(covariance, geometry, chains):
    """Noise whose tangent part has covariance variance * I - weight * V, clipped at zero."""
    manifold, (variance, weight) = geometry.manifold, chains.coefficients[3:]
    # If V is large normal to the tangent space, clipping in the whole space would also affect tangent directions.
    clipped = not covariance.isotropic and (weight * covariance.values.max(axis=1) > variance).any()
    if not clipped or manifold.size > FULL_SIZE:
        fill_noise(chains.keys, variance, weight, covariance, chains.noise)
    else:
        tangent = projectors(manifold, chains.position)
        gradient_noise = tangent @ covariance.matrix() @ tangent
        matrix = variance[:, None, None] * tangent - weight[:, None, None] * gradient_noise
        fill_matrix_noise(chains.keys, matrix, chains.noise)
    damp_and_kick(chains.momentum, chains.coefficients, chains.gradient, chains.noise)


def projectors(manifold, position: np.ndarray) -> np.ndarray:
    """Matrices of the tangent projections, ``(n_chains, size, size)``."""
    n_chains, size = len(position), manifold.size
    points = np.repeat(position, size, axis=0)
    axes = np.tile(np.eye(size), (n_chains, 1)).reshape(points.shape)
    manifold.project(points, axes)
    return axes.reshape(n_chains, size, size)
