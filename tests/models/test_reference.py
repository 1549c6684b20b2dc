"""Reference targets: their gradients, and the moments that their docstrings promise, by quadrature."""

import numpy as np
import pytest
from scipy.special import digamma, iv

from skmanifold.manifolds import Euclidean, PositiveOrthant, Simplex, Sphere
from skmanifold.models import Density, HasCounts, HasGradient, HasGradientDeviations, HasLogDensity, HasLogNormalMean
from skmanifold.models._charts import Log, Softmax
from skmanifold.models._conjugate import DirichletPosterior, LogNormalMean, dense_dirichlet, sparse_dirichlet
from skmanifold.models._reference import (
    NoisyGradient,
    _vmf_mixture_angles,
    banana,
    circle,
    dirichlet,
    double_well,
    gamma,
    standard_normal,
    vmf_mixture_posterior,
)
from skmanifold.utils._parameters import offers

from ._numerics import (
    check_chains_do_not_mix,
    check_gradient,
    check_minibatches,
    expectations,
    gradient_of,
    keys_of_all_subsets,
    random_positions,
    small_log_normal,
    small_posterior,
    square_grid,
)

KEYS = np.arange(5, dtype=np.uint64)


TARGETS = {
    "standard_normal": lambda: standard_normal(3),
    "double_well": double_well,
    "banana": banana,
    "gamma": lambda: gamma([[0.3, 2.0, 1.0], [1.0, 5.0, 0.01]]),
    "gamma-number": lambda: gamma(0.5),
    "dirichlet": lambda: dirichlet([[0.3, 2.0, 1.0], [1.0, 5.0, 0.1]]),
    "circle": circle,
    "vmf_mixture": vmf_mixture_posterior,
    "vmf_mixture-0": lambda: vmf_mixture_posterior(0),
    "sparse_dirichlet": sparse_dirichlet,
    "dense_dirichlet": dense_dirichlet,
    "small_dirichlet": small_posterior,
    "log_normal": small_log_normal,
    "noisy": lambda: NoisyGradient(circle(), 3.0),
}


@pytest.fixture(params=TARGETS, name="target")
def make_target(request):
    return TARGETS[request.param]()


def test_gradient_is_that_of_the_log_density(target):
    position = random_positions(target)
    if isinstance(target.manifold, Simplex):
        position = 0.5 * position + 0.5 / target.manifold.d
    check_gradient(target, position)


def test_chains_do_not_mix(target):
    position = random_positions(target, 5)
    check_chains_do_not_mix(target, position)
    check_chains_do_not_mix(target, position, KEYS)
    if target.n_samples:
        check_chains_do_not_mix(target.minibatched(min(4, target.n_samples)), position, KEYS)
    alone = [target.log_density(position[c : c + 1])[0] for c in range(5)]
    np.testing.assert_array_equal(alone, target.log_density(position))


@pytest.mark.parametrize(
    ("target", "manifold"),
    [
        (standard_normal(), Euclidean(1)),
        (double_well(), Euclidean(1)),
        (banana(), Euclidean(2)),
        (gamma(1.0), PositiveOrthant(1)),
        (gamma([[1.0, 2.0]]), PositiveOrthant((1, 2))),
        (dirichlet([1.0, 2.0]), Simplex(2)),
        (dirichlet([[1.0, 2.0]]), Simplex(2, n_points=1)),
        (circle(), Sphere(2)),
        (vmf_mixture_posterior(), Sphere(2, n_points=2)),
        (sparse_dirichlet(), Simplex(10)),
        (small_log_normal(), PositiveOrthant((2, 3))),
        (LogNormalMean(0, 1, [1.0, 2.0], 1), PositiveOrthant(1)),
    ],
    ids=repr,
)
def test_where_targets_live(target, manifold):
    assert type(target.manifold) is type(manifold)
    assert target.manifold.get_params() == manifold.get_params()
    assert target.noise_covariance is None
    assert offers(target, HasGradient)
    assert offers(target, HasLogDensity)


# Moments in closed form


def test_standard_normal():
    x, cell = square_grid(-12, 12, 500, 1)
    t = x[:, 0]
    means, log_total = expectations(standard_normal(1), x, cell, [t, t**2, t**4])
    np.testing.assert_allclose([*means, np.exp(log_total)], [0, 1, 3, 2.5066282746], atol=1e-10)
    (mean,), _ = expectations(standard_normal(1), *square_grid(0, 12, 200_000, 1), [square_grid(0, 12, 200_000, 1)[0]])
    np.testing.assert_allclose(mean, 0.7978845608, atol=1e-8)


