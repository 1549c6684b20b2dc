"""Csuros' counters: right on average, with the spread that the chain of registers has, and the published figures."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._tokens.compact_counts import (
    largest_precision,
    register_value,
    register_values,
    round_to_register,
)
from skmanifold.random._keys import fold_in, random_bits

KEY = np.uint64(2024)
N_EVENTS, N_COUNTERS = 20_000, 2_000
MEASURED = {2: 0.317, 3: 0.222, 4: 0.1531, 5: 0.1073, 6: 0.0765}  # relative spread after 20,000 events
RANGES = {3: 3.2e10, 4: 1.0e6, 5: 8032, 6: 952}  # of eight bits


number_of = njit(register_value)


@njit(cache=True)
def increment(register, precision, key, counter):
    """The register after one more event: one up with probability 2^-t, so that its number grows by one on average."""
    below = (np.uint64(1) << np.uint64(register >> precision)) - np.uint64(1)
    return register + (1 if random_bits(key, counter) & below == 0 else 0)


@njit(cache=True)
def count_up(n_events, n_counters, precision, halved, out):
    """Numbers of independent counters after `n_events`; `halved` goes up half as often as it ought to."""
    for counter in range(n_counters):
        key, register = fold_in(KEY, counter), 0
        for event in range(n_events):
            after = increment(register, precision, key, event)
            if not halved or random_bits(fold_in(key, 1), event) & np.uint64(1) == 0:
                register = after
        out[counter] = number_of(register, precision)


def count(precision, n_events=N_EVENTS, halved=False):
    out = np.empty(N_COUNTERS)
    count_up(n_events, N_COUNTERS, precision, halved, out)
    return out


def spread_of_registers(n_events, precision):
    """Standard deviation of the number after `n_events`, from the law of the register carried on event by event."""
    values = np.array([float(register_value(register, precision)) for register in range(1024)])
    up = 2.0 ** -(np.arange(1024) >> precision)
    law = np.zeros(1024)
    law[0] = 1
    top = 40 * (1 << precision)
    law, values, up = law[:top], values[:top], up[:top]
    for _ in range(n_events):
        moved = law * up
        law = law - moved
        law[1:] += moved[:-1]
    mean = law @ values
    assert mean == pytest.approx(n_events, rel=1e-9)
    return np.sqrt(law @ (values - mean) ** 2)


@pytest.mark.extended
@pytest.mark.parametrize("precision", MEASURED)
def test_counting_up_is_right_on_average_with_the_spread_of_its_law(precision):
    values = count(precision)
    exact = spread_of_registers(N_EVENTS, precision)
    assert_agrees(summarize(values), N_EVENTS)
    squares = (values - N_EVENTS) ** 2
    assert_agrees(summarize(squares), exact**2)
    assert exact / N_EVENTS == pytest.approx(MEASURED[precision], rel=0.04)
    assert exact / N_EVENTS == pytest.approx(np.sqrt(3 / 8 / 2**precision), rel=0.04)
    assert_disagrees(summarize(squares), exact**2 * 2)  # the spread of a precision of one bit less


@pytest.mark.extended
@pytest.mark.parametrize("precision", MEASURED)
def test_counters_that_go_up_half_as_often_are_told(precision):
    assert_disagrees(summarize(count(precision, halved=True)), N_EVENTS)


@pytest.mark.parametrize("precision", MEASURED)
def test_small_numbers_are_exact(precision):
    for n_events in (1, 2**precision - 1, 2**precision):
        assert np.all(count(precision, n_events) == n_events)
    assert not np.all(count(precision, 2**precision + 1) == 2**precision + 1)


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


def test_rounding_is_much_nearer_than_counting_up():
    assert spread_of_rounding(20_000, 4) < 0.2 * spread_of_registers(20_000, 4)


def test_every_small_number_has_its_neighbours():
    for precision in (3, 5, 8):
        for number in range(int(min(register_values(precision)[-1], 3000)) + 1):
            lower, upper, _ = neighbours(number, precision)
            assert lower <= round_to_register(number, precision, KEY, number) <= upper
