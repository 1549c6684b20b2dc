"""Rising factorials, of which Dirichlet-multinomial probabilities are made."""

from __future__ import annotations

import math

from numba import njit


@njit(cache=True, nogil=True)
def log_rising(x, n):
    """Log of Gamma(x + n) / Gamma(x), for x > 0 and n >= 0."""
    if n > 8:
        return math.lgamma(x + n) - math.lgamma(x)
    # Most counts are small, and one logarithm is cheaper than two log gammas.
    product = 1.0
    for i in range(n):
        product *= x + i
    return math.log(product)
