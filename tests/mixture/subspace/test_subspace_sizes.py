"""Large data: rows beyond those of initial partitions, many columns, minibatches."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import skmanifold
from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.mixture._memberships import Position
from skmanifold.mixture._subspace import tilt_kernels as tilts
from skmanifold.mixture._subspace.family import Subspaces
from skmanifold.mixture._subspace.model import SubspaceModel
from skmanifold.mixture._subspace.sparse_rows import SparseRows
from skmanifold.utils._threads import Workers

from ._subspace_references import compiled, keys_of


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("n_init", [1, 3])
def test_rows_beyond_those_of_initial_partitions_are_labelled(monkeypatch, n_init, holes):
    monkeypatch.setattr("skmanifold.mixture._subspace.starts._MAX_ROWS", 60)
    data = make_subspaces(400, 8, (1, 2), noise_precision=50.0, random_state=0)
    X = np.where(np.random.default_rng(0).random(data.data.shape) < holes, np.nan, data.data)
    mixture = SubspaceMixture(2, n_init=n_init, max_iter=30, random_state=0).fit(X)
    assert adjusted_rand_score(data.labels, mixture.labels_) == 1.0
    assert sorted(mixture.dimensions_) == [1, 2]


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("dimensions", [None, 35])  # more than the rows of a component
def test_wide_rows_need_no_matrix_of_their_features(K, dimensions):
    m = 4000
    X = make_subspaces(50, m, (2, 3), random_state=0).data
    settings = {"max_iter": 2, "n_init": 1, "random_state": 0}
    SubspaceMixture(K, **settings).fit(X[:, :70])
    tracemalloc.start()
    mixture = SubspaceMixture(K, dimensions=dimensions, **settings).fit(X)
    for method in (mixture.predict, mixture.transform, mixture.score_samples, mixture.project):
        method(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * m**2 / 3


def test_wide_rows_without_scatters_have_the_same_posterior(monkeypatch):
    data = make_subspaces(300, 40, (1, 3), noise_precision=50.0, random_state=0)
    mixture = SubspaceMixture(2, max_iter=40, random_state=0)
    expected = mixture.fit(data.data).dimension_posterior_
    monkeypatch.setattr("skmanifold.mixture._subspace.model.MOST_FEATURES_OF_SCATTERS", 10)
    monkeypatch.setattr("skmanifold.mixture._subspace.model.SubspaceModel.moments", lambda *_: pytest.fail("scatter"))
    monkeypatch.setattr("skmanifold.mixture._subspace.tilt_kernels.MOST_AXES", 8)
    mixture.fit(data.data)
    np.testing.assert_array_equal(mixture.dimension_posterior_, expected)
    assert adjusted_rand_score(data.labels, mixture.labels_) == 1.0


@compiled
@pytest.mark.parametrize(("d", "noise"), [(1, 0.7), (1, 0.9), (2, 0.6)])
def test_proposals_from_leading_axes_have_their_density(d, noise):
    """Of subspaces orthogonal to a basis, nearly uniform ones and others."""
    axes = np.linalg.qr(np.random.default_rng(3).standard_normal((6, 4)))[0].T
    basis, near = axes[:1].copy(), (np.array([20.0, 16.0, 3.0]), axes[1:].copy(), 1.0)

    def drawn(key):
        span = tilts.draw_span(*near, d, 10, noise, 5, key)
        frame = np.vstack([basis, span])
        tilts.orthonormalise(frame, 1)
        return frame[1:].copy()

    def densities(spans, ambient=5):
        return np.exp([tilts.log_span(span, *near, 10, noise, ambient) for span in spans])

    spans = [drawn(key) for key in keys_of(4000, 30)]
    uniform = [tilts.complete_frame(basis, 1 + d, key)[1:].copy() for key in keys_of(4000, 31)]
    assert_agrees(summarize(1.0 / densities(spans)), 1.0)
    assert_agrees(summarize(densities(uniform)), 1.0)
    if d == 1:
        assert_disagrees(summarize(densities(uniform, ambient=9)), 1.0)


def test_subspaces_that_are_orthogonal_to_the_axes_have_a_density():
    near, axes = (np.array([3.0, 2.0]), np.eye(4)[:2].copy(), 0.0), np.eye(4)
    close = np.array([[1e-6, 0.0, 1.0, 0.0]])
    levels = [tilts.log_span(of, *near, 10, 0.1, 4) for of in (axes[[2]].copy(), close)]
    np.testing.assert_allclose(*levels, atol=1e-6)
    assert all(np.isfinite(tilts.log_span(axes[of].copy(), *near, 10, 0.1, 4)) for of in ([2, 3], [0, 3], [2]))


# Streams


def planted_stream(n_batches=8, **params):
    data = make_subspaces(200 * n_batches + 200, 8, (1, 2, 3), noise_precision=20.0, random_state=0)
    mixture = SubspaceMixture(3, n_init=3, random_state=0, **params)
    for batch in np.split(data.data[200:], n_batches):
        mixture.partial_fit(batch)
    return mixture, data


def test_a_stream_finds_planted_subspaces():
    mixture, data = planted_stream()
    assert adjusted_rand_score(data.labels[:200], mixture.predict(data.data[:200])) == 1.0
    assert sorted(mixture.dimensions_) == [1, 2, 3]
    whole = clone(mixture).fit(data.data[200:])
    assert mixture.score(data.data[:200]) > whole.score(data.data[:200]) - 0.05
    assert mixture.n_batch_iter_ == 8
    assert not hasattr(mixture, "labels_")
    with pytest.raises(AttributeError, match="available after fit"):
        _ = mixture.posterior_


def test_moments_of_a_stream_are_weighted_means_over_rows():
    rng = np.random.default_rng(1)
    batches = [(rng.standard_normal((n, 3)), rng.integers(0, 3, n).astype(np.int32)) for n in (40, 30, 20)]
    batches[1][1][:] %= 2  # no rows of the last component
    rates, moments = (1.0, 0.4, 0.25), None
    position = Position(None, Subspaces(*[None] * 3, np.zeros((4, 3)), None))
    for (X, labels), rate in zip(batches, rates, strict=True):
        model = SubspaceModel(X, None, None, [], Workers(1))
        moments = model.blend(moments, position, labels, rate, 1.0 / len(X))
    of_batches = 0.6 * 0.75, 0.4 * 0.75, 0.25
    weights = np.concatenate([np.full(len(X), w / len(X)) for w, (X, _) in zip(of_batches, batches, strict=True)])
    X, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert moments.n_rows == pytest.approx(1.0 / (weights**2).sum())
    for k in range(4):
        of = weights * (labels == k)
        assert moments.shares[k] == pytest.approx(of.sum())
        mean = of @ X / max(of.sum(), 1e-300)
        np.testing.assert_allclose(moments.means[k], mean, atol=1e-12)
        np.testing.assert_allclose(moments.scatters[k], ((X - mean).T * of) @ (X - mean), atol=1e-12)


def test_equal_weights_keep_the_number_of_rows():
    mixture, _ = planted_stream(4, learning_decay=1.0, learning_offset=0.0)
    assert mixture._moments.n_rows == pytest.approx(800.0)


@pytest.mark.parametrize("missing", [False, True])
def test_a_stream_continues_a_fit_and_is_saved(tmp_path, missing):
    _, data = planted_stream(1)
    X = data.data.copy()
    X[::7, 3] = np.nan if missing else X[::7, 3]
    mixture = SubspaceMixture(3, n_init=3, max_iter=60, random_state=0).fit(X)
    level = mixture.score(data.data)
    mixture.partial_fit(X[:100])
    assert mixture.score(data.data) > level - 0.2
    mixture.save(tmp_path / "mixture.npz")
    loaded = skmanifold.load(tmp_path / "mixture.npz")
    for each in (mixture, loaded):
        each.set_params(n_jobs=1 if each is mixture else 2).partial_fit(X[100:])
    np.testing.assert_array_equal(loaded.score_samples(X), mixture.score_samples(X))
    assert "_moments" not in vars(mixture.fit(X))


def test_streams_that_cannot_continue():
    mixture, data = planted_stream(1)
    with pytest.raises(ValueError, match="has 3 components: call fit"):
        mixture.set_params(n_components=2).partial_fit(data.data)
    with pytest.raises(ValueError, match="at most 2000 features, not 2001"):
        SubspaceMixture(1).partial_fit(np.random.default_rng(0).random((3, 2001)))
    assert not hasattr(SubspaceMixture(sampler="conway"), "partial_fit")


# Sparse rows


def sparse_table(n=600, m=12):
    rng = np.random.default_rng(2)
    cluster = np.arange(n) % 2
    X = rng.standard_normal((n, 1)) * np.where(cluster[:, None], 3.0, -2.0) * (np.arange(m) % 2 == cluster[:, None])
    return np.where(rng.random((n, m)) < 0.5, X + 5.0 * cluster[:, None], 0.0), cluster


@pytest.mark.parametrize("K", [1, 2])
@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix])
def test_sparse_rows_give_the_same_result(K, form):
    X, _ = sparse_table()
    mixture = SubspaceMixture(K, max_iter=20, centre_prior_mean=np.arange(12.0), random_state=0)
    dense, stored = clone(mixture).fit(X), clone(mixture).fit(form(X))
    np.testing.assert_array_equal(stored.labels_, dense.labels_)
    np.testing.assert_array_equal(stored.dimensions_, dense.dimensions_)
    np.testing.assert_allclose(stored.means_, dense.means_, atol=1e-6)
    for method in ("score_samples", "transform", "predict_proba"):
        np.testing.assert_array_equal(getattr(stored, method)(form(X)), getattr(stored, method)(X))
    expected, projection = stored.project(X), stored.project(form(X))
    np.testing.assert_array_equal(projection.coordinates, expected.coordinates)
    np.testing.assert_allclose(
        clone(mixture).partial_fit(form(X)).means_, clone(mixture).partial_fit(X).means_, atol=1e-6
    )


def test_sparse_rows_are_dense_in_blocks_alone(monkeypatch):
    monkeypatch.setattr("skmanifold.mixture._subspace.starts._MAX_ROWS", 500)
    largest, to_dense = [0], SparseRows.__array__

    def counted(self, *args, **kwargs):
        largest[0] = max(largest[0], len(self))
        return to_dense(self, *args, **kwargs)

    monkeypatch.setattr(SparseRows, "__array__", counted)
    X, cluster = sparse_table(9000)
    X = sp.csr_array(X)
    mixture = SubspaceMixture(2, max_iter=20, random_state=0).fit(X)
    assert adjusted_rand_score(cluster, mixture.labels_) > 0.5
    for method in (mixture.predict, mixture.score, mixture.transform, mixture.project):
        method(X)
    assert 500 <= largest[0] <= 2048


def test_sparse_rows_without_finite_cells_are_refused():
    X = sp.csr_array(sparse_table()[0])
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        SubspaceMixture().fit(X)


def test_moments_of_equal_labels_are_computed_once(monkeypatch):
    data = make_subspaces(400, 5, (1, 2), noise_precision=50.0, random_state=0)
    mixture, made = SubspaceMixture(2, max_iter=20, n_chains=2, random_state=0), []
    expected = mixture.fit(data.data).posterior_["means"]
    moments = SubspaceModel.moments
    monkeypatch.setattr("skmanifold.mixture._subspace.model._MANY", 100)
    monkeypatch.setattr(SubspaceModel, "moments", lambda *args: made.append(1) or moments(*args))
    np.testing.assert_allclose(mixture.fit(data.data).posterior_["means"], expected, atol=1e-8)
    assert len(made) < 60  # of 140 sweeps, pilot runs included
    found = mixture.score_samples(data.data)
    np.testing.assert_array_equal(mixture.set_params(n_jobs=2).fit(data.data).score_samples(data.data), found)
