"""What fitted mixtures of subspaces tell of rows, against the slow and obvious; and their life in scikit-learn."""

import joblib
import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skmanifold.mixture._subspace.family import add_log_terms

from ._subspaces import DRAWN, each_sampler, make, planted, small_fit, small_rows

METHODS = ("predict", "predict_proba", "score_samples", "transform", "project")


def new_rows(n=200):
    """As those that were fitted, and some far away."""
    rows = planted((0, 2, 1), 3).data[64 : 64 + n].copy()
    rows[::10] *= 30.0
    return rows


def told_of(mixture, method, X):
    told = getattr(mixture, method)(X)
    return np.column_stack(told) if method == "project" else told


def laws(mixture):
    """Weight, centre and covariance of each component in each draw of the best chain, from ``posterior_``."""
    found = {name: mixture.posterior_[name][mixture.best_chain_] for name in DRAWN}
    for i, dims in enumerate(found["dimensions"]):
        of_draw = []
        for k, d in enumerate(dims):
            U, noise = found["bases"][i, k, :d], found["noise_variance"][i, k]
            covariance = noise * np.eye(U.shape[1]) + U.T @ np.diag(found["variances"][i, k, :d] - noise) @ U
            of_draw.append((found["weights"][i, k], found["means"][i, k], covariance))
        yield of_draw


def slow_log_joint(mixture, X):
    """Log of weight times density of each component, averaged over draws."""
    terms = [
        [np.log(weight) + multivariate_normal(mean, covariance).logpdf(X) for weight, mean, covariance in of_draw]
        for of_draw in laws(mixture)
    ]
    return logsumexp(terms, axis=0).T - np.log(len(terms))


# Densities and components


@pytest.mark.extended
@each_sampler
def test_densities_and_probabilities_are_those_of_the_mean_of_the_drawn_mixtures(sampler):
    mixture, X = small_fit(sampler), new_rows()
    joint = slow_log_joint(mixture, X)
    np.testing.assert_allclose(mixture.score_samples(X), logsumexp(joint, axis=1), rtol=1e-9)
    expected = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    np.testing.assert_allclose(mixture.predict_proba(X), expected, atol=1e-9)
    np.testing.assert_allclose(mixture.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(mixture.predict(X), mixture.predict_proba(X).argmax(axis=1))
    assert len(np.unique(mixture.predict(X))) == 3
    assert mixture.score(X) == pytest.approx(logsumexp(joint, axis=1).mean(), rel=1e-9)
    np.testing.assert_array_equal(mixture.labels_, mixture.predict(small_rows()))
    np.testing.assert_array_equal(make(sampler).fit_predict(small_rows()), mixture.labels_)


def test_predictions_are_those_of_the_best_chain():
    fits = (make(n_chains=2, random_state=seed).fit(small_rows()) for seed in range(20))
    mixture = next(fit for fit in fits if fit.best_chain_ == 1)
    expected = logsumexp(slow_log_joint(mixture, new_rows()), axis=1)
    np.testing.assert_allclose(mixture.score_samples(new_rows()), expected, rtol=1e-9)


def test_rows_far_away_have_probabilities():
    far = np.outer([1e6, 1e9, 1e12, 1e90], [1.0, -2.0, 0.5])
    np.testing.assert_allclose(small_fit().predict_proba(far).sum(axis=1), 1.0)
    scores = small_fit().score_samples(far)
    assert np.all(np.isfinite(scores) & (np.diff(scores, prepend=0.0) < 0))
    assert np.isfinite(small_fit().transform(far)).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [1e155, -1e200, 1.7e308])
def test_rows_whose_squares_overflow_are_refused(method, value):
    rows = new_rows(5)
    rows[3, 1] = value
    with pytest.raises(ValueError, match=r"X has values beyond 1e\+100, whose squares are too large: scale"):
        getattr(small_fit(), method)(rows)


def test_predictions_average_over_as_many_draws_as_were_asked_for():
    X = new_rows()
    params = {"max_iter": 16, "burn_in": 6, "thin": 1}
    of_all = make(**params, n_predictive_draws=10).fit(small_rows())
    some = make(**params, n_predictive_draws=2).fit(small_rows())
    drawn = list(laws(of_all))
    joint = [
        [np.log(weight) + multivariate_normal(mean, covariance).logpdf(X) for weight, mean, covariance in of_draw]
        for of_draw in (drawn[4], drawn[9])
    ]
    np.testing.assert_allclose(some.score_samples(X), logsumexp(joint, axis=(0, 1)) - np.log(2), rtol=1e-9)
    assert not np.allclose(some.score_samples(X), of_all.score_samples(X), rtol=1e-3)


# Distances and coordinates


@each_sampler
def test_transform_gives_the_distances_to_the_flats(sampler):
    mixture, X = small_fit(sampler), new_rows()
    expected = []
    for basis, mean in zip(mixture.bases_, mixture.means_, strict=True):
        coordinates = np.linalg.lstsq(basis.T, (X - mean).T, rcond=None)[0]
        expected.append(np.linalg.norm(X - mean - coordinates.T @ basis, axis=1))
    np.testing.assert_allclose(mixture.transform(X), np.transpose(expected), rtol=1e-9, atol=1e-12)
    on_flats = mixture.inverse_transform(np.zeros((3, max(mixture.dimensions_))), [0, 1, 2])
    np.testing.assert_allclose(np.diag(mixture.transform(on_flats)), 0.0, atol=1e-15)


