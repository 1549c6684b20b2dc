"""Dense documents of spherical admixtures: the model of sparse documents, and bytes that depend on rows alone."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold import OrthogonalSphericalAdmixture, SphericalAdmixture
from skmanifold.metrics._spherical_held_out import integrate_documents
from skmanifold.random._keys import root_key
from skmanifold.sparse.directions import DenseDirections, as_directions, read_directions
from skmanifold.utils._threads import Workers

KEY = root_key(3)
ONE = Workers(1)


def documents(n=700, d=9, seed=0):
    """Rows of any length, one of zeros, and some entries that are zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 2.0 * rng.standard_normal((3, d))[rng.integers(3, size=n)]
    X *= rng.uniform(0.1, 9.0, (n, 1))
    X[rng.random(X.shape) < 0.1] = 0.0
    X[5] = 0.0
    return X


def both(X):
    return DenseDirections(X), as_directions(sp.csr_array(X))


def test_dense_and_sparse_rows_have_the_same_products_and_sums():
    X = documents()
    X[7], X[8] = X[7] * 1e200, X[8] * 1e-200
    dense, sparse = both(X)
    rng = np.random.default_rng(1)
    assert dense.directed.tolist() == sparse.directed.tolist()
    topics, rows = rng.standard_normal((9, 4)), sparse.directed[::2]
    weights = rng.standard_normal((len(rows), 4))
    np.testing.assert_allclose(dense.dense(rows), sparse.dense(rows), rtol=1e-14)
    np.testing.assert_allclose(dense.moments(), sparse.moments(), rtol=1e-12)
    found = []
    for of in (dense, sparse):
        products, pulls, gradient = np.zeros((len(rows), 4)), np.ones((9, 4)), np.zeros(9)
        of.fill_products(rows, 3, 300, topics, products)
        of.add_pulls(rows, weights, 0.7, pulls)
        squares, of_others = np.ones(len(rows)), np.linspace(-0.5, 0.8, len(rows))
        of.fill_direction_gradient(rows, 3, 300, squares, of_others, topics[:, 0], 0.6, 0.8, gradient)
        found.append((products, pulls, gradient, of.take(rows).dense(np.arange(len(rows)))))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12)
    assert not found[0][0][:3].any()
    every = rng.standard_normal((len(sparse.directed), 4))
    sums = [of.weighted_sums(of.directed)(every, ONE) for of in (dense, sparse)]
    np.testing.assert_allclose(*sums, rtol=1e-11, atol=1e-12)


def test_products_and_keys_of_a_row_do_not_depend_on_other_rows():
    dense = DenseDirections(documents().astype(np.float32))
    rows, topics = dense.directed, np.random.default_rng(1).standard_normal((9, 5))
    whole, keys = np.empty((len(rows), 5)), np.empty(len(rows), np.uint64)
    dense.fill_products(rows, 0, len(rows), topics, whole)
    dense.fill_keys(KEY, rows, keys)
    order = np.random.default_rng(2).permutation(len(rows))[:301]
    some, of_some = np.empty((301, 5)), np.empty(301, np.uint64)
    dense.fill_products(rows[order], 0, 301, topics, some)
    dense.fill_keys(KEY, rows[order], of_some)
    np.testing.assert_array_equal(some, whole[order])
    np.testing.assert_array_equal(of_some, keys[order])
    assert len(np.unique(keys)) == len(rows)
    scaled = DenseDirections(documents().astype(np.float32) * np.float32(8.0))
    scaled.fill_keys(KEY, rows, of_keys := np.empty(len(rows), np.uint64))
    np.testing.assert_array_equal(of_keys, keys)


def test_sums_do_not_depend_on_the_number_of_threads():
    dense = DenseDirections(documents(5000))
    weights = np.random.default_rng(1).standard_normal((len(dense.directed), 3))
    sums = dense.weighted_sums(dense.directed)
    with Workers(2) as two:
        np.testing.assert_array_equal(sums(weights, ONE), sums(weights, two))


def test_densities_of_dense_and_sparse_documents_agree():
    dense, sparse = both(documents(40))
    topics = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 3)))[0].T.copy()
    given = [topics], np.array([0.6, 1.0, 0.3]), 25.0, KEY, 4000, ONE
    one, other = (integrate_documents(of, *given) for of in (dense, sparse))
    errors = np.hypot(one.document_errors, other.document_errors)
    gaps = (one.log_density - other.log_density)[dense.directed]
    assert np.abs(gaps / errors[dense.directed]).max() < 4.5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_variational_fit_of_dense_documents_is_that_of_sparse_ones(dtype):
    X = documents().astype(dtype)
    start = {"sampler": "vb", "document_concentration": 30.0, "max_iter": 40, "random_state": 0}
    dense, sparse = (SphericalAdmixture(3, **start).fit(Y) for Y in (X, sp.csr_array(X.astype(float))))
    cosines = dense.components_ @ sparse.components_.T
    np.testing.assert_allclose(cosines.max(axis=1), 1.0, atol=2e-3)
    assert dense.score(X) == pytest.approx(sparse.score(sp.csr_array(X.astype(float))), abs=0.05)


@pytest.mark.parametrize("kind", [SphericalAdmixture, OrthogonalSphericalAdmixture])
def test_the_order_of_memory_and_the_place_of_rows_mean_nothing(kind, tmp_path):
    X = documents(200).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    settings = {"n_components": 3, "max_iter": 6, "random_state": 0}
    expected = kind(**settings).fit(X)
    scores = expected.score_samples(X)
    for Y in (np.asfortranarray(X), np.load(tmp_path / "X.npy", mmap_mode="r"), np.repeat(X, 2, axis=0)[::2]):
        model = kind(**settings, n_jobs=2).fit(Y)
        np.testing.assert_array_equal(model.components_, expected.components_)
        np.testing.assert_array_equal(model.score_samples(Y), scores)
    order = np.random.default_rng(0).permutation(200)[:77]
    np.testing.assert_array_equal(expected.score_samples(X[order]), scores[order])
    np.testing.assert_array_equal(expected.transform(X[order]), expected.transform(X)[order])


def test_dense_rows_are_not_copied():
    X = documents(50).astype(np.float32)
    rows = read_directions(SphericalAdmixture(), X, reset=True)
    assert isinstance(rows, DenseDirections)
    assert np.shares_memory(rows.values, X)
    for Y, dtype in ((X.astype(np.float16), np.float32), ((10 * X).astype(int), np.float64), (X > 0, np.float64)):
        assert read_directions(SphericalAdmixture(), Y, reset=True).values.dtype in (dtype, np.float64)
