"""The base class of targets with data, whose minibatches the key of a chain determines, and the noise of gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np

from ..numerics.linalg import as_matrices
from ..random._keys import Purpose, fold_in_each
from ..random._variates import sample_rows
from ..utils._threads import split_range
from ..utils._vectorize import call_at_all


def random_batches(n_rows: int, batch_size: int | None, key: np.uint64) -> list[np.ndarray]:
    """All rows in random minibatches, each in the order of the rows; one if `batch_size` is None or not smaller."""
    if batch_size is None or batch_size >= n_rows:
        return [np.arange(n_rows)]
    order = np.argsort(fold_in_each(key, np.arange(n_rows)), kind="stable")
    return [np.sort(order[start:stop]) for start, stop in split_range(n_rows, batch_size)]


class MinibatchTarget:
    """Base class of targets with `n_samples` rows of data, or without data (None)."""

    noise_covariance: Any = None
    n_samples: Any  # int or None
    batch_size: int | None = None
    vectorized = True  # whether user functions of this target, such as a metric, accept all chains at once

    def minibatched(self, batch_size: int | None) -> Self:
        """Return a copy of this target whose estimates use `batch_size` rows, drawn without replacement.

        Parameters
        ----------
        batch_size : int or None
            Number of rows, from 1 to `n_samples`; None means all rows.

        Returns
        -------
        target : MinibatchTarget
            The copy.

        Raises
        ------
        ValueError
            If the target has no rows, or `batch_size` is not an integer in this range.
        """
        if batch_size is not None:
            if self.n_samples is None:
                raise ValueError("batch_size needs a target with n_samples, whose functions take row indices.")
            if not (isinstance(batch_size, Integral) and 1 <= batch_size <= self.n_samples):
                raise ValueError(
                    f"batch_size must be an integer from 1 to n_samples={self.n_samples}; got {batch_size!r}."
                )
        other = copy.copy(self)
        other.batch_size = batch_size
        return other

    def _chosen_rows(self, keys: np.ndarray | None) -> np.ndarray | None:
        """Rows of the minibatches of all chains, ``(n_chains, n)``; None means all rows for every chain."""
        if self.n_samples is None or keys is None or self.batch_size is None:
            return None
        rows = np.empty((len(keys), self.batch_size), np.int64)
        sample_rows(keys, Purpose.MINIBATCH, self.n_samples, rows)
        return rows

    def _centre(self, samples: np.ndarray, n_samples: int | None = None) -> np.ndarray:
        """Deviations of n terms, scaled so that their outer products sum to the covariance of (N / n) * sum."""
        N, n = self.n_samples if n_samples is None else n_samples, samples.shape[1]
        if n == N:
            return np.zeros_like(samples, dtype=np.float64)
        if n < 2:
            raise ValueError("The noise of the gradient can only be estimated from a batch_size of at least 2.")
        deviations = samples - samples.mean(axis=1, keepdims=True)
        deviations *= np.sqrt(N * (N - n) / n / (n - 1))
        return deviations


class CovarianceAt:
    """The covariance V(x) of gradient noise, from a user function of a point, or of all chains at once if `vectorized`.

    For each point it returns a number (a multiple of the identity), a diagonal ``(size,)`` or a matrix ``(size,
    size)``.
    """

    def __init__(self, function: Callable, size: int, name: str, vectorized: bool) -> None:
        self.function, self.size, self.name, self.vectorized = function, size, name, vectorized

    def __call__(self, position: np.ndarray) -> np.ndarray:
        """V at the position of each chain; a ValueError for wrong shapes, and numbers that no variance can be."""
        n, size = len(position), self.size
        found: Any = np.asarray(call_at_all(self.function, self.name, self.vectorized, position), dtype=np.float64)
        if found.shape not in ((n,), (n, size), (n, size, size)):
            raise ValueError(
                f"{self.name} must return a number, or shape ({size},) or ({size}, {size}), for each point; it "
                f"returned {found.shape[1:]}."
            )
        if not np.isfinite(found).all():
            raise ValueError(f"{self.name} returned a number that is not finite.")
        diagonal = found if found.ndim < 3 else np.einsum("cii->ci", found)
        if diagonal.min() < 0:
            raise ValueError(f"{self.name} returned a negative variance, {diagonal.min():.3g}.")
        return found

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def covariance_matrices(covariance: Any, position: np.ndarray) -> np.ndarray:
    """A covariance of gradient noise at the position of each chain, in any form, as matrices."""
    n, size = len(position), position[0].size
    if isinstance(covariance, CovarianceAt):
        covariance = covariance(position)
        covariance = covariance[:, np.newaxis] if covariance.ndim == 1 else covariance
    elif np.ndim(covariance) == 2:
        return np.broadcast_to(covariance, (n, size, size))
    return as_matrices(covariance if np.ndim(covariance) == 3 else np.broadcast_to(covariance, (n, size)))


def check_symmetric(matrix: np.ndarray, name: str, what: Literal["definite", "semi-definite"]) -> None:
    """Raise a ValueError unless a matrix is symmetric and positive definite or semi-definite."""
    if not np.allclose(matrix, matrix.T):
        raise ValueError(f"{name} must be symmetric.")
    least = np.linalg.eigvalsh(matrix)[0]
    if not (least > 0 if what == "definite" else least >= -1e-8 * np.abs(matrix).max()):
        raise ValueError(f"{name} must be positive {what}; its least eigenvalue is {least:.3g}.")
