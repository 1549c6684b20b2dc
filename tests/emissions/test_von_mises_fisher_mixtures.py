"""Mixtures of directions by `VonMisesFisher`: fits, what is stored and shown, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import VonMisesFisher
from skmanifold.models import IncompatibleError

from ._directions import each_kind, planted

each_mixture = pytest.mark.parametrize(
    "kind", [pytest.param(DPMixture, marks=pytest.mark.extended), ExponentialFamilyMixture]
)


@pytest.mark.covering
@each_kind
@pytest.mark.parametrize("sampler", ["em", "esca", "gibbs"])
def test_mixtures_find_planted_clusters_of_any_type_of_rows(kind, sampler):
    X, labels = planted(concentration=40.0)
    settings = {"emission": VonMisesFisher(kind), "sampler": sampler, "max_iter": 30, "random_state": 0}
    fits = [ExponentialFamilyMixture(3, **settings).fit(Y) for Y in (X, X.astype(np.float32), sp.csr_array(X))]
    for mixture in fits:
        assert adjusted_rand_score(labels, mixture.labels_) > 0.97
        np.testing.assert_allclose(np.linalg.norm(mixture.mean_directions_, axis=1), 1.0)
        if kind != 6.0:
            assert 30.0 < mixture.concentrations_.min() <= mixture.concentrations_.max() < 55.0
    assert fits[0].score(X) == pytest.approx(fits[0].score(sp.csr_array(X)), abs=1e-9)


@pytest.mark.extended
@pytest.mark.short_cases("shared")
@pytest.mark.parametrize("kind", ["shared", "per_component"])
def test_a_dirichlet_process_finds_the_number_of_planted_clusters(kind):
    X, labels = planted(600, 10, 4, 40.0)
    mixture = DPMixture(VonMisesFisher(kind), max_iter=60, random_state=0).fit(X)
    assert adjusted_rand_score(labels, mixture.labels_) > 0.97
    assert mixture.n_components_posterior_[4:7].sum() > 0.9
    large = mixture.weights_ > 0.05
    assert large.sum() == 4
    assert abs(mixture.concentrations_[large] - 40.0).max() < 12.0
    assert mixture.mean_directions_.shape == mixture.components_.shape
    sample, _ = mixture.sample(50, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(sample, axis=1), 1.0)


# --- what is refused -------------------------------------------------------------------------------------


@each_mixture
def test_bad_input_ends_in_one_sentence(kind):
    X, _ = planted(60)
    hole, zero = X.copy(), X.copy()
    hole[3, 2], zero[7] = np.nan, 0.0
    mixture = kind(emission="von_mises_fisher", random_state=0)
    with pytest.raises(ValueError, match=r"^X contains NaN, but directions have no missing cells: put an imputer"):
        mixture.fit(hole)
    with pytest.raises(ValueError, match=r"^Row 7 of X has only zeros, and so no direction: remove such rows\.$"):
        mixture.fit(zero)
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        mixture.fit(X[:, :1])
    with pytest.raises(ValueError, match="cosine_prior"):
        kind(emission=VonMisesFisher(cosine_prior=1.0)).fit(X)
    fitted = kind(emission="von_mises_fisher", max_iter=4, random_state=0).fit(X)
    with pytest.raises(IncompatibleError, match="The emission VonMisesFisher has no distributions of single c"):
        fitted.impute(X)


@each_mixture
def test_a_summary_has_sizes_and_typical_rows_without_columns(kind):
    X, _ = planted(90, concentration=60.0)
    settings = {"n_components": 3, "sampler": "gibbs"} if kind is ExponentialFamilyMixture else {}
    mixture = kind(emission="von_mises_fisher", max_iter=30, random_state=0, **settings).fit(X)
    clusters, columns = mixture.cluster_summary()
    sizes = np.bincount(mixture.labels_)
    np.testing.assert_array_equal(clusters["size"].sort_index(), sizes)
    of_size = "drawn_size" if kind is DPMixture else "drawn_weight"
    assert (clusters[f"{of_size}_low"] <= clusters[f"{of_size}_high"]).all()
    rows = clusters["typical_row"].sort_index().to_numpy()
    cosines = (X / np.linalg.norm(X, axis=1, keepdims=True)) @ mixture.mean_directions_.T
    for k, row in enumerate(rows):
        assert cosines[row, k] == cosines[mixture.labels_ == k, k].max()
    assert len(columns) == 0


@pytest.mark.filterwarnings("ignore:.* rows of X repeat other rows exactly")
@each_mixture
def test_unusual_rows_are_read(kind):
    X, labels = planted(90, concentration=60.0)
    scales = np.resize([1e-200, 1.0, 1e150], (90, 1))
    settings = {"n_components": 3} if kind is ExponentialFamilyMixture else {}
    mixture = kind(emission="von_mises_fisher", max_iter=30, random_state=0, **settings)
    assert adjusted_rand_score(labels, mixture.fit_predict(X * scales)) > 0.9
    for dtype in (np.float16, int, bool):
        Y = (X > 0) if dtype is bool else (100 * X).astype(dtype)
        Y = Y[Y.any(axis=1)]
        assert np.isfinite(mixture.fit(Y).score(Y))
    same = np.repeat(X[:1], 30, axis=0)
    assert np.isfinite(kind(emission="von_mises_fisher", max_iter=10, random_state=0).fit(same).score(same))
