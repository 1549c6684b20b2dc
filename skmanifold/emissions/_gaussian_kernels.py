"""Numba kernels for Gaussian rows: log densities, and sums of squares and products."""

from __future__ import annotations

import numpy as np

from ..numerics.row_batches import ROW_LANES, load_rows
from ..random._keys import fold_in
from ..random._variates import gamma_variate, normal
from ..utils._njit import njit


@njit(cache=True, nogil=True)
def add_full_densities(X, first, stop, means, factors, offsets, out):
    """Add ``offset - |A (x - mean)|^2 / 2`` of each component to `out`, (stop - first, K), A lower triangular.

    Parameters
    ----------
    X : (n, d)
    first, stop : int
        Rows; `out` begins with the first.
    means, factors, offsets : (K, d), (K, d, d), (K,)
    out : (stop - first, K)
    """
    K, d = means.shape
    rows, shifted = np.empty((d, ROW_LANES)), np.empty((d, ROW_LANES))
    y0, y1, total = np.empty(ROW_LANES), np.empty(ROW_LANES), np.empty(ROW_LANES)
    for start in range(first, stop, ROW_LANES):
        load_rows(X, start, stop, rows)
        n = min(ROW_LANES, stop - start)
        for k in range(K):
            for a in range(d):
                mean = means[k, a]
                for lane in range(ROW_LANES):
                    shifted[a, lane] = rows[a, lane] - mean
            total[:] = 0.0
            for j in range(0, d - 1, 2):  # two rows of A at a time: each number is loaded once for both
                y0[:] = 0.0
                y1[:] = 0.0
                for a in range(j + 1):
                    f0, f1 = factors[k, j, a], factors[k, j + 1, a]
                    for lane in range(ROW_LANES):
                        y0[lane] += f0 * shifted[a, lane]
                        y1[lane] += f1 * shifted[a, lane]
                f1 = factors[k, j + 1, j + 1]
                for lane in range(ROW_LANES):
                    last = y1[lane] + f1 * shifted[j + 1, lane]
                    total[lane] += y0[lane] * y0[lane] + last * last
            if d % 2:
                y0[:] = 0.0
                for a in range(d):
                    f0 = factors[k, d - 1, a]
                    for lane in range(ROW_LANES):
                        y0[lane] += f0 * shifted[a, lane]
                for lane in range(ROW_LANES):
                    total[lane] += y0[lane] * y0[lane]
            for lane in range(n):
                out[start + lane - first, k] += offsets[k] - 0.5 * total[lane]


@njit(cache=True, nogil=True)
def add_diagonal_densities(X, first, stop, means, precisions, offsets, out):
    """Add ``offset - sum of precision (x - mean)^2 / 2`` of each component to `out`, (stop - first, K)."""
    K, d = means.shape
    rows, total = np.empty((d, ROW_LANES)), np.empty(ROW_LANES)
    for start in range(first, stop, ROW_LANES):
        load_rows(X, start, stop, rows)
        n = min(ROW_LANES, stop - start)
        for k in range(K):
            total[:] = 0.0
            for a in range(d):
                mean, precision = means[k, a], precisions[k, a]
                for lane in range(ROW_LANES):
                    gap = rows[a, lane] - mean
                    total[lane] += precision * gap * gap
            for lane in range(n):
                out[start + lane - first, k] += offsets[k] - 0.5 * total[lane]


@njit(cache=True, nogil=True)
def add_labelled_products(X, first, stop, block_rows, labels, origin, sizes, sums, products):
    """Add rows to sizes, sums and products of their labels, by blocks of rows from the first.

    Parameters
    ----------
    X : (n, d)
    first, stop : int
        Rows; `labels` begin with the first.
    block_rows : int
    labels : (stop - first,)
    origin : (d,)
        Subtracted first, which reduces rounding errors.
    sizes, sums : (n_blocks, K), (n_blocks, K, d)
    products : (n_blocks, K, d, d)
        Lower triangles; or squares alone, (n_blocks, K, d, 1).
    """
    d, full = X.shape[1], products.shape[3] > 1
    shifted = np.empty(d)
    for row in range(first, stop):
        block, k = (row - first) // block_rows, labels[row - first]
        sizes[block, k] += 1.0
        for a in range(d):
            shifted[a] = X[row, a] - origin[a]
            sums[block, k, a] += shifted[a]
        if full:
            for a in range(d):
                entry = shifted[a]
                for b in range(a + 1):
                    products[block, k, a, b] += entry * shifted[b]
        else:
            for a in range(d):
                products[block, k, a, 0] += shifted[a] * shifted[a]


