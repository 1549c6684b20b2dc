"""Transformed columns of Gaussian components: densities, learned powers, and results in the units of the columns."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st
from sklearn.base import clone

import skmanifold
from skmanifold import DPMixture, ExponentialFamilyMixture
from skmanifold.emissions import Categorical, Columns, Gaussian
from skmanifold.emissions._gaussian.transforms import YeoJohnson
from skmanifold.utils._declared import check_estimator
from skmanifold.utils._threads import Workers

from ._cases import KEY, read

TYPES = "full", "tied", "diag", "spherical"
POWERS = [0.0, 1.0, 0.3]
ONE = Workers(1)
each_type = pytest.mark.parametrize("covariance_type", TYPES)


def make_X(n=80, holed=0.0, seed=0):
    """Skewed columns, of which the second is normal."""
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((n, 3)) @ [[1.0, 0.5, 0.2], [0.0, 1.0, -0.4], [0.0, 0.0, 0.7]]
    X = np.column_stack([np.exp(normal[:, 0]), normal[:, 1], np.exp(0.5 * normal[:, 2])])
    return np.where(rng.random((n, 3)) < holed, np.nan, X)


def transform_of(X, powers=POWERS):
    return YeoJohnson.of_rows(X, np.ones(len(X)), np.array(powers))


def test_transforms_are_those_of_scipy_with_the_same_moments():
    X = make_X()
    found, transform = transform_of(X).forward(X), transform_of(X)
    quartiles = np.quantile(X, [0.25, 0.5, 0.75], axis=0, method="inverted_cdf")
    z = (X - quartiles[1]) / ((quartiles[2] - quartiles[0]) / 1.349)
    for j, power in enumerate(POWERS):
        expected = st.yeojohnson(z[:, j], power)
        np.testing.assert_allclose(st.zscore(found[:, j]), st.zscore(expected), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(found[:, 1], X[:, 1])
    points = transform.location + transform.scale * transform.points
    np.testing.assert_allclose(points[[0, 32, 64]], np.quantile(X, [0.0, 0.5, 1.0], axis=0, method="inverted_cdf"))
    moments = [[of(axis=0) for of in (rows.mean, rows.std)] for rows in (points, transform.forward(points))]
    np.testing.assert_allclose(*moments, rtol=1e-12)
    far = np.concatenate([X, [[-50.0, 3.0, 90.0], [1e9, -1e9, -1e9]]])
    np.testing.assert_allclose(transform.inverse(transform.forward(far)), far, rtol=1e-9, atol=1e-9)
    step = 1e-6
    slopes = (transform.forward(far[:-1] + step) - transform.forward(far[:-1] - step)) / (2.0 * step)
    np.testing.assert_allclose(transform.log_derivatives(far[:-1]), np.log(slopes).sum(axis=1), atol=1e-5)


def test_beyond_the_fitted_rows_transforms_are_straight_lines():
    X = make_X()
    transform = transform_of(X)
    ends = np.array([X.max(axis=0) + step for step in (0.0, 1.0, 2.0)])
    np.testing.assert_allclose(np.diff(transform.forward(ends), n=2, axis=0), 0.0, atol=1e-10)
    assert np.abs(np.diff(transform.forward(ends - 2.5), n=2, axis=0))[0, 0] > 1e-3


def test_whole_weights_are_repeated_rows():
    X, weights = make_X(holed=0.1), np.arange(80) % 3 + 1
    weighted = YeoJohnson.of_rows(X, weights.astype(float), np.array(POWERS))
    for one, other in zip(weighted, transform_of(np.repeat(X, weights, axis=0)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@each_type
@pytest.mark.parametrize("holed", [0.0, 0.2])
def test_densities_are_those_of_transformed_rows_times_derivatives(covariance_type, holed):
    X, labels = make_X(holed=holed), np.arange(80, dtype=np.int32) % 3
    transform = transform_of(X)
    own = read(Gaussian(covariance_type, transform=POWERS), X)
    family = Gaussian(covariance_type, transform=POWERS).bind(own, 3)
    rows = read(Gaussian(), transform.forward(X))
    plain = Gaussian(covariance_type).bind(rows, 3)
    np.testing.assert_allclose(family.prior.covariance, plain.prior.covariance)
    base = transform.log_derivatives(X)
    np.testing.assert_allclose(family.transformed(own).log_base, base)
    again = family.transformed(family.transformed(own))
    np.testing.assert_array_equal(again.values, transform.forward(X))
    found, expected = [], []
    for each, its_rows, out in ((family, own, found), (plain, rows, expected)):
        clusters = each.clusters(its_rows).part(0, 60)
        statistics = clusters.no_statistics(3)
        clusters.count(labels[:60], statistics, ONE)
        components = clusters.draw_components(statistics, np.arange(3), KEY, ONE)
        of_rows, given, of_new = np.zeros((60, 3)), np.zeros((60, 3)), np.zeros((60, 1))
        clusters.add_log_predictive(statistics, of_rows, ONE)
        clusters.add_densities_of_rows(components, given, ONE)
        clusters.add_log_density_of_new(components, of_new, ONE)
        out += [clusters.log_marginal(statistics), of_rows, given, of_new]
    assert abs(base[:60].sum()) > 1.0
    np.testing.assert_allclose(found[0], expected[0] + base[:60].sum(), rtol=1e-10)
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(one, other + base[:60, np.newaxis], rtol=1e-8, atol=1e-8)


@each_type
@pytest.mark.parametrize("mixture", [DPMixture(max_iter=30), ExponentialFamilyMixture(2, sampler="em")])
def test_densities_integrate_to_one(mixture, covariance_type):
    X = make_X(200)[:, :1]
    fitted = clone(mixture).set_params(emission=Gaussian(covariance_type, transform=[0.1]), random_state=0).fit(X)
    u = np.linspace(-12.0, 12.0, 20_001)
    density = np.exp(fitted.score_samples(np.sinh(u)[:, np.newaxis])) * np.cosh(u)
    assert np.trapezoid(density, u) == pytest.approx(1.0, abs=2e-3)
    assert np.trapezoid(density * np.exp(-transform_of(X, [0.1]).log_derivatives(np.sinh(u)[:, np.newaxis])), u) != (
        pytest.approx(1.0, abs=0.1)
    )


@each_type
def test_powers_of_one_change_nothing(covariance_type):
    X = make_X(holed=0.1)
    plain, ones = Gaussian(covariance_type), Gaussian(covariance_type, transform=np.ones(3))
    assert ones.bind(read(ones, X), 2).transform is None
    fits = [DPMixture(emission, max_iter=20, random_state=0).fit(X) for emission in (plain, ones)]
    np.testing.assert_array_equal(fits[0].score_samples(X), fits[1].score_samples(X))
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


def skewed_clusters(n=600, seed=0):
    """Two clusters, normal if the first column is nearly its logarithm, and the second as it is."""
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    normal = rng.standard_normal((n, 2)) @ [[0.6, 0.0], [0.0, 0.5]] + 2.5 * labels[:, np.newaxis]
    return np.column_stack([np.exp(normal[:, 0]), normal[:, 1]])


@each_type
def test_powers_of_clusters_are_found(covariance_type):
    X, held_out, own = skewed_clusters(), skewed_clusters(seed=1), Gaussian(covariance_type, transform="auto")
    for mixture in (DPMixture(own, max_iter=20), ExponentialFamilyMixture(2, emission=own, max_iter=20)):
        fitted = mixture.set_params(random_state=0).fit(X)
        plain = clone(mixture).set_params(emission=Gaussian(covariance_type)).fit(X)
        assert fitted.emission_.transform[0] < 0.3
        assert fitted.score(held_out) > plain.score(held_out) + 0.03


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_normal_columns_stay(covariance_type):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 4)) + 4.0 * (rng.random(400) < 0.5)[:, np.newaxis]
    fitted = DPMixture(Gaussian(covariance_type, transform="auto"), max_iter=10, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.emission_.transform, np.ones(4))
    plain = DPMixture(Gaussian(covariance_type), max_iter=10, random_state=0).fit(X)
    # Hyperparameters are learned from another start, to the tolerance of the search
    np.testing.assert_allclose(fitted.score_samples(X), plain.score_samples(X), atol=1e-3)


def test_a_power_is_found_given_missing_cells_and_given_other_columns():
    X = make_X(600, holed=0.2)
    powers = DPMixture(Gaussian(transform="auto"), max_iter=10, random_state=0).fit(X).emission_.transform
    assert powers[0] < 0.3
    assert 0.7 < powers[1] < 1.3
    assert powers[2] < 0.7


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag"])
def test_cells_and_rows_have_the_units_of_the_columns(covariance_type):
    X = make_X(300)
    emission = Gaussian(covariance_type, transform=POWERS)
    settings = {"sampler": "gibbs", "max_iter": 20, "n_predictive_draws": 10, "random_state": 0}
    fitted = ExponentialFamilyMixture(2, emission=emission, **settings).fit(X)
    rows, labels = fitted.sample(20_000, random_state=1)
    for k in range(2):
        own = rows[labels == k]
        gaps = (own.mean(axis=0) - fitted.components_[k]) / (own.std(axis=0) / np.sqrt(len(own)))
        assert np.abs(gaps).max() < 5.0
    holed = X[:6].copy()
    holed[:3, 0] = holed[3:, 2] = holed[5, 1] = np.nan
    missing = np.isnan(holed)
    drawn = np.array([each[missing] for each in fitted.impute(holed, n_draws=2000, random_state=2)])
    expected = fitted.impute(holed)[missing]
    assert np.abs((drawn.mean(axis=0) - expected) / (drawn.std(axis=0) / np.sqrt(len(drawn)))).max() < 5.0
    of_first = fitted.conditional(holed[:3], [0])
    np.testing.assert_allclose(of_first.mean()[:, 0], expected[:3], rtol=1e-10)
    np.testing.assert_allclose(of_first.variance()[:, 0], drawn.var(axis=0)[:3], rtol=0.3)
    np.testing.assert_allclose(
        of_first.log_density(X[:3]), fitted.score_samples(X[:3]) - fitted.score_samples(holed[:3]), rtol=1e-9
    )


@each_type
def test_components_of_a_process_have_the_units_of_the_columns(covariance_type):
    X = np.vstack([make_X(300), 40.0 + make_X(300)])
    emission = Gaussian(covariance_type, transform=[0.5, 1.0, 0.5])
    fitted = DPMixture(emission, init=np.repeat([0, 1], 300), max_iter=20, random_state=0).fit(X)
    for k in range(2):
        own = X[fitted.labels_ == k]
        scale = own.std(axis=0) / 3.0
        assert (np.abs(fitted.components_[k] - own.mean(axis=0)) < scale).all()
        rows, labels = fitted.sample(4000, random_state=0)
        assert (np.abs(rows[labels == k].mean(axis=0) - own.mean(axis=0)) < scale).all()
        drawn = np.abs(fitted.posterior_["components"][0] - own.mean(axis=0)) / scale
        assert (np.nanmin(drawn.max(axis=2), axis=1) < 3.0).all()
    shown = fitted.cluster_summary(feature_names=["a", "b", "c"]).clusters
    np.testing.assert_allclose(shown["a"], fitted.components_[shown.index, 0], rtol=1e-9)


def test_files_pickles_and_threads_keep_transforms(tmp_path):
    X = skewed_clusters(300)
    for mixture in (DPMixture(max_iter=10), ExponentialFamilyMixture(2, max_iter=10)):
        mixture = mixture.set_params(emission=Gaussian("diag", transform="auto"), random_state=0)
        fitted = clone(mixture).fit(X)
        assert (fitted.emission_.transform != 1.0).any()
        fitted.save(tmp_path / "mixture")
        copies = skmanifold.load(tmp_path / "mixture"), pickle.loads(pickle.dumps(fitted))
        for other in (*copies, clone(mixture).set_params(n_jobs=2).fit(X)):
            np.testing.assert_array_equal(other.score_samples(X), fitted.score_samples(X))
            np.testing.assert_array_equal(other.sample(5, random_state=0)[0], fitted.sample(5, random_state=0)[0])
        transform = fitted._family.transform
        for changed in (
            {"powers": transform.powers + 2.0},
            {"slope": -transform.slope},
            {"points": transform.points * 1e300},
        ):
            fitted._family.transform = transform._replace(**changed)
            with pytest.raises(ValueError, match="transform"):
                check_estimator(fitted)


def test_minibatches_have_the_transform_of_the_first():
    X = skewed_clusters(800)
    mixture = ExponentialFamilyMixture(
        2, emission=Gaussian("diag", transform="auto"), total_samples=800, random_state=0
    )
    powers = mixture.partial_fit(X[:400]).emission_.transform
    transform = mixture._family.transform
    mixture.partial_fit(X[400:])
    assert mixture._family.transform is transform
    np.testing.assert_array_equal(mixture.emission_.transform, powers)
    plain = clone(mixture).set_params(emission=Gaussian("diag")).partial_fit(X[:400]).partial_fit(X[400:])
    assert mixture.score(X) > plain.score(X) + 0.05


def test_tables_transform_numbers_by_default():
    X = pd.DataFrame(skewed_clusters(400), columns=["skewed", "normal"])
    X["group"] = np.where(X["normal"] > 1.5, "high", "low")
    fitted = DPMixture("auto", max_iter=20, random_state=0).fit(X)
    (powers,) = [emission.transform for _, emission, _ in fitted.emission_.blocks if isinstance(emission, Gaussian)]
    assert powers[0] < 0.3
    holed = X.copy()
    holed.loc[:9, "skewed"] = np.nan
    filled = fitted.impute(holed)["skewed"][:10]
    assert ((filled > 0.0) & (filled < X["skewed"].max())).all()
    for drawn in fitted.impute(holed, n_draws=3, random_state=0):
        assert np.isfinite(drawn["skewed"]).all()
    blocks = [("numbers", Gaussian("diag", transform="auto"), [0, 1]), ("groups", Categorical(), [2])]
    finite = ExponentialFamilyMixture(2, emission=Columns(blocks), max_iter=20, random_state=0).fit(X)
    assert finite.emission_.blocks[0][1].transform[0] < 0.3
    assert finite.impute(holed)["skewed"].notna().all()


def test_refusals():
    X = make_X()
    for powers in ([1.0, 0.5], [1.0, 0.5, 2.5], [1.0, -0.1, 1.0]):
        with pytest.raises(ValueError, match="power from 0 to 2 for each of the 3 columns"):
            ExponentialFamilyMixture(2, emission=Gaussian(transform=powers)).fit(X)
    with pytest.raises(ValueError, match="not for word_vectors"):
        Gaussian(transform="auto").bind_tokens(None, 2, X)
    given = Gaussian(mean_prior=np.zeros(3), covariance_prior=1.0, transform=POWERS)
    with pytest.raises(ValueError, match="transform of Gaussian depends on the data"):
        ExponentialFamilyMixture(2, emission=given).sample_prior(5, n_features=3)
