"""Runs of several chains: steps of the sampler, traces, draws and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..random._keys import Purpose, subkey
from ..samplers._base import BaseSampler, State
from ..utils._threads import Workers
from ._distributed_fits.checkpoints import Checkpoints
from ._distributed_fits.shards import LostShardError
from ._distributed_fits.stored_chains import check_chain, check_draws, window_of
from ._schedule import Schedule
from ._window_average import WindowAverage

_MAX_LOST = 10  # number of worker failures after which a run is aborted


class Chain:
    """One chain: its state, the sum of its last statistics, and its trace.

    Attributes
    ----------
    model : object
        The model; adaptation may replace it after a pass.
    state : State
        The current state.
    log_density : list of float
        One value per pass.
    draws : list of dict of ndarray
        The results of `record` at each draw.

    With `stored`, which `check_chain` has validated, the chain continues from a checkpoint.
    """

    def __init__(
        self,
        sampler: BaseSampler,
        model: Any,
        key: np.uint64,
        schedule: Schedule,
        add: Callable,
        stored: dict[str, Any] | None = None,
    ):
        self.sampler = sampler
        self.model = model
        self.schedule = schedule
        self.average = WindowAverage(*window_of(sampler, schedule), add)
        self.state: State = sampler.init(model, key) if stored is None else stored["state"]
        self.log_density: list[float] = []
        self.draws: list[dict[str, np.ndarray]] = []
        if stored is not None:
            self.average.sums, self.draws = stored["sums"], stored["draws"]
            self.log_density = stored["log_density"].tolist()

    def advance(
        self, iteration: int, record: Callable[[Chain], dict[str, np.ndarray]], adapt: Callable[[Any, State], Any]
    ) -> None:
        """One pass over the data."""
        self.state = self.sampler.step(self.model, self.state)
        self.log_density.append(self.state.log_density)
        self.average.update(iteration, self.state.statistics)
        if iteration <= self.schedule.burn_in:
            self.model = adapt(self.model, self.state)
        if self.schedule.is_draw(iteration):
            self.draws.append(record(self))

    def stored(self) -> dict[str, Any]:
        """The contents of a checkpoint: everything except the settings and the model."""
        log_density = np.array(self.log_density, np.float64)
        return {"state": self.state, "sums": self.average.sums, "log_density": log_density, "draws": self.draws}

    def is_whole_draw(self, stride: int) -> bool:
        """Whether the current draw is the last one, or a multiple of `stride` before it; never if `stride` is 0."""
        return stride > 0 and (self.schedule.n_draws - 1 - len(self.draws)) % stride == 0

    def estimate(self) -> tuple[Any, int]:
        """Sum of statistics and number of its passes: of the last window, or of the last pass if there is none yet."""
        total, n = self.average.total()
        return (total, n) if n else (self.state.statistics, 1)

    def quality(self) -> float:
        """Mean log density after burn-in (during burn-in, of all passes), the criterion for the best chain."""
        kept = self.log_density[self.schedule.burn_in :] or self.log_density
        return float(np.mean(kept))


def best_chain(chains: list[Chain]) -> int:
    """Index of the chain with the highest mean log density."""
    return max(range(len(chains)), key=lambda chain: chains[chain].quality())


def run_chains(
    sampler: BaseSampler,
    model: Any,
    key: np.uint64,
    n_chains: int,
    schedule: Schedule,
    *,
    add: Callable[[Any, Any], Any],
    record: Callable[[Chain], dict[str, np.ndarray]],
    after_pass: Callable[[int, list[Chain]], bool],
    workers: Workers,
    adapt: Callable[[Any, State], Any] = lambda model, state: model,
    checkpoints: Checkpoints | None = None,
) -> list[Chain]:
    """Run `n_chains` chains in parallel until the end of the schedule, or until `after_pass` returns True.

    Parameters
    ----------
    sampler, model
        The sampler and its model.
    key : uint64
        The key of chain c is ``subkey(key, Purpose.CHAIN, c)``.
    n_chains : int
        Number of chains.
    schedule : Schedule
        Passes, burn-in and thinning.
    add : callable
        Sum of two sufficient statistics.
    record : callable
        Function of a chain at a draw that returns named arrays; the names may differ between draws.
    after_pass : callable
        Function of the number of the pass and the chains, called after each pass.
    workers : Workers
        Threads; one task per chain.
    adapt : callable, optional
        Function of the model and the state after a pass of burn-in that returns the new model of the chain.
    checkpoints : Checkpoints, optional
        Checkpoints to write and to resume from, for models whose rows are in shards.

    Returns
    -------
    chains : list of Chain
        The chains after the last pass.
    """
    keys = [subkey(key, Purpose.CHAIN, chain) for chain in range(n_chains)]
    beginnings = [(sampler, model, chain_key, schedule, add) for chain_key in keys]
    found: tuple[int, list[Chain]] | None = None
    n_lost, last_seen = 0, 0
    try:
        while found is None or found[0] < schedule.max_iter:
            try:
                if found is None:
                    found = checkpoints.load(model, partial(_resume, beginnings)) if checkpoints else None
                    found = found or (0, _run_all(workers, Chain, beginnings))
                    continue
                iteration, chains = found
                if checkpoints and iteration and checkpoints.is_due(iteration):
                    checkpoints.save(iteration, chains, model)
                _run_all(workers, Chain.advance, [(chain, iteration + 1, record, adapt) for chain in chains])
            except LostShardError:  # repeat the passes from the last checkpoint or the start, with the same result
                n_lost += 1
                if n_lost > _MAX_LOST:
                    raise
                model.recover()
                found = None
                continue
            found = iteration + 1, chains
            if iteration + 1 > last_seen:
                last_seen = iteration + 1
                if after_pass(iteration + 1, chains):
                    break
    finally:
        if hasattr(model, "close"):
            model.close()
    return found[1]


def _resume(beginnings: list[tuple], iteration: Any, stored: Any) -> list[Chain]:
    """The chains of a checkpoint after this pass; a ValueError if it is not valid for this run."""
    sampler, model, _, schedule, _ = beginnings[0]
    if type(iteration) is not int or not 0 < iteration < schedule.max_iter:
        raise ValueError(f"no checkpoint is written after pass {iteration!r} of {schedule.max_iter}")
    if not isinstance(stored, list) or len(stored) != len(beginnings):
        raise ValueError(f"it does not have {len(beginnings)} chains")
    for chain in stored:
        check_chain(chain, sampler, model, schedule, iteration)
    check_draws(stored)
    return [
        Chain(sampler, model, key, schedule, add, chain)
        for (_, _, key, _, add), chain in zip(beginnings, stored, strict=True)
    ]


def _run_all(workers: Workers, function: Callable, tasks: list[tuple]) -> list:
    """Run one task per chain; all tasks have ended before the error of a lost shard is raised."""

    def run(*task: Any) -> Any:
        try:
            return function(*task)
        except LostShardError as error:
            return error

    results = workers.run(run, tasks)
    for result in results:
        if isinstance(result, LostShardError):
            raise result
    return results
