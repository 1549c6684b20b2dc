"""The metric of Riemannian samplers, of the manifold or given by the user, and divergences of matrix fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from ...numerics.linalg import from_eigen
from ...random._keys import Purpose
from ...random._variates import derived_keys, sample_rows
from ...utils._vectorize import call_at_all
from .base import NonFiniteError

_CENTRAL = np.finfo(float).eps ** (1 / 5)  # balances rounding against the error of the five-point rule
_COMPLEX = 1e-100
_TINY = 1e-200  # step at the boundary


def metric_at(
    sampler: Any, model: Any, position: np.ndarray, keys: np.ndarray | None, root: bool = False
) -> np.ndarray:
    """G^-1, or its symmetric root: diagonals ``(n_chains, size)`` or matrices ``(n_chains, size, size)``.

    A constant matrix has the shape ``(1, size, size)``. Constants are cached and must not be modified.
    """
    if sampler.inverse_metric is None:
        metric = np.empty_like(position)
        model.manifold.inverse_metric(position, metric)
        metric = metric.reshape(len(position), -1)
        return np.sqrt(metric) if root else metric
    if not callable(sampler.inverse_metric):
        given = np.ascontiguousarray(sampler.inverse_metric, dtype=np.float64)
        return _constant_metric(given.tobytes(), given.shape, len(position), model.manifold.size, root)
    metric = _call("inverse_metric", sampler, model, position, _own_rows(sampler, model, keys, len(position)))
    return _checked(metric, root)


@lru_cache(maxsize=64)
def _constant_metric(values: bytes, shape: tuple[int, ...], n_chains: int, size: int, root: bool) -> np.ndarray:
    """A constant metric from the bytes of an array."""
    metric = _checked(_as_metric(np.frombuffer(values).reshape(1, *shape).copy(), size), root)
    return metric if metric.ndim == 3 else np.tile(metric, (n_chains, 1))


def _checked(metric: np.ndarray, root: bool) -> np.ndarray:
    """The metric, or its root, of diagonals that are positive."""
    if root:
        return symmetric_root(metric)
    if metric.ndim == 2:
        _check_positive(metric)
    return metric


def divergence_at(
    sampler: Any, model: Any, position: np.ndarray, keys: np.ndarray | None, root: np.ndarray | None = None
) -> np.ndarray:
    """Divergence, ``(n_chains, size)``, of G^-1, or of its symmetric root if `root` is given."""
    if not (sampler.inverse_metric is None or sampler.divergence is not None or callable(sampler.inverse_metric)):
        return np.zeros((len(position), model.manifold.size))
    rows = _own_rows(sampler, model, keys, len(position))
    if sampler.divergence is not None:
        return _call("divergence", sampler, model, position, rows).reshape(len(position), -1)
    if sampler.inverse_metric is None:
        divergence = np.empty_like(position)
        model.manifold.divergence(position, divergence)
        divergence = divergence.reshape(len(position), -1)
        # the metric of a manifold is diagonal, and each entry is a function of one coordinate
        return divergence if root is None else divergence / (2 * root)

    def field(x: np.ndarray) -> np.ndarray:
        metric = _call("inverse_metric", sampler, model, x.reshape(-1, *model.manifold.shape), rows)
        return metric if root is None else symmetric_root(metric)

    return divergence_of(field, position.reshape(len(position), -1), positive_part(model.manifold, model.manifold.size))


def symmetric_root(metric: np.ndarray) -> np.ndarray:
    """Positive square root of diagonals or symmetric matrices.

    Raises a `NonFiniteError` if a number is not finite, and a ValueError if a matrix is not positive definite.
    """
    if metric.ndim == 2:
        _check_positive(metric)
        return np.sqrt(metric)
    _check_finite(metric)
    values, vectors = np.linalg.eigh(metric)
    if not values.min() > 0:
        raise ValueError(f"inverse_metric must be positive definite; its least eigenvalue is {values.min():.3g}.")
    return from_eigen(np.sqrt(values), vectors)


def _check_positive(diagonals: np.ndarray) -> None:
    if not diagonals.min() >= 0:
        _check_finite(diagonals)
        raise ValueError(f"inverse_metric must be positive; its least entry is {diagonals.min():.3g}.")


def _check_finite(metric: np.ndarray) -> None:
    if not np.isfinite(metric).all():
        raise NonFiniteError(
            "inverse_metric returned numbers that are not finite; a smaller step size may help. The attribute `state` "
            "of this error has the position."
        )


def _own_rows(sampler, model, keys: np.ndarray | None, n_chains: int) -> np.ndarray | None:
    if sampler.metric_batch_size is None:
        return None
    n_samples = getattr(model, "n_samples", None)
    if n_samples is None or sampler.metric_batch_size > n_samples:
        raise ValueError(f"metric_batch_size={sampler.metric_batch_size} needs a target with as many n_samples.")
    if keys is None:
        return np.tile(np.arange(n_samples), (n_chains, 1))
    rows = np.empty((n_chains, sampler.metric_batch_size), np.int64)
    sample_rows(derived_keys(keys, Purpose.METRIC), Purpose.MINIBATCH, n_samples, rows)
    return rows


def _call(name: str, sampler: Any, model, x: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    """Values of a user function: diagonals ``(n_chains, size)`` or matrices ``(n_chains, size, size)``."""
    arguments = (x,) if rows is None else (x, rows)
    values = call_at_all(getattr(sampler, name), name, getattr(model, "vectorized", False), *arguments)
    return _as_metric(np.asarray(values, dtype=np.float64), model.manifold.size)


def _as_metric(values: np.ndarray, size: int) -> np.ndarray:
    n = len(values)
    if values.size == n * size and values.shape != (n, size, size):
        values = values.reshape(n, size)
    if values.shape not in ((n, size), (n, size, size)):
        raise ValueError(
            "inverse_metric and divergence must return a diagonal shaped like the point, or a matrix "
            f"({size}, {size}); got shape {values.shape[1:]}."
        )
    return values


def divergence_of(
    field: Callable[[np.ndarray], np.ndarray], x: np.ndarray, positive: bool | np.ndarray, method: str = "central"
) -> np.ndarray:
    """Divergence, sum_j d_j F_ij, at points ``(n, size)`` of a field of matrices or diagonals.

    Coordinates that are `positive` have steps relative to their values, which stay in the domain. "complex" is exact to
    rounding for analytic functions that accept complex numbers; "central" serves any field, by five-point differences.
    """
    out = np.zeros_like(x)
    scale = np.where(positive, np.maximum(np.abs(x), _TINY), np.maximum(np.abs(x), 1.0))
    for j in range(x.shape[1]):
        if method == "complex":
            moved = x.astype(complex)
            moved[:, j] += _COMPLEX * 1j
            derivative = np.asarray(field(moved)).imag / _COMPLEX
        else:
            step = _CENTRAL * scale[:, j]
            derivative = np.zeros(1)
            for multiple, weight in ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12)):
                moved = x.copy()
                moved[:, j] += multiple * step
                value = np.asarray(field(moved))
                derivative = derivative + weight * value / step.reshape(-1, *(1,) * (value.ndim - 1))
        if derivative.ndim == 3:
            out += derivative[:, :, j]
        else:
            out[:, j] += derivative[:, j]
    return out


def positive_part(manifold: Any, nz: int) -> np.ndarray:
    """Which entries of z must stay positive: the coordinates that the manifold reflects."""
    probe = np.full((1, *manifold.shape), -1.0)
    manifold.reflect(probe)
    positive = np.zeros(nz, dtype=bool)
    positive[: manifold.size] = probe.reshape(-1) > 0
    return positive
