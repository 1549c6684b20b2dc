"""Gradient noise whose covariance depends on the position, as in equation (8) of Liu et al. (2016)."""

import numpy as np
import pytest

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density, Linear, NoisyGradient, banana, circle, double_well, standard_normal
from skmanifold.samplers import SGGMC, SGHMC, SGLD, InvalidRecipeError, Recipe, check_recipe

from ._evidence import assert_agrees, assert_disagrees, expectations, walk
from ._flat_targets import Noisy

SAMPLERS = [
    SGLD(0.02),
    SGHMC(0.1, friction=4.0),
    SGHMC(0.02, friction=1.0, scheme="euler"),
    Recipe(np.eye(1), np.zeros((1, 1)), step_size=0.02),
]
WELL = np.array([0.0, 0.8327454871283803])


class Declaring:
    """A target that declares another covariance of its noise."""

    vectorized = True

    def __init__(self, target, covariance):
        self.target, self.manifold, self.noise_covariance = target, target.manifold, covariance

    def grad_log_density(self, position, keys, out):
        self.target.grad_log_density(position, keys, out)

    def log_density(self, position):
        return self.target.log_density(position)


def noise_of_the_well(x):
    return 30.0 * (1 + np.tanh(3 * x[:, 0]))


def moments_of_the_well(state):
    return np.concatenate([state.position, state.position**2], axis=1)


@pytest.mark.extended
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_noise_that_depends_on_the_position_is_compensated(sampler):
    n_steps = round(20 / sampler.step_size)
    options = {
        "burn_in": n_steps // 4,
        "n_chains": 400 if isinstance(sampler, Recipe) else 1000,
        "position": np.ones(1),
    }
    target = Noisy(double_well(), noise_of_the_well)
    assert_agrees(expectations(sampler, target, moments_of_the_well, n_steps, **options), WELL, 0.03)
    constant = Declaring(target, 30.0)  # right at the origin, and on average
    with np.errstate(all="ignore"):
        assert_disagrees(expectations(sampler, constant, moments_of_the_well, n_steps, **options), WELL, 0.03)


@pytest.mark.extended
@pytest.mark.short_cases("ou")
@pytest.mark.parametrize("scheme", ["ou", "aboba", "baoab"])
def test_noise_on_the_circle(scheme):
    def noise(x):
        return 500.0 * (1.2 + x[:, 0])

    def square(state):
        return (state.position @ [0.5, np.sqrt(0.75)]) ** 2

    target = Noisy(circle(), noise)
    sampler = SGGMC(0.01, 10.0, n_steps=5, scheme=scheme)
    options = {"burn_in": 100, "n_chains": 600}
    estimate = expectations(sampler, target, square, 250, **options)
    assert_agrees(estimate, 0.8213233726, 0.004)
    assert_disagrees(expectations(sampler, Declaring(target, 100.0), square, 250, **options), 0.8213233726, 0.004)


@pytest.mark.parametrize("form", ["number", "diagonal", "matrix"])
@pytest.mark.parametrize("sampler", [SGLD(0.05), SGHMC(0.05), SGGMC(0.05)], ids=repr)
def test_a_constant_function_is_its_value(sampler, form):
    value = {"number": 2.0, "diagonal": np.array([1.0, 3.0]), "matrix": np.array([[2.0, 0.5], [0.5, 1.0]])}[form]
    given = NoisyGradient(banana(), value)
    by_position = NoisyGradient(banana(), lambda x: np.broadcast_to(value, (len(x), *np.shape(value))))
    *_, one = walk(sampler, given, 20, n_chains=5)
    *_, other = walk(sampler, by_position, 20, n_chains=5)
    np.testing.assert_allclose(other.position, one.position, rtol=1e-12)


def test_functions_of_a_single_point():
    each = Density(
        Euclidean(2), lambda x: -x, log_density=lambda x: -0.5 * x @ x, noise_covariance=lambda x: np.diag(1 + x**2)
    )
    x = np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_allclose(each.noise_covariance(x), [np.diag(1 + point**2) for point in x])


def test_check_recipe_compares_the_noise_at_the_points():
    check_recipe(SGLD(), NoisyGradient(banana(), lambda x: 1 + x**2))
    other = NoisyGradient(banana(), lambda x: 2 + x**2).noise_covariance
    wrong = Declaring(NoisyGradient(banana(), lambda x: 1 + x**2), other)
    with pytest.raises(InvalidRecipeError, match="gradient noise"):
        check_recipe(SGLD(), wrong)


def test_noise_in_linear_coordinates():
    sigma = np.array([[2.0, 0.6], [0.6, 0.5]])
    root = np.linalg.cholesky(sigma)
    chart = Linear(NoisyGradient(banana(), lambda x: 1 + x**2), sigma)
    y = np.random.default_rng(0).normal(size=(3, 2))
    exact = [root.T @ np.diag(1 + (root @ each) ** 2) @ root for each in y]
    np.testing.assert_allclose(chart.noise_covariance(y), exact)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: np.ones((len(x), 3)),
            r"covariance must return a number, or shape \(2,\) or \(2, 2\).*it returned \(3,\)",
        ),
        (lambda x: np.full(len(x), np.nan), "covariance returned a number that is not finite"),
        (lambda x: -np.ones(len(x)), "covariance returned a negative variance, -1"),
    ],
)
def test_wrong_functions_are_refused(function, message):
    target = Noisy(standard_normal(2), function)
    with pytest.raises(ValueError, match=f"^{message}"):
        list(walk(SGLD(), target, 1, n_chains=4))


def test_functions_without_argument_are_refused():
    with pytest.raises(TypeError, match=r"^covariance is called as covariance\(x\)"):
        NoisyGradient(standard_normal(2), lambda: 1.0)
