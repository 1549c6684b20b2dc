"""Kernels of mixtures: labels and responsibilities of rows given the logs of weights times densities."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.vector_math import fill_exp
from ...random._keys import fold_in, uniform
from ...utils._njit import njit


@njit(cache=True, nogil=True)
def _exponentiate(terms, scratch, log_density):
    """Subtract the maximum of each row of `terms`, written to `log_density`, and exponentiate.

    Rows of -inf, far from all components, get equal terms. `fill_exp` is several times faster if its output is not its
    input, whose place is in `scratch`.
    """
    n, n_components = terms.shape
    below, powers = scratch[: n * n_components], scratch[n * n_components : 2 * n * n_components]
    for i in range(n):
        largest = -np.inf
        for k in range(n_components):
            largest = max(largest, terms[i, k])
        log_density[i] = largest
        for k in range(n_components):
            below[i * n_components + k] = terms[i, k] - largest if largest > -np.inf else 0.0
    fill_exp(n * n_components, below, powers, terms.reshape(n * n_components))


@njit(cache=True, nogil=True)
def draw_labels_of_terms(terms, key, first_row, scratch, labels, log_density):
    """Draw labels, (n,) int32, with probability proportional to exp(terms), (n, K), which are overwritten.

    The draw depends only on the key and on `first_row` plus the index of the row. `log_density`, (n,), gets the logs of
    the sums of the exponentials; `scratch` has at least 2 n K numbers.
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
    """Replace the terms of rows, (n, K), by responsibilities; fills `log_density` with the logs of the sums.

    `scratch` has at least 2 n K entries.
    """
    _exponentiate(terms, scratch, log_density)
    n_components = terms.shape[1]
    for i in range(len(log_density)):
        total = 0.0
        for k in range(n_components):
            total += terms[i, k]
        for k in range(n_components):
            terms[i, k] /= total
        log_density[i] += math.log(total)
