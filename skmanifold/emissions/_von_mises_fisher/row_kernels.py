"""Kernels of rows as unit vectors: log densities given components, memberships, and sums of rows.

`csr` are sparse rows, (indptr, indices, data). `parameters` are directions, (n_features, K), concentrations, and log
densities at the mean directions or their sums with the logs of weights. *Terms* of a row are ``log_peaks +
concentrations (cosine - 1)``.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp
from ...utils._njit import njit

_LEAST_LOG_SHARE = -40.0  # smaller responsibilities are lost in rounding when added to 1
_LEAST_SHARE = 4e-18  # their exponential


# Sparse rows


@njit(cache=True, nogil=True)
def fill_row_scores(csr, row, parameters, scores):
    """Fill `scores`, (n,), with the terms of the first n components for a row."""
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
    """E step for a range of rows: assign rows to components as `assign_rows`, and add them to `sums`, (n_features, K).

    Arrays of rows are those of all rows.
    """
    (indptr, indices, data), n = csr, len(sizes)
    scores = np.empty(n)
    shares = np.zeros(n)
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
        if hard:
            shares[best] = 1.0
        n_chosen = 0
        for k in range(n):
            n_chosen += shares[k] > 0.0
            sizes[k] += weight * shares[k]
        if n_chosen < 4 + n // 16:  # few: then reading the entries again costs less than adding zeros
            for k in range(n):
                if shares[k] > 0.0:
                    for e in range(indptr[row], indptr[row + 1]):
                        sums[indices[e], k] += weight * data[e] * shares[k]
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
    """Add the terms of a range of rows to `out`, (stop - first, K)."""
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


# Dense rows


@njit(cache=True, nogil=True)
def assign_rows(terms, row_weights, hard, sizes, log_density, labels):
    """Assign rows to components, given the logs of weights times densities.

    Parameters
    ----------
    terms : (n, K)
        Unless `hard`, replaced by the responsibilities of the components times the weights of the rows.
    row_weights : (n,)
    hard : bool
        Whether a row is assigned only to its most probable component. Its log density is then the joint log density of
        row and label.
    sizes : (K,)
        Sums of weights by component, updated in place.
    log_density, labels : (n,)
        Filled.

    Returns
    -------
    total : float
        Weighted sum of the log densities.
    """
    n, n_components = terms.shape
    total = 0.0
    for i in range(n):
        scores, best = terms[i], 0
        for k in range(1, n_components):
            if scores[k] > scores[best]:
                best = k
        labels[i], log_density[i] = best, scores[best]
        if hard:
            sizes[best] += row_weights[i]
            total += row_weights[i] * scores[best]
    if hard:
        return total
    below = (terms - log_density.reshape(n, 1)).reshape(terms.size)
    fill_exp(terms.size, below, np.empty(terms.size), terms.reshape(terms.size))
    for i in range(n):
        shares, mass = terms[i], 0.0
        for k in range(n_components):
            shares[k] = shares[k] if shares[k] > _LEAST_SHARE else 0.0
            mass += shares[k]
        log_density[i] += math.log(mass)
        total += row_weights[i] * log_density[i]
        scale = row_weights[i] / mass
        for k in range(n_components):
            shares[k] *= scale
            sizes[k] += shares[k]
    return total


@njit(cache=True, nogil=True)
def add_block_scores(products, first, concentrations, log_peaks, out):
    """Add terms to `out`, (n, K), given the cosines of a block, (K, n_places), whose rows begin at place `first`."""
    for k in range(len(products)):
        cosines, concentration, peak = products[k], concentrations[k], log_peaks[k]
        for i in range(len(out)):
            out[i, k] += peak + concentration * (np.float64(cosines[first + i]) - 1.0)


@njit(cache=True, nogil=True)
def add_rows(rows, row_weights, labels, sums):
    """Add weighted rows to the sums of their labels, (K, n_features)."""
    for i in range(len(labels)):
        own, weight = sums[labels[i]], row_weights[i]
        for j in range(len(own)):
            own[j] += weight * rows[i, j]
