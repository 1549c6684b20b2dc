"""Numba kernels for Gaussian rows: log densities, and sums of squares and products."""

from __future__ import annotations

import numpy as np

from ...numerics.simd import ENTRIES, LANES, ROW_LANES, add_squares, load_rows
from ...utils._njit import njit, njit_part

FULL_LANES = 2 * LANES  # rows at a time, given full covariances


@njit(cache=True, nogil=True)
def add_full_densities(X, first, stop, means, padded, offsets, out):
    """Add ``offset - |A (x - mean)|^2 / 2`` of each component to `out`, (stop - first, K), A lower triangular.

    `padded`, (K, n_padded, n_padded), is A with zeros beyond d; n_padded is a multiple of `ENTRIES`.
    """
    (K, d), n_padded = means.shape, padded.shape[1]
    columns, gaps = np.zeros((n_padded, FULL_LANES)), np.zeros((n_padded, FULL_LANES))
    total = np.empty(FULL_LANES)
    for start in range(first, stop, FULL_LANES):
        n = min(FULL_LANES, stop - start)
        for lane in range(n):
            for a in range(d):
                columns[a, lane] = X[start + lane, a]
        for k in range(K):
            total[:] = 0.0
            add_squares_of_rows(columns, n, means[k], padded[k], 0, n_padded, gaps, total)
            for lane in range(n):
                out[start + lane - first, k] += offsets[k] - 0.5 * total[lane]


@njit(cache=True, nogil=True)
def add_squares_of_rows(columns, n, mean, factor, first, stop, gaps, total):
    """Add the squares of the entries `first` to `stop` of ``A (x - mean)`` to `total`, for the first n of the columns.

    Each column of `columns`, (n_padded, FULL_LANES), is a row x; `factor` is A, lower triangular and padded. `first`
    and `stop` are multiples of `ENTRIES`, in ascending calls: `gaps`, like `columns` and zero at first, keeps
    differences.
    """
    n_lanes = len(total)  # not the constant: LLVM unrolls such short loops, and then does not use vectors
    for a in range(first, min(stop, len(mean))):
        entry = mean[a]
        for lane in range(n_lanes):
            gaps[a, lane] = columns[a, lane] - entry
    for lane in range(0, n, LANES):
        for j in range(first, stop, ENTRIES):
            add_squares(factor, gaps, j, j + ENTRIES, lane, total)


@njit(cache=True, nogil=True)
def add_diagonal_densities(X, first, stop, means, precisions, heights, out):
    """Add the log densities of the observed cells of rows to `out`, (stop - first, K).

    That of a cell is ``height - precision (x - mean)^2 / 2``, with (K, d) means, precisions and heights.
    """
    K, d = means.shape
    rows, total, n_seen = np.empty((d, ROW_LANES)), np.empty(ROW_LANES), np.empty(ROW_LANES)
    for start in range(first, stop, ROW_LANES):
        load_rows(X, start, stop, rows)
        is_complete = count_seen(rows, n_seen)
        for k in range(K):
            fill_cell_densities(rows, is_complete, means[k], precisions[k], heights[k], total)
            for lane in range(min(ROW_LANES, stop - start)):
                if n_seen[lane] > 0.0:
                    out[start + lane - first, k] += total[lane]


@njit_part
def load_columns(values, rows, n_above, first, columns, chosen):
    """Write the next rows that have several components to columns, as many as fit; `chosen` becomes their indices.

    Returns their number, the largest of their numbers of components, and the index after the last.
    """
    n = n_most = 0
    while first < len(rows) and n < len(chosen):
        if n_above[first] > 1:
            chosen[n], n_most = first, max(n_most, n_above[first])
            x = values[rows[first]]
            for a in range(len(x)):
                columns[a, n] = x[a]
            n += 1
        first += 1
    return n, n_most, first


@njit_part
def count_seen(rows, n_seen):
    """Fill `n_seen` with the numbers of observed cells of the rows in the lanes; returns whether none is missing."""
    n_seen[:] = 0.0
    for a in range(len(rows)):
        for lane in range(ROW_LANES):
            n_seen[lane] += rows[a, lane] == rows[a, lane]
    n_incomplete = 0
    for lane in range(ROW_LANES):
        n_incomplete += n_seen[lane] < len(rows)
    return n_incomplete == 0


