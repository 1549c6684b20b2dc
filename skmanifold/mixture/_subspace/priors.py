"""Priors of a mixture of affine subspaces: validation of the parameters, and defaults on the scale of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from ...utils._validation import of_columns
from .family import MOST, SubspaceFamily

_NOISE_FRACTION = 1e-3  # rate of the noise precision for few cells, relative to the mean variance
# The default noise prior is equivalent to observing this share of the cells of X with this relative variance. It bounds
# the noise variance from below if clusters lie in fewer dimensions than X.
_PRIOR_SHARE = 1e-3
_PRIOR_NOISE = 1e-2
_LEAST_VARIANCE = 1e-80  # of rows that are not constant: precisions must not exceed `MOST`


def bound_family(estimator: Any, X: np.ndarray) -> SubspaceFamily:
    """The family with the parameters of the estimator, and defaults on the scale of its data."""
    check_sizes(X)
    mean = X.mean(axis=0)
    gaps = X - mean
    variance = float(np.mean(gaps**2))
    rounding = float(np.finfo(np.float64).eps * np.abs(X).max())
    if variance < _LEAST_VARIANCE and np.abs(gaps).max() > rounding:
        raise ValueError("X varies by numbers whose squares are too small for float64: scale its columns first.")
    variance = variance if variance > rounding**2 else 1.0  # constant data have no scale
    return _family(estimator, X.shape[1], mean, variance, X.size)


def check_sizes(X: np.ndarray) -> None:
    """Raise a ValueError if products of squares of rows and precisions could overflow."""
    if np.abs(X).max(initial=0.0) > MOST:
        raise ValueError(f"X has values beyond {MOST:g}, whose squares are too large: scale its columns first.")


def given_family(estimator: Any, m: int) -> SubspaceFamily:
    """A family whose priors do not depend on data; a ValueError if one of them does."""
    for name in ("noise_prior", "centre_prior_mean", "centre_prior_variance"):
        if getattr(estimator, name) is None:
            raise ValueError(
                f"The prior depends on the data because {name} is None: give numbers, or fit the estimator and omit "
                "n_features."
            )
    return _family(estimator, m, np.zeros(m), 1.0, 0)


def _family(estimator: Any, m: int, mean: np.ndarray, variance: float, n_cells: int) -> SubspaceFamily:
    """The family whose defaults are those of data with this mean, variance and number of cells."""
    shared, spread = estimator.noise == "shared", estimator.centre_prior_variance
    n_cells_of_noise = n_cells if shared else n_cells / estimator.n_components
    shape, rate = _noise_prior(estimator.noise_prior, variance, n_cells_of_noise)
    return SubspaceFamily(
        _log_dimension_prior(estimator, m),
        mean if estimator.centre_prior_mean is None else _given_location(estimator, m),
        variance if spread is None else float(spread),
        shape,
        rate,
        float(estimator.ratio_prior),
        shared,
    )


def _given_location(estimator: Any, m: int) -> np.ndarray:
    given = as_numbers(of_columns(estimator, "centre_prior_mean"))
    if given.shape != (m,) or not np.isfinite(given).all():
        raise ValueError(f"centre_prior_mean must be {m} finite numbers; got {estimator.centre_prior_mean!r}.")
    return given


def _log_dimension_prior(estimator: Any, m: int) -> np.ndarray:
    """Log prior of each component's dimension, (K, largest + 1)."""
    K, fixed = estimator.n_components, estimator.dimensions
    if fixed is not None:
        return _log_fixed(fixed, K, m, estimator.max_dimension)
    largest = m - 1 if estimator.max_dimension is None else estimator.max_dimension
    if largest > m - 1:
        raise ValueError(f"max_dimension={largest} must be less than the number of features, {m}.")
    prior = 1.0 if estimator.dimension_prior is None else estimator.dimension_prior
    given = as_numbers(prior)
    if given.ndim == 0 and np.isfinite(given):
        logs = -given * np.arange(largest + 1.0)
    else:
        if given.shape != (largest + 1,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
            raise ValueError(
                f"dimension_prior must be a number, or {largest + 1} probabilities of the dimensions 0 to {largest}; "
                f"got {prior!r}."
            )
        allowed = np.flatnonzero(given)
        if len(allowed) != allowed[-1] - allowed[0] + 1:
            raise ValueError("dimension_prior must not have zeros between dimensions of positive probability.")
        with np.errstate(divide="ignore"):
            logs = np.log(given)
    return np.tile(logs - logsumexp(logs), (K, 1))


def _log_fixed(fixed: Any, K: int, m: int, most: int | None) -> np.ndarray:
    given = as_numbers(fixed)
    if given.shape not in ((), (K,)) or not np.array_equal(given, np.floor(given)):
        raise ValueError(f"dimensions must be a whole number or one for each of the {K} components; got {fixed!r}.")
    if (given < 0).any() or (given > m - 1).any():
        raise ValueError(f"dimensions must be from 0 to {m - 1}, less than the number of features; got {fixed!r}.")
    if most is not None and (given > most).any():
        raise ValueError(f"dimensions={fixed!r} exceeds max_dimension={most}: leave max_dimension out.")
    each = np.broadcast_to(given.astype(np.int64), K)
    logs = np.full((K, each.max() + 1), -np.inf)
    logs[np.arange(K), each] = 0.0
    return logs


def _noise_prior(given: Any, variance: float, n_cells: float) -> tuple[float, float]:
    """Shape and rate of the gamma prior of the noise precisions; `n_cells` is the number of cells per precision."""
    if given is None:
        half = 0.5 * _PRIOR_SHARE * n_cells
        return 1.0 + half, (_NOISE_FRACTION + _PRIOR_NOISE * half) * variance
    values = as_numbers(given)
    if values.shape != (2,) or not np.isfinite(values).all() or not (values > 0).all():
        raise ValueError(f"noise_prior must be two positive numbers, a shape and a rate; got {given!r}.")
    return float(values[0]), float(values[1])


def as_numbers(given: Any) -> np.ndarray:
    """Convert to an array of floats; NaN if this is not possible."""
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array(np.nan)
