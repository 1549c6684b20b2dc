"""A slice update of one number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WIDTH = 1.0  # of the first interval


def slice_update(
    log_density: Callable[[float], float], value: float, low: float, high: float, rng: np.random.Generator
) -> float:
    """One update of a number between bounds, by slice sampling with steps out and shrinkage (Neal, 2003)."""

    def log_densities(values: np.ndarray) -> np.ndarray:
        return np.array([log_density(float(values[0]))])

    return float(slice_updates(log_densities, np.array([value]), np.array([low]), np.array([high]), rng)[0])


def slice_updates(
    log_densities: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """As `slice_update`, of n independent numbers, whose n log densities are computed together.

    The last call of `log_densities` has the returned numbers, if there are any.
    """
    n = len(values)
    levels = log_densities(values) - rng.exponential(size=n)
    ends = np.empty((2, n))
    ends[0] = values - _WIDTH * rng.random(n)
    ends[1] = ends[0] + _WIDTH
    for end, bound, sign in zip(ends, (low, high), (-1.0, 1.0), strict=True):
        while (is_open := sign * end < sign * bound).any():
            is_open[is_open] = (log_densities(np.where(is_open, end, values)) > levels)[is_open]
            if not is_open.any():
                break
            end[is_open] += sign * _WIDTH
            bound = np.where(is_open, bound, end)  # the others have stopped
    (left, right), found, is_open = np.clip(ends, low, high), values.copy(), np.ones(n, bool)
    while is_open.any():
        proposed = np.where(is_open, left + (right - left) * rng.random(n), found)
        accepted = (log_densities(proposed) >= levels) | (right - left < 1e-12)
        found = proposed
        is_open &= ~accepted
        left, right = (
            np.where(is_open & (proposed < values), proposed, left),
            np.where(is_open & (proposed >= values), proposed, right),
        )
    return found
