"""Truncated gamma draws, in the body of the law and far in its tails."""

import numpy as np
import pytest
from scipy.special import gammainc, gammaincc
from scipy.stats import kstest

from skmanifold.distributions import sample_truncated_gamma
from skmanifold.distributions._gamma import _draw_truncated_gamma
from skmanifold.random._keys import subkey

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # interpreted 64-bit keys


@pytest.mark.parametrize(
    ("shape", "lower", "upper"),
    [
        *[(0.5, 0, np.inf), (0.5, 2, np.inf), (3, 1, 2), (3, 0, 0.5), (50, 40, 60), (50, 70, np.inf), (50, 0, 30)],
        *[(0.05, 1e-3, 1), (0.05, 0, 1e-2), (1, 0, 3), (1000, 900, 950), (1000, 0, 1000), (1e6, 1e6, np.inf)],
    ],
)
def test_draws_follow_the_truncated_law(shape, lower, upper):
    rate = 2.5
    x = rate * sample_truncated_gamma(shape, rate, lower / rate, upper / rate, size=4000, random_state=1)
    low = gammainc(shape, lower)
    uniforms = (gammainc(shape, x) - low) / (gammainc(shape, upper) - low)
    assert kstest(uniforms, "uniform").pvalue > 1e-4
    upper_tail = gammaincc(shape, x), gammaincc(shape, lower), gammaincc(shape, upper)
    survival = (upper_tail[0] - upper_tail[2]) / (upper_tail[1] - upper_tail[2])
    assert kstest(survival, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shape", [1e-300, 1e-3, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("lower", [680.0, 1e4, 1e8, 1e12])
def test_upper_tail_is_nearly_exponential(shape, lower):
    # Beyond the limit the survival is exp(-t) (1 + t / lower)^(shape - 1), times 1 + O(t / lower^2).
    t = sample_truncated_gamma(shape, 1.0, lower, size=4000, random_state=2) - lower
    assert np.all((t >= 0) & (t < 60))
    log_survival = -t + (shape - 1) * np.log1p(t / lower) + np.log1p((shape - 1) / (lower + t))
    log_survival -= np.log1p((shape - 1) / lower)
    assert kstest(np.minimum(np.exp(log_survival), 1.0), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shape", [0.2, 5.0, 1e4])
def test_lower_tail_is_nearly_a_power(shape):
    upper = 1e-6 * shape
    x = sample_truncated_gamma(shape, 1.0, 0.0, upper, size=4000, random_state=3)
    assert kstest((x / upper) ** shape, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("shape", [1e-300, 1e-12])
def test_tiny_shapes_are_log_uniform_between_limits(shape):
    x = sample_truncated_gamma(shape, 1.0, 1e-200, 1e-20, size=4000, random_state=4)
    assert kstest(np.log10(x) / 180 + 200 / 180, "uniform").pvalue > 1e-4


def test_narrow_intervals_are_uniform():
    x = sample_truncated_gamma(7.0, 1.0, 5.0, 5.0 + 1e-9, size=4000, random_state=5)
    assert kstest((x - 5.0) / 1e-9, "uniform").pvalue > 1e-4


def test_every_corner_is_finite_within_its_limits_and_accepts():
    key = np.uint64(3)
    limits = [(0, np.inf), (0, 1e-3), (0, 1), (1e-5, 1e-4), (0.9, 1.1), (5, np.inf), (1e3, np.inf), (1e300, np.inf)]
    limits += [(1e3, 1e3 + 1e-9), (0, 1e-310), (900, 1100), (0, 1e6), (1e6, np.inf), (0, 5e-324), (1e-310, 1e-305)]
    for i, shape in enumerate([1e-300, 1e-100, 1e-10, 1e-3, 0.1, 1.0, 3.0, 1e3, 1e15, 1e100]):
        for rate in (1e-200, 1.0, 1e200):
            for j, (lower, upper) in enumerate(limits):
                n_tried = 0
                for draw in range(40):
                    stream = subkey(key, i, j, draw)
                    x, n = _draw_truncated_gamma(stream, shape, rate, float(lower), float(upper))
                    assert lower <= x <= upper
                    assert np.isfinite(x)
                    n_tried += n
                assert n_tried < 80, (shape, rate, lower, upper)


def test_shapes_and_seeds():
    assert isinstance(sample_truncated_gamma(1.0, random_state=0), float)
    assert sample_truncated_gamma([1.0, 2.0], [[1.0], [2.0], [3.0]]).shape == (3, 2)
    assert sample_truncated_gamma([1.0, 2.0], size=(4, 2)).shape == (4, 2)
    first = sample_truncated_gamma(0.5, size=10, random_state=1)
    np.testing.assert_array_equal(sample_truncated_gamma(0.5, size=10, random_state=1), first)
    assert len(np.unique(first)) == 10


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0.0, 1.0), "shape must be positive"),
        ((np.nan, 1.0), "shape must be positive"),
        ((1.0, 0.0), "rate must be positive"),
        ((1.0, 1.0, 2.0, 2.0), "0 <= lower < upper"),
        ((1.0, 1.0, -1.0), "0 <= lower < upper"),
        ((1.0, 1.0, np.nan), "0 <= lower < upper"),
        (([1.0, 2.0], 1.0, 0.0, 1.0, 3), "do not broadcast to size"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments, words):
    with pytest.raises(ValueError, match=words):
        sample_truncated_gamma(*arguments)
