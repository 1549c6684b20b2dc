"""Products of rows with vectors in registers: the numbers of numpy, and the same bytes in any company."""

import numpy as np
import pytest
from numba import njit

from skmanifold.numerics import products
from skmanifold.numerics.products import RowProducts
from skmanifold.numerics.simd import _multiply_add

each_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])
each_shape = pytest.mark.parametrize(
    ("n", "m", "k"), [(1, 1, 1), (6, 16, 16), (7, 17, 100), (70, 5, 9), (130, 520, 18), (3, 1030, 7)]
)


@njit
def transpose(n, source, out):
    products.transpose(n, source, out)


def matrices(n, m, k, dtype):
    rng = np.random.default_rng(n + m + k)
    return rng.standard_normal((n, m)).astype(dtype), rng.standard_normal((m, k))


def multiply(rows, vectors):
    """Products of rows, which are not the first of an array, by blocks."""
    block, out = RowProducts(vectors, rows.dtype), []
    among = np.concatenate((np.ones((2, rows.shape[1]), rows.dtype), rows))
    for first in range(2, len(among), block.n_rows):
        stop = min(first + block.n_rows, len(among))
        out.append(block.multiply(among, first, stop)[: stop - first, : vectors.shape[1]].copy())
    return np.concatenate(out)


def weighted_sums(rows, weights):
    block = RowProducts(np.zeros((rows.shape[1], len(weights))), rows.dtype)
    out, among = np.ones((len(weights), rows.shape[1])), np.vstack((np.ones((2, rows.shape[1]), rows.dtype), rows))
    for first in range(0, len(rows), block.n_rows):
        n = min(block.n_rows, len(rows) - first)
        block.weights[: len(weights), :n] = weights[:, first : first + n]
        block.add_sums(among, 2 + first, 2 + first + n, out)
    block.flush(out)
    return out


def close(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4 if dtype is np.float32 else 1e-11)


@each_precision
@each_shape
def test_products_and_sums_are_those_of_numpy(dtype, n, m, k):
    rows, vectors = matrices(n, m, k, dtype)
    close(multiply(rows, vectors), rows @ vectors, dtype)
    weights = np.random.default_rng(0).random((k, n))
    close(weighted_sums(rows, weights), 1.0 + weights @ rows, dtype)


@each_precision
def test_sums_of_many_blocks(dtype):
    rows, _ = matrices(3000, 3, 1, dtype)
    weights = np.random.default_rng(0).random((4, 3000))
    close(weighted_sums(rows, weights), 1.0 + weights @ rows, dtype)


@each_precision
def test_interpreted_operations_agree(dtype, monkeypatch):
    rows, vectors = matrices(8, 21, 9, dtype)
    weights = vectors.T[:, :8]
    compiled = multiply(rows, vectors), weighted_sums(rows, weights)
    kernel = products._add_products
    monkeypatch.setattr(products, "_add_tile", products._add_tile_reference)
    monkeypatch.setattr(products, "prefetch", lambda array, place: None)
    monkeypatch.setattr(products, "_add_products", getattr(kernel, "py_func", kernel))
    close(multiply(rows, vectors), compiled[0], dtype)
    close(weighted_sums(rows, weights), compiled[1], dtype)


@each_precision
def test_transposed(dtype):
    source, n_lanes = np.arange(4096, dtype=dtype).reshape(64, 64), products.VECTOR_BYTES // np.dtype(dtype).itemsize
    out, tile = np.zeros((64, 96), dtype), np.zeros((n_lanes, 96), dtype)
    transpose(33, source, out)
    np.testing.assert_array_equal(out[:, :33], source[:33].T)
    assert not out[:, 64:].any()
    products._transpose_reference(source, 5, 64, tile, 7, 96)
    np.testing.assert_array_equal(tile[:, 7 : 7 + n_lanes], source[:n_lanes, 5 : 5 + n_lanes].T)


@each_precision
def test_a_product_does_not_depend_on_other_rows_and_vectors(dtype):
    rows, vectors = matrices(50, 600, 40, dtype)
    whole = multiply(rows, vectors)
    for some in ([17], [49, 3, 17, 8, 9, 10, 11], np.arange(20, 50)):
        for chosen in ([5], [39, 5, 0], np.arange(7, 40)):
            one = multiply(rows[some], vectors[:, chosen])
            assert one.tobytes() == whole[np.ix_(some, chosen)].tobytes()


def test_products_are_sums_in_order_that_are_rounded_once():
    rows, vectors = matrices(1, 30, 1, np.float64)
    total = 0.0
    for x, y in zip(rows[0], vectors[:, 0], strict=True):
        total = _multiply_add(float(x), float(y), total)
    assert multiply(rows, vectors)[0, 0] == total


@pytest.mark.parametrize(("m", "k", "expected"), [(2, 1, 256), (384, 100, 256), (600, 100, 128), (100, 20_000, 32)])
def test_larger_rows_have_smaller_blocks(m, k, expected):
    assert RowProducts(np.zeros((m, k)), np.float32).n_rows == expected
