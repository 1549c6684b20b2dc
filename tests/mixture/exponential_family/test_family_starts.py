"""Initial labels of mixtures of exponential families, constant columns, and fits that stop before they converge."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from skmanifold import ExponentialFamilyMixture, VonMisesFisherMixture
from skmanifold.emissions import Gaussian
from skmanifold.mixture._scores import fill_shares
from skmanifold.samplers import EM

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys
compiled = pytest.mark.skipif(not hasattr(fill_shares, "py_func"), reason="fits with kernels that are compiled")


def planted_counts(seed):
    """Poisson rows of six clusters, and their labels."""
    rng = np.random.default_rng(seed)
    rates, z = rng.gamma(1.0, 5.0, (6, 10)), rng.integers(6, size=600)
    return rng.poisson(rates[z]), z


def n_found(seeds, **settings):
    """How many of the fits score as high as one from the planted labels, but for noise."""
    found = 0
    for seed in seeds:
        X, z = planted_counts(seed)
        mixture = ExponentialFamilyMixture(6, emission="poisson", random_state=seed, max_iter=30)
        best = mixture.set_params(init=z).fit(X).score(X)
        found += mixture.set_params(init="k-means++", **settings).fit(X).score(X) > best - 0.02
    return found


@compiled
def test_several_starts_find_planted_clusters_where_one_does_not():
    assert n_found(range(6)) == 6
    assert n_found(range(6), n_init=1) < 6


@compiled
def test_pixels_are_clustered_as_well_as_by_scikit_learn():
    X, y = load_digits(return_X_y=True)
    levels = [
        adjusted_rand_score(y, ExponentialFamilyMixture(10, max_iter=6, random_state=seed).fit(X).labels_)
        for seed in range(2)
    ]
    assert np.mean(levels) > 0.6  # GaussianMixture(10): 0.61 and 0.53


@compiled
@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_a_column_that_is_constant_in_one_fold_leaves_finite_scores(kind):
    X = np.random.default_rng(0).standard_normal((60, 4)) * [1.0, 1.0, 1.0, 0.0] + 0.1
    new = X + np.array([0.0, 0.0, 0.0, 0.5])
    for sampler in ("esca", "em", "gibbs"):
        mixture = ExponentialFamilyMixture(2, emission=Gaussian(kind), sampler=sampler, random_state=0).fit(X)
        assert np.isfinite(mixture.score(X))
        assert -50.0 < mixture.score(new) < mixture.score(X)


def test_where_no_start_has_a_mode_the_fit_is_refused():
    X = np.concatenate([np.random.default_rng(0).standard_normal((40, 2)), [[1e3, 1e3], [1e3, 1e3]]])
    likelihood = Gaussian(mean_precision_prior=0, covariance_prior=0, degrees_of_freedom_prior=4)
    with pytest.raises(ValueError, match=r"covariance of component \d is singular"):
        ExponentialFamilyMixture(2, emission=likelihood, random_state=0).fit(X)


def test_given_labels_and_one_start_go_on_as_they_are():
    X, z = planted_counts(0)
    settings = {"emission": "poisson", "max_iter": 4, "random_state": 0}
    one, several = (ExponentialFamilyMixture(6, init=z, n_init=n, **settings).fit(X) for n in (1, 5))
    np.testing.assert_array_equal(one.components_, several.components_)


def test_em_warns_if_passes_end_before_it_has_converged():
    X, _ = planted_counts(0)
    settings = {"emission": "poisson", "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="max_iter=3 passes, before it converged: raise max_iter"):
        mixture = ExponentialFamilyMixture(6, sampler=EM(tol=1e-12), max_iter=3, **settings).fit(X)
    assert (mixture.converged_, mixture.n_iter_) == (False, 3)
    assert ExponentialFamilyMixture(6, sampler=EM(tol=1e3), max_iter=3, **settings).fit(X).converged_
    with pytest.warns(ConvergenceWarning, match="max_iter=3 iterations, before it converged: raise max_iter"):
        directions = VonMisesFisherMixture(6, max_iter=3, tol=1e-12, random_state=0).fit(X)
    assert not directions.converged_
    assert not VonMisesFisherMixture(6, max_iter=3, tol=0.0, random_state=0).fit(X).converged_  # as was asked
