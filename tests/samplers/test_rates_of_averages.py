"""Bias and squared error of averages over L steps, as Chen et al. (2015) state them for integrators of order K.

Liu et al. (2016) cite these rates: with the best step size the bias falls as L^(-K/(K+1)) and the squared error as
L^(-2K/(2K+1)). On a normal target the means and covariances of a chain are linear recursions, so that both are exact
here: the bias of the average of x^2 from a start away from the target, and its squared error in the stationary chain.
"""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skmanifold.models import standard_normal
from skmanifold.samplers import SGGMC, SGHMC

from ._evidence import walk

FRICTION = 1.0
NOISE = 3.0  # variance V of the gradient
LENGTHS = 10.0 ** np.arange(4, 8)
START = np.diag([9.0, 0.0])  # covariance of position and velocity


def aboba(h, variance):
    """A step of SGGMC, and the covariance of its noise."""
    flow = np.array([[1.0, h / 2], [0.0, 1.0]])
    damping = np.diag([1.0, np.exp(-FRICTION * h / 2)])
    kick = np.array([[1.0, 0.0], [-h, 1.0]])
    after = flow @ damping
    return after @ kick @ damping @ flow, after @ np.diag([0.0, variance]) @ after.T


def euler(h, variance):
    """A step of SGHMC."""
    return np.array([[1.0, h], [-h, 1.0 - FRICTION * h]]), np.diag([0.0, variance])


def of_noise(h, v=0.0):
    """Variance of the velocity's noise with gradient noise of variance v, whose effect is not subtracted."""
    return 2 * FRICTION * h + v * h**2


def bias(integrator, h, n_steps, v=0.0):
    """Of the average of x^2 from the start."""
    step, noise = integrator(h, of_noise(h, v))
    stationary = solve_discrete_lyapunov(step, noise)
    pairs = np.kron(step, step)
    sums = np.linalg.solve(np.eye(4) - pairs, pairs - np.linalg.matrix_power(pairs, int(n_steps) + 1))
    return stationary[0, 0] - 1 + (sums @ (START - stationary).ravel())[0] / n_steps


def squared_error(integrator, h, n_steps, v=0.0):
    """Of the average of x^2 in the stationary chain."""
    step, noise = integrator(h, of_noise(h, v))
    stationary = solve_discrete_lyapunov(step, noise)
    values, vectors = np.linalg.eig(np.kron(step, step))
    weights = vectors[0] * np.linalg.solve(vectors, np.kron(stationary[0], stationary[0]))
    sums = values * (n_steps * (1 - values) - (1 - values**n_steps)) / (1 - values) ** 2
    variance = 2 * (n_steps * stationary[0, 0] ** 2 + 2 * (weights @ sums).real) / n_steps**2
    return variance + (stationary[0, 0] - 1) ** 2


def rate(error, integrator, power, v=0.0):
    """Exponent of L with which an error falls for step sizes proportional to L^power; of the two longest runs."""
    errors = [abs(error(integrator, 0.1 * (n / LENGTHS[0]) ** power, n, v)) for n in LENGTHS]
    return np.log10(errors[-1] / errors[-2])


@pytest.mark.parametrize(("integrator", "order"), [(euler, 1), (aboba, 2)])
def test_rates_with_exact_gradients(integrator, order):
    assert rate(bias, integrator, -1 / (order + 1)) == pytest.approx(-order / (order + 1), abs=0.02)
    found = rate(squared_error, integrator, -1 / (2 * order + 1))
    assert found == pytest.approx(-2 * order / (2 * order + 1), abs=0.02)


def test_an_integrator_of_order_two_has_the_rates_of_order_one_with_noisy_gradients():
    assert rate(bias, aboba, -1 / 3, NOISE) == pytest.approx(-1 / 3, abs=0.02)  # not -2/3
    assert rate(bias, aboba, -1 / 2, NOISE) == pytest.approx(-1 / 2, abs=0.02)
    assert rate(squared_error, aboba, -1 / 5, NOISE) == pytest.approx(-2 / 5, abs=0.02)  # not -4/5
    assert rate(squared_error, aboba, -1 / 3, NOISE) == pytest.approx(-2 / 3, abs=0.02)


@pytest.mark.parametrize(
    ("sampler", "integrator"),
    [
        (SGGMC(0.2, FRICTION, n_steps=1, scheme="aboba"), aboba),
        (SGHMC(0.2, FRICTION, n_steps=1, scheme="euler"), euler),
    ],
)
def test_recursions_are_those_of_the_samplers(sampler, integrator):
    """Two chains with the same noise differ by the step alone."""
    ends = []
    for x in (0.0, 1.0):
        for state in walk(sampler, standard_normal(), 7, n_chains=1, position=np.array([x])):
            end = np.array([state.position[0, 0], state.momentum[0, 0]])
        ends.append(end)
    step, _ = integrator(0.2, of_noise(0.2))
    np.testing.assert_allclose(ends[1] - ends[0], np.linalg.matrix_power(step, 7)[:, 0], rtol=1e-10)
