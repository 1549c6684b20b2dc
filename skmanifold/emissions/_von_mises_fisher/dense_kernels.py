"""Kernels of blocks of dense rows, whose cosines with the mean directions are known.

`products`, (K, n_places), has the cosines of a row in a column; row i of a block is in column ``first + i``. Loops over
rows are innermost, so that they are vectorised.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in
from ...utils._njit import njit

_LEAST_SHARE = 4e-18  # exp(-40): smaller responsibilities are lost in rounding when added to 1


@njit(cache=True, nogil=True)
def _fill_labels(products, first, concentrations, log_peaks, top, labels):
    """Fill the largest score of each row, and its component."""
    top[:] = -np.inf
    for k in range(len(products)):
        cosines, concentration, peak = products[k], concentrations[k], log_peaks[k]
        for i in range(len(top)):
            score = peak + concentration * (np.float64(cosines[first + i]) - 1.0)
            if score > top[i]:
                top[i] = score
                labels[i] = k


@njit(cache=True, nogil=True)
def label_block(products, first, row_weights, concentrations, log_peaks, sizes, log_density, labels):
    """Assign the rows of a block to their most probable components.

    Parameters
    ----------
    products : (K, n_places)
    first : int
    row_weights : (n,)
    concentrations, log_peaks : (K,)
    sizes : (K,)
        Sums of weights by component, updated in place.
    log_density, labels : (n,)
        Filled; the density is the joint density of row and label.

    Returns
    -------
    total : float
        Weighted sum of the log densities.
    """
    _fill_labels(products, first, concentrations, log_peaks, log_density, labels)
    total = 0.0
    for i in range(len(labels)):
        sizes[labels[i]] += row_weights[i]
        total += row_weights[i] * log_density[i]
    return total


@njit(cache=True, nogil=True)
def share_block(products, first, row_weights, concentrations, log_peaks, shares, sizes, log_density, labels):
    """Responsibilities of the components for the rows of a block; parameters as of `label_block`.

    `shares`, (K, n_places), are filled with the responsibilities times the weights, in the columns of the rows.
    """
    n = len(labels)
    scratch = np.empty((4, n))
    top, below, powers, sums = scratch
    _fill_labels(products, first, concentrations, log_peaks, top, labels)
    sums[:] = 0.0
    for k in range(len(products)):
        cosines, own, concentration, peak = products[k], shares[k], concentrations[k], log_peaks[k]
        for i in range(n):
            below[i] = peak + concentration * (np.float64(cosines[first + i]) - 1.0) - top[i]
        fill_exp(n, below, powers, below)
        for i in range(n):
            share = below[i] if below[i] > _LEAST_SHARE else 0.0
            own[first + i] = share
            sums[i] += share
    total = 0.0
    for i in range(n):
        log_density[i] = top[i] + math.log(sums[i])
        total += row_weights[i] * log_density[i]
        sums[i] = row_weights[i] / sums[i]
    for k in range(len(products)):
        own, size = shares[k], 0.0
        for i in range(n):
            own[first + i] *= sums[i]
            size += own[first + i]
        sizes[k] += size
    return total


@njit(cache=True, nogil=True)
def add_block_scores(products, first, concentrations, log_peaks, out):
    """Add ``log_peaks + concentrations (cosine - 1)`` of the rows of a block to `out`, (n, K)."""
    for i in range(len(out)):
        for k in range(len(products)):
            out[i, k] += log_peaks[k] + concentrations[k] * (np.float64(products[k, first + i]) - 1.0)


@njit(cache=True, nogil=True)
def add_rows(rows, row_weights, labels, sums):
    """Add weighted rows to the sums of their components, (K, n_features)."""
    for i in range(len(labels)):
        own, weight = sums[labels[i]], row_weights[i]
        for j in range(len(own)):
            own[j] += weight * rows[i, j]


@njit(cache=True, nogil=True)
def hash_dense_rows(bits, out):
    """Fill `out`, (n,), with a hash of the bits of each row, (n, n_features) uint64."""
    for i in range(len(out)):
        key = np.uint64(0)
        for j in range(bits.shape[1]):
            key = fold_in(key, bits[i, j])
        out[i] = key
