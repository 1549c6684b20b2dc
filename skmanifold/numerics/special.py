"""Logarithms of the gamma function, of rising factorials and of the incomplete gamma integral over (0, 1)."""

from __future__ import annotations

import math

from ..utils._njit import njit
from .vector_math import fill_log

_STIRLING_FROM = 1000.0  # here the first omitted term, 1 / (1260 x^5), is below 1e-18
_MOST_FACTORS = 8  # factors of a product; most counts are small, and one logarithm is cheaper than two log gammas
_MAX_TERMS = 1_000_000  # maximum number of terms of a series and a continued fraction, which converge earlier
_TINY = 1e-300  # in place of zero denominators (Lentz's method as modified by Thompson and Barnett, 1986)
N_WORK = 5  # rows of `work`
_SHIFT = 10  # from here on the first omitted terms of Stirling's series are below 1e-15
_HALF_LOG_2_PI = 0.9189385332046727


@njit(cache=True, nogil=True)
def log_rising_of_real(x, n):
    """Log of Gamma(x + n) / Gamma(x), for x > 0 and n >= 0, whole or not."""
    if x < _STIRLING_FROM:
        return math.lgamma(x + n) - math.lgamma(x)
    # The difference of Stirling's series, term by term, because two log gammas at large x agree in all digits.
    last = x + n
    correction = (1 / last - 1 / x) / 12 - (1 / last**3 - 1 / x**3) / 360
    return (last - 0.5) * math.log1p(n / x) + n * (math.log(x) - 1.0) + correction


@njit(cache=True, nogil=True)
def log_rising(x, n):
    """Log of Gamma(x + n) / Gamma(x), for x > 0 and a whole n >= 0."""
    if n > _MOST_FACTORS:
        return log_rising_of_real(x, n)
    product = 1.0
    for i in range(n):
        product *= x + i
    return math.log(product)


@njit(cache=True, nogil=True)
def log_unit_gamma(shape, rate):
    r"""Log of the integral of :math:`u^{shape - 1} e^{-rate \, u}` over u from 0 to 1."""
    if rate < shape + 1.0:
        term = 1.0
        total = 1.0
        for i in range(1, _MAX_TERMS):
            term *= rate / (shape + i)
            total += term
            if term < 1e-17 * total:  # below half a unit in the last place, 1.1e-16
                break
        return math.log(total) - rate - math.log(shape)
    # The integral beyond 1, by Lentz's continued fraction
    b = rate + 1.0 - shape
    c = 1.0 / _TINY
    d = 1.0 / b
    h = d
    for i in range(1, _MAX_TERMS):
        a = -i * (i - shape)
        b += 2.0
        d = a * d + b
        d = _TINY if abs(d) < _TINY else d
        c = b + a / c
        c = _TINY if abs(c) < _TINY else c
        d = 1.0 / d
        step = d * c
        h *= step
        if abs(step - 1.0) < 1e-15:  # a few units in the last place
            break
    whole = math.lgamma(shape) - shape * math.log(rate)
    # Below 0, even if the integral beyond 1 is the whole by rounding
    return whole + math.log1p(-math.exp(min(math.log(h) - rate - whole, -1e-300)))


@njit(cache=True, nogil=True, error_model="numpy")  # a check for a zero divisor would prevent vectorisation
def fill_log_gamma(n, x, work, out_value, out_slope):
    """``out_value = log Gamma(x)`` and ``out_slope = digamma(x)`` for x from 1e-300 to 1e30; `work` is (N_WORK, n).

    Gamma(x) = Gamma(x + 10) / (x (x + 1) ... (x + 9)), without branches, to vectorise; errors of a few units of the
    largest term's last place.
    """
    product, shifted, powers, fractions, logs = work[0], work[1], work[2], work[3], work[4]
    for k in range(n):
        p, derivative = x[k], 1.0
        for i in range(1, _SHIFT):
            derivative = derivative * (x[k] + i) + p
            p *= x[k] + i
        product[k] = p
        out_slope[k] = -derivative / p
        shifted[k] = x[k] + _SHIFT
    fill_log(n, product, powers, fractions, logs)
    for k in range(n):
        out_value[k] = _HALF_LOG_2_PI - logs[k]
    fill_log(n, shifted, powers, fractions, logs)
    for k in range(n):
        r = 1.0 / shifted[k]
        q = r * r
        value = r * (1 / 12 - q * (1 / 360 - q * (1 / 1260 - q * (1 / 1680 - q * (1 / 1188 - q * (691 / 360360))))))
        slope = q * (1 / 12 - q * (1 / 120 - q * (1 / 252 - q * (1 / 240 - q * (1 / 132 - q * (691 / 32760))))))
        out_value[k] += (shifted[k] - 0.5) * logs[k] - shifted[k] + value
        out_slope[k] += logs[k] - 0.5 * r - slope
