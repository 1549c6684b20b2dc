"""Short runs from several initial states, to select the best one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from .._states import ChainState

Begun = TypeVar("Begun", bound=ChainState)


def run_pilot(step: Callable[[Begun], Begun], state: Begun, n_steps: int) -> tuple[float, Begun]:
    """The mean log density of the second half of some steps, and the final state."""
    trace = []
    for _ in range(n_steps):
        state = step(state)
        trace.append(state.log_density)
    return float(np.mean(trace[n_steps // 2 :])), state
