"""What a sampler can do, as protocols: a sampler declares them, and `check_compatible` looks for their methods."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class FullPasses(Protocol):
    """Chains that move by passes over all rows."""

    def init(self, model: Any, key: Any) -> Any:
        """The state before the first step."""
        ...

    def step(self, model: Any, state: Any) -> Any:
        """The state after one more pass over the data."""
        ...


@runtime_checkable
class MinibatchStreams(Protocol):
    """Statistics that follow a stream of minibatches, each the rows of one model and seen once."""

    def init_stream(self, model: Any, key: np.uint64, scale: float) -> Any:
        """The state after the first minibatch, of which each row stands for `scale` rows."""
        ...

    def resume_stream(self, model: Any, statistics: Any, key: np.uint64, n_steps: int) -> Any:
        """The state after `n_steps` minibatches, from what is kept between them."""
        ...

    def step_stream(self, model: Any, state: Any, rate: float, scale: float) -> Any:
        """The state after one more minibatch, which has the weight `rate`."""
        ...
