"""A sampler from any D, Q and energy: its update, its law, and what it refuses."""

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density
from skmanifold.models._reference import NoisyGradient, banana, double_well, gamma
from skmanifold.samplers._density.base import NonFiniteError
from skmanifold.samplers._density.langevin import SGLD, SGRLD
from skmanifold.samplers._density.recipe import InvalidRecipeError, Recipe, joint_state

from ._evidence import assert_agrees, chain_keys, expectations, walk
from ._flat_targets import FLAT_TARGETS
from ._recipes import FRICTION, HAMILTONIAN


def run(sampler, target, n_steps, n_chains=8, position=None):
    *_, state = walk(sampler, target, n_steps, n_chains=n_chains, position=position)
    return state


def estimate(sampler, target, statistics, time, n_chains, burn_in=8.0):
    """Means of statistics of z over chains and time, and their standard errors."""
    steps = [int(duration / sampler.step_size) for duration in (time, burn_in)]
    options = {"burn_in": steps[1], "n_chains": n_chains}
    return expectations(sampler, target, lambda state: statistics(joint_state(state)), steps[0], **options)


def sghmc(**options):
    return Recipe(FRICTION, HAMILTONIAN, n_auxiliary=1, **options)


def wavy(n_auxiliary=1, **options):
    """Position-dependent D and Q of the double well's z = (x, r), positive definite, with an energy of all of z."""

    def diffusion(z):
        root = np.zeros((len(z), 2, 2))
        root[:, 0, 0], root[:, 1, 0], root[:, 1, 1] = 0.7, 0.3 * np.sin(z[:, 1]), 1 + 0.2 * np.sin(z[:, 0])
        return root @ root.mT

    def curl(z):
        return (1 + 0.4 * np.cos(z[:, 0] + z[:, 1]))[:, None, None] * HAMILTONIAN

    def energy(z):
        return (z[:, 1] - np.sin(z[:, 0])) ** 2

    return Recipe(diffusion, curl, energy, n_auxiliary=n_auxiliary, vectorized=True, **options)


