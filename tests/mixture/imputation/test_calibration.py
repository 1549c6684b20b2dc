"""Intervals of drawn cells hold the truth as often as they say, in tables drawn from the prior."""

import warnings

import numpy as np
import pytest
from scipy import stats

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Bernoulli, Categorical, Columns, Gaussian, Poisson

N_TABLES, N_ROWS, N_DRAWS, THIN, BURN_IN = 240, 30, 19, 15, 100
KAPPA, PSI, NU = 0.2, np.array([[1.0, 0.4], [0.4, 1.0]]), 5.0
KINDS = {"number": 0, "category": 2, "event": 3, "count": 4}  # with a column of each


def emission(rate_prior=0.3):
    gaussian = Gaussian("full", np.zeros(2), KAPPA, PSI, NU)
    return Columns(
        [
            ("numbers", gaussian, [0, 1]),
            ("codes", Categorical(0.8, min_categories=3), [2]),
            ("events", Bernoulli(0.7, 0.9), [3]),
            ("counts", Poisson(1.5, rate_prior), [4]),
        ]
    )


def table_from_the_prior(rng):
    """Rows of a mixture of two components whose parameters are drawn from the prior."""
    z = rng.random(N_ROWS) < rng.beta(1.0, 1.0)
    covariances = stats.invwishart.rvs(NU, PSI, 2, random_state=rng)
    means = np.array([rng.multivariate_normal(np.zeros(2), covariance / KAPPA) for covariance in covariances])
    noise = (np.linalg.cholesky(covariances)[z.astype(int)] @ rng.normal(size=(N_ROWS, 2, 1)))[..., 0]
    categories = np.cumsum(rng.dirichlet(np.full(3, 0.8), 2), axis=1)
    codes = (rng.random((N_ROWS, 1)) > categories[z.astype(int)][:, :2]).sum(axis=1)
    events = rng.random(N_ROWS) < rng.beta(0.7, 0.9, 2)[z.astype(int)]
    counts = rng.poisson(rng.gamma(1.5, 1 / 0.3, 2)[z.astype(int)])
    return np.column_stack([means[z.astype(int)] + noise, codes, events, counts]).astype(float)


def ranks(fitted_emission, seed=0):
    """Ranks of the truth among the drawn cells, one cell of each kind in each table, between 0 and 1."""
    rng, found = np.random.default_rng(seed), {kind: [] for kind in KINDS}
    for number in range(N_TABLES):
        complete = table_from_the_prior(rng)
        holes = rng.random(complete.shape) < 0.25
        row = rng.integers(N_ROWS)
        holes[row, list(KINDS.values())] = True
        holes[row, 1] = False
        X = np.where(holes, np.nan, complete)
        mixture = ExponentialFamilyMixture(
            2, emission=fitted_emission, sampler="gibbs", weight_prior=1.0, init="random", n_init=1,
            max_iter=BURN_IN + THIN * N_DRAWS, burn_in=BURN_IN, thin=THIN, random_state=number,
        )  # fmt: skip
        tables = np.array(mixture.fit(X).impute(X, n_draws=N_DRAWS, random_state=number))
        for kind, column in KINDS.items():
            drawn, truth = tables[:, row, column], complete[row, column]
            ties = (drawn == truth).sum()
            rank = (drawn < truth).sum() + rng.integers(0, ties + 1)
            found[kind].append((rank + rng.random()) / (N_DRAWS + 1))
    return {kind: np.array(values) for kind, values in found.items()}


@pytest.mark.long
def test_intervals_of_draws_hold_the_truth():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ranks(emission())
    for kind, values in found.items():
        # Kolmogorov's band is simultaneous over all ranks.
        assert stats.kstest(values, "uniform").pvalue > 0.001, kind
        inside = np.count_nonzero((values > 0.05) & (values < 0.95))
        assert stats.binomtest(inside, N_TABLES, 0.9).pvalue > 0.001, kind


@pytest.mark.long
def test_another_prior_is_found_out():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = ranks(emission(rate_prior=30.0))
    assert stats.kstest(found["count"], "uniform").pvalue < 1e-6
