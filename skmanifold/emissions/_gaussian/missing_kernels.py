"""Numba kernels for Gaussian rows with missing cells: densities of observed cells, draws and expected products.

With the precision P = F'F of a component, the missing cells of a row given the observed ones are normal with precision
P_MM, the rows and columns of the missing cells. The root L of P_MM, L L' = P_MM, gives the conditional means, the
conditional covariance, and the density of the observed cells: its determinant is that of P over that of P_MM, and its
quadratic form is |F (x - mean)|^2 with the conditional means in the missing cells. Rows with the same pattern, next to
each other, share the roots. A family with one covariance for all components has one factor.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.reductions import dot
from ...random._keys import fold_in
from ...random._variates import normal
from ...utils._njit import njit
from .._pattern_kernels import find_missing, have_same_missing

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_LEAST_SHARE = 1e-15  # of a diagonal entry: rounding errors may make a pivot of a nearly singular matrix negative


@njit(cache=True, nogil=True)
def fill_columns_and_precisions(factors, columns, precisions):
    """Fill the transposes of lower triangular factors F, and the lower triangles of F'F, (K, d, d).

    The factors may have further rows and columns, which are not read.
    """
    K, d = columns.shape[:2]
    for k in range(K):
        factor, precision = factors[k], precisions[k]
        for a in range(d):
            for b in range(d):
                columns[k, a, b] = factor[b, a] if b >= a else 0.0
                precision[a, b] = 0.0
        for j in range(d):
            for a in range(j + 1):
                entry = factor[j, a]
                for b in range(a + 1):
                    precision[a, b] += entry * factor[j, b]


@njit(cache=True, nogil=True)
def fill_root(precision, missing, n_missing, column, root):
    """Fill the Cholesky factor of the precision of the missing cells; returns the logarithm of its determinant."""
    log_root = 0.0
    for i in range(n_missing):
        for j in range(i + 1):
            root[i, j] = precision[missing[i], missing[j]]
    for j in range(n_missing):
        pivot = math.sqrt(max(root[j, j], _LEAST_SHARE * precision[missing[j], missing[j]]))
        log_root += math.log(pivot)
        root[j, j] = pivot
        for i in range(j + 1, n_missing):
            root[i, j] /= pivot
            column[i] = root[i, j]
        for i in range(j + 1, n_missing):
            entry = column[i]
            for b in range(j + 1, i + 1):
                root[i, b] -= entry * column[b]
    return log_root


@njit(cache=True, nogil=True)
def fill_gaps(X, row, mean, columns, root, seen, missing, n_missing, noise, gaps, image):
    """Fill the differences of a row from the mean of a component, with draws or means in the missing cells.

    Parameters
    ----------
    X, row : (n, d), int
    mean, columns : (d,), (d, d)
        Of the component: the transpose of its factor F.
    root : (d, d)
        Of the missing cells.
    seen, missing, n_missing : (d,), (d,), int
    noise : (d,)
        Standard normal variates for the missing cells, in their order, for a draw; zeros for conditional means.
        Overwritten.
    gaps : (d,)
        Filled.
    image : (d,)
        Filled with F times the part of the gaps that is observed.
    """
    d = len(mean)
    for j in range(d):
        image[j] = 0.0
    for i in range(d - n_missing):
        a = seen[i]
        gap = X[row, a] - mean[a]
        gaps[a] = gap
        for j in range(a, d):
            image[j] += gap * columns[a, j]
    # With h = F_M' times the image, the gaps are L'^-1 (noise - L^-1 h)
    for i in range(n_missing):
        b = missing[i]
        total = dot(columns[b, b:], image[b:])
        for j in range(i):
            total -= root[i, j] * gaps[missing[j]]
        gaps[b] = total / root[i, i]
    for i in range(n_missing):
        noise[i] -= gaps[missing[i]]
    for i in range(n_missing - 1, -1, -1):
        entry = noise[i] / root[i, i]
        noise[i] = 0.0
        gaps[missing[i]] = entry
        for j in range(i):
            noise[j] -= entry * root[i, j]


@njit(cache=True, nogil=True)
def observed_square(X, row, mean, columns, root, seen, missing, n_missing, noise, gaps, image):
    """Quadratic form of the observed cells of a row; the arguments are those of `fill_gaps`, with `noise` zero."""
    fill_gaps(X, row, mean, columns, root, seen, missing, n_missing, noise, gaps, image)
    for i in range(n_missing):
        b = missing[i]
        gap = gaps[b]
        for j in range(b, len(mean)):
            image[j] += gap * columns[b, j]
    return dot(image, image)


@njit(cache=True, nogil=True)
def fill_observed_squares(X, chosen, patterns, means, factors, squares, log_roots, n_seen):
    """Fill quadratic forms of the observed cells of chosen rows given each component.

    Parameters
    ----------
    X : (n, d)
    chosen : (n_chosen,)
        Indices of rows of X; rows with the same pattern next to each other share factorizations.
    patterns : (n,) uint64
    means, factors : (K, d), (K, d, d) or (1, d, d)
    squares, log_roots : (n_chosen, K)
        Filled: also with the log determinants of the roots.
    n_seen : (n_chosen,)
        Filled with the numbers of observed cells.
    """
    (K, d), n_factors = means.shape, len(factors)
    columns, precisions, roots = np.empty((n_factors, d, d)), np.empty((n_factors, d, d)), np.empty((n_factors, d, d))
    fill_columns_and_precisions(factors, columns, precisions)
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    of_factors, noise, gaps, image = np.empty(n_factors), np.zeros(d), np.empty(d), np.empty(d)
    for i in range(len(chosen)):
        row = chosen[i]
        if i == 0 or patterns[row] != patterns[chosen[i - 1]] or not have_same_missing(X, row, chosen[i - 1]):
            n_missing = find_missing(X, row, seen, missing)
            for f in range(n_factors):
                of_factors[f] = fill_root(precisions[f], missing, n_missing, image, roots[f])
        n_seen[i] = d - n_missing
        for k in range(K):
            f = min(k, n_factors - 1)
            of_component = means[k], columns[f], roots[f]
            squares[i, k] = observed_square(X, row, *of_component, seen, missing, n_missing, noise, gaps, image)
            log_roots[i, k] = of_factors[f]


@njit(cache=True, nogil=True)
def add_observed_densities(X, chosen, places, patterns, means, factors, offsets, out):
    """Add the log densities of the observed cells of chosen rows given each component.

    Parameters
    ----------
    X : (n, d)
        NaN where a cell is missing.
    chosen : (n_chosen,)
        Indices of rows of X, in any order; rows with the same pattern next to each other share factorizations.
    places : (n_chosen,)
        Their rows of `out`.
    patterns : (n,) uint64
    means, factors, offsets : (K, d), (K, d, d) or (1, d, d), (K,)
    out : (n_out, K)
        A row without observed cells has density 1: nothing is added.
    """
    (K, d), n = means.shape, len(chosen)
    squares, log_roots, n_seen = np.empty((n, K)), np.empty((n, K)), np.empty(n, np.int64)
    fill_observed_squares(X, chosen, patterns, means, factors, squares, log_roots, n_seen)
    for i in range(n):
        if n_seen[i] == 0:
            continue
        for k in range(K):
            of_missing = (d - n_seen[i]) * HALF_LOG_2PI
            out[places[i], k] += offsets[k] + of_missing - log_roots[i, k] - 0.5 * squares[i, k]


@njit(cache=True, nogil=True)
def draw_missing_cells(X, chosen, places, patterns, labels, first_row, key, means, factors, out):
    """Draw the missing cells of chosen rows from their distribution given the observed cells and the component.

    Parameters
    ----------
    X : (n, d)
    chosen : (n_chosen,)
        Indices of rows of X, in any order; rows with the same label and pattern next to each other share roots.
    places : (n_chosen,)
        Their entries of `labels` and rows of `out`.
    patterns : (n,) uint64
    labels : (n_out,) int32
    first_row : int
        Number of the first row of X in the whole data.
    key
        The draws of a row depend only on the key and on the number of the row.
    means, factors : (K, d), (K, d, d) or (1, d, d)
    out : (n_out, d)
        Only the missing cells are written.
    """
    d, n_factors = X.shape[1], len(factors)
    columns, precisions = np.empty((n_factors, d, d)), np.empty((n_factors, d, d))
    fill_columns_and_precisions(factors, columns, precisions)
    draw_cells(X, chosen, places, patterns, labels, first_row, key, means, columns, precisions, out)


@njit(cache=True, nogil=True)
def draw_cells(X, chosen, places, patterns, labels, first_row, key, means, columns, precisions, out):
    """Draw missing cells as `draw_missing_cells` does, with the columns and precisions of the factors."""
    d, n_factors = X.shape[1], len(columns)
    root = np.empty((d, d))
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    noise, gaps, image = np.empty(d), np.empty(d), np.empty(d)
    last = -1  # factor of the root
    for i in range(len(chosen)):
        row, k = chosen[i], labels[places[i]]
        f = min(k, n_factors - 1)
        if i == 0 or patterns[row] != patterns[chosen[i - 1]] or not have_same_missing(X, row, chosen[i - 1]):
            n_missing = find_missing(X, row, seen, missing)
            last = -1
        if f != last:
            fill_root(precisions[f], missing, n_missing, image, root)
            last = f
        of_row = fold_in(key, first_row + row)
        for j in range(n_missing):
            noise[j] = normal(of_row, j)
        fill_gaps(X, row, means[k], columns[f], root, seen, missing, n_missing, noise, gaps, image)
        for j in range(n_missing):
            b = missing[j]
            out[places[i], b] = means[k, b] + gaps[b]


@njit(cache=True, nogil=True)
def add_expected_products(X, chosen, places, patterns, shares, means, factors, origin, sizes, sums, products):
    """Add chosen rows to expected sizes, sums and products, weighted by their shares.

    Missing cells have their conditional means, and the products also contain their conditional covariances.

    Parameters
    ----------
    X : (n, d)
    chosen : (n_chosen,)
        Indices of rows of X; rows with the same pattern next to each other share factorizations.
    places : (n_chosen,)
        Their rows of `shares`.
    patterns : (n,) uint64
    shares : (n_shares, K)
    means, factors : (K, d), (K, d, d) or (1, d, d)
    origin : (d,)
        Subtracted first, which reduces rounding errors.
    sizes, sums : (K,), (K, d)
    products : (K, d, d) or (1, d, d)
        Lower triangles, of each component or of all together.
    """
    (K, d), n_factors = means.shape, len(factors)
    columns, precisions, roots = np.empty((n_factors, d, d)), np.empty((n_factors, d, d)), np.empty((n_factors, d, d))
    fill_columns_and_precisions(factors, columns, precisions)
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    noise, gaps, image, weights = np.zeros(d), np.empty(d), np.empty(d), np.zeros(n_factors)
    inverse = np.empty((d, d))
    for i in range(len(chosen)):
        row = chosen[i]
        if i == 0 or patterns[row] != patterns[chosen[i - 1]] or not have_same_missing(X, row, chosen[i - 1]):
            for f in range(n_factors):
                _add_conditional_covariance(roots[f], missing, n_missing, weights[f], inverse, products[f])
                weights[f] = 0.0
            n_missing = find_missing(X, row, seen, missing)
            for f in range(n_factors):
                fill_root(precisions[f], missing, n_missing, image, roots[f])
        for k in range(K):
            share, f = shares[places[i], k], min(k, n_factors - 1)
            if share == 0.0:
                continue
            fill_gaps(X, row, means[k], columns[f], roots[f], seen, missing, n_missing, noise, gaps, image)
            weights[f] += share
            sizes[k] += share
            product = products[f]
            for a in range(d):
                gaps[a] += means[k, a] - origin[a]
            for a in range(d):
                entry = share * gaps[a]
                sums[k, a] += entry
                for b in range(a + 1):
                    product[a, b] += entry * gaps[b]
    for f in range(n_factors):
        _add_conditional_covariance(roots[f], missing, n_missing, weights[f], inverse, products[f])


@njit(cache=True, nogil=True)
def _add_conditional_covariance(root, missing, n_missing, weight, inverse, product):
    """Add a multiple of the inverse of L L' to the missing cells of a lower triangle."""
    if weight == 0.0:
        return
    for c in range(n_missing):  # row c of `inverse` is column c of L^-1
        for i in range(c, n_missing):
            total = 1.0 if i == c else 0.0
            for j in range(c, i):
                total -= root[i, j] * inverse[c, j]
            inverse[c, i] = total / root[i, i]
    for i in range(n_missing):
        for j in range(i + 1):
            total = 0.0
            for c in range(i, n_missing):
                total += inverse[i, c] * inverse[j, c]
            product[missing[i], missing[j]] += weight * total


