"""Sticks of a Dirichlet process: shares given counts, how many are broken off, the concentration, orders drawn anew."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers._latent.stick_breaking import (
    Sticks,
    draw_concentration,
    draw_sticks,
    lengthen_sticks,
    order_above,
    redraw_order,
)

from ._counts import log_gamma_cdf
from ._evidence import assert_agrees, assert_disagrees, summarize

KEYS = [subkey(root_key(11), i) for i in range(4000)]
UNLIKELY = 1e-4
NO_STICKS = Sticks(np.empty(0), np.empty(0))


def uniform(p):
    return stats.kstest(p, "uniform").pvalue > UNLIKELY


# --- shares given counts ---------------------------------------------------------------------------------

SIZES = np.array([3, 0, 1, 0, 0, 40, 2])
BEYOND = np.array([43, 43, 42, 42, 42, 2, 0])


@pytest.mark.extended
@pytest.mark.parametrize("concentration", [0.3, 1.0, 25.0])
def test_shares_are_beta_given_the_rows_of_a_stick_and_of_those_after(concentration):
    drawn = [draw_sticks(SIZES, concentration, key) for key in KEYS]
    shares, rests = (np.exp([getattr(sticks, name) for sticks in drawn]) for name in ("log_shares", "log_rests"))
    np.testing.assert_allclose(shares + rests, 1)
    a, b = 1 + SIZES, concentration + BEYOND
    assert all(uniform(stats.beta.cdf(shares[:, j], a[j], b[j])) for j in range(len(SIZES)))
    assert not uniform(stats.beta.cdf(shares[:, 0], a[0] - 1, b[0]))
    assert not uniform(stats.beta.cdf(shares[:, 5], a[5], b[5] - 2))
    products = (shares[:, :-1] - a[:-1] / (a + b)[:-1]) * (shares[:, 1:] - a[1:] / (a + b)[1:])
    assert_agrees(summarize(products), 0.0)


@pytest.mark.parametrize("concentration", [1e-8, 1e-3, 0.05])
def test_what_a_stick_leaves_keeps_its_law_where_its_share_rounds_to_one(concentration):
    """1 - v = Y / (X + Y) ~ Beta(concentration, 1 + m): nearly its power law, however small it is."""
    m = 3
    log_rests = np.array([draw_sticks(np.array([m]), concentration, key).log_rests[0] for key in KEYS])
    assert np.isfinite(log_rests).all()
    assert (np.exp(log_rests) < 1e-16).any()
    x = np.exp(log_rests)
    deep = np.exp(
        concentration * log_rests - gammaln(concentration + 1) + gammaln(concentration + m + 1) - gammaln(m + 1)
    )
    assert uniform(np.where(x < 1e-100, deep, stats.beta.cdf(x, concentration, 1 + m)))
    weights, left = Sticks(np.zeros(1), log_rests[:1]).weights()
    np.testing.assert_allclose([*weights, left], [1.0, x[0]])


def test_large_counts_keep_their_digits():
    sizes = np.array([10**9, 10**6, 1])
    drawn = np.array([draw_sticks(sizes, 1.0, key) for key in KEYS])
    exact = stats.beta(1 + sizes, 1.0 + np.array([10**6 + 1, 1, 0]))
    assert_agrees(summarize(np.exp(drawn)), [exact.mean(), 1 - exact.mean()])
    ratio = (np.exp(drawn[:, 1, 0]) / (1 - exact.mean()[0]) - 1) * 1e3
    assert_agrees(summarize(ratio**2), 1.0, 0.001)


def test_weights_are_what_the_sticks_before_left():
    shares = np.array([0.5, 0.2, 0.9])
    weights, left = Sticks(np.log(shares), np.log1p(-shares)).weights()
    np.testing.assert_allclose(weights, [0.5, 0.1, 0.36])
    np.testing.assert_allclose(left, 0.04)
    for key in KEYS[:50]:
        weights, left = lengthen_sticks(draw_sticks(SIZES, 2.0, key), 2.0, 1e-9, key).weights()
        np.testing.assert_allclose(weights.sum() + left, 1)


# --- sticks from the prior -------------------------------------------------------------------------------


def lefts(lengthen, sticks, concentration, least, key):
    """What the old sticks leave, and each new one."""
    return np.exp(np.cumsum(lengthen(sticks, concentration, least, key).log_rests)[max(0, len(sticks.log_rests) - 1) :])


def as_printed(sticks, concentration, least, key):
    """Until u* < 1 - sum, which one stick or none fulfils."""
    more = lengthen_sticks(sticks, concentration, 1e-12, key)
    for n in range(max(1, len(sticks.log_rests)), len(more.log_rests)):
        if least < np.exp(more.log_rests[:n].sum()):
            return Sticks(more.log_shares[:n], more.log_rests[:n])
    return more


def assert_stops_in_time(lengthen):
    """With the first stick that leaves less than the least slice, neither sooner nor later."""
    n_added = []
    for key in KEYS[:300]:
        for sticks in (NO_STICKS, draw_sticks(SIZES, 2.0, key)):
            for least in (0.6, 0.02, 1e-7):
                left = lefts(lengthen, sticks, 2.0, least, key)
                assert left[-1] < least
                assert np.all(left[:-1] >= least)
                n_added.append(len(left) - 1)
    assert min(n_added) == 0
    assert max(n_added) > 32  # more than the first room for them


def test_sticks_are_broken_until_less_is_left_than_the_least_slice():
    assert_stops_in_time(lengthen_sticks)


def test_the_printed_rule_does_not_stop_in_time():
    with pytest.raises(AssertionError):
        assert_stops_in_time(as_printed)


@pytest.mark.parametrize("concentration", [1e-6, 0.1, 1.0, 30.0])
def test_new_sticks_have_the_prior_law_and_old_ones_stay(concentration):
    old = draw_sticks(np.array([2, 1]), 1.0, KEYS[0])
    least = 1e-3 * np.exp(old.log_rests.sum())
    more = [lengthen_sticks(old, concentration, least, key) for key in KEYS]
    np.testing.assert_array_equal([sticks.log_rests[:2] for sticks in more], [old.log_rests] * len(KEYS))
    np.testing.assert_array_equal([sticks.log_shares[:2] for sticks in more], [old.log_shares] * len(KEYS))
    first = np.array([[sticks.log_shares[2], sticks.log_rests[2]] for sticks in more])
    assert np.isfinite(first).all()
    assert uniform(np.exp(concentration * first[:, 1]))  # 1 - v to the power of alpha
    np.testing.assert_allclose(np.exp(first).sum(axis=1), 1)


def test_no_new_stick_repeats_another():
    """A stick is a function of the key and its place."""
    whole = lengthen_sticks(NO_STICKS, 3.0, 1e-9, KEYS[0])
    part = lengthen_sticks(Sticks(whole.log_shares[:4], whole.log_rests[:4]), 3.0, 1e-9, KEYS[0])
    np.testing.assert_array_equal(part.log_rests, whole.log_rests)
    assert len(np.unique(whole.log_rests)) == len(whole.log_rests)
    given = draw_sticks(np.zeros(4, int), 3.0, KEYS[0])
    assert not np.isin(given.log_rests, whole.log_rests).any()


def test_the_number_of_new_sticks_has_the_law_of_the_prior():
    """Logarithms of what is left fall by exponentials over alpha: a Poisson number of them before the first below."""
    n_new = [len(lengthen_sticks(NO_STICKS, 3.0, 0.05, key).log_rests) - 1 for key in KEYS]
    law = stats.poisson(-3.0 * np.log(0.05))
    edges = np.array([5, 6, 7, 8, 9, 10, 11, 13])
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * len(KEYS)
    observed = np.bincount(np.searchsorted(edges, n_new), minlength=9)
    assert stats.chisquare(observed, expected).pvalue > UNLIKELY


def test_only_sticks_above_the_least_slice_are_listed_from_the_heaviest_down():
    weights = np.array([0.1, 0.4, 0.05, 0.1, 0.25, 0.02])
    assert order_above(weights, 0.05).tolist() == [1, 4, 0, 3]
    assert order_above(weights, 0.0).tolist() == [1, 4, 0, 3, 2, 5]
    assert order_above(weights, 0.4).tolist() == []


# --- the concentration -----------------------------------------------------------------------------------


@pytest.mark.parametrize("log_rests", [[-0.3, -1.2, -0.01], [-40.0], [-2e7, -0.5]])
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.1, 5.0), (30.0, 0.2)])
def test_the_concentration_is_gamma_given_the_sticks(log_rests, prior):
    sticks = Sticks(np.zeros(len(log_rests)), np.array(log_rests))
    drawn = np.array([draw_concentration(sticks, prior, key) for key in KEYS])
    shape, rate = prior[0] + len(log_rests), prior[1] - sum(log_rests)
    assert uniform(log_gamma_cdf(np.log(drawn * rate), shape))
    assert not uniform(log_gamma_cdf(np.log(drawn * rate), shape + 0.2 * np.sqrt(shape)))


# --- orders drawn anew -----------------------------------------------------------------------------------


def log_probability_of_labels(sizes, concentration):
    """Of rows' labels, sticks with ``sizes[j]`` rows: each stick integrated out, as far as the last with rows."""
    sizes = np.trim_zeros(np.asarray(sizes), "b")
    beyond = np.cumsum(sizes[::-1])[::-1]
    terms = gammaln(1 + sizes) + gammaln(concentration + beyond - sizes) - gammaln(1 + concentration + beyond)
    return len(sizes) * np.log(concentration) + terms.sum()


