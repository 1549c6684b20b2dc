"""Where a mixture of subspaces begins: partitions of several kinds, or the one that is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ...random._keys import Purpose, subkey
from ...random._variates import sample_rows
from ...utils._labels import read_labels
from .k_flats import k_flats
from .parameters import Priors
from .spectral_partitions import spectral_start

_MAX_ROWS = 5000  # that are looked at; the first sweep labels the others


def start_partitions(X: np.ndarray, priors: Priors, init: Any, n_init: int, key: np.uint64) -> list[np.ndarray]:
    """Labels to begin with, each (n,) int32; -1 for rows that were not looked at.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Rows.
    priors : Priors
    init : str or array-like
        As the estimator's.
    n_init : int
        How many of them; one if `init` gives labels.
    key : uint64
    """
    K = len(priors.log_dimension)
    if not isinstance(init, str):
        return [read_labels(init, len(X), K, "init must be a name, or").astype(np.int32)]
    if K == 1:
        return [np.zeros(len(X), np.int32)]
    kinds = tuple(_STARTS) if init == "auto" else (init,)
    return [_begin(X, priors, _STARTS[kinds[i % len(kinds)]], subkey(key, i)) for i in range(n_init)]


def _begin(X: np.ndarray, priors: Priors, start: Callable[..., np.ndarray], key: np.uint64) -> np.ndarray:
    labels = np.full(len(X), -1, np.int32)
    rows = np.empty((1, min(len(X), _MAX_ROWS)), np.int64)
    sample_rows(np.array([key], np.uint64), Purpose.SUBSAMPLE, len(X), rows)
    rows.sort()
    labels[rows[0]] = start(X[rows[0]], priors, key)
    return labels


def _by_spectrum(X: np.ndarray, priors: Priors, key: np.uint64) -> np.ndarray:
    return spectral_start(X, len(priors.log_dimension), key, _fixed(priors), max_dimension=priors.max_dimension)


def _by_flats(X: np.ndarray, priors: Priors, key: np.uint64) -> np.ndarray:
    return k_flats(X, len(priors.log_dimension), _fixed(priors), key, max_dimension=priors.max_dimension)[0]


def _by_centres(X: np.ndarray, priors: Priors, key: np.uint64) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer distinct rows than components
        return KMeans(len(priors.log_dimension), n_init=1, random_state=int(key >> np.uint64(32))).fit(X).labels_


_STARTS: dict[str, Callable[[np.ndarray, Priors, np.uint64], np.ndarray]] = {
    "spectral": _by_spectrum,
    "k-flats": _by_flats,
    "k-means": _by_centres,
}


def _fixed(priors: Priors) -> np.ndarray | None:
    """Dimensions, if they are given."""
    possible = np.isfinite(priors.log_dimension)
    return possible.argmax(axis=1) if (possible.sum(axis=1) == 1).all() else None
