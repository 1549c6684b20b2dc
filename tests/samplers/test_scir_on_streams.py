"""SCIR on a stream, where no minibatch comes twice: averages of the counts of earlier minibatches are smaller steps.

With step size h, independent estimates of variance s^2 add tanh(h/2) s^2 to the stationary variance. A moving average
of the estimates with weight 1 - exp(-g) adds tanh(h/2) tanh(g/2) / tanh((h + g)/2) s^2. This is symmetric in h and g,
at most what SCIR with the step size g adds without the average, and at least half of the smaller one of the two.
Counts at an anchor that are known from the last T minibatches alone, as a control variate would need them, add s^2 / T
for h of about 4 and more, about as much as the step size 2 / T does.
"""

import numpy as np
import pytest

from skmanifold.manifolds import PositiveOrthant
from skmanifold.models import Density
from skmanifold.samplers import SCIR

from ._evidence import assert_agrees, assert_disagrees, summarize, walk

SHAPE, DEVIATION, N_CHAINS = 300.0, 40.0, 30_000


def added(h, g):
    """Variance that a moving average adds, relative to that of the estimates."""
    return np.tanh(h / 2) * np.tanh(g / 2) / np.tanh((h + g) / 2)


class Averages:
    """Estimates of the shape that are moving averages of independent ones."""

    def __init__(self, g):
        self.kept = np.exp(-g)
        self.rng = np.random.default_rng(0)
        self.last = SHAPE + DEVIATION * np.sqrt(np.tanh(g / 2)) * self.rng.normal(size=N_CHAINS)

    def __call__(self, position):
        new = SHAPE + DEVIATION * self.rng.normal(size=N_CHAINS)
        self.last = self.kept * self.last + (1 - self.kept) * new
        return self.last[:, None]


class Blocks:
    """Estimates of the shape that are means of T independent ones, renewed after T steps."""

    def __init__(self, length):
        self.length, self.n_steps = length, 0
        self.rng = np.random.default_rng(1)

    def __call__(self, position):
        if self.n_steps % self.length == 0:
            self.mean = SHAPE + DEVIATION / np.sqrt(self.length) * self.rng.normal(size=N_CHAINS)
        self.n_steps += 1
        return self.mean[:, None]


def surplus(estimates, h, n_steps):
    """Variance of theta beyond that of a gamma distribution, relative to the variance of the estimates."""
    target = Density(PositiveOrthant(1), expected_counts=estimates, vectorized=True)
    *_, state = walk(SCIR(h), target, n_steps, n_chains=N_CHAINS, position=np.array([SHAPE]))
    squares = (state.position[:, 0] - SHAPE) ** 2
    return summarize((squares - SHAPE) / DEVIATION**2)


@pytest.mark.extended
@pytest.mark.parametrize(("h", "g"), [(0.6, 0.2), (0.2, 0.6), (1.5, 0.4)])
def test_variance_that_a_moving_average_adds(h, g):
    found = surplus(Averages(g), h, round(8 / min(h, g)))
    assert_agrees(found, added(h, g), 1e-3)
    assert_disagrees(found, np.tanh(h / 2), 1e-3)
    assert_disagrees(found, np.tanh(h / 2) * np.tanh(g / 2), 1e-3)  # if the averages were independent


@pytest.mark.parametrize("length", [4, 10])
def test_variance_that_counts_of_the_last_minibatches_add(length):
    found = surplus(Blocks(length), 6.0, 3 * length)
    assert_agrees(found, 1 / length, 0.02 / length)
    assert np.tanh(1 / length) == pytest.approx(1 / length, rel=0.03)  # the step size 2 / T


def test_bounds_of_the_variance_that_averages_add():
    steps = np.geomspace(0.01, 10, 40)
    h, g = np.meshgrid(steps, steps)
    smaller = np.minimum(np.tanh(h / 2), np.tanh(g / 2))
    assert np.all(added(h, g) <= smaller * (1 + 1e-12))
    assert np.all(added(h, g) >= smaller / 2)
