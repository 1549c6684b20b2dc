"""Initial partitions of a mixture of subspaces: by several methods, or labels that the user passed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ...random._keys import Purpose, subkey
from ...random._variates import some_rows
from .._labels import read_labels
from .family import SubspaceFamily
from .k_flats import N_ITERATIONS, N_TRIES, KFlats, k_flats

_MAX_ROWS = 5000  # rows of an initial partition; the first sweep labels the others
_MAX_SPECTRAL_ROWS = 1000  # rows of the eigenvalue problem; K-flats assigns the others
_MAX_RANKS = 8
_N_KMEANS = 3
_LEAST_DEGREE = 1e-12  # relative degree of a row that is orthogonal to all others


def start_partitions(X: np.ndarray, family: SubspaceFamily, init: Any, n_init: int, key: np.uint64) -> list[np.ndarray]:
    """Initial labels, each (n,) int32; -1 for rows that were not used.

    Parameters
    ----------
    X : ndarray of shape (n, m)
        Rows.
    family : SubspaceFamily
    init : str or array-like
        Parameter of the estimator.
    n_init : int
        Number of partitions; 1 if `init` gives labels.
    key : uint64
    """
    K = family.n_components
    if not isinstance(init, str):
        return [read_labels(init, len(X), K, "init must be a name, or").astype(np.int32)]
    if K == 1:
        return [np.zeros(len(X), np.int32)]
    methods = tuple(_METHODS) if init == "auto" else (init,)
    return [_label_some_rows(X, family, _METHODS[methods[i % len(methods)]], subkey(key, i)) for i in range(n_init)]


def _label_some_rows(
    X: np.ndarray, family: SubspaceFamily, start: Callable[..., np.ndarray], key: np.uint64
) -> np.ndarray:
    labels, rows = np.full(len(X), -1, np.int32), some_rows(key, Purpose.SUBSAMPLE, len(X), min(len(X), _MAX_ROWS))
    labels[rows] = start(X[rows], family, key)
    return labels


def _by_spectrum(X: np.ndarray, family: SubspaceFamily, key: np.uint64) -> np.ndarray:
    return spectral_labels(X, family.n_components, key, _fixed(family), max_dimension=family.max_dimension)


def _by_k_flats(X: np.ndarray, family: SubspaceFamily, key: np.uint64) -> np.ndarray:
    return k_flats(X, family.n_components, _fixed(family), key, max_dimension=family.max_dimension)[0]


def _by_centres(X: np.ndarray, family: SubspaceFamily, key: np.uint64) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # given if there are fewer distinct rows than components
        return KMeans(family.n_components, n_init=1, random_state=int(key >> np.uint64(32))).fit(X).labels_


_METHODS: dict[str, Callable[[np.ndarray, SubspaceFamily, np.uint64], np.ndarray]] = {
    "spectral": _by_spectrum,
    "k-flats": _by_k_flats,
    "k-means": _by_centres,
}


def _fixed(family: SubspaceFamily) -> np.ndarray | None:
    """The dimensions if the prior fixes them, otherwise None."""
    possible = np.isfinite(family.log_dimension)
    return possible.argmax(axis=1) if (possible.sum(axis=1) == 1).all() else None


# Spectral clustering


def spectral_labels(
    X,
    n_components: int,
    key: np.uint64,
    dimensions=None,
    n_tries: int = N_TRIES,
    max_dimension: int | None = None,
) -> np.ndarray:
    """Partition rows by K-flats from spectral clusters and from random subspaces; the smallest loss decides.

    Spectral clustering separates independent subspaces. Random initialisations also separate subspaces that intersect.
    Each alone finds a poor partition in some cases.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    n_components, dimensions, n_tries, max_dimension :
        As in `k_flats`. With ``n_tries=0``, only spectral clusters are used.
    key : np.uint64

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        Values from 0 to n_components - 1.
    """
    flats = KFlats(X, n_components, dimensions, max_dimension)
    n = len(flats.rows)
    if n > _MAX_SPECTRAL_ROWS:
        some, labels = some_rows(key, Purpose.SUBSAMPLE, n, _MAX_SPECTRAL_ROWS), np.full(n, -1)
        labels[some] = spectral_labels(flats.rows[some], n_components, key, dimensions, n_tries, max_dimension)
        return flats.refine(labels, N_ITERATIONS)[0]
    starts = spectral_partitions(flats.rows, n_components, key)
    starts += [flats.seed(key, n_try) for n_try in range(n_tries)]
    return flats.best(starts)[0]


def spectral_partitions(rows, n_components: int, key: np.uint64) -> list[np.ndarray]:
    """Spectral clusters of the shape interaction matrix, one partition for each of a few ranks.

    If a constant column is added, the left singular vectors of rows on independent affine subspaces are orthogonal
    between subspaces (Costeira and Kanade, 1998). With noise the rank is unknown, and strongly affects the result.
    """
    n = len(rows)
    if n <= n_components:
        return [np.arange(n)]
    size = np.sqrt(rows.shape[1])  # the typical length of a row
    vectors, _, _ = np.linalg.svd(np.column_stack([rows, np.full(n, size)]), full_matrices=False)
    most = vectors.shape[1]
    ranks = np.unique(np.rint(np.geomspace(min(n_components + 1, most), most, _MAX_RANKS)).astype(int))
    return [_normalised_cut(_interaction(vectors[:, :rank]), n_components, key) for rank in ranks]


def _interaction(vectors) -> np.ndarray:
    """Fourth powers of cosines between rows: close to 1 only for some rows of one subspace, small between subspaces."""
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(sizes > 0.0, sizes, 1.0)
    affinity = np.square(np.square(directions @ directions.T))
    np.fill_diagonal(affinity, 0.0)
    return affinity


def _normalised_cut(affinity, n_components: int, key: np.uint64) -> np.ndarray:
    """Labels by the normalised cut: k-means on the eigenvectors of the random walk."""
    n = len(affinity)
    degrees = affinity.sum(axis=1)
    scales = 1.0 / np.sqrt(np.maximum(degrees, _LEAST_DEGREE * max(degrees.max(), 1.0)))
    affinity *= scales
    affinity *= scales[:, np.newaxis]
    _, places = eigh(affinity, subset_by_index=[n - n_components, n - 1], overwrite_a=True, check_finite=False)
    places *= scales[:, np.newaxis]
    seed = int(subkey(key, Purpose.START) >> np.uint64(32))
    return KMeans(n_components, n_init=_N_KMEANS, random_state=seed).fit(places).labels_.astype(np.int64)
