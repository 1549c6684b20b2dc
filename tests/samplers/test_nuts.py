"""The no-U-turn sampler: exact laws, wrong variants, adaptation, and both forms of its kernels."""

import math

import numba
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skmanifold import sample
from skmanifold.manifolds import Euclidean, Sphere, Stiefel
from skmanifold.models import Density
from skmanifold.samplers import NUTS
from skmanifold.samplers._density import nuts, nuts_kernels

from ._evidence import assert_agrees, assert_disagrees, summarize

well_gradient = numba.njit(lambda x: 4.0 * x * (1.0 - x * x))


@numba.njit
def well_density(x):
    square = x[0] * x[0]
    return square * (2.0 - square)


@numba.njit
def banana_gradient(x):
    out, gap = np.empty(2), 4.0 * (x[1] + 1.2) - x[0] * x[0]
    out[0], out[1] = x[0] * (-0.4 * x[0] * x[0] + 2.0 * gap), -4.0 * gap
    return out


@numba.njit
def banana_density(x):
    gap, square = 4.0 * (x[1] + 1.2) - x[0] * x[0], x[0] * x[0]
    return -0.1 * square * square - 0.5 * gap * gap


PULL = np.array([0.0, 0.0, 5.0])


vmf_gradient = numba.njit(lambda x: PULL + 0.0 * x)
vmf_density = numba.njit(lambda x: 5.0 * x[2])


FRAME = 3.0 * np.eye(4)[:, :2]
WELL = Density(Euclidean(1), well_gradient, well_density)
BANANA = Density(Euclidean(2), banana_gradient, banana_density)
VMF = Density(Sphere(3), vmf_gradient, vmf_density)
MEAN = 1 / math.tanh(5.0) - 1 / 5.0
LAWS = {  # target, step size, functions of draws, their expectations
    "double well": (
        WELL,
        0.5,
        lambda x: [x[..., 0] ** 2, x[..., 0] ** 4, np.abs(x[..., 0])],
        [0.8327454871283803, 1.0827454871283803, 0.8273924393],
    ),
    "banana": (
        BANANA,
        0.35,
        lambda x: [x[..., 0], x[..., 0] ** 2, x[..., 1], x[..., 0] ** 2 * x[..., 1]],
        [0.0, 1.068815443662356, -0.932796139084411, -0.6575785324],
    ),
    "sphere": (VMF, 0.8, lambda x: [x[..., 2], x[..., 2] ** 2, x[..., 0]], [MEAN, 1 - 2 * MEAN / 5.0, 0.0]),
}

STARTS = {"double well": [0.5], "banana": [0.5, -1.0]}


pytestmark = pytest.mark.filterwarnings("ignore:.*trajectories diverged")


def estimate(name, sampler, *, n_draws=500, n_chains=64, seed=0):
    """Means over the draws of each chain, of the test functions."""
    target, _, functions, _ = LAWS[name]
    start = STARTS.get(name)  # a step of fixed size does not lead back from where a random point may be
    options = {"n_draws": n_draws, "burn_in": 100, "n_chains": n_chains, "position": start, "random_state": seed}
    draws = sample(target, sampler, **options)
    return summarize(np.stack([values.mean(axis=1) for values in functions(draws.position)], axis=1))


@pytest.mark.extended
@pytest.mark.parametrize("name", LAWS)
def test_draws_have_the_exact_law(name):
    assert_agrees(estimate(name, NUTS(LAWS[name][1], metric="unit")), LAWS[name][3])
    assert_agrees(estimate(name, NUTS()), LAWS[name][3])


WRONG = {
    "blocks are not checked": ("_is_in_turned_block", lambda *arguments: False),
    "the velocity has no energy": ("half_square", lambda v: 0.0),
    "the last tree has no weight": ("log_add", lambda a, b: b),
}


@pytest.mark.extended
@pytest.mark.short_cases("the velocity has no energy")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_variants_are_found(name, monkeypatch):
    monkeypatch.setattr(nuts_kernels, *WRONG[name])
    monkeypatch.setitem(
        LAWS, "double well", (Density(Euclidean(1), lambda x: well_gradient(x), well_density), *LAWS["double well"][1:])
    )
    options = {"n_draws": 400, "n_chains": 40}
    assert_disagrees(estimate("double well", NUTS(0.5, metric="unit"), **options), LAWS["double well"][3])