def test_double_well():
    n = 120_000
    x, cell = square_grid(-4, 4, n, 1)
    t = np.abs(x[:, 0])
    functions = [t**2, t**4, t, t**4 - 2 * t**2, *((t < edge) * 1.0 for edge in (0.5, 1.0, 1.5))]
    means, log_total = expectations(double_well(), x, cell, functions)
    expected = [0.8327454871283803, 1.0827454871283803, 0.8273924393, -0.5827454871]
    np.testing.assert_allclose(means, [*expected, 0.2194372661, 0.6318401048, 0.9781775268], atol=1e-8)
    closed = np.pi / 2 * np.exp(0.5) * (iv(0.25, 0.5) + iv(-0.25, 0.5))
    np.testing.assert_allclose([np.exp(log_total), closed], 5.365160237834568, rtol=1e-12)


def test_banana():
    x, cell = square_grid(-6, 12, 1800, 2)
    x = x[np.abs(x[:, 1] + 1.2 - x[:, 0] ** 2 / 4) < 2.5]
    t, s = x.T
    means, log_total = expectations(banana(), x, cell, [t, t**2, t**4, s, s**2, t**2 * s, (np.abs(t) < 1) * 1.0])
    means[4] -= means[3] ** 2
    expected = [0, 1.068815443662356, 2.5, -0.932796139084411, 0.14735209671180255, -0.6575785324, 0.6083388457]
    np.testing.assert_allclose(means[:6], expected[:6], atol=1e-10)
    np.testing.assert_allclose(means[6], expected[6], atol=1e-5)  # a jump
    np.testing.assert_allclose(np.exp(log_total), 2.02013792638641, rtol=1e-12)


