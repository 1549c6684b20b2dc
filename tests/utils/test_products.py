"""Products of rows with vectors in registers: the numbers of numpy, and the same bytes in any company."""

import numpy as np
import pytest

from skmanifold.numerics import products
from skmanifold.numerics.products import (
    add_weighted_rows,
    fill_products,
    panels_of,
    rows_of_block,
    transpose,
)
from skmanifold.numerics.simd import _multiply_add

each_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])
each_shape = pytest.mark.parametrize(
    ("n", "m", "k"), [(1, 1, 1), (6, 16, 16), (7, 17, 100), (70, 5, 9), (130, 1030, 18)]
)


def matrices(n, m, k, dtype):
    rng = np.random.default_rng(n + m + k)
    return rng.standard_normal((n, m)).astype(dtype), rng.standard_normal((m, k))


def multiply(rows, vectors, kernel=fill_products):
    panels = panels_of(vectors, rows.dtype)
    out = np.full((len(rows), len(panels) * panels.shape[2]), np.nan, rows.dtype)
    kernel(rows, panels, rows[:0], out)
    return out


def weighted_sums(rows, weights, kernel=add_weighted_rows):
    out = np.ones((len(weights), rows.shape[1]))
    kernel(rows, weights.astype(rows.dtype, order="C"), out)
    return out


def transposed(dtype, kernel=transpose):
    out = np.zeros((64, 96), dtype)
    kernel(33, np.arange(4096, dtype=dtype).reshape(64, 64), out)
    return out


def close(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4 if dtype is np.float32 else 1e-11)


@each_precision
@each_shape
def test_products_and_sums_are_those_of_numpy(dtype, n, m, k):
    rows, vectors = matrices(n, m, k, dtype)
    found = multiply(rows, vectors)
    close(found[:, :k], rows @ vectors, dtype)
    assert not found[:, k:].any()
    weights = np.random.default_rng(0).random((k, n)).astype(dtype)
    close(weighted_sums(rows, weights), 1.0 + weights.astype(float) @ rows, dtype)


@each_precision
def test_interpreted_kernels_agree(dtype, monkeypatch):
    rows, vectors = matrices(8, 21, 9, dtype)
    weights = vectors.T[:, :8].astype(dtype)
    compiled = multiply(rows, vectors), weighted_sums(rows, weights), transposed(dtype)
    for name in ("_add_tile", "_transpose"):
        monkeypatch.setattr(products, name, getattr(products, f"{name}_reference"))
    fill, add, turn = (getattr(kernel, "py_func", kernel) for kernel in (fill_products, add_weighted_rows, transpose))
    close(multiply(rows, vectors, fill), compiled[0], dtype)
    close(weighted_sums(rows, weights, add), compiled[1], dtype)
    np.testing.assert_array_equal(transposed(dtype, turn), compiled[2])


@each_precision
def test_transposed(dtype):
    out = transposed(dtype)
    np.testing.assert_array_equal(out[:, :33], np.arange(4096).reshape(64, 64)[:33].T)
    assert not out[:, 64:].any()


@each_precision
def test_a_product_does_not_depend_on_other_rows_and_vectors(dtype):
    rows, vectors = matrices(50, 600, 40, dtype)
    whole = multiply(rows, vectors)[:, :40]
    for some in ([17], [49, 3, 17, 8, 9, 10, 11], np.arange(20, 50)):
        for chosen in ([5], [39, 5, 0], np.arange(7, 40)):
            one = multiply(rows[some], vectors[:, chosen])[:, : len(chosen)]
            assert np.ascontiguousarray(one).tobytes() == whole[np.ix_(some, chosen)].tobytes()


def test_products_are_sums_in_order_that_are_rounded_once():
    rows, vectors = matrices(1, 30, 1, np.float64)
    total = 0.0
    for x, y in zip(rows[0], vectors[:, 0], strict=True):
        total = _multiply_add(float(x), float(y), total)
    assert multiply(rows, vectors)[0, 0] == total


def test_sums_of_rows_do_not_depend_on_other_sums():
    rows, _ = matrices(100, 21, 1, np.float32)
    weights = np.random.default_rng(0).random((13, 100)).astype(np.float32)
    assert weighted_sums(rows, weights)[[2, 12]].tobytes() == weighted_sums(rows, weights[[2, 12]]).tobytes()


@pytest.mark.parametrize(("m", "k", "expected"), [(2, 1, 256), (384, 100, 256), (600, 100, 128), (100, 10**6, 32)])
def test_larger_rows_have_smaller_blocks(m, k, expected):
    assert rows_of_block(m, k) == expected
