"""K-flats and spectral partitions: planted flats are found, dimensions chosen, the loss is the stated one."""

import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from skmanifold.mixture._subspace import starts as initial_partitions
from skmanifold.mixture._subspace.starts import (
    KFlats,
    choose_dimensions_and_noise,
    coordinates,
    spectral_labels,
    spectral_partitions,
)

KEY = np.uint64(7)


def planted(dimensions, n_features, noise, offset, n_each=60, seed=0):
    """Rows spread normally on random flats, and the flats' numbers."""
    rng = np.random.default_rng(seed)
    parts = []
    for d in dimensions:
        axes = np.linalg.qr(rng.standard_normal((n_features, d)))[0]
        parts.append(rng.standard_normal((n_each, d)) @ axes.T + offset * rng.standard_normal(n_features))
    X = np.vstack(parts)
    return X + noise * rng.standard_normal(X.shape), np.repeat(np.arange(len(dimensions)), n_each)


def k_flats(X, n_components, dimensions, n_tries=20):
    flats = KFlats(X, n_components, dimensions)
    return flats.best(flats.seeds(KEY, n_tries))


# What is found


@pytest.mark.covering
@pytest.mark.parametrize("n_features", [3, 5])
@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_clean_line_and_two_planes_are_recovered(n_features, offset, seed):
    X, flat = planted([1, 2, 2], n_features, 0.0, offset, seed=seed)
    given, _ = k_flats(X, 3, [2, 1, 2], n_tries=40)  # which rows begin the line is luck
    for labels in (k_flats(X, 3, None)[0], given, spectral_labels(X, 3, KEY)):
        assert adjusted_rand_score(flat, labels) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_plane_does_not_swallow_a_line_that_crosses_it(seed):
    X, flat = planted([1, 2], 3, 0.1, 0.0, n_each=300, seed=seed)
    labels, _ = k_flats(X, 2, None)
    line = labels[flat == 0]
    lost = min(np.mean(line == 0), np.mean(line == 1))
    gaps = []
    for k, d in ((0, 1), (1, 2)):
        axes = np.linalg.svd(X[flat == k])[2][:d]
        gaps.append(np.sum(np.square(X - X @ axes.T @ axes), axis=1))
    lost_by_distance = np.mean(gaps[1][flat == 0] < gaps[0][flat == 0])
    assert lost < 0.6 * lost_by_distance


@pytest.mark.extended
def test_many_flats_that_random_rows_miss_are_found_by_spectra():
    X, flat = planted([5] * 6, 40, 0.1, 0.0, n_each=40, seed=2)
    assert adjusted_rand_score(flat, spectral_labels(X, 6, KEY)) > 0.98
    assert adjusted_rand_score(flat, k_flats(X, 6, None)[0]) < 0.9


def test_flats_that_span_no_more_than_one_of_them_are_missed_by_spectra_alone():
    X, flat = planted([1, 2, 2], 3, 0.0, 0.0)
    assert adjusted_rand_score(flat, spectral_labels(X, 3, KEY)) == 1.0
    assert max(adjusted_rand_score(flat, labels) for labels in spectral_partitions(coordinates(X), 3, KEY)) < 0.9


def test_spectra_tell_affine_flats_apart_whose_directions_are_the_same():
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    flat = np.repeat(np.arange(3), 40)
    X = rng.standard_normal((120, 2)) @ axes.T + 3.0 * np.eye(6)[flat]
    assert max(adjusted_rand_score(flat, labels) for labels in spectral_partitions(coordinates(X), 3, KEY)) == 1.0


def test_of_many_rows_some_are_clustered_and_the_others_join(monkeypatch):
    X, flat = planted([1, 2, 3], 8, 0.05, 1.0, n_each=200)
    monkeypatch.setattr(initial_partitions, "_MAX_SPECTRAL_ROWS", 100)
    assert adjusted_rand_score(flat, spectral_labels(X, 3, KEY)) == 1.0


# The loss and the dimensions


