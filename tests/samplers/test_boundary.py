"""Samplers without a Metropolis test are refused where a gradient explodes at a boundary; what is advised is right."""

import numpy as np
import pytest

from skmanifold import sample
from skmanifold.manifolds import PositiveOrthant, Simplex
from skmanifold.models import (
    Density,
    ExpandedMean,
    IncompatibleError,
    Log,
    LogNormalMean,
    Mirror,
    NoisyGradient,
    Softmax,
    SquareRoot,
    dirichlet,
    gamma,
)
from skmanifold.samplers import GMC, GSGNHT, HMC, SCIR, SGGMC, SGHMC, SGLD, SGNHT, SGRHMC, SGRLD
from skmanifold.samplers._density.on_densities import check_boundary

from ._evidence import assert_agrees, assert_disagrees, expectations

SPARSE = np.array([0.2, 0.5, 1.0])


def undeclared(alpha):
    return Density(Simplex(len(alpha)), lambda x: (alpha - 1) / x, lambda x: ((alpha - 1) * np.log(x)).sum())


REFUSED = {
    "sphere": (SGGMC(), SquareRoot(dirichlet(SPARSE)), "concentrations .* is 0.2: .* Softmax.*, or use SCIR"),
    "sphere, thermostat": (GSGNHT(), SquareRoot(dirichlet([0.75, 0.5, 2.0])), "concentrations .* is 0.75: "),
    "rows": (SGGMC(), SquareRoot(dirichlet([[2.0, 0.9], [0.5, 3.0]])), "concentrations .* is 0.9: "),
    "noisy": (SGGMC(), NoisyGradient(SquareRoot(dirichlet([0.3, 2.0])), 1.0), "in SquareRoot needs .* 0.3: "),
    "undeclared": (SGGMC(), SquareRoot(undeclared(SPARSE)), r"concentrations .* is 0.2: .*\(target\) instead\.$"),
    "expanded mean": (SGGMC(), ExpandedMean(dirichlet([1.5, 3.0])), "concentrations of 1 or 2 and more, .* is 1.5: "),
    "orthant": (GSGNHT(), gamma([0.5, 1.0]), r"on a PositiveOrthant needs shapes .* is 0.5: .* Log\(target\)"),
    **{
        f"mirror, {sampler.__name__}": (sampler(), Mirror(gamma([0.5, 1.0])), "shapes of 1 or 2 and more, .* is 0.5: ")
        for sampler in (SGLD, SGHMC, SGNHT, SGRLD, SGRHMC, SGGMC, GSGNHT)
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_samplers_whose_steps_are_wrong_at_the_boundary_are_refused(name):
    sampler, target, sentence = REFUSED[name]
    with pytest.raises(IncompatibleError, match=f"^{type(sampler).__name__} .*{sentence}") as refusal:
        sample(target, sampler)
    assert ". " not in str(refusal.value)


def log_normal(variance):
    return LogNormalMean(0.0, variance, np.zeros((5, 2)), 1.0)


ACCEPTED = {
    "uniform on the sphere": (SGGMC(), SquareRoot(dirichlet([0.5, 0.5, 0.5]))),
    "bounded on the simplex": (SGGMC(), SquareRoot(dirichlet([1.0, 0.5, 4.0]))),
    "tested": (GMC(), SquareRoot(dirichlet(SPARSE))),
    "tested and unfolded": (HMC(), Mirror(gamma(SPARSE))),
    "softmax": (SGGMC(), Softmax(dirichlet(SPARSE))),
    "logarithms": (SGLD(), Log(gamma(SPARSE))),
    "expanded mean": (SGGMC(), ExpandedMean(dirichlet([1.0, 2.0]))),
    "metric": (SGRHMC(), ExpandedMean(dirichlet([0.5, 3.0]))),
    "metric, gammas": (SGRLD(), gamma([0.5, 1.0])),
    "own metric": (SGRLD(inverse_metric=lambda x: x), gamma(SPARSE)),
    "exact": (SCIR(), dirichlet(SPARSE)),
    "no power": (SGGMC(), log_normal(1.0)),
    "wide, no power": (SGGMC(), log_normal(30.0)),
    "exponential": (SGGMC(), Density(PositiveOrthant(2), lambda x: -np.ones(2))),
    "infinite": (SGGMC(), Density(PositiveOrthant(2), lambda x: 1 / x**3 - 1)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_other_pairs_are_not_refused(name):
    check_boundary(*ACCEPTED[name])


@pytest.mark.extended
@pytest.mark.parametrize("sampler", [SGRLD(), SGRHMC()], ids=repr)
def test_the_metric_of_an_orthant_is_not_enough_below_one_half(sampler):
    for target, word in ((ExpandedMean(dirichlet(SPARSE)), "concentrations"), (gamma(SPARSE), "shapes")):
        name = type(sampler).__name__
        with pytest.warns(
            UserWarning, match=f"^{name} does not draw .* {word} are below 1/2, .* is 0.2: .*SCIR"
        ) as told:
            sample(target, sampler, n_draws=2, random_state=0)
        assert told[0].filename == __file__


def first_moments(sampler, target, n_steps, chart=None, **options):
    chart = chart or target
    return expectations(sampler, target, lambda state: chart.point(state.position), n_steps, **options)


@pytest.mark.long
def test_what_is_advised_has_the_first_moments_and_what_is_refused_has_not():
    alpha = np.array([0.2, 2.0, 1.0])
    exact, run = alpha / alpha.sum(), {"n_chains": 200, "burn_in": 400}
    for sampler in (SGGMC(0.1, n_steps=3), GSGNHT(0.1, n_steps=3)):
        assert_agrees(first_moments(sampler, Softmax(dirichlet(alpha)), 600, **run), exact, 0.003)
        assert_disagrees(first_moments(sampler, SquareRoot(dirichlet(alpha)), 600, **run), exact, 0.01)
    estimate = expectations(SCIR(1.0), dirichlet(alpha), lambda state: state.position, 600, **run)
    assert_agrees(estimate, exact)
    even = dirichlet([0.5, 0.5, 0.5])
    assert_agrees(first_moments(SGGMC(0.1), SquareRoot(even), 200, **run), np.full(3, 1 / 3))
    shapes = np.array([0.3, 1.5])
    assert_agrees(first_moments(SGLD(0.02), Log(gamma(shapes)), 600, **run), shapes, 0.02)
