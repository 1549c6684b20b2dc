"""Counts of topics in three bytes: packed without loss, or rounded by Csuros' counters and right on average."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._tokens.compact_counts import (
    PackedCounts,
    largest_precision,
    pack,
    read_rounded,
    register_values,
    round_counts,
    round_to_register,
    unpack,
)
from skmanifold.admixture._tokens.topic_counts import TopicCounts
from skmanifold.random._keys import subkey

KEY = np.uint64(5)


def counts_of(lists, n_topics, kind=np.int32):
    """Counts of words, one list of (topic, count) each, in that order."""
    indptr = np.concatenate(([0], np.cumsum([len(pairs) for pairs in lists]))).astype(np.int64)
    topics = np.array([topic for pairs in lists for topic, _ in pairs], np.uint16)
    counts = np.array([count for pairs in lists for _, count in pairs], kind)
    totals = np.zeros(n_topics, np.int64)
    np.add.at(totals, topics.astype(int), counts.astype(np.int64))
    return TopicCounts(indptr, topics, counts, totals)


def random_lists(seed=0, n_words=400, n_topics=60):
    """Lists in any order, some empty, with counts on both sides of a byte's range."""
    rng = np.random.default_rng(seed)
    lists = []
    for word in range(n_words):
        topics = rng.permutation(n_topics)[: 0 if word % 7 == 3 else rng.integers(n_topics)]
        lists.append([(int(topic), int(rng.geometric(0.02 if word % 5 else 0.002))) for topic in topics])
    return lists


