import copy
import pickle

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy.stats import chi2, expon, kstest, multivariate_normal, norm

from skmanifold.datasets import make_subspaces

ARRAYS = ("data", "labels", "weights", "offsets", "centres")


def covariance(mixture, component):
    basis = mixture.bases[component]
    across = np.eye(basis.shape[1]) - basis.T @ basis
    return basis.T @ np.diag(1 / mixture.precisions[component]) @ basis + mixture.noise_variance * across


def all_equal(first, other, keys=ARRAYS):
    lists = zip(first.bases + first.precisions, other.bases + other.precisions, strict=True)
    return all(np.array_equal(first[key], other[key]) for key in keys) and all(np.array_equal(*pair) for pair in lists)


def test_shapes_and_orthonormal_bases_with_offsets_across_them():
    mixture = make_subspaces(40, 6, (0, 2, 6, 3), noise_precision=4.0, random_state=0)
    assert mixture.data.shape == (40, 6)
    assert mixture.data.flags.c_contiguous
    assert mixture.labels.shape == (40,)
    assert mixture.labels.dtype == np.int64
    assert set(mixture.labels) <= {0, 1, 2, 3}
    assert mixture.offsets.shape == mixture.centres.shape == (4, 6)
    assert mixture.noise_variance == 0.25
    np.testing.assert_array_equal(mixture.weights, np.full(4, 0.25))
    assert [precisions.shape for precisions in mixture.precisions] == [(0,), (2,), (6,), (3,)]
    for d, basis, offset, centre in zip((0, 2, 6, 3), mixture.bases, mixture.offsets, mixture.centres, strict=True):
        assert basis.shape == (d, 6)
        np.testing.assert_allclose(basis @ basis.T, np.eye(d), atol=1e-14)
        np.testing.assert_allclose(basis @ offset, 0, atol=1e-14)
        np.testing.assert_allclose(centre - basis.T @ basis @ centre, offset, atol=1e-14)
    np.testing.assert_allclose(mixture.offsets[2], 0, atol=1e-14)  # nothing is across the whole space
    np.testing.assert_array_equal(mixture.centres[0], mixture.offsets[0])


@pytest.mark.extended
def test_bases_offsets_and_centres_have_their_laws():
    m, dimensions = 5, (2,) * 3000
    mixture = make_subspaces(1, m, dimensions, random_state=1)
    bases = np.stack(mixture.bases)
    # Haar: moments up to the fourth, signs included, and no direction before another
    assert_agrees(summarize(bases), 0.0)
    assert_agrees(summarize(bases[:, :, :, np.newaxis] * bases[:, :, np.newaxis]), np.eye(m) / m)
    assert_agrees(summarize(bases**4), 3 / (m * (m + 2)))
    along = np.einsum("kdm,km->kd", bases, mixture.centres)
    assert kstest(along.ravel(), norm.cdf).pvalue > 1e-3
    assert kstest(np.sum(mixture.offsets**2, axis=1), chi2(m - 2).cdf).pvalue > 1e-3
    assert kstest(np.sum(mixture.centres**2, axis=1), chi2(m).cdf).pvalue > 1e-3
    assert kstest(np.sum(mixture.centres**2, axis=1), chi2(m - 2).cdf).pvalue < 1e-3
    assert_agrees(summarize(mixture.offsets), 0.0)
    products = mixture.offsets[:, :, np.newaxis] * mixture.offsets[:, np.newaxis]
    assert_agrees(summarize(products), (1 - 2 / m) * np.eye(m))


@pytest.mark.extended
@pytest.mark.every(3)
@pytest.mark.parametrize("noise_precision", [0.2, 1.0, 10.0])
def test_precisions_are_exponential_below_that_of_the_noise(noise_precision):
    mixture = make_subspaces(1, 3, (1,) * 3000, noise_precision=noise_precision, random_state=2)
    precisions = np.concatenate(mixture.precisions)
    assert precisions.min() > 0
    assert precisions.max() < noise_precision
    assert kstest(precisions, lambda J: expon.cdf(J) / expon.cdf(noise_precision)).pvalue > 1e-3
    # other readings of the prior: a variance instead of a precision, or no limit
    assert kstest(1 / precisions, lambda J: expon.cdf(J) / expon.cdf(noise_precision)).pvalue < 1e-3
    if noise_precision < 5:
        assert kstest(precisions, expon.cdf).pvalue < 1e-3


