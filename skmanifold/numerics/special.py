"""Logarithms of gamma functions and their relatives; exponentials and logarithms of whole arrays."""

import math

import numpy as np

from ..utils._njit import njit, njit_part

_STIRLING_FROM = 1000.0  # here the first omitted term, 1 / (1260 x^5), is below 1e-18
_MOST_FACTORS = 8  # factors of a product; most counts are small, and one logarithm is cheaper than two log gammas
_MAX_TERMS = 1_000_000  # maximum number of terms of a series and a continued fraction, which converge earlier
_TINY = 1e-300  # in place of zero denominators (Lentz's method as modified by Thompson and Barnett, 1986)
N_WORK = 5  # rows of `work`
_LEAST_STIRLING = 10  # from here on the first omitted terms of Stirling's series are below 1e-15
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
        for i in range(1, _LEAST_STIRLING):
            derivative = derivative * (x[k] + i) + p
            p *= x[k] + i
        product[k] = p
        out_slope[k] = -derivative / p
        shifted[k] = x[k] + _LEAST_STIRLING
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


# They are series in loops that the compiler vectorises, with IEEE arithmetic in a fixed order, so results are identical
# on all processors. Floats and their bits have separate loops, because a loop with both is not vectorised.

_LEAST_EXPONENT = -700.0  # its exponential, 1e-304, is a normal number; below -708 it would not be
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # 33 bits, so that n times it is exact
_SHIFT = 6755399441055744.0  # 1.5 * 2^52: its sum with a small number holds the nearest integer in the low bits
_N_MANTISSA_BITS = np.int64(52)
_HALF_ROOT = np.int64(0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
_MANTISSA = np.int64(0x000FFFFFFFFFFFFF)  # mask of the 52 bits of a float64's mantissa
_SHIFT_BITS = np.int64(0x4338000000000000)  # bits of _SHIFT
# Coefficients of the series, from the last, as tuples: the compiler unrolls loops over them
_OF_EXP = tuple(1 / math.factorial(k) for k in range(12, 1, -1))
_OF_LOG = tuple(2 / k for k in range(19, 1, -2))


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
        s = _OF_EXP[0]
        for coefficient in _OF_EXP[1:]:
            s = coefficient + r * s
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
        r = _OF_LOG[0]
        for coefficient in _OF_LOG[1:]:
            r = coefficient + t * r
        half = 0.5 * f * f
        out[j] = whole * _LN2_HIGH - ((half - (s * (half + t * r) + whole * _LN2_LOW)) - f)