@njit_part
def fill_cell_densities(rows, is_complete, m, p, h, total):
    """Fill `total`, (ROW_LANES,), with log densities of the rows in the lanes, given a component's (d,) parameters."""
    d, height = len(m), 0.0
    total[:] = 0.0
    for a in range(0, d - 3, 4):  # totals are read and written once for four cells
        m_0, m_1, m_2, m_3 = m[a], m[a + 1], m[a + 2], m[a + 3]
        p_0, p_1, p_2, p_3 = p[a], p[a + 1], p[a + 2], p[a + 3]
        h_0, h_1, h_2, h_3 = 2.0 * h[a], 2.0 * h[a + 1], 2.0 * h[a + 2], 2.0 * h[a + 3]
        height += (h_0 + h_1) + (h_2 + h_3)
        if is_complete:  # the same sums, faster
            for lane in range(ROW_LANES):
                x_0, x_1 = rows[a, lane] - m_0, rows[a + 1, lane] - m_1
                x_2, x_3 = rows[a + 2, lane] - m_2, rows[a + 3, lane] - m_3
                total[lane] += (p_0 * x_0 * x_0 + p_1 * x_1 * x_1) + (p_2 * x_2 * x_2 + p_3 * x_3 * x_3)
            continue
        for lane in range(ROW_LANES):
            two = _square(rows[a, lane], m_0, p_0, h_0) + _square(rows[a + 1, lane], m_1, p_1, h_1)
            more = _square(rows[a + 2, lane], m_2, p_2, h_2) + _square(rows[a + 3, lane], m_3, p_3, h_3)
            total[lane] += two + more
    for a in range(d - d % 4, d):
        m_0, p_0, h_0 = m[a], p[a], 2.0 * h[a]
        height += h_0
        for lane in range(ROW_LANES):
            total[lane] += _square(rows[a, lane], m_0, p_0, h_0)
    for lane in range(ROW_LANES):
        total[lane] = 0.5 * (height - total[lane])


@njit(inline="always")
def _square(x, mean, precision, missing):
    """The weighted square of a cell, or `missing` in place of NaN; without a branch, so that it is vectorized."""
    gap = x - mean
    return precision * gap * gap if x == x else missing


@njit(cache=True, nogil=True)
def add_tied_densities(X, first, stop, origin, factor, images, offsets, out):
    """Add ``offset - |A (x - origin) - image|^2 / 2`` of each component to `out`, (stop - first, K), A triangular.

    `images`, (K, d), are the products of A and the means relative to the origin.
    """
    K, d = images.shape
    columns, image, total = np.empty((d, ROW_LANES)), np.empty((d, ROW_LANES)), np.empty(ROW_LANES)
    for start in range(first, stop, ROW_LANES):
        load_rows(X, start, stop, columns)
        n = min(ROW_LANES, stop - start)
        fill_images_of_rows(columns, origin, factor, image)
        for k in range(K):
            fill_tied_squares(image, images[k], total)
            for lane in range(n):
                out[start + lane - first, k] += offsets[k] - 0.5 * total[lane]


@njit(cache=True, nogil=True)
def fill_images(factors, of_vectors, vectors, out):
    """Fill `out`, (n, d), with products of vectors and triangular factors, (G, d, d), of each component or of all."""
    for i in range(len(vectors)):
        fill_image(factors[min(of_vectors[i], len(factors) - 1)], vectors[i], out[i])


@njit(cache=True, nogil=True)
def fill_image(factor, vector, out):
    """Fill `out` with the product of a lower triangular matrix and a vector."""
    for j in range(len(vector)):
        total = 0.0
        for a in range(j + 1):
            total += factor[j, a] * vector[a]
        out[j] = total


@njit(cache=True, nogil=True)
def fill_images_of_rows(columns, origin, factor, image):
    """Fill `image` with ``A (x - origin)`` of the rows in the columns, (d, ROW_LANES), which become ``x - origin``."""
    for j in range(len(origin)):
        entry = origin[j]
        for lane in range(ROW_LANES):
            columns[j, lane] -= entry
        image[j] = 0.0
        for a in range(j + 1):
            entry = factor[j, a]
            for lane in range(ROW_LANES):
                image[j, lane] += entry * columns[a, lane]


@njit(cache=True, nogil=True)
def fill_tied_squares(image, of_mean, total):
    """Fill `total`, (ROW_LANES,), with squared distances of the images of rows from that of a mean, (d,)."""
    total[:] = 0.0
    for j in range(len(of_mean)):
        entry = of_mean[j]
        for lane in range(ROW_LANES):
            gap = image[j, lane] - entry
            total[lane] += gap * gap