def test_circle():
    n = 120_000
    angle = -np.pi + 2 * np.pi / n * (np.arange(n) + 0.5)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    t = x @ [np.cos(np.pi / 3), np.sin(np.pi / 3)]
    bins = np.repeat(np.eye(12), n // 12, axis=1)
    functions = [*x.T, t**2, x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2, (t > 0) * 1.0]
    means, log_total = expectations(circle(), x, 2 * np.pi / n, functions)
    expected = [-0.1488971895, -0.2578974975, 0.8213233726, 0.3393383137, 0.2782742035, 0.6606616863]
    np.testing.assert_allclose(means[:6], expected, atol=1e-10)
    np.testing.assert_allclose(means[6], 0.3341529327, atol=1e-8)
    np.testing.assert_allclose([np.exp(log_total), 6 * np.pi * iv(0, 5)], 513.4594872345801, rtol=1e-13)
    shares, _ = expectations(circle(), x, 1.0, bins)
    high, low = [0.076862, 0.246306, 0.246306, 0.076862], [0.009755, 0.005426]
    np.testing.assert_allclose(shares, [*high, *low, 0.038485, 0.123166, 0.123166, 0.038485, *low[::-1]], atol=6e-7)


def direction_pairs(n):
    """Pairs of angles, the directions, and the share of each cell in which the first angle is the smaller."""
    angles, _ = square_grid(-1.2, 1.2, n, 2)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    first, second = angles.T
    return angles, x, np.where(np.isclose(first, second), 0.5, first < second)


def test_vmf_mixture_of_quantiles():
    data = _vmf_mixture_angles("quantiles", 20.0)
    np.testing.assert_allclose([data[0], np.cos(data).sum()], [-0.66336008, 96.67005420], atol=1e-8)
    np.testing.assert_allclose(np.sin(data).sum(), 0, atol=1e-12)
    angles, x, before = direction_pairs(300)
    a, b = angles.T
    target = vmf_mixture_posterior()
    functions = [before, np.sin(a), np.sin(b), np.cos(a), np.cos(b), a**2, b**2, a * b]
    means, _ = expectations(target, x, 1.0, functions)
    expected = [0.5, 0, 0, 0.99480530, 0.95884136, 0.01040562, 0.08325349, -0.02788619]
    np.testing.assert_allclose(means, expected, atol=6e-9)
    means, _ = expectations(target, x, before, [a, b])
    np.testing.assert_allclose(means, [-0.08944, 0.25985], atol=1e-5)

    def angle_pair(v1, v2):
        v = np.array([v1, v2]).reshape(-1, 2)
        return np.stack([np.cos(v), np.sin(v)], axis=-1)

    (mode,) = target.log_density(angle_pair(0.1008, -0.2934))
    np.testing.assert_allclose(target.log_density(angle_pair(-0.1008, 0.2934)), mode)
    around = [(0.1008 + i, -0.2934 + j) for i, j in [(1e-3, 0), (-1e-3, 0), (0, 1e-3), (0, -1e-3)]]
    assert all(target.log_density(angle_pair(*pair)) < mode for pair in around)


def test_vmf_mixture_of_random_data():
    angles, x, before = direction_pairs(240)
    functions = [before, *np.cos(angles).T, *np.sin(angles).T]
    means, _ = expectations(vmf_mixture_posterior(0), x, 1.0, functions)
    np.testing.assert_allclose(means, [0.433, 0.99183, 0.94423, 0.04860, -0.01548], atol=7e-4)
    np.testing.assert_allclose(means[1:], [0.99183, 0.94423, 0.04860, -0.01548], atol=6e-6)
    assert not np.array_equal(_vmf_mixture_angles(1, 20.0), _vmf_mixture_angles(0, 20.0))
    with pytest.raises(ValueError, match="data must be 'quantiles' or the seed of a random sample; got 'quantile'"):
        vmf_mixture_posterior("quantile")


def test_vmf_mixture_is_the_corrected_likelihood():
    """Of its components, one is centred midway between v1 and v2; both priors are centred on e_1."""
    target = vmf_mixture_posterior()
    v = np.array([0.3, -0.5])
    z = _vmf_mixture_angles("quantiles", 20.0)
    density = 0.5 * np.exp(20 * np.cos(z - v[0])) + 0.5 * np.exp(20 * np.cos(z - v.mean()))
    x = np.stack([np.cos(v), np.sin(v)], axis=1)[np.newaxis]
    expected = np.log(density).sum() + 20 * np.cos(v).sum() + 100 * np.log(2)
    np.testing.assert_allclose(target.log_density(x), expected, rtol=1e-12)


def test_gamma():
    target = gamma([2.5, 0.7])
    y, cell = square_grid(-45, 6, 500, 2)
    x = Log(target).point(y)
    means, _ = expectations(Log(target), y, cell, [*x.T, *(x**2).T, *y.T])
    a = np.array([2.5, 0.7])
    np.testing.assert_allclose(means, [*a, *(a * (a + 1)), *digamma(a)], rtol=1e-9)
    out = np.empty((3, 2))
    target.expected_counts(np.ones((3, 2)), None, out)
    np.testing.assert_array_equal(out, np.tile(a, (3, 1)))
    assert offers(target, HasCounts)
    assert offers(dirichlet([1.0, 2.0]), HasCounts)


@pytest.mark.parametrize("shape", [0.0, [1.0, -1.0], [np.nan], []])
def test_gamma_and_dirichlet_refuse_what_is_not_positive(shape):
    with pytest.raises(ValueError, match="shape must be positive and finite"):
        gamma(shape)
    with pytest.raises(ValueError, match="concentrations must be"):
        dirichlet(shape)


# Conjugate posteriors


def test_dirichlet_posterior_moments():
    target = small_posterior()
    np.testing.assert_array_equal(target.concentrations, [3.5, 2.0, 3.0])
    y, cell = square_grid(-30, 20, 260, 2)
    x = Softmax(target).point(y)
    means, _ = expectations(Softmax(target), y, cell, [*x.T, x[:, 0] ** 2, x[:, 0] * x[:, 1]])
    a = target.concentrations
    cross = a[0] * np.array([a[0] + 1, a[1]]) / a.sum() / (a.sum() + 1)
    np.testing.assert_allclose(means, [*(a / a.sum()), *cross], rtol=1e-9)


def test_posteriors_of_the_paper():
    np.testing.assert_allclose(sparse_dirichlet().concentrations, [800.1, 100.1, 100.1, *[0.1] * 7])
    np.testing.assert_allclose(
        dense_dirichlet().concentrations, [112.1, 119.1, 92.1, 98.1, 95.1, 96.1, 102.1, 92.1, 91.1, 103.1]
    )
    assert sparse_dirichlet().n_samples == dense_dirichlet().n_samples == 1000
    a = sparse_dirichlet().concentrations
    np.testing.assert_allclose(a[[0, 1, 3]] / a.sum(), [0.79930, 0.1, 9.99e-5], rtol=1e-4)
    np.testing.assert_allclose(np.sqrt(a[0] * a[1:].sum() / (a.sum() + 1)) / a.sum(), 0.01265, atol=5e-6)


@pytest.mark.covering
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize(
    ("make", "method", "name"),
    [(small_posterior, "expected_counts", "concentrations"), (small_log_normal, "expected_log", "log_mean")],
)
def test_expectations_of_minibatches_are_unbiased(make, method, name, n):
    target, keys = make(), keys_of_all_subsets(5, n)
    exact, out = getattr(target, name), np.empty((len(keys), *target.manifold.shape))
    getattr(target.minibatched(n), method)(out, keys, out)
    np.testing.assert_allclose(out.mean(axis=0), exact, rtol=1e-12)
    assert out.std(axis=0).min() > 0.01
    if method == "expected_counts":
        np.testing.assert_allclose(out.sum(axis=1), exact.sum())
    getattr(target, method)(out, keys, out)
    np.testing.assert_array_equal(out, np.broadcast_to(exact, out.shape))


@pytest.mark.parametrize("make", [small_posterior, small_log_normal])
def test_minibatches_and_their_deviations(make):
    target = make()
    check_minibatches(target, random_positions(target)[0])
    assert offers(target, HasGradientDeviations)
    with pytest.raises(ValueError, match="batch_size of at least 2"):
        target.minibatched(1).grad_with_deviations(random_positions(target, 5), KEYS, random_positions(target, 5))
    with pytest.raises(ValueError, match="batch_size must be an integer from 1 to n_samples=5; got 6"):
        target.minibatched(6)


def test_one_key_is_one_minibatch():
    """Counts, gradients and deviations of one key are of the same rows, whatever the position."""
    target = small_posterior().minibatched(2)
    position = random_positions(target, 5)
    counts = np.empty((5, 3))
    target.expected_counts(position, KEYS, counts)
    np.testing.assert_allclose(gradient_of(target, position, KEYS), (counts - 1) / position, rtol=1e-12)
    np.testing.assert_allclose(
        gradient_of(target, position[::-1].copy(), KEYS), (counts - 1) / position[::-1], rtol=1e-12
    )


@pytest.mark.parametrize(
    ("prior", "observations", "message"),
    [
        ([1.0, 0.0], [0], "prior must be a vector of positive"),
        (1.0, [0], "prior must be a vector of positive"),
        ([1.0, np.inf], [0], "prior must be a vector of positive"),
        ([1.0, 1.0], [0.0], "observations must be a nonempty vector of integers"),
        ([1.0, 1.0], [[0, 1]], "observations must be a nonempty vector of integers"),
        ([1.0, 1.0], [], "observations must be a nonempty vector of integers"),
        ([1.0, 1.0], [0, 2], "categories from 0 to 1"),
        ([1.0, 1.0], [0, -1], "categories from 0 to 1"),
    ],
)
def test_dirichlet_posterior_refuses(prior, observations, message):
    with pytest.raises(ValueError, match=message):
        DirichletPosterior(prior, observations)


def test_log_normal_posterior():
    target = LogNormalMean(0.4, 2.0, [1.0, -0.5, 0.2], 0.7)
    assert offers(target, HasLogNormalMean)
    variance = 1 / (1 / 2.0 + 3 / 0.7)
    mean = variance * (0.4 / 2.0 + 0.7 / 0.7)
    np.testing.assert_allclose([target.log_mean[0], target.log_variance[0]], [mean, variance], rtol=1e-14)
    y, cell = square_grid(-8, 8, 2000, 1)
    x = np.exp(y[:, 0])
    means, _ = expectations(Log(target), y, cell, [y[:, 0], y[:, 0] ** 2, x, x**2])
    expected = [mean, variance + mean**2, np.exp(mean + variance / 2), np.exp(2 * mean + 2 * variance)]
    np.testing.assert_allclose(means, expected, rtol=1e-12)
    # prior times likelihood, up to a constant
    theta = np.array([[0.3], [1.0], [2.5]])
    log = np.log(theta)
    joint = -((log - 0.4) ** 2) / 4 - log - ((np.array([1.0, -0.5, 0.2]) - log) ** 2).sum(axis=1, keepdims=True) / 1.4
    np.testing.assert_allclose(np.ptp(joint[:, 0] - target.log_density(theta)), 0, atol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, [], 1), "observations must be a nonempty array of finite"),
        ((0, 1, 3.0, 1), "observations must be a nonempty array of finite"),
        ((0, 1, [np.nan], 1), "observations must be a nonempty array of finite"),
        ((np.nan, 1, [1.0], 1), "prior_mean must be finite"),
        ((0, 0, [1.0], 1), "prior_variance must be positive and finite"),
        ((0, 1, [1.0], -1), "noise_variance must be positive and finite"),
        ((0, [1, 2], [1.0], 1), r"prior_variance must be a number or of shape \(1,\)"),
    ],
)
def test_log_normal_posterior_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        LogNormalMean(*arguments)


