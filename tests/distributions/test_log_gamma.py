"""Gamma and Dirichlet draws in logarithms, and the averaged Kolmogorov-Smirnov distance."""

import numpy as np
import pytest
from scipy.stats import beta, kstest, loggamma

from skmanifold.distributions import averaged_ks_distance, dirichlet_rosenblatt, sample_log_dirichlet, sample_log_gamma

# The two posteriors of Baker et al. (2018), appendix E.2
SPARSE = np.array([800.1, 100.1, 100.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
DENSE = np.array([112.1, 119.1, 92.1, 98.1, 95.1, 96.1, 102.1, 92.1, 91.1, 103.1])


@pytest.mark.parametrize("shape", [0.01, 0.5, 1.0, 20.0, 1e6])
def test_log_gamma_draws_follow_their_law(shape):
    assert kstest(sample_log_gamma(shape, 4000, random_state=0), loggamma(shape).cdf).pvalue > 1e-4


@pytest.mark.parametrize("shape", [1e-8, 1e-100, 1e-300])
def test_tiny_shapes_are_exponential_in_the_logarithm(shape):
    draws = sample_log_gamma(shape, 4000, random_state=1)
    assert np.all(np.isfinite(draws))
    assert kstest(-shape * draws, "expon").pvalue > 1e-4


def test_log_dirichlet_draws_are_normalised_and_have_the_right_means():
    log_draws = sample_log_dirichlet([0.5, 2.0, 0.1], 20_000, random_state=2)
    draws = np.exp(log_draws)
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, rtol=1e-13)
    mean = np.array([0.5, 2.0, 0.1]) / 2.6
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * np.sqrt(mean * (1 - mean) / 3.6 / 20_000))


def test_no_draw_of_a_tiny_dirichlet_is_all_zeros():
    log_draws = sample_log_dirichlet([1e-300, 1e-5, 3e-5], 4000, random_state=3)
    assert np.all(np.isfinite(log_draws))
    winners = np.bincount(log_draws.argmax(axis=1), minlength=3) / 4000
    np.testing.assert_array_equal(log_draws.max(axis=1), 0.0)
    assert abs(winners[2] - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 4000)


@pytest.mark.parametrize("concentration", [SPARSE, DENSE, np.array([1e-3, 1e-4, 1e-3, 2.0, 1e-3])], ids=len)
def test_rosenblatt_gives_independent_uniforms(concentration):
    uniforms = dirichlet_rosenblatt(sample_log_dirichlet(concentration, 4000, random_state=4), concentration, log=True)
    assert uniforms.shape == (4000, len(concentration) - 1)
    for coordinate in uniforms.T:
        assert kstest(coordinate, "uniform").pvalue > 1e-4
    correlations = np.corrcoef(uniforms.T)
    assert np.abs(correlations - np.eye(len(correlations))).max() < 4.5 / np.sqrt(4000)


def test_rosenblatt_agrees_with_scipy_on_either_scale():
    concentration = np.array([2.0, 0.7, 1.5])
    draws = np.random.default_rng(0).dirichlet(concentration, 50)
    expected = np.stack(
        [beta(2.0, 2.2).cdf(draws[:, 0]), beta(0.7, 1.5).cdf(draws[:, 1] / (draws[:, 1] + draws[:, 2]))], axis=1
    )
    np.testing.assert_allclose(dirichlet_rosenblatt(draws, concentration), expected, rtol=1e-12)
    np.testing.assert_allclose(dirichlet_rosenblatt(7 * draws, concentration), expected, rtol=1e-12)
    np.testing.assert_allclose(dirichlet_rosenblatt(np.log(draws), concentration, log=True), expected, rtol=1e-11)


