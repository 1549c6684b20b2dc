"""Check of the kinetic temperature of samplers with a velocity; a run whose temperature is not 1 is not valid."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import gammainccinv, gammaincinv
from sklearn.exceptions import ConvergenceWarning

_TOLERANCE = 0.2  # deviation of the logarithm of the temperature, beyond chance, that causes a warning
_RARE = 1e-6  # tail probability of chance deviations
_N_BATCHES = 10
_LEAST_BATCH = 10  # draws per batch


def warn_temperature(
    temperature: np.ndarray | None,
    n_coordinates: float,
    step_size: str = "sampler__step_size",
    drawn: str = "posterior",
    stacklevel: int = 4,
) -> bool:
    """Warn if the mean kinetic temperature of a sampler with a velocity deviates from 1 by more than chance.

    Chance is that of `n_coordinates` independent coordinates. `step_size` and `drawn` name parameter and target.
    Returns whether it warned.
    """
    if temperature is None or not np.isfinite(temperature).any():
        return False
    mean = float(np.nanmean(temperature))
    # The range of temperatures of independent velocities.
    half = 0.5 * n_coordinates
    low, high = gammaincinv(half, _RARE) / half, gammainccinv(half, _RARE) / half
    deviates = not low * np.exp(-_TOLERANCE) <= mean <= high * np.exp(_TOLERANCE)
    if deviates:
        warnings.warn(
            f"The mean kinetic temperature is {mean:.3g}, not 1: the draws are not those of the {drawn}. Use "
            f"smaller steps ({step_size}), larger minibatches, or a longer burn_in.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    return deviates


def n_independent_coordinates(temperature: np.ndarray, dim: int) -> float:
    """The number of independent velocity coordinates whose mean has the same variance as that of all temperatures.

    Chains are independent; within chains the variance is estimated from batch means.
    """
    n_chains, n_draws = temperature.shape
    least, length = float(dim * n_chains), n_draws // _N_BATCHES
    if length < _LEAST_BATCH:
        return least
    batches = temperature[:, -length * _N_BATCHES :].reshape(-1, length).mean(axis=1)
    variance = batches.var(ddof=1) / len(batches)
    if not 0 < variance < np.inf:
        return least
    return min(max(2 * float(batches.mean()) ** 2 / variance, least), float(dim * temperature.size))
