"""The matrix von Mises-Fisher law's Gibbs sweeps, against importance sampling, quadrature and special cases."""

import numpy as np
import pytest
from scipy.special import i0e
from scipy.stats import kstest

from skmanifold.distributions import (
    MatrixVonMisesFisher,
    VonMisesFisher,
    _matrix_von_mises_fisher,
    bessel_ratio,
    gibbs_sweep,
    log_vmf_normalizer,
)


def uniform_frames(n, n_rows, n_columns, rng):
    frames, triangles = np.linalg.qr(rng.standard_normal((n, n_rows, n_columns)))
    return frames * np.sign(np.einsum("nkk->nk", triangles))[:, np.newaxis, :]


def statistics(X, parameter):
    """Entries, their squares, the products of the first row's neighbours, and the exponent tr(F'X)."""
    flat = X.reshape(len(X), -1)
    exponent = np.einsum("nvk,vk->n", X, parameter)[:, np.newaxis]
    return np.hstack([flat, flat**2, flat[:, 1:] * flat[:, :-1], exponent])


def scores(parameter, n_sweeps=6000, n_frames=60_000):
    """Differences between a chain's means and importance sampling's, in Monte Carlo standard errors."""
    rng = np.random.default_rng(0)
    frames = uniform_frames(n_frames, *parameter.shape, rng)
    weights = np.exp(np.einsum("nvk,vk->n", frames, parameter))
    weights /= weights.sum()
    values = statistics(frames, parameter)
    expected = weights @ values
    variance = weights**2 @ (values - expected) ** 2
    chain = MatrixVonMisesFisher(parameter).sample(n_sweeps, burn_in=50, random_state=1)
    batches = statistics(chain, parameter).reshape(60, -1, values.shape[1]).mean(axis=1)
    variance += batches.var(axis=0, ddof=1) / 60
    return np.abs(batches.mean(axis=0) - expected) / np.sqrt(np.maximum(variance, 1e-300))


@pytest.mark.extended
@pytest.mark.every(3)
@pytest.mark.parametrize("scale", [1.0, 0.0])
@pytest.mark.parametrize("shape", [(4, 2), (3, 2), (5, 3), (3, 3), (2, 2)], ids=str)
def test_sweeps_agree_with_importance_sampling(shape, scale):
    parameter = scale * np.random.default_rng(2).standard_normal(shape)
    assert scores(parameter).max() < 4.5


def test_parameter_columns_in_the_span_of_each_other():
    parameter = np.zeros((4, 3))
    parameter[0, :2] = 1.5
    assert scores(parameter).max() < 4.5


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize("step", [-1, 1])
def test_a_complement_of_the_wrong_dimension_is_noticed(monkeypatch, step):
    right = _matrix_von_mises_fisher.sample_cosine_complement

    def wrong(dim, *arguments):
        return right(dim + step, *arguments)

    monkeypatch.setattr(_matrix_von_mises_fisher, "sample_cosine_complement", wrong)
    parameter = np.random.default_rng(2).standard_normal((4, 2))
    assert scores(parameter).max() > 10


def test_columns_without_projection_would_be_noticed(monkeypatch):
    monkeypatch.setattr(_matrix_von_mises_fisher, "project_off", lambda frame, vector: vector.copy())
    X = gibbs_sweep(np.eye(4, 2), np.ones((4, 2)), np.random.default_rng(0))
    assert np.abs(X.T @ X - np.eye(2)).max() > 0.01


def test_one_column_is_von_mises_fisher():
    mean_direction = np.array([2.0, -1.0, 2.0, 4.0]) / 5.0
    chain = MatrixVonMisesFisher(3.0 * mean_direction[:, np.newaxis]).sample(3000, burn_in=1, random_state=0)
    exact = VonMisesFisher(mean_direction, 3.0).sample(30_000, random_state=1)
    assert kstest(chain[:, :, 0] @ mean_direction, exact @ mean_direction).pvalue > 1e-4
    assert kstest(chain[:, 0, 0], exact[:, 0]).pvalue > 1e-4


