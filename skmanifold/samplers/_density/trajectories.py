"""Transitions of Hamiltonian Monte Carlo; interpreted or compiled, as `moves`."""

from __future__ import annotations

import math

import numpy as np

from ...manifolds._geometry import flow, project, retract
from ...random._keys import Purpose, uniform
from ...random._variates import fill_normal, fold_keys
from ...utils._njit import njit, njit_or_interpreted
from .integrator_kernels import accept, add_scaled, by_chain, choose, first_not_finite, mean_squares

_NOISE = Purpose.NOISE
_PATHS = np.uint64(0x9A7B5)  # key of the random path lengths, the same for all chains


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

    ``gradient(x, keys, t, out)`` and ``density(x, out)`` write the gradients and the log densities. The gradient in
    `chains` is that of the position, before and after the transition.
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
