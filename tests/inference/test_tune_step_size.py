import numpy as np
import pytest

from skmanifold import sample, tune_step_size
from skmanifold.manifolds import Euclidean, Sphere
from skmanifold.models import Density
from skmanifold.models._reference import NoisyGradient
from skmanifold.samplers import GMC, GSGNHT, HMC, NUTS, SGGMC, SGHMC, SGLD

WIDE = Density(Euclidean(3), lambda x: -x / 9, lambda x: -np.sum(x * x, axis=1) / 18, vectorized=True)
UNIT = Density(Euclidean(3), lambda x: -x, lambda x: -np.sum(x * x, axis=1) / 2, vectorized=True)
ON_SPHERE = Density.linear(Sphere(3), [0.0, 0.0, 6.0])


@pytest.mark.parametrize("start", [0.01, 20.0])
@pytest.mark.parametrize(("sampler", "target"), [(HMC(n_steps=5), WIDE), (GMC(n_steps=3), ON_SPHERE)])
def test_metropolis_samplers_accept_four_of_five(sampler, target, start):
    tuned = tune_step_size(target, sampler.set_params(step_size=start), random_state=0)
    draws = sample(target, tuned.sampler, n_draws=500, n_chains=8, random_state=1)
    assert 0.7 < draws.stats["accepted"].mean() < 0.9
    assert tuned.step_sizes[0] == start
    assert np.isnan(tuned.change).all()


def test_the_step_size_follows_the_scale_of_the_density():
    sizes = [tune_step_size(target, HMC(n_steps=3), random_state=0).sampler.step_size for target in (WIDE, UNIT)]
    assert 2.0 < sizes[0] / sizes[1] < 4.5  # 3


@pytest.mark.extended
@pytest.mark.parametrize("start", [0.005, 2.0])
def test_langevin_steps_are_as_long_as_the_bias_allows(start):
    # The variance of SGLD on a unit normal is 1 / (1 - h / 2): halving h changes log sd by about h / 8.
    tuned = tune_step_size(UNIT, SGLD(start), tolerance=0.1, max_steps=4000, random_state=0)
    h = tuned.sampler.step_size
    assert 0.1 < h < 1.2
    draws = sample(UNIT, tuned.sampler, n_draws=4000, n_chains=16, random_state=1)
    assert abs(np.log(draws.position.std())) < 0.4
    assert tuned.step_sizes[0] == start
    assert np.isnan(tuned.acceptance).all()


@pytest.mark.extended
def test_noise_needs_smaller_steps():
    found = {}
    for noise in (None, 5.0):
        target = UNIT if noise is None else NoisyGradient(UNIT, noise)
        sampler = SGHMC(0.2, friction=1.0, noise_covariance=None)
        found[noise] = tune_step_size(target, sampler, max_steps=4000, random_state=0)
    assert found[5.0].sampler.step_size < found[None].sampler.step_size
    last = found[5.0]
    chosen = np.flatnonzero(last.step_sizes == last.sampler.step_size)[0]
    assert abs(last.temperature[chosen] - 1) < 0.1


@pytest.mark.extended
def test_thermostats_are_tuned_by_their_moments():
    tuned = tune_step_size(ON_SPHERE, GSGNHT(0.5), max_steps=1000, random_state=0)
    draws = sample(ON_SPHERE, tuned.sampler, n_draws=2000, n_chains=16, random_state=1)
    assert abs(draws.position[..., 2].mean() - (1 / np.tanh(6.0) - 1 / 6)) < 0.03


def test_the_given_sampler_is_not_changed_and_names_are_accepted():
    sampler = HMC(step_size=0.3)
    tuned = tune_step_size(WIDE, sampler, random_state=0)
    assert sampler.step_size == 0.3
    assert tuned.sampler is not sampler
    again = tune_step_size(WIDE, "hmc", random_state=0)
    assert isinstance(again.sampler, HMC)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tune_step_size(UNIT, NUTS()), "number as step_size"),
        (lambda: tune_step_size(UNIT, SGLD(), tolerance=0.0), "tolerance"),
        (lambda: tune_step_size(UNIT, SGLD(), n_chains=2), "n_chains"),
        (lambda: tune_step_size(UNIT, SGLD(), max_steps=10), "max_steps"),
        (
            lambda: tune_step_size(Density(Sphere(3), lambda x: x * np.nan, vectorized=True), SGGMC(), random_state=0),
            "No step size of SGGMC",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
