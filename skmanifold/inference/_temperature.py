"""The kinetic temperature of samplers with a velocity: a run that has not kept it near 1 has drawn something else."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import gammainccinv, gammaincinv
from sklearn.exceptions import ConvergenceWarning

_HEAT = 0.2  # of the logarithm of the temperature, beyond chance, of which a fit warns
_RARE = 1e-6  # a probability
_N_BATCHES = 10
_LEAST_BATCH = 10  # draws


def warn_temperature(
    temperature: np.ndarray | None,
    n_coordinates: float,
    step_size: str = "sampler__step_size",
    drawn: str = "posterior",
    stacklevel: int = 4,
) -> None:
    """Warn if a sampler with a velocity has not kept the temperature, by more than chance can explain.

    Chance is that of `n_coordinates` independent coordinates of velocities. `step_size` and `drawn` are the message's
    words for the parameter and for what is drawn from.
    """
    if temperature is None or not np.isfinite(temperature).any():
        return
    mean = float(np.nanmean(temperature))
    # Those of a run are not independent: what a single velocity may have by chance.
    half = 0.5 * n_coordinates
    low, high = gammaincinv(half, _RARE) / half, gammainccinv(half, _RARE) / half
    if not low * np.exp(-_HEAT) <= mean <= high * np.exp(_HEAT):
        warnings.warn(
            f"The mean kinetic temperature is {mean:.3g}, not 1: the draws are not those of the {drawn}. Take "
            f"smaller steps ({step_size}), larger minibatches, or a longer burn_in.",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def n_independent_coordinates(temperature: np.ndarray, dim: int) -> float:
    """How many independent coordinates of velocities would have a mean as certain as that of ``(n_chains, n_draws)``.

    Velocities of `dim` coordinates are independent from chain to chain; within chains, means of batches tell.
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
