"""Gaussian noise of a step, with compensation for the noise of a stochastic gradient."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ...models._minibatch import CovarianceAt
from ...numerics.linalg import as_matrices, from_eigen, times
from ...random._keys import Purpose
from ...random._variates import fill_normal
from ...utils._conditions import Array
from ...utils._njit import by_type, njit
from ...utils._typing import ArrayLike
from .integrator_kernels import fill_scaled_noise, fill_scaled_noise_less

# V: from the target, estimated from minibatches, a number, a diagonal, a matrix, or zero
NoiseCovariance: TypeAlias = Literal["model", "fisher"] | ArrayLike | None
FULL_SIZE = 64  # up to this size of a point a running covariance is a full matrix, beyond it a diagonal


class Covariance(NamedTuple):
    """A covariance V of gradient noise in its eigenbasis, with an axis of chains that may be of length one."""

    values: Annotated[np.ndarray, Array("float64", "_ n_coordinates")]
    vectors: (
        Annotated[np.ndarray, Array("float64", "_ n_coordinates n_coordinates")] | None
    )  # columns; None: V is diagonal
    isotropic: bool = False

    def matrix(self) -> np.ndarray:
        """V as matrices, ``(n_chains or 1, size, size)``."""
        if self.vectors is None:
            return as_matrices(self.values)
        return from_eigen(self.values, self.vectors)


class NoCovariance(NamedTuple):
    """Noise that is zero or not compensated."""

    size: int


@by_type
def fill_compensated(covariance, keys, variance, weight, out):
    """Write N(0, variance * I - weight * V) to `out`, clipped at zero, with one variance and weight for each chain."""


@fill_compensated.of(NoCovariance)
@njit(cache=True, nogil=True)
def _fill_plainly(covariance, keys, variance, weight, out):
    fill_scaled_noise(keys, variance, out)


@fill_compensated.of(Covariance)
def _fill_compensated(covariance, keys, variance, weight, out):
    fill_scaled_noise_less(keys, variance, weight, covariance.values, out)
    if covariance.vectors is not None:
        flat = out.reshape(len(out), -1)
        flat[...] = times(covariance.vectors, flat)


def decompose(covariances: np.ndarray, size: int) -> Covariance:
    """`Covariance` from a number, a diagonal or a matrix for each chain, or from one for all."""
    if covariances.ndim == 3:
        return Covariance(*np.linalg.eigh(covariances))
    isotropic = covariances.ndim == 1
    values = covariances[:, np.newaxis] if isotropic else covariances
    return Covariance(np.broadcast_to(values, (len(covariances), size)).copy(), None, isotropic)


def covariance_at(covariance: Any, position: np.ndarray) -> Covariance | None:
    """The covariance of gradient noise at the position of each chain, from any form; None if it is None."""
    if covariance is None:
        return None
    varies = isinstance(covariance, CovarianceAt)
    values = covariance(position) if varies else np.asarray(covariance, np.float64)[np.newaxis]
    return decompose(values, position[0].size)


def replace_by(covariance: Any, other: Any) -> None:
    """Overwrite a covariance by another one of the same shape."""
    covariance.values[...] = other.values
    if covariance.vectors is not None:
        covariance.vectors[...] = other.vectors


def fill_matrix_noise(keys: np.ndarray, covariance: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Write N(0, covariance) to `out`; `covariance` is ``(n_chains or 1, size, size)``, clipped at zero.

    Returns its eigenvalues, before they are clipped.
    """
    flat = out.reshape(len(out), -1)
    fill_normal(keys, Purpose.NOISE, flat)
    values, vectors = np.linalg.eigh(covariance)
    flat *= np.sqrt(np.maximum(values, 0.0))
    flat[...] = times(vectors, flat)
    return values
