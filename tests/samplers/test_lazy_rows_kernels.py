"""What reads of rows are made of: tables of log gammas, and exponentials and logarithms of whole vectors."""

import numpy as np
import pytest
from numba import njit
from scipy import stats
from scipy.special import digamma, gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, polygamma

from skmanifold.numerics.special import fill_exp, fill_log
from skmanifold.random._keys import fold_in, random_bits
from skmanifold.random._log_gamma_ziggurat import (
    draw_by_rejection,
    draw_log_gammas,
    gamma_tables,
    is_under_density,
    layer_and_place,
    log_gamma_table,
)

from ._evidence import assert_agrees, summarize

KEY = np.uint64(0x0123456789ABCDEF)
UNLIKELY = 1e-4


@njit(cache=True)
def _fill_log_gamma(key, shape, left_share, edges, heights, out):
    for i in range(len(out)):
        bits = random_bits(key, i)
        layer, z = layer_and_place(bits, edges)
        if not is_under_density(layer, z, edges):
            z = draw_by_rejection(bits, fold_in(key, i), shape, left_share, edges, heights)
        out[i] = np.log(shape) + z


def log_gamma_quantiles(shape, p):
    deep = (np.log(p) + gammaln(shape + 1)) / shape
    with np.errstate(divide="ignore"):
        return np.where(deep < -40, deep, np.log(gammaincinv(shape, p)))


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("shape", [1e-4, 0.01, 0.1, 0.5, 1.0, 2.5, 300.0, 1e6])
@pytest.mark.parametrize("level", [0, 1])
def test_the_ziggurat_has_the_law_of_log_gammas_far_into_both_tails(shape, level):
    tables = gamma_tables(shape)
    a, _, left_share = tables.levels[level]
    assert a == shape + level / 2
    n = 1_000_000 if shape < 100 else 4_000_000  # more layers, less of a tail
    tail = np.array([2e-5, 1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 0.01])
    inner = np.linspace(0.02, 0.98, 49)
    edges = np.concatenate([log_gamma_quantiles(a, np.concatenate([tail, inner])), np.log(gammainccinv(a, tail[::-1]))])
    below = np.concatenate([tail, inner])
    cells = np.diff(np.concatenate([[0.0], below, [1 - 0.01]]))
    cells = np.concatenate([cells, -np.diff(np.concatenate([tail[::-1], [0.0]]))])
    draws = np.empty(n)

    def p_value(left_share):
        _fill_log_gamma(KEY, a, left_share, tables.edges[level], tables.heights[level], draws)
        return stats.chisquare(np.bincount(np.searchsorted(edges, draws), minlength=len(cells)), n * cells).pvalue

    assert len(cells) > 60
    assert p_value(left_share) > UNLIKELY
    assert p_value(0.0) < UNLIKELY  # no left tail


@njit(cache=True)
def _fill_tails(key, shape, left_share, edges, heights, out):
    beyond = ~np.uint64(1023)  # in the lowest layer, at its right end
    for i in range(len(out)):
        out[i] = draw_by_rejection(beyond, fold_in(key, i), shape, left_share, edges, heights)


@pytest.mark.extended
@pytest.mark.covering
@pytest.mark.parametrize("shape", [0.1, 0.5, 2.5, 300.0])
@pytest.mark.parametrize("level", [0, 1])
def test_the_tails_of_the_ziggurat_are_thinned_to_the_density(shape, level):
    tables = gamma_tables(shape)
    a, log_a, left_share = tables.levels[level]
    left, right = np.exp(log_a + tables.edges[level][1])
    z = np.empty(100_000)
    _fill_tails(KEY, a, left_share, tables.edges[level], tables.heights[level], z)
    x = np.exp(log_a + z)
    shares = gammainc(a, left), gammaincc(a, right)
    assert_agrees(summarize(x < left), shares[0] / sum(shares))
    lower, upper = x[x < left], x[x > right]
    assert stats.kstest(lower, lambda x: gammainc(a, x) / shares[0]).pvalue > UNLIKELY
    assert stats.kstest(upper, lambda x: 1 - gammaincc(a, x) / shares[1]).pvalue > UNLIKELY
    # What exponentials of the slopes at the edges would be. At small shapes the left one needs no thinning.
    assert stats.kstest(upper, lambda x: 1 - (x / right) ** (a - right)).pvalue < UNLIKELY
    if a > 100:
        assert stats.kstest(lower, lambda x: (x / left) ** (a - left)).pvalue < UNLIKELY


def test_exponentials_and_logarithms_are_those_of_the_library():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-690, 690, 5000), rng.uniform(-1, 1, 5000), [0.0, -1e-300, -700.0]])
    work, more, out = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    fill_exp(len(x), x, work, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)
    x[:2] = -1e4, -np.inf
    fill_exp(2, x, work, out)
    assert np.all((out[:2] >= 0) & (out[:2] < 1e-300))
    x = np.concatenate([np.exp(x[2:]), 1 - 2.0 ** -np.arange(1, 53), [0.5**0.5, 2.0**0.5]])
    work, more, out = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    fill_log(len(x), x, work, more, out)
    np.testing.assert_allclose(out, np.log(x), rtol=1e-15)


def table_draws(shape, n):
    number, out = np.empty(n), np.empty(n)
    draw_log_gammas(log_gamma_table(shape), KEY, number, number.view(np.int64), out)
    return out


@pytest.mark.extended
@pytest.mark.parametrize("shape", [0.01, 0.1, 1.0, 7.5])
def test_draws_have_the_gamma_distribution(shape):
    found = table_draws(shape, 200_000)
    deviation = np.sqrt(polygamma(1, shape))
    assert abs(found.mean() - digamma(shape)) < 4.5 * deviation / np.sqrt(len(found))
    probabilities = gammainc(shape, np.exp(found))
    kept = probabilities > 1e-12  # smaller quantiles underflow
    assert stats.kstest(probabilities[kept], "uniform").pvalue > UNLIKELY


@pytest.mark.parametrize("shape", [0.1, 1.0, 7.5])
def test_tables_are_exact_quantiles(shape):
    table, rng = log_gamma_table(shape), np.random.default_rng(0)
    exponent, part, x = rng.integers(30, size=5000), rng.integers(16, size=5000), rng.random(5000)
    v = 2.0**-exponent / 2 * (1 + (part + x) / 16)
    exponent, part, x, v = (values[(v <= 0.5) & (v > 1e-8)] for values in (exponent, part, x, v))
    found = np.einsum("ij,ij->i", table[0, exponent, part], x[:, np.newaxis] ** np.arange(4))
    np.testing.assert_allclose(found, np.log(gammaincinv(shape, v)), atol=1e-6 * np.sqrt(polygamma(1, shape)))
