"""SubspaceClassifier: whitened rows, the temperature, and leave-one-out densities."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

from skmanifold import SubspaceClassifier, SubspaceMixture, load
from skmanifold.datasets import make_subspaces
from skmanifold.mixture._subspace.classifier import _calibrated, _leave_one_out

from .test_subspace_missing import with_holes


def heavy_tails(n, seed):
    """Two classes of rows with t distributions, whose Gaussian densities are overconfident."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_t(3.0, size=(n, 20)) * rng.gamma(1.0, 1.0, (n, 1))
    return X + 0.3 * y[:, None], y


def correlated(n, seed):
    """Classes with a common covariance and different means."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    factors = np.random.default_rng(9).normal(size=(6, 6))
    return rng.normal(size=(n, 6)) @ factors + np.random.default_rng(8).normal(size=(3, 6))[y], y


# The temperature


def test_the_temperature_corrects_overconfidence():
    (X, y), (new, of_new) = heavy_tails(200, 0), heavy_tails(2000, 1)
    fitted = SubspaceClassifier(random_state=0).fit(X, y)
    assert fitted.temperature_ > 1.5
    plain = deepcopy(fitted)
    plain.temperature_ = 1.0
    gain = np.subtract(*(-each.predict_log_proba(new)[np.arange(2000), of_new] for each in (plain, fitted)))
    assert gain.mean() > 5.0 * gain.std() / np.sqrt(2000)
    np.testing.assert_array_equal(plain.predict(new) == fitted.predict(new), True)  # classes are equally frequent


def test_densities_of_the_right_model_need_no_temperature():
    truth = make_subspaces((600, 600), 4, (1, 2), noise_precision=4.0, random_state=0)
    fitted = SubspaceClassifier(shrinkage=None, random_state=0).fit(truth.data, truth.labels)
    assert 1.0 <= fitted.temperature_ < 1.1


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_the_chosen_temperature_has_the_smallest_loss(scale):
    rng = np.random.default_rng(0)
    of_row, log_prior = rng.integers(3, size=100), np.log([0.2, 0.3, 0.5])
    logs = scale * (rng.normal(size=(100, 3)) + np.eye(3)[of_row])

    def loss(temperature):
        joint = log_prior + logs / temperature
        return log_loss(of_row, np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)), normalize=False)

    temperature, least = _calibrated(log_prior, logs, of_row, "auto")
    assert 1.0 <= temperature <= 1000.0
    assert least == pytest.approx(loss(temperature))
    assert least <= min(map(loss, np.geomspace(1.0, 1000.0, 200))) + 1e-6
    assert _calibrated(log_prior, logs, of_row, 2.0) == (2.0, pytest.approx(loss(2.0)))


def test_leave_one_out_densities_are_those_of_other_fits():
    """One fit for each left-out row; the estimate has a fifth of the bias of the density of the fitted row."""
    X = make_subspaces((40,), 4, (2,), noise_precision=4.0, random_state=3).data
    mixture = SubspaceMixture(1, max_iter=300, noise_prior=(2.0, 1.0), random_state=0, n_predictive_draws=150)
    fitted = clone(mixture).fit(X)
    others = [clone(mixture).fit(np.delete(X, i, axis=0)).score_samples(X[i : i + 1])[0] for i in range(len(X))]
    estimate = _leave_one_out([fitted], X, np.zeros(len(X), int))[:, 0]
    optimism = np.mean(fitted.score_samples(X) - others)
    assert optimism > 0.2
    assert abs(np.mean(estimate - others)) < 0.2 * optimism


# Whitened rows


def test_shrinkage_is_chosen_by_the_rows():
    assert SubspaceClassifier(random_state=0).fit(*correlated(300, 0)).whitening_.shape == (6, 6)
    truth = make_subspaces((300, 300), 6, (1, 3), noise_precision=20.0, random_state=0)
    fitted = SubspaceClassifier(random_state=0).fit(truth.data, truth.labels)
    assert fitted.whitening_.shape == (6,)
    assert [mixture.dimensions_[0] for mixture in fitted.mixtures_] == [1, 3]


@pytest.mark.parametrize(("shrinkage", "share"), [(0.0, 0.0), (0.3, 0.3)])
def test_rows_are_whitened_by_the_shrunk_covariance_within_classes(shrinkage, share):
    X, y = correlated(300, 0)
    fitted = SubspaceClassifier(shrinkage=shrinkage, random_state=0).fit(X, y)
    gaps = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
    pooled = gaps.T @ gaps / len(gaps)
    shrunk = (1.0 - share) * pooled + share * np.trace(pooled) / 6 * np.eye(6)
    np.testing.assert_allclose(fitted.whitening_ @ shrunk @ fitted.whitening_, np.eye(6), atol=1e-9)
    np.testing.assert_allclose(fitted.whitening_, fitted.whitening_.T)


def test_linear_maps_of_the_columns_change_nothing():
    (X, y), (new, _) = correlated(400, 0), correlated(200, 1)
    A = np.random.default_rng(2).normal(size=(6, 6)) + 2.0 * np.eye(6)
    found = {}
    for shrinkage in (0.0, 1.0):
        maps = [SubspaceClassifier(shrinkage=shrinkage, random_state=0).fit(X @ by, y) for by in (np.eye(6), A)]
        found[shrinkage] = maps[0].predict_proba(new) - maps[1].predict_proba(new @ A)
    assert np.abs(found[0.0]).mean() < 0.01
    assert np.abs(found[1.0]).mean() > 0.02


# Missing cells


@pytest.mark.parametrize("n_components", [1, 2])
def test_missing_cells_of_whitened_rows_have_exact_densities(n_components):
    """With a matrix that only scales, densities by matrices are those of the kernels for missing cells."""
    X, y = correlated(200, 0)
    mixture = SubspaceMixture(n_components, max_iter=10, n_init=1)
    scaled = SubspaceClassifier(mixture, shrinkage=1.0, random_state=0).fit(X, y)
    by_matrix = deepcopy(scaled)
    by_matrix.whitening_ = np.diag(scaled.whitening_)
    new = with_holes(X[:60], 0.4)
    new[0] = np.nan
    np.testing.assert_allclose(by_matrix.predict_log_proba(new), scaled.predict_log_proba(new), rtol=1e-8, atol=1e-10)
    complete = ~np.isnan(new).any(axis=1)
    np.testing.assert_array_equal(by_matrix.predict_proba(new)[complete], by_matrix.predict_proba(new[complete]))


def test_missing_cells_in_all_places():
    (X, y), (new, of_new) = correlated(400, 0), correlated(1000, 1)
    complete = SubspaceClassifier(random_state=0).fit(X, y)
    assert complete.whitening_.ndim == 2
    incomplete = SubspaceClassifier(random_state=0).fit(with_holes(X, 0.1), y)
    assert incomplete.whitening_.shape == (6,)
    holes = with_holes(new, 0.2, seed=3)
    losses = [log_loss(of_new, each.predict_proba(rows)) for each in (complete, incomplete) for rows in (new, holes)]
    assert losses[0] < losses[1] < 0.9 * np.log(3)
    assert losses[2] < losses[3] < 0.9 * np.log(3)


# Rows without variation


@pytest.mark.parametrize("shrinkage", ["auto", "ledoit_wolf", 0.0, 1.0])
def test_rows_without_variation(shrinkage):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 2
    X[:, 1], X[:, 2] = 1e9, y
    for rows, classes in (
        (X, y),
        (X[:2], y[:2]),
        (np.ones((6, 4)), y[:6]),
        (1e80 * X, y),
        (rng.normal(size=(9, 40)), y[:9]),
    ):
        fitted = SubspaceClassifier(shrinkage=shrinkage, random_state=0).fit(rows, classes)
        assert np.isfinite(fitted.predict_proba(rows)).all()
    assert SubspaceClassifier(shrinkage=shrinkage, random_state=0).fit(X, y).score(X, y) > 0.9


# Files, threads


def test_threads_change_no_byte():
    X, y = correlated(200, 0)
    new = with_holes(X, 0.1)
    one, two = (
        SubspaceClassifier(SubspaceMixture(1, max_iter=10, n_jobs=n_jobs), random_state=0).fit(X, y)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(new), two.predict_proba(new))


@pytest.mark.parametrize("shrinkage", ["ledoit_wolf", 1.0])
def test_whitening_and_temperature_are_saved(shrinkage, tmp_path):
    X, y = correlated(60, 0)
    fitted = SubspaceClassifier(shrinkage=shrinkage, random_state=0).fit(X, y)
    fitted.save(tmp_path / "classifier")
    for loaded in (load(tmp_path / "classifier"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