def test_a_single_sign_has_its_logistic_probability():
    signs = MatrixVonMisesFisher([[0.4]]).sample(8000, burn_in=0, random_state=0)
    np.testing.assert_array_equal(np.abs(signs), 1.0)
    assert abs(signs.mean() - np.tanh(0.4)) < 4 / np.cosh(0.4) / np.sqrt(8000)


@pytest.mark.covering
@pytest.mark.parametrize("shape", [(6, 4), (4, 3), (4, 4), (300, 10)], ids=str)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e8])
def test_columns_stay_orthonormal(shape, scale):
    parameter = scale * np.random.default_rng(0).standard_normal(shape)
    X = MatrixVonMisesFisher(parameter).sample(1, burn_in=200, random_state=0)[0]
    assert np.abs(X.T @ X - np.eye(shape[1])).max() < 2e-14


def test_a_sweep_does_not_change_its_input():
    X = np.eye(5, 2)
    after = gibbs_sweep(X, np.ones((5, 2)), np.random.default_rng(0))
    np.testing.assert_array_equal(X, np.eye(5, 2))
    assert not np.array_equal(X, after)


def test_concentrated_law_stays_at_its_mode():
    parameter = 1e6 * np.random.default_rng(0).standard_normal((50, 3))
    law = MatrixVonMisesFisher(parameter)
    best = np.sum(law.mode() * parameter)
    draws = law.sample(200, burn_in=20, thin=2, random_state=0)
    lost = best - np.einsum("nvk,vk->n", draws, parameter)
    dim = 50 * 3 - 6  # the loss is half a chi-square of as many degrees of freedom as the manifold has dimensions
    assert np.all(lost > 0)
    assert abs(lost.mean() - dim / 2) < 0.05 * dim
    np.testing.assert_allclose(law.mode().T @ law.mode(), np.eye(3), atol=1e-14)


def test_orthogonal_columns_in_many_dimensions_are_nearly_independent():
    n_rows, concentration = 2000, 1500.0
    X = MatrixVonMisesFisher(concentration * np.eye(n_rows, 3)).sample(40, burn_in=5, random_state=0)
    cosines = np.einsum("nkk->nk", X[:, :3])
    assert np.all(np.abs(cosines.mean(axis=0) - bessel_ratio(n_rows, concentration)) < 0.02)


