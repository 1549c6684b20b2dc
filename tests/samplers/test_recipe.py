"""A sampler from any D, Q and energy: its update, its law, and what it refuses."""

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold.manifolds import Euclidean
from skmanifold.models import Density
from skmanifold.models._reference import NoisyGradient, banana, double_well, gamma, standard_normal
from skmanifold.samplers._density.base import NonFiniteError
from skmanifold.samplers._density.langevin import SGLD, SGRLD
from skmanifold.samplers._density.recipe import InvalidRecipeError, Recipe, joint_state

HAMILTONIAN = np.array([[0.0, -1.0], [1.0, 0.0]])


def keys_of(n_chains, seed=0):
    return np.random.default_rng(seed).integers(0, 2**64, n_chains, dtype=np.uint64)


def run(sampler, target, n_steps, n_chains=8, seed=0, position=None):
    state = sampler.init(target, keys_of(n_chains, seed), position)
    for _ in range(n_steps):
        state = sampler.step(target, state)
    return state


def estimate(sampler, target, statistics, time, n_chains, seed=0, burn_in=8.0, position=None):
    """Means of statistics of z over chains and time, and their standard errors from independent chains."""
    h = sampler.step_size
    state = run(sampler, target, int(burn_in / h), n_chains, seed, position)
    total, n_steps = 0.0, int(time / h)
    for _ in range(n_steps):
        state = sampler.step(target, state)
        total = total + statistics(joint_state(state))
    means = total / n_steps
    return means.mean(axis=0), means.std(axis=0) / np.sqrt(n_chains)


