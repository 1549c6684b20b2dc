"""Passes over the data: which are burn-in, which are kept, sums over the last of them, and passes of minibatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..samplers import BaseSampler, ManifoldSampler
from ..samplers._states import PassState


class Schedule(NamedTuple):
    """The passes of a chain: the first `burn_in` of `max_iter` are discarded, then every `thin`-th pass is a draw.

    Attributes
    ----------
    max_iter : int
        Number of passes.
    burn_in : int
        Passes that are discarded, fewer than `max_iter`.
    thin : int
        Passes from one draw to the next.
    """

    max_iter: int
    burn_in: int
    thin: int

    @classmethod
    def from_params(cls, max_iter: int, burn_in: int | None, thin: int) -> Schedule:
        """A schedule from the parameters of an estimator.

        Parameters
        ----------
        max_iter : int
        burn_in : int or None
            Passes that are discarded; None is half of them.
        thin : int
            Passes from one draw to the next.

        Returns
        -------
        schedule : Schedule

        Raises
        ------
        ValueError
            If all passes are burn-in.
        """
        burn_in = max_iter // 2 if burn_in is None else burn_in
        if burn_in >= max_iter:
            raise ValueError(f"burn_in={burn_in} leaves none of the max_iter={max_iter} passes over the data.")
        return cls(max_iter, burn_in, thin)

    @property
    def n_kept_passes(self) -> int:
        """Passes after burn-in."""
        return self.max_iter - self.burn_in

    @property
    def n_draws(self) -> int:
        """Draws kept in each chain."""
        return self.n_kept_passes // self.thin

    def settled(self, iteration: int, window: int) -> Schedule:
        """The schedule whose burn-in ends with this pass.

        Parameters
        ----------
        iteration : int
            A pass of burn-in.
        window : int
            Number of passes that the estimate averages, at most those that are kept.

        Returns
        -------
        schedule : Schedule
            It keeps `window` passes, or as many more as one draw needs.
        """
        return Schedule(iteration + max(window, min(self.thin, self.n_kept_passes)), iteration, self.thin)

    def is_draw(self, iteration: int) -> bool:
        """Whether a pass is kept as a draw.

        Parameters
        ----------
        iteration : int
            Number of the pass; the first is 1.

        Returns
        -------
        is_draw : bool
            False during burn-in.
        """
        return iteration > self.burn_in and (iteration - self.burn_in) % self.thin == 0


class WindowAverage:
    """Sums, by `add(a, b)`, over windows of passes, aligned so that the last window ends with the `last` pass.

    A complete run's sum covers exactly the last `window` passes, one that ends early between half and one and a half
    times as many (fewer, if there have been fewer); never passes before `first`.
    """

    def __init__(self, window: int, last: int, first: int, add: Callable[[Any, Any], Any]):
        self.window = window
        self.offset = last % window
        self.first = first
        self.add = add
        self.sums: list[tuple[Any, int]] = []  # the current window, and until it is half full also the previous one

    def update(self, iteration: int, value: Any) -> None:
        """Add the value of pass `iteration`."""
        if iteration < self.first:
            return
        begins = (iteration - 1 - self.offset) % self.window == 0
        if begins or not self.sums:
            self.sums = [*self.sums[-1:], (value, 1)]
        else:
            total, n = self.sums[-1]
            self.sums[-1] = (self.add(total, value), n + 1)
        if 2 * self.sums[-1][1] >= self.window:  # drop the previous window, because sums of sparse counts are large
            self.sums = self.sums[-1:]

    def total(self) -> tuple[Any, int]:
        """The sum and its number of passes; (None, 0) before the first pass."""
        if not self.sums:
            return None, 0
        total, n = self.sums[0]
        for more, m in self.sums[1:]:
            total, n = self.add(total, more), n + m
        return total, n


class MinibatchPasses(BaseSampler):
    """As many steps of `sampler`, with one chain, as read each row once on average, as one pass.

    A subclass defines `_init`, `_begin_pass` and `_end_pass` for its model.
    """

    draws_parameters = True

    def __init__(self, sampler: ManifoldSampler):
        self.sampler = sampler

    def init(self, model: Any, key: np.uint64) -> PassState:
        """The state before the first pass."""
        return self._init(model, np.array([key], np.uint64))

    def step(self, model: Any, state: PassState) -> PassState:
        """One pass; ``log_density`` is an estimate of the log likelihood of all rows."""
        target, view, n_steps = self._begin_pass(model, state)
        moving = state.moving
        for _ in range(n_steps):
            moving = self.sampler.step(view, moving)
            self._after_step(view, moving)
        return self._end_pass(model, target, state._replace(moving=moving))

    def _init(self, model: Any, keys: np.ndarray) -> PassState:
        raise NotImplementedError

    def _begin_pass(self, model: Any, state: PassState) -> tuple[Any, Any, int]:
        """The target of a pass, what the sampler reads of it, and the number of steps."""
        raise NotImplementedError

    def _after_step(self, view: Any, moving: Any) -> None:
        """Collect statistics of a step."""

    def _end_pass(self, model: Any, target: Any, state: PassState) -> PassState:
        """The state with the statistics of the pass."""
        raise NotImplementedError
