"""Kernels of the Bessel functions for a single order and argument; other kernels may call them.

Two methods cover all orders nu >= 0 and arguments x >= 0. With r = sqrt(nu^2 + x^2):

- r < 50: the power series (DLMF 10.25.2) of positive terms, and Gauss' continued fraction (10.33.1) for the ratio;
- r >= 50: the uniform expansions (DLMF 10.41.3 and 10.41.5) to U_11. Their terms decrease like r^-k for every nu; at
  nu = 0 they are the expansions for large arguments (DLMF 10.40.1). At r = 50 the first omitted term is about 1e-17.

So nothing underflows or overflows, and the number of iterations is bounded.
"""

from __future__ import annotations

import math

import numpy as np

from ..utils._njit import njit

_N_TERMS = 12
_LARGE_RADIUS = 50.0
_LOG_2PI = math.log(2.0 * math.pi)


def _expansion_coefficients() -> np.ndarray:
    """Entry [k, j]: the coefficient of p^(k + 2 j) in U_k(p), by DLMF 10.41.9. No two summands differ in sign."""
    table = np.zeros((_N_TERMS, _N_TERMS))
    table[0, 0] = 1.0
    for k in range(_N_TERMS - 1):
        for j in range(k + 1):
            power = k + 2 * j
            table[k + 1, j] += table[k, j] * (0.5 * power + 0.125 / (power + 1))
            table[k + 1, j + 1] -= table[k, j] * (0.5 * power + 0.625 / (power + 3))
    return table


_COEFFICIENTS = _expansion_coefficients()


@njit(cache=True, nogil=True)
def compute_log_scaled(order, x):
    """Log of exp(-x) I_order(x) / x^order, which is finite at x = 0 and has no term of the size of a large x."""
    radius = math.hypot(order, x)
    if radius >= _LARGE_RADIUS:
        total = _sum_expansion(order, radius)[0]
        log_scale = order * order / (radius + x) - order * math.log(order + radius)  # radius - x, without cancelling
        return log_scale - 0.5 * (_LOG_2PI + math.log(radius)) + math.log(total)
    quarter = 0.25 * x * x
    total = 1.0
    term = 1.0
    m = 0
    while term > 1e-18 * total:
        m += 1
        term *= quarter / (m * (order + m))
        total += term
    return math.log(total) - x - order * math.log(2.0) - math.lgamma(order + 1.0)


@njit(cache=True, nogil=True)
def compute_ratio(order, x):
    """I_(order + 1)(x) / I_order(x)."""
    radius = math.hypot(order, x)
    if radius >= _LARGE_RADIUS:
        total, slope, _ = _sum_expansion(order, radius)
        return x / (radius + order) - x / (radius * radius) * (0.5 + slope / total)
    if x == 0.0:
        return 0.0
    # Each level multiplies the error of the initial value by the square of its ratio: about exp(-n^2 / x) in total.
    n_levels = 12 + int(6.0 * math.sqrt(x))
    last = order + n_levels
    ratio = x / (last + 0.5 + math.hypot(x, last + 1.0))
    for m in range(n_levels, 0, -1):
        ratio = x / (2.0 * (order + m) + x * ratio)
    return ratio


@njit(cache=True, nogil=True)
def compute_derivative(order, x, ratio):
    """Derivative of compute_ratio at x, where `ratio` is compute_ratio(order, x)."""
    radius = math.hypot(order, x)
    if radius >= _LARGE_RADIUS:
        total, slope, curvature = _sum_expansion(order, radius)
        mean = slope / total
        squared = 1.0 / (radius * radius)
        cosine = x * x * squared
        spread = cosine * squared * (curvature / total - mean * mean)
        return order / (radius * (radius + order)) + squared * (2.0 * cosine - 1.0) * (0.5 + mean) + spread
    if x < 1e-8:  # the next term of the series has relative size x^2
        return 0.5 / (order + 1.0)
    return 1.0 - ratio * ratio - (2.0 * order + 1.0) * ratio / x


@njit(cache=True, nogil=True)
def compute_inverse(dim, ratio):
    """The x at which compute_ratio(dim / 2 - 1, x) is `ratio`."""
    if ratio == 0.0:
        return 0.0
    half = 0.5 * (dim - 1.0)
    gap = (1.0 - ratio) * (1.0 + ratio)
    low = 2.0 * half * ratio / gap
    high = ratio * (half + math.sqrt(half * half + gap * dim)) / gap
    x = 0.5 * (low + high)
    for _ in range(60):
        value = compute_ratio(0.5 * dim - 1.0, x)
        if value < ratio:
            low = x
        else:
            high = x
        step = x - (value - ratio) / compute_derivative(0.5 * dim - 1.0, x, value)
        if not low <= step <= high:
            step = 0.5 * (low + high)
        done = abs(step - x) <= 4e-16 * x
        x = step
        if done:
            break
    return x


@njit(cache=True, nogil=True)
def compute_log_peak(order, concentration):
    """Log von Mises-Fisher density at the mode relative to the uniform distribution, for the order d / 2 - 1."""
    return compute_log_scaled(order, 0.0) - compute_log_scaled(order, concentration)


@njit(cache=True, nogil=True)
def _sum_expansion(order, radius):
    """The sum of U_k(p) / order^k at p = order / radius, and the operator p d/dp applied to it once and twice."""
    squared = (order / radius) ** 2
    total = 0.0
    first = 0.0
    second = 0.0
    scale = 1.0
    for k in range(_N_TERMS):
        value = 0.0
        slope = 0.0
        curvature = 0.0
        for j in range(k, -1, -1):
            coefficient = _COEFFICIENTS[k, j]
            power = k + 2 * j
            value = value * squared + coefficient
            slope = slope * squared + coefficient * power
            curvature = curvature * squared + coefficient * power * power
        total += scale * value
        first += scale * slope
        second += scale * curvature
        scale /= radius
        if scale < 1e-20:
            break
    return total, first, second