@njit(cache=True, nogil=True)
def add_conditional_moments(X, chosen, patterns, shares, means, factors, firsts, seconds):
    """Add the conditional means and second moments of missing cells, weighted by the shares of the components.

    Parameters
    ----------
    X : (n, d)
        NaN where a cell is missing.
    chosen : (n_chosen,)
        Indices of rows of X; rows with the same pattern next to each other share factorizations.
    patterns : (n,) uint64
    shares : (n, K)
    means, factors : (K, d), (K, d, d) or (1, d, d)
    firsts, seconds : (n, d)
        Only missing cells are changed.
    """
    (K, d), n_factors = means.shape, len(factors)
    columns, precisions, roots = np.empty((n_factors, d, d)), np.empty((n_factors, d, d)), np.empty((n_factors, d, d))
    fill_columns_and_precisions(factors, columns, precisions)
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    noise, gaps, image = np.zeros(d), np.empty(d), np.empty(d)
    variances = np.empty((n_factors, d))
    for i in range(len(chosen)):
        row = chosen[i]
        if i == 0 or patterns[row] != patterns[chosen[i - 1]] or not have_same_missing(X, row, chosen[i - 1]):
            n_missing = find_missing(X, row, seen, missing)
            for f in range(n_factors):
                fill_root(precisions[f], missing, n_missing, image, roots[f])
                _fill_inverse_diagonal(roots[f], n_missing, image, variances[f])
        for k in range(K):
            share, f = shares[row, k], min(k, n_factors - 1)
            if share == 0.0:
                continue
            fill_gaps(X, row, means[k], columns[f], roots[f], seen, missing, n_missing, noise, gaps, image)
            for m in range(n_missing):
                b = missing[m]
                value = means[k, b] + gaps[b]
                firsts[row, b] += share * value
                seconds[row, b] += share * (value * value + variances[f, m])


