"""Whether the log density of a fit still increases: `tol`, and the warning about a fit that ends too early."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...base import Run, draws_parameters
from ...samplers._base import N_COMPARED, mean_rise

_LARGE_RISE = 0.005  # nats per token in seven passes; default fits of 50 topics end below 0.001
_N_DEVIATIONS = 3.0  # of noise


def check_tol(lda: Any, run: Run) -> None:
    """Raise a ValueError if this fit cannot use `tol`."""
    if lda.tol is None:
        return
    if draws_parameters(run.sampler):
        able = ", ".join(repr(name) for name, kind in lda._samplers.items() if not draws_parameters(kind()))
        raise ValueError(
            f"tol={lda.tol!r} ends the fit of an estimate, but {type(run.sampler).__name__} draws from the posterior, "
            f"for which the number of passes must be given: use tol=None, or one of {able}."
        )
    if run.schedule.burn_in == 0:
        raise ValueError(f"tol={lda.tol!r} ends burn-in early, but burn_in is 0.")


def warn_if_rising(name: str, log_density: np.ndarray, n_tokens: int, max_iter: int) -> None:
    """Warn if the log density of the passes after burn-in still rises at their end by much, and by more than noise."""
    rise = mean_rise(log_density.tolist())
    if len(log_density) < 2 * N_COMPARED or rise < _LARGE_RISE * n_tokens:
        return
    if rise > _N_DEVIATIONS * _deviation(log_density):
        warnings.warn(
            f"The {name} still rises by {rise / n_tokens:.1g} nats per token in {N_COMPARED} passes: increase max_iter "
            f"(now {max_iter}).",
            ConvergenceWarning,
            stacklevel=6,
        )


def _deviation(log_density: np.ndarray) -> float:
    """Standard deviation of noise around a line or, if larger, of the rise of a random walk with the same steps."""
    passes = np.arange(len(log_density))
    trend = np.polynomial.Polynomial.fit(passes, log_density, 1)
    of_walk = np.std(np.diff(log_density)) * np.sqrt(2.0 * N_COMPARED / 3.0)
    return max(float(np.std(log_density - trend(passes))), float(of_walk))
