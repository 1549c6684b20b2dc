"""Exact transitions: gammas, Dirichlet rows and log-normals at any step size, and what minibatches add."""

import numpy as np
import pytest
from scipy import stats

from skmanifold.manifolds import Euclidean, PositiveOrthant, Simplex
from skmanifold.models import (
    Density,
    DirichletPosterior,
    IncompatibleError,
    LogNormalMean,
    dirichlet,
    gamma,
    sparse_dirichlet,
)
from skmanifold.samplers import SCIR, GeometricBrownian, NonFiniteError, PolynomialDecay

from ._counts import GammaPosterior, log_gamma_cdf
from ._evidence import assert_agrees, assert_disagrees, chain_keys, summarize, variance, walk

N_CHAINS = 4000
NO_DISTANCE = 2.2 / np.sqrt(N_CHAINS)  # of independent draws from the law itself, once in 8,000

# 1000 observations of two categories, 300 of the first; one coordinate's shape is 0.1 + 300.
COUNTS = DirichletPosterior([0.1, 0.1], np.repeat([0, 1], [300, 700]))
SHAPE = 300.1
SHAPE_VARIANCE = 1000**2 / 10 * 0.3 * 0.7 * 990 / 999  # of the estimate from 10, drawn without replacement


# --- the process -----------------------------------------------------------------------------------------


@pytest.mark.extended
@pytest.mark.parametrize(("batch_size", "exact"), [(None, 182.85), (10, 3127.0)], ids=["all", "minibatch"])
def test_five_transitions_have_the_mean_and_variance_of_corollary_4_2(batch_size, exact):
    target = GammaPosterior(COUNTS.minibatched(batch_size))
    *_, state = walk(SCIR(0.3), target, 5, n_chains=40_000, position=np.array([5.0, 5.0]), seed=1)
    theta = state.position[:, 0]
    assert_agrees(summarize(theta), 234.254, 1e-3)
    assert_agrees(variance(theta), exact, 0.05)
    assert_disagrees(variance(theta), 3127.0 if batch_size is None else 182.85)


@pytest.mark.extended
@pytest.mark.short_cases("0.5", "2.0")
@pytest.mark.parametrize("h", [0.1, 0.5, 2.0])
def test_minibatches_add_to_the_stationary_variance_as_stated(h):
    target = GammaPosterior(COUNTS.minibatched(10))
    n_steps = round(12 / h)
    *_, state = walk(SCIR(h), target, n_steps, n_chains=20_000, position=np.array([300.0, 700.0]))
    theta = state.position[:, 0]
    assert_agrees(summarize(theta), SHAPE)
    assert_agrees(variance(theta), SHAPE + np.tanh(h / 2) * SHAPE_VARIANCE)
    assert_disagrees(variance(theta), SHAPE + h * SHAPE_VARIANCE)


@pytest.mark.covering
@pytest.mark.parametrize("h", [0.01, 0.7, 8.0])
@pytest.mark.parametrize("start", [1e-12, 0.4, 30.0])
def test_a_transition_is_noncentral_chi_square(start, h):
    shape = 1.3
    *_, state = walk(SCIR(h), gamma(shape), 1, n_chains=N_CHAINS, position=np.array([start]))
    lost = -np.expm1(-h)
    law = stats.ncx2(2 * shape, 2 * start * np.exp(-h) / lost, scale=lost / 2)
    assert stats.kstest(state.position[:, 0], law.cdf).statistic < NO_DISTANCE
    wrong = stats.ncx2(2 * shape, 2 * start * np.exp(-h) / lost, scale=1.2 * lost / 2)
    assert stats.kstest(state.position[:, 0], wrong.cdf).statistic > NO_DISTANCE or (start, h) == (30.0, 0.01)


def test_step_sizes_may_fall():
    *_, state = walk(SCIR(PolynomialDecay(2.0, b=3, c=1)), gamma(0.7), 30, n_chains=N_CHAINS)
    assert stats.kstest(state.position[:, 0], stats.gamma(0.7).cdf).statistic < NO_DISTANCE