@njit(cache=True, nogil=True)
def _fill_inverse_diagonal(root, n, column, out):
    """Fill the diagonal of the inverse of L L', for a lower triangular L of n rows."""
    for i in range(n):
        out[i] = 0.0
    for c in range(n):  # a column of the inverse of L
        for i in range(c, n):
            total = 1.0 if i == c else 0.0
            for j in range(c, i):
                total -= root[i, j] * column[j]
            column[i] = total / root[i, i]
        # entry (c, c) of L'^-1 L^-1 is the sum of squares of column c of L^-1
        for i in range(c, n):
            out[c] += column[i] * column[i]


# Families with independent features: missing cells are integrated out


@njit(cache=True, nogil=True)
def count_labelled_missing(X, first, stop, block_rows, labels, counts):
    """Add the missing cells of rows to the counts of their labels, (n_blocks, K, d); `labels` begin with the first."""
    for row in range(first, stop):
        of_label = counts[(row - first) // block_rows, labels[row - first]]
        for a in range(X.shape[1]):
            if np.isnan(X[row, a]):
                of_label[a] += 1.0


@njit(cache=True, nogil=True)
def count_shared_missing(X, first, stop, shares, counts):
    """Add the shares of rows to the counts of their missing cells, (K, d); `shares` begin with the first."""
    for row in range(first, stop):
        for a in range(X.shape[1]):
            if np.isnan(X[row, a]):
                for k in range(shares.shape[1]):
                    counts[k, a] += shares[row - first, k]


# Clusters of rows: missing cells have current values, which are drawn


@njit(inline="always")  # kernels without counts of references cannot return an array
def row_of(data, statistics, row):
    """The cells of a row; those that are missing have their current values."""
    place = data.place[row]
    return data.values[row] if place < 0 else statistics.completed[place]


@njit(cache=True, nogil=True)
def fill_observed_scores(data, rows, n_above, components, scores):
    """Fill the scores of rows with missing cells: log densities of their observed cells.

    Rows with the same missing cells, next to each other, share factorizations.
    """
    means, columns, precisions = components.parameters.means, components.columns, components.precisions
    X, d, n_factors = data.values, means.shape[1], len(columns)
    if n_factors == 0:  # no row has missing cells
        return
    n_chosen = 0
    for i in range(len(rows)):
        n_chosen += data.place[rows[i]] >= 0 and n_above[i] > 1
    if n_chosen == 0:
        return
    roots, log_roots = np.empty((n_factors, d, d)), np.empty(n_factors)
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), 0
    noise, gaps, image = np.zeros(d), np.empty(d), np.empty(d)
    last = np.int64(-1)
    for i in range(len(rows)):
        row = rows[i]
        if data.place[row] < 0 or n_above[i] <= 1:
            continue
        if last < 0 or data.patterns[row] != data.patterns[last] or not have_same_missing(X, row, last):
            n_missing = find_missing(X, row, seen, missing)
            for f in range(n_factors):
                log_roots[f] = np.nan
        last = row
        for k in range(n_above[i]):
            f = min(k, n_factors - 1)
            if n_missing == d:
                scores[i, k] = 0.0
                continue
            if np.isnan(log_roots[f]):
                log_roots[f] = fill_root(precisions[f], missing, n_missing, image, roots[f])
            of_component = means[k], columns[f], roots[f]
            square = observed_square(X, row, *of_component, seen, missing, n_missing, noise, gaps, image)
            scores[i, k] = components.parameters.offsets[k] + n_missing * HALF_LOG_2PI - log_roots[f] - 0.5 * square
