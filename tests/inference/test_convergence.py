"""`sample` warns once, of the problem that the draws show, and is silent if they are good."""

import linecache

import numba
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skmanifold import Draws, sample
from skmanifold.inference._convergence import ess_and_rhat, warn_convergence
from skmanifold.manifolds import Euclidean, PositiveOrthant, Product, Sphere, Stiefel
from skmanifold.models import Density, standard_normal
from skmanifold.samplers import GMC, HMC, NUTS, SGLD, SGNHT

VARIANCES = np.array([1e-6, 1.0])


@numba.njit
def gradient(x):
    return -x / VARIANCES


@numba.njit
def log_density(x):
    return -0.5 * np.sum(x**2 / VARIANCES)


STRETCHED = Density(Euclidean(2), gradient, log_density)


def warning_of(target, sampler, **settings):
    """The one warning of a run."""
    with pytest.warns() as caught:
        sample(target, sampler, random_state=0, **settings)  # this line is that of the warning
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    assert "this line is that" in linecache.getline(caught[0].filename, caught[0].lineno)
    return str(caught[0].message)


@pytest.mark.extended
def test_trajectories_that_are_cut_off():
    sampler = NUTS(metric="unit", max_depth=5)
    message = warning_of(STRETCHED, sampler, n_draws=40, n_chains=1)
    assert message.startswith("17 of 40 trajectories ended at max_depth=5 before they turned back")
    sample(STRETCHED, NUTS(), n_draws=200, random_state=0)  # with a metric


@pytest.mark.parametrize("sampler", [HMC(step_size=0.1), GMC(step_size=0.1)])
def test_proposals_that_are_rejected(sampler):
    message = warning_of(STRETCHED, sampler, n_draws=20, n_chains=2)
    assert message.startswith("Chain 0 accepted 0% of its proposals, and all chains 0%: ")
    assert "tune_step_size" in message


def on_products(x, scale):
    """A direction around the third axis, and a positive number with the density of a gamma distribution."""
    return 5 * x[..., 2] + 3 * np.log(x[..., 3]) - x[..., 3] / scale


def test_the_coordinate_of_a_product_that_moves_slowly():
    manifold, scale = Product(Sphere(3), PositiveOrthant(1)), 20.0
    target = Density(
        manifold,
        lambda x: np.stack([0 * x[:, 0], 0 * x[:, 1], 0 * x[:, 2] + 5, 3 / x[:, 3] - 1 / scale], axis=1),
        lambda x: on_products(x, scale),
        vectorized=True,
    )
    settings = {"n_draws": 400, "position": np.array([0.0, 0.0, 1.0, 80.0])}
    message = warning_of(target, GMC(step_size=0.3, n_steps=5), **settings)
    assert message.startswith("The chains have not converged: R-hat is ")
    assert " for position[..., 3], which is in factor 1, PositiveOrthant(shape=(1,))." in message
    assert message.endswith("draw the logarithm of this coordinate, whose scale suits the steps better.")
    with pytest.warns(ConvergenceWarning):
        draws = sample(target, GMC(step_size=0.3, n_steps=5), random_state=0, **settings)
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    expected = array_stats.rhat(draws.position, chain_axis=0, draw_axis=1)
    assert f"R-hat is {expected[3]:.2f} and the effective sample size is {draws.ess()[3]:.0f} for" in message


def test_chains_in_different_places():
    position = np.array([[-5.0, 0.0], [-5.0, 0.0], [5.0, 0.0], [5.0, 0.0]])
    modes = Density(
        Euclidean(2), lambda x: np.stack([5 * np.tanh(5 * x[:, 0]) - x[:, 0], -x[:, 1]], axis=1), vectorized=True
    )
    message = warning_of(modes, SGLD(step_size=0.5), n_draws=100, position=position)
    assert " for position[..., 0]. Increase n_draws or thin, tune step_size, or choose coordinates" in message


def test_short_runs_of_chains_that_mix_are_silent():
    """Also of many coordinates, few draws, and one chain."""
    for seed in range(5):
        for n_draws, n_chains in ((100, 2), (100, 4), (300, 4), (100, 20)):
            sample(
                standard_normal(50),
                HMC(step_size=0.7, n_steps=2),
                n_draws=n_draws,
                n_chains=n_chains,
                random_state=seed,
            )
    slow = SGNHT(step_size=0.01)
    sample(standard_normal(3), slow, n_draws=99, burn_in=0, position=np.zeros(3), random_state=0)
    sample(standard_normal(3), slow, n_draws=400, burn_in=0, n_chains=1, position=np.zeros(3), random_state=0)


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.9, 0.99])
@pytest.mark.parametrize("n_draws", [100, 401])
def test_rhat_and_effective_sample_size_are_those_of_arviz(correlation, n_draws):
    array_stats = pytest.importorskip("arviz_stats.base").array_stats
    values = np.random.default_rng(0).normal(size=(4, n_draws))
    for t in range(1, n_draws):
        values[:, t] += correlation * values[:, t - 1]
    values = np.exp(values)  # ranks do not change
    options = {"chain_axis": 0, "draw_axis": 1}
    ess, rhat = ess_and_rhat(values)
    assert rhat == pytest.approx(array_stats.rhat(values, **options), rel=1e-12)
    both = (array_stats.ess(each, **options) for each in (values, np.abs(values - np.median(values))))
    assert ess == pytest.approx(min(both), rel=0.1)


def test_chains_that_differ_in_scale_or_do_not_move():
    rng, manifold = np.random.default_rng(0), Stiefel(3, 2)
    position = rng.normal(size=(4, 400, 3, 2))
    warn_convergence(Draws(position), manifold, stacklevel=1)
    position[..., 0, 0] = 0.5  # the same in all chains
    warn_convergence(Draws(position), manifold, stacklevel=1)
    position[:2, :, 2, 1] *= 3
    with pytest.warns(ConvergenceWarning, match=r"R-hat is 1\.\d\d and .* for position\[..., 2, 1\]\. Increase"):
        warn_convergence(Draws(position), manifold, stacklevel=1)
    position[..., 1, 0] = np.arange(4)[:, np.newaxis]
    with pytest.warns(ConvergenceWarning, match=r"R-hat is inf and .* is 4 for position\[..., 1, 0\]\. Increase"):
        warn_convergence(Draws(position), manifold, stacklevel=1)
