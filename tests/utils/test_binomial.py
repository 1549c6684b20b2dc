"""The laws of binomial and multinomial variates, against scipy's; other laws must fail the same tests."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from skmanifold.random._discrete_variates import _log_binomial, binomial, multinomial
from skmanifold.random._keys import fold_in
from skmanifold.utils._njit import njit

from .test_variates import KEY, UNLIKELY, p_counts, p_mean, poissons

N = 100_000


@njit(cache=True)
def binomials(key, n, p, out):
    for i in range(len(out)):
        out[i] = binomial(fold_in(key, i), n, p)
    return out


@njit(cache=True)
def multinomials(key, n, weights, out):
    tails = np.empty(len(weights))
    for i in range(len(out)):
        multinomial(fold_in(key, i), n, weights, tails, out[i])
    return out


def p_binomial(x, n, p):
    """Of counts against scipy's probabilities, values that are rarely expected pooled; up to 200 cells."""
    law = stats.binom(n, p)
    edges = np.unique(law.ppf(np.linspace(20 / len(x), 1 - 20 / len(x), 200)))
    expected = len(x) * np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, x), minlength=len(expected))
    if expected[-1] < 5:
        expected, observed = (
            np.append(expected[:-2], expected[-2:].sum()),
            np.append(observed[:-2], observed[-2:].sum()),
        )
    return p_counts(observed, expected)


BINOMIALS = [
    *itertools.product([1, 2, 20], [1e-3, 0.3, 0.5, 0.97]),
    *itertools.product([21, 40, 1000, 100_000, 2**31 - 1], [0.25, 0.4999, 0.5, 0.8]),
    *[
        (1000, 0.01),
        (1000, 0.03),
        (1000, 0.99001),
        (10**6, 1e-5),
        (10**6, 0.999992),
        (2**31 - 1, 4.6e-9),
        (2**31 - 1, 4.7e-9),
    ],
    *[(2**31 - 1, 1e-7), (2**31 - 1, 1e-4), (2**31 - 1, 1 - 1e-7)],
]


@pytest.mark.extended
@pytest.mark.every(3)
@pytest.mark.parametrize(("n", "p"), BINOMIALS)
def test_binomial_counts_follow_their_law(n, p):
    x = binomials(KEY, n, p, np.empty(N))
    np.testing.assert_array_equal(x, np.floor(x))
    assert x.min() >= 0
    assert x.max() <= n
    assert p_binomial(x, n, p) > UNLIKELY
    mean, variance, _, kurtosis = (float(moment) for moment in stats.binom.stats(n, p, moments="mvsk"))
    assert p_mean(x, mean, variance) > UNLIKELY
    if n > 1:
        assert p_mean((x - mean) ** 2, variance, variance**2 * (kurtosis + 2)) > UNLIKELY
    # Other laws fail: of another p, rounded normals, and a Poisson of the same mean
    if variance > 10:
        assert p_binomial(x, n, p + 0.04 * math.sqrt(p * (1 - p) / n)) < UNLIKELY
        if n * p < 100:
            skewed = np.rint(stats.norm(mean, math.sqrt(variance)).ppf((np.arange(N) + 0.5) / N))
            assert p_binomial(np.clip(skewed, 0, n), n, p) < UNLIKELY
        if p > 0.1:
            assert p_binomial(np.minimum(poissons(KEY, mean, np.empty(N)), n), n, p) < UNLIKELY


def test_binomial_counts_at_the_ends():
    for n in (0, 1, 50, 2**31 - 1):
        assert not binomials(KEY, n, 0.0, np.empty(100)).any()
        assert not binomials(KEY, n, math.nan, np.empty(100)).any()
        assert not binomials(KEY, n, 1e-300, np.empty(100)).any()
        assert np.all(binomials(KEY, n, 1.0, np.empty(100)) == n)
        assert np.all(binomials(KEY, n, 1 - 2**-53, np.empty(100)) == n)
    assert not binomials(KEY, 0, 0.5, np.empty(100)).any()


def test_log_binomial_keeps_its_digits():
    for n, p in itertools.product((40, 1000, 10**6, 2**31 - 1), (0.3, 0.5)):
        mean, spread = n * p, math.sqrt(n * p * (1 - p))
        k = np.unique(np.clip(np.floor(mean + np.linspace(-8, 8, 100) * spread), 0, n))
        ours = np.array([_log_binomial(x, float(n), p) for x in k])
        middle = np.argmin(abs(k - mean))
        expected = stats.binom.logpmf(k, n, p)
        np.testing.assert_allclose(ours - ours[middle], expected - expected[middle], rtol=0, atol=1e-14 * n + 1e-9)


@pytest.mark.parametrize("n", [7, 5000, 10**8, 2**31 - 1])
def test_multinomial_counts_follow_their_law(n):
    weights = np.array([0.0, 3.0, 1e-9, 0.5, 0.0, 40.0, 1e-30, 6.5, 0.0])
    chances = weights / weights.sum()
    counts = multinomials(KEY, n, weights, np.empty((N, len(weights)), np.int64))
    assert np.all(counts.sum(axis=1) == n)
    assert counts.min() >= 0
    assert not counts[:, weights == 0].any()
    for k in np.flatnonzero(n * chances * (1 - chances) > 0.1):
        assert p_binomial(counts[:, k], n, chances[k]) > UNLIKELY
    used = [1, 3, 5, 7]
    z = (counts[:, used] - n * chances[used]) / np.sqrt(n * chances[used] * (1 - chances[used]))
    correlation = -np.sqrt(np.multiply.outer(*[chances[used] / (1 - chances[used])] * 2))
    for i, j in itertools.combinations(range(4), 2):
        product = z[:, i] * z[:, j]
        assert p_mean(product, correlation[i, j], product.var()) > UNLIKELY
        assert p_mean(product, 0.0, product.var()) < UNLIKELY  # independent counts would fail


def test_a_multinomial_of_impossible_weights_still_adds_up():
    for weights in ([0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [1.0, math.nan]):
        assert np.all(multinomials(KEY, 50, np.array(weights), np.empty((3, 2), np.int64)).sum(axis=1) == 50)
