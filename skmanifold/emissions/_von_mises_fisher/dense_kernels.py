"""Kernels of dense rows of directions, whose products with their factors are unit vectors.

Products with directions, and sums of rows times responsibilities in a block, have the precision of the rows, the rest
is float64. *Terms* of a row are ``log_peaks + concentrations (cosine - 1)``; `panels` hold mean directions.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.block_sums import sum_lanes
from ...numerics.products import add_weighted_rows, fill_products, rows_of_block, transpose
from ...numerics.special import fill_exp
from ...utils._njit import njit, njit_part

_LEAST_SHARE = 4e-18  # smaller responsibilities are lost in rounding when added to 1


@njit(cache=True, nogil=True)
def expect_dense(rows, factors, row_weights, panels, concentrations, log_peaks, hard, sums, sizes, log_density, labels):
    """Fill the log densities and labels of rows, and add the rows to `sizes`, (K,), and `sums`, (K, n_features).

    If `hard`, a row has its most probable component alone, and the joint log density of row and label.
    """
    n, n_together = len(rows), rows_of_block(rows.shape[1], len(sizes))
    products = np.zeros((n_together, len(panels) * panels.shape[2]), rows.dtype)
    weights = np.empty(products.T.shape, rows.dtype)
    for a in range(0, n, n_together):
        b = min(n, a + n_together)
        block = rows[a:b]
        fill_products(block, panels, rows[b : b + n_together], products[: b - a])
        transpose(b - a, products, weights)
        given = weights, factors[a:b], row_weights[a:b], concentrations, log_peaks
        _assign_rows(*given, hard, sizes, log_density[a:b], labels[a:b])
        if hard:
            add_dense_labelled(block, factors[a:b], row_weights[a:b], labels[a:b], sizes, sums)
        else:
            add_weighted_rows(block, weights, sums)


@njit(cache=True, nogil=True)
def add_dense_terms(rows, factors, panels, concentrations, log_peaks, out):
    """Add the terms of rows to `out`, (n, K)."""
    n_together, n_components = rows_of_block(rows.shape[1], out.shape[1]), out.shape[1]
    products = np.empty((n_together, len(panels) * panels.shape[2]), rows.dtype)
    for a in range(0, len(rows), n_together):
        block = rows[a : a + n_together]
        fill_products(block, panels, rows[a + n_together : a + 2 * n_together], products[: len(block)])
        for i in range(len(block)):
            for k in range(n_components):
                out[a + i, k] += _term(products[i, k], factors[a + i], concentrations[k], log_peaks[k])


@njit(cache=True, nogil=True)
def add_dense_labelled(rows, factors, row_weights, labels, sizes, sums):
    """Add weighted unit vectors to the sizes and sums of their labels, (K,) and (K, n_features)."""
    for i in range(len(labels)):
        own, weight = sums[labels[i]], row_weights[i] * factors[i]
        sizes[labels[i]] += row_weights[i]
        for j in range(len(own)):
            own[j] += weight * rows[i, j]


@njit_part
def _term(product, factor, concentration, log_peak):
    return log_peak + concentration * (factor * product - 1.0)


@njit(cache=True, nogil=True)
def _assign_rows(products, factors, row_weights, concentrations, log_peaks, hard, sizes, log_density, labels):
    """Assign n rows given their products with directions, (at least K, at least n), unless `hard` to all components.

    Then responsibilities times row weights are added to `sizes`, and products become these times factors. The rows are
    in the lanes of vectors.
    """
    n, n_components = len(labels), len(sizes)
    below, powers, shares, masses = np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
    labels[:], log_density[:] = 0, -np.inf
    for k in range(n_components):
        own, concentration, peak = products[k, :n], concentrations[k], log_peaks[k]
        for i in range(n):
            term, best = _term(own[i], factors[i], concentration, peak), log_density[i]
            labels[i] = k if term > best else labels[i]
            log_density[i] = term if term > best else best
    if hard:
        return
    for k in range(n_components):
        own, concentration, peak = products[k, :n], concentrations[k], log_peaks[k]
        for i in range(n):
            below[i] = _term(own[i], factors[i], concentration, peak) - log_density[i]
        fill_exp(n, below, powers, shares)
        for i in range(n):
            share = shares[i] if shares[i] > _LEAST_SHARE else 0.0
            masses[i] += share
            own[i] = share
    for i in range(n):
        log_density[i] += math.log(masses[i])
        masses[i] = row_weights[i] / masses[i]
    for k in range(n_components):
        own = products[k, :n]
        for i in range(n):
            shares[i] = own[i] * masses[i]
            own[i] = shares[i] * factors[i]
        sizes[k] += sum_lanes(shares)
