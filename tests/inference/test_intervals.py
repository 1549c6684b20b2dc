"""Intervals from draws hold as much as they say, and say how much that is."""

import tracemalloc
import warnings

import numpy as np
import pytest

from skmanifold.inference import _draws as _intervals
from skmanifold.inference._draws import draws_needed, equal_tailed_intervals, reached_level, warn_of_level


@pytest.mark.parametrize("n_draws", [1, 2, 5, 19, 20, 50])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_interval_ends_are_quantiles(n_draws, level, monkeypatch):
    monkeypatch.setattr(_intervals, "_CHUNK_CELLS", 500)  # more than one chunk, the last one smaller
    draws = np.random.default_rng(n_draws).dirichlet(np.full(31, 0.3), size=(n_draws, 4)).astype(np.float32)
    before = draws.copy()
    intervals = equal_tailed_intervals(draws, level)
    assert intervals.shape == (2, 4, 31)
    assert intervals.dtype == np.float32
    ends = [(1 - level) / 2, (1 + level) / 2]
    expected = np.quantile(draws.astype(np.float64), ends, axis=0, method="weibull")
    np.testing.assert_allclose(intervals, expected, rtol=2e-7, atol=1e-12)
    np.testing.assert_array_equal(draws, before)


@pytest.mark.parametrize(
    ("n_draws", "level"), [(2, 0.9), (5, 0.9), (8, 0.9), (19, 0.9), (40, 0.9), (19, 0.95), (39, 0.95), (11, 0.5)]
)
def test_intervals_cover_one_more_draw_as_often_as_the_level_that_they_say(n_draws, level):
    draws = np.random.default_rng(0).normal(size=(n_draws + 1, 200, 200)).astype(np.float32)
    low, high = equal_tailed_intervals(draws[1:], level)
    reached = reached_level(level, n_draws)
    covered = ((draws[0] >= low) & (draws[0] <= high)).mean()
    error = np.sqrt(reached * (1 - reached) / draws[0].size)
    assert abs(covered - reached) < 4 * error
    if n_draws < 40:  # numpy's own quantiles hold less
        narrow = np.quantile(draws[1:], [(1 - level) / 2, (1 + level) / 2], axis=0)
        assert ((draws[0] >= narrow[0]) & (draws[0] <= narrow[1])).mean() < reached - 8 * error


def test_reached_levels_are_those_of_the_range():
    assert [reached_level(0.9, n) for n in (1, 5, 8, 10, 19, 1000)] == [0, 4 / 6, 7 / 9, 9 / 11, 0.9, 0.9]
    assert [draws_needed(level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)] == [3, 9, 19, 39, 199]


def test_intervals_take_little_memory(monkeypatch):
    monkeypatch.setattr(_intervals, "_CHUNK_CELLS", 1 << 14)
    draws = np.random.default_rng(0).random((40, 10, 4000), dtype=np.float32)
    tracemalloc.start()
    equal_tailed_intervals(draws)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < draws.nbytes / 4  # the result alone is a twentieth


@pytest.mark.parametrize(
    ("draws", "level", "message"),
    [
        (np.ones((2, 3)), 0.9, "must be those of one chain"),
        (np.ones((0, 2, 3)), 0.9, "must be those of one chain"),
        (np.ones((5, 2, 3)), 1.0, "level must be between 0 and 1"),
        (np.ones((5, 2, 3)), 0.0, "level must be between 0 and 1"),
    ],
)
def test_bad_intervals_are_refused(draws, level, message):
    with pytest.raises(ValueError, match=message):
        equal_tailed_intervals(draws, level)


def test_too_few_draws_are_told_with_the_level_that_they_reach():
    unknown = np.full(3, np.nan)
    with pytest.warns(UserWarning, match=r"from 8 draws have level 77\.8% and not 90%, which needs 19 draws"):
        warn_of_level(0.9, 8, unknown)
    with pytest.warns(UserWarning, match="from 1 draw have level 0% and not 50%, which needs 3 draws"):
        warn_of_level(0.5, 1, unknown)
    with pytest.warns(
        UserWarning, match=r"of 2 of 4 topics .* effective sample size of 60 draws is 5 and 19 is needed"
    ):
        warn_of_level(0.9, 60, np.array([40.0, 12.0, 5.0, 19.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_level(0.9, 19, unknown)
        warn_of_level(0.8, 60, np.array([40.0, 9.0, np.nan]))
        warn_of_level(0.9, 60, np.array([40.0, np.nan, 5.0]))  # `topic_diagnostics` tells which topic it is