def test_seeds_and_frozen_parameter():
    law = MatrixVonMisesFisher(np.eye(4, 2))
    first = law.sample(3, random_state=5)
    np.testing.assert_array_equal(law.sample(3, random_state=np.random.default_rng(5)), first)
    other = law.sample(1, burn_in=0, random_state=5, initial=np.eye(4)[:, 2:])
    np.testing.assert_array_equal(other[0], gibbs_sweep(np.eye(4)[:, 2:], law.parameter, np.random.default_rng(5)))
    with pytest.raises(ValueError, match="read-only"):
        law.parameter[0, 0] = 2.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda law: MatrixVonMisesFisher(np.eye(2, 4)), "no more columns than rows"),
        (lambda law: MatrixVonMisesFisher(np.ones(4)), "parameter must be a matrix"),
        (lambda law: MatrixVonMisesFisher([[np.nan]]), "parameter must be finite"),
        (lambda law: law.sample(-1), "n_draws must be at least 0"),
        (lambda law: law.sample(1, burn_in=-1), "burn_in must be at least 0"),
        (lambda law: law.sample(1, thin=0), "thin must be at least 1"),
        (lambda law: law.sample(1, initial=np.eye(4, 3)), "initial must have shape"),
        (lambda law: law.sample(1, initial=np.ones((4, 2))), "orthonormal columns"),
        (lambda law: law.sample(1, random_state=1.5), "random_state must be"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call(MatrixVonMisesFisher(np.eye(4, 2)))


def quadrature_of_two(n_rows, first, second, n=400):
    """E exp(tr F'X) for two columns: given one entry pair of the first column, the second is uniform on a sphere."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    radius, angle = (nodes + 1) / 2, np.pi * (nodes + 1)
    r, a = np.meshgrid(radius, angle, indexing="ij")
    w = np.outer(weights / 2, np.pi * weights) * r
    x, y = r * np.cos(a), r * np.sin(a)
    base = (1 - r**2) ** (0.5 * (n_rows - 4))  # density of two coordinates of a uniform direction
    beyond = log_vmf_normalizer(float(n_rows - 1), 0.0) - log_vmf_normalizer(
        np.full(r.size, float(n_rows - 1)), (second * np.sqrt(1 - y**2)).ravel()
    ).reshape(r.shape)
    return np.log(np.sum(w * base * np.exp(first * x + beyond)) / np.sum(w * base))


@pytest.mark.parametrize(("n_rows", "first", "second"), [(4, 1.0, 0.5), (5, 3.0, 3.0), (6, 8.0, 2.0), (20, 12.0, 30.0)])
def test_the_normaliser_of_two_columns_is_that_of_quadrature(n_rows, first, second):
    parameter = np.zeros((n_rows, 2))
    parameter[0, 0], parameter[1, 1] = first, second
    expected = quadrature_of_two(n_rows, first, second)
    assert -MatrixVonMisesFisher(parameter).log_normalizer() == pytest.approx(expected, rel=1e-6)


def test_the_normaliser_of_one_column_is_that_of_directions():
    f = np.random.default_rng(0).standard_normal(5)
    expected = log_vmf_normalizer(5.0, np.linalg.norm(f)) - log_vmf_normalizer(5.0, 0.0)
    assert MatrixVonMisesFisher(f[:, None]).log_normalizer() == pytest.approx(expected)
    assert MatrixVonMisesFisher(np.column_stack([f, 0 * f])).log_normalizer() == pytest.approx(expected)


def test_the_normaliser_of_square_matrices_is_that_of_signs_and_angles():
    for first, second in ((1.0, 0.5), (300.0, 200.0)):  # half of the matrices are rotations, half are reflections
        sums = np.array([first + second, first - second])
        logs = np.log(i0e(sums)) + sums
        expected = np.logaddexp(*logs) - np.log(2)
        assert -MatrixVonMisesFisher(np.diag([first, second])).log_normalizer() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("shape", "scale"), [((4, 3), 1.0), ((6, 3), 2.0), ((5, 5), 1.0), ((8, 4), 1.5)], ids=str)
def test_the_normaliser_of_several_columns_agrees_with_a_monte_carlo_mean(shape, scale):
    rng = np.random.default_rng(3)
    parameter = scale * rng.standard_normal(shape)
    exponents = np.einsum("nvk,vk->n", uniform_frames(100_000, *shape, rng), parameter)
    weights = np.exp(exponents - exponents.max())
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    gap = -MatrixVonMisesFisher(parameter).log_normalizer() - exponents.max() - np.log(weights.mean())
    assert abs(gap) < 4 * error + 0.01  # the approximation has an error too


@pytest.mark.parametrize("concentration", [1.0, 5.0, 50.0, 500.0])
def test_the_error_of_the_saddle_point_is_what_the_docstring_says(concentration):
    for n_rows, limit in ((3, 0.08), (5, 0.03), (10, 0.006)):
        d = np.array([concentration, 0.4 * concentration])
        approximate = _matrix_von_mises_fisher._saddle_point(n_rows, d) - _matrix_von_mises_fisher._saddle_point(
            n_rows, 0 * d
        )
        assert abs(approximate - _matrix_von_mises_fisher.log_hypergeometric(n_rows, d)) < limit


def test_densities_are_relative_to_the_uniform_distribution():
    rng = np.random.default_rng(0)
    distribution = MatrixVonMisesFisher(rng.standard_normal((4, 2)))
    frames = uniform_frames(200_000, 4, 2, rng)
    densities = np.exp(distribution.log_density(frames))
    assert abs(densities.mean() - 1) < 4 * densities.std() / np.sqrt(len(densities))
    assert distribution.log_density(frames[0]) == pytest.approx(np.log(densities[0]))
    with pytest.raises(ValueError, match="orthonormal"):
        distribution.log_density(2 * frames[0])
    with pytest.raises(ValueError, match="shape"):
        distribution.log_density(frames[0].T)