# --- shapes that floats cannot hold ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", [1e-4, 1e-2])
def test_tiny_shapes_lose_nothing(shape):
    *_, state = walk(SCIR(1.0), gamma(shape), 20, n_chains=N_CHAINS)
    log_theta = state.log_theta[:, 0]
    assert np.isfinite(log_theta).all()
    assert stats.kstest(log_theta, lambda y: log_gamma_cdf(y, shape)).statistic < NO_DISTANCE
    if shape == 1e-4:
        assert (state.position == 0).mean() > 0.9  # the law itself is there
        assert stats.kstest(-shape * log_theta, stats.expon.cdf).statistic < NO_DISTANCE


def test_rows_of_tiny_shapes_are_normalised():
    target = dirichlet(np.full((3, 5), 1e-4))
    *_, state = walk(SCIR(0.5), target, 5, n_chains=N_CHAINS)
    assert np.isfinite(state.position).all()
    np.testing.assert_allclose(state.position.sum(axis=2), 1, rtol=1e-12)
    first = state.position.max(axis=2)
    assert (first > 0.99).mean() > 0.99
    winners = np.bincount(state.position.argmax(axis=2).ravel(), minlength=5)
    assert stats.chisquare(winners).pvalue > 1e-4


@pytest.mark.short_cases("1.0")
@pytest.mark.parametrize("h", [0.05, 1.0])
def test_dirichlet_rows_are_independent_and_exact(h):
    concentrations = np.array([[0.5, 2.0, 4.0], [10.0, 0.1, 1.0]])
    *_, state = walk(SCIR(h), dirichlet(concentrations), round(15 / h), n_chains=N_CHAINS)
    total = concentrations.sum(axis=1)
    for row in range(2):
        for j in range(3):
            law = stats.beta(concentrations[row, j], total[row] - concentrations[row, j])
            assert stats.kstest(state.position[:, row, j], law.cdf).statistic < NO_DISTANCE
    products = summarize(state.position[:, 0, 0] * state.position[:, 1, 0])
    assert_agrees(products, np.prod(concentrations[:, 0] / total))


def test_a_chain_on_the_simplex_may_begin_at_a_vertex():
    *_, state = walk(SCIR(0.5), dirichlet([0.5, 2.0, 4.0]), 30, n_chains=N_CHAINS, position=np.array([1.0, 0.0, 0.0]))
    assert stats.kstest(state.position[:, 0], stats.beta(0.5, 6).cdf).statistic < NO_DISTANCE


def test_a_stationary_start_on_the_simplex_is_kept():
    # row sums are drawn with the first position: without them the first transitions would not be stationary
    rng = np.random.default_rng(0)
    position = rng.dirichlet([0.5, 2.0, 4.0], N_CHAINS)
    target = dirichlet([0.5, 2.0, 4.0])
    for state in walk(SCIR(0.3), target, 3, n_chains=N_CHAINS, position=position):
        for j, law in enumerate([stats.beta(0.5, 6), stats.beta(2, 4.5), stats.beta(4, 2.5)]):
            assert stats.kstest(state.position[:, j], law.cdf).statistic < NO_DISTANCE
        totals = np.exp(state.log_theta).sum(axis=1)
        assert stats.kstest(totals, stats.gamma(6.5).cdf).statistic < NO_DISTANCE


@pytest.mark.short_cases("1.0", "0.1")
@pytest.mark.parametrize(("h", "published"), [(1.0, 0.086), (0.1, 0.031), (0.01, 0.0148)])
def test_minibatches_widen_the_law_on_the_simplex(h, published):
    target, exact = sparse_dirichlet(), 0.01265
    start = target.concentrations / target.concentrations.sum()
    n_steps = round(6 / h)
    *_, state = walk(SCIR(h), target.minibatched(10), n_steps, n_chains=800, position=start)
    np.testing.assert_allclose(state.position[:, 0].std(), published, rtol=0.12)
    assert abs(state.position[:, 0].mean() - start[0]) < 0.01
    *_, state = walk(SCIR(h), target, n_steps, n_chains=800, position=start)
    np.testing.assert_allclose(state.position[:, 0].std(), exact, rtol=0.12)


