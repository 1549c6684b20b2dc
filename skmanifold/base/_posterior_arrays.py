"""Draws and traces of all chains as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..inference._chains import Chain
from ..samplers import BaseSampler

Record = Callable[[Chain], dict[str, Any]]


def posterior_arrays(sampler: BaseSampler, chains: list[Chain], record: Record) -> dict[str, Any]:
    """The fitted attributes that every run has: ``_posterior``, ``log_density_trace_``, ``n_iter_`` and others.

    Entries of a draw whose names begin with an underscore are not part of ``_posterior``: only the strategy uses them.
    """
    trace = np.array([chain.log_density for chain in chains])
    n_iter = trace.shape[1]
    drawn = [iteration - 1 for iteration in range(1, n_iter + 1) if chains[0].schedule.is_draw(iteration)]
    posterior = {sampler.log_density_name: trace[:, drawn]}
    examples = {**record(chains[0])} if not drawn else {k: v for draw in chains[0].draws for k, v in draw.items()}
    for name, value in examples.items():
        if not name.startswith("_"):
            posterior[name] = stack_draws(
                [[draw[name] for draw in chain.draws if name in draw] for chain in chains], value
            )
    return {
        "_posterior": posterior,
        "_component_draws": np.array([i for i, draw in enumerate(chains[0].draws) if "components" in draw], np.int64),
        "log_density_trace_": trace,
        "_n_burn_in": min(chains[0].schedule.burn_in, n_iter),
        "n_iter_": n_iter,
    }


def stack_draws(draws: list[list[np.ndarray]], example: np.ndarray) -> np.ndarray:
    """Draws of all chains as one array, padded with NaN where their shapes differ.

    Parameters
    ----------
    draws : list of list of ndarray
        The draws of each chain; every chain has the same number.
    example : ndarray
        A draw, which gives dtype and shape if there are no draws.

    Returns
    -------
    stacked : ndarray of shape (n_chains, n_draws, ...)
        The draws.
    """
    shapes = {draw.shape for chain in draws for draw in chain} or {example.shape}
    if len(shapes) == 1:
        stacked = np.array(draws, dtype=example.dtype)
        return stacked.reshape(len(draws), stacked.shape[1], *shapes.pop())
    largest = tuple(max(lengths) for lengths in zip(*shapes, strict=True))
    kind = example.dtype if example.dtype.kind == "f" else np.float64
    padded = np.full((len(draws), len(draws[0]), *largest), np.nan, kind)
    for chain, of_chain in enumerate(draws):
        for i, draw in enumerate(of_chain):
            place: Any = (chain, i, *map(slice, draw.shape))
            padded[place] = draw
    return padded


def posterior_of_number(draws: np.ndarray, estimate: int) -> np.ndarray:
    """Posterior probabilities of 0, 1, 2, ... components.

    Parameters
    ----------
    draws : ndarray of int
        Numbers of components in the draws of all chains.
    estimate : int
        The number to use if there are no draws so far.

    Returns
    -------
    probabilities : ndarray of shape (largest number + 1,)
        Relative frequencies.
    """
    numbers = draws.ravel() if draws.size else np.array([estimate])
    return np.bincount(numbers) / len(numbers)
