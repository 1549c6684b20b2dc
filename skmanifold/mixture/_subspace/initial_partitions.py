"""Where a mixture of subspaces begins: partitions of several kinds, or the one that is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from ...random._keys import Purpose, subkey
from ...random._variates import sample_rows
from .._labels import read_labels
from .k_flats import N_ITERATIONS, N_TRIES, Flats, k_flats
from .parameters import Priors

_MAX_ROWS = 5000  # that are looked at; the first sweep labels the others
_MAX_SPECTRAL_ROWS = 1000  # whose eigenvectors are asked for; the others join the flats of these
_MAX_RANKS = 8
_N_KMEANS = 3
_LEAST_DEGREE = 1e-12  # of a row that is orthogonal to all others, beside those of the others


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
    sample_rows(np.array([key], np.uint64), Purpose.MINIBATCH, len(X), rows)
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


# Spectral clustering


def spectral_start(
    X,
    n_components: int,
    key: np.uint64,
    dimensions=None,
    n_iter: int = N_ITERATIONS,
    n_tries: int = N_TRIES,
    max_dimension: int | None = None,
) -> np.ndarray:
    """Partition rows by affine flats: that of least loss among those that spectral clusters and random flats lead to.

    Spectral clusters find flats that together span more than each of them, random flats those that intersect. Either
    alone finds a poor partition now and then; the loss tells.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    n_components, dimensions, n_iter, n_tries, max_dimension :
        As in `k_flats`; no random tries (0) leave the spectral clusters.
    key : np.uint64

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        Of 0, ..., n_components - 1.
    """
    flats = Flats(X, n_components, dimensions, max_dimension)
    n = len(flats.rows)
    some, sparse = np.arange(n), flats
    if n > _MAX_SPECTRAL_ROWS:
        chosen = np.empty((1, _MAX_SPECTRAL_ROWS), np.int64)
        sample_rows(np.array([key], np.uint64), Purpose.MINIBATCH, n, chosen)
        some = np.sort(chosen[0])
        sparse = Flats(flats.rows[some], n_components, dimensions, max_dimension)
    starts = spectral_partitions(sparse.rows, n_components, key)
    starts += [sparse.seed(key, n_try) for n_try in range(n_tries)]
    labels, _ = sparse.best(starts, n_iter)
    if sparse is flats:
        return labels
    of_all = np.full(n, -1)
    of_all[some] = labels
    return flats.refine(of_all, n_iter)[0]


def spectral_partitions(rows, n_components: int, key: np.uint64) -> list[np.ndarray]:
    """Clusters of rows by their shape interaction, one partition for each of a few ranks.

    With a constant beside them, rows on independent affine flats have left singular vectors that are orthogonal between
    flats (Costeira and Kanade, 1998). The rank that noise leaves of them is unknown, and decides most of the result.
    """
    n = len(rows)
    if n <= n_components:
        return [np.arange(n)]
    size = np.sqrt(rows.shape[1])  # that of a row
    vectors, _, _ = np.linalg.svd(np.column_stack([rows, np.full(n, size)]), full_matrices=False)
    most = vectors.shape[1]
    ranks = np.unique(np.rint(np.geomspace(min(n_components + 1, most), most, _MAX_RANKS)).astype(int))
    return [_cut(_interaction(vectors[:, :rank]), n_components, key) for rank in ranks]


def _interaction(vectors) -> np.ndarray:
    """Fourth powers of cosines between rows: flats have a few near one, pairs of flats have many that are small."""
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(sizes > 0.0, sizes, 1.0)
    affinity = np.square(np.square(directions @ directions.T))
    np.fill_diagonal(affinity, 0.0)
    return affinity


def _cut(affinity, n_components: int, key: np.uint64) -> np.ndarray:
    """Labels by the normalised cut: means of the rows' places in random-walk eigenvectors."""
    n = len(affinity)
    degrees = affinity.sum(axis=1)
    scales = 1.0 / np.sqrt(np.maximum(degrees, _LEAST_DEGREE * max(degrees.max(), 1.0)))
    affinity *= scales
    affinity *= scales[:, np.newaxis]
    _, places = eigh(affinity, subset_by_index=[n - n_components, n - 1], overwrite_a=True, check_finite=False)
    places *= scales[:, np.newaxis]
    seed = int(subkey(key, Purpose.START) >> np.uint64(32))
    return KMeans(n_components, n_init=_N_KMEANS, random_state=seed).fit(places).labels_.astype(np.int64)
