"""Large data: rows beyond those of initial partitions, many columns, minibatches."""

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces


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
    monkeypatch.setattr("skmanifold.mixture._subspace.model._WIDEST", 10)
    monkeypatch.setattr("skmanifold.mixture._subspace.model.SubspaceModel.moments", lambda *_: pytest.fail("scatter"))
    monkeypatch.setattr("skmanifold.mixture._subspace.model.MOST_AXES", 8)
    mixture.fit(data.data)
    np.testing.assert_array_equal(mixture.dimension_posterior_, expected)
    assert adjusted_rand_score(data.labels, mixture.labels_) == 1.0
