import itertools

import numpy as np
import pytest
from samplers._evidence import assert_agrees, summarize
from scipy.special import digamma, logsumexp, polygamma

from skmanifold.mixture._dirichlet_process.gamma_target import (
    GammaBlocks,
    init_block,
    log_proportions,
    log_rows,
    redraw_column_sums,
    resize_block,
    step_block,
)
from skmanifold.models import IncompatibleError
from skmanifold.samplers import GMC, SCIR, SGHMC, SGLD, SGNHT, SGRHMC, SGRLD, SVRG

START = np.array([0, 2, 5])
COUNTS = np.array([[3.0, 0.5, 0.0, 7.0, 1.25], [0.0, 0.0, 0.0, 0.0, 0.0], [10.0, 0.0, 2.0, 0.0, 300.0]])
MOVERS = [SCIR(0.3), SGRLD(0.01), SGRHMC(0.01), SGLD(0.01), SGHMC(0.01), SGNHT(0.01)]
KEY = np.uint64(12)


def target(n_rows=3, prior=0.7):
    return GammaBlocks(np.full(5, prior), np.resize(COUNTS, (n_rows, 5)), START)


def empty(n_rows, prior=0.7):
    return GammaBlocks(np.full(5, prior), np.zeros((n_rows, 5)), START)


def log_density(blocks, position):
    """Of each chain: the gamma prior times the likelihood of the proportions."""
    sums = np.stack([position[..., a:b].sum(axis=2) for a, b in itertools.pairwise(START)], axis=2)
    totals = np.add.reduceat(blocks.shapes - 0.7, START[:-1], axis=1)
    of_prior = ((blocks.shapes - 1) * np.log(position) - position).sum(axis=(1, 2))
    return of_prior - (totals * np.log(sums)).sum(axis=(1, 2))


def column_sums(log_theta):
    return np.stack([logsumexp(log_theta[:, a:b], axis=1) for a, b in itertools.pairwise(START)], axis=1)


def test_the_gradient_is_that_of_the_log_density():
    blocks = target()
    theta = np.random.default_rng(0).gamma(2.0, size=(2, 3, 5))
    gradient, slope = np.empty_like(theta), np.empty_like(theta)
    blocks.grad_log_density(theta, None, gradient)
    for place in np.ndindex(3, 5):
        step = np.zeros((3, 5))
        step[place] = 1e-6
        slope[(..., *place)] = (log_density(blocks, theta + step) - log_density(blocks, theta - step)) / 2e-6
    np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-6)


def test_rows_begin_at_draws_given_the_counts():
    n = 9000
    state = init_block(SCIR(), target(n), KEY)
    logs = log_proportions(SCIR(), state, START)
    assert logs.shape == (5, n)
    sums = np.add.reduceat(COUNTS + 0.7, START[:-1], axis=1).repeat([2, 3], axis=1)
    for row in range(3):
        exact = digamma(COUNTS[row] + 0.7) - digamma(sums[row])
        assert_agrees(summarize(logs[:, row::3].T), exact)


def test_rows_of_tiny_gammas_keep_their_logarithms():
    state = init_block(SCIR(0.5), empty(50, prior=1e-4), KEY)
    for _ in range(3):
        state = step_block(SCIR(0.5), empty(50, prior=1e-4), state)
    logs = log_proportions(SCIR(), state, START)
    assert np.isfinite(logs).all()
    assert logs.min() < -1000
    np.testing.assert_allclose(np.exp(logs[:2]).sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(np.exp(logs[2:]).sum(axis=0), 1, rtol=1e-12)


@pytest.mark.parametrize("sampler", MOVERS, ids=lambda sampler: sampler.short_name)
def test_rows_that_are_dropped_and_born_leave_the_others_alone(sampler):
    state = init_block(sampler, target(), KEY)
    for _ in range(4):
        state = step_block(sampler, target(), state)
    shorter = resize_block(sampler, empty(2), state, log_proportions(sampler, state, START), KEY)
    born = np.random.default_rng(1).dirichlet(np.ones(5), size=4).T
    born[:2] /= born[:2].sum(axis=0)
    born[2:] /= born[2:].sum(axis=0)
    longer = resize_block(sampler, empty(4), shorter, np.log(born), np.uint64(3))
    assert shorter.position.shape == (1, 2, 5)
    assert longer.position.shape == (1, 4, 5)
    for name in ("position", "momentum", "log_theta"):
        before, after = getattr(state, name, None), getattr(longer, name, None)
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before[:, :2], after[:, :2])
    if hasattr(state, "momentum"):
        assert np.ptp(longer.momentum[0, 2:]) > 0
    if hasattr(state, "thermostat"):
        np.testing.assert_array_equal(state.thermostat, longer.thermostat)
    assert (longer.n_steps, longer.key) == (4, state.key)
    np.testing.assert_allclose(np.exp(log_proportions(sampler, longer, START)[:, 2:]), born[:, 2:], rtol=1e-12)
    after = step_block(sampler, target(4), longer)
    assert np.isfinite(log_rows(sampler, after)).all()


def test_the_sums_of_rows_that_are_born_have_the_law_of_the_prior():
    n = 4000
    state = init_block(SCIR(), target(1), KEY)
    logs = np.log(np.repeat([[0.5], [0.5], [1 / 3], [1 / 3], [1 / 3]], n + 1, axis=1))
    sums = column_sums(log_rows(SCIR(), resize_block(SCIR(), empty(n + 1), state, logs, KEY)))[1:]
    shapes = 0.7 * np.array([2, 3])
    assert_agrees(summarize(np.exp(sums)), shapes)
    assert_agrees(summarize((sums - digamma(shapes)) ** 2), polygamma(1, shapes))


def test_sums_are_redrawn_given_the_counts_and_proportions_stay():
    n = 3000
    state = init_block(SCIR(), empty(n), KEY)
    before = log_proportions(SCIR(), state, START)
    after = redraw_column_sums(target(n), state, np.uint64(5))
    np.testing.assert_allclose(log_proportions(SCIR(), after, START), before, atol=1e-11)
    np.testing.assert_array_equal(after.position, np.exp(after.log_theta))
    shapes = np.add.reduceat(COUNTS + 0.7, START[:-1], axis=1)
    for row in range(3):
        assert_agrees(summarize(np.exp(column_sums(log_rows(SCIR(), after))[row::3])), shapes[row])


@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        (GMC(), "a fixed density"),
        (SGRLD(control_variate=SVRG()), "gradients of all rows"),
        (SGHMC(control_variate=SVRG()), "gradients of all rows"),
        (SGRHMC(noise_covariance="fisher"), "fisher"),
        (SCIR(step_size=-1.0), "step_size"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_samplers_that_need_a_target_that_stays_are_refused(sampler, reason):
    with pytest.raises(ValueError if reason == "step_size" else IncompatibleError, match=reason):
        init_block(sampler, target(), KEY)