# Noise on purpose

COVARIANCE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.4], [-0.3, 0.4, 0.5]])


@pytest.mark.parametrize(
    "covariance",
    [4.0, np.array([4.0, 1.0, 0.0]), COVARIANCE, np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])],
    ids=["number", "diagonal", "matrix", "singular"],
)
def test_noise_is_a_square_root_times_standard_noise(covariance):
    position = np.zeros((5, 3))
    standard = gradient_of(NoisyGradient(standard_normal(3), 1.0), position, KEYS)
    noise = gradient_of(NoisyGradient(standard_normal(3), covariance), position, KEYS)
    root = np.linalg.lstsq(standard, noise, rcond=None)[0]
    full = covariance if np.ndim(covariance) == 2 else covariance * np.eye(3)
    np.testing.assert_allclose(standard @ root, noise, atol=1e-12)
    np.testing.assert_allclose(root.T @ root, full, atol=1e-12)


def test_noise_is_a_function_of_the_key():
    target = NoisyGradient(vmf_mixture_posterior().minibatched(10), 4.0)
    position = random_positions(target, 5)
    once = gradient_of(target, position, KEYS)
    np.testing.assert_array_equal(gradient_of(target, position, KEYS), once)
    back = gradient_of(target, position[::-1].copy(), KEYS[::-1].copy())
    np.testing.assert_array_equal(back[::-1], once)
    assert (gradient_of(target, position, KEYS + np.uint64(5)) != once).all()
    np.testing.assert_array_equal(gradient_of(target, position), gradient_of(target.target, position))
    matrix = NoisyGradient(standard_normal(3), COVARIANCE)
    check_chains_do_not_mix(matrix, random_positions(matrix, 5), KEYS)


