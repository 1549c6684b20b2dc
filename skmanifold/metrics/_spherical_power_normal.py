"""The distribution on x > 0 with density proportional to x^(a - 1) exp(mu x - x^2 / 2): moments and draws.

It is the posterior of one variable with a gamma prior and a normal likelihood. As mu decreases it approaches a gamma
distribution; as mu increases, a normal distribution. Its normaliser and mean are tabulated for each a on a grid of mu.
For mu outside of the grid, and for large a, draws come from an approximating distribution with a known density.
"""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import fold_in, uniform
from ..random._variates import gamma_variate, normal, open_uniform
from ..utils._njit import njit_part

_REACH = 12.0  # the grid of mu is [-12, 12]
_STEP = 1.0 / 16.0
_PARTS = 4  # integration steps per step of the grid
_LEAD = 96  # additional steps before the grid, in which the error of the approximate initial value decays
_ORIGIN = int(_REACH / _STEP)
N_NODES = 2 * _ORIGIN + 1
_MOST_MIXED = 6.0  # above it, the probability mass close to 0 is less than 1e-6 of that of a normal distribution
_LARGE = 20.0  # shapes above it need no table: a distribution with the same mode and curvature is accurate
_MAX_TERMS = 400


@njit_part
def _approximate_moments(a, mu):
    """Mean and variance outside of the grid: of the limiting gamma distribution, or from the curvature at the mode."""
    if mu < 0.0 and a < _LARGE:
        mean = 2.0 * a / (math.sqrt(mu * mu + 4.0 * (a + 1.0)) - mu)
        return mean, mean * mean / a
    mode = _find_mode(a, mu)
    variance = 1.0 / (1.0 + (a - 1.0) / (mode * mode))
    return 0.5 * (mu + math.sqrt(mu * mu + 4.0 * (a - variance))), variance


@njit_part
def _find_mode(a, mu):
    """The mode, which exists for a >= 1 or mu^2 > 4 (1 - a)."""
    root = math.sqrt(mu * mu + 4.0 * (a - 1.0))
    return 0.5 * (mu + root) if mu >= 0.0 else 2.0 * (a - 1.0) / (root - mu)


@njit_part
def _tabulate(a, table):
    """Fill rows (log normaliser, mean) of the grid: the mean R solves R' = a + mu R - R^2, and log Z has the slope R.

    The equation is integrated by classical Runge-Kutta steps; errors of the initial value decay as mu increases.
    """
    h = _STEP / _PARTS
    mu = -_REACH - _LEAD * _STEP
    mean, _ = _approximate_moments(a, mu)
    log_z = 0.0
    for step in range((N_NODES - 1 + _LEAD) * _PARTS + 1):
        node = step // _PARTS - _LEAD
        if node >= 0 and step % _PARTS == 0:
            table[node, 0] = log_z
            table[node, 1] = mean
        slope_1 = a + (mu - mean) * mean
        middle = mu + 0.5 * h
        mean_2 = mean + 0.5 * h * slope_1
        slope_2 = a + (middle - mean_2) * mean_2
        mean_3 = mean + 0.5 * h * slope_2
        slope_3 = a + (middle - mean_3) * mean_3
        mu = -_REACH - _LEAD * _STEP + (step + 1) * h
        mean_4 = mean + h * slope_3
        slope_4 = a + (mu - mean_4) * mean_4
        log_z += h / 6.0 * (mean + 2.0 * (mean_2 + mean_3) + mean_4)
        mean += h / 6.0 * (slope_1 + 2.0 * (slope_2 + slope_3) + slope_4)
    shift = (0.5 * a - 1.0) * math.log(2.0) + math.lgamma(0.5 * a) - table[_ORIGIN, 0]
    for node in range(N_NODES):
        table[node, 0] += shift


def tabulate(shapes: np.ndarray) -> np.ndarray:
    """Tables of the distribution for each shape, (n, N_NODES, 2); successive equal shapes are computed once."""
    tables = np.zeros((len(shapes), N_NODES, 2))
    for i, shape in enumerate(shapes):
        if i > 0 and shape == shapes[i - 1]:
            tables[i] = tables[i - 1]
        elif shape < _LARGE:
            _tabulate(shape, tables[i])
    return tables


