"""Quantiles, intervals and draws of columns given the others."""

import numpy as np
import pytest
from scipy import stats

from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Poisson

RNG = np.random.default_rng(0)
GROUP = RNG.random(200) < 0.5
X = RNG.normal(size=(200, 2)) + np.where(GROUP, 0.0, 5.0)[:, np.newaxis]
COUNTS = RNG.poisson(np.where(GROUP, 2.0, 9.0)[:, np.newaxis], (200, 2)).astype(float)
SHORT = {"sampler": "em", "random_state": 0, "max_iter": 20}


def test_quantiles_invert_the_distribution_function_of_the_mixture():
    mixture = ExponentialFamilyMixture(2, **SHORT).fit(X)
    row = np.array([[np.nan, np.nan]])
    levels = np.array([0.01, 0.3, 0.5, 0.9])
    found = mixture.conditional(row, 1).quantile(levels)[0]
    deviations = np.sqrt(np.array([mixture.covariances_[k][1, 1] for k in range(2)]))
    exact = stats.norm.cdf(found[:, np.newaxis], mixture.components_[:, 1], deviations) @ mixture.weights_
    np.testing.assert_allclose(exact, levels, rtol=1e-9)


def test_quantiles_of_counts_are_whole_numbers():
    mixture = ExponentialFamilyMixture(2, emission=Poisson(), **SHORT).fit(COUNTS)
    row = np.array([[np.nan, np.nan]])
    for level in (0.05, 0.5, 0.95):
        found = mixture.conditional(row, 1).quantile(level)[0]
        below, at = (stats.poisson.cdf(x, mixture.components_[:, 1]) @ mixture.weights_ for x in (found - 1, found))
        assert found % 1 == 0
        assert below < level <= at


def test_draws_have_the_moments_and_intervals_cover_them():
    conditional = ExponentialFamilyMixture(2, **SHORT).fit(X).conditional(X[:20], 1)
    drawn, (low, high) = conditional.sample(1000, random_state=0), conditional.interval(0.8)
    assert np.all(np.abs(drawn.mean(axis=1) - conditional.mean()) < 4.5 * np.sqrt(conditional.variance() / 1000))
    inside = ((drawn > low[:, np.newaxis]) & (drawn < high[:, np.newaxis])).mean()
    assert abs(inside - 0.8) < 4.5 * np.sqrt(0.16 / drawn.size)


@pytest.mark.parametrize("level", [0.0, 1.0, np.nan, []])
def test_wrong_levels_are_refused(level):
    conditional = ExponentialFamilyMixture(2, **SHORT).fit(X).conditional(X[:2], [0, 1])
    with pytest.raises(ValueError, match="q must be one or more probabilities above 0 and below 1"):
        conditional.quantile(level)
