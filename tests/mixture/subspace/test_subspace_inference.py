"""What fitted mixtures of subspaces tell of rows, against the slow and obvious; and their life in scikit-learn."""

import copy

import joblib
import numpy as np
import pandas as pd
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from skmanifold.mixture._subspace.family import add_log_terms
from skmanifold.samplers import ConwayWalk, FrameGibbs

from ._subspaces import DRAWN, each_sampler, in_one_order, is_sound, learned, make, planted, small_fit, small_rows

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


@pytest.mark.covering
@each_sampler
@pytest.mark.parametrize("method", METHODS)
def test_what_is_told_of_a_row_does_not_depend_on_the_others(sampler, method, monkeypatch):
    mixture, X = small_fit(sampler), new_rows(90)
    whole = told_of(mixture, method, X)
    for size in (1, 33, 50):
        parts = [told_of(mixture, method, X[start : start + size]) for start in range(0, len(X), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(told_of(mixture, method, np.asfortranarray(X[order])), whole[order])
    monkeypatch.setattr("skmanifold.mixture._subspace.inference._ROWS", 20)
    monkeypatch.setattr("skmanifold.mixture._scores._ROWS_OF_TASK", 50)
    np.testing.assert_array_equal(told_of(copy.copy(mixture).set_params(n_jobs=2), method, X), whole)


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


@pytest.mark.parametrize(
    "labels", [[0, 1], [0, 1, 3], [0, -1, 1], [0.5, 1.0, 2.0], [[0, 1, 2]], ["a", "b", "c"]], ids=str
)
def test_labels_that_are_none_are_refused(labels):
    mixture = small_fit()
    with pytest.raises(ValueError, match=r"labels must be 3 whole numbers from 0 to 2, one for each row; got "):
        mixture.project(new_rows(3), labels)
    with pytest.raises(ValueError, match=r"labels must be 3 whole numbers from 0 to 2, one for each row; got "):
        mixture.inverse_transform(np.zeros((3, max(mixture.dimensions_))), labels)


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


def test_samples_are_those_of_their_seed():
    mixture = small_fit()
    for left, right in zip(mixture.sample(7, random_state=3), mixture.sample(7, random_state=3), strict=True):
        np.testing.assert_array_equal(left, right)
    assert not np.array_equal(mixture.sample(7, random_state=3)[0], mixture.sample(7, random_state=4)[0])
    X, y = mixture.sample()
    assert (X.shape, y.shape) == ((1, 3), (1,))
    for bad in (0, -1, 1.5):
        with pytest.raises((ValueError, TypeError), match="n_samples"):
            mixture.sample(bad)


# Before a fit, and from elsewhere


def test_an_unfitted_estimator_says_so():
    for method in METHODS:
        with pytest.raises(NotFittedError, match="This SubspaceMixture instance is not fitted yet"):
            getattr(make(), method)(new_rows())
    with pytest.raises(NotFittedError):
        make().inverse_transform(np.zeros((1, 2)), [0])
    with pytest.raises(NotFittedError):
        make().sample()
    assert not hasattr(make(), "posterior_")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("bad", "message"), [(np.ones((2, 4)), "4 features"), (np.full((2, 3), np.nan), "contains NaN")]
)
def test_rows_that_do_not_fit_are_refused(method, bad, message):
    with pytest.raises(ValueError, match=message):
        getattr(small_fit(), method)(bad)


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


# Among scikit-learn's tools


@pytest.mark.long
def test_grid_search_over_samplers_and_their_parameters():
    grid = [
        {"sampler": ["gibbs", ConwayWalk(temperature=0.2)]},
        {"sampler": ["gibbs"], "sampler__n_sweeps": [1, 3]},
        {"sampler__n_pilot": [5], "n_components": [1]},
    ]
    search = GridSearchCV(make(n_components=3), grid, cv=2, error_score="raise").fit(planted().data)
    scores = search.cv_results_["mean_test_score"]
    ran = [type(make().set_params(**params).fit(small_rows()).sampler_) for params in search.cv_results_["params"]]
    assert ran == [FrameGibbs, ConwayWalk, FrameGibbs, FrameGibbs, FrameGibbs]
    assert scores[0] == scores[2]
    assert len(set(scores)) == 4
    assert scores.argmin() == 4
    assert make().set_params(sampler__n_sweeps=3).fit(small_rows()).sampler_.n_sweeps == 3


def test_names_of_columns_come_in_and_out():
    frame = pd.DataFrame(small_rows()).add_prefix("w")
    mixture = make().set_output(transform="pandas").fit(frame)
    np.testing.assert_array_equal(mixture.feature_names_in_, frame.columns)
    assert list(mixture.transform(frame).columns) == [f"subspacemixture{k}" for k in range(3)]
    np.testing.assert_array_equal(mixture.transform(frame), small_fit().transform(small_rows()))
    with pytest.raises(ValueError, match="feature names should match"):
        mixture.predict(frame[frame.columns[::-1]])


class Recorder:
    """Looks at the estimator after each pass; stops the fit, or interrupts it, after the pass of this number."""

    def __init__(self, stop_after=None, interrupt_after=None):
        self.stop_after, self.interrupt_after = stop_after, interrupt_after
        self.scores, self.torn_down = [], 0

    def setup(self, estimator, context):
        assert context.max_subtasks == estimator.max_iter

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context, *, X=None):
        pass

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        np.testing.assert_array_equal(fitted_estimator.labels_, fitted_estimator.predict(X))
        assert fitted_estimator.posterior_.keys() == {"log_likelihood", *DRAWN}
        assert in_one_order(fitted_estimator)
        self.scores.append(fitted_estimator.score(X))
        if context.task_name == "pass" and context.task_id + 1 == self.interrupt_after:
            raise KeyboardInterrupt
        return context.task_name == "pass" and context.task_id + 1 == self.stop_after


