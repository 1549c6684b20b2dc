"""Kernels of prediction for categories: log densities of rows given the counts or the parameters of components."""

from __future__ import annotations

import numpy as np

from ....numerics.special import log_rising, log_rising_of_real
from ....utils._njit import njit
from .kernels import add_scores


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
def add_given_parameters(first, stop, indptr, indices, counts, log_table, out):
    """Add to `out` the log densities of rows given log probabilities of the categories, (n_categories, K)."""
    for row in range(first, stop):
        add_scores(indptr, indices, counts, row, log_table.shape[1], log_table, out[row])


@njit(cache=True, nogil=True)
def log_marginal_of_counts(counts, column_start, prior):
    """Log marginal probability of rows whose summed `counts` are (n_categories,)."""
    result = 0.0
    for column in range(len(column_start) - 1):
        start, stop = column_start[column], column_start[column + 1]
        total = np.int64(0)
        for category in range(start, stop):
            if counts[category] > 0:
                result += log_rising(prior, counts[category])
                total += counts[category]
        result -= log_rising(prior * (stop - start), total)
    return result
