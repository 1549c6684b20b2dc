"""The converse of the recipe: the curl of a given drift and density in the plane."""

import numpy as np
import pytest
from scipy.integrate import quad

from skmanifold.models._reference import banana
from skmanifold.samplers import recover_curl
from skmanifold.samplers._density.recipe import InvalidRecipeError

from ._recipes import FRICTION, HAMILTONIAN, random_recipe


def test_curl_of_hamiltonian_dynamics_is_minus_one_and_the_printed_sign_gives_the_opposite():
    def log_density(z):
        return 2 * z[0] ** 2 - z[0] ** 4 - z[1] ** 2 / 2

    z = np.array([0.6, 0.9])
    curl = recover_curl(lambda z: [z[1], 4 * z[0] * (1 - z[0] ** 2)], np.zeros((2, 2)), log_density, z)
    np.testing.assert_allclose(curl, HAMILTONIAN, atol=1e-8)
    printed, _ = quad(lambda s: s * np.exp(log_density([z[0], s]) - log_density(z)), -np.inf, z[1])  # (S.11), of Q_21
    np.testing.assert_allclose(printed, -curl[1, 0], atol=1e-8)


def test_curl_of_sghmc_is_that_of_hmc():
    z = np.random.default_rng(0).normal(size=(3, 2))
    curl = recover_curl(
        lambda z: [z[1], -z[0] - 1.5 * z[1]], FRICTION, lambda z: -0.5 * (z @ z) - 700, z
    )  # exp(-700) would underflow where it is squared
    assert curl.shape == (3, 2, 2)
    np.testing.assert_allclose(curl, np.broadcast_to(HAMILTONIAN, (3, 2, 2)), atol=1e-8)


@pytest.mark.short_cases("0")
@pytest.mark.parametrize("seed", [0, 1])
def test_curl_that_varies_is_recovered_from_the_drift(seed):
    target, recipe = banana(), random_recipe(seed, 2, 0)
    z = np.random.default_rng(seed).normal(size=(2, 2)) * [1.0, 0.3] - [0.0, 0.9]

    def drift(point):
        gradient = np.empty((1, 2))
        target.grad_log_density(point[None], None, gradient)
        return recipe._recipe_drift(point[None], gradient, False)[0]

    curl = recover_curl(drift, recipe.diffusion, lambda point: target.log_density(point[None])[0], z)
    np.testing.assert_allclose(curl, recipe.curl(z), rtol=1e-6, atol=1e-7)


def test_curl_on_a_half_plane():
    def log_density(z):
        return -(z[0] ** 2) / 2 + 1.5 * np.log(z[1]) - z[1]

    def curl(z):  # Q_12; no flux crosses the wall
        return z[1] * (1 + 0.5 * np.sin(z[0]))

    def drift(z):  # D = 0
        score = [-z[0], 1.5 / z[1] - 1]
        return [curl(z) * score[1] + 1 + 0.5 * np.sin(z[0]), -curl(z) * score[0] - z[1] * 0.5 * np.cos(z[0])]

    z = np.array([0.3, 1.7])
    found = recover_curl(drift, np.zeros((2, 2)), log_density, z, bounds=(0, np.inf))
    np.testing.assert_allclose(found[0, 1], curl(z), rtol=1e-7)


def test_curl_of_a_density_that_is_not_stationary_is_refused():
    with pytest.raises(InvalidRecipeError, match="not stationary: the net flux"):
        recover_curl(lambda z: [1.0, -z[0]], np.zeros((2, 2)), lambda z: -0.5 * (z @ z), [0.3, -0.8])
    with pytest.raises(ValueError, match=r"z must be of shape \(2,\) or \(n, 2\)"):
        recover_curl(lambda z: z, np.zeros((2, 2)), lambda z: -0.5 * (z @ z), [0.3, -0.8, 1.0])