@njit_part
def _look_up(a, mu, table):
    """Log normaliser and mean at a `mu` within the grid, by cubic Hermite interpolation."""
    place = (mu + _REACH) / _STEP
    node = min(int(place), N_NODES - 2)
    t = place - node
    low = -_REACH + node * _STEP
    log_0, mean_0 = table[node]
    log_1, mean_1 = table[node + 1]
    slope_0 = _STEP * (a + (low - mean_0) * mean_0)
    slope_1 = _STEP * (a + (low + _STEP - mean_1) * mean_1)
    rest = 1.0 - t
    of_0, of_1 = (1.0 + 2.0 * t) * rest * rest, t * t * (3.0 - 2.0 * t)
    of_slope_0, of_slope_1 = t * rest * rest, -t * t * rest
    log_z = of_0 * log_0 + of_1 * log_1 + _STEP * (of_slope_0 * mean_0 + of_slope_1 * mean_1)
    return log_z, of_0 * mean_0 + of_1 * mean_1 + of_slope_0 * slope_0 + of_slope_1 * slope_1


@njit_part
def moments(a, mu, table):
    """Mean and variance, approximate off the grid."""
    if abs(mu) >= _REACH or a >= _LARGE:
        return _approximate_moments(a, mu)
    _, mean = _look_up(a, mu, table)
    return mean, max(a + (mu - mean) * mean, 1e-6 * mean * mean)


@njit_part
def draw(a, mu, table, key):
    """A draw, and the log of its proposal density divided by x^(a - 1); infinity for a draw outside of the support."""
    if mu > _MOST_MIXED or (mu > 0.0 and a >= _LARGE):
        return _draw_normal(a, mu, key)
    if a >= _LARGE or mu <= -_REACH:
        return _draw_gamma(a, mu, key)
    log_z, _ = _look_up(a, mu, table)
    x = _draw_by_rejection(a, mu, key) if mu <= 0.0 else _draw_mixture(a, mu, log_z, table, key)
    return x, (mu - 0.5 * x) * x - log_z


@njit_part
def _draw_normal(a, mu, key):
    """Draw from the normal distribution with the same mode and curvature; the target has no density below 0."""
    mode = _find_mode(a, mu)
    precision = 1.0 + (a - 1.0) / (mode * mode)
    z = normal(key, 0)
    x = mode + z / math.sqrt(precision)
    if x <= 0.0:
        return mode, np.inf
    return x, 0.5 * (math.log(precision / (2.0 * math.pi)) - z * z) - (a - 1.0) * math.log(x)


@njit_part
def _draw_gamma(a, mu, key):
    """Draw from a gamma distribution of the same shape, tangent to the normal factor at its mean.

    For a large `a` it has the same mode and curvature instead, so a larger shape: accurate if almost no draws are near
    0.
    """
    shape = a
    if a < _LARGE:
        rate = 0.5 * (math.sqrt(mu * mu + 4.0 * a) - mu)
    else:
        mode = _find_mode(a, mu)
        shape = a + mode * mode
        rate = (shape - 1.0) / mode
    x = gamma_variate(key, shape) / rate
    log_density = shape * math.log(rate) - math.lgamma(shape) - rate * x
    if shape > a:
        log_density += (shape - a) * math.log(max(x, 1e-300))
    return x, log_density


@njit_part
def _draw_by_rejection(a, mu, key):
    """For mu <= 0: rejection from the gamma distribution tangent at its mean m, accepted with exp(-(x - m)^2 / 2)."""
    rate = 0.5 * (math.sqrt(mu * mu + 4.0 * a) - mu)
    mean = a / rate
    attempt = 0
    while True:
        x = gamma_variate(fold_in(key, attempt), a) / rate
        excess = x - mean
        if math.log(open_uniform(key, attempt)) < -0.5 * excess * excess or math.isnan(excess):
            return x
        attempt += 1


@njit_part
def _draw_mixture(a, mu, log_z, table, key):
    """For mu > 0: the series of exp(mu x) makes it a mixture, over j >= 0, of x^2 / 2 ~ Ga((a + j) / 2, 1)."""
    left = uniform(key, 0) * math.exp(log_z - table[_ORIGIN, 0])  # weights are relative to the first
    even, odd = 1.0, mu * table[_ORIGIN, 1]
    square = mu * mu
    j = 0
    while j < _MAX_TERMS:
        left -= even
        if left < 0.0:
            break
        left -= odd
        if left < 0.0:
            j += 1
            break
        even *= square * (a + j) / ((j + 1.0) * (j + 2.0))
        odd *= square * (a + j + 1.0) / ((j + 2.0) * (j + 3.0))
        j += 2
    return math.sqrt(2.0 * gamma_variate(fold_in(key, 1), 0.5 * (a + j)))
