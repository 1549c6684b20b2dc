"""Kernels of prediction: log densities of rows given the counts or the parameters of the components."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.special import log_rising, log_rising_of_real
from ...numerics.vector_math import fill_exp
from ...utils._njit import njit
from .gibbs_kernels import add_scores


@njit(cache=True, nogil=True)
def add_given_counts(first, stop, indptr, indices, counts, column_of, cells, log_cells, totals, log_totals, out):
    """Add to `out` the log densities of rows given the counts of the components, with the parameters integrated out.

    This is the Dirichlet-multinomial distribution without multinomial coefficients: a quotient of rising factorials of
    ``cells`` = prior + counts and of ``totals``, their sums by column. Fractional counts are weights.

    Parameters
    ----------
    first, stop : int
        Range of the rows of the table.
    indptr, indices, counts, column_of
        Arrays of the table; counts are float64.
    cells, log_cells : (n_categories, K)
    totals, log_totals : (n_columns, K)
    out : (n_rows, K)
    """
    n_components = cells.shape[1]
    for row in range(first, stop):
        scores = out[row]
        tokens, column = 0.0, np.int64(-1)
        for e in range(indptr[row], indptr[row + 1]):
            f, count = indices[e], counts[e]
            if column_of[f] != column:
                if tokens > 0:
                    _subtract_total(tokens, totals[column], log_totals[column], scores)
                tokens, column = 0.0, np.int64(column_of[f])
            tokens += count
            if count == 1:
                logs = log_cells[f]
                for k in range(n_components):
                    scores[k] += logs[k]
            else:
                for k in range(n_components):
                    scores[k] += _log_rising(cells[f, k], count)
        if tokens > 0:
            _subtract_total(tokens, totals[column], log_totals[column], scores)


@njit(cache=True, nogil=True)
def _subtract_total(tokens, totals, log_totals, scores):
    if tokens == 1:
        for k in range(len(scores)):
            scores[k] -= log_totals[k]
    else:
        for k in range(len(scores)):
            scores[k] -= _log_rising(totals[k], tokens)


@njit(cache=True, nogil=True)
def _log_rising(x, n):
    """Log of the rising factorial (x)_n; the result for a whole n does not depend on the type of the other counts."""
    return log_rising(x, np.int64(n)) if n == np.floor(n) else log_rising_of_real(x, n)


@njit(cache=True, nogil=True)
def add_predictive(
    indptr, indices, counts, column_start, column_of, prior, row, clusters, n_clusters, categories, totals, out
):
    """Add to `out` the log density of one row given each of some clusters, as `add_given_counts` does.

    Nothing is computed in advance, so that the counts may change between calls. `categories` (n_categories, ...) and
    `totals` (n_columns, ...) are the numbers of tokens by cluster, without the prior.
    """
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column, tokens = column_of[indices[e]], np.int64(0)
        while e < stop and column_of[indices[e]] == column:
            for c in range(n_clusters):
                out[c] += log_rising(prior + categories[indices[e], clusters[c]], np.int64(counts[e]))
            tokens += counts[e]
            e += 1
        width = column_start[column + 1] - column_start[column]
        for c in range(n_clusters):
            out[c] -= log_rising(prior * width + totals[column, clusters[c]], tokens)


@njit(cache=True, nogil=True)
def add_given_parameters(first, stop, indptr, indices, counts, log_table, out):
    """Add to `out` the log densities of rows given log probabilities of the categories, (n_categories, K)."""
    for row in range(first, stop):
        add_scores(indptr, indices, counts, row, log_table.shape[1], log_table, out[row])


@njit(cache=True, nogil=True)
def log_sums(first, stop, terms, out):
    """Log of the sum of each row's exponentials."""
    n = terms.shape[1]
    scratch = np.empty((2, n))
    for row in range(first, stop):
        largest = -np.inf
        for k in range(n):
            largest = max(largest, terms[row, k])
        for k in range(n):
            scratch[0, k] = terms[row, k] - largest
        fill_exp(n, scratch[0], scratch[1], scratch[0])
        total = 0.0
        for k in range(n):
            total += scratch[0, k]
        out[row] = largest + math.log(total)
