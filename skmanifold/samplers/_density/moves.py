"""Moves of samplers with gradients, on Euclidean spaces and along geodesics, and transitions of Metropolis samplers.

A move is a NamedTuple, whose class determines the kernel of `make_steps`. The kernel calls the gradient of the target,
so Python interprets it for Python functions, and it is compiled for functions that numba has compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...manifolds._geometry import flow, project, retract
from ...random._keys import Purpose, uniform
from ...random._variates import fill_normal, fold_keys
from ...utils._njit import by_type, njit, njit_or_interpreted
from .integrator_kernels import (
    ABOBA,
    BAOAB,
    OU,
    accept,
    add_scaled,
    by_chain,
    choose,
    damp_and_kick,
    damp_and_kick_afresh,
    fill_coefficients,
    first_not_finite,
    mean_squares,
    move_thermostat,
    step_baoab,
    step_euler,
    step_langevin,
)
from .noise_covariance import FULL_SIZE, Covariance, NoCovariance, fill_compensated, fill_matrix_noise

_MOMENTUM, _NOISE = Purpose.MOMENTUM, Purpose.NOISE
SCHEMES = {"aboba": ABOBA, "ou": OU, "baoab": BAOAB}
_RETRACT_EVERY = 100  # steps; rounding errors become visible only after thousands of steps
_NO_MOMENTUM, NO_THERMOSTAT = np.empty((0, 0)), np.empty(0)
_PATHS = np.uint64(0x9A7B5)  # key of the random path lengths, the same for all chains


class Chains(NamedTuple):
    """The arrays of a state, whose first axis is that of the chains; without a momentum or a thermostat empty ones."""

    position: np.ndarray
    momentum: np.ndarray
    thermostat: np.ndarray
    gradient: np.ndarray
    noise: np.ndarray
    key: np.ndarray  # of the chains
    keys: np.ndarray  # of the step
    coefficients: np.ndarray


def chains_of(state: Any) -> Chains:
    """The arrays of a state, with points in their shape."""
    memory = state.memory
    momentum, thermostat = getattr(state, "momentum", _NO_MOMENTUM), getattr(state, "thermostat", NO_THERMOSTAT)
    arrays = memory.gradient, memory.noise, state.key, memory.keys, memory.coefficients
    return Chains(state.position, momentum, thermostat, *arrays)


@by_type
def make_steps(move, geometry, gradient, covariance, chains, h, first, n_steps):
    """Make the steps ``first, ..., first + n_steps - 1`` of the integrator, in place.

    ``gradient(x, keys, t, out)`` writes gradients with noise of `covariance`. Returns the step of the first gradient
    that is not finite, or -1.
    """


@njit_or_interpreted(cache=True, nogil=True)
def begin_step(gradient, chains, t):
    """Compute keys and gradients of step t; returns whether all gradients are finite."""
    fold_keys(chains.key, t, chains.keys)
    gradient(chains.position, chains.keys, t, chains.gradient)
    return first_not_finite(chains.gradient) < 0


@njit_or_interpreted(cache=True, nogil=True)
def resample_momentum(every, chains, t):
    """Draw new momenta before step t, if it is time; `every` is 0 for never."""
    if every > 0 and t > 0 and t % every == 0:
        fill_normal(chains.keys, _MOMENTUM, by_chain(chains.momentum))


@njit(cache=True, nogil=True)
def chain_lost(position, thermostat):
    """The first chain whose position or thermostat is not finite after a step, or -1."""
    chain = first_not_finite(position)
    if chain < 0:
        for c in range(len(thermostat)):
            if not math.isfinite(thermostat[c]):
                return c
    return chain


# On Euclidean spaces. Each move has a loop of its own, because a call with the arrays of the chains takes as long as
# a tenth of a step in few dimensions.


class Langevin(NamedTuple):
    """`SGLD`."""

    dim: int


class Friction(NamedTuple):
    """`SGHMC` with Euler steps, or with the splitting scheme."""

    is_euler: bool
    friction: float
    resample_every: int  # 0: never


class EulerThermostat(NamedTuple):
    """`SGNHT` with Euler steps."""

    strength: float
    mass: float
    dim: int


class SplitThermostat(NamedTuple):
    """`SGNHT` with the splitting scheme."""

    strength: float
    mass: float
    dim: int


@make_steps.of(Langevin)
@njit_or_interpreted(cache=True, nogil=True)
def _step_langevin(move, geometry, gradient, covariance, chains, h, first, n_steps):
    n_chains = len(chains.keys)
    variance, weight = np.full(n_chains, 2 * h), np.full(n_chains, h * h)
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        fill_compensated(covariance, chains.keys, variance, weight, chains.noise)
        step_langevin(chains.position, h, chains.gradient, chains.noise)
    return -1


@make_steps.of(Friction)
@njit_or_interpreted(cache=True, nogil=True)
def _step_with_friction(move, geometry, gradient, covariance, chains, h, first, n_steps):
    n_chains, kept = len(chains.keys), math.exp(-move.friction * h)
    friction = np.full(n_chains, move.friction)
    variance = np.full(n_chains, 2 * move.friction * h if move.is_euler else 1 - kept**2)
    weight = np.full(n_chains, h * h if move.is_euler else (kept * h) ** 2)
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        resample_momentum(move.resample_every, chains, t)
        fill_compensated(covariance, chains.keys, variance, weight, chains.noise)
        if move.is_euler:
            step_euler(chains.position, chains.momentum, h, friction, chains.gradient, chains.noise)
        else:
            step_baoab(chains.position, chains.momentum, h, kept, chains.gradient, chains.noise)
    return -1


@make_steps.of(EulerThermostat)
@njit_or_interpreted(cache=True, nogil=True)
def _step_euler_thermostat(move, geometry, gradient, covariance, chains, h, first, n_steps):
    n_chains = len(chains.keys)
    variance, weight = np.full(n_chains, 2 * move.strength * h), np.full(n_chains, h * h)
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        fill_compensated(covariance, chains.keys, variance, weight, chains.noise)
        friction = chains.thermostat.copy()
        move_thermostat(chains.thermostat, chains.momentum, move.dim, h / move.mass)
        step_euler(chains.position, chains.momentum, h, friction, chains.gradient, chains.noise)
    return -1


@make_steps.of(SplitThermostat)
@njit_or_interpreted(cache=True, nogil=True)
def _step_split_thermostat(move, geometry, gradient, covariance, chains, h, first, n_steps):
    x, v, xi, coefficients = chains.position, chains.momentum, chains.thermostat, chains.coefficients
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        add_scaled(v, h, chains.gradient)
        add_scaled(x, h / 2, v)
        move_thermostat(xi, v, move.dim, h / 2 / move.mass)
        fill_coefficients(BAOAB, xi, move.strength, h, coefficients)
        fill_compensated(covariance, chains.keys, coefficients[3], coefficients[4], chains.noise)
        damp_and_kick(v, coefficients, chains.gradient, chains.noise)
        move_thermostat(xi, v, move.dim, h / 2 / move.mass)
        add_scaled(x, h / 2, v)
    return -1


# Along geodesics


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


make_steps.of(GeodesicFriction, GeodesicThermostat)(make_geodesic_steps)


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
    fill_coefficients(move.scheme, friction, move.friction, h, chains.coefficients)
    _kick_with(covariance, geometry, chains)


@kick.of(GeodesicThermostat)
@njit_or_interpreted(cache=True, nogil=True)
def _kick_with_thermostat(move, geometry, covariance, chains, h):
    fill_coefficients(move.scheme, chains.thermostat, move.strength, h, chains.coefficients)
    _kick_with(covariance, geometry, chains)


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
        fill_compensated(covariance, chains.keys, variance, weight, chains.noise)
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


# Hamiltonian Monte Carlo


def functions_of(model: Any) -> tuple[Any, Any]:
    """The gradient and the log density of a target at all data, as kernels call them."""

    def gradient(x: np.ndarray, keys: np.ndarray, t: int, out: np.ndarray) -> None:
        model.grad_log_density(x, None, out)

    def density(x: np.ndarray, out: np.ndarray) -> None:
        out[:] = model.log_density(x)

    return gradient, density


@njit(cache=True, nogil=True)
def vary_paths(jitter, first, step_sizes, n_steps):
    """Give transitions ``first, first + 1, ...`` paths of random lengths, of the fewest steps that are not longer."""
    for i in range(len(step_sizes)):
        length = n_steps[i] * (1 + jitter * (2 * uniform(_PATHS, np.uint64(first + i)) - 1))
        n_steps[i] = math.ceil(length)
        step_sizes[i] = step_sizes[i] * length / n_steps[i]


@njit_or_interpreted(cache=True, nogil=True)
def make_transition(gradient, density, geometry, chains, log_density, accepted, h, n_steps, t):
    """Make transition t of `GMC`, with `n_steps` steps of size h, in place; returns whether all gradients are finite.

    ``gradient(x, keys, t, out)`` and ``density(x, out)`` write gradients and log densities. The gradient in `chains` is
    that of the position, before and after.
    """
    x, v, g = chains.position, chains.noise, chains.gradient
    y, start, proposed = x.copy(), g.copy(), np.empty_like(log_density)
    fold_keys(chains.key, t, chains.keys)
    fill_normal(chains.keys, _NOISE, by_chain(v))
    project(geometry, x, v)
    kinetic = mean_squares(v, 2)
    add_scaled(v, h / 2, g)
    project(geometry, y, v)
    for left in range(n_steps - 1, -1, -1):
        flow(geometry, y, v, h)
        gradient(y, chains.keys, t, g)
        add_scaled(v, h if left else h / 2, g)  # half of this step and half of the next are one
        project(geometry, y, v)
    retract(geometry, y, v)
    density(y, proposed)
    accept(chains.keys, kinetic, mean_squares(v, 2), log_density, proposed, accepted)
    choose(x, y, accepted)
    choose(g, start, ~accepted)
    return first_not_finite(g) < 0
