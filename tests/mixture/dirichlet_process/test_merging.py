"""Clusters of components: groups of other shapes are one cluster, close groups are two, or any number is given."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import skmanifold
from skmanifold import DPMixture
from skmanifold.mixture import _merging
from skmanifold.mixture._merging import Merges, merge_components


def close_groups(rng):
    """Two groups at a distance of 3.2 standard deviations, and one far from both."""
    centres = np.repeat([[0.0, 0.0], [3.2, 0.0], [0.0, 8.0]], [300, 300, 150], axis=0)
    return rng.normal(size=(750, 2)) + centres, np.repeat([0, 1, 2], [300, 300, 150])


def ring(rng):
    """A group inside a ring."""
    angles = rng.uniform(0.0, 2.0 * np.pi, 500)
    X = np.column_stack([np.cos(angles), np.sin(angles)]) * 5.0 + 0.4 * rng.normal(size=(500, 2))
    return np.vstack([X, 0.8 * rng.normal(size=(200, 2))]), np.repeat([0, 1], [500, 200])


def skewed(rng):
    """Two groups with long tails."""
    X = np.exp(0.8 * rng.normal(size=(300, 2))), np.array([12.0, 9.0]) - np.exp(0.6 * rng.normal(size=(200, 2)))
    return np.vstack(X), np.repeat([0, 1], [300, 200])


def fit(groups, seed=0, **settings):
    X, y = groups(np.random.default_rng(seed))
    return DPMixture(random_state=seed, **settings).fit(X), y


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.extended)])
@pytest.mark.parametrize(("groups", "least"), [(close_groups, 0.8), (ring, 0.98), (skewed, 0.9)])
def test_planted_groups_are_clusters(groups, least, seed):
    mixture, y = fit(groups, seed)
    clusters = mixture.merge_components()
    assert clusters.shape == (mixture.n_components_,)
    assert adjusted_rand_score(y, clusters[mixture.labels_]) > least
    assert np.bincount(clusters[mixture.labels_]).min() >= min(15, 0.02 * len(y))
    if groups is not close_groups:
        assert adjusted_rand_score(y, mixture.labels_) < 0.7


def test_without_valleys_close_groups_are_one(monkeypatch):
    monkeypatch.setattr(_merging, "_LEAST_VALLEY", np.inf)
    mixture, y = fit(close_groups)
    assert adjusted_rand_score(y, mixture.merge_components()[mixture.labels_]) < 0.6


def test_groups_of_codes_are_clusters():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [150, 100, 60])
    X = (rng.random((310, 30)) < rng.choice([0.15, 0.85], (3, 30))[y]).astype(int)
    mixture = DPMixture("bernoulli", random_state=0).fit(X)
    assert adjusted_rand_score(y, mixture.merge_components()[mixture.labels_]) > 0.9


def test_clusters_of_any_number_are_nested():
    mixture, _ = fit(ring)
    finer, K = np.arange(mixture.n_components_), mixture.n_components_
    for n in range(K, 0, -1):
        clusters = mixture.merge_components(n)
        assert sorted(set(clusters.tolist())) == list(range(n))
        assert all(len(set(clusters[finer == k].tolist())) == 1 for k in set(finer.tolist()))
        _, first = np.unique(clusters, return_index=True)
        assert (np.diff(first) > 0).all()
        finer = clusters
    for n in (0, K + 1):
        with pytest.raises(ValueError, match="n_clusters"):
            mixture.merge_components(n)


def test_merges_are_saved_and_do_not_depend_on_threads(tmp_path):
    mixture, _ = fit(skewed, max_iter=60, n_chains=2)
    mixture.save(tmp_path / "mixture")
    loaded, (other, _) = skmanifold.load(tmp_path / "mixture"), fit(skewed, max_iter=60, n_chains=2, n_jobs=2)
    for n in (None, *range(1, mixture.n_components_ + 1)):
        for same in (loaded, other):
            np.testing.assert_array_equal(same.merge_components(n), mixture.merge_components(n))
    mixture._merges = mixture._merges._replace(pairs=mixture._merges.pairs + 1)
    with pytest.raises(ValueError, match="merges"):
        mixture.save(tmp_path / "altered")


def test_draws_are_needed():
    X = np.random.default_rng(0).poisson(3.0, size=(40, 4))
    mixture = skmanifold.DPCategoricalMixture("multinomial", sampler="scir", total_samples=40, random_state=0)
    with pytest.raises(ValueError, match="draws of the labels"):
        mixture.partial_fit(X).merge_components()


def test_one_component_has_no_merges():
    mixture = DPMixture(init=np.zeros(30, int), max_iter=4, random_state=0)
    mixture.fit(np.random.default_rng(0).normal(size=(30, 1)))
    if mixture.n_components_ == 1:
        np.testing.assert_array_equal(mixture.merge_components(), [0])
    empty = merge_components(np.zeros(5, int), np.zeros((3, 5), int), np.arange(5), np.zeros((5, 1)))
    np.testing.assert_array_equal(empty.clusters(), [0])


def test_merges_in_closed_form():
    """Components 0 and 1 have the same rows in half of the draws, and no valley; component 2 is far."""
    labels = np.repeat([0, 1, 2], 20)
    draws = np.array([np.repeat([0, 1, 2], 20), np.repeat([0, 0, 1], 20)])
    x = np.concatenate([np.linspace(-1.0, 0.0, 20), np.linspace(0.05, 1.0, 20), np.linspace(9.0, 10.0, 20)])
    terms = -0.5 * (x[:, np.newaxis] - np.array([-0.5, 0.5, 9.5])) ** 2
    merges = merge_components(labels, draws, np.arange(60), terms)
    # Memberships are (3/4, 1/4, 0), (1/4, 3/4, 0), (0, 0, 1)
    np.testing.assert_array_equal(merges.pairs, [[0, 1], [3, 2]])
    assert merges.overlaps[0] == pytest.approx(2 * 20 * 0.75 * 0.25 / 20)
    assert merges.overlaps[1] == 0.0
    assert merges.n_chosen == 1
    np.testing.assert_array_equal(merges.clusters(), [0, 0, 1])
    assert Merges(merges.pairs, merges.overlaps, 3)._disagreement({}) is not None
