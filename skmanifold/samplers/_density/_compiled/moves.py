"""Moves of samplers with a gradient in each step; each is the compiled form of `_move` or `step` of one sampler.

A move is a NamedTuple, whose class determines the kernel of `make_step`. It makes one step of a chain, which has
`n_steps` steps of the integrator, and returns the first of them at which a gradient is not finite, or -1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....random._variates import fold_keys
from ....utils._by_type import by_type
from ....utils._njit import njit
from ..integrator_kernels import (
    add_scaled,
    damp_and_kick,
    fill_coefficients_baoab,
    fill_scaled_noise,
    first_not_finite,
    move_thermostat,
    step_baoab,
    step_euler,
    step_langevin,
)


@by_type
def make_step(move, geometry, gradient, chains, h, first, n_steps):
    """Make the steps of the integrator ``first, ..., first + n_steps - 1``, in place."""


class Langevin(NamedTuple):
    """`SGLD`."""

    dim: int


class EulerFriction(NamedTuple):
    """`SGHMC` with Euler steps."""

    friction: float


class SplitFriction(NamedTuple):
    """`SGHMC` with the splitting scheme."""

    friction: float


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


@njit(cache=True, nogil=True)
def _begin(gradient, chains, t):
    """Keys and gradients of step t; whether all gradients are finite."""
    fold_keys(chains.key, t, chains.keys)
    gradient(chains.position, chains.gradient)
    return first_not_finite(chains.gradient) < 0


@make_step.of(Langevin)
@njit(cache=True, nogil=True)
def _step_langevin(move, geometry, gradient, chains, h, first, n_steps):
    variance = np.full(len(chains.keys), 2 * h)
    for t in range(first, first + n_steps):
        if not _begin(gradient, chains, t):
            return t
        fill_scaled_noise(chains.keys, variance, chains.noise)
        step_langevin(chains.position, h, chains.gradient, chains.noise)
    return -1


@make_step.of(EulerFriction)
@njit(cache=True, nogil=True)
def _step_euler_friction(move, geometry, gradient, chains, h, first, n_steps):
    n_chains = len(chains.keys)
    variance, friction = np.full(n_chains, 2 * move.friction * h), np.full(n_chains, move.friction)
    for t in range(first, first + n_steps):
        if not _begin(gradient, chains, t):
            return t
        fill_scaled_noise(chains.keys, variance, chains.noise)
        step_euler(chains.position, chains.momentum, h, friction, chains.gradient, chains.noise)
    return -1


@make_step.of(SplitFriction)
@njit(cache=True, nogil=True)
def _step_split_friction(move, geometry, gradient, chains, h, first, n_steps):
    kept = math.exp(-move.friction * h)
    variance = np.full(len(chains.keys), 1 - kept**2)
    for t in range(first, first + n_steps):
        if not _begin(gradient, chains, t):
            return t
        fill_scaled_noise(chains.keys, variance, chains.noise)
        step_baoab(chains.position, chains.momentum, h, kept, chains.gradient, chains.noise)
    return -1


@make_step.of(EulerThermostat)
@njit(cache=True, nogil=True)
def _step_euler_thermostat(move, geometry, gradient, chains, h, first, n_steps):
    variance = np.full(len(chains.keys), 2 * move.strength * h)
    for t in range(first, first + n_steps):
        if not _begin(gradient, chains, t):
            return t
        fill_scaled_noise(chains.keys, variance, chains.noise)
        friction = chains.thermostat.copy()
        move_thermostat(chains.thermostat, chains.momentum, move.dim, h / move.mass)
        step_euler(chains.position, chains.momentum, h, friction, chains.gradient, chains.noise)
    return -1


@make_step.of(SplitThermostat)
@njit(cache=True, nogil=True)
def _step_split_thermostat(move, geometry, gradient, chains, h, first, n_steps):
    x, v, xi, coefficients = chains.position, chains.momentum, chains.thermostat, chains.coefficients
    for t in range(first, first + n_steps):
        if not _begin(gradient, chains, t):
            return t
        add_scaled(v, h, chains.gradient)
        add_scaled(x, h / 2, v)
        move_thermostat(xi, v, move.dim, h / 2 / move.mass)
        fill_coefficients_baoab(xi, move.strength, h, coefficients)
        fill_scaled_noise(chains.keys, coefficients[3], chains.noise)
        damp_and_kick(v, coefficients, chains.gradient, chains.noise)
        move_thermostat(xi, v, move.dim, h / 2 / move.mass)
        add_scaled(x, h / 2, v)
    return -1
