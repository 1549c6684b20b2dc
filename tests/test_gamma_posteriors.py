"""Samplers of gammas and Dirichlet posteriors draw from these laws, by Kolmogorov-Smirnov distance.

Variants that are known to be wrong go through the same checks and fail.
"""

import numpy as np
import pytest
from samplers._counts import GammaPosterior, log_gamma_cdf
from samplers._evidence import walk
from samplers._wrong import WallsThatKeepMomenta
from scipy import stats

from skmanifold import sample
from skmanifold.distributions import averaged_ks_distance
from skmanifold.models import ExpandedMean, dense_dirichlet, gamma, sparse_dirichlet
from skmanifold.samplers import GMC, SCIR, SGGMC, SGRHMC, SGRLD, NonFiniteError

# --- gammas ----------------------------------------------------------------------------------------------


def ks_distance(sampler, target, shape, n_steps, n_chains=4000, seed=0):
    """Kolmogorov-Smirnov distance of the last of `n_steps` positions of many chains."""
    *_, state = walk(sampler, target, n_steps, n_chains=n_chains, seed=seed)
    log_theta = state.log_theta if hasattr(state, "log_theta") else np.log(state.position)
    return stats.kstest(log_theta[:, 0], lambda y: log_gamma_cdf(y, shape)).statistic


NO_DISTANCE = 2.2 / np.sqrt(4000)  # of independent draws from the law itself, once in 8,000


@pytest.mark.covering
@pytest.mark.parametrize("h", [0.05, 0.5, 5.0])
@pytest.mark.parametrize("shape", [1e-3, 0.1, 0.5, 2.0, 50.0])
def test_scir_is_exact_for_every_gamma_and_step_size(shape, h):
    assert ks_distance(SCIR(h), gamma(shape), shape, max(2, round(15 / h))) < NO_DISTANCE


@pytest.mark.parametrize("h", [0.1, 1.0])
def test_scir_with_the_wrong_shape_is_seen(h):
    assert ks_distance(SCIR(h), gamma(2.2), 2.0, round(15 / h)) > NO_DISTANCE


@pytest.mark.parametrize(
    ("sampler", "shape"),
    [
        (SGRLD(0.005), 2.0),
        (SGRLD(0.005), 5.0),
        (SGRHMC(0.02, scheme="euler"), 2.0),
        (SGRHMC(0.02), 2.0),
        (SGRHMC(0.02, scheme="euler"), 0.5),
        (SGRHMC(0.02), 0.5),
        (GMC(0.2, 8), 2.0),
        (SGGMC(0.05, n_steps=4), 2.5),
    ],
    ids=repr,
)
def test_gammas_of_shapes_that_are_not_small(sampler, shape):
    time = sampler.step_size * getattr(sampler, "n_steps", 1)
    assert ks_distance(sampler, gamma(shape), shape, round(15 / time), n_chains=1500) < 1.95 / np.sqrt(1500) + 0.01


def test_correction_of_the_wrong_sign_loses_two_degrees_of_the_shape():
    printed = SGRLD(0.005, divergence=lambda x: -np.ones_like(x))
    assert ks_distance(printed, gamma(4.0), 4.0, 3000, n_chains=1500) > 0.3
    assert ks_distance(printed, gamma(4.0), 2.0, 3000, n_chains=1500) < 1.95 / np.sqrt(1500) + 0.01


def test_momenta_turn_round_at_the_wall():
    sampler, target = SGRHMC(0.02, scheme="euler"), gamma(0.5)
    assert ks_distance(sampler, target, 0.5, 1500) < 0.04
    target.manifold = WallsThatKeepMomenta(1)
    assert ks_distance(sampler, target, 0.5, 1500) > 0.8


@pytest.mark.parametrize("sampler", [SGRLD(0.02), SGRHMC(0.02, scheme="euler"), SGRHMC(0.02)], ids=repr)
def test_small_gamma_shapes_are_beyond_all_but_scir(sampler):
    # documented: the force draws the position into the wall, where a step of any size is too long
    with np.errstate(all="ignore"), pytest.raises((AssertionError, NonFiniteError)):
        assert ks_distance(sampler, gamma(0.1), 0.1, 1000, n_chains=1000) < 0.2
    assert ks_distance(SCIR(0.02), gamma(0.1), 0.1, 1000, n_chains=1000) < 2.2 / np.sqrt(1000)


# --- sparse and dense Dirichlet --------------------------------------------------------------------------

WARNED = "ignore:SGRLD does not draw from a density whose .* are below 1/2:UserWarning"
# Of small steps, which the tests compare with larger ones
pytestmark = pytest.mark.filterwarnings("ignore:The chains have not converged")
POSTERIORS = {"sparse": sparse_dirichlet(), "dense": dense_dirichlet()}


def ks_distances(target, sampler, name, n_chains=5):
    """Averaged distance of each chain's 1000 draws, after 1000 more."""
    draws = sample(target, sampler, n_draws=1000, burn_in=1000, n_chains=n_chains, random_state=0)
    concentrations = POSTERIORS[name].concentrations
    return np.array([averaged_ks_distance(chain, concentrations) for chain in np.maximum(draws.position, 1e-300)])


def best_distance(make, target, name, step_sizes):
    """Median over chains of the least distance over step sizes."""
    return np.median(np.min([ks_distances(target, make(h), name) for h in step_sizes], axis=0))


def on_counts(name, batch_size=10):
    """The posterior in three forms: on the simplex, as gammas, and with the sum of the row as the prior has it."""
    posterior = POSTERIORS[name].minibatched(batch_size)
    return posterior, GammaPosterior(posterior), ExpandedMean(posterior, total=posterior.prior.sum())


@pytest.mark.covering
@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("h", [0.5, 1.0, 5.0])
def test_scir_with_exact_counts_draws_as_independent_draws_do(name, h):
    bound = 0.04 if h >= 1 else 0.06  # draws follow each other
    assert np.median(ks_distances(POSTERIORS[name], SCIR(h), name)) < bound


@pytest.mark.filterwarnings(WARNED)
def test_scir_beats_langevin_on_the_sparse_dirichlet():
    simplex, gammas, expanded = on_counts("sparse")
    scir = best_distance(SCIR, simplex, "sparse", [0.1, 0.05])
    euler = best_distance(SGRLD, gammas, "sparse", [0.05, 0.01, 0.005])
    patterson_teh = best_distance(SGRLD, expanded, "sparse", [5e-4, 1e-4, 5e-5])
    assert scir < 0.12 < 0.3 < min(euler, patterson_teh)


def test_scir_and_langevin_are_even_on_the_dense_dirichlet():
    simplex, gammas, expanded = on_counts("dense")
    assert 0.13 < best_distance(SCIR, simplex, "dense", [0.05, 0.01]) < 0.25
    assert 0.13 < best_distance(SGRLD, gammas, "dense", [0.05, 0.01]) < 0.25
    assert 0.13 < best_distance(SGRLD, expanded, "dense", [1e-4, 5e-5]) < 0.25


@pytest.mark.long
@pytest.mark.parametrize(("n", "published"), [(1, 0.129), (50, 0.060), (100, 0.057), (500, 0.034)])
def test_scir_on_the_sparse_dirichlet_by_size_of_the_minibatch(n, published):
    simplex, _, _ = on_counts("sparse", n)
    assert best_distance(SCIR, simplex, "sparse", [0.5, 0.1, 0.05]) < 1.3 * published
