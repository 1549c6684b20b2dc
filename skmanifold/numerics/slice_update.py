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
