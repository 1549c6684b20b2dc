"""Thermostats of any mass: the law of the position is the same, that of the friction is N(C, 1 / (M d))."""

import numpy as np
import pytest

from skmanifold.manifolds import Sphere
from skmanifold.models import Density, circle, standard_normal
from skmanifold.samplers import GSGNHT, SGNHT, InvalidRecipeError, check_recipe

from ._evidence import assert_agrees, assert_disagrees, expectations
from ._flat_targets import FLAT_TARGETS, Noisy

MASSES = [0.1, 1.0, 10.0]
CIRCLE = [0.8213233726, 0.3393383137]  # E (mu_1'x)^2 and E x_1^2 of the circle's target
AXIS = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])


class ForgetsTheMass(SGNHT):
    """It moves its friction as if the mass were 1, and says that it does not."""

    def step(self, model, state):
        return SGNHT(**{**self.get_params(), "thermostat_mass": 1.0}).step(model, state)


class OtherMass(SGNHT):
    """The friction's rate is multiplied by the mass, not divided."""

    def step(self, model, state):
        return SGNHT(**{**self.get_params(), "thermostat_mass": 1 / self.thermostat_mass}).step(model, state)


def friction_moments(state):
    deviation = state.thermostat - 1.5
    return np.stack([deviation, deviation**2], axis=1)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("mass", MASSES)
@pytest.mark.parametrize("kind", [SGNHT, GSGNHT])
def test_positions_of_a_flat_space_do_not_feel_the_mass(kind, mass):
    target = FLAT_TARGETS["standard normal"]
    sampler = kind(0.1, 1.5, n_steps=1, scheme="baoab", thermostat_mass=mass)
    estimate = expectations(
        sampler, target.density, lambda state: target.moments(state.position), 800, burn_in=200, n_chains=400
    )
    assert_agrees(estimate, target.exact, 0.01)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("scheme", ["aboba", "ou", "baoab"])
@pytest.mark.parametrize("mass", MASSES)
def test_positions_on_the_circle_do_not_feel_the_mass(mass, scheme):
    # there are two modes, each as far from the origin: these squares do not ask which
    def squares(state):
        return np.stack([(state.position @ AXIS) ** 2, state.position[:, 0] ** 2], axis=1)

    sampler = GSGNHT(0.05, 1.5, n_steps=1, scheme=scheme, thermostat_mass=mass)
    estimate = expectations(sampler, circle(), squares, 800, burn_in=200, n_chains=200)
    assert_agrees(estimate, CIRCLE, 0.003)


@pytest.mark.extended
@pytest.mark.parametrize("mass", MASSES)
def test_the_friction_varies_with_the_mass_in_a_flat_space(mass):
    d = 3
    sampler = SGNHT(0.05, 1.5, thermostat_mass=mass)
    estimate = expectations(sampler, standard_normal(d), friction_moments, 3000, burn_in=1000, n_chains=100)
    assert_agrees(estimate, [0, 1 / (mass * d)], [0.01, 0.02 / (mass * d)])
    for wrong in ([0, 1 / d], [0, mass / d], [0, 1 / mass]):
        if wrong[1] != 1 / (mass * d):
            assert_disagrees(estimate, wrong, 0.02 / (mass * d))


@pytest.mark.extended
@pytest.mark.short_cases("0.1-aboba", "10.0-ou")
@pytest.mark.parametrize("scheme", ["aboba", "ou", "baoab"])
@pytest.mark.parametrize("mass", MASSES)
def test_the_friction_varies_with_the_mass_on_a_sphere(mass, scheme):
    target = Density.linear(Sphere(3), [0.0, 0.0, 2.0])
    sampler = GSGNHT(0.05, 1.5, n_steps=1, scheme=scheme, thermostat_mass=mass)
    estimate = expectations(sampler, target, friction_moments, 3000, burn_in=1000, n_chains=100)
    assert_agrees(estimate, [0, 1 / (mass * 2)], [0.01, 0.02 / (mass * 2)])
    assert_disagrees(estimate, [0, 1 / (mass * 3)], 0.02 / (mass * 2))  # the sphere's own dimension is two


@pytest.mark.extended
@pytest.mark.short_cases("1.0")
@pytest.mark.parametrize("mass", MASSES)
def test_noise_that_nobody_declared_raises_the_friction_whatever_the_mass(mass):
    sampler = SGNHT(0.02, 1.0, thermostat_mass=mass)
    estimate = expectations(
        sampler, Noisy(standard_normal(3), 40.0), lambda state: state.thermostat, 3000, burn_in=3000, n_chains=100
    )
    assert_agrees(estimate, 1 + 0.02 * 40 / 2, 0.02)


def test_a_light_thermostat_is_the_faster():
    """From a friction far off, M decides how long the way back to the mean takes."""

    def distance(mass):
        target = Noisy(standard_normal(50), 100.0)
        sampler = SGNHT(0.02, 1.0, thermostat_mass=mass)
        estimate = expectations(sampler, target, lambda state: state.thermostat, 100, burn_in=100, n_chains=50)
        return 2.0 - estimate.mean

    assert abs(distance(0.1)) < 0.1
    assert distance(100.0) > 0.5


@pytest.mark.parametrize("mass", [0.3, 3.0])
@pytest.mark.parametrize("kind", [SGNHT, GSGNHT])
def test_the_recipe_is_that_of_the_mass(kind, mass):
    target = FLAT_TARGETS["banana"].density
    check_recipe(kind(n_steps=1, thermostat_mass=mass), target)


@pytest.mark.parametrize("kind", [ForgetsTheMass, OtherMass])
def test_recipes_of_another_mass_are_refused(kind):
    target = FLAT_TARGETS["banana"].density
    check_recipe(kind(thermostat_mass=1.0), target)
    with pytest.raises(InvalidRecipeError):
        check_recipe(kind(thermostat_mass=0.3), target)