@pytest.mark.parametrize("dimensions", [(1, 2), (0, 3), (2, 2)])
def test_rows_are_normal_along_and_across_their_subspaces(dimensions):
    mixture = make_subspaces([20_000, 10_000], 3, dimensions, noise_precision=2.0, random_state=3)
    for component, d in enumerate(dimensions):
        rows = mixture.data[mixture.labels == component]
        inverse_root = np.linalg.inv(np.linalg.cholesky(covariance(mixture, component)))
        white = (rows - mixture.centres[component]) @ inverse_root.T
        assert_agrees(summarize(white), 0.0)
        assert_agrees(summarize(white[:, :, np.newaxis] * white[:, np.newaxis]), np.eye(3))
        assert kstest(np.sum(white**2, axis=1), chi2(3).cdf).pvalue > 1e-3
        if 0 < d < 3:  # the noise is of the complement alone, not added to what lies along the subspace too
            scores = (rows - mixture.centres[component]) @ mixture.bases[component].T
            variances = 1 / mixture.precisions[component]
            assert_agrees(summarize(scores**2), variances)
            if variances.max() < 4:
                assert_disagrees(summarize(scores**2), variances + mixture.noise_variance)


def test_log_densities_are_those_of_the_normal_laws_with_their_weights():
    mixture = make_subspaces(50, 4, (0, 1, 4, 2), weights=[3, 1, 2, 0], noise_precision=0.7, random_state=4)
    X = np.random.default_rng(0).normal(size=(30, 4)) * 3
    found = mixture.log_densities(X)
    assert found.shape == (30, 4)
    for component, weight in enumerate([3 / 6, 1 / 6, 2 / 6]):
        law = multivariate_normal(mixture.centres[component], covariance(mixture, component))
        np.testing.assert_allclose(found[:, component], np.log(weight) + law.logpdf(X), rtol=1e-11)
    np.testing.assert_array_equal(found[:, 3], -np.inf)


def test_log_densities_keep_their_digits_far_from_the_origin_of_flat_clouds():
    mixture = make_subspaces(50, 200, (3,), noise_precision=1e12, random_state=5)
    rows = mixture.centres[0] + 1e6 * mixture.bases[0]
    expected = (
        np.log(mixture.precisions[0]).sum() / 2 - 1e12 * mixture.precisions[0] / 2 + 197 / 2 * np.log(1e12)
    ) - 100 * np.log(2 * np.pi)
    np.testing.assert_allclose(mixture.log_densities(rows)[:, 0], expected, rtol=1e-6)


def test_rows_are_the_same_in_another_order_without_shuffling():
    for n_samples in (100, [60, 40]):
        ordered, mixed = (make_subspaces(n_samples, shuffle=shuffle, random_state=7) for shuffle in (False, True))
        assert np.all(np.diff(ordered.labels) >= 0)
        assert np.any(np.diff(mixed.labels) < 0)
        assert all_equal(ordered, mixed, keys=("weights", "offsets", "centres"))
        for component in (0, 1):
            rows = (mixture.data[mixture.labels == component] for mixture in (ordered, mixed))
            np.testing.assert_array_equal(*(chosen[np.lexsort(chosen.T)] for chosen in rows))


def test_numbers_of_rows_are_kept_exactly_and_are_the_weights():
    mixture = make_subspaces([10, 20, 50], 4, (1, 0, 2), random_state=8)
    np.testing.assert_array_equal(np.bincount(mixture.labels), [10, 20, 50])
    np.testing.assert_allclose(mixture.weights, [1 / 8, 2 / 8, 5 / 8], rtol=1e-15)
    labels = make_subspaces(80, 4, (1, 0, 2), weights=[1, 2, 5], random_state=8).labels
    assert list(np.bincount(labels)) != [10, 20, 50]  # left to chance
    assert_agrees(summarize(make_subspaces(20_000, weights=[1, 3], random_state=6).labels == 1), 0.75)


def test_components_depend_neither_on_numbers_of_rows_nor_on_later_components():
    small, large = make_subspaces(10, random_state=9), make_subspaces([500, 300], random_state=9)
    assert all_equal(small, large, keys=("offsets", "centres"))
    more = make_subspaces([500, 300, 7], dimensions=(1, 2, 2), shuffle=False, random_state=9)
    np.testing.assert_array_equal(more.data[:800], make_subspaces([500, 300], shuffle=False, random_state=9).data)


def test_copies_and_pickles_answer_alike():
    mixture = make_subspaces(20, random_state=0)
    for twin in (copy.deepcopy(mixture), pickle.loads(pickle.dumps(mixture))):
        assert type(twin) is type(mixture)
        assert all_equal(twin, mixture)
        np.testing.assert_array_equal(twin.log_densities(twin.data), mixture.log_densities(mixture.data))


def test_rows_of_another_width_have_no_density():
    mixture = make_subspaces(5, random_state=0)
    with pytest.raises(ValueError, match=r"^X has 2 features, but the subspaces have 3\.$"):
        mixture.log_densities(np.ones((4, 2)))
