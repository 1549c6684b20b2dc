"""Kernels of mixtures of von Mises-Fisher laws: rows' scores, shares and sums, and what seeding asks of rows."""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import row_key
from ...utils._njit import njit

_LEAST_LOG_SHARE = -40.0  # beside a share of 1 what is below is lost in rounding
_LEAST_GAP = 1e-12  # of one minus a cosine: below, two rows have one direction


@njit(cache=True, nogil=True)
def _score_row(indptr, indices, data, row, directions, concentrations, log_peaks, scores):
    """Log of each component's weight times its density at a row, ``log_peaks + concentrations (cosine - 1)``."""
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
def _largest(scores):
    best = 0
    for k in range(1, len(scores)):
        if scores[k] > scores[best]:
            best = k
    return best


@njit(cache=True, nogil=True)
def _share_row(scores, best, shares):
    """Exponentials of scores, made to sum to 1; returns the log of their sum."""
    total = 0.0
    for k in range(len(scores)):
        below = scores[k] - scores[best]
        shares[k] = math.exp(below) if below > _LEAST_LOG_SHARE else 0.0
        total += shares[k]
    for k in range(len(scores)):
        shares[k] /= total
    return scores[best] + math.log(total)


@njit(cache=True, nogil=True)
def expect_rows(
    first,
    stop,
    indptr,
    indices,
    data,
    row_weights,
    directions,
    concentrations,
    log_peaks,
    hard,
    sums,
    sizes,
    log_density,
    labels,
):
    """Deal rows out to components, and sum them up by component; returns their weighted sum of log densities.

    Parameters
    ----------
    first, stop : int
        Rows.
    indptr, indices, data
        Unit vectors in CSR order.
    row_weights : (n_rows,)
    directions : (n_features, K)
    concentrations, log_peaks : (K,)
        The latter are logs of the weights times the densities at the mean directions.
    hard : bool
        Whether a row belongs to its likeliest component alone; its log density is then that of the two together.
    sums : (n_features, K)
        The components' sums of rows are added to it.
    sizes : (K,)
        The components' sums of weights are added to it.
    log_density, labels : (n_rows,)
        Filled.
    """
    n = len(concentrations)
    scores = np.empty(n)
    shares = np.zeros(n)
    chosen = np.empty(n, np.int64)
    total = 0.0
    for row in range(first, stop):
        _score_row(indptr, indices, data, row, directions, concentrations, log_peaks, scores)
        best = _largest(scores)
        labels[row] = best
        log_density[row] = scores[best] if hard else _share_row(scores, best, shares)
        weight = row_weights[row]
        if weight == 0.0:
            continue
        total += weight * log_density[row]
        n_chosen = 0
        if hard:
            shares[best] = 1.0
            chosen[0] = best
            n_chosen = 1
        else:
            for k in range(n):
                chosen[n_chosen] = k
                n_chosen += shares[k] > 0.0
        for c in range(n_chosen):
            sizes[chosen[c]] += weight * shares[chosen[c]]
        if 4 * n_chosen < n:  # far from all: where the others' zeros would cost more than looking up
            for e in range(indptr[row], indptr[row + 1]):
                x = weight * data[e]
                of_word = sums[indices[e]]
                for c in range(n_chosen):
                    of_word[chosen[c]] += x * shares[chosen[c]]
        else:
            for e in range(indptr[row], indptr[row + 1]):
                x = weight * data[e]
                of_word = sums[indices[e]]
                for k in range(n):
                    of_word[k] += x * shares[k]
        if hard:
            shares[best] = 0.0
    return total


@njit(cache=True, nogil=True)
def predict_rows(
    first, stop, indptr, indices, data, directions, concentrations, log_peaks, log_density, labels, shares
):
    """Fill rows' log densities, likeliest components, and the components' shares in them, (n_rows, K)."""
    scores = np.empty(len(concentrations))
    for row in range(first, stop):
        _score_row(indptr, indices, data, row, directions, concentrations, log_peaks, scores)
        labels[row] = _largest(scores)
        log_density[row] = _share_row(scores, labels[row], shares[row])


@njit(cache=True, nogil=True)
def hash_rows(indptr, indices, bits, out):
    """Fill in a number for each row that its content alone decides."""
    for row in range(len(indptr) - 1):
        out[row] = row_key(np.uint64(0), indices, bits, indptr[row], indptr[row + 1])


@njit(cache=True, nogil=True)
def fill_gaps(first, stop, indptr, indices, data, directions, gaps, out):
    """Fill in rows' gaps, one minus the cosine with the nearest seed, if there were one more seed.

    `directions`, (n_features, n_candidates), might be it; `out` is (n_rows, n_candidates).
    """
    for row in range(first, stop):
        row_gaps = out[row]
        row_gaps[:] = 1.0
        for e in range(indptr[row], indptr[row + 1]):
            entries = directions[indices[e]]
            for c in range(len(row_gaps)):
                row_gaps[c] -= data[e] * entries[c]
        for c in range(len(row_gaps)):
            row_gaps[c] = min(gaps[row], row_gaps[c] if row_gaps[c] > _LEAST_GAP else 0.0)
