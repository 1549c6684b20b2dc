"""Second-order samplers on flat spaces: each scheme's law on a normal target, limits, thermostats and metrics."""

import numpy as np
import pytest

from skmanifold.models import standard_normal
from skmanifold.samplers import HMC, SGHMC, SGLD, SGNHT, SGRHMC, NonFiniteError

from ._evidence import Estimate, assert_agrees, assert_disagrees, chain_keys, expectations, walk
from ._flat_targets import FLAT_TARGETS, Noisy, potential_divergence, potential_metric
from ._linear import I, Step, baoab, euler, normal_target, second_moments
from ._pair import mean_position, no_divergence, pair_of_samples

NOISES = {"none": None, "number": 3.0, "diagonal": np.array([4.0, 1.0]), "matrix": np.array([[3.0, 1.0], [1.0, 2.0]])}
METRIC = np.array([[1.5, 0.4], [0.4, 0.6]])
FRICTION = np.array([[2.0, 0.5], [0.5, 1.0]])
SCHEMES = {"euler": euler, "baoab": baoab}


def matrix_of(noise):
    return np.zeros((2, 2)) if noise is None else np.diag(noise) if np.ndim(noise) == 1 else noise * I


def root_of(metric):
    values, vectors = np.linalg.eigh(metric)
    return vectors * np.sqrt(values) @ vectors.T


def full_metric(x):
    return np.broadcast_to(METRIC, (len(x), 2, 2))


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sghmc_has_the_law_of_its_linear_recursion(scheme, noise):
    sampler, V = SGHMC(0.2, friction=1.5, scheme=scheme), matrix_of(NOISES[noise])
    estimate = second_moments(sampler, normal_target(NOISES[noise]))
    assert_agrees(estimate, SCHEMES[scheme](0.2, 1.5 * I, gradient_noise=V, compensated=V).stationary())
    if noise != "none":
        assert_disagrees(estimate, SCHEMES[scheme](0.2, 1.5 * I, gradient_noise=V).stationary())


@pytest.mark.extended
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sghmc_takes_the_covariance_that_it_is_given(scheme):
    V, given = matrix_of(NOISES["matrix"]), np.array([1.0, 2.0])
    sampler = SGHMC(0.2, friction=1.5, scheme=scheme, noise_covariance=given)
    exact = SCHEMES[scheme](0.2, 1.5 * I, gradient_noise=V, compensated=np.diag(given)).stationary()
    assert_agrees(second_moments(sampler, normal_target(V)), exact)


