"""Kernels of sparse directions: scores, responsibilities and sums of rows.

`csr` are rows as unit vectors, (indptr, indices, data). `parameters` are directions, (n_features, K), concentrations,
and log densities at the mean directions or their sums with the logs of weights.
"""

from __future__ import annotations

import math

import numpy as np

from ...utils._njit import njit

_LEAST_LOG_SHARE = -40.0  # smaller responsibilities are lost in rounding when added to 1


@njit(cache=True, nogil=True)
def fill_row_scores(csr, row, parameters, scores):
    """Fill `scores`, (n,), of the first n components for a row: ``log_peaks + concentrations (cosine - 1)``."""
    indptr, indices, data = csr
    directions, concentrations, log_peaks = parameters
    n = len(scores)
    scores[:] = 0.0
    for e in range(indptr[row], indptr[row + 1]):
        x = data[e]
        entries = directions[indices[e]]
        for k in range(n):
            scores[k] += x * entries[k]
    for k in range(n):
        scores[k] = log_peaks[k] + concentrations[k] * (scores[k] - 1.0)


@njit(cache=True, nogil=True)
def _normalize_row(scores, best, shares):
    """Write the normalised exponentials of the scores to `shares`; returns the log of the sum."""
    total = 0.0
    for k in range(len(scores)):
        below = scores[k] - scores[best]
        shares[k] = math.exp(below) if below > _LEAST_LOG_SHARE else 0.0
        total += shares[k]
    for k in range(len(scores)):
        shares[k] /= total
    return scores[best] + math.log(total)


@njit(cache=True, nogil=True)
def expect_rows(first, stop, csr, row_weights, parameters, hard, sums, sizes, log_density, labels):
    """E-step for a range of rows: assign rows to components, and add them to the sums of the components.

    Parameters
    ----------
    first, stop : int
        Range of the rows.
    csr
    row_weights : (n_rows,)
    parameters
        With the logs of weights.
    hard : bool
        Whether a row is assigned only to its most probable component. Its log density is then the joint log density of
        row and label.
    sums : (n_features, K)
        Sums of rows by component, updated in place.
    sizes : (K,)
        Sums of weights by component, updated in place.
    log_density, labels : (n_rows,)
        Filled for these rows.

    Returns
    -------
    total : float
        Weighted sum of the log densities.
    """
    (indptr, indices, data), n = csr, len(sizes)
    scores = np.empty(n)
    shares = np.zeros(n)
    chosen = np.empty(n, np.int64)
    total = 0.0
    for row in range(first, stop):
        fill_row_scores(csr, row, parameters, scores)
        best = 0
        for k in range(1, n):
            if scores[k] > scores[best]:
                best = k
        labels[row] = best
        log_density[row] = scores[best] if hard else _normalize_row(scores, best, shares)
        weight = row_weights[row]
        if weight == 0.0:
            continue
        total += weight * log_density[row]
        n_chosen = 0
        if hard:
            shares[best] = 1.0
        for k in range(n):
            chosen[n_chosen] = k
            n_chosen += shares[k] > 0.0
        for c in range(n_chosen):
            sizes[chosen[c]] += weight * shares[chosen[c]]
        if 4 * n_chosen < n:  # few: then indexing costs less than adding zeros
            for e in range(indptr[row], indptr[row + 1]):
                x = weight * data[e]
                feature_sums = sums[indices[e]]
                for c in range(n_chosen):
                    feature_sums[chosen[c]] += x * shares[chosen[c]]
        else:
            for e in range(indptr[row], indptr[row + 1]):
                x = weight * data[e]
                feature_sums = sums[indices[e]]
                for k in range(n):
                    feature_sums[k] += x * shares[k]
        if hard:
            shares[best] = 0.0
    return total


@njit(cache=True, nogil=True)
def add_row_scores(first, stop, csr, parameters, out):
    """Add ``log_peaks + concentrations (cosine - 1)`` of a range of rows to `out`, (stop - first, K)."""
    scores = np.empty(out.shape[1])
    for row in range(first, stop):
        fill_row_scores(csr, row, parameters, scores)
        for k in range(len(scores)):
            out[row - first, k] += scores[k]


@njit(cache=True, nogil=True)
def add_labelled_rows(first, stop, csr, labels, sums):
    """Add a range of rows to the sums of their labels, (K, n_features)."""
    indptr, indices, data = csr
    for row in range(first, stop):
        own = sums[labels[row - first]]
        for e in range(indptr[row], indptr[row + 1]):
            own[indices[e]] += data[e]


@njit(cache=True, nogil=True)
def add_shared_rows(first, stop, csr, shares, sums):
    """Add a range of rows times their shares, (stop - first, K), to the sums, (K, n_features)."""
    indptr, indices, data = csr
    for row in range(first, stop):
        for k in range(len(sums)):
            share, own = shares[row - first, k], sums[k]
            if share > 0.0:
                for e in range(indptr[row], indptr[row + 1]):
                    own[indices[e]] += share * data[e]
