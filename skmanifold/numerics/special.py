"""Special functions: rising factorials and the incomplete gamma integral over the unit interval, as logarithms."""

from __future__ import annotations

import math

from ..utils._njit import njit


@njit(cache=True, nogil=True)
def log_rising_of_real(x, n):
    """Log of Gamma(x + n) / Gamma(x), for x > 0 and n >= 0, whole or not."""
    if x < 1000.0:
        return math.lgamma(x + n) - math.lgamma(x)
    # The difference of Stirling's series, term by term: at large x two log gammas agree in all their digits.
    last = x + n
    correction = (1 / last - 1 / x) / 12 - (1 / last**3 - 1 / x**3) / 360
    return (last - 0.5) * math.log1p(n / x) + n * (math.log(x) - 1.0) + correction


@njit(cache=True, nogil=True)
def log_rising(x, n):
    """Log of Gamma(x + n) / Gamma(x), for x > 0 and a whole n >= 0."""
    if n > 8:
        return log_rising_of_real(x, n)
    # Most counts are small, and one logarithm is cheaper than two log gammas.
    product = 1.0
    for i in range(n):
        product *= x + i
    return math.log(product)


_MAX_TERMS = 1_000_000


@njit(cache=True, nogil=True)
def log_unit_gamma(shape, rate):
    r"""Log of the integral of :math:`u^{shape - 1} e^{-rate \, u}` over u from 0 to 1."""
    if rate < shape + 1.0:
        term = 1.0
        total = 1.0
        for i in range(1, _MAX_TERMS):
            term *= rate / (shape + i)
            total += term
            if term < 1e-17 * total:
                break
        return math.log(total) - rate - math.log(shape)
    # What is beyond 1, by Lentz's continued fraction
    tiny = 1e-300
    b = rate + 1.0 - shape
    c = 1.0 / tiny
    d = 1.0 / b
    h = d
    for i in range(1, _MAX_TERMS):
        a = -i * (i - shape)
        b += 2.0
        d = a * d + b
        d = tiny if abs(d) < tiny else d
        c = b + a / c
        c = tiny if abs(c) < tiny else c
        d = 1.0 / d
        step = d * c
        h *= step
        if abs(step - 1.0) < 1e-15:
            break
    whole = math.lgamma(shape) - shape * math.log(rate)
    return whole + math.log1p(-math.exp(min(math.log(h) - rate - whole, -1e-300)))
