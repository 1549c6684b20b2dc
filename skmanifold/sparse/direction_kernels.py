"""Kernels of directions and topics: products, sums and gradients; of rows in CSR format, and of blocks of dense rows.

Topics have words as rows, (V, K), so that the entries of a word are adjacent in memory.
"""

from __future__ import annotations

import math

from ..random._keys import fold_in, row_key
from ..utils._njit import njit

# Rows in CSR format


@njit(cache=True, nogil=True)
def gather_products(indptr, indices, data, rows, start, stop, word_topic, out):
    """Products b = beta'v of documents ``rows[start:stop]``; `out` is (n, K)."""
    for i in range(start, stop):
        row = rows[i]
        b = out[i]
        b[:] = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            value, topics = data[j], word_topic[indices[j]]
            for k in range(len(b)):
                b[k] += value * topics[k]


@njit(cache=True, nogil=True)
def add_pulls(indptr, indices, data, rows, pull, scale, out):
    """Add scale * sum_d v_d pull_d' to `out`, (V, K)."""
    for i in range(len(rows)):
        row, shares = rows[i], scale * pull[i]
        for j in range(indptr[row], indptr[row + 1]):
            value, topics = data[j], out[indices[j]]
            for k in range(len(shares)):
                topics[k] += value * shares[k]


@njit(cache=True, nogil=True)
def sum_words(start, stop, word_indptr, word_rows, word_data, weights, out):
    """Write the sum of documents times their weights for words `start` to `stop`, in the order of the documents."""
    n_components = weights.shape[1]
    for word in range(start, stop):
        cells = out[word]
        cells[:] = 0.0
        for i in range(word_indptr[word], word_indptr[word + 1]):
            value = word_data[i]
            row = weights[word_rows[i]]
            for k in range(n_components):
                cells[k] += value * row[k]


@njit(cache=True, nogil=True, _nrt=False)
def fill_row_keys(key, indptr, indices, bits, rows, out):
    """Keys of documents, made of their contents."""
    for i in range(len(rows)):
        out[i] = row_key(key, indices, bits, indptr[rows[i]], indptr[rows[i] + 1])


@njit(cache=True, nogil=True)
def fill_direction_gradient(indptr, indices, data, rows, start, stop, squares, products, direction, cosine, sine, out):
    """Write the gradient in f of the sum of lengths of the documents' projections on the cone of the topics.

    For documents ``rows[start:stop]`` topics are cos(w) u + sin(w) f and sin(w) u - cos(w) f, with `products` u'v, and
    others with `squares`, the sum of squared products. A topic with a negative product has no share.
    """
    out[:] = 0.0
    for i in range(start, stop):
        row = rows[i]
        product = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            product += data[j] * direction[indices[j]]
        weight = _pull_of_direction(product, squares[i], products[i], cosine, sine)
        if weight != 0.0:
            for j in range(indptr[row], indptr[row + 1]):
                out[indices[j]] += weight * data[j]


@njit(cache=True, nogil=True)
def _pull_of_direction(product, square, other, cosine, sine):
    first = max(cosine * other + sine * product, 0.0)
    second = max(sine * other - cosine * product, 0.0)
    weight = sine * first - cosine * second
    return weight / math.sqrt(square + first * first + second * second) if weight != 0.0 else 0.0


# Blocks of dense unit vectors, (n, V)


@njit(cache=True, nogil=True)
def multiply_rows(units, word_topic, out):
    """Products of unit vectors with topics; `out` is (n, K). A product does not depend on the other rows."""
    V, K = word_topic.shape
    whole = V // 4 * 4
    for i in range(len(units)):
        x, b = units[i], out[i]
        b[:] = 0.0
        for v in range(0, whole, 4):  # four words at a time, so that the products are read and written less often
            p, q, r, s = x[v], x[v + 1], x[v + 2], x[v + 3]
            t0, t1, t2, t3 = word_topic[v], word_topic[v + 1], word_topic[v + 2], word_topic[v + 3]
            for k in range(K):
                b[k] += (p * t0[k] + q * t1[k]) + (r * t2[k] + s * t3[k])
        for v in range(whole, V):
            for k in range(K):
                b[k] += x[v] * word_topic[v, k]


@njit(cache=True, nogil=True)
def add_row_pulls(units, pull, scale, out):
    """Add scale * sum_d v_d pull_d' to `out`, (V, K)."""
    n, K = pull.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = scale * pull[i], scale * pull[i + 1], scale * pull[i + 2], scale * pull[i + 3]
        x0, x1, x2, x3 = units[i], units[i + 1], units[i + 2], units[i + 3]
        for v in range(len(out)):
            topics, p, q, r, s = out[v], x0[v], x1[v], x2[v], x3[v]
            for k in range(K):
                topics[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * d[k])
    for i in range(whole, n):
        shares, x = scale * pull[i], units[i]
        for v in range(len(out)):
            for k in range(K):
                out[v, k] += x[v] * shares[k]


@njit(cache=True, nogil=True)
def fill_dense_keys(key, bits, out):
    """Keys of dense documents, made of their contents: bits of their entries, (n, V) uint64."""
    for i in range(len(out)):
        of_row = key
        for v in range(bits.shape[1]):
            of_row = fold_in(of_row, bits[i, v])
        out[i] = of_row


@njit(cache=True, nogil=True)
def add_dense_direction_gradient(units, squares, products, direction, cosine, sine, out):
    """Add what `fill_direction_gradient` sums, for a block of rows."""
    for i in range(len(units)):
        x, product = units[i], 0.0
        for v in range(len(x)):
            product += x[v] * direction[v]
        weight = _pull_of_direction(product, squares[i], products[i], cosine, sine)
        if weight != 0.0:
            for v in range(len(x)):
                out[v] += weight * x[v]
