"""Numba kernels for families whose log densities are linear in sparse counts."""

from __future__ import annotations

import numpy as np

from ..random._keys import fold_in, uniform
from ..random._variates import multinomial, poisson
from ..utils._njit import njit

# Rows with more tokens than both limits are drawn by one binomial variate per feature, which is faster there.
_MIN_MULTINOMIAL = 1024  # tokens of a row
_TOKENS_PER_FEATURE = 4  # tokens of a row, over the number of features


@njit(cache=True, nogil=True)
def add_linear_scores(first, stop, indptr, indices, counts, offsets, table, out):
    """Add the scores of rows to `out`: the offset of each component plus the counts times its column of `table`.

    Parameters
    ----------
    first, stop : int
        Rows; `out` begins with the first.
    indptr, indices, counts
        Statistics of rows in CSR order.
    offsets : (K,)
    table : (n_statistics, K)
    out : (stop - first, K)
    """
    n_components = table.shape[1]
    for row in range(first, stop):
        scores = out[row - first]
        for k in range(n_components):
            scores[k] += offsets[k]
        for e in range(indptr[row], indptr[row + 1]):
            count, natural = np.float64(counts[e]), table[indices[e]]
            for k in range(n_components):
                scores[k] += count * natural[k]


@njit(cache=True, nogil=True)
def add_labelled(first, stop, indptr, indices, counts, labels, sizes, totals):
    """Add rows to the statistics of their components; `labels` begin with row `first`."""
    for row in range(first, stop):
        k = labels[row - first]
        sizes[k] += 1
        for e in range(indptr[row], indptr[row + 1]):
            totals[indices[e], k] += counts[e]


@njit(cache=True, nogil=True)
def add_shared(first, stop, indptr, indices, counts, shares, sizes, totals):
    """Add rows to the statistics of all components, weighted by `shares`, which begin with row `first`."""
    n_components = len(sizes)
    for row in range(first, stop):
        share = shares[row - first]
        for k in range(n_components):
            sizes[k] += share[k]
        for e in range(indptr[row], indptr[row + 1]):
            count, total = np.float64(counts[e]), totals[indices[e]]
            for k in range(n_components):
                total[k] += count * share[k]


@njit(cache=True, nogil=True)
def fill_events(key, labels, means, out):
    """Draw rows of 0 and 1; `means`, (K, m), are the probabilities of a one in each component."""
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            out[i, j] = 1 if uniform(of_row, j) < means[labels[i], j] else 0


@njit(cache=True, nogil=True)
def fill_poisson(key, labels, means, out):
    """Draw rows of Poisson counts; `means`, (K, m), are those of each component."""
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            out[i, j] = np.int64(poisson(fold_in(of_row, j), means[labels[i], j]))


@njit(cache=True, nogil=True)
def fill_multinomial(key, labels, probabilities, cumulated, lengths, out):
    """Draw rows of multinomial counts; `probabilities`, (K, m), and their running sums are those of each component.

    A row of many tokens is drawn feature by feature, a shorter one token by token.
    """
    last = probabilities.shape[1] - 1
    most_single = max(_MIN_MULTINOMIAL, _TOKENS_PER_FEATURE * (last + 1))
    tails = np.empty(last + 1)
    for i in range(len(labels)):
        of_row, levels = fold_in(key, i), cumulated[labels[i]]
        if lengths[i] > most_single:
            multinomial(of_row, lengths[i], probabilities[labels[i]], tails, out[i])
            continue
        for n in range(lengths[i]):
            at = uniform(of_row, n) * levels[last]
            out[i, min(np.searchsorted(levels, at, side="right"), last)] += 1
