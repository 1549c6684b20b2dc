"""The base class of targets with data, whose minibatches are drawn by the key of a chain."""

from __future__ import annotations

import copy
from numbers import Integral
from typing import Any, Self

import numpy as np

from ..random._keys import Purpose
from ..random._variates import sample_rows


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