def test_loss_is_that_of_normal_laws_with_shared_noise_and_a_price_for_parameters():
    X, flat = planted([1, 2], 4, 0.3, 1.0, n_each=40)
    rows, d = coordinates(X), [1, 2]
    _, loss = KFlats(X, 2, d).refine(flat, 0)
    n, width = rows.shape
    fits = [np.linalg.eigh(np.cov(rows[flat == k].T, bias=True)) for k in (0, 1)]
    noise = sum(np.mean(flat == k) * fits[k][0][: width - d[k]].sum() for k in (0, 1)) / (width - 1.5)
    expected = 0.0
    for k, (values, vectors) in enumerate(fits):
        spread = np.where(np.arange(width) < width - d[k], noise, values)
        law = multivariate_normal(rows[flat == k].mean(0), vectors * spread @ vectors.T)
        expected -= np.sum(law.logpdf(rows[flat == k]) + math.log(np.mean(flat == k)))
        # Mean, variances, and the flat's place on the Grassmannian with a basis of it: Stiefel.
        expected += 0.5 * math.log(n) * (width + d[k] + d[k] * width - d[k] * (d[k] + 1) / 2)
    assert loss == pytest.approx((expected - 0.5 * n * width * math.log(2 * math.pi)) / n, rel=1e-10)


def test_loss_never_rises_from_one_iteration_to_the_next():
    X, _ = planted([1, 2, 3], 6, 0.3, 0.5)
    for dimensions in (None, 2, [1, 2, 3]):
        flats = KFlats(X, 3, dimensions)
        losses = [flats.refine(np.arange(len(X)) % 3, n_iter)[1] for n_iter in range(12)]
        assert np.all(np.diff(losses) <= 1e-12)
        assert losses[-1] < losses[0] - 0.1


def test_chosen_dimensions_are_the_best_of_all():
    rng = np.random.default_rng(0)
    found = np.zeros(2, np.int64)
    n_best = 0
    for _ in range(20):
        spectra = np.sort(rng.gamma(0.5, size=(2, 5)))[:, ::-1].copy()
        sizes = np.array([30.0, 50.0])
        _, loss = choose_dimensions_and_noise(sizes, spectra, 4, math.log(80), found)
        losses = []
        for d in np.ndindex(5, 5):
            left = sum(sizes[k] * spectra[k, d[k] :].sum() for k in (0, 1))
            noise = left / sum(sizes[k] * (5 - d[k]) for k in (0, 1))
            total = 0.0
            for k in (0, 1):
                variances = np.where(np.arange(5) < d[k], np.maximum(spectra[k], noise), noise)
                total += 0.5 * sizes[k] * np.sum(np.log(variances) + spectra[k] / variances)
                total += 0.5 * math.log(80) * (5 + 5 * d[k] - d[k] * (d[k] - 1) / 2)
            losses.append(total)
        assert loss > min(losses) - 1e-9
        n_best += loss < min(losses) + 1e-9
    assert n_best >= 18  # fixed points of two steps in turn need not be the best


def test_result_does_not_change_with_units_place_rotation_or_constant_columns():
    X, _ = planted([1, 2], 4, 0.1, 1.0)
    labels, loss = k_flats(X, 2, None)
    assert min(np.bincount(labels)) > 10
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    for other in (1e-160 * X, 1e100 * X, X + 100.0, X @ turned, np.column_stack([X, np.full((len(X), 3), 2.5)])):
        other_labels, other_loss = k_flats(other, 2, None)
        np.testing.assert_array_equal(other_labels, labels)
        assert other_loss == pytest.approx(loss, rel=1e-9)


def test_an_empty_flat_is_given_rows_that_are_badly_explained():
    X, flat = planted([1, 1, 1], 5, 0.01, 3.0)
    merged = np.where(flat == 2, 1, flat)
    labels, _ = KFlats(X, 3, 1).refine(merged, 50)
    assert adjusted_rand_score(flat, labels) == 1.0


# Beginnings


def test_tries_differ_and_the_least_loss_is_kept():
    X, _ = planted([2, 2, 2, 2], 4, 0.1, 0.3)
    flats = KFlats(X, 4)
    losses = [flats.refine(flats.seed(KEY, n_try), 50)[1] for n_try in range(8)]
    assert len(np.unique(np.round(losses, 9))) > 1
    assert k_flats(X, 4, None, n_tries=8)[1] == pytest.approx(min(losses), abs=1e-8)


def test_dimensions_stay_within_their_limit():
    X, flat = planted([3, 3], 6, 0.05, 1.0)
    free, limited = KFlats(X, 2), KFlats(X, 2, max_dimension=1)
    assert limited.refine(flat, 0)[1] > free.refine(flat, 0)[1] + 0.1
    assert limited.refine(flat, 0)[1] == pytest.approx(KFlats(X, 2, 1).refine(flat, 0)[1])
