"""Runs of several chains: steps of the sampler, traces, draws and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..random._keys import Purpose, subkey
from ..utils._threads import Workers
from ._distributed_fits.checkpoints import Checkpoints, check_chain, check_draws, check_trace, window_of
from ._distributed_fits.exchange import MAX_LOST, LostShardError
from ._schedule import Schedule, WindowAverage

if TYPE_CHECKING:
    from ..base._strategy import FitStrategy


class Chain:
    """One chain: its state, the sum of its last statistics, the `log_density` of each pass, the `draws` of `record`.

    During burn-in, which ends early when all chains have settled, `adapt` may replace the model after a pass. With
    `stored`, validated by `check_chain`, the chain continues from a checkpoint.
    """

    def __init__(
        self, plan: FitStrategy, model: Any, key: np.uint64, schedule: Schedule, stored: dict[str, Any] | None = None
    ):
        self.plan = plan
        self.sampler = plan.passes
        self.model = model
        self.follow(schedule)
        self.state: Any = self.sampler.init(model, key) if stored is None else stored["state"]
        self.log_density: list[float] = []
        self.draws: list[dict[str, np.ndarray]] = []
        if stored is not None:
            self.average.sums, self.draws = stored["sums"], stored["draws"]
            self.log_density = stored["log_density"].tolist()
            self.model = plan.adapt(model, self.state)

    def follow(self, schedule: Schedule) -> None:
        """Follow this schedule, during burn-in."""
        self.schedule = schedule
        window, last, first = window_of(self.sampler, schedule)
        self.average = WindowAverage(window, last, first, self.plan.add)

    def advance(self, iteration: int) -> None:
        """One pass over the data."""
        self.state = self.sampler.step(self.model, self.state)
        self.log_density.append(self.state.log_density)
        self.average.update(iteration, getattr(self.state, "statistics", None))
        if iteration <= self.schedule.burn_in:
            self.model = self.plan.adapt(self.model, self.state)
        if self.schedule.is_draw(iteration):
            self.draws.append(self.plan.record(self))

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
        return (total, n) if n else (getattr(self.state, "statistics", None), 1)

    def quality(self) -> float:
        """Mean log density after burn-in (during burn-in, of all passes), the criterion for the best chain."""
        kept = self.log_density[self.schedule.burn_in :] or self.log_density
        return float(np.mean(kept))


def best_chain(chains: list[Chain]) -> int:
    """Index of the chain with the highest mean log density.

    Parameters
    ----------
    chains : list of Chain
        Chains with at least one pass.

    Returns
    -------
    index : int
        Position in the list. During burn-in the mean is over all passes, afterwards over those after burn-in.
    """
    return max(range(len(chains)), key=lambda chain: chains[chain].quality())


def run_chains(
    plan: FitStrategy,
    model: Any,
    key: np.uint64,
    n_chains: int,
    schedule: Schedule,
    after_pass: Callable[[int, list[Chain]], bool],
    workers: Workers,
    checkpoints: Checkpoints | None = None,
) -> list[Chain]:
    """Run `n_chains` chains, a task each, to the end of the schedule or until ``after_pass(pass, chains)`` is true.

    The key of chain c is ``subkey(key, Purpose.CHAIN, c)``. With `checkpoints`, for models whose rows are in shards,
    they are written and resumed from. Returns the chains after the last pass.
    """
    keys = [subkey(key, Purpose.CHAIN, chain) for chain in range(n_chains)]
    chain_arguments = [(plan, model, chain_key, schedule) for chain_key in keys]
    found: tuple[int, list[Chain]] | None = None
    n_lost, last_seen = 0, 0
    while found is None or found[0] < found[1][0].schedule.max_iter:
        try:
            if found is None:
                found = checkpoints.load(model, partial(_resume, chain_arguments)) if checkpoints else None
                found = found or (0, _run_all(workers, Chain, chain_arguments))
                continue
            iteration, chains = found
            if checkpoints and iteration and iteration % checkpoints.every == 0:
                checkpoints.save(iteration, chains, model)
            _run_all(workers, Chain.advance, [(chain, iteration + 1) for chain in chains])
        except LostShardError:  # repeat the passes from the last checkpoint or the start, with the same result
            n_lost += 1
            if n_lost > MAX_LOST:
                raise
            model.recover()
            found = None
            continue
        found = iteration + 1, chains
        schedule = chains[0].schedule
        settled = settled_schedule(plan, schedule, [chain.log_density for chain in chains])
        if settled is not schedule:
            for chain in chains:
                chain.follow(settled)
        if iteration + 1 > last_seen:
            last_seen = iteration + 1
            if after_pass(iteration + 1, chains):
                break
    return found[1]


def settled_schedule(plan: FitStrategy, schedule: Schedule, traces: list[list[float]]) -> Schedule:
    """The schedule after these traces: another one if all chains have settled, so that burn-in ends early."""
    iteration, first = len(traces[0]), plan.n_unsettled
    if iteration >= schedule.burn_in or not all(plan.has_settled(trace[first:]) for trace in traces):
        return schedule
    return schedule.settled(iteration, plan.passes.average_window(schedule.n_kept_passes))


def _resume(chain_arguments: list[tuple], iteration: Any, stored: Any) -> list[Chain]:
    """The chains of a checkpoint after this pass; a ValueError if it is not valid for this run."""
    plan, model, _, schedule = chain_arguments[0]
    if type(iteration) is not int or not 0 < iteration < schedule.max_iter:
        raise ValueError(f"no checkpoint is written after pass {iteration!r} of {schedule.max_iter}")
    if not isinstance(stored, list) or len(stored) != len(chain_arguments):
        raise ValueError(f"it does not have {len(chain_arguments)} chains")
    traces = [check_trace(chain, iteration) for chain in stored]
    for n in range(1, min(iteration, schedule.burn_in) + 1):
        settled = settled_schedule(plan, schedule, [trace[:n] for trace in traces])
        if settled is not schedule:
            schedule = settled
            break
    if iteration >= schedule.max_iter:
        raise ValueError(f"no checkpoint is written after pass {iteration} of {schedule.max_iter}")
    for chain in stored:
        check_chain(chain, plan.passes, model, schedule, iteration)
    check_draws(stored, plan.draws_vary)
    keys = [key for _, _, key, _ in chain_arguments]
    return [Chain(plan, model, key, schedule, chain) for key, chain in zip(keys, stored, strict=True)]


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
