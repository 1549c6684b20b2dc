"""Moves of samplers of Euclidean spaces with a gradient in each step of their integrator.

A move is a NamedTuple, whose class determines the kernel of `make_steps`. The kernel calls the gradient of the target,
so Python interprets it for Python functions, and it is compiled for functions that numba has compiled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...random._keys import Purpose
from ...random._variates import fill_normal, fold_keys
from ...utils._by_type import by_type
from ...utils._njit import njit_or_interpreted
from .integrator_kernels import (
    add_scaled,
    by_chain,
    damp_and_kick,
    fill_coefficients_baoab,
    first_not_finite,
    move_thermostat,
    step_baoab,
    step_euler,
    step_langevin,
)
from .noise_covariance import fill_compensated

_MOMENTUM = Purpose.MOMENTUM


class Chains(NamedTuple):
    """The arrays of a state, whose first axis is that of the chains; without a momentum or a thermostat None."""

    position: np.ndarray
    momentum: Any
    thermostat: Any
    gradient: np.ndarray
    noise: np.ndarray
    key: np.ndarray  # of the chains
    keys: np.ndarray  # of the step
    coefficients: np.ndarray


def chains_of(state: Any) -> Chains:
    """The arrays of a state, with points in their shape."""
    memory = state.memory
    return Chains(
        state.position,
        getattr(state, "momentum", None),
        getattr(state, "thermostat", None),
        memory.gradient,
        memory.noise,
        state.key,
        memory.keys,
        memory.coefficients,
    )


@by_type
def make_steps(move, geometry, gradient, covariance, chains, h, first, n_steps):
    """Make the steps ``first, ..., first + n_steps - 1`` of the integrator, in place.

    ``gradient(x, keys, t, out)`` writes the gradients at step t, and `covariance` is that of their noise. Returns the
    step at which a gradient is not finite, or -1.
    """


class Langevin(NamedTuple):
    """`SGLD`."""

    dim: int


class EulerFriction(NamedTuple):
    """`SGHMC` with Euler steps."""

    friction: float
    resample_every: int  # 0: never


class SplitFriction(NamedTuple):
    """`SGHMC` with the splitting scheme."""

    friction: float
    resample_every: int


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


@njit_or_interpreted(cache=True, nogil=True)
def begin_step(gradient, chains, t):
    """Compute keys and gradients of step t; returns whether all gradients are finite."""
    fold_keys(chains.key, t, chains.keys)
    gradient(chains.position, chains.keys, t, chains.gradient)
    return first_not_finite(chains.gradient) < 0


@njit_or_interpreted(cache=True, nogil=True)
def chain_lost(chains):
    """The first chain whose position or thermostat is not finite after a step, or -1."""
    chain = first_not_finite(chains.position)
    if chain < 0 and chains.thermostat is not None:
        for c in range(len(chains.thermostat)):
            if not math.isfinite(chains.thermostat[c]):
                return c
    return chain


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


@njit_or_interpreted(cache=True, nogil=True)
def resample_momentum(every, chains, t):
    """Draw new momenta before step t, if it is time; `every` is 0 for never."""
    if every > 0 and t > 0 and t % every == 0:
        fill_normal(chains.keys, _MOMENTUM, by_chain(chains.momentum))


@make_steps.of(EulerFriction)
@njit_or_interpreted(cache=True, nogil=True)
def _step_euler_friction(move, geometry, gradient, covariance, chains, h, first, n_steps):
    n_chains = len(chains.keys)
    friction = np.full(n_chains, move.friction)
    variance, weight = np.full(n_chains, 2 * move.friction * h), np.full(n_chains, h * h)
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        resample_momentum(move.resample_every, chains, t)
        fill_compensated(covariance, chains.keys, variance, weight, chains.noise)
        step_euler(chains.position, chains.momentum, h, friction, chains.gradient, chains.noise)
    return -1


@make_steps.of(SplitFriction)
@njit_or_interpreted(cache=True, nogil=True)
def _step_split_friction(move, geometry, gradient, covariance, chains, h, first, n_steps):
    n_chains, kept = len(chains.keys), math.exp(-move.friction * h)
    variance, weight = np.full(n_chains, 1 - kept**2), np.full(n_chains, (kept * h) ** 2)
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        resample_momentum(move.resample_every, chains, t)
        fill_compensated(covariance, chains.keys, variance, weight, chains.noise)
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
        fill_coefficients_baoab(xi, move.strength, h, coefficients)
        fill_compensated(covariance, chains.keys, coefficients[3], coefficients[4], chains.noise)
        damp_and_kick(v, coefficients, chains.gradient, chains.noise)
        move_thermostat(xi, v, move.dim, h / 2 / move.mass)
        add_scaled(x, h / 2, v)
    return -1
