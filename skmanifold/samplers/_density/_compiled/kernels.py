"""Kernels that make many steps of all chains and write their draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....manifolds._geometry import flow, project, retract
from ....random._keys import Purpose
from ....random._variates import fill_normal, fold_keys
from ....utils._njit import njit
from ..integrator_kernels import accept_moves, add_scaled, choose, first_not_finite, mean_squares
from .moves import make_step

_NOISE = Purpose.NOISE


@njit(cache=True, nogil=True)
def run_steps(gradient, move, geometry, chains, step_sizes, first, n_steps, thin, begin, dim, draws, temperatures, thermostats):
    """Make a step for each step size, and write every `thin`-th state; return the step that failed, or -1.

    Step i has the steps of the integrator from ``(first + i) * n_steps`` on.
    """
    for i in range(len(step_sizes)):
        failed = make_step(move, geometry, gradient, chains, step_sizes[i], (first + i) * n_steps, n_steps)
        if failed >= 0:
            return failed
        if (i + 1) % thin == 0 and draws.shape[1] > 0:
            draw = begin + (i + 1) // thin - 1
            draws[:, draw] = chains.position
            if temperatures.shape[1] > 0:
                temperatures[:, draw] = mean_squares(chains.momentum, dim)
            if thermostats.shape[1] > 0:
                thermostats[:, draw] = chains.thermostat
    return -1


@njit(cache=True, nogil=True)
def run_trajectories(gradient, density, geometry, chains, log_density, accepted, times, counts, first, thin, begin, draws, log_densities, acceptances):
    """Make transitions of `GMC` with these step sizes and numbers of steps; as `run_steps`."""
    x, v, g = chains.position, chains.noise, chains.gradient
    y, start, proposed = np.empty_like(x), np.empty_like(g), np.empty_like(log_density)
    for i in range(len(times)):
        h = times[i]
        fold_keys(chains.key, first + i, chains.keys)
        fill_normal(chains.keys, _NOISE, v)
        project(geometry, x, v)
        kinetic = mean_squares(v, 2)
        y[:], start[:] = x, g
        add_scaled(v, h / 2, g)
        project(geometry, y, v)
        for left in range(counts[i] - 1, -1, -1):
            flow(geometry, y, v, h)
            gradient(y, g)
            add_scaled(v, h if left else h / 2, g)
            project(geometry, y, v)
        retract(geometry, y, v)
        density(y, proposed)
        accepted[:] = accept_moves(chains.keys, proposed - log_density + kinetic - mean_squares(v, 2))
        choose(x, y, accepted)
        choose(g, start, ~accepted)
        if first_not_finite(g) >= 0:
            return first + i
        log_density[:] = np.where(accepted, proposed, log_density)
        if (i + 1) % thin == 0 and draws.shape[1] > 0:
            draw = begin + (i + 1) // thin - 1
            draws[:, draw] = x
            log_densities[:, draw] = log_density
            acceptances[:, draw] = accepted
    return -1
