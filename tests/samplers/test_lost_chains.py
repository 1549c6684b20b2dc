"""Gradients that are huge or not numbers: every draw is finite, or a NonFiniteError stops the run."""

import numba
import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import ConwaySphere, Euclidean, PositiveOrthant, Simplex, Sphere, Stiefel
from skmanifold.models import Density, IncompatibleError
from skmanifold.samplers import (
    GMC,
    GSGNHT,
    HMC,
    NUTS,
    SGFS,
    SGGMC,
    SGHMC,
    SGLD,
    SGNHT,
    SGRHMC,
    SGRLD,
    SVRG,
    NonFiniteError,
    Recipe,
)

MANIFOLDS = Euclidean(3), PositiveOrthant(3), Simplex(3), Sphere(3), Stiefel(4, 2), ConwaySphere(3)
SAMPLERS = (
    *(SGGMC(0.1, n_steps=2, scheme=scheme) for scheme in ("aboba", "ou", "baoab")),
    *(GSGNHT(0.1, n_steps=2, scheme=scheme) for scheme in ("aboba", "ou", "baoab")),
    *(kind(0.1, scheme=scheme) for kind in (SGHMC, SGNHT) for scheme in ("euler", "baoab")),
    SGLD(0.1),
    SGLD(0.1, control_variate=SVRG(5)),
    SGLD(0.1, noise_covariance="fisher"),
    SGRLD(0.1),
    SGRHMC(0.1),
    SGFS(0.1),
    GMC(0.1),
    HMC(0.1),
    NUTS(),
    Recipe(np.eye(3), np.zeros((3, 3)), step_size=0.1),
)


class Failing:
    """A gradient that has another value from one call on; its sign alternates."""

    def __init__(self, value, n_calls, by_row):
        self.value, self.left, self.by_row = value, n_calls, by_row
        self.rng = np.random.default_rng(0)

    def __call__(self, x, rows=None):
        self.left -= 1
        signs = np.where(np.arange(x.size).reshape(x.shape) % 2, 1.0, -1.0)
        gradient = -0.1 * x if self.left >= 0 else self.value * signs
        return gradient * self.rng.uniform(0.1, 1.0, (len(rows), *x.shape)) if self.by_row else gradient


def half_square(x, rows=None):
    return -0.05 * float(np.sum(np.square(x)))


def finite_or_stopped(target, sampler, **options):
    """Whether a sampler that works on the target makes finite draws or stops; False for one that does not work."""
    try:
        with np.errstate(all="ignore"):
            draws = sample(target, sampler, n_draws=20, burn_in=3, n_chains=2, random_state=0, **options)
        values = draws.position, *(draws.stats[name] for name in ("thermostat",) if name in draws.stats)
    except NonFiniteError as error:
        values = (np.nan_to_num(error.draws.position, posinf=np.inf, neginf=-np.inf),)  # NaN where none was made
    except IncompatibleError:
        return False
    assert all(np.isfinite(each).all() for each in values)
    return True


@pytest.mark.filterwarnings("ignore")  # of overflow, rejected proposals and short chains, which are meant here
@pytest.mark.short_cases("1e+308", "nan")
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("value", [1e308, 1e160, np.inf, np.nan])
def test_no_draw_is_infinite(sampler, value):
    worked, by_row = 0, getattr(sampler, "noise_covariance", None) == "fisher"
    for manifold in MANIFOLDS:
        for n_calls in (0, 30):
            target = Density(manifold, Failing(value, n_calls, by_row), half_square, n_samples=10)
            worked += finite_or_stopped(target, sampler, batch_size=None if sampler.batching == "full" else 4)
    assert worked


huge = numba.njit(lambda x: np.full(x.shape, 1e308))
exploding = numba.njit(lambda x: x * x * x)


@pytest.mark.filterwarnings("ignore")  # of overflow, rejected proposals and short chains, which are meant here
@pytest.mark.parametrize("sampler", [SGGMC(0.5, n_steps=2), SGLD(0.5), GSGNHT(0.5)], ids=repr)
@pytest.mark.parametrize(("gradient", "message"), [(huge, "moved to a position or"), (exploding, "not finite at step")])
def test_compiled_runs_stop_where_interpreted_ones_do(sampler, gradient, message):
    options = {"n_draws": 400, "burn_in": 0, "n_chains": 2, "position": np.ones(3), "random_state": 0}
    told = []
    for function in (gradient, gradient.py_func):
        with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match=message) as caught:
            sample(Density(Euclidean(3), function), sampler, **options)
        told.append(caught.value)
    assert str(told[0]) == str(told[1])
    np.testing.assert_array_equal(told[0].draws.position, told[1].draws.position)
    np.testing.assert_array_equal(told[0].state.position, told[1].state.position)
    assert not np.isinf(told[0].draws.position).any()
    assert told[0].state.n_steps == np.isfinite(told[0].draws.position[0, :, 0]).sum() < 400
