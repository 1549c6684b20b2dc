"""Numba kernels for Gaussian rows with missing cells: densities of observed cells, draws and expected products.

With the precision P = F'F of a component, the missing cells of a row given the observed ones are normal with precision
P_MM, the rows and columns of the missing cells. The root L of P_MM, L L' = P_MM, gives the conditional means, the
conditional covariance, and the density of the observed cells: its determinant is that of P over that of P_MM, and its
quadratic form is |F (x - mean)|^2 with the conditional means in the missing cells. Rows with the same pattern, next to
each other, share the roots. A family with one covariance for all components has one factor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.block_sums import dot
from ...numerics.simd import ROW_LANES
from ...random._keys import fold_in
from ...random._variates import normal
from ...utils._njit import njit, njit_part
from .._dense_rows import find_missing, have_same_missing

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_MANY_ROWS = 4  # with the same missing cells, whose squares are computed together
LEAST_PIVOT = 1e-15  # share of a diagonal entry: rounding errors may make a pivot of a nearly singular matrix negative


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


class MissingCells(NamedTuple):
    """The missing cells of a row, the roots of their precisions given each factor, and scratch memory."""

    columns: np.ndarray  # (G, d, d): transposes of the factors
    precisions: np.ndarray  # (G, d, d): lower triangles
    roots: np.ndarray  # (G, d, d)
    log_roots: np.ndarray  # (G,): logarithms of their determinants; NaN if the root has not been computed
    seen: np.ndarray  # (d,): the columns with cells
    missing: np.ndarray  # (d,): the columns without
    n_missing: np.ndarray  # (1,)
    noise: np.ndarray  # (d,): zeros, or standard normal variates for the missing cells, in their order
    gaps: np.ndarray  # (d,)
    image: np.ndarray  # (d,)


@njit(cache=True, nogil=True)
def missing_cells(columns, precisions):
    """Space for the missing cells of rows."""
    n_factors, d = columns.shape[:2]
    seen, missing, n_missing = np.empty(d, np.int64), np.empty(d, np.int64), np.zeros(1, np.int64)
    of_row = seen, missing, n_missing, np.zeros(d), np.empty(d), np.empty(d)
    return MissingCells(columns, precisions, np.empty((n_factors, d, d)), np.empty(n_factors), *of_row)


@njit_part
def find_cells(cells, X, row):
    """Find the missing cells of a row."""
    cells.n_missing[0] = find_missing(X, row, cells.seen, cells.missing)
    cells.log_roots[:] = np.nan


@njit_part
def are_alike(X, patterns, row, last):
    """Whether the same cells of two rows are missing; false if there is no last row, -1."""
    return last >= 0 and patterns[row] == patterns[last] and have_same_missing(X, row, last)


@njit_part
def fill_root(cells, f):
    """Fill the Cholesky factor of the precision of the missing cells, unless it is known."""
    if not np.isnan(cells.log_roots[f]):
        return
    precision, root, missing, column = cells.precisions[f], cells.roots[f], cells.missing, cells.image
    n_missing, log_root = cells.n_missing[0], 0.0
    for i in range(n_missing):
        for j in range(i + 1):
            root[i, j] = precision[missing[i], missing[j]]
    for j in range(n_missing):
        pivot = math.sqrt(max(root[j, j], LEAST_PIVOT * precision[missing[j], missing[j]]))
        log_root += math.log(pivot)
        root[j, j] = pivot
        for i in range(j + 1, n_missing):
            root[i, j] /= pivot
            column[i] = root[i, j]
        for i in range(j + 1, n_missing):
            entry = column[i]
            for b in range(j + 1, i + 1):
                root[i, b] -= entry * column[b]
    cells.log_roots[f] = log_root


@njit_part
def fill_gaps(cells, X, row, mean, f):
    """Fill ``cells.gaps``, the differences of a row from the mean of a component with the factor f.

    Those of missing cells are draws if ``cells.noise`` has normal variates, means if zeros, which it has afterwards;
    ``cells.image`` becomes F times the observed gaps.
    """
    fill_root(cells, f)
    columns, root, d = cells.columns[f], cells.roots[f], len(mean)
    seen, missing, n_missing = cells.seen, cells.missing, cells.n_missing[0]
    noise, gaps, image = cells.noise, cells.gaps, cells.image
    image[:] = 0.0
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
def fill_observed_squares(X, chosen, patterns, n_above, means, columns, precisions, squares, log_roots):
    """Fill squares of the observed cells of `chosen` rows given the first ``n_above[i]`` components, (n_chosen, K).

    Complete rows, whose pattern is 0, and rows with one component need none. Neighbours with the same pattern share
    factorizations. `columns` and `precisions`, (G, d, d), are of each factor or of all; `log_roots` gets log
    determinants.
    """
    cells, last, i, d = missing_cells(columns, precisions), np.int64(-1), 0, X.shape[1]
    values, scratch = np.empty((d, ROW_LANES)), np.empty((2 * d + 8, ROW_LANES))
    total, places = np.empty(ROW_LANES), np.empty(ROW_LANES, np.int64)
    while True:
        n = n_most = 0
        while i < len(chosen) and n < ROW_LANES:
            row = chosen[i]
            if patterns[row] != 0 and n_above[i] > 1:
                if not are_alike(X, patterns, row, last):
                    if n > 0:
                        break
                    find_cells(cells, X, row)
                last, places[n], n_most = row, i, max(n_most, n_above[i])
                for a in range(d):
                    values[a, n] = X[row, a]
                n += 1
            i += 1
        if n == 0:
            return
        for k in range(min(n_most, len(means))):
            f = min(k, len(columns) - 1)
            if n >= _MANY_ROWS:
                _fill_squares_of_rows(n, cells, values, means[k], f, scratch, total)
            for lane in range(n):
                place = places[lane]
                if k < n_above[place]:
                    if n < _MANY_ROWS:
                        total[lane] = _observed_square(cells, X, chosen[place], means[k], f)
                    squares[place, k], log_roots[place, k] = total[lane], cells.log_roots[f]


@njit_part
def _observed_square(cells, X, row, mean, f):
    fill_gaps(cells, X, row, mean, f)
    for m in range(cells.n_missing[0]):
        b = cells.missing[m]
        for j in range(b, len(mean)):
            cells.image[j] += cells.gaps[b] * cells.columns[f, b, j]
    return dot(cells.image, cells.image)


@njit_part
def _fill_squares_of_rows(n, cells, values, mean, f, scratch, total):
    """Fill `total` with the numbers of `_observed_square` for n rows, the columns of `values`, with the same cells.

    The operations for a row have the same order, so that the result does not depend on its neighbours.
    """
    fill_root(cells, f)
    d, n_missing, columns, root = len(mean), cells.n_missing[0], cells.columns[f], cells.roots[f]
    gaps, image, sums, missing = scratch[:d], scratch[d:-8], scratch[-8:], cells.missing
    image[:] = 0.0
    for a in cells.seen[: d - n_missing]:
        for lane in range(n):
            gaps[a, lane] = values[a, lane] - mean[a]
        for j in range(a, d):
            _add_multiple(n, columns[a, j], gaps[a], image[j])
    for i in range(n_missing):
        b = missing[i]
        sums[:] = 0.0
        for j in range(b, d):
            _add_multiple(n, columns[b, j], image[j], sums[_partial_sum(j - b, d - b)])
        _add_up(n, sums, gaps[b])
        for j in range(i):
            _add_multiple(n, root[i, j], gaps[missing[j]], gaps[b])
        for lane in range(n):
            gaps[b, lane] /= -root[i, i]
    for i in range(n_missing - 1, -1, -1):
        gap = gaps[missing[i]]
        for lane in range(n):
            gap[lane] /= root[i, i]
        for j in range(i):
            _add_multiple(n, -root[i, j], gap, gaps[missing[j]])
    for b in missing[:n_missing]:
        for j in range(b, d):
            _add_multiple(n, columns[b, j], gaps[b], image[j])
    sums[:] = 0.0
    for j in range(d):
        for lane in range(n):
            sums[_partial_sum(j, d), lane] += image[j, lane] * image[j, lane]
    _add_up(n, sums, total)


@njit_part
def _add_multiple(n, factor, vector, out):
    for lane in range(n):
        out[lane] += factor * vector[lane]


# Sums of products in the order of `dot`


@njit_part
def _partial_sum(j, n):
    return j % 8 if j < n - n % 8 else 0


@njit_part
def _add_up(n, s, out):
    for i in range(n):
        out[i] = ((s[0, i] + s[1, i]) + (s[2, i] + s[3, i])) + ((s[4, i] + s[5, i]) + (s[6, i] + s[7, i]))


@njit(cache=True, nogil=True)
def draw_cells(X, chosen, places, patterns, labels, first_row, key, means, columns, precisions, out):
    """Draw the missing cells of `chosen` rows given the observed cells and the component, into `out`, (n_out, d).

    `places` are their entries of `labels` and `out`. Draws depend only on the key and on `first_row` plus the row's
    index. Neighbours with the same label and pattern share roots.
    """
    cells, last = missing_cells(columns, precisions), np.int64(-1)
    for i in range(len(chosen)):
        row, k = chosen[i], labels[places[i]]
        if not are_alike(X, patterns, row, last):
            find_cells(cells, X, row)
        last = row
        of_row = fold_in(key, first_row + row)
        for j in range(cells.n_missing[0]):
            cells.noise[j] = normal(of_row, j)
        fill_gaps(cells, X, row, means[k], min(k, len(columns) - 1))
        for j in range(cells.n_missing[0]):
            b = cells.missing[j]
            out[places[i], b] = means[k, b] + cells.gaps[b]


@njit(cache=True, nogil=True)
def add_expected_sums(X, chosen, places, patterns, shares, means, columns, precisions, origin, sizes, sums, products):
    """Add `chosen` rows minus the origin to expected sizes, sums and products, (G, d, d), by `shares`, (n_shares, K).

    Missing cells have conditional means; products also contain their conditional covariances. `places` are rows of
    `shares`. Neighbours with the same pattern share factorizations.
    """
    (K, d), n_factors = means.shape, len(columns)
    cells, last = missing_cells(columns, precisions), np.int64(-1)
    weights, inverse = np.zeros(n_factors), np.empty((d, d))
    for i in range(len(chosen)):
        row = chosen[i]
        if not are_alike(X, patterns, row, last):
            for f in range(n_factors):  # of the rows before
                _add_conditional_covariance(cells, f, weights[f], inverse, products[f])
            weights[:] = 0.0
            find_cells(cells, X, row)
        last = row
        for k in range(K):
            share, f = shares[places[i], k], min(k, n_factors - 1)
            if share == 0.0:
                continue
            fill_gaps(cells, X, row, means[k], f)
            weights[f] += share
            sizes[k] += share
            product, gaps = products[f], cells.gaps
            for a in range(d):
                gaps[a] += means[k, a] - origin[a]
            for a in range(d):
                entry = share * gaps[a]
                sums[k, a] += entry
                for b in range(a + 1):
                    product[a, b] += entry * gaps[b]
    for f in range(n_factors):
        _add_conditional_covariance(cells, f, weights[f], inverse, products[f])


@njit_part
def _add_conditional_covariance(cells, f, weight, inverse, product):
    """Add a multiple of the inverse of L L' to the missing cells of a lower triangle."""
    if weight == 0.0:
        return
    fill_root(cells, f)
    root, missing, n_missing = cells.roots[f], cells.missing, cells.n_missing[0]
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
def add_conditional_moments(X, chosen, patterns, shares, means, columns, precisions, firsts, seconds):
    """Add conditional means and second moments of missing cells, weighted by `shares`, (n, K), to two (n, d) arrays.

    Neighbours with the same pattern share factorizations.
    """
    n_factors, d = columns.shape[:2]
    cells, last = missing_cells(columns, precisions), np.int64(-1)
    covariances, inverse = np.empty((n_factors, d, d)), np.empty((d, d))
    for i in range(len(chosen)):
        row = chosen[i]
        if not are_alike(X, patterns, row, last):
            find_cells(cells, X, row)
            covariances[:] = 0.0
            for f in range(n_factors):
                _add_conditional_covariance(cells, f, 1.0, inverse, covariances[f])
        last = row
        for k in range(len(means)):
            share, f = shares[row, k], min(k, n_factors - 1)
            if share == 0.0:
                continue
            fill_gaps(cells, X, row, means[k], f)
            for m in range(cells.n_missing[0]):
                b = cells.missing[m]
                value = means[k, b] + cells.gaps[b]
                firsts[row, b] += share * value
                seconds[row, b] += share * (value * value + covariances[f, b, b])


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
