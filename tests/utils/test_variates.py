import itertools
import math
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from numba import njit
from scipy import stats

from skmanifold.random._discrete_variates import _log_poisson, poisson
from skmanifold.random._keys import Purpose, fold_in, random_bits, subkey
from skmanifold.random._variates import (
    _EDGES,
    _HEIGHTS,
    _TAIL_START,
    _below,
    _log1p_beyond_cubic,
    exponential,
    fill_normal,
    fold_keys,
    gamma_variate,
    log_gamma_variate,
    normal,
    open_uniform,
    sample_rows,
)

KEY = np.uint64(0x0123456789ABCDEF)
UNLIKELY = 1e-4


def keys(n, root=KEY):
    out = np.arange(n, dtype=np.uint64)
    fold_keys(out, 0, out)
    return out ^ root


def normals(n_chains, n, root=KEY):
    out = np.empty((n_chains, n))
    fill_normal(keys(n_chains, root), 1, out)
    return out


@njit(cache=True)
def exponentials(key, out):
    for i in range(len(out)):
        out[i] = exponential(key, i)
    return out


@njit(cache=True)
def gammas(key, shape, out):
    for i in range(len(out)):
        out[i] = gamma_variate(fold_in(key, i), shape)
    return out


@njit(cache=True)
def log_gammas(key, shape, out):
    for i in range(len(out)):
        out[i] = log_gamma_variate(fold_in(key, i), shape)
    return out


@njit(cache=True)
def poissons(key, mean, out):
    for i in range(len(out)):
        out[i] = poisson(fold_in(key, i), mean)
    return out


def p_uniform(u):
    """Kolmogorov and Smirnov's, for a large sample."""
    u, n = np.sort(u), len(u)
    distance = max((np.arange(1, n + 1) / n - u).max(), (u - np.arange(n) / n).max())
    return stats.kstwobign.sf(distance * math.sqrt(n))


def p_counts(observed, expected):
    return stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)


def p_mean(x, mean, variance):
    return 2 * stats.norm.sf(abs(x.mean() - mean) * math.sqrt(len(x) / variance))


# Normals


def moment(order):
    return 0.0 if order % 2 else float(math.prod(range(1, order, 2)))


def p_normal(x):
    """The worst of many: distribution, moments, counts between the edges of the layers, and the tail's size and law."""
    head, far = x[:1_000_000], np.abs(x[np.abs(x) > _TAIL_START])
    p = [p_uniform(stats.norm.cdf(head))]
    for order in range(1, 7):
        p.append(p_mean(head**order, moment(order), moment(2 * order) - moment(order) ** 2))
    cuts = np.concatenate([[-np.inf], -_EDGES[1:256], [0], _EDGES[255:0:-1], [np.inf]])
    in_tail = 2 * stats.norm.sf(_TAIL_START)
    p.append(p_counts(np.histogram(x, cuts)[0], len(x) * np.diff(stats.norm.cdf(cuts))))
    p.append(2 * stats.norm.sf(abs(len(far) - len(x) * in_tail) / math.sqrt(len(x) * in_tail)))
    p.append(p_uniform(2 * stats.norm.sf(far) / in_tail) if len(far) else 0.0)
    return min(p)


def table(start, area):
    """Edges of 256 layers of this area from the start of the tail upwards, whether or not they close at the top."""
    edges, height = [area / math.exp(-(start**2) / 2), start], math.exp(-(start**2) / 2)
    while len(edges) < 256:
        height = min(height + area / edges[-1], 1 - 1e-9)
        edges.append(math.sqrt(-2 * math.log(height)))
    return np.array([*edges, 0.0])


AREA = _TAIL_START * math.exp(-(_TAIL_START**2) / 2) + math.sqrt(2 * math.pi) * stats.norm.sf(_TAIL_START)


