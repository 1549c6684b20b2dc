"""Runs of samplers whose target has compiled functions: many steps in one call of a kernel."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ...models._compiled_functions import GRADIENT, LOG_DENSITY, CompiledFunctions
from ...numerics.special import copy_to
from ...utils._njit import call_compiled, njit_or_interpreted
from .._schedule import step_sizes_at
from .integrator_kernels import mean_squares
from .moves import chain_lost, chains_of, make_steps, make_transition
from .noise_covariance import NoCovariance

_SECONDS = 0.1  # of one call of a kernel, for which an interrupt has to wait


@njit_or_interpreted(cache=True, nogil=True)
def _run_steps(
    gradient, move, geometry, covariance, chains, step_sizes, first, n_steps, thin, begin, dim, draws, temperatures,
    thermostats,
):  # fmt: skip
    """Make a step of each size, and write every `thin`-th state from `begin` on; return the step that fails, or -1.

    Step i has the steps ``(first + i) * n_steps, ...`` of the integrator.
    """
    for i in range(len(step_sizes)):
        h, start = step_sizes[i], (first + i) * n_steps
        failed = make_steps(move, geometry, gradient, covariance, chains, h, start, n_steps)
        if failed < 0 and chain_lost(chains.position, chains.thermostat) >= 0:
            failed = start + n_steps - 1
        if failed >= 0:
            return failed
        draw = begin + i // thin
        if (i + 1) % thin == 0 and draw < draws.shape[1]:
            copy_to(draws[:, draw], chains.position)
            if temperatures.shape[1] > 0:
                copy_to(temperatures[:, draw], mean_squares(chains.momentum, dim))
            if thermostats.shape[1] > 0:
                copy_to(thermostats[:, draw], chains.thermostat)
    return -1


@njit_or_interpreted(cache=True, nogil=True)
def _run_transitions(
    gradient, density, geometry, chains, log_density, accepted, step_sizes, n_steps, first, thin, begin, draws,
    log_densities, acceptances,
):  # fmt: skip
    """Make transitions of `GMC` of these step sizes and numbers of steps; as `_run_steps`."""
    for i in range(len(step_sizes)):
        h, t = step_sizes[i], first + i
        if not make_transition(gradient, density, geometry, chains, log_density, accepted, h, n_steps[i], t):
            return t
        draw = begin + i // thin
        if (i + 1) % thin == 0 and draw < draws.shape[1]:
            copy_to(draws[:, draw], chains.position)
            copy_to(log_densities[:, draw], log_density)
            copy_to(acceptances[:, draw], accepted)
    return -1


class CompiledRun:
    """Makes the steps of all chains in few calls of a kernel, ``_call(state, n_steps, thin, begin, draws, stats)``.

    A subclass defines it; it makes steps and writes the draws from `begin` on.
    """

    def __init__(self, sampler: Any, target: Any, functions: CompiledFunctions) -> None:
        self.sampler, self.target, self.functions = sampler, target, functions
        self._n_steps = 1  # of the next call

    def skip(self, state: Any, n_steps: int) -> Any:
        """Make steps whose states are not written."""
        stats = {name: values[:, np.newaxis][:, :0] for name, values in self.sampler.stats(self.target, state).items()}
        return self._repeat(state, n_steps, 1, np.empty((len(state.key), 0, self.target.manifold.size)), stats)

    def draw(self, state: Any, thin: int, positions: np.ndarray, stats: dict[str, np.ndarray]) -> Any:
        """Make `thin` steps for each draw.

        The positions and statistics are written to `positions` and `stats`, arrays ``(n_chains, n_draws, ...)``.
        """
        n_chains, n_draws = positions.shape[:2]
        return self._repeat(state, n_draws * thin, thin, positions.reshape(n_chains, n_draws, -1), stats)

    def _repeat(self, state: Any, n_steps: int, thin: int, draws: np.ndarray, stats: dict[str, np.ndarray]) -> Any:
        stats = {name: np.ascontiguousarray(values) for name, values in stats.items()}
        done = 0
        while done < n_steps:
            begun = time.perf_counter()
            n = min(-(-self._n_steps // thin) * thin, n_steps - done)
            state = self._call(state, n, thin, done // thin, draws, stats)
            done += n
            seconds = max(time.perf_counter() - begun, 1e-9)
            self._n_steps = max(1, min(int(n * _SECONDS / seconds), 10 * n))
        return state

    def _call(self, state: Any, n_steps: int, thin: int, begin: int, draws: np.ndarray, stats: dict) -> Any:
        raise NotImplementedError

    def _chains(self, state: Any) -> Any:
        """The arrays of a state with points as rows."""
        chains, n = chains_of(state), len(state.key)
        points = {name: getattr(chains, name) for name in ("position", "momentum", "gradient", "noise")}
        return chains._replace(**{name: array.reshape(n, array.size // n) for name, array in points.items()})

    def _counted(self, state: Any, n_steps: int, failed: int, per_step: int) -> Any:
        """The state after these steps, or a `NonFiniteError` at the step of the integrator that failed."""
        if failed >= 0:
            self.sampler._stop_at(state._replace(n_steps=failed // per_step), failed)
        return state._replace(n_steps=state.n_steps + n_steps)


class StepsRun(CompiledRun):
    """A run of a sampler with a `move`."""

    def __init__(self, sampler: Any, target: Any, functions: CompiledFunctions, move: Any) -> None:
        super().__init__(sampler, target, functions)
        self.move = move

    def _call(self, state: Any, n_steps: int, thin: int, begin: int, draws: np.ndarray, stats: dict) -> Any:
        sampler, manifold, first = self.sampler, self.target.manifold, state.n_steps
        none = np.empty((len(draws), 0))
        failed = call_compiled(
            _run_steps,
            {GRADIENT: self.functions.gradient},
            self.move,
            manifold.geometry,
            NoCovariance(manifold.size),
            self._chains(state),
            step_sizes_at(sampler.step_size, first, n_steps),
            first,
            sampler.n_steps,
            thin,
            begin,
            manifold.dim,
            draws,
            stats.get("temperature", none),
            stats.get("thermostat", none),
        )
        return self._counted(state, n_steps, failed, sampler.n_steps)


class TransitionsRun(CompiledRun):
    """A run of `GMC`."""

    def _call(self, state: Any, n_steps: int, thin: int, begin: int, draws: np.ndarray, stats: dict) -> Any:
        first = state.n_steps
        failed = call_compiled(
            _run_transitions,
            {GRADIENT: self.functions.gradient, LOG_DENSITY: self.functions.log_density},
            self.target.manifold.geometry,
            self._chains(state),
            state.log_density,
            state.accepted,
            *self.sampler._paths(first, n_steps),
            first,
            thin,
            begin,
            draws,
            stats["log_density"],
            stats["accepted"],
        )
        return self._counted(state, n_steps, failed, 1)
