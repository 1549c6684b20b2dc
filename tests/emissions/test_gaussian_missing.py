"""Gaussian rows with missing cells: densities, draws, expectations and priors, compared with scipy and numpy."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize
from scipy import stats

from skmanifold.emissions import DenseRows, Gaussian, IncompleteRows
from skmanifold.emissions._dense_rows import fill_patterns
from skmanifold.random._keys import fold_in_each
from skmanifold.utils._threads import Workers

from ._cases import KEY, read

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
KINDS = ("full", "tied", "diag", "spherical")
MATRICES = pytest.mark.parametrize("kind", ["full", "tied"])


def make_X(n=60, d=4, share=0.3, seed=0):
    """Correlated rows; the first is complete, the second has no observed cell."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 5.0
    X[rng.random((n, d)) < share] = np.nan
    X[0], X[1] = np.arange(d) + 4.0, np.nan
    return X


def fitted(kind, K=3, **options):
    X = make_X(**options)
    rows = read(Gaussian(kind), X)
    family = Gaussian(kind).bind(rows, K)
    shares = np.random.default_rng(1).dirichlet(np.ones(K), len(X))
    return X, rows, family, family.mode(family.sum_shares(rows, 0, len(X), 0, shares).total()), shares


def covariance(kind, parameters, k):
    if kind == "tied":
        return parameters.covariances[0]
    return parameters.covariances[k] if kind == "full" else np.diag(parameters.covariances[k])


def conditional(row, mean, matrix):
    """The missing cells of a row, their means and their covariance given the observed cells."""
    missing = np.isnan(row)
    slope = matrix[np.ix_(missing, ~missing)] @ np.linalg.inv(matrix[np.ix_(~missing, ~missing)])
    spread = matrix[np.ix_(missing, missing)] - slope @ matrix[np.ix_(~missing, missing)]
    return missing, mean[missing] + slope @ (row - mean)[~missing], spread


@pytest.mark.parametrize("d", [3, 64, 130])
def test_rows_have_the_same_pattern_if_the_same_cells_are_missing(d):
    holes = np.random.default_rng(0).random((50, d)) < 0.5
    holes[10:20], holes[3] = holes[:10], False
    patterns = np.empty(50, np.uint64)
    fill_patterns(np.where(holes, np.nan, 1.0), patterns)
    same = (holes[:, None] == holes).all(axis=2)
    np.testing.assert_array_equal(patterns[:, None] == patterns, same)
    np.testing.assert_array_equal(patterns == 0, ~holes.any(axis=1))


