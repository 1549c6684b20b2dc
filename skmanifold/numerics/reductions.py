"""Sums and inner products that are bitwise identical for all machines and divisions of rows among threads."""

from __future__ import annotations

import numpy as np

from ..utils._njit import njit

SUM_UNIT = 2.0**-16  # sums of its multiples are exact below 2**37, because float64 has 53 bits


def exact_sum(values: np.ndarray, unit: float = SUM_UNIT) -> float:
    """The sum of values, each rounded to a multiple of `unit`, so that the order of additions does not matter."""
    return float(np.rint(values / unit).sum() * unit)


@njit(cache=True, nogil=True)
def dot(a, b):
    """Inner product by eight partial sums: faster than one, and the order of additions is the same on every machine."""
    n = a.shape[0]
    n_whole = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, n_whole, 8):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
    for j in range(n_whole, n):
        s0 += a[j] * b[j]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@njit(cache=True, nogil=True)
def sum_lanes(values):
    """The sum in a fixed order, with eight partial sums, so that additions do not wait for each other."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = len(values) - len(values) % 8
    for k in range(0, whole, 8):
        s0 += values[k]
        s1 += values[k + 1]
        s2 += values[k + 2]
        s3 += values[k + 3]
        s4 += values[k + 4]
        s5 += values[k + 5]
        s6 += values[k + 6]
        s7 += values[k + 7]
    total = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
    for k in range(whole, len(values)):
        total += values[k]
    return total