def law_of_places(sizes, concentration, n_places):
    """Of the sticks that clusters of these sizes may have among the first, by enumeration; they may not suffice."""
    log_partition = len(sizes) * np.log(concentration) + gammaln(sizes).sum()
    log_partition += gammaln(concentration) - gammaln(concentration + sum(sizes))
    law = {}
    for places in permutations(range(n_places), len(sizes)):
        by_stick = np.zeros(n_places, int)
        by_stick[list(places)] = sizes
        law[places] = np.exp(log_probability_of_labels(by_stick, concentration) - log_partition)
    return law


def p_value_of_places(redraw, sizes, concentration, n_places=14, n=20_000):
    occupied = np.flatnonzero(sizes)
    law = law_of_places(sizes[occupied], concentration, n_places)
    seen = dict.fromkeys(law, 0)
    for i in range(n):
        places = redraw(sizes, concentration, subkey(KEYS[1], i))
        assert places.dtype == np.int32
        assert np.all(places[sizes == 0] == -1)
        places = tuple(places[occupied].tolist())
        seen[places] = seen.get(places, 0) + 1
    common = [places for places, p in law.items() if n * p > 8]
    expected = n * np.array([law[places] for places in common])
    observed = np.array([seen[places] for places in common])
    expected, observed = np.append(expected, n - expected.sum()), np.append(observed, n - observed.sum())
    return stats.chisquare(observed, expected).pvalue, len(common)


