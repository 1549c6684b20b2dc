"""The law of the rank of a uniform point of the Conway sphere: closed forms, tails and frequencies."""

from decimal import InvalidOperation

import numpy as np
import pytest

from skmanifold.manifolds import ConwaySphere, log_rank_probabilities
from skmanifold.manifolds._conway_sphere import _log_probabilities

N_ERRORS = 4.5


def test_small_matrices_have_closed_forms():
    np.testing.assert_allclose(np.exp(log_rank_probabilities(1)), [0.5, 0.5], rtol=1e-15)
    two = (2 - np.sqrt(2)) / 4
    np.testing.assert_allclose(np.exp(log_rank_probabilities(2)), [two, 1 - 2 * two, two], rtol=1e-14)
    three = (np.pi - 2 * np.sqrt(2)) / (4 * np.pi)
    np.testing.assert_allclose(np.exp(log_rank_probabilities(3)), [three, 0.5 - three, 0.5 - three, three], rtol=1e-14)


@pytest.mark.extended
@pytest.mark.parametrize("m", [3, 5, 8, 10])
def test_uniform_points_round_to_ranks_as_often_as_said(m):
    sphere, rng, n = ConwaySphere(m), np.random.default_rng(m), 10_000
    x = np.stack([sphere.random_point(rng) for _ in range(n)])
    ranks = np.trace(sphere.nearest_projection(x), axis1=1, axis2=2).round().astype(int)
    seen, p = np.bincount(ranks, minlength=m + 1) / n, np.exp(log_rank_probabilities(m))
    allowed = N_ERRORS * np.sqrt(p * (1 - p) / n) + 2 / n  # a count of none, or of one, is no Gaussian
    assert np.all(np.abs(seen - p) < allowed)
    assert not np.all(np.abs(np.roll(seen, 1) - p) < allowed)


@pytest.mark.parametrize("m", [1, 2, 7, 24])
def test_it_is_a_symmetric_law_that_falls_from_the_middle(m):
    logs = log_rank_probabilities(m)
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-14)
    np.testing.assert_array_equal(logs, logs[::-1])
    falls = np.diff(logs[: m // 2 + 1])
    assert np.all(falls > 0)
    assert np.all(np.diff(falls) < 0)


def test_tails_fall_as_the_theory_of_large_deviations_says():
    least = {m: log_rank_probabilities(m)[0] for m in (20, 30, 40)}
    assert least[40] - 2 * least[30] + least[20] == pytest.approx(-200 * np.log(3) / 4, rel=1e-3)
    assert least[40] == pytest.approx(-(40**2) * np.log(3) / 4, rel=0.05)


def test_there_are_digits_to_spare():
    m = 24
    np.testing.assert_allclose(log_rank_probabilities(m), _log_probabilities(m, digits=400), rtol=1e-15)
    with pytest.raises(InvalidOperation):  # the logarithm of a negative number
        _log_probabilities(m, digits=40)


def test_the_result_is_kept_and_cannot_be_spoilt():
    assert log_rank_probabilities(5) is log_rank_probabilities(5)
    with pytest.raises(ValueError, match="read-only"):
        log_rank_probabilities(5)[0] = 0


@pytest.mark.parametrize("m", [0, -1, 2.5])
def test_what_is_no_dimension_is_refused(m):
    with pytest.raises((TypeError, ValueError), match="m of log_rank_probabilities"):
        log_rank_probabilities(m)