def test_layers_are_of_one_area_and_close_at_the_top():
    assert pytest.approx(0.00492867323399, rel=1e-11) == AREA  # as published
    np.testing.assert_allclose(_EDGES, table(_TAIL_START, AREA), rtol=1e-11)
    np.testing.assert_allclose(_EDGES[1:256] * np.diff(_HEIGHTS[1:]), AREA, rtol=1e-11)
    assert len(_EDGES) == len(_HEIGHTS) == 257


@pytest.mark.extended
def test_normals_follow_their_law_in_every_layer_and_in_the_tail():
    x = normals(1, 10_000_000)[0]
    assert p_normal(x) > UNLIKELY
    for wrong in (x[np.abs(x) < _TAIL_START], 1.01 * x, x[np.abs(np.abs(x) - 1.0) > 0.005]):
        assert p_normal(wrong) < UNLIKELY**2


@pytest.mark.extended
def test_first_normals_of_many_keys_follow_their_law():
    assert p_normal(normals(1_000_000, 2).ravel()) > UNLIKELY


def test_most_normals_are_one_lookup():
    """The layout: 8 bits for the layer, 54 signed ones for the place; a draw inside the layer above stands."""
    bits = np.array([random_bits(KEY, i) for i in range(2000)], dtype=np.uint64)
    layer = (bits & np.uint64(255)).astype(int)
    x = (2 * (bits.view(np.int64) >> 11) + (bits >> np.uint64(10) & np.uint64(1)).astype(int) | 1) / 2**53
    x *= _EDGES[layer]
    stands = np.abs(x) < _EDGES[layer + 1]
    drawn = np.array([normal(KEY, i) for i in range(2000)])
    np.testing.assert_array_equal(drawn[stands], x[stands])
    assert 0.975 < stands.mean() < 1
    assert not np.any(drawn[~stands] == x[~stands] * (layer[~stands] == 0))


def p_uncorrelated(x, y):
    x, y = x.ravel(), y.ravel()
    return 2 * stats.norm.sf(abs(np.corrcoef(x, y)[0, 1]) * math.sqrt(len(x)))


@pytest.mark.parametrize("function", [np.positive, np.square, np.sign])
def test_neighbouring_normals_are_uncorrelated(function):
    x = function(normals(1000, 1001))
    for lag in (1, 2, 64):
        assert p_uncorrelated(x[:, lag:], x[:, :-lag]) > UNLIKELY
        assert p_uncorrelated(x[lag:], x[:-lag]) > UNLIKELY


def test_normals_of_adjacent_keys_and_purposes_are_uncorrelated():
    x, y, z = np.empty((3, 2, 100_000))
    fill_normal(np.array([KEY, KEY + np.uint64(1)]), 1, x)
    fill_normal(np.array([KEY, KEY ^ np.uint64(1 << 63)]), 2, y)
    fill_normal(np.array([KEY, KEY]), Purpose.MINIBATCH, z)
    np.testing.assert_array_equal(z[0], z[1])
    rows = [*x, *y, z[0]]
    assert min(p_uncorrelated(a, b) for a, b in itertools.combinations(rows, 2)) > UNLIKELY


def test_a_rejected_normal_goes_its_own_way():
    """Where the first bits are rejected, what comes says nothing about the draws beside it, nor they about it."""
    x = normals(1, 2_000_000)[0]
    key = subkey(keys(1)[0], 1)
    after = np.flatnonzero(np.abs(x[1:-1]) > _TAIL_START) + 1  # all of these are rejected ones
    assert len(after) > 300
    for shift in (-1, 1):
        assert p_uniform(stats.norm.cdf(x[after + shift])) > UNLIKELY
    assert all(normal(key, i) == x[i] for i in after)


def test_a_normal_depends_on_its_key_and_counter_alone():
    some, out = keys(40), np.empty((40, 300))
    fill_normal(some, 3, out)
    for chain, i in itertools.product((0, 7, 39), range(300)):
        assert normal(subkey(some[chain], 3), i) == out[chain, i]
    order = np.random.default_rng(0).permutation(40)
    other, short = np.empty((40, 300)), np.empty((2, 10))
    fill_normal(some[order], 3, other)
    np.testing.assert_array_equal(other, out[order])
    fill_normal(some[[5, 9]], 3, short)
    np.testing.assert_array_equal(short, out[[5, 9], :10])
    assert len(np.unique(out)) == out.size
    fill_normal(some[:0], 3, out[:0])
    fill_normal(some, 3, out[:, :0])


