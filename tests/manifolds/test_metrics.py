"""The laws of diffusion metrics, and the billiard of the positive orthant."""

import numpy as np
import pytest

from skmanifold.manifolds import DiffusionMetric, PositiveOrthant
from skmanifold.utils._parameters import offers

from ._cases import MANIFOLDS, METRICS, moved, points

every_metric = pytest.mark.parametrize("manifold", METRICS, ids=repr)


def test_who_has_a_diffusion_metric():
    having = {type(m).__name__ for m in MANIFOLDS if offers(m, DiffusionMetric)}
    assert having == {"Euclidean", "PositiveOrthant"}
    assert all(offers(m, DiffusionMetric) for m in METRICS)


@every_metric
def test_the_divergence_is_the_derivative_of_the_inverse_metric(manifold):
    x = points(manifold, 3)
    h = 1e-6
    ahead, behind, divergence = (np.full_like(x, np.nan) for _ in range(3))
    expected = np.empty_like(x)
    for index in np.ndindex(manifold.shape):
        step = np.zeros(manifold.shape)
        step[index] = h
        manifold.inverse_metric(x + step, ahead)
        manifold.inverse_metric(x - step, behind)
        expected[(slice(None), *index)] = ((ahead - behind) / (2 * h))[(slice(None), *index)]
    manifold.divergence(x, divergence)
    np.testing.assert_allclose(divergence, expected, atol=1e-8)
    assert np.all(ahead > 0)


@every_metric
def test_reflection_leads_into_the_space_and_keeps_or_turns_each_momentum(manifold):
    x, momentum = np.random.default_rng(4).standard_normal((2, 5, *manifold.shape))
    x_before, momentum_before = x.copy(), momentum.copy()
    manifold.reflect(x, momentum)
    manifold.check_point(x)
    np.testing.assert_array_equal(np.abs(x), np.abs(x_before))
    np.testing.assert_array_equal(x * momentum, x_before * momentum_before)  # both turn, or neither
    again = x.copy(), momentum.copy()
    manifold.reflect(*again)
    np.testing.assert_array_equal(again, (x, momentum))
    alone = x_before.copy()
    manifold.reflect(alone)
    np.testing.assert_array_equal(alone, x)


def test_the_metric_of_the_orthant_is_that_of_poisson_counts():
    x = points(PositiveOrthant((2, 2)), 3)
    out = np.empty_like(x)
    PositiveOrthant((2, 2)).inverse_metric(x, out)
    np.testing.assert_array_equal(out, x)
    x[...] = 0
    assert np.all(out > 0)  # a copy


def test_the_billiard_meets_each_wall_once():
    x, v = np.array([[1.0, 2.0, 0.5]]), np.array([[-1.0, -1.0, 3.0]])
    there, velocity = moved(PositiveOrthant(3), x, v, 1.5)
    np.testing.assert_array_equal(there, [[0.5, 0.5, 5.0]])
    np.testing.assert_array_equal(velocity, [[1.0, -1.0, 3.0]])


def test_the_billiard_from_the_wall_itself():
    there, velocity = moved(PositiveOrthant(2), np.zeros((1, 2)), np.array([[-2.0, 2.0]]), 0.5)
    np.testing.assert_array_equal(there, [[1.0, 1.0]])
    np.testing.assert_array_equal(velocity, [[2.0, 2.0]])