def sghmc(**options):
    return Recipe(np.diag([0.0, 1.5]), HAMILTONIAN, n_auxiliary=1, **options)


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
    state = sampler.init(target, keys_of(3))
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
        fresh = sampler.init(target, keys_of(5000, seed), np.ones((5000, 2)))
        noise.append(sampler.step(target, fresh._replace(momentum=np.ones((5000, 1)))).memory.noise.copy())
    noise = np.concatenate(noise)
    expected = h * (2 * D - h * (D + Q) @ V @ (D + Q).T)
    values, vectors = np.linalg.eigh(expected)
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(noise.T @ noise / len(noise), expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("covariance", [None, 3.0])
def test_langevin_as_a_recipe_is_sgld_path_by_path(covariance):
    target = banana() if covariance is None else NoisyGradient(banana(), covariance)
    start = np.tile([0.5, -1.0], (6, 1))
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
        diffusion=scalar(both.diffusion),
        curl=scalar(both.curl),
        hamiltonian=scalar(both.hamiltonian),
        vectorized=False,
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


def moments(z):
    return np.stack([z[:, 0] ** 2, z[:, 0] ** 4, np.abs(z[:, 0]), z[:, 1] ** 2], axis=1)


@pytest.mark.extended
def test_sghmc_reaches_the_double_well():
    mean, error = estimate(sghmc(step_size=0.01), double_well(), moments, time=4, n_chains=4000)
    exact = np.array([0.8327454871, 1.0827454871, 0.8273924393, 1.0])
    assert (np.abs(mean - exact) < 5 * error + 0.02 * exact).all()  # Euler's bias is of the order of h
    assert (error < 0.02).all()


@pytest.mark.extended
def test_any_pair_of_matrices_reaches_the_double_well():
    mean, error = estimate(wavy(step_size=0.01), double_well(), moments, time=4, n_chains=1000)
    exact = np.array([0.8327454871, 1.0827454871, 0.8273924393])
    assert (np.abs(mean[:3] - exact) < 5 * error[:3] + 0.02 * exact).all()


@pytest.mark.long
def test_thermostat_reaches_the_normal():
    d, a = 2, 1.0

    def curl(z):
        Q = np.zeros((len(z), 5, 5))
        Q[:, :2, 2:4], Q[:, 2:4, :2] = -np.eye(2), np.eye(2)
        Q[:, 2:4, 4], Q[:, 4, 2:4] = z[:, 2:4] / d, -z[:, 2:4] / d
        return Q

    def energy(z):
        return 0.5 * (z[:, 2:4] ** 2).sum(axis=1) + d / 2 * (z[:, 4] - a) ** 2

    sampler = Recipe(np.diag([0, 0, a, a, 0]), curl, energy, n_auxiliary=3, step_size=0.02, vectorized=True)

    def statistics(z):
        return np.stack([z[:, 0] ** 2, z[:, 0] * z[:, 1], z[:, 2] ** 2, z[:, 4], (z[:, 4] - a) ** 2], axis=1)

    mean, error = estimate(sampler, standard_normal(2), statistics, time=5, n_chains=600, burn_in=10)
    assert (np.abs(mean - [1.0, 0.0, 1.0, a, 1 / d]) < 5 * error + 0.03).all()


def test_gradient_noise_is_taken_off():
    noisy, h = NoisyGradient(standard_normal(), 40.0), 0.05  # h V = 2, of the 2 C = 3 that friction asks for
    options = {"time": 6, "n_chains": 2000}

    def heat(z):
        return z[:, 1:] ** 2

    quiet, error = estimate(sghmc(step_size=h), standard_normal(), heat, **options)
    with_it, other = estimate(sghmc(step_size=h), noisy, heat, **options)
    assert abs(quiet - with_it) < 5 * np.hypot(error, other)
    without, _ = estimate(sghmc(step_size=h, noise_covariance=None), noisy, heat, **options)
    assert 1.4 < without / quiet < 1.9  # 1 + h V / (2 C) = 1.67


@pytest.mark.long
@pytest.mark.parametrize("flip", [True, False])
def test_momentum_turns_round_at_the_wall(flip):
    def diffusion(z):
        return z[:, :1, None] * np.diag([0.0, 1.0])

    def curl(z):
        return np.sqrt(z[:, :1, None]) * HAMILTONIAN

    sampler = Recipe(diffusion, curl, n_auxiliary=1, step_size=0.01, vectorized=True, flip=flip)
    mean, error = estimate(sampler, gamma(0.5), lambda z: z[:, 0], time=5, n_chains=800, burn_in=15)
    if flip:
        assert abs(mean - 0.5) < 5 * error + 0.03
    else:
        assert mean < 0.1


# A value among scikit-learn's


def test_it_is_a_value():
    sampler = sghmc(step_size=0.3)
    copy = clone(sampler)
    assert copy is not sampler
    np.testing.assert_array_equal(copy.diffusion, sampler.diffusion)
    assert sampler.set_params(step_size=0.1).step_size == 0.1
    assert repr(sampler).startswith("Recipe(curl=array(")
    assert sampler.recipe(double_well()) is sampler


def test_same_keys_same_bytes_and_chains_do_not_see_each_other():
    target = NoisyGradient(double_well(), 1.0)
    first, second = run(wavy(), target, 20), run(wavy(), target, 20)
    assert joint_state(first).tobytes() == joint_state(second).tobytes()
    keys = keys_of(8)
    alone = wavy().init(target, keys[3:4])
    for _ in range(20):
        alone = wavy().step(target, alone)
    assert joint_state(alone)[0].tobytes() == joint_state(first)[3].tobytes()


def test_auxiliary_variables_begin_where_documented():
    state = sghmc().init(double_well(), keys_of(2000))
    assert state.momentum.shape == (2000, 1)
    assert abs(state.momentum.std() - 1) < 0.1
    assert not wavy().init(double_well(), keys_of(3)).momentum.any()
    assert not hasattr(Recipe([[1.0]], [[0.0]]).init(double_well(), keys_of(3)), "momentum")


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


@pytest.mark.parametrize(
    ("sampler", "sentence"),
    [
        (Recipe([[-1.0]], [[0.0]]), r"diffusion is not positive semi-definite: .* eigenvalue is -1 at z = \["),
        (Recipe([[1.0]], [[0.1]]), r"curl is not skew-symmetric: Q [+] Q' has an entry of size 0.2 at z = \["),
        (Recipe([[1.0, 0.1], [0.0, 1.0]], HAMILTONIAN, n_auxiliary=1), "diffusion is not symmetric"),
        (
            Recipe([[1.0]], [[0.0]], n_auxiliary=1),
            r"shape \(2, 2\), because z has 2 entries, of which 1 are auxiliary; got",
        ),
        (Recipe(lambda z: z, [[0.0]]), r"diffusion must be of shape \(1, 1\)"),
        (Recipe(lambda z: [[np.inf]], [[0.0]]), "diffusion is not finite at z = "),
    ],
)
def test_init_refuses_what_is_no_recipe(sampler, sentence):
    with pytest.raises(InvalidRecipeError, match=sentence):
        sampler.init(double_well(), keys_of(3))


@pytest.mark.parametrize(
    "options", [{"n_auxiliary": -1}, {"derivative": "forward"}, {"flip": "yes"}, {"curl": None}, {"hamiltonian": 1.0}]
)
def test_parameters_are_checked(options):
    sampler = Recipe(np.eye(1), np.zeros((1, 1))).set_params(**options)
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter of Recipe"):
        sampler.init(double_well(), keys_of(3))


def test_a_step_refuses_a_diffusion_that_goes_wrong_on_the_way():
    start = np.full((2, 1), 0.5)
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


def test_noise_beyond_the_diffusion_is_clipped():
    state = run(sghmc(step_size=0.1), NoisyGradient(double_well(), 1000.0), 5)
    assert np.isfinite(joint_state(state)).all()
