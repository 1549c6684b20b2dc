"""Mixtures of tables with columns of several emissions agree with mixtures of single blocks, and with scipy.

The laws of Dirichlet process mixtures of such tables are in `dirichlet_process/test_dp_emission_laws.py`.
"""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, Poisson

NUMBERS = {
    "mean_prior": np.zeros(2),
    "mean_precision_prior": 0.1,
    "covariance_prior": np.ones(2),
    "degrees_of_freedom_prior": 6.0,
}
FORMS = {
    "diag": Gaussian("diag", **NUMBERS),
    "full": Gaussian("full", **{**NUMBERS, "covariance_prior": np.eye(2)}),
    "tied": Gaussian("tied", **{**NUMBERS, "covariance_prior": np.eye(2)}),
}


def planted(n=300, seed=0, missing=0.0):
    """Two numbers, a category of three, an event and a count, from three components."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    X = np.column_stack(
        [
            rng.normal(np.array([[0, 0], [4, 0], [8, 5]])[z]),
            np.where(rng.random(n) < 0.8, z, rng.integers(0, 3, n)),
            rng.random(n) < np.array([0.1, 0.9, 0.5])[z],
            rng.poisson(np.array([1.0, 5.0, 20.0])[z]),
        ]
    )
    X[rng.random(X.shape) < missing] = np.nan
    return X, z


def columns(form="diag"):
    return Columns(
        [
            ("numbers", FORMS[form], [0, 1]),
            ("codes", Categorical(), [2]),
            ("events", Bernoulli(), [3]),
            ("counts", Poisson(1.0, 0.1), [4]),
        ]
    )


def log_density(mixture, row):
    """Log density of the observed cells of a row, from the attributes of the blocks."""
    blocks, seen = mixture.named_blocks_, ~np.isnan(row)
    logs = np.log(mixture.weights_)
    for k in range(len(logs)):
        cells = np.flatnonzero(seen[:2])
        if len(cells):
            covariance = blocks.numbers.covariances_
            covariance = (
                covariance
                if covariance.shape == (2, 2) and mixture.emission_.blocks[0][1].covariance_type == "tied"
                else covariance[k]
            )
            covariance = np.diag(covariance) if covariance.ndim == 1 else covariance
            normal = stats.multivariate_normal(blocks.numbers.components_[k, cells], covariance[np.ix_(cells, cells)])
            logs[k] += normal.logpdf(row[cells])
        if seen[2]:
            logs[k] += np.log(blocks.codes.components_[0][k, int(row[2])])
        if seen[3]:
            logs[k] += stats.bernoulli.logpmf(row[3], blocks.events.components_[k, 0])
        if seen[4]:
            logs[k] += stats.poisson.logpmf(row[4], blocks.counts.components_[k, 0])
    return np.logaddexp.reduce(logs)


@pytest.mark.parametrize("form", FORMS)
def test_densities_are_products_over_the_observed_cells_of_blocks(form):
    X, z = planted(60, missing=0.2)
    mixture = ExponentialFamilyMixture(3, emission=columns(form), sampler="em", init=z, random_state=0).fit(X)
    np.testing.assert_allclose(
        mixture.score_samples(X), [log_density(mixture, row) for row in X], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("sampler", ["em", "esca", "gibbs"])
def test_one_block_gives_the_same_parameters_as_its_emission(sampler):
    X, z = planted(missing=0.1)
    settings = {"sampler": sampler, "init": z, "max_iter": 20, "random_state": 0}
    block = ExponentialFamilyMixture(3, emission=Columns([("a", FORMS["diag"], [0, 1])]), **settings).fit(X[:, :2])
    alone = ExponentialFamilyMixture(3, emission=FORMS["diag"], **settings).fit(X[:, :2])
    means = np.concatenate(block.components_, axis=1)
    if sampler == "gibbs":  # draws of a block have their own random numbers
        assert adjusted_rand_score(block.labels_, alone.labels_) > 0.95
    else:
        np.testing.assert_array_equal(means, alone.components_)
        np.testing.assert_array_equal(block.named_blocks_.a.covariances_, alone.covariances_)
        np.testing.assert_array_equal(block.score_samples(X[:, :2]), alone.score_samples(X[:, :2]))


def test_minibatches_continue_with_the_same_columns():
    X, z = planted(600)
    mixture = ExponentialFamilyMixture(3, emission=Columns(count_columns=[4]), total_samples=600, random_state=0)
    for start in range(0, 600, 100):
        mixture.partial_fit(X[start : start + 100])
    assert adjusted_rand_score(mixture.predict(X), z) > 0.7
    assert [name for name, _, _ in mixture.emission_.blocks] == ["numbers", "spiked", "counts"]
