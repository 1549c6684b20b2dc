"""Inner steps of two samplers as hand-written fused kernels, to compare composed steps with."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from skmanifold.manifolds._sphere import retract_to_sphere
from skmanifold.numerics.block_sums import dot
from skmanifold.random._keys import Purpose, fold_in
from skmanifold.random._variates import normal

RETRACT_EVERY = 100
UNIT = np.ones(1)  # for kernels: all radii are 1
_NOISE = Purpose.NOISE


@njit(cache=True, nogil=True)
def _flow_row(x, v, time):
    """Move one point along its great circle; returns the square of its speed."""
    rate = math.sqrt(dot(v, v))
    cosine, sine = math.cos(rate * time), math.sin(rate * time)
    time_sinc = sine / rate if rate > 0 else time
    for j in range(x.shape[0]):
        old = x[j]
        x[j] = cosine * old + time_sinc * v[j]
        v[j] = cosine * v[j] - rate * sine * old
    return dot(v, v)


@njit(cache=True, nogil=True)
def fused_gsgnht(stream, first, n_steps, h, strength, dim, force, x, v, thermostat):
    """Inner steps of GSGNHT, the scheme "ou", in one kernel with a constant gradient: one pass over the rows per step.

    Returns the first chain whose gradient is not finite, or -1.
    """
    n_points, d = x.shape[1], x.shape[2]
    for c in range(x.shape[0]):
        squares = 0.0
        for i in range(n_points):
            squares += _flow_row(x[c, i], v[c, i], h / 2)
        xi = thermostat[c] + h / 2 * (squares / dim - 1.0)
        for t in range(first, first + n_steps):
            key = fold_in(fold_in(stream[c], t), _NOISE)
            kept = math.exp(-xi * h)
            kick = 0.5 * h * (1.0 + kept)
            exponent = 2.0 * xi * h
            scale = math.sqrt(2.0 * h * strength * (1.0 if exponent == 0.0 else -math.expm1(-exponent) / exponent))
            squares, bad = 0.0, False
            time = h if t + 1 < first + n_steps else h / 2
            for i in range(n_points):
                row_x, row_v, row_force = x[c, i], v[c, i], force[c, i]
                for j in range(d):
                    bad |= not (abs(row_force[j]) < np.inf)
                    row_v[j] = kept * row_v[j] + kick * row_force[j] + scale * normal(key, i * d + j)
                along = dot(row_x, row_v)
                for j in range(d):
                    row_v[j] -= along * row_x[j]
                squares += _flow_row(row_x, row_v, time)
            if bad:
                return c
            xi += time * (squares / dim - 1.0)
            if t % RETRACT_EVERY == RETRACT_EVERY - 1:
                retract_to_sphere(x[c], v[c], UNIT)
        thermostat[c] = xi
    return -1


@njit(cache=True, nogil=True)
def fused_sghmc(stream, first, n_steps, h, friction, force, x, v):
    """Inner steps of SGHMC, the scheme "baoab", in one kernel with a constant gradient: one pass per step."""
    kept = math.exp(-friction * h)
    scale = math.sqrt(1.0 - kept**2)
    for c in range(x.shape[0]):
        for t in range(first, first + n_steps):
            key = fold_in(fold_in(stream[c], t), _NOISE)
            bad, k = False, 0
            for i in range(x.shape[1]):
                for j in range(x.shape[2]):
                    bad |= not (abs(force[c, i, j]) < np.inf)
                    before = v[c, i, j] + h * force[c, i, j]
                    after = kept * before + scale * normal(key, k)
                    x[c, i, j] += 0.5 * h * (before + after)
                    v[c, i, j] = after
                    k += 1
            if bad:
                return c
    return -1
