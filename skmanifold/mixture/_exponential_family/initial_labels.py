"""Initial labels of a mixture of an exponential family: seeds, or the best of several after a few passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...emissions._base import NoModeError
from ...random._keys import Purpose, subkey
from ...samplers import ESCA
from ...samplers._latent.esca import ESCAState
from ...samplers._latent.pilot_runs import run_pilot
from .._labels import random_labels

_N_PASSES = 5


def start_labels(
    family: Any, rows: Any, init: str, key: np.uint64, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """Initial labels, (n_rows,) int32.

    "random" draws them independently. "k-means++" uses seeds that are spread over the rows, which needs a family with
    `HasSeeds`, or with `HasWeightedSeeds` if rows have weights.
    """
    K = family.n_components
    if K == 1:
        return np.zeros(rows.n_rows, np.int32)
    if init == "random":
        return random_labels(key, rows.n_rows, K)
    if row_weights is None:
        return family.seed_labels(rows, key)
    return family.seed_weighted_labels(rows, key, row_weights)


def best_labels(model: Any, start: Callable[[np.uint64], np.ndarray], n_init: int, key: np.uint64) -> np.ndarray:
    """Labels after a few passes of stochastic EM from the best of several initial labels.

    Parameters
    ----------
    model : FamilyModel
    start : callable
        Function of a key that returns initial labels, (n_rows,) int32.
    n_init : int
        Number of initial labels. The best has the highest mean log likelihood in the second half of its passes.
    key : uint64
    """
    step = partial(ESCA().step, model)
    tried = []
    for i in range(n_init):
        of_start = subkey(key, Purpose.START, i)
        labels = start(of_start)
        try:
            statistics = model.count(labels)
            begun = ESCAState(model.mode(statistics), of_start, 0, -np.inf, statistics, labels)
            tried.append(run_pilot(step, begun, _N_PASSES))
        except NoModeError:  # if no initial labels have a mode, the sampler raises the error
            continue
    if not tried:
        return start(subkey(key, Purpose.START, 0))
    return tried[int(np.argmax([level for level, _ in tried]))][1].latents
