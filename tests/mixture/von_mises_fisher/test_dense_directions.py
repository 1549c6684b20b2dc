"""Dense rows of mixtures of directions: the same results as of sparse rows, of any length, order and precision."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from skmanifold import VonMisesFisherMixture
from skmanifold.emissions._von_mises_fisher import rows as k_means_module
from skmanifold.emissions._von_mises_fisher import rows as rows_module
from skmanifold.emissions._von_mises_fisher.rows import DenseUnitRows

from ._directions import each_assignment, parameters

each_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def embeddings(n=700, m=24, k=5, dtype=np.float64, seed=0):
    """Rows of several lengths around k directions, one of them zero, and their clusters."""
    rng = np.random.default_rng(seed)
    z = rng.integers(k, size=n)
    X = 2.0 * rng.standard_normal((k, m))[z] + rng.standard_normal((n, m))
    X *= rng.uniform(0.1, 10.0, (n, 1))
    X[3] = 0.0
    return X.astype(dtype), z


def content(mixture):
    arrays = (*parameters(mixture), mixture.labels_, mixture.log_likelihood_trace_)
    return [array.tobytes() for array in arrays]


def answers(mixture, X):
    return mixture.predict(X), mixture.predict_proba(X), mixture.score_samples(X)


@each_precision
@each_assignment
@pytest.mark.parametrize("concentration", ["per_component", "shared", 7.0])
def test_dense_and_sparse_rows_have_the_same_iterations(dtype, assignment, concentration):
    X, _ = embeddings(dtype=dtype)
    weights = np.random.default_rng(1).uniform(0.0, 3.0, len(X))
    settings = {"assignment": assignment, "concentration": concentration, "init": X[4:9], "max_iter": 4, "tol": 0.0}
    dense, sparse = (
        VonMisesFisherMixture(5, **settings).fit(rows, sample_weight=weights) for rows in (X, sp.csr_array(X))
    )
    precision = 3e-5 if dtype is np.float32 else 1e-11
    for one, other in zip(parameters(dense), parameters(sparse), strict=True):
        np.testing.assert_allclose(one, other, rtol=precision, atol=precision)
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_allclose(dense.log_likelihood_trace_, sparse.log_likelihood_trace_, rtol=precision)
    for one, other in zip(answers(dense, X), answers(dense, sp.csr_array(X)), strict=True):
        np.testing.assert_allclose(one, other, rtol=precision, atol=precision)


@each_precision
@each_assignment
def test_the_same_bytes_with_any_number_of_threads_and_in_any_order_of_memory(dtype, assignment, monkeypatch, tmp_path):
    monkeypatch.setattr(rows_module, "_ROWS_OF_BLOCK", 50)
    X, _ = embeddings(dtype=dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    mixture = VonMisesFisherMixture(5, assignment=assignment, max_iter=5, tol=0, random_state=0)
    one = clone(mixture).fit(X)
    for rows, n_jobs in ((X, 3), (np.asfortranarray(X), 2), (mapped, 2), (X[::-1][::-1], 1)):
        other = clone(mixture).set_params(n_jobs=n_jobs).fit(rows)
        assert content(other) == content(one)
        for mine, theirs in zip(answers(other, rows), answers(one, X), strict=True):
            assert mine.tobytes() == theirs.tobytes()


@each_precision
@pytest.mark.parametrize("m", [2, 24, 50, 130])
@pytest.mark.parametrize("k", [1, 5, 16, 33])
def test_results_of_a_row_do_not_depend_on_other_rows(dtype, m, k):
    X, _ = embeddings(600, m, k, dtype)
    mixture = VonMisesFisherMixture(k, max_iter=2, tol=0, random_state=0).fit(X)
    whole, rng = answers(mixture, X), np.random.default_rng(1)
    for rows in ([7], rng.permutation(600), rng.choice(600, 250, replace=False), np.arange(300, 600)):
        for some, every in zip(answers(mixture, X[rows]), whole, strict=True):
            assert some.tobytes() == np.ascontiguousarray(every[rows]).tobytes()


@each_precision
def test_rows_of_extreme_lengths(dtype):
    X, _ = embeddings(60, dtype=dtype)
    lengths = np.ones(60)
    lengths[::4], lengths[1::4] = (1e-30, 1e30) if dtype is np.float32 else (1e-290, 1e290)
    scaled = X * lengths[:, None].astype(dtype)
    settings = {"init": X[4:6].astype(float), "max_iter": 3, "tol": 0.0}
    one, other = (VonMisesFisherMixture(2, **settings).fit(rows) for rows in (X, scaled))
    np.testing.assert_allclose(
        one.mean_directions_, other.mean_directions_, atol=1e-5 if dtype is np.float32 else 1e-12
    )
    np.testing.assert_array_equal(one.labels_, other.labels_)
    smallest = np.finfo(dtype).smallest_subnormal
    assert one.predict(np.full((1, 24), smallest, dtype)) == one.predict(np.ones((1, 24), dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.int32, bool])
def test_other_types_are_converted(dtype):
    X = (embeddings()[0] * 3).astype(dtype)
    mixture = VonMisesFisherMixture(3, random_state=0)
    assert content(clone(mixture).fit(X)) == content(clone(mixture).fit(X.astype(np.float64)))


def test_directions_are_found_in_a_sample_of_many_rows(monkeypatch):
    monkeypatch.setattr(k_means_module, "_LEAST_SAMPLE", 300)
    sampled = []
    monkeypatch.setattr(
        DenseUnitRows, "take", lambda self, rows: sampled.append(len(rows)) or DenseUnitRows(self.values[rows])
    )
    X, z = embeddings(3000)
    mixture = VonMisesFisherMixture(5, random_state=0).fit(X)
    assert sampled == [300]
    assert adjusted_rand_score(z, mixture.labels_) > 0.95
    weights = np.where(z < 3, 1.0, 0.0)
    rows = VonMisesFisherMixture(3, random_state=0).fit(X, sample_weight=weights)
    assert adjusted_rand_score(z[z < 3], rows.labels_[z < 3]) > 0.95
    assert rows.score(X[z < 3]) > rows.score(X) + 1.0
