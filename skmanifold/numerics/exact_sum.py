"""Sums of log likelihoods that do not depend on how rows are split over threads or machines."""

from __future__ import annotations

import numpy as np

_UNIT = 2.0**-16


def exact_sum(values: np.ndarray) -> float:
    """The sum of values, each rounded to a multiple of 2**-16: so additions are exact, in any order, below 2**37."""
    return float(np.rint(values / _UNIT).sum() * _UNIT)
