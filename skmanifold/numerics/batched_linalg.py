"""Linear algebra for all chains at once."""

from __future__ import annotations

import numpy as np


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Products of diagonals ``(n, k)`` or matrices ``(n or 1, m, k)`` with vectors ``(n, k)``."""
    if matrices.ndim == 2:
        return matrices * vectors
    return np.matmul(matrices, vectors[:, :, None])[:, :, 0]


def as_matrices(diagonals: np.ndarray) -> np.ndarray:
    """Diagonals ``(n, size)`` as matrices ``(n, size, size)``; matrices are returned unchanged."""
    return diagonals if diagonals.ndim == 3 else diagonals[:, :, None] * np.eye(diagonals.shape[1])


def from_eigen(values: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Symmetric matrices ``(n, size, size)`` with these eigenvalues and eigenvectors, their columns."""
    return (vectors * values[:, None, :]) @ vectors.mT