def test_projections_are_the_nearest_points_of_their_flats():
    mixture, X = small_fit(), new_rows()
    coordinates, labels = mixture.project(X)
    np.testing.assert_array_equal(labels, mixture.predict(X))
    np.testing.assert_array_equal(np.isfinite(coordinates).sum(axis=1), mixture.dimensions_[labels])
    nearest = mixture.inverse_transform(coordinates, labels)
    distances = np.linalg.norm(X - nearest, axis=1)
    np.testing.assert_allclose(distances, mixture.transform(X)[np.arange(len(X)), labels], rtol=1e-9, atol=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(20):
        others = mixture.inverse_transform(coordinates + 0.1 * rng.standard_normal(coordinates.shape), labels)
        assert np.all(np.linalg.norm(X - others, axis=1) >= distances)
    again = mixture.project(nearest, labels).coordinates
    np.testing.assert_allclose(again, coordinates, rtol=1e-9, atol=1e-12)


def test_labels_may_be_given():
    mixture, X = small_fit(), new_rows()
    for k, d in enumerate(mixture.dimensions_):
        coordinates, labels = mixture.project(X, np.full(len(X), k))
        assert np.all(labels == k)
        np.testing.assert_allclose(coordinates[:, :d], (X - mixture.means_[k]) @ mixture.bases_[k].T, atol=1e-12)
        assert np.isnan(coordinates[:, d:]).all()


def test_flats_of_dimension_zero_have_no_coordinates():
    mixture, X = make(dimensions=0).fit(small_rows()), new_rows()
    coordinates, labels = mixture.project(X)
    assert coordinates.shape == (len(X), 0)
    np.testing.assert_array_equal(mixture.inverse_transform(coordinates, labels), mixture.means_[labels])


def test_labels_that_are_none_are_refused():
    mixture = small_fit()
    coordinates = np.zeros((3, max(mixture.dimensions_)))
    for method, X in ((mixture.project, new_rows(3)), (mixture.inverse_transform, coordinates)):
        with pytest.raises(ValueError, match=r"labels must be 3 whole numbers from 0 to 2, one for each row; got "):
            method(X, [0, 1, 3])


def test_coordinates_that_are_none_are_refused():
    mixture = small_fit()
    largest = max(mixture.dimensions_)
    with pytest.raises(
        ValueError, match=f"X must have {largest} columns, the largest of dimensions_; got {largest + 1}"
    ):
        mixture.inverse_transform(np.zeros((3, largest + 1)), [0, 1, 2])
    k = mixture.dimensions_.argmax()
    with pytest.raises(ValueError, match=f"Rows of component {k} need {largest} finite coordinates"):
        mixture.inverse_transform(np.full((1, largest), np.nan), [k])
    with pytest.raises(ValueError, match="Expected 2D array"):
        mixture.inverse_transform(np.zeros(largest), [0])


# New rows


@each_sampler
def test_samples_have_the_moments_of_the_predictive_law(sampler):
    mixture = small_fit(sampler)
    X, y = mixture.sample(40_000, random_state=0)
    weights, means, covariances = (
        np.array([[component[i] for component in of_draw] for of_draw in laws(mixture)]) for i in range(3)
    )
    assert_agrees(summarize(y[:, None] == np.arange(3)), weights.mean(axis=0))
    shares = weights / weights.sum(axis=0)
    squares = covariances + means[..., None] * means[..., None, :]
    for k in range(3):
        rows = X[y == k]
        assert_agrees(summarize(rows), shares[:, k] @ means[:, k])
        products = summarize(rows[:, :, None] * rows[:, None, :])
        assert_agrees(products, np.einsum("t,tab->ab", shares[:, k], squares[:, k]))
        round_ones = squares[:, k] - covariances[:, k] + mixture.noise_variance_[k] * np.eye(3)
        if mixture.dimensions_[k] > 0:
            assert_disagrees(products, np.einsum("t,tab->ab", shares[:, k], round_ones))
    assert_disagrees(summarize(X[y == 0]), shares[:, 1] @ means[:, 1])


# Before a fit, and from elsewhere


def test_a_fit_in_a_memory_map_needs_no_other_machine_code(tmp_path):
    mixture, X = small_fit(), new_rows()
    expected = [told_of(mixture, method, X) for method in METHODS]
    compiled = len(getattr(add_log_terms, "signatures", ()))
    joblib.dump((mixture, X), tmp_path / "fit")
    mapped, rows = joblib.load(tmp_path / "fit", mmap_mode="r")
    assert not rows.flags.writeable
    for method, told in zip(METHODS, expected, strict=True):
        np.testing.assert_array_equal(told_of(mapped, method, rows), told)
    assert len(getattr(add_log_terms, "signatures", ())) == compiled
