"""Partitions of rows on affine subspaces by spectral clustering of their shape interaction matrix."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from ...random._keys import Purpose, subkey
from ...random._variates import sample_rows
from .k_flats import N_ITERATIONS, N_TRIES, Flats

_MAX_ROWS = 1000  # whose eigenvectors are asked for; the others join the flats of these
_MAX_RANKS = 8
_N_KMEANS = 3
_LEAST_DEGREE = 1e-12  # of a row that is orthogonal to all others, beside those of the others


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
    if n > _MAX_ROWS:
        chosen = np.empty((1, _MAX_ROWS), np.int64)
        sample_rows(np.array([key], np.uint64), Purpose.SUBSAMPLE, n, chosen)
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
    from sklearn.cluster import KMeans  # slow to import

    n = len(affinity)
    degrees = affinity.sum(axis=1)
    scales = 1.0 / np.sqrt(np.maximum(degrees, _LEAST_DEGREE * max(degrees.max(), 1.0)))
    affinity *= scales
    affinity *= scales[:, np.newaxis]
    _, places = eigh(affinity, subset_by_index=[n - n_components, n - 1], overwrite_a=True, check_finite=False)
    places *= scales[:, np.newaxis]
    seed = int(subkey(key, Purpose.START) >> np.uint64(32))
    return KMeans(n_components, n_init=_N_KMEANS, random_state=seed).fit(places).labels_.astype(np.int64)
