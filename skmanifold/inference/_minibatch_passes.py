"""Passes over all rows by a sampler of a density whose steps read minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..samplers import BaseSampler, ManifoldSampler
from ..samplers._states import PassState


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
