"""Runs of samplers in compiled code, for targets whose functions numba has compiled."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import typeof

from ....models._compiled_functions import GRADIENT, LOG_DENSITY, CompiledFunctions
from ..._schedule import step_size_at
from .arrays import chains_of
from .kernels import run_steps, run_trajectories

_SECONDS = 0.1  # of one call of a kernel, for which an interrupt has to wait


class CompiledRun:
    """Makes many steps of all chains in one call of a kernel."""

    def __init__(self, sampler: Any, target: Any, functions: CompiledFunctions) -> None:
        self.sampler, self.target, self.functions = sampler, target, functions
        self._n_draws = 1  # of the next call

    def skip(self, state: Any, n_steps: int) -> Any:
        """Make steps without draws."""
        n_chains = len(state.key)
        positions = np.empty((n_chains, 0, *state.position.shape[1:]))
        stats = {name: values[:, np.newaxis][:, :0].copy() for name, values in self._stats(state).items()}
        return self._repeat(state, n_steps, 1, positions, stats)

    def draw(self, state: Any, thin: int, positions: np.ndarray, stats: dict[str, np.ndarray]) -> Any:
        """Make `thin` steps for each draw, and write the positions and the statistics, ``(n_chains, n_draws, ...)``."""
        return self._repeat(state, positions.shape[1], thin, positions, stats)

    def _repeat(self, state: Any, n_draws: int, thin: int, positions: np.ndarray, stats: dict[str, np.ndarray]) -> Any:
        rows = positions.reshape(*positions.shape[:2], state.position[0].size)
        done = 0
        while done < n_draws:
            n, begun = min(self._n_draws, n_draws - done), time.perf_counter()
            state = self._call(state, n, thin, done, rows, stats)
            spent = time.perf_counter() - begun
            self._n_draws = max(1, min(int(n * _SECONDS / max(spent, 1e-9)), 10 * n))
            done += n
        return state

    def _stats(self, state: Any) -> dict[str, np.ndarray]:
        return self.sampler.stats(self.target, state)

    def _call(self, state: Any, n_draws: int, thin: int, begin: int, rows: np.ndarray, stats: dict) -> Any:
        raise NotImplementedError


class StepsRun(CompiledRun):
    """A run of a sampler with a gradient in each step of its integrator, which `move` describes."""

    def __init__(self, sampler: Any, target: Any, functions: CompiledFunctions, move: Any) -> None:
        super().__init__(sampler, target, functions)
        self.move = move

    def _call(self, state: Any, n_draws: int, thin: int, begin: int, rows: np.ndarray, stats: dict) -> Any:
        sampler, manifold, first = self.sampler, self.target.manifold, state.n_steps
        step_sizes = np.array([step_size_at(sampler.step_size, first + i) for i in range(n_draws * thin)], np.float64)
        none = np.empty((len(rows), 0))
        failed = _call_with(
            run_steps,
            (self.functions.gradient,),
            (GRADIENT,),
            self.move,
            manifold.geometry,
            chains_of(state),
            step_sizes,
            first,
            sampler.n_steps,
            thin,
            begin,
            manifold.dim,
            rows,
            stats.get("temperature", none),
            stats.get("thermostat", none),
        )
        if failed >= 0:
            sampler._stop_at_gradient(state._replace(n_steps=failed // sampler.n_steps), failed)
        return state._replace(n_steps=first + n_draws * thin)


class TrajectoriesRun(CompiledRun):
    """A run of `GMC`."""

    def _call(self, state: Any, n_draws: int, thin: int, begin: int, rows: np.ndarray, stats: dict) -> Any:
        first = state.n_steps
        paths = [self.sampler._path(first + i) for i in range(n_draws * thin)]
        failed = _call_with(
            run_trajectories,
            (self.functions.gradient, self.functions.log_density),
            (GRADIENT, LOG_DENSITY),
            self.target.manifold.geometry,
            chains_of(state),
            state.log_density,
            state.accepted,
            np.array([h for h, _ in paths], np.float64),
            np.array([n for _, n in paths], np.int64),
            first,
            thin,
            begin,
            rows,
            stats["log_density"],
            stats["accepted"],
        )
        if failed >= 0:
            self.sampler._stop_at_gradient(state._replace(n_steps=failed), failed)
        return state._replace(n_steps=first + n_draws * thin)


def _call_with(kernel: Any, functions: tuple, kinds: tuple, *arguments: Any) -> Any:
    """Call a kernel with functions, for whose signatures it is compiled, so that it can be cached on disk."""
    entry = kernel.compile((*kinds, *map(typeof, arguments)))
    return entry(*functions, *arguments)