@njit(cache=True, nogil=True)
def add_labelled_products(X, first, stop, block_rows, labels, origin, sizes, sums, products):
    """Add rows minus the origin to sizes, sums and products of their labels, by blocks of rows from the first.

    `labels` begin with row `first`. `sizes` are (n_blocks, K), `sums` (n_blocks, K, d); `products` are lower triangles
    of each label, or of all together, (n_blocks, G, d, d), or squares alone, (n_blocks, K, d, 1).
    """
    K, n_products, n_most = sizes.shape[1], products.shape[1], min(block_rows, stop - first)
    ends, order, ones = np.empty(K + 1, np.int64), np.empty(n_most, np.int64), np.ones(n_most)
    scratch = np.zeros((4, X.shape[1])), np.empty(4)
    for begin in range(first, stop, block_rows):
        end, block = min(begin + block_rows, stop), (begin - first) // block_rows
        order_by_label(labels[begin - first : end - first], ends, order)
        for k in range(K):
            sizes[block, k] += ends[k + 1] - ends[k]
            product = products[block, min(k, n_products - 1)]
            add_products(X, begin, order, ends[k], ends[k + 1], ones, origin, scratch, sums[block, k], product)


@njit(cache=True, nogil=True)
def add_products(X, begin, order, start, stop, weights, origin, scratch, total, product):
    """Add the rows ``begin + order[i]``, i from `start` to `stop`, with ``weights[i]`` to the sums of a label.

    `scratch` are two arrays of finite numbers, (4, d) and (4,).
    """
    d, (four, w) = X.shape[1], scratch
    for i in range(start, stop, 4):
        n = min(4, stop - i)
        for r in range(n):
            for a in range(d):
                four[r, a] = X[begin + order[i + r], a] - origin[a]
            w[r] = weights[i + r]
        w[n:] = 0.0
        _add_four_products(four, w, total, product)


@njit(cache=True, nogil=True)
def order_by_label(labels, ends, order):
    """Write the indices of `labels`, stably sorted by label, to `order`; label k has entries ends[k] to ends[k + 1]."""
    ends[:] = 0
    for label in labels:
        ends[label + 1] += 1
    for k in range(1, len(ends)):
        ends[k] += ends[k - 1]
    for i in range(len(labels)):  # ends[k] is where the next row of label k goes, and afterwards that of label k + 1
        order[ends[labels[i]]] = i
        ends[labels[i]] += 1
    for k in range(len(ends) - 1, 0, -1):
        ends[k] = ends[k - 1]
    ends[0] = 0


@njit_part
def _add_four_products(four, w, total, product):
    """Add four weighted rows to a sum, and to the lower triangle of a sum of products, or to a sum of squares.

    Sums are read and written once for all of them.
    """
    full = product.shape[1] > 1
    for a in range(four.shape[1]):
        x0, x1, x2, x3 = w[0] * four[0, a], w[1] * four[1, a], w[2] * four[2, a], w[3] * four[3, a]
        total[a] += (x0 + x1) + (x2 + x3)
        if full:
            for b in range(a + 1):
                product[a, b] += (x0 * four[0, b] + x1 * four[1, b]) + (x2 * four[2, b] + x3 * four[3, b])
        else:
            product[a, 0] += (x0 * four[0, a] + x1 * four[1, a]) + (x2 * four[2, a] + x3 * four[3, a])


@njit(cache=True, nogil=True)
def add_shared_products(X, first, stop, shares, origin, sizes, sums, products):
    """Add rows of one block to sizes, sums and products of all components by `shares`, (stop - first, K).

    A last group of fewer than four rows is filled up with rows of share 0.
    """
    d, K, n_products = X.shape[1], shares.shape[1], len(products)
    four, w, of_all, unused, others = np.zeros((4, d)), np.zeros(4), np.zeros(4), np.zeros((d, 1)), np.zeros(d)
    for start in range(first, stop, 4):
        n = min(4, stop - start)
        for i in range(n):
            for a in range(d):
                four[i, a] = X[start + i, a] - origin[a]
        of_all[:] = 0.0
        for k in range(K):
            w[:] = 0.0
            for i in range(n):
                w[i] = shares[start - first + i, k]
                of_all[i] += w[i]
            if w[0] == 0.0 and w[1] == 0.0 and w[2] == 0.0 and w[3] == 0.0:
                continue
            sizes[k] += (w[0] + w[1]) + (w[2] + w[3])
            _add_four_products(four, w, sums[k], products[k] if n_products == K else unused)
        if n_products < K:
            _add_four_products(four, of_all, others, products[0])