def test_folded_keys_are_the_children():
    some, out = keys(10), np.empty(10, np.uint64)
    fold_keys(some, 5, out)
    assert out.tolist() == [int(subkey(key, 5)) for key in some]
    fold_keys(some, 5, some)
    np.testing.assert_array_equal(some, out)


# Exponentials and gammas


def test_open_uniforms_are_those_of_their_bits_between_0_and_1():
    u = np.array([open_uniform(KEY, i) for i in range(1000)])
    np.testing.assert_allclose(u, [int(random_bits(KEY, i)) / 2**64 for i in range(1000)], rtol=0, atol=2**-53)
    ends = np.array([0.5, 2**52 - 0.5]) * 2.0**-52
    assert 0 < ends[0] == 1 - ends[1]
    assert 0 < -math.log(ends[1]) < -math.log(ends[0]) < math.inf


def test_exponentials_follow_their_law():
    x = exponentials(KEY, np.empty(1_000_000))
    assert x.min() > 0
    assert p_uniform(np.exp(-x)) > UNLIKELY
    for order in range(1, 5):
        mean = math.factorial(order)
        assert p_mean(x**order, mean, math.factorial(2 * order) - mean**2) > UNLIKELY


@pytest.mark.extended
@pytest.mark.parametrize("shape", [0.05, 0.3, 0.99, 1.0, 2.5, 50.0, 1e4])
def test_gammas_follow_their_law(shape):
    x = gammas(KEY, shape, np.empty(200_000))
    law = stats.gamma(shape)
    assert p_uniform(law.cdf(x)) > UNLIKELY
    assert p_mean(x, shape, shape) > UNLIKELY
    assert p_mean((x - shape) ** 2, shape, 2 * shape**2 + 6 * shape) > UNLIKELY
    # The check would find a shape that is one Monte Carlo standard error of 20 off.
    assert p_uniform(stats.gamma(shape + 20 * math.sqrt(shape / len(x))).cdf(x)) < UNLIKELY


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 2.5, 1e4, 1e12])
def test_log_gammas_are_the_logarithms_of_the_gammas(shape):
    x, y = gammas(KEY, shape, np.empty(5000)), log_gammas(KEY, shape, np.empty(5000))
    np.testing.assert_allclose(np.log(x[x > 1e-300]), y[x > 1e-300], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("shape", [1e-300, 1e-30, 1e-6])
def test_log_gammas_of_tiny_shape_are_exponential(shape):
    x = -shape * log_gammas(KEY, shape, np.empty(200_000))
    assert np.isfinite(x).all()
    assert p_uniform(np.exp(-x)) > UNLIKELY


@pytest.mark.parametrize("shape", [1e8, 1e12])
def test_gammas_of_huge_shape_are_normal(shape):
    x = (gammas(KEY, shape, np.empty(200_000)) - shape) / math.sqrt(shape)
    assert p_uniform(stats.norm.cdf(x)) > UNLIKELY
    assert p_mean(x**2, 1, 2) > UNLIKELY


def test_the_logarithms_remainder_keeps_its_digits():
    for t in (1e-9, 1e-4, 0.0099999, 0.0100001, 0.3, -0.3, -0.0100001, -0.0099999, -1e-4, -1e-9):
        expected = math.fsum(-((-t) ** j) / j for j in range(4, 80))
        assert _log1p_beyond_cubic(t) == pytest.approx(expected, rel=2e-8)
        # ... and far more of them in units of what it is multiplied by: (x / t)^2 / 3
        assert abs(_log1p_beyond_cubic(t) - expected) / t**2 < 1e-13
    assert _log1p_beyond_cubic(2.0) == pytest.approx(math.log(3) - 2 + 2 - 8 / 3, rel=1e-14)


# Poisson counts


@pytest.mark.parametrize("mean", [1e-3, 0.1, 1.0, 9.99, 10.0, 37.0, 1000.0])
def test_poisson_counts_follow_their_law(mean):
    n = 400_000
    x = poissons(KEY, mean, np.empty(n))
    law = stats.poisson(mean)
    np.testing.assert_array_equal(x, np.floor(x))
    first, last = max(int(law.isf(1 - 20 / n)), 0), int(law.isf(20 / n))
    cells = np.arange(first, last)  # and all below, and all above
    expected = n * np.concatenate([[law.cdf(first - 1)], law.pmf(cells), [law.sf(last - 1)]])
    observed = np.bincount((np.clip(x, first - 1, last) - first + 1).astype(int), minlength=len(expected))
    assert p_counts(observed[expected > 0], expected[expected > 0]) > UNLIKELY
    assert p_mean(x, mean, mean) > UNLIKELY
    assert p_mean((x - mean) ** 2, mean, mean + 2 * mean**2) > UNLIKELY


@pytest.mark.parametrize("mean", [1e6, 1e10, 1e15 + 0.375])
def test_poisson_counts_of_large_mean_are_nearly_normal(mean):
    x = poissons(KEY, mean, np.empty(400_000))
    np.testing.assert_array_equal(x, np.floor(x))
    z = (x - mean) / math.sqrt(mean)
    assert p_uniform(stats.norm.cdf(z)) > UNLIKELY
    for order in range(1, 5):
        assert p_mean(z**order, moment(order), moment(2 * order) - moment(order) ** 2) > UNLIKELY
    assert p_counts(np.bincount((x % 4).astype(int)), np.full(4, len(x) / 4)) > UNLIKELY


def test_poisson_counts_at_the_ends():
    assert not poissons(KEY, 0.0, np.empty(1000)).any()
    assert not poissons(KEY, 1e-300, np.empty(1000)).any()
    for mean in (-1.0, math.inf, math.nan, 1e16):
        assert math.isnan(poisson(KEY, mean))
    assert poisson(KEY, 7) == poisson(KEY, 7.0)


def test_log_poisson_keeps_its_digits():
    for mean in (10.0, 12.5, 100.0, 1e4, 1e6):
        k = np.unique(np.floor(np.maximum(mean + np.linspace(-8, 12, 200) * math.sqrt(mean), 0)))
        ours = [_log_poisson(x, mean) - math.log(2 * math.pi * max(x, 1)) / 2 for x in k]
        np.testing.assert_allclose(
            ours, stats.poisson.logpmf(k, mean), rtol=0, atol=2e-15 * mean * math.log(mean) + 1e-11
        )
    for mean, z in itertools.product((1e12, 1e15), (-6.0, -1.0, 0.5, 6.0)):
        k = math.floor(mean + z * math.sqrt(mean))
        z = (k - mean) / math.sqrt(mean)
        assert _log_poisson(float(k), mean) == pytest.approx(
            -(z**2) / 2 + z**3 / 6 / math.sqrt(mean) - 1 / (12 * k), abs=1e-9
        )


# Subsets


def subsets(n_chains, n, n_samples, purpose=4):
    out = np.empty((n_chains, n), np.int64)
    sample_rows(keys(n_chains), purpose, n_samples, out)
    return out


@pytest.mark.parametrize(
    ("n", "n_samples"), [(1, 1), (1, 7), (5, 5), (64, 64), (7, 8), (300, 10**9), (100, 2**62), (1000, 3001), (0, 3)]
)
def test_rows_are_distinct_and_within_bounds(n, n_samples):
    for rows in subsets(20, n, n_samples):
        assert len(set(rows.tolist())) == n
        assert all(0 <= row < n_samples for row in rows)


def test_rows_are_floyds():
    rows = subsets(30, 50, 120)
    for chain, key in enumerate(keys(30)):
        chosen = []
        for i, last in enumerate(range(70, 120)):
            row = int(random_bits(subkey(key, 4), i)) % (last + 1)
            chosen.append(last if row in chosen else row)
        assert chosen == rows[chain].tolist()


@pytest.mark.parametrize(("n", "n_samples"), [(3, 5), (1, 6), (4, 8), (5, 6)])
def test_all_subsets_are_equally_likely(n, n_samples):
    masks = (1 << subsets(100_000, n, n_samples)).sum(axis=1)
    seen, observed = np.unique(masks, return_counts=True)
    assert len(seen) == math.comb(n_samples, n)
    assert p_counts(observed, np.full(len(seen), len(masks) / len(seen))) > UNLIKELY


def test_all_rows_and_pairs_are_equally_likely():
    n_chains, n, n_samples = 50_000, 30, 100
    member = np.zeros((n_chains, n_samples), np.float32)
    np.put_along_axis(member, subsets(n_chains, n, n_samples), 1, axis=1)
    observed = (member.T @ member).astype(float)
    p = np.full((n_samples, n_samples), n * (n - 1) / (n_samples * (n_samples - 1)))
    np.fill_diagonal(p, n / n_samples)
    z = (observed - n_chains * p) / np.sqrt(n_chains * p * (1 - p))
    assert np.abs(np.diag(z)).max() < 4
    assert np.abs(z).max() < 5
    assert abs((z[np.triu_indices(n_samples, 1)] ** 2).mean() - 1) < 0.1


def test_rows_of_a_large_range_are_uniform():
    assert p_uniform(subsets(2000, 100, 10**9).ravel() / 1e9) > UNLIKELY


def test_rows_depend_on_their_own_key_and_purpose():
    rows = subsets(6, 20, 1000)
    alone = np.empty((1, 20), np.int64)
    sample_rows(keys(6)[4:5], 4, 1000, alone)
    np.testing.assert_array_equal(alone[0], rows[4])
    assert (subsets(6, 20, 1000, purpose=5) != rows).mean() > 0.9
    assert len(np.unique(rows, axis=0)) == 6


def test_more_rows_than_there_are_is_refused():
    with pytest.raises(ValueError, match="cannot have more rows"):
        subsets(1, 4, 3)


def test_bits_that_cannot_be_shared_out_are_drawn_again():
    top = np.uint64(2**64 - 1)
    assert _below(top - np.uint64(1), np.uint64(3)) == 2
    assert _below(top, np.uint64(3)) == fold_in(top, 0) % np.uint64(3)
    assert _below(top, np.uint64(1)) == 0
    assert _below(top, np.uint64(2**40)) == 2**40 - 1


# Compiled and interpreted


def print_draws():
    """A few of everything, by every branch: of 1600 normals some 20 are rejected at first, one of them to the tail."""
    out = np.empty((2, 800))
    fill_normal(keys(2), 13, out)
    print(out.ravel().tolist())
    print([float(exponential(KEY, i)) for i in range(100)])
    for shape in (1e-300, 0.3, 1.0, 2.5, 1e4, 1e12):
        some = keys(60)
        print([(float(log_gamma_variate(key, shape)), float(gamma_variate(key, shape))) for key in some])
    for mean in (0.0, 0.1, 9.9, 10.0, 37.0, 1e6, 1e15, math.inf):
        print([float(poisson(key, mean)) for key in keys(100)])
    print(subsets(3, 20, 25).tolist(), subsets(3, 20, 10**9).tolist(), subsets(2, 9, 9).tolist())
    print(int(_below(np.uint64(2**64 - 1), np.uint64(3))))


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # of 64-bit keys, as intended
def test_draws_are_the_same_compiled_and_interpreted(capsys):
    print_draws()
    here = capsys.readouterr().out
    assert max(map(abs, eval(here.split("\n")[0]))) > _TAIL_START
    other = {**os.environ, "NUMBA_DISABLE_JIT": "0" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "1"}
    done = subprocess.run([sys.executable, __file__], env=other, capture_output=True, text=True, check=True)
    assert done.stdout == here


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="overflow encountered", category=RuntimeWarning)
    print_draws()