def test_rosenblatt_keeps_the_digits_of_fractions_near_one():
    # P(omega_1 > 1 - e) for Beta(1, a) is e^a: 1 - e rounds to 1, the complement does not.
    uniforms = dirichlet_rosenblatt([[1.0, 1e-30, 1e-40]], [1.0, 0.01, 0.02])
    np.testing.assert_allclose(1 - uniforms[0, 0], (1e-30 + 1e-40) ** 0.03, rtol=1e-12)
    uniforms = dirichlet_rosenblatt([[0.0, -3000.0]], [1.0, 1e-3], log=True)
    np.testing.assert_allclose(1 - uniforms[0, 0], np.exp(-3.0), rtol=1e-12)


@pytest.mark.extended
@pytest.mark.short_cases("sparse")
@pytest.mark.parametrize("concentration", [SPARSE, DENSE], ids=["sparse", "dense"])
def test_averaged_distance_of_exact_draws(concentration):
    draws = sample_log_dirichlet(concentration, (100, 1000), random_state=5)
    distances = np.array([averaged_ks_distance(chain, concentration, log=True) for chain in draws])
    assert abs(distances.mean() - 0.0273) < 4 * 0.0029 / np.sqrt(100) + 0.00005
    assert abs(distances.std() - 0.0029) < 4 * 0.0029 / np.sqrt(200)


def test_averaged_distance_notices_the_wrong_law():
    draws = sample_log_dirichlet(SPARSE, 1000, random_state=6)
    assert averaged_ks_distance(draws, SPARSE, log=True) < 0.036
    assert averaged_ks_distance(draws, SPARSE + np.r_[0, 0, 0, np.full(7, 0.1)], log=True) > 0.1
    assert averaged_ks_distance(np.full((1000, 10), 0.1), DENSE) > 0.5


def test_averaged_distance_agrees_with_scipy():
    draws = np.random.default_rng(1).dirichlet([1.0, 2.0, 3.0], 80)
    uniforms = dirichlet_rosenblatt(draws, [1.0, 2.0, 3.0])
    expected = np.mean([kstest(coordinate, "uniform").statistic for coordinate in uniforms.T])
    np.testing.assert_allclose(averaged_ks_distance(draws, [1.0, 2.0, 3.0]), expected, rtol=1e-12)


def test_shapes_and_seeds():
    assert isinstance(sample_log_gamma(0.5, random_state=0), float)
    assert sample_log_gamma([0.5, 1.0]).shape == (2,)
    assert sample_log_dirichlet([1.0, 2.0]).shape == (2,)
    assert sample_log_dirichlet([1.0, 2.0], (3, 4)).shape == (3, 4, 2)
    first = sample_log_dirichlet([1.0, 2.0], 5, random_state=3)
    np.testing.assert_array_equal(sample_log_dirichlet([1.0, 2.0], 5, np.random.default_rng(3)), first)


@pytest.mark.parametrize(
    ("function", "arguments", "words"),
    [
        (sample_log_gamma, (0.0,), "shape must be positive"),
        (sample_log_gamma, ([1.0, 2.0], 3), "do not broadcast to size"),
        (sample_log_gamma, (1.0, 2, "seed"), "random_state must be"),
        (sample_log_dirichlet, (2.0,), "concentration must be a vector"),
        (sample_log_dirichlet, ([1.0, -1.0],), "concentration must be positive"),
        (dirichlet_rosenblatt, ([[0.5, 0.5]], [1.0]), "at least 2 entries"),
        (dirichlet_rosenblatt, ([[0.5, 0.5]], [1.0, 1.0, 1.0]), "draws must have 3 entries"),
        (dirichlet_rosenblatt, ([[0.5, -0.5]], [1.0, 1.0]), "not negative"),
        (dirichlet_rosenblatt, ([[0.5, np.nan]], [1.0, 1.0]), "must be finite"),
        (dirichlet_rosenblatt, ([[1.0, 0.0, 0.0]], [1.0, 1.0, 1.0]), "must not both be zero"),
        (averaged_ks_distance, ([0.5, 0.5], [1.0, 1.0]), "must be a matrix of at least one row"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(function, arguments, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments)
