"""Updates of statistics by a stream of minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..random._keys import Purpose, subkey
from ..samplers import BaseSampler, State


def advance_statistics(
    sampler: BaseSampler, model: Any, before: Any, key: np.uint64, n_batches: int, rate: float, total_samples: int
) -> State:
    """One more minibatch: T <- (1 - rate) T + rate * scale * T_batch, where all rows are `scale` times the model's.

    `before` are the statistics after `n_batches` minibatches; None before the first.
    """
    stream, scale = subkey(key, Purpose.MINIBATCH), total_samples / model.n_rows
    if before is None:
        return sampler.init_stream(model, stream, scale)
    return sampler.step_stream(model, sampler.resume_stream(model, before, stream, n_batches), rate, scale)
