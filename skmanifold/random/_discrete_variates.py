"""Poisson, binomial and multinomial variates, and random partitions, as functions of a key.

Each draw needs a separate key and uses the whole stream of it. All methods are exact up to the rounding of float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..utils._njit import njit
from ._keys import fold_in
from ._variates import _log1p_beyond_cubic, open_uniform

# Poisson counts

MAX_MEAN = 2.0**52  # above this, float64 cannot represent all whole numbers around the mean
_N_FACTORIALS = 16
_LOG_FACTORIALS = np.array([math.lgamma(k + 1.0) for k in range(_N_FACTORIALS)])


@njit(cache=True, nogil=True)
def _log_poisson(k, mean):
    """Log Poisson probability of `k` times sqrt(2 pi max(k, 1)), by Stirling's series and a deviance (Loader, 2000).

    The plain k log(mean) - mean - log(k!) loses log10(mean) digits.
    """
    if k < _N_FACTORIALS:
        return k * math.log(mean) - mean - _LOG_FACTORIALS[int(k)] + 0.5 * math.log(2.0 * math.pi * max(k, 1.0))
    excess = (k - mean) / mean
    deviance = excess * excess * (1 / 2 - excess * (1 / 6 - excess / 3)) + (1.0 + excess) * _log1p_beyond_cubic(excess)
    r = 1.0 / k
    return -mean * deviance - r * (1 / 12 - r * r * (1 / 360 - r * r / 1260))


@njit(cache=True, nogil=True)
def _poisson_by_inversion(key, mean):
    u = open_uniform(key, 0)
    p = math.exp(-mean)
    k = 0.0
    while u > p and k < 64.0:  # at means below 10, possible only by rounding
        u -= p
        k += 1.0
        p *= mean / k
    return k


@njit(cache=True, nogil=True)
def _poisson_by_rejection(key, mean):
    """Transformed rejection with squeeze, PTRS of Hörmann (1993), for means of 10 and more."""
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    sure = 0.9277 - 3.6224 / (b - 2.0)
    counter = 0
    while True:
        u = open_uniform(key, counter) - 0.5
        v = open_uniform(key, counter + 1)
        counter += 2
        room = 0.5 - abs(u)
        k = np.floor((2.0 * a / room + b) * u + mean + 0.43)  # math.floor would make an int64 of it
        if room >= 0.07 and v <= sure:
            return k
        if k < 0.0 or (room < 0.013 and v > room):
            continue
        hat = v * inverse_alpha / (a / (room * room) + b)
        if math.log(hat * math.sqrt(2.0 * math.pi * max(k, 1.0))) <= _log_poisson(k, mean):
            return k


@njit(cache=True, nogil=True)
def poisson(key, mean):
    """A Poisson variate.

    Parameters
    ----------
    key : uint64
        Key of the random stream, which must not be used for other draws.
    mean : float
        Mean, from 0 to 2^52.

    Returns
    -------
    float
        The count; NaN if the mean is out of its range.
    """
    if not 0.0 <= mean <= MAX_MEAN:
        return np.nan
    if mean < 10.0:
        return _poisson_by_inversion(key, mean)
    return _poisson_by_rejection(key, mean)


# Binomial and multinomial counts


@njit(cache=True, nogil=True)
def _log_binomial(k, n, p):
    """Log of the binomial probability of `k`, up to a constant that depends on n alone.

    A binomial is two Poisson variates given their sum, so that Loader's (2000) series serves it too.
    """
    rest = n - k
    log_spread = math.log(max(k, 1.0)) + math.log(max(rest, 1.0))
    return _log_poisson(k, n * p) + _log_poisson(rest, n * (1.0 - p)) - 0.5 * log_spread


@njit(cache=True, nogil=True)
def _binomial_by_inversion(key, n, p):
    u = open_uniform(key, 0)
    odds = p / (1.0 - p)
    mass = math.exp(n * math.log1p(-p))
    k = 0.0
    while u > mass and k < n and k < 64.0:  # at means below 10, possible only by rounding
        u -= mass
        k += 1.0
        mass *= odds * ((n - k + 1.0) / k)
    return k


@njit(cache=True, nogil=True)
def _binomial_by_rejection(key, n, p):
    """Transformed rejection with squeeze, BTRS of Hörmann (1993), for p up to 1/2 and means of 10 and more."""
    deviation = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * deviation
    sure = 0.92 - 4.2 / b
    counter = 0
    while True:
        u = open_uniform(key, counter) - 0.5
        v = open_uniform(key, counter + 1)
        counter += 2
        room = 0.5 - abs(u)
        k = np.floor((2.0 * a / room + b) * u + n * p + 0.5)
        if room >= 0.07 and v <= sure:
            return k
        if k < 0.0 or k > n:
            continue
        hat = v * alpha / (a / (room * room) + b)
        if math.log(hat) <= _log_binomial(k, n, p) - _log_binomial(np.floor((n + 1.0) * p), n, p):
            return k


@njit(cache=True, nogil=True)
def binomial(key, n, p):
    """A binomial variate of `n` trials, up to 2^52, as a whole float64; 0 if p is nan or not positive, n if it is 1."""
    if not p > 0.0:
        return 0.0
    if p >= 1.0:
        return float(n)
    small = min(p, 1.0 - p)
    k = _binomial_by_inversion(key, n, small) if n * small < 10.0 else _binomial_by_rejection(key, n, small)
    return k if small == p else n - k


@njit(cache=True, nogil=True)
def multinomial(key, n, weights, tails, out):
    """Set the first of `out` to how many of `n` fall to each weight, by conditional binomials in the order of weights.

    `tails` becomes the sums of each weight and all behind it. Weights must be finite and not negative, and one
    positive; otherwise the last takes what is left.
    """
    last = len(weights) - 1
    tails[last] = weights[last]
    for k in range(last - 1, -1, -1):
        tails[k] = tails[k + 1] + weights[k]  # never below weights[k]: no probability exceeds 1
    left = np.int64(n)
    for k in range(last):
        taken = np.int64(0)
        if left > 0 and weights[k] > 0.0:
            taken = np.int64(binomial(fold_in(key, k), left, weights[k] / tails[k]))
        out[k] = taken
        left -= taken
    out[last] = left


@njit(cache=True)
def first_above(sums, n, value):
    """Index of the first of `n` running sums above `value`, the last one if there is none; without branches."""
    low = 0
    while n > 1:
        half = n >> 1
        low += half if sums[low + half - 1] <= value else 0
        n -= half
    return low


def draw_partition(rng: np.random.Generator, n: int, concentration: float) -> np.ndarray:
    """Draw labels, (n,) int32, of a Chinese restaurant process with n >= 1; cluster 0 is the largest."""
    is_new = rng.random(n) * (np.arange(n) + concentration) < concentration
    is_new[0] = True
    of_earlier = rng.integers(0, np.maximum(np.arange(n), 1))  # an element joins the cluster of a random earlier one
    labels, n_clusters = np.empty(n, np.int32), 0
    for i in range(n):
        labels[i] = n_clusters if is_new[i] else labels[of_earlier[i]]
        n_clusters += is_new[i]
    order = np.argsort(-np.bincount(labels), kind="stable")
    places = np.empty(len(order), np.int32)
    places[order] = np.arange(len(order))
    return places[labels]
