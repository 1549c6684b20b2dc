"""Initial clusters of Gaussian rows in many dimensions: maximum likelihood with one covariance for all clusters."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from ...utils._threads import split_range

_N_PASSES = 40
_ROWS_AT_ONCE = 1 << 12
_PRIOR_ROWS = 1.0  # with the mean of all rows, in each cluster


def tied_labels(rows: np.ndarray, labels: np.ndarray, n_clusters: int, scatter: np.ndarray) -> np.ndarray:
    """The likeliest clusters of rows after some passes of EM for Gaussian clusters with one covariance.

    Distances between rows say little in many dimensions. Such passes find the metric of the clusters, and a pass takes
    a time proportional to K d + d^2 a row.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Rows without missing cells.
    labels : ndarray of shape (n,)
        Labels to start from.
    n_clusters : int
        Number of clusters K.
    scatter : ndarray of shape (d, d)
        Positive definite; added to the scatter of the rows within clusters.

    Returns
    -------
    labels : ndarray of shape (n,), int32
    """
    n, d = rows.shape
    gaps = rows - rows.mean(axis=0)
    whole = gaps.T @ gaps + scatter
    sizes, sums = np.bincount(labels, minlength=n_clusters).astype(float), np.zeros((n_clusters, d))
    np.add.at(sums, labels, gaps)
    found = np.empty(n, np.int32)
    for _ in range(_N_PASSES):
        precisions = sizes + _PRIOR_ROWS
        means = sums / precisions[:, np.newaxis]
        within = (whole - (precisions[:, np.newaxis] * means).T @ means) / n
        images = solve_triangular(np.linalg.cholesky(within), np.vstack([means, np.eye(d)]).T, lower=True)
        weights = images[:, n_clusters:].T @ images[:, :n_clusters]  # of the columns, in the score of each cluster
        offsets = np.log(precisions) - 0.5 * (images[:, :n_clusters] ** 2).sum(axis=0)
        sizes, sums = np.zeros(n_clusters), np.zeros((n_clusters, d))
        for start, stop in split_range(n, _ROWS_AT_ONCE):
            scores = gaps[start:stop] @ weights + offsets
            found[start:stop] = scores.argmax(axis=1)
            scores -= scores.max(axis=1, keepdims=True)
            shares = np.exp(scores, out=scores)
            shares /= shares.sum(axis=1, keepdims=True)
            sizes += shares.sum(axis=0)
            sums += shares.T @ gaps[start:stop]
    return found
