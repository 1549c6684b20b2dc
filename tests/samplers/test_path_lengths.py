"""Metropolis samplers draw the lengths of their paths: a fixed length resonates with the dynamics."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skmanifold import sample
from skmanifold.manifolds import Sphere
from skmanifold.models._reference import standard_normal
from skmanifold.samplers import GMC, HMC

from ._evidence import assert_agrees, expectations
from ._flat_targets import uniform


def effective_draws_of_squares(target, sampler):
    draws = sample(target, sampler, n_draws=1000, n_chains=4, random_state=0)
    return np.median(draws.map(np.square).ess())


@pytest.mark.extended
def test_half_a_period_of_a_normal_density_does_not_keep_squares():
    h = np.pi / 10
    assert effective_draws_of_squares(standard_normal(), HMC(h, 10)) > 1000
    with pytest.warns(ConvergenceWarning, match="The chains have not converged"):
        assert effective_draws_of_squares(standard_normal(), HMC(h, 10, jitter=0)) < 50


def test_half_a_great_circle_does_not_keep_squares():
    h = np.pi / np.sqrt(99) / 4  # the speed in 99 dimensions is nearly the same at every transition
    assert effective_draws_of_squares(uniform(Sphere(100)), GMC(h, 4)) > 1000
    with pytest.warns(ConvergenceWarning, match="The chains have not converged"):
        assert effective_draws_of_squares(uniform(Sphere(100)), GMC(h, 4, jitter=0)) < 200


@pytest.mark.covering
@pytest.mark.parametrize("jitter", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_every_jitter_is_exact(jitter, n_steps):
    def moments(state):
        return np.hstack([state.position, state.position**2, state.position**4])

    estimate = expectations(HMC(0.9, n_steps, jitter), standard_normal(), moments, 300, burn_in=50, n_chains=500)
    assert_agrees(estimate, [0, 1, 3])


@pytest.mark.parametrize("n_steps", [1, 10])
def test_paths_have_uniform_lengths_and_steps_no_longer_than_asked(n_steps):
    sampler = HMC(0.2, n_steps, jitter=0.4)
    h, numbers = sampler._paths(0, 4000)
    assert h.max() <= 0.2 * (1 + 1e-12)
    shares = (h * numbers / (0.2 * n_steps) - 0.6) / 0.8
    assert shares.min() >= 0
    assert shares.max() <= 1
    errors = np.abs(np.sort(shares) - (np.arange(4000) + 0.5) / 4000)
    assert errors.max() < 1.95 / np.sqrt(4000)  # Kolmogorov's distance: 1 in 1000
    assert numbers.mean() < n_steps + 0.6
    for values, later in zip((h, numbers), sampler._paths(3000, 1000), strict=True):
        np.testing.assert_array_equal(values[3000:], later)


def test_without_jitter_all_paths_are_the_same():
    h, n_steps = GMC(0.3, 7, jitter=0)._paths(0, 100)
    assert (h == 0.3).all()
    assert (n_steps == 7).all()
