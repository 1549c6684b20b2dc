"""Kernels of a mixture's rows given the logs of weights times densities: labels drawn, shares, the likeliest."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in, uniform
from ...utils._njit import njit


@njit(cache=True, nogil=True)
def _exponentiate(terms, scratch, log_density):
    """Replace each row of terms by the exponentials of its gaps to the largest, which goes to `log_density`.

    A row that has no density anywhere, so far away is it, has the same term everywhere.
    """
    n, n_components = terms.shape
    for i in range(n):
        largest = -np.inf
        for k in range(n_components):
            largest = max(largest, terms[i, k])
        log_density[i] = largest
        for k in range(n_components):
            terms[i, k] = terms[i, k] - largest if largest > -np.inf else 0.0
    flat = terms.reshape(n * n_components)
    fill_exp(n * n_components, flat, scratch, flat)


@njit(cache=True, nogil=True)
def draw_labels_of_terms(terms, key, first_row, scratch, labels, log_density):
    """Draw a label for each row in proportion to the exponentials of its terms, (n, K), which are overwritten.

    Parameters
    ----------
    terms : (n, K)
    key
        A draw belongs to (key, `first_row` plus the row's place).
    first_row : int
    scratch : (at least n K,)
    labels : (n,) int32
    log_density : (n,)
        Log of the sum of the exponentials.
    """
    _exponentiate(terms, scratch, log_density)
    last = terms.shape[1] - 1
    for i in range(len(labels)):
        total = 0.0
        for k in range(last + 1):
            total += terms[i, k]
            terms[i, k] = total
        at = uniform(fold_in(key, first_row + i), 0) * total
        label = 0
        while label < last and at >= terms[i, label]:
            label += 1
        labels[i] = label
        log_density[i] += math.log(total)


@njit(cache=True, nogil=True)
def fill_shares(terms, scratch, log_density):
    """Replace the terms of rows, (n, K), by shares that sum to one; the log of their sum goes to `log_density`."""
    _exponentiate(terms, scratch, log_density)
    n_components = terms.shape[1]
    for i in range(len(log_density)):
        total = 0.0
        for k in range(n_components):
            total += terms[i, k]
        for k in range(n_components):
            terms[i, k] /= total
        log_density[i] += math.log(total)
