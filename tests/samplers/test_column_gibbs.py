"""Sweeps over the columns of frames: the matrix von Mises-Fisher law, at any radius, and turns within the span."""

import numpy as np
import pytest

from skmanifold.distributions import gibbs_sweep
from skmanifold.manifolds import Stiefel
from skmanifold.models import Density, IncompatibleError, check_compatible
from skmanifold.samplers import GSGNHT, ColumnGibbs
from skmanifold.samplers._density import column_gibbs

from ._evidence import Estimate, assert_agrees, assert_disagrees, chain_keys, expectations


def linear(parameter, radius=1.0):
    """exp(tr(F'X)) on frames of a radius."""
    return Density.linear(Stiefel(*parameter.shape, radius), parameter)


def entries(state, radius=1.0):
    flat = state.position.reshape(len(state.position), -1) / radius
    return np.hstack([flat, flat**2, flat[:, 1:] * flat[:, :-1]])


class ByPosition:
    def __init__(self, position):
        self.position = position


def weighted_frames(parameter, n=40_000):
    """Means of `entries` by weighted uniform frames."""
    rng = np.random.default_rng(0)
    frames, triangles = np.linalg.qr(rng.standard_normal((n, *parameter.shape)))
    frames *= np.sign(np.einsum("nkk->nk", triangles))[:, None, :]
    weight = np.exp(np.einsum("nvk,vk->n", frames, parameter))
    values = entries(ByPosition(frames))
    mean = weight @ values / weight.sum()
    return Estimate(mean, np.sqrt(weight**2 @ (values - mean) ** 2) / weight.sum())


def difference(estimate, reference):
    return Estimate(estimate.mean - reference.mean, np.hypot(estimate.error, reference.error))


@pytest.mark.extended
@pytest.mark.short_cases("shape0", "shape3", "shape4")
@pytest.mark.parametrize(
    ("shape", "radius"), [((4, 2), 1.0), ((4, 2), 20.0), ((3, 3), 1.0), ((5, 1), 0.5), ((1, 1), 1.0)]
)
def test_sweeps_draw_the_matrix_law_whatever_the_radius(shape, radius):
    parameter = np.random.default_rng(2).standard_normal(shape)
    target = linear(parameter / radius, radius)
    options = {"burn_in": 5, "n_chains": 60}
    drawn = expectations(ColumnGibbs(), target, lambda state: entries(state, radius), 40, **options)
    exact = weighted_frames(parameter)
    assert_agrees(difference(drawn, exact), 0.0, 1e-9)
    if radius != 1:
        wrong = linear(parameter, radius)  # as if the position were of unit length
        drawn = expectations(ColumnGibbs(), wrong, lambda state: entries(state, radius), 40, **options)
        assert_disagrees(difference(drawn, exact), 0.0)


@pytest.mark.extended
def test_a_turn_by_the_wrong_law_is_noticed(monkeypatch):
    def wrong(frame, parameter, rng):
        turns = frame.shape[0] == frame.shape[1]
        return gibbs_sweep(frame, 2 * parameter if turns else parameter, rng)

    monkeypatch.setattr(column_gibbs, "gibbs_sweep", wrong)
    parameter = np.random.default_rng(2).standard_normal((4, 2))
    drawn = expectations(ColumnGibbs(), linear(parameter), entries, 40, burn_in=5, n_chains=60)
    assert_disagrees(difference(drawn, weighted_frames(parameter)), 0.0)


def turns(step, frame, n=300):
    """The first two columns' rotation towards each other, from step to step."""
    series = []
    for _ in range(n):
        frame = step(frame)
        series.append(frame[0, 1] - frame[1, 0])
    return np.array(series)


def autocorrelation(series):
    centred = series - series.mean()
    return centred[1:] @ centred[:-1] / (centred @ centred)


def test_columns_that_are_nearly_known_turn_within_their_span_at_once():
    parameter = 1e4 * np.eye(30, 3)
    target, rng = linear(parameter), np.random.default_rng(0)
    state = ColumnGibbs().init(target, chain_keys(1), np.eye(30, 3)[None])

    def step(frame):
        nonlocal state
        state = ColumnGibbs().step(target, state)
        return state.position[0]

    together = turns(step, np.eye(30, 3))
    assert autocorrelation(together) < 0.3
    assert together.std() == pytest.approx(np.sqrt(2 / 1e4), rel=0.2)
    alone = turns(lambda frame: gibbs_sweep(frame, parameter, rng), np.eye(30, 3))
    assert autocorrelation(alone) > 0.9


def test_chains_have_streams_of_their_own_and_steps_are_repeatable():
    parameter = np.random.default_rng(1).standard_normal((5, 2))
    keys, sampler, target = chain_keys(3), ColumnGibbs(n_sweeps=2), linear(parameter)
    state = sampler.step(target, sampler.step(target, sampler.init(target, keys)))
    assert state.n_steps == 2
    alone = sampler.step(target, sampler.step(target, sampler.init(target, keys[1:2])))
    np.testing.assert_array_equal(state.position[1], alone.position[0])
    assert len(np.unique(state.position[:, 0, 0])) == 3
    twice = ColumnGibbs().step(target, ColumnGibbs().step(target, ColumnGibbs().init(target, keys)))
    assert not np.array_equal(twice.position, state.position)
    target.manifold.check_point(state.position, atol=1e-14)


def test_densities_that_are_not_linear_are_refused():
    target = Density(Stiefel(4, 2), np.zeros_like)
    with pytest.raises(IncompatibleError, match=r"^ColumnGibbs needs a log density that is linear .*: GSGNHT\.$"):
        check_compatible(ColumnGibbs(), target, [ColumnGibbs, GSGNHT])
