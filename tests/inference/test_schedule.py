"""Which passes are burn-in, which are draws, and which are averaged."""

import itertools

import pytest

from skmanifold.inference._schedule import Schedule, WindowAverage


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


@pytest.mark.parametrize(("max_iter", "burn_in"), [(1, 0), (2, 1), (7, 3), (200, 100)])
def test_half_of_the_passes_are_burn_in_unless_told(max_iter, burn_in):
    assert Schedule.from_params(max_iter, None, 5) == (max_iter, burn_in, 5)


def test_burn_in_told_is_kept():
    assert Schedule.from_params(10, 0, 1).burn_in == 0
    assert Schedule.from_params(10, 9, 1).burn_in == 9


@pytest.mark.parametrize("burn_in", [10, 11])
def test_burn_in_that_leaves_nothing_is_refused(burn_in):
    with pytest.raises(ValueError, match=f"burn_in={burn_in} leaves none of the max_iter=10 passes"):
        Schedule.from_params(10, burn_in, 1)


def test_draws_are_every_thinth_pass_after_burn_in():
    for max_iter, thin in itertools.product(range(1, 12), range(1, 6)):
        for burn_in in range(max_iter):
            schedule = Schedule.from_params(max_iter, burn_in, thin)
            kept = [i for i in range(1, max_iter + 1) if schedule.is_draw(i)]
            assert kept == list(range(burn_in + thin, max_iter + 1, thin))
            assert schedule.n_draws == len(kept)
            assert schedule.n_kept_passes == len(range(burn_in, max_iter))
