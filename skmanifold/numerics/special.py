"""Rising factorials, of which Dirichlet-multinomial probabilities are made."""

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
