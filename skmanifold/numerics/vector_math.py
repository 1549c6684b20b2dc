"""Exponentials and logarithms of whole arrays.

They are series in loops that the compiler vectorises, with IEEE arithmetic in a fixed order, so results are identical
on all processors. Floats and their bits have separate loops, because a loop with both is not vectorised.
"""

from __future__ import annotations

import numpy as np

from ..utils._njit import njit, njit_part

_LEAST_EXPONENT = -700.0  # its exponential, 1e-304, is a normal number; below -708 it would not be
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # 33 bits, so that n times it is exact
_SHIFT = 6755399441055744.0  # 1.5 * 2^52: its sum with a small number holds the nearest integer in the low bits
_N_MANTISSA_BITS = np.int64(52)
_HALF_ROOT = np.int64(0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)  # mask of the 52 bits of a float64's mantissa
_SHIFT_BITS = np.int64(0x4338000000000000)  # bits of _SHIFT


@njit_part
def copy_to(out, values):
    """``out[:] = values``, for which numba compiles messages about shapes, which takes two seconds."""
    for i in np.ndindex(values.shape):
        out[i] = values[i]


@njit(cache=True, nogil=True)
def fill_exp(n, x, powers, out):
    """``out = exp(x)`` to 1e-15 for x from -700 to 700, and 1e-304 below that: the Taylor series of order 12."""
    power_bits, out_bits = powers.view(np.int64), out.view(np.int64)
    for j in range(n):
        y = x[j] if x[j] > _LEAST_EXPONENT else _LEAST_EXPONENT
        shifted = y * _LOG2_E + _SHIFT
        powers[j] = shifted
        whole = shifted - _SHIFT
        r = (y - whole * _LN2_HIGH) - whole * _LN2_LOW
        s = 1 / 39916800 + r * (1 / 479001600)
        s = 1 / 3628800 + r * s
        s = 1 / 362880 + r * s
        s = 1 / 40320 + r * s
        s = 1 / 5040 + r * s
        s = 1 / 720 + r * s
        s = 1 / 120 + r * s
        s = 1 / 24 + r * s
        s = 1 / 6 + r * s
        s = 1 / 2 + r * s
        out[j] = 1.0 + (r + r * r * s)
    for j in range(n):
        out_bits[j] += power_bits[j] << _N_MANTISSA_BITS


@njit(cache=True, nogil=True, error_model="numpy")  # a check for a zero divisor would prevent vectorisation
def fill_log(n, x, powers, fractions, out):
    """``out = log(x)`` to 1e-15, also relative near 1, for normal numbers: the series of atanh for x / 2^k near 1."""
    bits, power_bits, fraction_bits = x.view(np.int64), powers.view(np.int64), fractions.view(np.int64)
    for j in range(n):
        above = bits[j] - _HALF_ROOT
        power_bits[j] = _SHIFT_BITS + (above >> _N_MANTISSA_BITS)
        fraction_bits[j] = (above & _MANTISSA) + _HALF_ROOT
    for j in range(n):
        whole, f = powers[j] - _SHIFT, fractions[j] - 1.0
        s = f / (2.0 + f)
        t = s * s
        r = 2 / 17 + t * (2 / 19)
        r = 2 / 15 + t * r
        r = 2 / 13 + t * r
        r = 2 / 11 + t * r
        r = 2 / 9 + t * r
        r = 2 / 7 + t * r
        r = 2 / 5 + t * r
        r = 2 / 3 + t * r
        half = 0.5 * f * f
        out[j] = whole * _LN2_HIGH - ((half - (s * (half + t * r) + whole * _LN2_LOW)) - f)