def test_noisy_target_offers_gradient_value_and_minibatches():
    target = NoisyGradient(vmf_mixture_posterior(), np.arange(4.0))
    assert not hasattr(target, "grad_with_deviations")  # they would leave out the noise
    assert target.manifold.shape == (2, 2)
    assert (target.n_samples, target.batch_size) == (100, None)
    small = target.minibatched(7)
    assert isinstance(small, NoisyGradient)
    assert (small.n_samples, small.batch_size, small.target.batch_size) == (100, 7, 7)
    np.testing.assert_array_equal(small.noise_covariance, np.arange(4.0))
    assert target.batch_size is None
    position = random_positions(target)
    np.testing.assert_array_equal(target.log_density(position), target.target.log_density(position))
    without = NoisyGradient(Density(Euclidean(1), grad_log_density=lambda x: -x), 1.0)
    assert not hasattr(without, "log_density")


def test_noisy_target_refuses():
    value_only = Density(Euclidean(1), log_density=lambda x: 0.0)
    with pytest.raises(TypeError, match="NoisyGradient needs a target with grad_log_density"):
        NoisyGradient(value_only, 1.0)
    with pytest.raises(ValueError, match="needs a target without noise_covariance"):
        NoisyGradient(NoisyGradient(circle(), 1.0), 1.0)
    with pytest.raises(ValueError, match="covariance must be given"):
        NoisyGradient(circle(), None)
    with pytest.raises(ValueError, match="covariance must be a number, or of shape"):
        NoisyGradient(circle(), np.ones(3))
    with pytest.raises(ValueError, match="covariance must be non-negative"):
        NoisyGradient(circle(), -1.0)


def test_noisy_charts():
    chart = NoisyGradient(Softmax(dirichlet([1.0, 2.0, 3.0])), 0.5)
    assert chart.noise_covariance == 0.5
    assert chart.manifold.shape == (2,)
    check_gradient(chart, random_positions(chart))
    assert Softmax(NoisyGradient(dirichlet([1.0, 2.0, 3.0]), 0.5)).noise_covariance is None