@pytest.mark.extended
@pytest.mark.parametrize("noise", ["none", "matrix"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sghmc_with_a_friction_matrix_has_the_law_of_its_linear_recursion(scheme, noise):
    sampler, V = SGHMC(0.2, friction=FRICTION, scheme=scheme), matrix_of(NOISES[noise])
    estimate = second_moments(sampler, normal_target(NOISES[noise]), n_chains=600)
    assert_agrees(estimate, SCHEMES[scheme](0.2, FRICTION, gradient_noise=V, compensated=V).stationary())
    if noise != "none":
        assert_disagrees(estimate, SCHEMES[scheme](0.2, FRICTION, gradient_noise=V).stationary())


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_multiple_of_the_identity_is_a_number(scheme):
    *_, one = walk(SGHMC(0.05, friction=3.0, scheme=scheme), normal_target(2.0), 50, n_chains=5)
    *_, other = walk(SGHMC(0.05, friction=3.0 * I, scheme=scheme), normal_target(2.0), 50, n_chains=5)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-9)


@pytest.mark.parametrize(
    ("friction", "message"),
    [
        (np.eye(3), r"a positive number or of shape \(2, 2\); got \(3, 3\)"),
        ([[1.0, 0.5], [0.0, 1.0]], "a symmetric matrix"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive definite; its least eigenvalue is -1"),
    ],
)
def test_wrong_friction_matrices_are_refused(friction, message):
    with pytest.raises(ValueError, match=f"^friction must be {message}"):
        SGHMC(friction=friction).init(normal_target(1.0), chain_keys(2))


@pytest.mark.extended
@pytest.mark.parametrize(("name", "every"), [("SGHMC", 2), ("SGHMC", 7), ("SGRHMC", 5), ("SGRHMC", 10)])
def test_new_momenta_have_the_law_of_their_linear_recursion(name, every):
    if name == "SGHMC":
        sampler, step = SGHMC(0.2, friction=1.5, resample_every=every), baoab(0.2, 1.5 * I)
    else:
        sampler = SGRHMC(0.2, full_metric, scheme="euler", resample_every=every)
        step = euler(0.2, METRIC, root_of(METRIC))
    new = Step(np.diag([1.0, 1, 0, 0]), np.diag([0.0, 0, 1, 1]))
    cycle = new
    for _ in range(every):
        cycle = cycle.then(step)
    law, laws = cycle.stationary(), []
    for phase in range(every):
        for move in (new, step) if phase == 0 else (step,):
            law = move.matrix @ law @ move.matrix.T + move.noise
        laws.append(law)
    estimate = second_moments(sampler, normal_target(), n_steps=17 * every, n_chains=1000)
    assert_agrees(estimate, np.mean(laws, axis=0))
    assert_disagrees(estimate, step.stationary())


@pytest.mark.parametrize("sampler", [SGHMC, SGRHMC])
def test_new_momenta_at_each_euler_step_are_refused(sampler):
    with pytest.raises(ValueError, match=r"^resample_every must be at least 2 with scheme='euler'"):
        sampler(scheme="euler", resample_every=1).init(normal_target(), chain_keys(2))


def test_momenta_are_drawn_again_after_so_many_steps_of_the_integrator():
    plain, resampling = (SGHMC(0.05, n_steps=2, resample_every=every) for every in (None, 4))
    *_, one = walk(plain, normal_target(), 2, n_chains=5)
    *_, other = walk(resampling, normal_target(), 2, n_chains=5)
    np.testing.assert_array_equal(one.momentum, other.momentum)  # the first four steps
    *_, one = walk(plain, normal_target(), 3, n_chains=5)
    *_, other = walk(resampling, normal_target(), 3, n_chains=5)
    assert (one.momentum != other.momentum).all()


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("noise", ["none", "matrix"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sgrhmc_with_a_full_metric_has_the_law_of_its_linear_recursion(scheme, noise):
    sampler, V, root = SGRHMC(0.2, full_metric, scheme=scheme), matrix_of(NOISES[noise]), root_of(METRIC)
    estimate = second_moments(sampler, normal_target(NOISES[noise]), n_steps=120, n_chains=300)
    assert_agrees(estimate, SCHEMES[scheme](0.2, METRIC, root, V, V).stationary())


@pytest.mark.extended
@pytest.mark.parametrize("scheme", SCHEMES)
def test_sgrhmc_with_a_diagonal_metric_has_the_law_of_its_linear_recursion(scheme):
    diagonal, V = np.array([1.5, 0.5]), matrix_of(NOISES["diagonal"])
    sampler = SGRHMC(0.2, lambda x: np.broadcast_to(diagonal, x.shape), scheme=scheme)
    exact = SCHEMES[scheme](0.2, np.diag(diagonal), np.diag(np.sqrt(diagonal)), V, V).stationary()
    assert_agrees(second_moments(sampler, normal_target(NOISES["diagonal"])), exact)


def test_baoab_has_no_bias_on_a_normal_target():
    exact = np.linalg.inv([[2.0, 0.6], [0.6, 1.0]])
    np.testing.assert_allclose(baoab(0.5).stationary()[:2, :2], exact, rtol=1e-12)
    mean, error = second_moments(SGHMC(0.5), normal_target())
    assert_agrees(Estimate(mean[:2, :2], error[:2, :2]), exact)
    mean, error = second_moments(SGHMC(0.2, scheme="euler"), normal_target())
    assert_disagrees(Estimate(mean[:2, :2], error[:2, :2]), exact)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_identity_metric_is_no_metric(scheme):
    target = Noisy(FLAT_TARGETS["banana"].density, 2.0)
    flat, riemannian = SGHMC(0.02, scheme=scheme), SGRHMC(0.02, np.ones_like, scheme=scheme)
    *_, one = walk(flat, target, 200, n_chains=5)
    *_, other = walk(riemannian, target, 200, n_chains=5)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-9)
    np.testing.assert_allclose(one.momentum, other.momentum, rtol=1e-9)


def test_diagonal_and_matrix_metrics_move_alike():
    target = FLAT_TARGETS["banana"]
    ends = []
    for form in ("diagonal", "matrix"):
        sampler = SGRHMC(0.01, potential_metric(target, form))
        *_, state = walk(sampler, target.density, 100, n_chains=5, position=target.start)
        ends.append(state.position.copy())
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


def test_divergence_by_differences_is_the_given_one():
    target = FLAT_TARGETS["banana"]
    metric = potential_metric(target)

    def root_divergence(x):  # of the root of the metric
        return potential_divergence(target)(x) / (2 * np.sqrt(metric(x)))

    ends = []
    for divergence in (None, root_divergence):
        sampler = SGRHMC(0.01, metric, divergence)
        *_, state = walk(sampler, target.density, 100, n_chains=5, position=target.start)
        ends.append(state.position.copy())
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)


def energy_error(sampler, time=2.0):
    """Largest change of H along trajectories; the momentum of "baoab" is half a kick before the position."""
    target = FLAT_TARGETS["double well"].density
    state = sampler.init(target, chain_keys(20), np.linspace(-1.4, 1.4, 20)[:, None])
    energies = []
    for _ in range(round(time / sampler.step_size)):
        gradient = 4 * state.position * (1 - state.position**2)
        v = state.momentum + sampler.step_size / 2 * gradient
        energies.append(-target.log_density(state.position) + (v**2).sum(axis=1) / 2)
        state = sampler.step(target, state)
    return np.abs(energies - energies[0]).max()


def test_without_friction_and_noise_the_energy_stays_to_second_order():
    errors = [energy_error(SGHMC(h, friction=1e-30)) for h in (0.02, 0.01)]
    assert errors[0] < 0.05
    assert 3.5 < errors[0] / errors[1] < 4.5


def test_eulers_scheme_gains_energy_to_first_order():
    errors = [energy_error(SGHMC(h, friction=1e-30, scheme="euler")) for h in (0.002, 0.001)]
    assert 1.8 < errors[0] / errors[1] < 2.2


def test_leapfrog_steps_are_accepted_to_second_order_in_the_step():
    target = FLAT_TARGETS["double well"]

    def rejected(h):
        moved = lambda state: state.accepted  # noqa: E731
        sampler = HMC(h, round(0.6 / h))
        return 1 - expectations(sampler, target.density, moved, 200, burn_in=50, position=target.start).mean

    rates = [rejected(h) for h in (0.2, 0.1, 0.05)]
    assert 3 < rates[0] / rates[1] < 5.5  # E |Delta H| is of order h^2
    assert 3 < rates[1] / rates[2] < 5.5


def test_hmc_reports_the_log_density_of_its_position():
    target = FLAT_TARGETS["banana"].density
    for state in walk(HMC(0.2, 5), target, 20, n_chains=50):
        np.testing.assert_allclose(state.log_density, target.log_density(state.position), rtol=1e-12)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("d", [1, 4])
def test_thermostat_has_its_own_normal_law(scheme, d):
    h = 0.05 if scheme == "baoab" else 0.005
    target = standard_normal(d)

    def moments(state):
        deviation = state.thermostat - 2.0
        return np.stack([deviation, deviation**2, (state.momentum**2).mean(axis=1)], axis=1)

    sampler = SGNHT(h, friction=2.0, scheme=scheme)
    estimate = expectations(sampler, target, moments, round(100 / h), burn_in=round(20 / h), n_chains=200)
    assert_agrees(estimate, [0.0, 1 / d, 1.0], bias=h / d + h**2)
    assert_disagrees(estimate, [0.0, 2.0 / d, 1.0], bias=h / d + h**2)


def test_thermostat_absorbs_noise_that_nobody_declared():
    target = Noisy(standard_normal(3), 40.0)
    sampler = SGNHT(0.02, friction=1.0)
    estimate = expectations(sampler, target, lambda state: state.thermostat, 4000, burn_in=2000, n_chains=100)
    assert_agrees(estimate, 1 + 0.02 * 40 / 2, bias=0.02)


@pytest.mark.extended
@pytest.mark.parametrize("scheme", SCHEMES)
def test_metric_with_a_minibatch_of_its_own_is_unbiased(scheme):
    target, metric, _ = pair_of_samples()
    sampler = SGRHMC(0.05, metric, no_divergence, metric_batch_size=1, scheme=scheme)
    assert_agrees(mean_position(sampler, target), 0.0, bias=0.01)


@pytest.mark.extended
@pytest.mark.parametrize("scheme", SCHEMES)
def test_metric_of_the_gradients_minibatch_is_biased(scheme):
    target, _, metric = pair_of_samples()
    sampler = SGRHMC(0.05, metric, no_divergence, scheme=scheme)
    assert_disagrees(mean_position(sampler, target), 0.0, bias=0.01)


@pytest.mark.parametrize(
    "sampler",
    [SGHMC(1.0), SGHMC(1.0, scheme="euler"), SGNHT(1.0), SGNHT(1.0, scheme="euler"), SGLD(1.0)],
    ids=repr,
)
def test_divergence_of_the_dynamics_is_reported(sampler):
    target = FLAT_TARGETS["banana"].density
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match=f"{type(sampler).__name__} met a gradient"):
        for _ in walk(sampler, target, 1000, n_chains=50):
            pass
