"""Kernels of clusters with full covariances: sums of rows, scores, and draws of the components."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....numerics.row_squares import ENTRIES
from ....random._keys import fold_in
from ....utils._njit import njit, njit_part
from ... import kernels
from ..._gaussian.kernels import FULL_LANES, add_products, add_squares_of_rows, draw_full_component
from .missing_kernels import fill_observed_scores, row_of


class FullData(NamedTuple):
    """Rows of numbers, and the normal-inverse-Wishart prior of each component."""

    values: np.ndarray  # (n_rows, d); NaN where a cell is missing
    place: np.ndarray  # (n_rows,) int32: index among the rows with missing cells, or -1
    patterns: np.ndarray  # (n_rows,) uint64: a number for the missing cells of each row
    origin: np.ndarray  # (d,), subtracted from rows before products are added, which reduces rounding errors
    mean: np.ndarray  # (d,) of the prior, relative to the origin
    mean_precision: float
    covariance: np.ndarray  # (d, d)
    degrees: float
    root: np.ndarray  # (d, d): U, upper triangular, with U'U the covariance of the prior
    log_det: float  # of the covariance of the prior
    far: float  # twice the least difference of log densities from the highest at which a score may be -inf


class FullComponents(NamedTuple):
    """Drawn parameters of K components."""

    means: np.ndarray  # (K, d)
    factors: np.ndarray  # (K, n, n): inverses of the Cholesky factors of covariances, and zeros; n a multiple of four
    offsets: np.ndarray  # (K,): log densities at the means
    columns: np.ndarray  # (K, d, d): transposes of the factors; (0, d, d) if no cell is missing
    precisions: np.ndarray  # (K, d, d): lower triangles; (0, d, d) if no cell is missing


@kernels.count_row.of(FullData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    total, product = statistics.sums[label], statistics.products[label]
    if statistics.sizes[label] == 0:
        _clear(total, product)
        return
    x, origin = row_of(data, statistics, row), data.origin
    for a in range(len(x)):
        entry = sign * (x[a] - origin[a])
        total[a] += entry
        for b in range(a + 1):
            product[a, b] += entry * (x[b] - origin[b])


@njit(cache=True, nogil=True)
def _clear(total, product):
    for a in range(len(total)):
        total[a] = 0.0
        for b in range(a + 1):
            product[a, b] = 0.0


@njit(cache=True, nogil=True)
def count_sorted_rows(data, statistics, order, first, stop, label):
    """Add the complete rows ``order[first:stop]`` to the statistics of a label."""
    four, total, product = np.empty((4, data.values.shape[1])), statistics.sums[label], statistics.products[label]
    statistics.sizes[label] += stop - first
    add_products(data.values, 0, order, first, stop, data.origin, four, total, product)


@kernels.merge_labels.of(FullData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    sums, products = statistics.sums, statistics.products
    statistics.sizes[kept] += statistics.sizes[gone]
    statistics.sizes[gone] = 0
    for a in range(sums.shape[1]):
        sums[kept, a] += sums[gone, a]
        for b in range(a + 1):
            products[kept, a, b] += products[gone, a, b]
    _clear(sums[gone], products[gone])


@njit(cache=True, nogil=True)
def fill_posterior(data, statistics, label, mean, scatter):
    """Fill the posterior mean, relative to the origin, and the lower triangle of the scatter; returns the size.

    Labels beyond the capacity have no rows.
    """
    d = len(mean)
    n = statistics.sizes[label] if label < len(statistics.sizes) else np.int64(0)
    if n == 0:
        for a in range(d):
            mean[a] = data.mean[a]
            for b in range(a + 1):
                scatter[a, b] = data.covariance[a, b]
        return n
    fill_from_sums(data, n, statistics.sums[label], statistics.products[label], mean, scatter)
    return n


@njit(cache=True, nogil=True)
def fill_from_sums(data, n, total, product, mean, scatter):
    """Fill the posterior mean, relative to the origin, and the lower triangle of the scatter, given n rows."""
    d, prior, strength = len(mean), data.mean, data.mean_precision
    precision = strength + n
    for a in range(d):
        mean[a] = (strength * prior[a] + total[a]) / precision
    for a in range(d):
        from_prior, from_mean = strength * prior[a], precision * mean[a]
        for b in range(a + 1):
            scatter[a, b] = (data.covariance[a, b] + from_prior * prior[b] + product[a, b]) - from_mean * mean[b]


@njit(cache=True, nogil=True)
def draw_components(first, stop, data, statistics, labels, least_share, key, means, factors, log_roots):
    """Draw the means and the factors of the components ``labels[first:stop]``; a singular one has the log root NaN.

    The draw of a component depends only on the key and its index.
    """
    d = data.values.shape[1]
    scatter, root, factor = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    for k in range(first, stop):
        n = fill_posterior(data, statistics, labels[k], means[k], scatter)
        log_roots[k] = draw_full_component(
            fold_in(key, k),
            data.degrees + n,
            data.mean_precision + n,
            scatter,
            least_share,
            means[k],
            root,
            factor,
        )
        for a in range(d):
            means[k, a] += data.origin[a]
            for b in range(a + 1):
                factors[k, a, b] = factor[a, b]


# Scores


@kernels.fill_scores.of(FullData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    """A batch of rows at a time; rows with the same current component should be next to each other.

    The current components come first. A squared length is a sum of squares, so that a component can be left out as soon
    as the squares of the first features show that all rows of the batch are far from it.
    """
    fill_observed_scores(data, rows, n_above, components, scores)
    n_padded = components.factors.shape[1]
    columns, gaps = np.zeros((n_padded, FULL_LANES)), np.zeros((n_padded, FULL_LANES))
    chosen, above = np.empty(FULL_LANES, np.int64), np.empty(FULL_LANES, np.int64)
    best, limit, total = np.empty(FULL_LANES), np.empty(FULL_LANES), np.empty(FULL_LANES)
    seen = np.full(len(components.offsets), -1)  # the first row of the last batch for which a component was computed
    i = 0
    while i < len(rows):
        n = n_most = 0
        while i < len(rows) and n < FULL_LANES:
            if n_above[i] > 1 and data.place[rows[i]] < 0:
                chosen[n], above[n], best[n] = i, n_above[i], -np.inf
                n_most = max(n_most, n_above[i])
                x = data.values[rows[i]]
                for a in range(len(x)):
                    columns[a, n] = x[a]
                n += 1
            i += 1
        for step in range(n + n_most):
            k = current[chosen[step]] if step < n else step - n
            if seen[k] == chosen[0]:
                continue
            seen[k] = chosen[0]
            offset = components.offsets[k]
            for lane in range(n):
                limit[lane] = 2.0 * (offset - best[lane]) + data.far if above[lane] > k else -1.0
            if not _add_until_far(columns, n, components.means[k], components.factors[k], limit, gaps, total):
                total[:] = np.inf
            for lane in range(n):
                total[lane] = offset - 0.5 * total[lane]
                best[lane] = total[lane] if (total[lane] > best[lane]) & (above[lane] > k) else best[lane]
            for lane in range(n):
                if above[lane] > k:
                    scores[chosen[lane], k] = total[lane]


@njit(cache=True, nogil=True)
def _add_until_far(columns, n, mean, factor, limit, gaps, total):
    """Fill `total` with squared lengths of n rows; False if the first entries show that all are above their limits."""
    total[:] = 0.0
    for j in range(0, len(columns), ENTRIES):
        add_squares_of_rows(columns, n, mean, factor, j, j + ENTRIES, gaps, total)
        n_near = 0
        for lane in range(n):
            n_near += total[lane] <= limit[lane]
        if n_near == 0:
            return False
    return True
