"""First-order samplers: the law of a step by matrices and quadrature, metrics, walls, and step sizes that fall."""

import numpy as np
import pytest

from skmanifold import sample
from skmanifold.models import gamma, standard_normal
from skmanifold.samplers import SGLD, SGRHMC, SGRLD, NonFiniteError, PolynomialDecay

from ._evidence import assert_agrees, assert_disagrees, expectations, walk
from ._flat_targets import FLAT_TARGETS, potential_divergence, potential_metric
from ._linear import PRECISION, langevin, normal_target, second_moments

METRIC = np.array([[1.5, 0.4], [0.4, 0.6]])
NOISE = np.array([[3.0, 1.0], [1.0, 2.0]])


def test_sgld_has_the_law_of_its_linear_recursion():
    estimate = second_moments(SGLD(0.2), normal_target())
    assert_agrees(estimate, langevin(0.2).stationary())
    assert_disagrees(estimate, np.linalg.inv(PRECISION))  # the bias of the step size is seen


def test_sgld_compensates_for_a_covariance_matrix():
    estimate = second_moments(SGLD(0.2), normal_target(NOISE))
    assert_agrees(estimate, langevin(0.2).stationary())
    estimate = second_moments(SGLD(0.2, noise_covariance=None), normal_target(NOISE))
    assert_agrees(estimate, langevin(0.2, gradient_noise=NOISE).stationary())


@pytest.mark.extended
def test_sgrld_with_a_full_metric_has_the_law_of_its_linear_recursion():
    sampler = SGRLD(0.2, lambda x: np.broadcast_to(METRIC, (len(x), 2, 2)))
    estimate = second_moments(sampler, normal_target(NOISE), n_chains=500)
    assert_agrees(estimate, langevin(0.2, METRIC, NOISE).stationary())


def chain_law(x, transition):
    """Stationary law on the grid x of a Markov chain, by the powers of its matrix."""
    transition /= transition.sum(axis=1, keepdims=True)
    for _ in range(13):
        transition = transition @ transition
    return transition[0]


def normal_density(y, mean, variance):
    return np.exp(-((y - mean) ** 2) / (2 * variance)) / np.sqrt(variance)


def stationary_line(sampler, target, metric=None, divergence=None):
    """The chain's own law on the line, bias of the step size and all."""
    x, h = ((np.arange(-208, 208) + 0.5) / 80)[:, None], sampler.step_size  # -1 and 1 are between points
    gradient = np.empty_like(x)
    target.density.grad_log_density(x, None, gradient)
    scale = np.ones_like(x) if metric is None else metric(x)
    shift = 0 if divergence is None else divergence(x)
    law = chain_law(x, normal_density(x.T, x + h * (scale * gradient + shift), 2 * h * scale))
    return law @ target.moments(x)


@pytest.mark.extended
@pytest.mark.short_cases("0.05")
@pytest.mark.parametrize("h", [0.01, 0.05])
def test_sgld_has_the_law_of_its_transitions(h):
    target, sampler = FLAT_TARGETS["double well"], SGLD(h)
    exact = stationary_line(sampler, target)
    estimate = of_positions(sampler, target, time=40, n_chains=2000)
    assert_agrees(estimate, exact)
    if h == 0.05:
        assert_disagrees(estimate, target.exact)


@pytest.mark.extended
@pytest.mark.short_cases("divergence")
@pytest.mark.parametrize("given", [True, False], ids=["divergence", "differences"])
def test_sgrld_has_the_law_of_its_transitions(given):
    target = FLAT_TARGETS["double well"]
    metric, divergence = potential_metric(target), potential_divergence(target)
    sampler = SGRLD(0.008, metric, divergence if given else None)
    estimate = of_positions(sampler, target, time=12)
    assert_agrees(estimate, stationary_line(sampler, target, metric, divergence))
    assert_disagrees(estimate, stationary_line(sampler, target, metric))


def of_positions(sampler, target, time, n_chains=1000):
    n_steps = round(time / sampler.step_size)
    return expectations(
        sampler,
        target.density,
        lambda state: target.moments(state.position),
        n_steps,
        burn_in=n_steps // 2,
        n_chains=n_chains,
        position=target.start,
    )


@pytest.mark.extended
def test_sgrld_is_mirrored_at_the_wall():
    shape, h = 1.5, 0.05
    x = (np.arange(640) + 0.5)[:, None] * 0.0125
    mean = x + h * (shape - x)
    law = chain_law(x, normal_density(x.T, mean, 2 * h * x) + normal_density(-x.T, mean, 2 * h * x))
    x = x[:, 0]

    def moments(x):
        return np.stack([x, x**2, x < 0.1, x < 0.5], axis=-1)

    estimate = expectations(
        SGRLD(h), gamma(shape), lambda state: moments(state.position[:, 0]), 1000, burn_in=300, n_chains=1000
    )
    assert_agrees(estimate, law @ moments(x), bias=2e-3)  # of the grid, where the noise vanishes


