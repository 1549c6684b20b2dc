"""Clusters of components: groups of other shapes are one cluster, close groups are two, or any number is given."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import skmanifold
from skmanifold import DPMixture
from skmanifold.emissions import Gaussian
from skmanifold.mixture import _merging
from skmanifold.mixture._merging import Merges, merge_components, merge_draw


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
    assert adjusted_rand_score(y, mixture.labels_) > least
    assert np.bincount(mixture.labels_).min() >= min(15, 0.02 * len(y))
    assert abs(mixture.n_components_posterior_.argmax() - len(set(y))) <= 1
    if groups is not close_groups:
        assert adjusted_rand_score(y, mixture.component_labels_) < 0.7


def test_without_valleys_close_groups_are_one(monkeypatch):
    monkeypatch.setattr(_merging, "_LEAST_VALLEY", np.inf)
    mixture, y = fit(close_groups)
    assert adjusted_rand_score(y, mixture.labels_) < 0.6


def test_groups_of_codes_are_clusters():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [150, 100, 60])
    X = (rng.random((310, 30)) < rng.choice([0.15, 0.85], (3, 30))[y]).astype(int)
    assert adjusted_rand_score(y, DPMixture("bernoulli", random_state=0).fit_predict(X)) > 0.9
    whole = DPMixture("categorical", max_iter=10, random_state=0).fit(X).merge_components(1)
    np.testing.assert_allclose(np.concatenate(whole.components_)[:, 1], X.mean(axis=0), atol=0.05)


def test_all_methods_describe_the_same_clusters():
    X, _ = ring(np.random.default_rng(0))
    mixture, K = DPMixture(random_state=0).fit(X), 0
    for clusters in ("merged", "components", 5):
        mixture.set_params(clusters=clusters)
        n, own, of_components = mixture.n_components_, mixture.labels_, mixture.component_clusters_
        np.testing.assert_array_equal(own, of_components[mixture.component_labels_])
        assert own.max() + 1 == n == of_components.max() + 1
        assert (mixture.predict(X) == own).mean() > 0.98
        probabilities = mixture.predict_proba(X)
        np.testing.assert_array_equal(probabilities, mixture.transform(X))
        assert probabilities.shape == (len(X), n) == (len(X), len(mixture.get_feature_names_out()))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        sizes = np.bincount(own)
        np.testing.assert_allclose(mixture.weights_, sizes / (len(X) + mixture.concentration_))
        assert (np.diff(sizes) <= 0).all()
        summary = mixture.cluster_summary().clusters
        assert summary["size"].tolist() == sizes.tolist()
        np.testing.assert_allclose(summary[[0, 1]], mixture.components_)
        np.testing.assert_array_equal(own[mixture.typical_rows_], range(n))
        together, known = mixture.co_clustering(), own[:, np.newaxis] == own
        assert together[known].mean() > 0.5
        assert together[~known].mean() < 0.1
        assert np.abs(mixture.co_clustering(X[::9]) - together[::9, ::9]).mean() < 0.05
        assert set(mixture.sample(200, random_state=0)[1].tolist()) - {-1} == set(range(n))
        K = max(K, n)
    assert len(mixture._merges.pairs) + 1 == K


def test_moments_of_a_cluster_are_those_of_its_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) + np.repeat([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0]], [200, 100], axis=0)
    for emission in ("gaussian", Gaussian("tied"), Gaussian("diag"), Gaussian("spherical")):
        mixture = DPMixture(emission, init=np.repeat([0, 1], [200, 100]), max_iter=6, random_state=0).fit(X)
        mixture = mixture.merge_components(1)
        np.testing.assert_allclose(mixture.components_[0], X.mean(axis=0), atol=0.1)
        covariance = mixture.covariances_[0]
        known = np.cov(X.T)
        np.testing.assert_allclose(covariance, known if covariance.ndim == 2 else np.diag(known), atol=0.25)
    directions = X / np.linalg.norm(X, axis=1, keepdims=True)
    mixture = DPMixture("von_mises_fisher", max_iter=10, random_state=0).fit(directions).merge_components(1)
    np.testing.assert_allclose(mixture.components_[0], directions.mean(axis=0), atol=0.05)
    cosine = skmanifold.distributions.bessel_ratio(3, mixture.concentrations_[0])
    np.testing.assert_allclose(cosine * mixture.mean_directions_, mixture.components_)


def test_clusters_of_any_number_are_nested():
    mixture, _ = fit(ring)
    K = len(mixture.component_clusters_)
    finer = np.arange(K)
    for n in range(K, 0, -1):
        other = mixture.merge_components(n)
        clusters = other.component_clusters_
        assert sorted(set(clusters.tolist())) == list(range(n))
        assert all(len(set(clusters[finer == k].tolist())) == 1 for k in set(finer.tolist()))
        assert other.n_components_posterior_.argmax() == n
        finer = clusters
    assert mixture.clusters == "merged"
    for n in (0, K + 1):
        with pytest.raises(ValueError, match="clusters"):
            mixture.merge_components(n)
    assert mixture.set_params(clusters=K + 1).n_components_ == K


def test_merges_are_saved_and_do_not_depend_on_threads(tmp_path):
    mixture, _ = fit(skewed, max_iter=60, n_chains=2)
    mixture.save(tmp_path / "mixture")
    loaded, (other, _) = skmanifold.load(tmp_path / "mixture"), fit(skewed, max_iter=60, n_chains=2, n_jobs=2)
    for same in (loaded, other):
        np.testing.assert_array_equal(same.co_clustering(), mixture.co_clustering())
        for n in ("merged", "components", *range(1, mixture.n_components_ + 1)):
            np.testing.assert_array_equal(same.merge_components(n).labels_, mixture.merge_components(n).labels_)
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
    if len(mixture.component_clusters_) == 1:
        assert mixture.n_components_ == 1
    labels, draws = np.zeros(5, int), np.zeros((3, 5), int)
    empty = merge_components(labels, draws, labels, np.zeros((5, 1)))
    np.testing.assert_array_equal(empty.clusters(None, np.array([5])), [0])


def test_merges_in_closed_form():
    """Components 0 and 1 have the same rows in half of the draws, and no valley; component 2 is far."""
    labels = np.repeat([0, 1, 2], 20)
    draws = np.array([np.repeat([0, 1, 2], 20), np.repeat([0, 0, 1], 20)])
    x = np.concatenate([np.linspace(-1.0, 0.0, 20), np.linspace(0.05, 1.0, 20), np.linspace(9.0, 10.0, 20)])
    terms = -0.5 * (x[:, np.newaxis] - np.array([-0.5, 0.5, 9.5])) ** 2
    np.testing.assert_array_equal(merge_draw(labels, draws, terms), [0, 0, 1])
    merges = merge_components(labels, draws, np.repeat([0, 0, 1], 20), terms)
    # Memberships are (3/4, 1/4, 0), (1/4, 3/4, 0), (0, 0, 1)
    np.testing.assert_array_equal(merges.pairs, [[0, 1], [3, 2]])
    assert merges.overlaps[0] == pytest.approx(2 * 20 * 0.75 * 0.25 / 20)
    assert merges.overlaps[1] == 0.0
    assert merges.n_chosen == 1
    np.testing.assert_array_equal(merges.clusters(None, np.array([20, 20, 20])), [0, 0, 1])
    np.testing.assert_array_equal(merges.clusters(None, np.array([20, 20, 50])), [1, 1, 0])
    assert Merges(merges.pairs, merges.overlaps, 3)._disagreement({}) is not None


def test_the_first_merges_lead_to_the_clusters_nearest_to_the_draws():
    labels = np.repeat([0, 1, 2], 20)
    for nearest, known in (([0, 0, 1], [0, 0, 1]), ([1, 0, 1], [0, 1, 0]), ([2, 1, 0], [0, 1, 2])):
        merges = merge_components(labels, np.array([labels] * 3), np.repeat(nearest, 20), np.zeros((60, 3)))
        np.testing.assert_array_equal(merges.clusters(None, np.array([20, 20, 20])), known)
