"""Draws of Gaussian components: moments of Wishart and inverse Wishart distributions, and squared lengths of rows."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.emissions._gaussian.full import FullFamily
from skmanifold.emissions._gaussian.hyperparameters import NormalPrior
from skmanifold.emissions._gaussian.kernels import add_full_densities
from skmanifold.numerics.linalg import add_outer, divide_by_lower, fill_cholesky, fill_square
from skmanifold.numerics.simd import ENTRIES, LANES, _add_squares_reference
from skmanifold.random._keys import root_key

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
KEY, N_DRAWS = root_key(3), 20_000
DEGREES, PRECISION, CENTRE = 16.0, 2.5, np.array([1.0, -2.0, 0.5])
SCATTER = np.array([[4.0, 1.5, -0.8], [1.5, 2.0, 0.3], [-0.8, 0.3, 1.0]])
D = len(SCATTER)


def drawn(degrees, n=N_DRAWS):
    """Means, covariances, factors and log determinants of components that all have the same posterior."""
    family = FullFamily(NormalPrior(CENTRE, PRECISION, SCATTER, degrees), n, CENTRE)
    means, covariances, factors, offsets = family.draw(tuple(map(np.zeros, family.shapes())), KEY)
    return means, covariances, factors, offsets + 0.5 * D * np.log(2.0 * np.pi)


def with_squares(matrices):
    """The entries of each matrix, and their products with each other."""
    entries = matrices.reshape(len(matrices), -1)
    return np.hstack([entries, np.einsum("na,nb->nab", entries, entries).reshape(len(entries), -1)])


def crossed(matrix):
    """The sum of both products of entries (i, k) with (j, l), and (i, l) with (j, k), by pairs (i, j) and (k, l)."""
    return np.einsum("ik,jl->ijkl", matrix, matrix) + np.einsum("il,jk->ijkl", matrix, matrix)


def moments(mean, covariance):
    return np.concatenate(
        [mean.ravel(), (np.outer(mean.ravel(), mean.ravel()).reshape(covariance.shape) + covariance).ravel()]
    )


def wishart_moments(degrees, scale):
    return moments(degrees * scale, degrees * crossed(scale))


def inverse_wishart_moments(degrees, scale):
    m = degrees - D
    products = np.einsum("ij,kl->ijkl", scale, scale)
    covariance = (2.0 * products + (m - 1.0) * crossed(scale)) / (m * (m - 1.0) ** 2 * (m - 3.0))
    return moments(scale / (m - 1.0), covariance)


def test_precisions_and_covariances_have_the_moments_of_their_distributions():
    means, covariances, factors, log_roots = drawn(DEGREES)
    of_precision = wishart_moments(DEGREES, np.linalg.inv(SCATTER))
    of_covariance = inverse_wishart_moments(DEGREES, SCATTER)
    assert_agrees(summarize(with_squares(factors.mT @ factors)), of_precision)
    assert_agrees(summarize(with_squares(covariances)), of_covariance)
    standard = np.sqrt(PRECISION) * (factors @ (means - CENTRE)[:, :, None])  # normal, and independent of the factor
    assert_agrees(summarize(standard[:, :, 0]), 0.0)
    second = standard @ standard.mT
    assert_agrees(summarize(second.reshape(N_DRAWS, -1)), np.eye(D).ravel())
    centred = log_roots - log_roots.mean()
    assert_agrees(summarize(centred[:, None] * (second - np.eye(D)).reshape(N_DRAWS, -1)), 0.0)
    np.testing.assert_allclose(factors @ covariances @ factors.mT, np.tile(np.eye(D), (N_DRAWS, 1, 1)), atol=1e-9)
    np.testing.assert_allclose(log_roots, 0.5 * np.linalg.slogdet(factors.mT @ factors)[1], atol=1e-9)
    assert np.array_equal(factors, np.tril(factors))
    assert np.array_equal(covariances, covariances.mT)
    _, covariances, factors, _ = drawn(DEGREES + 1.0)  # one degree of freedom too many
    assert_disagrees(summarize(with_squares(factors.mT @ factors)), of_precision)
    assert_disagrees(summarize(with_squares(covariances)), of_covariance)


def test_underflow_of_a_wishart_root_is_a_singular_component():
    with pytest.raises(ValueError, match="covariance of component 0 is singular"):
        drawn(D - 1.0 + 1e-6, 1)


@pytest.mark.parametrize("d", [1, 4, 13])
def test_triangular_kernels_agree_with_numpy(d):
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((d + 2, d))
    matrix = rows.T @ rows
    root, quotient, square = np.empty((d, d)), np.tril(rng.standard_normal((d, d))), np.empty((d, d))
    assert fill_cholesky(np.tril(matrix), 1e-12, root)  # what is above the diagonal is not read
    np.testing.assert_allclose(root, np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-12)
    expected = quotient @ np.linalg.inv(root)
    divide_by_lower(quotient, root)
    np.testing.assert_allclose(quotient, expected, rtol=1e-7, atol=1e-9)
    fill_square(root, square)
    np.testing.assert_allclose(square, matrix, rtol=1e-9, atol=1e-12)


def test_matrices_without_a_cholesky_factor_are_refused():
    out = np.empty((2, 2))
    for other, corner in ((1.0, 1.0), (2.0, 1.0), (np.nan, 1.0), (0.0, -1.0)):
        assert not fill_cholesky(np.array([[1.0, other], [other, corner]]), 1e-12, out)


def test_squared_lengths_are_those_of_the_reference_to_the_last_bit():
    rng = np.random.default_rng(0)
    n, d, padded = LANES, 5, 2 * ENTRIES
    X, mean, factor = rng.standard_normal((n, d)), rng.standard_normal(d), np.tril(rng.standard_normal((d, d)))
    out, total = np.zeros((n, 1)), np.zeros(n)
    columns, wide = np.zeros((padded, n)), np.zeros((padded, padded))
    columns[:d], wide[:d, :d] = (X - mean).T, factor
    add_full_densities(X, 0, n, mean[None], wide[None], np.zeros(1), out)
    for first in range(0, padded, ENTRIES):
        _add_squares_reference(wide, columns, first, first + ENTRIES, 0, total)
    assert np.array_equal(out[:, 0], -0.5 * total)
    np.testing.assert_allclose(total, (((X - mean) @ factor.T) ** 2).sum(axis=1))


def test_roots_after_a_row_more_or_less_are_those_of_the_matrix():
    """A row without which few digits would be left is not subtracted: the root is computed again."""
    root, row = np.linalg.cholesky(SCATTER).T.copy(), np.array([1.5, -2.0, 0.7])
    with_row = SCATTER + np.outer(row, row)
    change = np.linalg.slogdet(with_row)[1] - np.linalg.slogdet(SCATTER)[1]
    assert add_outer(root, row.copy(), 1) == pytest.approx(change, rel=1e-12)
    np.testing.assert_allclose(root, np.linalg.cholesky(with_row).T, rtol=1e-12)
    assert add_outer(root, row.copy(), -1) == pytest.approx(-change, rel=1e-10)
    np.testing.assert_allclose(root, np.linalg.cholesky(SCATTER).T, rtol=1e-10)
    add_outer(root, 1e6 * row, 1)
    assert np.isnan(add_outer(root, 1e6 * row, -1))
