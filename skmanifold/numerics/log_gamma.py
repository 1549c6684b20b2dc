"""Logarithms of the gamma function and their derivatives, for whole arrays."""

from __future__ import annotations

from ..utils._njit import njit
from .vector_math import fill_log

N_WORK = 5  # rows of `work`
_SHIFT = 10  # from here on the first omitted terms of Stirling's series are below 1e-15
_HALF_LOG_2_PI = 0.9189385332046727


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
