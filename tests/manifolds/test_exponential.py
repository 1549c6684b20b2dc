"""The matrix exponential against the library's, and its own laws."""

import numpy as np
import pytest
from scipy.linalg import expm

from skmanifold.manifolds._stiefel import exponential


def skew(size, norm, seed=0):
    a = np.random.default_rng(seed).standard_normal((size, size))
    a -= a.T
    return (norm / np.abs(a).sum(axis=1).max() * a)[None] if size > 1 else np.zeros((1, 1, 1))


@pytest.mark.parametrize("size", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("norm", [1e-9, 0.1, 0.749, 0.751, 1.0, 5.0, 60.0])
def test_skew_matrices_turn_as_the_library_says(size, norm):
    a = skew(size, norm)
    turned = exponential(a)
    np.testing.assert_allclose(turned[0], expm(a[0]), rtol=0, atol=1e-15 * max(10.0, 10 * norm))
    np.testing.assert_allclose(turned[0].T @ turned[0], np.eye(size), rtol=0, atol=1e-15 * max(4.0, norm))


def test_matrices_that_are_not_skew_and_one_at_a_time_the_same_bits():
    a = np.random.default_rng(3).standard_normal((4, 5, 5)) * np.array([0.1, 1.0, 3.0, 0.0])[:, None, None]
    together = exponential(a)
    np.testing.assert_allclose(together, expm(a), rtol=1e-11, atol=1e-12)
    for i in range(4):
        np.testing.assert_array_equal(exponential(a[i : i + 1])[0], together[i])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_gives_nan_and_does_not_spoil_the_others(bad):
    a = np.zeros((2, 3, 3))
    a[0, 0, 0] = bad  # of a diagonal matrix: products alone would not spread it everywhere
    turned = exponential(a)
    assert np.all(np.isnan(turned[0]))
    np.testing.assert_array_equal(turned[1], np.eye(3))
