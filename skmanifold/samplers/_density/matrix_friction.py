"""Friction matrices of second-order samplers on Euclidean spaces."""

from __future__ import annotations

from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from ...numerics.batched_linalg import from_eigen, times
from .noise_covariance import fill_matrix_noise


def check_friction(friction: Any, size: int) -> None:
    """Raise a ValueError unless this is a number or a symmetric positive definite matrix of this size."""
    if isinstance(friction, Real):
        return
    friction = np.asarray(friction)
    if friction.shape != (size, size):
        raise ValueError(f"friction must be a positive number or of shape ({size}, {size}); got {friction.shape}.")
    if not np.allclose(friction, friction.T):
        raise ValueError("friction must be a symmetric matrix.")
    least = np.linalg.eigvalsh(friction)[0]
    if not least > 0:
        raise ValueError(f"friction must be positive definite; its least eigenvalue is {least:.3g}.")


def step_with_matrix(scheme: str, state: Any, friction: Any, h: float, gradient: np.ndarray) -> None:
    """A step of `SGHMC` with a friction matrix, in place."""
    memory, n_chains = state.memory, len(gradient)
    x, v, noise, gradient = (
        array.reshape(n_chains, -1) for array in (state.position, state.momentum, memory.noise, gradient)
    )
    friction = np.ascontiguousarray(friction, dtype=np.float64)
    identity = np.eye(len(friction))
    if scheme == "euler":
        kept, kick, covariance = identity - h * friction, h * identity, 2 * h * friction
    else:
        kept = _decay(friction.tobytes(), len(friction), h)
        kick, covariance = h * kept, identity - kept @ kept
    if memory.covariance is not None:
        covariance = covariance - kick @ memory.covariance.matrix() @ kick
    fill_matrix_noise(memory.keys, covariance.reshape(-1, *friction.shape), noise)
    if scheme == "euler":
        x += h * v
        v[...] = times(kept[np.newaxis], v) + h * gradient + noise
    else:
        v += h * gradient
        x += h / 2 * v
        v[...] = times(kept[np.newaxis], v) + noise
        x += h / 2 * v


@lru_cache(maxsize=64)
def _decay(friction: bytes, size: int, h: float) -> np.ndarray:
    """exp(-C h); the cached array must not be modified."""
    values, vectors = np.linalg.eigh(np.frombuffer(friction).reshape(size, size))
    return from_eigen(np.exp(-h * values)[np.newaxis], vectors[np.newaxis])[0]