def test_patterns_that_are_hashes_are_compared_with_the_cells():
    _, rows, family, parameters, _ = fitted("full")
    collided = rows._replace(patterns=(rows.patterns > 0).astype(np.uint64))
    found, expected = np.zeros((2, 60, 3))
    family.add_log_densities(collided, 0, 60, parameters, found)
    family.add_log_densities(rows, 0, 60, parameters, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@MATRICES
@pytest.mark.parametrize("d", [4, 9, 17])
def test_densities_of_observed_cells_do_not_depend_on_other_rows(kind, d):
    X, rows, family, parameters, _ = fitted(kind, n=300, d=d, share=0.5 / d)
    together, apart = np.zeros((len(X), 3)), np.zeros((len(X), 3))
    family.add_log_densities(rows, 0, len(X), parameters, together)
    for row in range(len(X)):
        family.add_log_densities(rows, row, row + 1, parameters, apart[row : row + 1])
    assert np.bincount(np.unique(rows.patterns, return_inverse=True)[1])[1:].max() >= 8  # computed together
    np.testing.assert_array_equal(together, apart)
    for row in np.flatnonzero(np.isfinite(X).any(axis=1)):
        seen, k = np.isfinite(X[row]), row % 3
        matrix = covariance(kind, parameters, k)[np.ix_(seen, seen)]
        expected = stats.multivariate_normal(parameters.means[k, seen], matrix).logpdf(X[row, seen])
        np.testing.assert_allclose(together[row, k], expected, rtol=1e-9, atol=1e-8)


@MATRICES
def test_missing_cells_are_drawn_from_their_conditional_distribution(kind):
    X, rows, family, parameters, _ = fitted(kind, n=8, d=4, share=0.5, seed=3)
    labels = (np.arange(8) % 3).astype(np.int32)
    keys = fold_in_each(KEY, np.arange(4000))
    drawn = np.array([family.draw_missing(rows, 0, 8, labels, parameters, key, 0).values for key in keys])
    seen = ~np.isnan(X)
    assert (drawn[:, seen] == X[seen]).all()
    for i in np.flatnonzero(~seen.all(axis=1)):
        mean, matrix = parameters.means[labels[i]], covariance(kind, parameters, labels[i])
        missing, centre, spread = conditional(X[i], mean, matrix)
        gaps = drawn[:, i, missing] - centre
        assert_agrees(summarize(gaps), 0.0)
        products = summarize(np.einsum("na,nb->nab", gaps, gaps).reshape(len(gaps), -1))
        assert_agrees(products, spread.ravel())
        if seen[i].any():
            assert_disagrees(products, matrix[np.ix_(missing, missing)].ravel())  # without the observed cells
    part = family.draw_missing(rows.part(4, 8), 1, 3, labels[5:7], parameters, keys[0], 4).values
    assert part.tobytes() == drawn[0, 5:7].tobytes()


@MATRICES
def test_expected_statistics_have_conditional_means_and_covariances(kind):
    X, rows, family, parameters, shares = fitted(kind, n=40)
    sizes, sums, products = family.sum_expected(rows, 0, 40, 0, shares, parameters).total()
    expected = [np.zeros((3, 4)), np.zeros((3, 4, 4)), np.zeros((3, 4, 4))]
    for i, row in enumerate(X):
        for k in range(3):
            missing, centre, spread = conditional(row, parameters.means[k], covariance(kind, parameters, k))
            filled = row.copy()
            filled[missing] = centre
            expected[0][k] += shares[i, k] * (filled - family.origin)
            without = shares[i, k] * np.outer(filled - family.origin, filled - family.origin)
            expected[2][k] += without
            without[np.ix_(missing, missing)] += shares[i, k] * spread
            expected[1][k] += without
    if kind == "tied":
        expected[1:] = [array.sum(axis=0, keepdims=True) for array in expected[1:]]
    np.testing.assert_allclose(sizes, shares.sum(axis=0))
    np.testing.assert_allclose(sums, expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(products, np.tril(expected[1]), rtol=1e-9, atol=1e-9)
    assert abs(products - np.tril(expected[2])).max() > 0.1  # conditional covariances that are left out


@MATRICES
def test_expected_statistics_of_complete_rows_are_those_of_their_shares(kind):
    X = np.nan_to_num(make_X(), nan=3.0)
    family = Gaussian(kind).bind(DenseRows(X), 3)
    shares = np.random.default_rng(1).dirichlet(np.ones(3), 60)
    wanted = family.sum_shares(DenseRows(X), 0, 60, 0, shares).total()
    found = family.sum_expected(IncompleteRows.of_values(X), 0, 60, 0, shares, family.mode(wanted)).total()
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, wanted, strict=True))


def test_the_default_covariance_is_positive_definite_if_no_row_has_two_cells():
    X = np.full((12, 3), np.nan)
    X[np.arange(12), np.arange(12) % 3] = np.arange(12.0) ** 2
    prior = Gaussian().bind(read(Gaussian(), X), 1).prior.covariance
    np.testing.assert_allclose(prior, np.diag(1.01 * np.nanvar(X, axis=0, ddof=1)))


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_the_entropy_of_missing_cells_is_that_of_their_conditional_distributions(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    X[::4, 1] = np.nan
    emission, labels = Gaussian(kind), np.repeat([0, 1], 20).astype(np.int32)
    rows = emission.read(emission, X, reset=False)
    clusters = emission.bind(rows, 1).clusters(rows)
    statistics = clusters.no_statistics(2)
    clusters.count(labels, statistics, Workers(1))
    covariances = np.broadcast_to(clusters.expected(statistics)["covariances_"], (2, 2, 2))
    variances = covariances[:, 1, 1] - covariances[:, 0, 1] ** 2 / covariances[:, 0, 0]
    expected = 2.5 * (1.0 + np.log(2.0 * np.pi * variances)).sum()  # five cells in each cluster
    assert clusters.entropy_of_missing(labels, statistics) == pytest.approx(expected, rel=1e-9)
