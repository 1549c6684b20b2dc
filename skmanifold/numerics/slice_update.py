"""A slice update of one number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WIDTH = 1.0  # of the first interval


def slice_update(
    log_density: Callable[[float], float], value: float, low: float, high: float, rng: np.random.Generator
) -> float:
    """One update of a number between bounds, by slice sampling with steps out and shrinkage (Neal, 2003)."""
    level = log_density(value) - rng.exponential()
    left = value - _WIDTH * rng.random()
    right = left + _WIDTH
    while left > low and log_density(left) > level:
        left -= _WIDTH
    while right < high and log_density(right) > level:
        right += _WIDTH
    left, right = max(left, low), min(right, high)
    while True:
        proposed = left + (right - left) * rng.random()
        if log_density(proposed) >= level or right - left < 1e-12:
            return proposed
        left, right = (proposed, right) if proposed < value else (left, proposed)


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