@pytest.mark.extended
@pytest.mark.parametrize("metric", ["diagonal", "dense"])
def test_interpreted_and_compiled_kernels_have_the_same_bytes(metric, monkeypatch):
    settings = {"n_draws": 40, "burn_in": 60, "n_chains": 2, "thin": 2, "random_state": 0}
    compiled = sample(BANANA, NUTS(metric=metric), **settings)
    plain = Density(Euclidean(2), lambda x: banana_gradient(x), lambda x: banana_density(x))
    interpreted = sample(plain, NUTS(metric=metric), **settings)
    np.testing.assert_array_equal(compiled.position, interpreted.position)
    for name, values in compiled.stats.items():
        np.testing.assert_array_equal(values, interpreted.stats[name], err_msg=name)
    one = sample(BANANA, NUTS(metric=metric), **settings | {"n_chains": 1})
    np.testing.assert_array_equal(one.position[0], compiled.position[0])


COVARIANCE = np.array([[1.0, 95.0], [95.0, 1e4]])
PRECISION = np.linalg.inv(COVARIANCE)


correlated_gradient = numba.njit(lambda x: -PRECISION @ x)
correlated_density = numba.njit(lambda x: -0.5 * (x @ PRECISION @ x))


@pytest.mark.extended
@pytest.mark.parametrize("metric", ["diagonal", "dense"])
def test_burn_in_finds_the_scale_and_the_step_size(metric):
    target = Density(Euclidean(2), correlated_gradient, correlated_density)
    sampler = NUTS(metric=metric)
    state = sampler.init(target, np.arange(4, dtype=np.uint64))
    state = sampler.burn_in(target, state, 1000)
    roots = state.scale.roots
    if metric == "diagonal":
        np.testing.assert_allclose(roots, np.tile(np.sqrt(np.diag(COVARIANCE)), (4, 1)), rtol=0.25)
    else:
        covariances = roots @ roots.mT
        np.testing.assert_allclose(covariances / COVARIANCE, 1.0, atol=0.35)
    draws = sample(target, sampler, n_draws=500, burn_in=1000, random_state=0)
    assert abs(draws.stats["acceptance"].mean() - 0.85) < 0.1
    n_gradients = draws.stats["n_gradients"].mean()
    assert n_gradients < 6 if metric == "dense" else n_gradients > 6


@pytest.mark.parametrize("n", [0, 1, 19, 20, 100, 150, 175, 500, 1000, 1001])
def test_windows_cover_the_burn_in(n):
    windows = nuts._windows(n)
    assert sum(length for length, _ in windows) == n
    assert windows[-1][1] is False


@pytest.mark.extended
def test_a_given_step_size_is_kept():
    draws = sample(BANANA, NUTS(0.25), n_draws=20, burn_in=50, random_state=0)
    assert (draws.stats["step_size"] == 0.25).all()


@numba.njit
def funnel_gradient(x):
    scale = math.exp(-x[0])
    return np.array([-x[0] / 9.0 - 0.5 + 0.5 * x[1] * x[1] * scale, -x[1] * scale])


funnel_density = numba.njit(lambda x: -x[0] * x[0] / 18.0 - 0.5 * x[0] - 0.5 * x[1] * x[1] * math.exp(-x[0]))


@pytest.mark.extended
def test_divergences_are_counted():
    funnel = Density(Euclidean(2), funnel_gradient, funnel_density)
    with pytest.warns(ConvergenceWarning, match="of 2000 trajectories diverged"):
        draws = sample(funnel, NUTS(1.5, metric="unit"), n_draws=500, random_state=0)
    assert draws.stats["diverging"].dtype == bool
    assert 0.001 < draws.stats["diverging"].mean() < 0.5


def test_frames_stay_on_their_manifold():
    target = Density(Stiefel(4, 2), lambda x: FRAME, lambda x: np.sum(FRAME * x))
    draws = sample(target, NUTS(), n_draws=60, burn_in=40, n_chains=2, random_state=0)
    target.manifold.check_point(draws.position)
    assert 0.3 < np.trace(draws.mean()[:2]) / 2 < 0.8
    assert draws.stats["depth"].max() <= 10


def test_the_summary_has_a_row_for_each_coordinate():
    pytest.importorskip("arviz_base")
    target = Density(Euclidean(2), lambda x: -x, lambda x: -0.5 * (x @ x))
    draws = sample(target, NUTS(), n_draws=100, random_state=0)
    table = draws.summary()
    assert len(table) == 2
    assert {"mean", "sd", "ess_bulk", "r_hat"} <= set(table.columns)
    statistics = draws.to_arviz()["sample_stats"]
    assert {"lp", "energy", "diverging", "acceptance_rate", "tree_depth", "n_steps", "step_size"} <= set(statistics)