def test_exponent_of_the_decay_is_outside_of_the_bracket():
    decay = PolynomialDecay(a=0.01, b=1000, c=0.6)
    assert decay(0) == 0.01
    np.testing.assert_allclose(decay(1000), 0.01 * 2**-0.6)
    np.testing.assert_allclose(decay(9000), 0.01 * 10**-0.6)
    assert 0.01**-0.6 > 15.8  # the first step as printed


@pytest.mark.extended
def test_bias_vanishes_as_the_step_size_falls():
    target = FLAT_TARGETS["double well"]
    falling = SGLD(PolynomialDecay(0.08, b=25, c=0.6))
    estimate = expectations(
        falling,
        target.density,
        lambda s: target.moments(s.position),
        2000,
        burn_in=1500,
        n_chains=1000,
        position=target.start,
    )
    assert_agrees(estimate, target.exact, 0.01)
    assert_disagrees(of_positions(SGLD(0.04), target, 20), target.exact, 0.01)


def test_step_size_may_be_a_function_of_the_step():
    target = FLAT_TARGETS["standard normal"].density
    seen = []

    def schedule(t):
        seen.append(t)
        return 0.1 / (1 + t)

    *_, one = walk(SGLD(schedule), target, 5, n_chains=3)
    assert seen == [0, 1, 2, 3, 4]
    *_, other = walk(SGLD(PolynomialDecay(0.1, b=1, c=1)), target, 5, n_chains=3)
    np.testing.assert_allclose(one.position, other.position, rtol=1e-12)


@pytest.mark.parametrize("size", [0.0, -1.0, np.nan, np.inf])
def test_schedules_that_fail_are_refused(size):
    target = FLAT_TARGETS["standard normal"].density
    with pytest.raises(ValueError, match=r"step_size must be positive and finite; the schedule returned .* at step 3"):
        for _ in walk(SGLD(lambda t: 0.1 if t < 3 else size), target, 5):
            pass


@pytest.mark.parametrize("settings", [{"a": 0}, {"a": -0.1}, {"b": 0}, {"c": -1}])
def test_decay_refuses_what_does_not_fall(settings):
    with pytest.raises(ValueError, match="PolynomialDecay needs a > 0, b > 0 and c >= 0"):
        PolynomialDecay(**settings)(0)


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (lambda x: -np.ones_like(x), "inverse_metric must be positive"),
        (lambda x: np.broadcast_to([[1.0, 2.0], [2.0, 1.0]], (len(x), 2, 2)), "must be positive definite"),
        (lambda x: np.ones((len(x), 3)), "must return a diagonal shaped like the point"),
    ],
    ids=["negative", "indefinite", "shape"],
)
def test_metrics_that_are_none_are_refused(metric, message):
    with pytest.raises(ValueError, match=message):
        next(walk(SGRLD(0.01, metric), FLAT_TARGETS["banana"].density, 1, n_chains=4))


@pytest.mark.parametrize("matrix", [False, True])
@pytest.mark.parametrize("kind", [SGRLD, SGRHMC])
def test_a_metric_that_is_not_finite_stops_with_the_previous_draws(kind, matrix):
    """As when steps are too long and the position overflows."""
    n_calls = 0

    def inverse_metric(x):
        nonlocal n_calls
        n_calls += 1
        values = np.where(n_calls < 12, 1.0, np.nan) * np.ones_like(x)
        return values[:, :, None] * np.eye(2) if matrix else values

    sampler = kind(0.1, inverse_metric, divergence=np.zeros_like)
    with pytest.raises(NonFiniteError, match="inverse_metric returned numbers that are not finite") as caught:
        sample(standard_normal(2), sampler, n_draws=50, n_chains=1, burn_in=0)
    assert caught.value.state.position.shape == (1, 2)
    assert 0 < np.isfinite(caught.value.draws.position[0]).all(axis=1).sum() < 12


def test_own_minibatch_of_the_metric_needs_samples():
    sampler = SGRLD(0.01, lambda x, rows: np.ones_like(x), metric_batch_size=3)
    with pytest.raises(ValueError, match="metric_batch_size=3 needs a target with as many n_samples"):
        next(walk(sampler, FLAT_TARGETS["banana"].density, 1, n_chains=4))


def test_a_state_has_no_field_that_the_sampler_does_not_use():
    state = next(walk(SGLD(0.1), FLAT_TARGETS["banana"].density, 1, n_chains=2))
    assert not hasattr(state, "momentum")
    assert not hasattr(state, "thermostat")
