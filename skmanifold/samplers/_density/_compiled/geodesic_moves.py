"""Moves of `SGGMC` and `GSGNHT`; see `moves`."""

from __future__ import annotations

from typing import NamedTuple

from ....manifolds._geometry import flow, project, retract
from ....random._variates import fold_keys
from ....utils._by_type import by_type
from ....utils._njit import njit
from ..integrator_kernels import (
    add_scaled,
    damp_and_kick_afresh,
    fill_coefficients_aboba,
    fill_coefficients_baoab,
    fill_coefficients_ou,
    first_not_finite,
    move_thermostat,
)
from .moves import make_step

SCHEMES = {"aboba": 0, "ou": 1, "baoab": 2}
_RETRACT_EVERY = 100  # as in `geodesic`


class GeodesicFriction(NamedTuple):
    """`SGGMC`."""

    scheme: int
    friction: float


class GeodesicThermostat(NamedTuple):
    """`GSGNHT`."""

    scheme: int
    strength: float
    mass: float
    dim: int


@by_type
def drift(move, geometry, chains, time):
    """Move along geodesics."""


@by_type
def fill_coefficients(move, chains, h):
    """Write the coefficients of the velocity update."""


@njit(cache=True, nogil=True)
def _fill(scheme, friction, strength, h, out):
    if scheme == 0:
        fill_coefficients_aboba(friction, strength, h, out)
    elif scheme == 1:
        fill_coefficients_ou(friction, strength, h, out)
    else:
        fill_coefficients_baoab(friction, strength, h, out)


@drift.of(GeodesicFriction)
@njit(cache=True, nogil=True)
def _drift(move, geometry, chains, time):
    flow(geometry, chains.position, chains.momentum, time)


@drift.of(GeodesicThermostat)
@njit(cache=True, nogil=True)
def _drift_with_thermostat(move, geometry, chains, time):
    flow(geometry, chains.position, chains.momentum, time)
    move_thermostat(chains.thermostat, chains.momentum, move.dim, time / move.mass)


@fill_coefficients.of(GeodesicFriction)
@njit(cache=True, nogil=True)
def _fill_constant(move, chains, h):
    friction = chains.coefficients[0].copy()
    friction[:] = move.friction
    _fill(move.scheme, friction, move.friction, h, chains.coefficients)


@fill_coefficients.of(GeodesicThermostat)
@njit(cache=True, nogil=True)
def _fill_current(move, chains, h):
    _fill(move.scheme, chains.thermostat, move.strength, h, chains.coefficients)


@njit(cache=True, nogil=True)
def _make_step(move, geometry, gradient, chains, h, first, n_steps):
    x, v, stop = chains.position, chains.momentum, first + n_steps
    kicks_first = move.scheme == 2
    if not kicks_first:
        drift(move, geometry, chains, h / 2)
    for t in range(first, stop):
        fold_keys(chains.key, t, chains.keys)
        gradient(x, chains.gradient)
        if first_not_finite(chains.gradient) >= 0:
            return t
        if kicks_first:
            add_scaled(v, h, chains.gradient)
            project(geometry, x, v)
            drift(move, geometry, chains, h / 2)
        fill_coefficients(move, chains, h)
        damp_and_kick_afresh(v, chains.keys, chains.coefficients, chains.gradient)
        project(geometry, x, v)
        drift(move, geometry, chains, h if t + 1 < stop and not kicks_first else h / 2)
        if t % _RETRACT_EVERY == _RETRACT_EVERY - 1:
            retract(geometry, x, v)
    return -1


make_step.of(GeodesicFriction)(_make_step)
make_step.of(GeodesicThermostat)(_make_step)