# --- log-normals -----------------------------------------------------------------------------------------

OBSERVED = np.random.default_rng(5).normal(0.7, 1.5, 60)
LOG_NORMAL = LogNormalMean(0.2, 4.0, OBSERVED, 2.0)


@pytest.mark.extended
@pytest.mark.parametrize("h", [0.01, 0.5, 5.0])
def test_geometric_brownian_motion_is_exact_at_every_step_size(h):
    *_, state = walk(GeometricBrownian(h), LOG_NORMAL, max(3, round(12 / h)), n_chains=N_CHAINS)
    law = stats.norm(LOG_NORMAL.log_mean[0], np.sqrt(LOG_NORMAL.log_variance[0]))
    logs = np.log(state.position[:, 0])
    assert stats.kstest(logs, law.cdf).statistic < NO_DISTANCE
    assert stats.kstest(logs, stats.norm(law.mean(), 1.25 * law.std()).cdf).statistic > NO_DISTANCE


@pytest.mark.extended
@pytest.mark.parametrize("h", [0.2, 1.0])
def test_geometric_brownian_motion_with_minibatches_has_the_stated_variance(h):
    n, N = 6, 60
    noise = (LOG_NORMAL.log_variance[0] / 2.0 * N) ** 2 * OBSERVED.var() / n * (N - n) / (N - 1)
    target = LOG_NORMAL.minibatched(n)
    *_, state = walk(GeometricBrownian(h), target, round(12 / h), n_chains=20_000, position=np.ones(1))
    logs = np.log(state.position[:, 0])
    assert_agrees(summarize(logs), LOG_NORMAL.log_mean[0])
    assert_agrees(variance(logs), LOG_NORMAL.log_variance[0] + np.tanh(h / 2) * noise)
    assert_disagrees(variance(logs), LOG_NORMAL.log_variance[0])


def test_a_transition_of_geometric_brownian_motion_has_its_mean_and_variance():
    h, m, v = 0.3, LOG_NORMAL.log_mean[0], LOG_NORMAL.log_variance[0]
    *_, state = walk(GeometricBrownian(h), LOG_NORMAL, 2, n_chains=20_000, position=np.array([8.0]))
    logs = np.log(state.position[:, 0])
    assert_agrees(summarize(logs), m + np.exp(-2 * h) * (np.log(8) - m))
    assert_agrees(variance(logs), v * (1 - np.exp(-4 * h)))


# --- what is refused -------------------------------------------------------------------------------------


def counting(manifold, counts):
    return Density(manifold, expected_counts=counts, vectorized=True)


def test_scir_needs_an_orthant_or_a_simplex():
    with pytest.raises(IncompatibleError, match=r"^SCIR moves on a positive orthant or a simplex, not on Euclidean"):
        SCIR().init(counting(Euclidean(2), np.ones_like), chain_keys(2))


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("manifold", [PositiveOrthant(2), Simplex(2)], ids=repr)
def test_shapes_that_are_none_stop_the_chain(manifold, bad):
    def counts(x):
        out = np.ones_like(x)
        if counts.n_calls > 2:
            out[1] = bad
        counts.n_calls += 1
        return out

    counts.n_calls = 0
    message = r"^SCIR met a shape that is not .* at step [23] of chain 1; .*`state` holds"
    with pytest.raises(NonFiniteError, match=message) as caught:
        for _ in walk(SCIR(), counting(manifold, counts), 5, n_chains=3):
            pass
    assert caught.value.state.position.shape == (3, 2)
    assert np.isfinite(caught.value.state.position).all()


def test_geometric_brownian_motion_must_begin_above_zero():
    with pytest.raises(ValueError, match="initial coordinates of GeometricBrownian must be positive"):
        GeometricBrownian().init(LOG_NORMAL, chain_keys(2), np.zeros((2, 1)))
