import copy
import pickle

import numpy as np
import pytest

from skmanifold.inference._draw_store import DrawStore


def _offer(store, times):
    """Make and add the draws that are wanted."""
    for time in times:
        if store.wants(time):
            store.add(time, {"time": time})
            assert store.times[-1] == time
    return store


@pytest.mark.parametrize("interval", [1, 3])
@pytest.mark.parametrize("max_draws", [1, 2, 3, 4, 5, 8, 13])
def test_draws_are_evenly_spaced_within_the_bound_and_reach_to_the_end(max_draws, interval):
    store = DrawStore(max_draws, interval)
    for time in range(1, 300):
        _offer(store, [time])
        times, spacing = store.times, store.interval
        assert len(times) == len(store) <= max_draws
        np.testing.assert_array_equal(times, spacing * np.arange(1, len(times) + 1) if max_draws > 1 else times)
        if spacing > interval:
            assert 2 * len(store) > max_draws
        if time >= interval:
            assert 2 * times[-1] > time if len(times) == 1 else time - times[-1] < 2 * spacing
    assert spacing > interval
    assert spacing // interval & (spacing // interval - 1) == 0


def test_few_draws_are_made_that_are_not_kept():
    store, n_made = DrawStore(10), 0
    for time in range(1, 10_001):
        if store.wants(time):
            store.add(time, None)
            n_made += 1
    assert n_made <= 10 + 5 * np.log2(10_000 / 10) + 1


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 64, 199])
def test_a_stream_cut_in_two_leaves_the_same_store(cut):
    whole = _offer(DrawStore(8, 2), range(1, 200))
    half = pickle.loads(pickle.dumps(_offer(DrawStore(8, 2), range(1, cut + 1))))
    half = _offer(half, range(cut + 1, 200))
    assert vars(half) == vars(whole)


def test_a_copy_is_a_store_of_its_own():
    store = _offer(DrawStore(4), range(1, 5))
    other = copy.copy(store)
    _offer(other, range(5, 100))
    np.testing.assert_array_equal(store.times, [1, 2, 3, 4])
    assert store.interval == 1
    assert len(other.times) == 3


def test_burn_in_is_left_out():
    store = _offer(DrawStore(100), range(1, 51))
    times, draws = store.after(30)
    np.testing.assert_array_equal(times, np.arange(31, 51))
    assert draws[0] == {"time": 31}
    times, draws = store.after(50)
    assert (times.tolist(), draws) == ([], [])
    assert times.dtype == np.int64


def test_a_bound_below_one_draw_wants_none():
    for store in (DrawStore(0), DrawStore.within(99, 100)):
        assert not any(store.wants(time) for time in range(1000))
        assert len(store) == 0
        assert store.after(0)[1] == []
        with pytest.raises(ValueError, match="not stored"):
            store.add(1, None)
    assert DrawStore.within(399, 100, 7).max_draws == 3
    assert DrawStore.within(399, 100, 7).interval == 7


def test_what_is_not_wanted_is_refused():
    store = _offer(DrawStore(4, 2), range(1, 5))
    for time in (-2, 0, 4, 5):  # before the beginning, the same again, between
        assert not store.wants(time)
        with pytest.raises(ValueError, match=f"time {time} is not stored"):
            store.add(time, None)
    assert repr(store) == "DrawStore(2 of 4 draws, 2 apart)"


def test_times_that_were_passed_over_do_not_break_the_bound():
    store = _offer(DrawStore(4), range(4, 1000, 4))
    assert len(store) <= 4
    assert np.all(store.times % store.interval == 0)


@pytest.mark.parametrize(("max_draws", "interval"), [(-1, 1), (4, 0)])
def test_bad_settings_are_refused(max_draws, interval):
    with pytest.raises(ValueError, match="max_draws must not be negative and interval"):
        DrawStore(max_draws, interval)
