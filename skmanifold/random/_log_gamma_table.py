"""Draws of logarithms of gamma variates that share one shape, by tabulated quantiles.

For many draws with one shape, interpolation in a table is several times as fast as the general method of
`log_gamma_variate`. The quantile function of the logarithm, as a function of the smaller v of a probability and its
complement, is smooth in log v. The table has a cubic polynomial for each of 16 equal parts of each interval
[2^-e, 2^(1-e)) of v. The error is below 1e-7 standard deviations, less than the rounding of a float32.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import gammainccinv, gammaincinv, gammaln

from ..utils._njit import njit_part
from ._keys import uniform

_BIN_BITS = 4
_N_BINS = 1 << _BIN_BITS
_N_EXPONENTS = 55  # a uniform variate is a multiple of 2^-53, and 0 is read as 2^-54
_MANTISSA_BITS = 52
_BIAS = 1023
_EXPONENT_MASK = (1 << 11) - 1
_POSITION_MASK = (1 << (_MANTISSA_BITS - _BIN_BITS)) - 1
_POSITION_UNIT = 2.0 ** (_BIN_BITS - _MANTISSA_BITS)
_LEAST_PROBABILITY = 2.0**-54
_NODES = (1 - np.cos(np.pi * (np.arange(4) + 0.5) / 4)) / 2  # of Chebyshev, in (0, 1)
_LEAST = 1e-280  # smaller quantiles are computed from the first term of their series


@lru_cache(maxsize=8)
def log_gamma_table(shape: float) -> np.ndarray:
    """Table of a positive shape, (2, 55, 16, 4): polynomials of small probabilities and of small complements."""
    scale = 2.0 ** -np.arange(_N_EXPONENTS)[:, np.newaxis, np.newaxis] / 2
    v = scale * (1 + (np.arange(_N_BINS)[:, np.newaxis] + _NODES) / _N_BINS)
    v = np.minimum(v, 1 - 2.0**-53)  # values above 1/2 are not used
    lower, upper = gammaincinv(shape, v), gammainccinv(shape, v)
    first_term = (np.log(v) + gammaln(shape + 1)) / shape
    with np.errstate(divide="ignore"):
        lower = np.where(lower > _LEAST, np.log(lower), first_term)
        complement = (np.log1p(-v) + gammaln(shape + 1)) / shape  # where the probability is 1 - v
        upper = np.where(upper > _LEAST, np.log(upper), complement)
    inverse = np.linalg.inv(np.vander(_NODES, increasing=True))
    table = np.stack([lower, upper]) @ inverse.T
    table.flags.writeable = False
    return table


@njit_part
def draw_log_gammas(table, key, number, bits, out):
    """Fill `out`, (n,), with logs of gamma variates from a table; `bits` is an int64 view of the scratch `number`."""
    for i in range(len(out)):
        probability = uniform(key, i)
        v = max(min(probability, 1.0 - probability), _LEAST_PROBABILITY)
        number[i] = v if probability < 0.5 else -v  # the sign bit is the index of the half of the table
    for i in range(len(out)):
        read = bits[i]
        exponent = (_BIAS - 1) - ((read >> _MANTISSA_BITS) & _EXPONENT_MASK)
        part = (read >> (_MANTISSA_BITS - _BIN_BITS)) & (_N_BINS - 1)
        x = (read & _POSITION_MASK) * _POSITION_UNIT
        c = table[1 if read < 0 else 0, exponent, part]
        out[i] = c[0] + x * (c[1] + x * (c[2] + x * c[3]))
