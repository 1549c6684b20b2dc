"""Small data sets of each type.

Most estimators convert X before kernels see it. So dense and sparse X, whole and real numbers of 32 and 64 bits, and
read-only X need the same kernels. Missing cells among real numbers need other kernels, and so do dense and sparse
directions of both precisions in `VonMisesFisherMixture`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

_N_ROWS = 60


def counts() -> Any:
    """Counts of words, sparse."""
    random = np.random.default_rng(0)
    rates = random.gamma(0.3, 10.0, (3, 40))[np.arange(_N_ROWS) % 3]
    return scipy.sparse.csr_array((random.poisson(rates) + (np.arange(40) == 0)).astype(float))


def word_vectors() -> np.ndarray:
    """A vector for each word of `counts`."""
    return np.random.default_rng(0).normal(size=(40, 3))


def directions() -> np.ndarray:
    """Vectors of length 1 in four clusters."""
    rows = np.random.default_rng(0).normal(size=(_N_ROWS, 20)) + 3 * np.eye(20)[np.arange(_N_ROWS) % 4]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def directions_of_32_bits() -> np.ndarray:
    """The same as `directions`, in float32."""
    return directions().astype(np.float32)


def sparse_directions() -> Any:
    """The same as `directions`, sparse."""
    return scipy.sparse.csr_array(directions())


def codes() -> np.ndarray:
    """Codes of categories; the first is missing."""
    rows = np.random.default_rng(0).integers(0, 3, (_N_ROWS, 8)).astype(float)
    rows[0, 0] = np.nan
    return rows


def events() -> np.ndarray:
    """Zeros and ones."""
    return (np.random.default_rng(0).random((_N_ROWS, 10)) < 0.4).astype(float)


def points() -> np.ndarray:
    """Points near a plane."""
    return np.random.default_rng(0).normal(size=(_N_ROWS, 5)) * [5, 5, 1, 1, 1]


def points_with_missing_cells() -> np.ndarray:
    """Points near a plane; some rows have missing cells."""
    rows = points()
    rows[::3, 0] = np.nan
    rows[::4, 2] = np.nan
    return rows


def table() -> np.ndarray:
    """Numbers, texts and truth values; some cells are missing."""
    random = np.random.default_rng(0)
    rows = np.empty((_N_ROWS, 5), dtype=object)
    rows[:, :2] = points_with_missing_cells()[:, :2]
    rows[:, 2] = np.array(["blue", "brown", "green"])[random.integers(0, 3, _N_ROWS)]
    rows[:, 3] = np.array(["no", "yes"])[random.integers(0, 2, _N_ROWS)]
    rows[:, 4] = random.random(_N_ROWS) < 0.4
    rows[::5, 2] = None
    return rows


OF_EMISSIONS: dict[str, Callable[[], Any]] = {
    "auto": table,
    "bernoulli": events,
    "categorical": codes,
    "gaussian": points,
    "multinomial": counts,
    "negative_binomial": counts,
    "poisson": counts,
    "von_mises_fisher": points,
}
