"""Kernels for odds of two sides of a split and for Bayes factors: rising factorials, with few logarithms.

The odds are factor_x / factor_y * exp(log_odds). Both factors are kept between 1e-100 and 1e100, so that a logarithm is
needed only if their quotient leaves that range.
"""

from __future__ import annotations

import math

import numpy as np

from ..numerics.special import log_rising
from ..utils._njit import njit

_MOST_FACTORS = 8  # so many are multiplied before the size of the product is checked
_LARGE, _SMALL = 1e100, 1e-100


@njit(cache=True, nogil=True)
def log_bayes_factor_of_counts(prior, of_0, of_1):
    """Log of (a)_m (a)_n / (a)_{m + n}, rising factorials of the prior a; 0 if a count is zero.

    It is the contribution of the counts of one category in two clusters, and minus that of their totals.
    """
    if of_0 == 0 or of_1 == 0:
        return 0.0
    return log_rising(prior, np.int64(of_0)) - log_rising(prior + of_1, np.int64(of_0))


@njit(cache=True, nogil=True)
def _in_range(factor_x, factor_y, log_odds):
    """The same odds, with factors in their range."""
    if not (_SMALL < factor_x < _LARGE and _SMALL < factor_y < _LARGE):
        larger = max(factor_x, factor_y)
        factor_x /= larger
        factor_y /= larger
        if min(factor_x, factor_y) < _SMALL:
            log_odds += math.log(factor_x) - math.log(factor_y)
            factor_x = factor_y = 1.0
    return factor_x, factor_y, log_odds


@njit(cache=True, nogil=True)
def multiply_rising(x, y, n, factor_x, factor_y, log_odds):
    """Multiply the odds by the rising factorials (x)_n / (y)_n; long factorials are added as logarithms."""
    if n > _MOST_FACTORS:
        log_odds += log_rising(x, n) - log_rising(y, n)
        return factor_x, factor_y, log_odds
    for t in range(n):
        factor_x *= x + t
        factor_y *= y + t
    return _in_range(factor_x, factor_y, log_odds)


@njit(cache=True, nogil=True)
def multiply_power(x, y, n, factor_x, factor_y, log_odds):
    """Multiply the odds by (x / y)^n; high powers are added as logarithms."""
    if n > _MOST_FACTORS:
        return factor_x, factor_y, log_odds + n * math.log(x / y)
    for _ in range(n):
        factor_x *= x
        factor_y *= y
    return _in_range(factor_x, factor_y, log_odds)


@njit(cache=True, nogil=True)
def multiply(x, y, factor_x, factor_y, log_odds):
    """Multiply the odds by x / y."""
    return _in_range(factor_x * x, factor_y * y, log_odds)