@pytest.mark.short_cases("conway")
@each_sampler
def test_callbacks_see_a_fitted_estimator_after_each_pass(sampler):
    recorder, X = Recorder(), planted().data
    mixture = make(sampler, n_chains=2).set_callbacks(recorder).fit(X)
    assert len(recorder.scores) == 11
    assert len(set(recorder.scores)) > 6
    assert recorder.scores[-1] == mixture.score(X)
    assert recorder.torn_down == 1
    assert learned(mixture) == learned(make(sampler, n_chains=2).fit(X))


@pytest.mark.covering
@pytest.mark.parametrize(("stop_after", "n_draws"), [(2, 0), (6, 1), (99, 3)])
@pytest.mark.parametrize("max_draws_bytes", [2**20, 0])
def test_a_callback_can_stop_the_fit_and_leaves_it_whole(stop_after, n_draws, max_draws_bytes):
    recorder = Recorder(stop_after)
    mixture = make(max_draws_bytes=max_draws_bytes).set_callbacks(recorder).fit(planted().data)
    assert mixture.n_iter_ == min(stop_after, 10)
    assert mixture.posterior_["log_likelihood"].shape == (1, n_draws)
    kept = n_draws if max_draws_bytes else int(n_draws == 3)
    assert {mixture.posterior_[name].shape[1] for name in DRAWN} == {kept}
    is_sound(mixture, planted().data)


@pytest.mark.short_cases("gibbs")
@each_sampler
def test_an_interrupted_fit_leaves_no_trace(sampler):
    mixture = make(sampler).set_callbacks(Recorder(interrupt_after=3))
    before = set(vars(mixture))
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(planted().data)
    assert set(vars(mixture)) == before
    mixture.set_callbacks().fit(small_rows())
    expected, attributes = learned(mixture), dict(vars(mixture))
    with pytest.raises(KeyboardInterrupt):
        mixture.set_callbacks(Recorder(interrupt_after=3)).fit(planted().data)
    mixture.set_callbacks()
    assert learned(mixture) == expected == learned(small_fit(sampler))
    assert all(vars(mixture)[name] is attributes[name] for name in attributes)


def test_score_monitors_and_progress_bars_work_on_frames(capsys, sklearn_callback):
    frame = pd.DataFrame(small_rows()).add_prefix("w")
    monitor = sklearn_callback.ScoringMonitor(scoring={"held_in": lambda estimator, X, y: estimator.score(X, y)})
    mixture = make().set_callbacks(monitor, sklearn_callback.ProgressBar()).fit(frame)
    passes = [row["held_in"] for row in monitor.get_logs().data if row["task_name"] == "pass"]
    assert len(passes) == 10
    assert np.isfinite(passes).all()
    assert passes[-1] == mixture.score(frame)
    assert "SubspaceMixture - fit" in capsys.readouterr().out
