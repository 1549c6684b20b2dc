"""Linear coordinates: the same density, exact covariances of noise, and samplers with the mass matrix."""

import numpy as np
import pytest

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density, Linear, NoisyGradient, banana, gamma, standard_normal
from skmanifold.samplers import SGHMC, Recipe, check_recipe

SIGMA = np.array([[2.0, 0.6], [0.6, 0.5]])
PRECISION = np.linalg.inv(SIGMA)


def normal():
    """N(0, SIGMA)."""
    return Density(
        Euclidean(2),
        lambda x: -x @ PRECISION,
        log_density=lambda x: -0.5 * np.einsum("...i,ij,...j", x, PRECISION, x),
        vectorized=True,
    )


def test_coordinates_of_a_normal_are_standard_normal():
    y = np.random.default_rng(0).standard_normal((6, 2))
    log_density = Linear(normal(), SIGMA).log_density(y)
    np.testing.assert_allclose(log_density, -0.5 * (y**2).sum(axis=1) + 0.5 * np.linalg.slogdet(SIGMA)[1])


@pytest.mark.parametrize("noise", [3.0, [1.0, 4.0], [[2.0, -0.5], [-0.5, 1.0]]])
@pytest.mark.parametrize("covariance", [SIGMA, np.array([0.3, 2.0])], ids=["matrix", "diagonal"])
def test_covariance_of_gradient_noise_is_exact(noise, covariance):
    chart = Linear(NoisyGradient(standard_normal(2), noise), covariance)
    n = 60_000
    found = np.empty((n, 2))
    chart.grad_log_density(np.zeros((n, 2)), np.arange(n, dtype=np.uint64), found)
    np.testing.assert_allclose(np.cov(found.T), chart.noise_covariance, rtol=0.03, atol=0.03)


def test_sghmc_in_linear_coordinates_is_sghmc_with_a_mass_matrix():
    """Equations 10 to 12 of Ma et al. (2015) with mass M and friction matrix C M are right for the target."""
    friction = 1.4
    mass_recipe = Recipe(
        np.block([[np.zeros((2, 2)), np.zeros((2, 2))], [np.zeros((2, 2)), friction * PRECISION]]),
        np.block([[np.zeros((2, 2)), -np.eye(2)], [np.eye(2), np.zeros((2, 2))]]),
        hamiltonian=lambda z: z[2:] @ SIGMA @ z[2:] / 2,
        n_auxiliary=2,
        step_size=0.05,
    )
    check_recipe(mass_recipe, banana())
    check_recipe(SGHMC(friction=friction), Linear(banana(), SIGMA))
    # one Euler step without noise: x' = x + h M^-1 r, r' = r + h grad - h C M M^-1 r
    chart = Linear(banana(), SIGMA)
    keys = np.arange(3, dtype=np.uint64)
    x = np.random.default_rng(1).normal(size=(3, 2))
    state = SGHMC(0.05, friction=friction, scheme="euler").init(chart, keys, chart.coordinates(x))
    velocity = np.random.default_rng(2).normal(size=(3, 2))
    root = np.linalg.cholesky(SIGMA)
    momentum = np.linalg.solve(root.T, velocity.T).T
    state.momentum[...] = velocity
    state = SGHMC(0.05, friction=friction, scheme="euler").step(chart, state)
    np.testing.assert_allclose(chart.point(state.position), x + 0.05 * momentum @ SIGMA, rtol=1e-10)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        (np.eye(3), r"of shape \(2,\) or \(2, 2\); got \(3, 3\)"),
        (2.0, r"of shape \(2,\) or \(2, 2\); got \(\)"),
        ([1.0, 0.0], "positive definite"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite; its least eigenvalue is -1"),
        ([[1.0, 0.2], [0.3, 1.0]], "symmetric"),
    ],
)
def test_wrong_covariances_are_refused(covariance, message):
    with pytest.raises(ValueError, match=rf"^covariance must be .*{message}"):
        Linear(standard_normal(2), covariance)


def test_other_manifolds_are_refused():
    with pytest.raises(TypeError, match=r"^Linear needs a target on a Euclidean"):
        Linear(gamma([1.0, 2.0]), np.eye(2))
