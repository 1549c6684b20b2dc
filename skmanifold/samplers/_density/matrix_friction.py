"""Moves with a friction matrix, of `SGHMC` and `SGGMC`; only Python can call them."""

from __future__ import annotations

from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ...models._minibatch import check_symmetric
from ...numerics.linalg import from_eigen, times
from .integrator_kernels import ABOBA, BAOAB, OU
from .moves import begin_step, drift, drift_freely, kick, make_geodesic_steps, make_steps, projectors, resample_momentum
from .noise_covariance import Covariance, fill_matrix_noise


class MatrixFriction(NamedTuple):
    """`SGHMC` with a friction matrix."""

    scheme: str
    friction: Any
    resample_every: int


class GeodesicMatrixFriction(NamedTuple):
    """`SGGMC`, and `SGHMC` with the exact Ornstein-Uhlenbeck step, with a friction matrix."""

    scheme: int
    friction: Any
    resample_every: int = 0


def check_friction(friction: Any, size: int) -> None:
    """Raise a ValueError unless this is a number or a symmetric positive definite matrix of this size."""
    if isinstance(friction, Real):
        return
    friction = np.asarray(friction)
    if friction.shape != (size, size):
        raise ValueError(f"friction must be a positive number or of shape ({size}, {size}); got {friction.shape}.")
    check_symmetric(friction, "friction", "definite")


@make_steps.of(MatrixFriction)
def _make_steps_with_matrix(move, geometry, gradient, covariance, chains, h, first, n_steps):
    for t in range(first, first + n_steps):
        if not begin_step(gradient, chains, t):
            return t
        resample_momentum(move.resample_every, chains, t)
        _step_with_matrix(move, covariance, chains, h)
    return -1


def _step_with_matrix(move, gradient_noise, chains, h):
    x, v, noise, gradient = (
        array.reshape(len(array), -1) for array in (chains.position, chains.momentum, chains.noise, chains.gradient)
    )
    friction = np.ascontiguousarray(move.friction, dtype=np.float64)
    identity = np.eye(len(friction))
    if move.scheme == "euler":
        kept, step, covariance = identity - h * friction, h * identity, 2 * h * friction
    else:
        kept = _decay(friction.tobytes(), len(friction), h)
        step, covariance = h * kept, identity - kept @ kept
    if isinstance(gradient_noise, Covariance):
        covariance = covariance - step @ gradient_noise.matrix() @ step
    fill_matrix_noise(chains.keys, covariance.reshape(-1, *friction.shape), noise)
    if move.scheme == "euler":
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


make_steps.of(GeodesicMatrixFriction)(make_geodesic_steps)
drift.of(GeodesicMatrixFriction)(drift_freely)


@kick.of(GeodesicMatrixFriction)
def _kick_with_matrix(move, geometry, covariance, chains, h):
    """The velocity update in the eigenbasis of the tangent friction."""
    v, noise, gradient = (array.reshape(len(array), -1) for array in (chains.momentum, chains.noise, chains.gradient))
    tangent, identity = projectors(geometry.manifold, chains.position), np.eye(v.shape[1])
    friction = np.asarray(move.friction, dtype=np.float64)
    values, vectors = np.linalg.eigh(tangent @ friction @ tangent)
    if move.scheme == ABOBA:
        before = after = from_eigen(np.exp(-values * h / 2), vectors)
        step, variance = h * identity[None], 2 * h * friction[None]
    else:
        before, after = from_eigen(np.exp(-values * h), vectors), identity[None]
        step = (identity + before) * (h / 2) if move.scheme == OU else h * before
        variance = identity - before @ before
    if isinstance(covariance, Covariance):
        variance = variance - step @ covariance.matrix() @ step
    fill_matrix_noise(chains.keys, tangent @ variance @ tangent, noise)
    if move.scheme != BAOAB:  # for BAOAB the gradient step comes earlier
        noise += times(step, gradient)
    v[...] = times(after, times(before, v) + times(tangent, noise))
