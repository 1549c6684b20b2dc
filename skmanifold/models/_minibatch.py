"""What targets of many data have in common: rows, of which a chain's key chooses some."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import Any, Self

import numpy as np

from ..random._keys import Purpose
from ..random._variates import sample_rows


class MinibatchTarget:
    """Base class of targets with `n_samples` rows of data (None: without rows)."""

    noise_covariance: Any = None
    n_samples: Any  # int or None
    batch_size: int | None = None
    vectorized = True  # functions that go with the target, such as a metric, take all chains at once

    def minibatched(self, batch_size: int | None) -> Self:
        """Return this target with estimates from `batch_size` rows, drawn without replacement.

        Parameters
        ----------
        batch_size : int or None
            From 1 to `n_samples`; None means all rows.
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
        """Rows of each chain's minibatch, ``(n_chains, n)``; None: all, the same for every chain."""
        if self.n_samples is None or keys is None or self.batch_size is None:
            return None
        rows = np.empty((len(keys), self.batch_size), np.int64)
        sample_rows(keys, Purpose.MINIBATCH, self.n_samples, rows)
        return rows

    def _centre(self, samples: np.ndarray, n_samples: int | None = None) -> np.ndarray:
        """Terms of sums over n rows, as deviations whose outer products add up to the covariance of (N / n) * sum."""
        N, n = self.n_samples if n_samples is None else n_samples, samples.shape[1]
        if n == N:
            return np.zeros_like(samples, dtype=np.float64)
        if n < 2:
            raise ValueError("The noise of the gradient can only be estimated from a batch_size of at least 2.")
        return (samples - samples.mean(axis=1, keepdims=True)) * np.sqrt(N * (N - n) / n / (n - 1))
