import itertools

import pytest

from skmanifold.inference._schedule import WindowAverage


def join(left, right):
    return left + right


def total_after(window, last, first, stop):
    """The passes in the average after pass `stop`; values are tuples of passes, so that none can hide."""
    average = WindowAverage(window, last, first, join)
    for iteration in range(1, stop + 1):
        average.update(iteration, (iteration,))
    total, n = average.total()
    assert n == len(total or ())
    return total


LASTS = range(1, 14)


@pytest.mark.parametrize("last", LASTS)
def test_a_whole_run_averages_the_last_window(last):
    for window in range(1, last + 1):
        for first in range(1, last - window + 2):
            assert total_after(window, last, first, last) == tuple(range(last - window + 1, last + 1))


@pytest.mark.parametrize("last", LASTS)
def test_a_run_cut_short_averages_half_to_one_and_a_half_windows(last):
    for window, stop in itertools.product(range(1, last + 1), range(1, last + 1)):
        for first in range(1, last + 1):
            total = total_after(window, last, first, stop)
            n_passed = max(0, stop - first + 1)
            if n_passed == 0:
                assert total is None
                continue
            # Without a gap up to the last pass, none before `first`.
            assert total == tuple(range(stop - len(total) + 1, stop + 1))
            assert total[0] >= first
            half = (window + 1) // 2
            assert min(half, n_passed) <= len(total) <= window + half - 1


def test_a_window_that_the_run_never_fills_averages_what_there_is():
    assert total_after(10, 4, 1, 4) == (1, 2, 3, 4)
    assert total_after(10, 4, 3, 4) == (3, 4)


def test_no_sum_is_changed_after_it_was_handed_out():
    average = WindowAverage(3, 9, 1, lambda a, b: [*a, *b])
    seen = []
    for iteration in range(1, 10):
        value = [iteration]
        average.update(iteration, value)
        total, n = average.total()
        seen.append((total, list(total), n))
        assert value == [iteration]
    assert all(total == before and len(before) == n for total, before, n in seen)


def test_at_most_two_sums_are_kept():
    average = WindowAverage(4, 21, 3, join)
    for iteration in range(1, 22):
        average.update(iteration, (iteration,))
        assert len(average.sums) <= 2
