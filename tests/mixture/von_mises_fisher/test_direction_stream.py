"""`partial_fit` of mixtures of directions: its statistics, that it finds clusters, and that it continues."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from skmanifold import VonMisesFisherMixture, load
from skmanifold.distributions import bessel_ratio

from ._directions import each_assignment, parameters
from .test_dense_directions import embeddings

each_concentration = pytest.mark.parametrize("concentration", ["per_component", "shared", 7.0])


def streamed(mixture, X, size=200):
    for start in range(0, len(X), size):
        mixture.partial_fit(X[start : start + size])
    return mixture


def statistics_of(mixture):
    """Sums of rows and sizes of the components, as the parameters show them."""
    return mixture._lengths[:, None] * mixture.mean_directions_, mixture._total * mixture.weights_


@each_assignment
@each_concentration
def test_a_minibatch_blends_the_statistics(assignment, concentration):
    X, _ = embeddings(600)
    settings = {"assignment": assignment, "concentration": concentration, "total_samples": 5000, "random_state": 0}
    mixture = VonMisesFisherMixture(5, learning_offset=2.0, learning_decay=0.6, **settings).partial_fit(X[:400])
    sums, sizes = statistics_of(mixture)
    np.testing.assert_allclose(sizes.sum(), 5000)
    rows = X[400:]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    shares = mixture.predict_proba(rows)
    if assignment == "hard":
        shares = np.eye(5)[shares.argmax(axis=1)]
    mixture.partial_fit(rows)
    rate = (2.0 + 2.0) ** -0.6
    expected_sums = (1 - rate) * sums + rate * 25.0 * shares.T @ unit
    expected_sizes = (1 - rate) * sizes + rate * 25.0 * shares.sum(axis=0)
    found_sums, found_sizes = statistics_of(mixture)
    np.testing.assert_allclose(found_sizes, expected_sizes, rtol=1e-10)
    np.testing.assert_allclose(found_sums, expected_sums, rtol=1e-9, atol=1e-9)
    lengths, prior = np.linalg.norm(expected_sums, axis=1), mixture._family.prior.cosine
    ratios = bessel_ratio(24, mixture.concentrations_)
    if concentration == "per_component":
        np.testing.assert_allclose(ratios, (lengths + prior) / (expected_sizes + 1), rtol=1e-9)
    elif concentration == "shared":
        np.testing.assert_allclose(ratios, (lengths.sum() + prior) / (expected_sizes.sum() + 1), rtol=1e-9)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda X: X.astype(np.float32)])
def test_a_stream_finds_the_clusters(make):
    X, z = embeddings(3000, k=6)
    mixture = VonMisesFisherMixture(6, total_samples=3000, random_state=0)
    for start in range(0, 3000, 300):
        mixture.partial_fit(make(X[start : start + 300]))
    assert mixture.n_batch_iter_ == 10
    assert adjusted_rand_score(z, mixture.predict(make(X))) > 0.95
    fitted = VonMisesFisherMixture(6, random_state=0).fit(make(X))
    assert mixture.score(make(X)) > fitted.score(make(X)) - 0.05
    for name in ("labels_", "converged_", "n_iter_", "lower_bound_", "log_likelihood_trace_"):
        assert not hasattr(mixture, name)


def test_a_stream_continues_after_fit_and_follows_changes():
    X, _ = embeddings(1000, k=3)
    other, _ = embeddings(4000, k=3, seed=9)
    mixture = VonMisesFisherMixture(3, total_samples=1000, learning_offset=0.0, random_state=0).fit(X)
    before = mixture.score(other)
    streamed(mixture, other)
    assert mixture.n_batch_iter_ == 20
    assert mixture.score(other) > before + 1.0
    again = VonMisesFisherMixture(3, random_state=0).fit(X)
    assert not hasattr(mixture.fit(X), "n_batch_iter_")
    np.testing.assert_array_equal(mixture.mean_directions_, again.mean_directions_)


def test_a_stream_goes_on_after_pickling_saving_and_with_threads(tmp_path):
    X, _ = embeddings(900)
    whole = streamed(VonMisesFisherMixture(5, random_state=0), X, 300)
    half = streamed(VonMisesFisherMixture(5, random_state=0), X[:600], 300)
    half.save(tmp_path / "half.npz")
    for other in (pickle.loads(pickle.dumps(half)), load(tmp_path / "half.npz"), half.set_params(n_jobs=2)):
        other.partial_fit(X[600:])
        for one, theirs in zip(parameters(whole), parameters(other), strict=True):
            np.testing.assert_array_equal(one, theirs)


def test_weights_of_a_minibatch_are_copies_of_rows():
    X, _ = embeddings(400)
    weights = np.random.default_rng(0).integers(0, 3, 400)
    mixture = VonMisesFisherMixture(5, random_state=0).fit(X)
    one = pickle.loads(pickle.dumps(mixture)).partial_fit(X, sample_weight=weights)
    other = pickle.loads(pickle.dumps(mixture)).partial_fit(np.repeat(X, weights, axis=0))
    for mine, theirs in zip(parameters(one), parameters(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def test_what_a_stream_refuses_leaves_it_as_it_was():
    X, _ = embeddings(300)
    mixture = VonMisesFisherMixture(5, random_state=0).partial_fit(X)
    before = dict(vars(mixture))
    for rows, message in (
        (X[:, :9], "X has 9 features, but VonMisesFisherMixture is expecting 24"),
        (np.where(X > 20, np.nan, X * 0 + np.nan), "X contains NaN, but directions have no missing cells"),
    ):
        with pytest.raises(ValueError, match=message):
            mixture.partial_fit(rows)
        assert vars(mixture) == before
    with pytest.raises(ValueError, match=r"n_components=4, but the fitted model has 5: call fit\."):
        clone(mixture).set_params(n_components=5).partial_fit(X).set_params(n_components=4).partial_fit(X)
    with pytest.raises(ValueError, match="n_components=5 needs as many rows"):
        VonMisesFisherMixture(5).partial_fit(X[:4])
