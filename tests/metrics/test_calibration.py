import itertools

import numpy as np
import pytest
from scipy.stats import binom, kstest

from skmanifold.metrics import calibration_band, calibration_ranks, calibration_test


def test_ranks_count_smaller_draws_and_ties_are_broken_evenly():
    assert calibration_ranks([0.5, -3.0, 9.0], [[0.1, 0.2, 0.9], [0.3, -0.2, 0.0], [1, 2, 3]]).tolist() == [2, 0, 3]
    ranks = calibration_ranks(np.ones(4000), np.tile([0.0, 1.0, 1.0, 2.0], (4000, 1)), random_state=0)
    counts = np.bincount(ranks, minlength=5)
    assert counts[0] == counts[4] == 0
    assert abs(counts[1:4] - 4000 / 3).max() < 4 * np.sqrt(4000 * 2 / 9)


def _tail(ranks, n_draws):
    """The statistic, from its definition."""
    found = []
    for j in range(n_draws):
        count, share = sum(r <= j for r in ranks), (j + 1) / (n_draws + 1)
        found.append(2 * min(binom.cdf(count, len(ranks), share), binom.sf(count - 1, len(ranks), share)))
    return min(1.0, *found)


@pytest.mark.parametrize(("n", "n_draws"), [(4, 3), (3, 5), (6, 1)])
def test_pvalues_and_bands_are_those_of_all_possible_ranks(n, n_draws):
    every = list(itertools.product(range(n_draws + 1), repeat=n))
    tails = np.array([_tail(ranks, n_draws) for ranks in every])
    for ranks, tail in zip(every[:: max(1, len(every) // 50)], tails[:: max(1, len(every) // 50)], strict=True):
        expected = np.mean(tails <= tail * (1 + 1e-7))
        assert calibration_test(ranks, n_draws).pvalue == pytest.approx(expected, abs=1e-9)
    shares = np.array([np.bincount(r, minlength=n_draws + 1).cumsum() / n for r in every])
    for level in (0.5, 0.9):
        low, high = calibration_band(n, n_draws, level=level)
        within = np.all((shares >= low - 1e-12) & (shares <= high + 1e-12), axis=1)
        largest = max(tail for tail in tails if np.mean(tails >= tail * (1 - 1e-7)) >= level)
        np.testing.assert_array_equal(within, tails >= largest * (1 - 1e-7))


@pytest.mark.extended
def test_pvalues_of_uniform_ranks_are_uniform_and_wrong_spreads_are_found():
    rng = np.random.default_rng(0)
    pvalues = [calibration_test(rng.integers(0, 100, 400), 99).pvalue for _ in range(300)]
    assert kstest(pvalues, "uniform").pvalue > 1e-3
    theta = rng.normal(size=400)
    data = rng.normal(theta)
    for sd, is_right in ((0.5**0.5, True), (0.5**0.5 * 0.8, False), (0.5**0.5 * 1.25, False)):
        test = calibration_test(calibration_ranks(theta, rng.normal(data[:, None] / 2, sd, (400, 99))), 99)
        assert (test.pvalue > 0.01) == is_right
        if is_right:
            assert np.all(abs(test.coverage - test.levels) < 3 * test.coverage_error)
    shifted = calibration_test(calibration_ranks(theta, rng.normal(data[:, None] / 2 - 0.3, 0.5**0.5, (400, 99))), 99)
    assert shifted.shift > 5 * shifted.shift_error


@pytest.mark.parametrize("n", [400, 5000])
def test_ranks_that_are_all_extreme_have_no_chance_and_no_warning(n):
    for rank in (0, 39):
        assert calibration_test(np.full(n, rank), 39).pvalue < 1e-9


def test_levels_are_those_that_the_draws_can_have():
    test = calibration_test([0, 4, 4, 9, 5, 5], 9, levels=(0.5, 0.8, 0.99))
    np.testing.assert_allclose(test.levels, [0.6, 0.8, 0.8])
    np.testing.assert_allclose(test.coverage, [4 / 6, 4 / 6, 4 / 6])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibration_ranks([1.0], [[1.0], [2.0]]), "truth has shape"),
        (lambda: calibration_ranks([np.nan], [[1.0]]), "NaN"),
        (lambda: calibration_test([0, 4], 3), "from 0 to n_draws=3"),
        (lambda: calibration_test([0.5], 3), "whole numbers"),
        (lambda: calibration_test([1], 3, levels=(1.0,)), "between 0 and 1"),
        (lambda: calibration_band(10, 5, level=0.0), "between 0 and 1"),
        (lambda: calibration_band(0, 5), "at least one"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