@pytest.mark.extended
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("sizes", "concentration"),
    [([0, 3, 0, 1, 2, 0], 1.0), ([2, 2], 0.4), ([1, 5, 0, 1], 2.5), ([7], 1.5), ([300, 2, 0, 1], 0.8)],
)
def test_a_new_order_has_its_law_given_the_partition(sizes, concentration):
    p_value, n_cells = p_value_of_places(redraw_order, np.array(sizes), concentration)
    assert n_cells >= 4
    assert p_value > UNLIKELY


def without_bias(sizes, concentration, key):
    """Sticks of clusters without regard to their sizes."""
    shuffled = np.random.default_rng(int(key)).permutation(np.flatnonzero(sizes))
    places = redraw_order(sizes, concentration, key)
    old = np.sort(places[shuffled])
    places[shuffled] = old
    return places


def with_few_empty_sticks(sizes, concentration, key):
    return redraw_order(sizes, concentration / 2, key)


@pytest.mark.extended
@pytest.mark.parametrize("wrong", [without_bias, with_few_empty_sticks])
def test_wrong_orders_are_found_out(wrong):
    assert p_value_of_places(wrong, np.array([0, 3, 0, 1, 2, 0]), 1.0, n=4000)[0] < UNLIKELY


def test_a_large_component_comes_first_most_of_the_time():
    first = [redraw_order(np.array([1, 1, 998]), 1.0, key)[2] == 0 for key in KEYS]
    estimate = summarize(first)
    assert_agrees(estimate, 998 / 1001)
    assert_disagrees(estimate, 1 / 3)
