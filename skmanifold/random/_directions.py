"""Kernel that draws directions from von Mises-Fisher distributions by counter-based random numbers."""

from __future__ import annotations

import math

from ..utils._njit import njit
from ._keys import fold_in
from ._variates import exponential, gamma_variate, normal

_TANGENT, _FIRST_TRIAL = 0, 1  # children of a key


@njit(cache=True, nogil=True)
def _cosine_complement(key, dim, concentration):
    """Draw 1 - w for the cosine w with the mean direction: see `distributions._von_mises_fisher`."""
    degrees = dim - 1.0
    b = degrees / (2.0 * concentration + math.hypot(2.0 * concentration, degrees))
    start = 2.0 * b / (1.0 + b)
    if not start > 0.0:  # 1 - w is smaller than the smallest float
        return 0.0
    trial = _FIRST_TRIAL
    while True:
        of_trial = fold_in(key, trial)
        trial += 1
        one = gamma_variate(fold_in(of_trial, 0), 0.5 * degrees)
        other = gamma_variate(fold_in(of_trial, 1), 0.5 * degrees)
        if not one + other > 0.0:
            continue
        gap = 2.0 * b * one / (other + b * one)
        ratio = (start + gap * (1.0 - start)) / (start * (2.0 - start))
        if -exponential(fold_in(of_trial, 2), 0) <= concentration * (start - gap) + degrees * math.log(ratio):
            return gap


@njit(cache=True, nogil=True)
def fill_direction(key, mean, concentration, out):
    """Fill `out` with a von Mises-Fisher unit vector about a mean of any length; a mean of zeros makes it uniform.

    The key must not be used for other draws.
    """
    d, of_normals = len(mean), fold_in(key, _TANGENT)
    along, square = 0.0, 0.0
    for j in range(d):
        out[j] = normal(of_normals, j)
        along += mean[j] * out[j]
        square += mean[j] * mean[j]
    if square > 0.0:
        along /= square
        for j in range(d):
            out[j] -= along * mean[j]
    length = 0.0
    for j in range(d):
        length += out[j] * out[j]
    length = math.sqrt(length)
    if square == 0.0:
        for j in range(d):
            out[j] /= length
        return
    gap = _cosine_complement(key, float(d), concentration)
    of_tangent = math.sqrt(gap * max(2.0 - gap, 0.0)) / length
    of_mean = (1.0 - gap) / math.sqrt(square)
    for j in range(d):
        out[j] = of_tangent * out[j] + of_mean * mean[j]