def assert_same_bytes(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


EDGES = {
    np.int32: [1, 0, 254, 255, 256, 2**31 - 1, -1, -(2**31)],
    np.int64: [1, 0, 254, 255, 256, 2**31, -1, 2**62, -(2**63)],
    np.uint16: [1, 0, 254, 255, 256, 65_535],
}


@pytest.mark.parametrize("kind", EDGES)
def test_what_was_packed_comes_back_byte_by_byte(kind):
    for lists in (
        random_lists(),
        [[(t, c) for t, c in enumerate(EDGES[kind])]],
        [[(65_534, 300), (0, 2)], [], [(65_534, 1)]],
        [[], []],
        [],
    ):
        counts = counts_of(lists, 65_535, kind)
        before = [array.copy() for array in counts]
        packed = pack(counts)
        assert_same_bytes(unpack(packed), counts)
        assert_same_bytes(counts, before)
        assert_same_bytes(unpack(PackedCounts(*pickle.loads(pickle.dumps(tuple(packed))))), counts)


def test_only_what_a_byte_does_not_hold_is_listed_in_order():
    packed = pack(counts_of([[(4, 300), (1, 254)], [], [(0, 255), (4, 7), (2, 9_000)]], 5))
    assert packed.n_topics.tolist() == [2, 0, 3]
    assert packed.topics.tolist() == [4, 1, 0, 4, 2]
    assert packed.codes.tolist() == [255, 254, 255, 7, 255]
    assert packed.large.tolist() == [300, 255, 9_000]
    assert packed.totals.tolist() == [255, 254, 9_000, 0, 307]


def test_packed_counts_take_three_bytes_and_little_more():
    counts = counts_of([[(k, 1 + k % 254) for k in range(1000)] for _ in range(20)], 1000)
    packed = pack(counts)
    n = len(counts.counts)
    assert sum(array.nbytes for array in packed) == 3 * n + 2 * 20 + 8 * 1000
    assert sum(array.nbytes for array in round_counts(counts, KEY)[:-1]) == 3 * n + 2 * 20 + 8 * 1000
    assert sum(array.nbytes for array in counts) == 6 * n + 8 * 21 + 8 * 1000


@pytest.mark.parametrize("squeeze", [pack, lambda counts: round_counts(counts, KEY)])
def test_fractions_are_refused(squeeze):
    with pytest.raises(ValueError, match=r"Only whole counts .* have the type float32"):
        squeeze(counts_of([[(0, 3)]], 1, np.float32))


def test_rounding_keeps_lists_totals_and_small_counts():
    counts = counts_of(random_lists(), 60)
    rounded = read_rounded(round_counts(counts, KEY))
    for name in ("indptr", "topics", "totals"):
        assert getattr(rounded, name).tobytes() == getattr(counts, name).tobytes()
    assert rounded.counts.dtype == np.int32
    largest = max(sum(count for _, count in pairs) for pairs in random_lists())
    precision = largest_precision(largest)
    assert round_counts(counts, KEY).precision == precision == 4
    values = register_values(precision)
    place = np.searchsorted(values, counts.counts, side="right") - 1
    low, high = values[place], np.where(values[place] == counts.counts, values[place], values[place + 1])
    assert np.all((rounded.counts == low) | (rounded.counts == high))
    small = counts.counts <= 2**precision
    assert 100 < small.sum() < len(small)
    assert np.all(rounded.counts[small] == counts.counts[small])
    assert rounded.counts.sum() != counts.totals.sum()


def test_rounding_is_right_on_average_and_draws_are_independent():
    counts = counts_of(random_lists(n_words=30), 60)
    draws = np.array([read_rounded(round_counts(counts, subkey(KEY, i))).counts for i in range(1500)], float)
    apart = (draws - counts.counts)[:, draws.std(axis=0) > 0]
    assert apart.shape[1] > 200
    assert_agrees(summarize(apart), 0.0)
    scaled = apart / apart.std(axis=0)
    squared = scaled.sum(axis=1) ** 2  # their sum varies as that of independent draws
    assert_agrees(summarize(squared), apart.shape[1])
    assert_disagrees(summarize(squared), 1.3 * apart.shape[1])
    floor = register_values(4)[np.searchsorted(register_values(4), counts.counts, side="right") - 1]
    assert np.any(floor < counts.counts)
    assert_disagrees(summarize(draws - floor), 0.0)


def test_a_draw_belongs_to_word_and_topic_wherever_it_stands():
    lists = random_lists()
    rng = np.random.default_rng(1)
    shuffled = [[pairs[i] for i in rng.permutation(len(pairs))] for pairs in lists]
    dense = [read_rounded(round_counts(counts_of(order, 60), KEY)).tocsr().toarray() for order in (lists, shuffled)]
    np.testing.assert_array_equal(*dense)
    other = read_rounded(round_counts(counts_of(lists, 60), subkey(KEY, 1))).tocsr().toarray()
    assert np.any(other != dense[0])


def test_without_a_common_word_nothing_is_rounded():
    counts = counts_of([[(0, 100), (1, 155)], [(1, 1)]], 2)
    assert round_counts(counts, KEY).precision == 8
    assert_same_bytes(read_rounded(round_counts(counts, KEY)), counts)


def test_rounded_counts_beyond_32_bits():
    counts = counts_of([[(0, 2**31 - 1), (1, 2**33), (2, 3)]], 3, np.int64)
    draws = [read_rounded(round_counts(counts, subkey(KEY, i))).counts for i in range(200)]
    assert {draw.dtype for draw in draws} == {np.dtype(np.int64)}
    assert np.mean(draws, axis=0) == pytest.approx([2**31 - 1, 2**33, 3], rel=0.02)


# Csuros' counters

RANGES = {3: 3.2e10, 4: 1.0e6, 5: 8032, 6: 952}  # of eight bits, as published


@pytest.mark.parametrize("precision", [3, 4, 5, 6, 7, 8])
def test_numbers_of_registers_follow_the_formula_and_rise(precision):
    values = register_values(precision)
    base = 2**precision
    assert values.tolist() == [(base + x % base) * 2 ** (x // base) - base for x in range(256)]
    assert np.all(np.diff(values) > 0)
    assert largest_precision(int(values[-1])) == precision
    assert precision == 3 or largest_precision(int(values[-1]) + 1) == precision - 1


def test_ranges_of_eight_bits():
    for precision, largest in RANGES.items():
        assert register_values(precision)[-1] == pytest.approx(largest, rel=0.02)
    assert largest_precision(0) == largest_precision(255) == 8
    with pytest.raises(ValueError, match="eight bits cannot represent 100000000000"):
        largest_precision(10**11)


@njit(cache=True)
def round_often(count, precision, out):
    for i in range(len(out)):
        out[i] = round_to_register(count, precision, KEY, i)


def neighbours(count, precision):
    """The registers around a number, and the exact chance of the upper, by looking at all registers."""
    values = register_values(precision)
    lower = int(np.searchsorted(values, count, side="right")) - 1
    if values[lower] == count:
        return lower, lower, Fraction(0)
    return lower, lower + 1, Fraction(int(count - values[lower]), int(values[lower + 1] - values[lower]))


def spread_of_rounding(count, precision):
    lower, upper, chance = neighbours(count, precision)
    values = register_values(precision)
    return float(values[upper] - values[lower]) * np.sqrt(float(chance * (1 - chance)))


NUMBERS = {3: [0, 7, 8, 9, 249, 20_000, 3_000_000_001], 4: [16, 17, 47, 49, 4_000, 999_999], 6: [64, 65, 500, 951]}


@pytest.mark.extended
@pytest.mark.parametrize(("precision", "number"), [(d, n) for d, numbers in NUMBERS.items() for n in numbers])
def test_rounding_takes_a_neighbour_and_is_right_on_average(precision, number):
    registers = np.empty(40_000, np.int64)
    round_often(number, precision, registers)
    lower, upper, chance = neighbours(number, precision)
    assert set(registers.tolist()) == ({lower, upper} if chance else {lower})
    values = register_values(precision)[registers].astype(float)
    assert_agrees(summarize(values), number)
    exact = spread_of_rounding(number, precision)
    if lower == upper:
        assert exact == 0
        return
    assert_agrees(summarize((values - number) ** 2), exact**2)
    if chance != Fraction(1, 2):
        nearest = np.where(chance > Fraction(1, 2), upper, lower)  # the rule that always takes the nearer one
        wrong = np.full(len(values), float(register_values(precision)[nearest]))
        assert_disagrees(summarize(wrong), number)


def test_every_small_number_has_its_neighbours():
    for precision in (3, 5, 8):
        for number in range(int(min(register_values(precision)[-1], 3000)) + 1):
            lower, upper, _ = neighbours(number, precision)
            assert lower <= round_to_register(number, precision, KEY, number) <= upper
