"""Kernels of dense rows of directions, whose products with their factors are unit vectors.

Products with directions, and sums of rows times responsibilities in some blocks, have the precision of the rows; the
rest is float64. *Terms* of a row are ``log_peaks + concentrations (cosine - 1)``.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.products import transpose
from ...numerics.special import fill_exp
from ...utils._njit import njit, njit_part

_LEAST_SHARE = 4e-18  # smaller responsibilities are lost in rounding when added to 1


@njit(cache=True, nogil=True)
def add_dense_labelled(rows, first, factors, row_weights, labels, sizes, sums):
    """Add weighted rows, from `first` on, as unit vectors to the sizes and sums of their labels, (K,) and (K, m)."""
    for i in range(len(labels)):
        own, weight = sums[labels[i]], row_weights[i] * factors[i]
        sizes[labels[i]] += row_weights[i]
        for j in range(len(own)):
            own[j] += weight * rows[first + i, j]


@njit_part
def _term(product, factor, concentration, log_peak):
    return log_peak + concentration * (factor * product - 1.0)


@njit(cache=True, nogil=True)
def assign_dense(
    products, work, factors, row_weights, concentrations, log_peaks, hard, shares, sizes, log_density, labels
):
    """Assign n rows given their products with directions, (at least n, at least K), unless `hard` to all components.

    Fills log densities, with `hard` the joint ones of row and label, and labels. Otherwise responsibilities times row
    weights are added to `sizes`, (K,), and `shares`, (at least K, at least n), are those times factors. The rows are in
    the lanes of vectors. `work` is (5, n + 8 or more).
    """
    transpose(len(labels), products, shares)
    n, n_components, n_lanes = len(labels), len(sizes), 8
    below, powers, terms, masses, lanes = work[0], work[1], work[2], work[3], work[4]
    for i in range(n):
        labels[i], log_density[i], masses[i] = 0, -np.inf, 0.0
    for i in range(n, n + n_lanes):
        terms[i] = 0.0
    for k in range(n_components):
        own, concentration, peak = shares[k], concentrations[k], log_peaks[k]
        for i in range(n):
            term, best = _term(own[i], factors[i], concentration, peak), log_density[i]
            labels[i] = k if term > best else labels[i]
            log_density[i] = term if term > best else best
    if hard:
        return
    for k in range(n_components):
        own, concentration, peak = shares[k], concentrations[k], log_peaks[k]
        for i in range(n):
            below[i] = _term(own[i], factors[i], concentration, peak) - log_density[i]
        fill_exp(n, below, powers, terms)
        for i in range(n):
            share = terms[i] if terms[i] > _LEAST_SHARE else 0.0
            masses[i] += share
            own[i] = share
    for i in range(n):
        log_density[i] += math.log(masses[i])
        masses[i] = row_weights[i] / masses[i]
    for k in range(n_components):
        own = shares[k]
        for i in range(n):
            terms[i] = own[i] * masses[i]
            own[i] = terms[i] * factors[i]
        for lane in range(n_lanes):
            lanes[lane] = 0.0
        for i in range(0, n, n_lanes):
            for lane in range(n_lanes):
                lanes[lane] += terms[i + lane]
        for lane in range(n_lanes):
            sizes[k] += lanes[lane]