@njit(cache=True, nogil=True)
def add_shared_products(X, first, stop, shares, origin, sizes, sums, products):
    """Add rows of one block to sizes, sums and products of all components, weighted by their shares.

    Sums are read and written once for four rows. If the number of rows is not a multiple of four, the last group is
    filled up with rows of share 0. `shares` have shape (stop - first, K).
    """
    d, K, full = X.shape[1], shares.shape[1], products.shape[2] > 1
    four, w = np.zeros((4, d)), np.zeros(4)
    for start in range(first, stop, 4):
        n = min(4, stop - start)
        for i in range(n):
            for a in range(d):
                four[i, a] = X[start + i, a] - origin[a]
        for k in range(K):
            w[:] = 0.0
            for i in range(n):
                w[i] = shares[start - first + i, k]
            if w[0] == 0.0 and w[1] == 0.0 and w[2] == 0.0 and w[3] == 0.0:
                continue
            sizes[k] += (w[0] + w[1]) + (w[2] + w[3])
            total, product = sums[k], products[k]
            for a in range(d):
                x0, x1, x2, x3 = w[0] * four[0, a], w[1] * four[1, a], w[2] * four[2, a], w[3] * four[3, a]
                total[a] += (x0 + x1) + (x2 + x3)
                if full:
                    for b in range(a + 1):
                        product[a, b] += (x0 * four[0, b] + x1 * four[1, b]) + (x2 * four[2, b] + x3 * four[3, b])
                else:
                    product[a, 0] += (x0 * four[0, a] + x1 * four[1, a]) + (x2 * four[2, a] + x3 * four[3, a])


@njit(cache=True, nogil=True)
def add_counted_products(X, indptr, components, counts, origin, sums, products):
    """Add each row of X to sums and products of its components, weighted by its counts there."""
    d, full = X.shape[1], products.shape[2] > 1
    shifted = np.empty(d)
    for row in range(X.shape[0]):
        for a in range(d):
            shifted[a] = X[row, a] - origin[a]
        for e in range(indptr[row], indptr[row + 1]):
            k, count = components[e], np.float64(counts[e])
            for a in range(d):
                entry = count * shifted[a]
                sums[k, a] += entry
                if full:
                    for b in range(a + 1):
                        products[k, a, b] += entry * shifted[b]
                else:
                    products[k, a, 0] += entry * shifted[a]


@njit(cache=True, nogil=True)
def fill_wishart_roots(key, degrees, roots, normals):
    """Draw roots T of standard Wishart matrices TT' (Bartlett's decomposition), and normals for the means.

    Parameters
    ----------
    key
    degrees : (K,)
        Degrees of freedom, above d - 1.
    roots : (K, d, d)
        Lower triangular.
    normals : (K, d)
    """
    K, d = normals.shape
    for k in range(K):
        of_component = fold_in(key, k)
        of_normals, of_gammas = fold_in(of_component, 0), fold_in(of_component, 1)
        counter = 0
        for a in range(d):
            normals[k, a] = normal(of_normals, counter)
            counter += 1
            for b in range(a):
                roots[k, a, b] = normal(of_normals, counter)
                counter += 1
            roots[k, a, a] = np.sqrt(2.0 * gamma_variate(fold_in(of_gammas, a), 0.5 * (degrees[k] - a)))
            for b in range(a + 1, d):
                roots[k, a, b] = 0.0


@njit(cache=True, nogil=True)
def fill_gammas_and_normals(key, shapes, gammas, normals):
    """Draw gamma variates of rate one and normal variates, (K, d); with (K, 1) shapes, one gamma for all features."""
    K, d = normals.shape
    for k in range(K):
        of_component = fold_in(key, k)
        of_normals, of_gammas = fold_in(of_component, 0), fold_in(of_component, 1)
        for a in range(d):
            normals[k, a] = normal(of_normals, a)
        for a in range(shapes.shape[1]):
            gammas[k, a] = gamma_variate(fold_in(of_gammas, a), shapes[k, a])
