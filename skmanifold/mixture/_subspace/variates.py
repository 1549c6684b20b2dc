"""Integrals and variates that updates of a subspace need: ratios of precisions in (0, 1), and angles.

Along direction u the rows' scatter is R. With the noise's precision g and the ratio r of a direction's precision to it,
of law Beta(a, 1), a direction within the subspace has the marginal likelihood

    a int_0^1 r^(a + n/2 - 1) exp(-g r R / 2) dr    against exp(-g R / 2) across it.
"""

from __future__ import annotations

import math

from ...random._keys import uniform
from ...random._variates import open_uniform
from ...utils._njit import njit

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


@njit(cache=True, nogil=True)
def log_gain(n, scatter, noise, shape):
    """Log marginal likelihood of a direction within the subspace, less that of the same across it."""
    rate = 0.5 * noise * scatter
    return math.log(shape) + log_unit_gamma(shape + 0.5 * n, rate) + rate


@njit(cache=True, nogil=True)
def von_mises(key, concentration):
    """An angle about 0 of density in proportion to exp(concentration cos(angle)): Best and Fisher (1979).

    Their r and f are near 1 at large concentrations, where r - 1 and 1 - f stand for them without loss of digits. Their
    r is (1 + root) / (2 concentration).
    """
    if concentration < 1e-16:
        return math.pi * (2.0 * open_uniform(key, 0) - 1.0)
    root = math.hypot(1.0, 2.0 * concentration)
    beyond = (1.0 + 1.0 / (root + 2.0 * concentration)) / (2.0 * concentration)  # r - 1
    counter = 0
    while True:
        half = 0.5 * math.pi * open_uniform(key, counter)
        sine, cosine = math.sin(half), math.cos(half)
        short = 2.0 * sine * sine * beyond / (beyond + 2.0 * cosine * cosine)  # 1 - f
        c = concentration * (beyond + short)
        u = open_uniform(key, counter + 1)
        counter += 3
        if c * (2.0 - c) > u or math.log(c / u) + 1.0 - c >= 0.0:
            angle = 2.0 * math.asin(math.sqrt(min(0.5 * short, 1.0)))
            return angle if uniform(key, counter - 1) < 0.5 else -angle
