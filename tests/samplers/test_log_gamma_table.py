"""Logarithms of gamma variates from tables, against the exact quantiles, moments and distribution function."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammainc, gammaincinv, polygamma

from skmanifold.random._keys import root_key
from skmanifold.random._log_gamma_ziggurat import draw_log_gammas, log_gamma_table

KEY = root_key(5)


def draws(shape, n):
    number, out = np.empty(n), np.empty(n)
    draw_log_gammas(log_gamma_table(shape), KEY, number, number.view(np.int64), out)
    return out


@pytest.mark.extended
@pytest.mark.parametrize("shape", [0.01, 0.1, 1.0, 7.5])
def test_draws_have_the_gamma_distribution(shape):
    found = draws(shape, 200_000)
    deviation = np.sqrt(polygamma(1, shape))
    assert abs(found.mean() - digamma(shape)) < 4.5 * deviation / np.sqrt(len(found))
    probabilities = gammainc(shape, np.exp(found))
    kept = probabilities > 1e-12  # smaller quantiles underflow
    assert stats.kstest(probabilities[kept], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shape", [0.1, 1.0, 7.5])
def test_tables_are_exact_quantiles(shape):
    table, rng = log_gamma_table(shape), np.random.default_rng(0)
    exponent, part, x = rng.integers(30, size=5000), rng.integers(16, size=5000), rng.random(5000)
    v = 2.0**-exponent / 2 * (1 + (part + x) / 16)
    exponent, part, x, v = (values[(v <= 0.5) & (v > 1e-8)] for values in (exponent, part, x, v))
    found = np.einsum("ij,ij->i", table[0, exponent, part], x[:, np.newaxis] ** np.arange(4))
    np.testing.assert_allclose(found, np.log(gammaincinv(shape, v)), atol=1e-6 * np.sqrt(polygamma(1, shape)))
