"""Gradient estimates: control variates, running covariances, compensation; streams, settings and states as values."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from skmanifold import sample
from skmanifold.manifolds import Euclidean, Sphere
from skmanifold.models import (
    Density,
    IncompatibleError,
    LogNormalMean,
    banana,
    circle,
    double_well,
    gamma,
    sparse_dirichlet,
    vmf_mixture_posterior,
)
from skmanifold.samplers import (
    GMC,
    GSGNHT,
    HMC,
    NUTS,
    ON_DENSITIES,
    SCIR,
    SGFS,
    SGGMC,
    SGHMC,
    SGLD,
    SGNHT,
    SGRHMC,
    SGRLD,
    SVRG,
    BlockwiseGMC,
    GeometricBrownian,
    NonFiniteError,
    PolynomialDecay,
    Recipe,
)

from ._evidence import assert_agrees, assert_disagrees, chain_keys, expectations, summarize, walk
from ._flat_targets import Noisy
from ._recipes import FRICTION, HAMILTONIAN

pytestmark = pytest.mark.filterwarnings("ignore:The mean kinetic temperature")  # not the point here

N, BATCH = 7, 3
CENTRES = np.random.default_rng(2).standard_normal((N, 2)) * [1.0, 3.0]


def regression(d=2, centres=CENTRES):
    """Samples with gradients that differ, and bend: ``tanh(c - x)`` of each, and a normal prior."""

    def gradients(x, rows):
        return np.tanh(centres[rows] - x[:, None, :])

    def values(x, rows):
        return -np.logaddexp(centres[rows] - x[:, None, :], x[:, None, :] - centres[rows]).sum(axis=2)

    return Density(
        Euclidean(d),
        gradients,
        values,
        n_samples=len(centres),
        grad_log_prior=lambda x: -x,
        log_prior=lambda x: -0.5 * (x**2).sum(axis=1),
        vectorized=True,
    )


POINT = np.array([0.3, -0.4])


def gradient_of(target, x, rows):
    rows = np.asarray(rows)[None]
    return N / rows.shape[1] * np.tanh(CENTRES[rows] - x)[0].sum(axis=0) - x


def minibatch_law(x, batch_size=BATCH, anchor=None):
    """Mean and covariance of the estimate by enumeration of all minibatches."""
    everything = gradient_of(None, x, np.arange(N))
    estimates = []
    for rows in itertools.combinations(range(N), batch_size):
        estimate = gradient_of(None, x, rows)
        if anchor is not None:
            estimate = estimate - gradient_of(None, anchor, rows) + gradient_of(None, anchor, np.arange(N))
        estimates.append(estimate)
    np.testing.assert_allclose(np.mean(estimates, axis=0), everything, rtol=1e-12)
    return everything, np.cov(np.transpose(estimates), bias=True)


def last_gradients(sampler, target, n_steps=1, n_chains=6000):
    *_, state = walk(sampler, target, n_steps, n_chains=n_chains, position=POINT)
    return state.memory.gradient.copy(), state


def assert_has_covariance(gradients, mean, covariance):
    deviations = gradients - mean
    assert_agrees(summarize(gradients), mean, 1e-9)
    assert_agrees(summarize(deviations[:, :, None] * deviations[:, None, :]), covariance, 1e-9)


# --- estimates -------------------------------------------------------------------------------------------

TINY = 1e-12  # of a step: the position stays where it is


def test_control_variate_is_exact_at_the_anchor():
    gradients, _ = last_gradients(SGLD(0.1, None, SVRG(period=1)), regression().minibatched(BATCH), n_steps=1)
    np.testing.assert_allclose(gradients, np.broadcast_to(minibatch_law(POINT)[0], gradients.shape), rtol=1e-12)


@pytest.mark.parametrize("n_steps", [4, 5])
def test_anchor_is_where_the_chain_was_a_period_ago(n_steps):
    target, sampler = regression().minibatched(BATCH), SGLD(0.05, None, SVRG(period=4))
    positions = [POINT[None]]
    state = sampler.init(target, chain_keys(1), POINT[None])
    for _ in range(n_steps):
        state = sampler.step(target, state)
        positions.append(state.position.copy())
    np.testing.assert_array_equal(state.memory.anchor, positions[(n_steps - 1) // 4 * 4])


def test_control_variate_keeps_the_mean_and_has_less_variance():
    target, anchor = regression().minibatched(BATCH), POINT + 0.1
    sampler = SGLD(TINY, None, SVRG(period=10))
    state = sampler.init(target, chain_keys(6000), np.broadcast_to(anchor, (6000, 2)))
    state = sampler.step(target, state)
    state.position[...] = POINT
    state = sampler.step(target, state)
    mean, covariance = minibatch_law(POINT, anchor=anchor)
    assert_has_covariance(state.memory.gradient, mean, covariance)
    plain = minibatch_law(POINT)[1]
    assert np.trace(covariance) < 0.1 * np.trace(plain)
    assert np.linalg.eigvalsh(plain - covariance).min() > 0


def second_moments(state):
    return state.position**2


@pytest.mark.extended
@pytest.mark.parametrize("batch_size", [2, 5])
def test_fisher_learns_the_covariance_of_the_minibatches(batch_size):
    _, state = last_gradients(SGLD(TINY, "fisher"), regression().minibatched(batch_size), 300, n_chains=500)
    assert state.memory.running.shape == (500, 2, 2)
    assert_agrees(summarize(state.memory.running), minibatch_law(POINT, batch_size)[1])
    np.testing.assert_allclose(state.memory.covariance.matrix(), state.memory.running, rtol=1e-9, atol=1e-12)


@pytest.mark.extended
def test_fisher_follows_the_position():
    target = regression().minibatched(BATCH)
    sampler = SGLD(TINY, "fisher")
    _, state = last_gradients(sampler, target, 300, n_chains=300)
    elsewhere = np.array([0.8, -1.4])
    state.position[...] = elsewhere
    for _ in range(700):
        state = sampler.step(target, state)
    assert_agrees(summarize(state.memory.running), minibatch_law(elsewhere)[1], 0.01)


@pytest.mark.parametrize(("d", "shape"), [(64, (64, 64)), (65, (65,))])
def test_fisher_is_a_diagonal_where_points_are_large(d, shape):
    centres = np.random.default_rng(0).standard_normal((5, d))
    target = regression(d, centres).minibatched(2)
    x = np.zeros(d)
    n_steps = 400 if d > 64 else 2
    *_, state = walk(SGLD(TINY, "fisher"), target, n_steps, n_chains=40, position=x)
    assert state.memory.running.shape == (40, *shape)
    if d > 64:
        exact = 25 / 2 * (1 - 2 / 5) * np.tanh(centres).var(axis=0, ddof=1)
        assert_agrees(summarize(state.memory.running), exact)


def test_fisher_needs_gradients_of_single_samples():
    with pytest.raises(IncompatibleError, match=r"^SGLD with noise_covariance='fisher' needs gradients of single samp"):
        SGLD(noise_covariance="fisher").init(banana(), chain_keys(1))
    summed = Density(Euclidean(1), lambda x, rows: -x, n_samples=4, vectorized=True).minibatched(2)
    with pytest.raises(ValueError, match="must return one gradient for each row"):
        next(walk(SGLD(noise_covariance="fisher"), summed, 1))
    with pytest.raises(ValueError, match="batch_size of at least 2"):
        next(walk(SGLD(noise_covariance="fisher"), regression().minibatched(1), 1))


def test_fisher_and_a_control_variate_do_not_go_together():
    sampler = SGLD(noise_covariance="fisher", control_variate=SVRG())
    with pytest.raises(ValueError, match="estimates the noise of plain minibatches: set control_variate to None"):
        sampler.init(regression().minibatched(3), chain_keys(1))


NOISE_TAKERS = [
    SGLD(0.1),
    SGHMC(0.1),
    SGHMC(0.1, scheme="euler"),
    SGNHT(0.1),
    SGNHT(0.1, scheme="euler"),
    SGRHMC(0.1),
    SGRHMC(0.1, scheme="euler"),
    SGGMC(0.1, n_steps=1),
    SGGMC(0.1, n_steps=1, scheme="aboba"),
    SGGMC(0.1, n_steps=1, scheme="baoab"),
    SGGMC(0.1, friction=[[2.0, 0.5], [0.5, 1.0]], n_steps=1),
    GSGNHT(0.1, n_steps=1),
    Recipe(np.eye(2), np.zeros((2, 2)), step_size=0.1),
]


@pytest.mark.covering
@pytest.mark.parametrize("V", [1e9, np.array([1e9, 1e10]), np.array([[1e9, 1e8], [1e8, 1e9]])], ids=["1", "2", "2x2"])
@pytest.mark.parametrize("sampler", NOISE_TAKERS, ids=repr)
def test_noise_that_cannot_be_made_up_for_is_clipped(sampler, V):
    # a claimed covariance beyond the step's own noise leaves a step without noise, not one that is not a number
    sampler = clone(sampler).set_params(noise_covariance=V)
    ends = []
    for step_keys in (chain_keys(5, 1), chain_keys(5, 2)):
        state = sampler.init(banana(), chain_keys(5), np.tile([0.5, -1.1], (5, 1)))._replace(key=step_keys)
        ends.append(sampler.step(banana(), sampler.step(banana(), state)))
    assert np.isfinite(ends[0].position).all()
    np.testing.assert_array_equal(ends[0].position, ends[1].position)
    if hasattr(ends[0], "momentum"):
        np.testing.assert_array_equal(ends[0].momentum, ends[1].momentum)


@pytest.mark.covering
@pytest.mark.parametrize("sampler", NOISE_TAKERS, ids=repr)
@pytest.mark.parametrize(
    ("V", "message"),
    [
        (np.ones(3), r"^noise_covariance must be a number, or of shape \(2,\) or \(2, 2\); got \(3,\)\.$"),
        (np.ones((2, 3)), r"^noise_covariance must be a number, or of shape \(2,\) or \(2, 2\); got \(2, 3\)\.$"),
        ([1.0, -1.0], r"^noise_covariance must be non-negative; its least entry is -1\.$"),
        ([[1.0, 2.0], [2.0, 1.0]], r"^noise_covariance must be positive semi-definite; its least eigenvalue is -1\.$"),
        ([[1.0, 2.0], [0.0, 1.0]], r"^noise_covariance must be symmetric\.$"),
        ([np.nan, 1.0], r"^noise_covariance must be finite\.$"),
    ],
    ids=["long", "oblong", "negative", "indefinite", "asymmetric", "nan"],
)
def test_covariances_that_are_none_are_refused(sampler, V, message):
    with pytest.raises(ValueError, match=message):
        clone(sampler).set_params(noise_covariance=V).init(banana(), chain_keys(1))


# --- a posterior in minibatches --------------------------------------------------------------------------


def exact_second_moments():
    x = np.linspace(-6, 6, 4001)[:, None, None]
    mass = np.exp(-np.log(np.cosh(CENTRES - x)).sum(axis=1) - 0.5 * x[:, 0] ** 2)
    return (mass * x[:, 0] ** 2).sum(axis=0) / mass.sum(axis=0)


MINIBATCHED = {  # and the relative bias of the step size
    "SGLD": (SGLD(0.02, "fisher"), 0.06),
    "SGHMC": (SGHMC(0.05, noise_covariance="fisher"), 0.03),
    "SGGMC": (SGGMC(0.05, n_steps=1, noise_covariance="fisher"), 0.03),
    "SGGMC matrix": (SGGMC(0.05, [[1.5, 0.5], [0.5, 1.0]], n_steps=1, noise_covariance="fisher"), 0.03),
}


@pytest.mark.extended
@pytest.mark.short_cases("SGLD", "SGHMC", "SGGMC")
@pytest.mark.parametrize("name", MINIBATCHED)
def test_fisher_makes_minibatches_as_good_as_all_data(name):
    sampler, bias = MINIBATCHED[name]
    target, exact = regression().minibatched(2), exact_second_moments()
    estimate = expectations(sampler, target, second_moments, 600, burn_in=200, n_chains=200)
    assert_agrees(estimate, exact, bias * exact)
    plain = clone(sampler).set_params(noise_covariance=None)
    assert_disagrees(expectations(plain, target, second_moments, 600, burn_in=200, n_chains=1500), exact, bias * exact)


# --- streams ---------------------------------------------------------------------------------------------

LOOPED = Density(
    Sphere(3),
    grad_log_density=lambda x: np.array([0.0, 1.0, 4.0]) * np.tanh(x),
    log_density=lambda x: np.array([0.0, 1.0, 4.0]) @ np.log(np.cosh(x)),
)
FLAT = Density(Euclidean(2), grad_log_density=lambda x: -np.sinh(x), log_density=lambda x: -np.cosh(x).sum())

STREAMS = {
    "HMC": (HMC(), FLAT),
    "SGLD": (SGLD(0.01), banana()),
    "SGLD looped": (SGLD(0.1), FLAT),
    "SGHMC": (SGHMC(0.02), Noisy(banana(), 2.0)),
    "SGNHT": (SGNHT(0.1), FLAT),
    "SGRLD": (SGRLD(0.01), gamma([2.0, 3.0])),
    "SGRHMC": (SGRHMC(0.01, lambda x: 1 + np.tanh(x) ** 2), FLAT),
    "SGRHMC matrix": (SGRHMC(0.01, lambda x: np.eye(2) + np.outer(np.tanh(x), np.tanh(x))), FLAT),
    "GMC": (GMC(), LOOPED),
    "SGGMC": (SGGMC(0.05, n_steps=3), Noisy(circle(), 50.0)),
    "SGGMC looped": (SGGMC(0.05, n_steps=3), LOOPED),
    "SGGMC matrix": (SGGMC(0.05, np.eye(3) + 0.2, n_steps=3), LOOPED),
    "SGGMC fisher": (SGGMC(0.005, n_steps=3, noise_covariance="fisher"), vmf_mixture_posterior().minibatched(5)),
    "SGGMC SVRG": (
        SGGMC(0.005, n_steps=3, noise_covariance=None, control_variate=SVRG(4)),
        vmf_mixture_posterior().minibatched(5),
    ),
    "GSGNHT": (GSGNHT(0.05, n_steps=3), LOOPED),
    "Recipe": (Recipe(FRICTION, HAMILTONIAN, n_auxiliary=1), Noisy(double_well(), 1.0)),
    "SCIR": (SCIR(), sparse_dirichlet().minibatched(10)),
    "SCIR gamma": (SCIR(), gamma([0.3, 3.0])),
    "GeometricBrownian": (GeometricBrownian(), LogNormalMean(0.0, 1.0, np.arange(9.0), 1.0).minibatched(2)),
}


def draws_of(name, **options):
    sampler, target = STREAMS[name]
    options = {"n_draws": 6, "burn_in": 2, "n_chains": 3, "random_state": 0, **options}
    return sample(target, sampler, **options).position


@pytest.mark.parametrize("name", STREAMS)
def test_a_chain_is_the_same_with_any_others_threads_and_thinning(name):
    first = draws_of(name)
    assert np.isfinite(first).all()
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(draws_of(name), first)
    np.testing.assert_array_equal(draws_of(name, n_jobs=2, n_chains=5)[:3], first)
    np.testing.assert_array_equal(draws_of(name, n_draws=2, thin=3)[:, :2], first[:, 2::3])
    assert (draws_of(name, random_state=1) != first).any(axis=tuple(range(1, first.ndim))).all()


@pytest.mark.parametrize("name", ["SGLD", "SGGMC", "SCIR", "GMC"])
def test_blocks_of_chains_do_not_change_a_chain(name):
    many = draws_of(name, n_chains=300, n_draws=2)  # more than a block
    np.testing.assert_array_equal(many, draws_of(name, n_chains=300, n_draws=2, n_jobs=2))
    assert len(np.unique(many[:, -1].reshape(300, -1), axis=0)) == 300


# --- samplers and states as values -----------------------------------------------------------------------


@pytest.mark.parametrize("name", STREAMS)
def test_a_pickled_state_resumes_to_the_same_bytes(name):
    sampler, target = STREAMS[name]
    *_, state = walk(sampler, target, 5, n_chains=4)
    kept = pickle.dumps(state)
    *_, one = walk(sampler, target, 6, state=state)
    *_, other = walk(pickle.loads(pickle.dumps(strip(sampler))) or sampler, target, 6, state=pickle.loads(kept))
    np.testing.assert_array_equal(one.position, other.position)
    assert one.n_steps == other.n_steps == 11


def strip(sampler):
    """The sampler, unless it holds a function of this module, which pickle leaves alone."""
    return None if getattr(sampler, "inverse_metric", None) else sampler


def test_parts_of_samplers_are_parameters():
    sampler = SGLD(PolynomialDecay(0.1), control_variate=SVRG(7))
    sampler.set_params(step_size__a=0.2, control_variate__period=9)
    copy = clone(sampler)
    assert copy.step_size(0) == 0.2
    assert copy.control_variate.period == 9
    assert copy.step_size is not sampler.step_size


@pytest.mark.covering
@pytest.mark.parametrize("sampler", ON_DENSITIES)
@pytest.mark.parametrize("step_size", [0, -0.1, "small", None, [0.1]], ids=repr)
def test_what_is_no_step_size_is_refused(sampler, step_size):
    if step_size is None and sampler is NUTS:
        pytest.skip("None lets NUTS find a step size")
    target = {SCIR: gamma(1.0), GeometricBrownian: STREAMS["GeometricBrownian"][1]}.get(sampler, banana())
    with pytest.raises(ValueError, match=f"The 'step_size' parameter of {sampler.__name__} must be"):
        sampler(step_size=step_size).init(target, chain_keys(1))


RECIPE_SETTINGS = {"n_auxiliary": -1, "derivative": "forward", "flip": "yes", "curl": None, "hamiltonian": 1.0}


@pytest.mark.parametrize("sampler", ON_DENSITIES)
def test_samplers_are_values(sampler):
    one = sampler()
    assert clone(one).get_params() == pickle.loads(pickle.dumps(one)).get_params() == one.get_params()
    assert repr(one) == f"{sampler.__name__}()"


@pytest.mark.parametrize(
    "sampler",
    [
        SGHMC(friction=0),
        SGNHT(friction=-1.0),
        SGGMC(friction=0.0),
        GSGNHT(friction=np.eye(2)),
        SGGMC(n_steps=0),
        GMC(n_steps=1.5),
        SGHMC(scheme="leapfrog"),
        SGGMC(scheme="euler"),
        SGLD(noise_covariance="exact"),
        SGLD(control_variate=3),
        SGRLD(inverse_metric=3.0),
        SGRHMC(metric_batch_size=0),
        *(kind(thermostat_mass=mass) for kind in (SGNHT, GSGNHT) for mass in (0, "1")),
        *(HMC(jitter=1.0), GMC(jitter=-0.1), BlockwiseGMC(jitter=None), HMC(n_steps=0)),
        *(SGFS(noise=-1.0), SGFS(noise="model")),
        *(Recipe(np.eye(2), np.zeros((2, 2))).set_params(**{name: value}) for name, value in RECIPE_SETTINGS.items()),
    ],
    ids=repr,
)
def test_settings_that_are_none_are_refused(sampler):
    with pytest.raises(ValueError, match=rf"^The '\w+' parameter of {type(sampler).__name__} must be"):
        sampler.init(banana(), chain_keys(1))


@pytest.mark.parametrize("period", [0, -1, 2.5, "often"])
def test_periods_that_are_none_are_refused(period):
    sampler = SGLD(control_variate=SVRG(period), noise_covariance=None)
    with pytest.raises(ValueError, match="period"):
        sampler.init(regression().minibatched(2), chain_keys(1))


# --- what stops a chain ----------------------------------------------------------------------------------


def breaking(bad, after=4):
    def gradient(x):
        gradient.n_calls += 1
        out = -x.copy()
        if gradient.n_calls > after:
            out[2, 0] = bad
        return out

    gradient.n_calls = 0
    return Density(Euclidean(2), gradient, lambda x: -0.5 * (x**2).sum(axis=1), vectorized=True)


@pytest.mark.covering
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sampler", [SGLD(), SGHMC(), SGNHT(), SGRLD(), SGRHMC(), SGGMC(n_steps=1), GSGNHT(n_steps=1)])
def test_a_gradient_that_is_not_finite_stops_the_chain_and_leaves_its_state(sampler, bad):
    name = type(sampler).__name__
    message = (
        rf"^{name} met a gradient that is not finite at step 4 of chain 2; .*`state` of this error has the position"
    )
    with pytest.raises(NonFiniteError, match=message) as caught:
        sample(breaking(bad), sampler, n_draws=10, burn_in=1, random_state=0)
    assert caught.value.state.n_steps == 4
    assert np.isfinite(caught.value.state.position).all()
    found = caught.value.draws.position
    np.testing.assert_array_equal(np.isfinite(found).all(axis=(0, 2)), np.arange(10) < 3)  # four steps, one of burn-in
    np.testing.assert_array_equal(
        found[:, :3], sample(breaking(0.0, 99), sampler, n_draws=3, burn_in=1, random_state=0).position
    )


def test_data_come_in_minibatches_only_where_the_sampler_takes_them():
    target = regression()
    for sampler in (HMC(), GMC()):
        with pytest.raises(ValueError, match=f"^{type(sampler).__name__} needs all data at every step"):
            sample(target, sampler, batch_size=3)