def test_step_is_the_euler_step():
    target, h = NoisyGradient(banana(), [[2.0, 0.5], [0.5, 1.0]]), 0.05
    rng = np.random.default_rng(0)
    root, skew = rng.normal(size=(2, 3, 3))
    D, Q = root @ root.T, skew - skew.T
    sampler = Recipe(D, lambda z: Q * z[0], n_auxiliary=1, step_size=h)
    state = sampler.init(target, chain_keys(3))
    z = joint_state(state)
    state = sampler.step(target, state)
    # The keys of the step tell gradient and noise; all else anew, in the plainest way.
    gradient, keys = np.empty((3, 2)), state.memory.keys
    target.grad_log_density(z[:, :2].copy(), keys, gradient)
    for c in range(3):
        both = D + Q * z[c, 0]
        gamma_ = Q[:, 0]  # sum_j d_j (Q_ij z_0)
        drift = -both @ np.array([*-gradient[c], z[c, 2]]) + gamma_
        np.testing.assert_allclose(joint_state(state)[c] - state.memory.noise[c], z[c] + h * drift, rtol=1e-9)
    V = np.zeros((3, 3))
    V[:2, :2] = target.noise_covariance
    noise = []
    for seed in range(8):
        fresh = sampler.init(target, chain_keys(5000, seed), np.ones((5000, 2)))
        noise.append(sampler.step(target, fresh._replace(momentum=np.ones((5000, 1)))).memory.noise.copy())
    noise = np.concatenate(noise)
    expected = h * (2 * D - h * (D + Q) @ V @ (D + Q).T)
    values, vectors = np.linalg.eigh(expected)
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(noise.T @ noise / len(noise), expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("covariance", [None, 3.0])
def test_langevin_as_a_recipe_is_sgld_path_by_path(covariance):
    target = banana() if covariance is None else NoisyGradient(banana(), covariance)
    start = np.array([0.5, -1.0])
    first = run(SGLD(step_size=0.02), target, 30, 6, position=start)
    second = run(Recipe(np.eye(2), np.zeros((2, 2)), step_size=0.02), target, 30, 6, position=start)
    np.testing.assert_allclose(second.position, first.position, rtol=1e-9)


def test_riemannian_langevin_as_a_recipe_is_sgrld_path_by_path():
    target = gamma(2.0)
    first = run(SGRLD(step_size=0.02), target, 30)
    second = run(Recipe(lambda z: [[z[0]]], [[0.0]], step_size=0.02), target, 30)
    np.testing.assert_allclose(second.position, first.position, rtol=1e-8)


def test_one_point_at_a_time_is_all_at_once():
    def scalar(function):
        return lambda z: function(z[None])[0]

    both = wavy()
    single = clone(both).set_params(
        diffusion=scalar(both.diffusion), curl=scalar(both.curl), hamiltonian=scalar(both.hamiltonian), vectorized=False
    )
    np.testing.assert_allclose(
        joint_state(run(single, double_well(), 5)), joint_state(run(both, double_well(), 5)), rtol=1e-12
    )


def test_complex_step_is_the_central_difference():
    sampler = Recipe(lambda z: [[1 + z[0] ** 2, 0], [0, 1]], HAMILTONIAN, lambda z: np.cosh(z[1]), n_auxiliary=1)
    central = run(sampler, double_well(), 10)
    exact = run(clone(sampler).set_params(derivative="complex"), double_well(), 10)
    np.testing.assert_allclose(joint_state(exact), joint_state(central), rtol=1e-8)


def test_given_correction_and_drift_are_used():
    metric = Recipe(lambda z: [[1 + z[0] ** 2]], [[0.0]])
    derived = run(metric, double_well(), 10)
    given = run(clone(metric).set_params(correction=lambda z: 2 * z), double_well(), 10)
    whole = run(clone(metric).set_params(drift=lambda z, gradient: (1 + z**2) * gradient + 2 * z), double_well(), 10)
    np.testing.assert_allclose(given.position, derived.position, rtol=1e-9)
    np.testing.assert_allclose(whole.position, derived.position, rtol=1e-9)


# Laws


@pytest.mark.extended
def test_any_pair_of_matrices_reaches_the_double_well():
    target = FLAT_TARGETS["double well"]
    found = estimate(wavy(step_size=0.01), target.density, lambda z: target.moments(z[:, :1]), time=4, n_chains=1000)
    assert_agrees(found, target.exact, 0.02 * target.exact)
    assert (found.error < 0.02).all()


# A value among scikit-learn's


def test_it_is_a_value():
    sampler = sghmc(step_size=0.3)
    copy = clone(sampler)
    assert copy is not sampler
    np.testing.assert_array_equal(copy.diffusion, sampler.diffusion)
    assert sampler.set_params(step_size=0.1).step_size == 0.1
    assert repr(sampler).startswith("Recipe(curl=array(")
    assert sampler.recipe(double_well()) is sampler


def test_auxiliary_variables_begin_where_documented():
    state = sghmc().init(double_well(), chain_keys(2000))
    assert state.momentum.shape == (2000, 1)
    assert abs(state.momentum.std() - 1) < 0.1
    assert not wavy().init(double_well(), chain_keys(3)).momentum.any()
    assert not hasattr(Recipe([[1.0]], [[0.0]]).init(double_well(), chain_keys(3)), "momentum")


def test_shapes_of_points_are_kept():
    target = Density(Euclidean((2, 3)), lambda x: -x)
    sampler = Recipe(np.eye(7), np.zeros((7, 7)), n_auxiliary=1)
    state = run(sampler, target, 3, n_chains=4)
    assert state.position.shape == (4, 2, 3)
    assert state.momentum.shape == (4, 1)


def test_noise_of_minibatches_is_learnt():
    data = np.random.default_rng(0).normal(size=(50, 1))
    target = Density(Euclidean(1), lambda x, rows: data[rows] - x, n_samples=50).minibatched(5)
    state = run(sghmc(noise_covariance="fisher"), target, 5)
    assert state.memory.covariance.values.min() > 0


# Refusals


def test_a_step_refuses_a_diffusion_that_goes_wrong_on_the_way():
    start = np.array([0.5])
    sampler = Recipe(lambda z: [[0.5 - (z[0] != 0.5)]], [[0.0]])
    with pytest.raises(InvalidRecipeError, match=r"its least eigenvalue is -0\.5"):
        run(sampler, double_well(), 3, 2, position=start)
    for name, options in (
        ("diffusion", {"diffusion": lambda z: [[1.0 if z[0] == 0.5 else np.nan]], "correction": np.zeros_like}),
        ("drift", {"diffusion": [[1.0]], "drift": lambda z, gradient: [0.0 if z[0] == 0.5 else np.nan]}),
    ):
        options = {"curl": [[0.0]], "drift": lambda z, gradient: gradient} | options
        with pytest.raises(NonFiniteError, match=f"a {name} that is not finite at step 1 of chain 0") as caught:
            run(Recipe(**options), double_well(), 3, 2, position=start)
        assert caught.value.state.n_steps == 1
