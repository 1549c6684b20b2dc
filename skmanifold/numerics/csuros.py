"""Floating-point counters of Csuros: unbiased approximate counts in one byte.

A register X = 2^d t + u with 0 <= u < 2^d represents the number (2^d + u) 2^t - 2^d: a significand of d bits and an
exponent (M. Csuros, "Approximate counting with a floating-point counter", COCOON 2010). Numbers up to 2^d are exact.
A larger *precision* d reduces the error but also the range of a byte. The relative standard deviation of a number that
is incremented in steps of one approaches sqrt(3 / (8 2^d)). If the whole number is known, it is rounded once, to one of
the two neighbouring register values; the error is then that of one rounding.
"""

from __future__ import annotations

import numpy as np

from ..random._keys import random_bits
from ..utils._njit import njit

_LARGEST_REGISTER = 255
_PRECISIONS = range(8, 2, -1)  # with 2 or less, the largest register value would exceed 64 bits


@njit(cache=True)
def register_value(register, precision):
    """The number that a register represents."""
    base = np.int64(1) << precision
    return ((base + (register & (base - 1))) << (register >> precision)) - base


@njit(cache=True)
def round_to_register(count, precision, key, counter):
    """Round an integer `count` at random to one of the two neighbouring register values, without bias.

    The random draw is a function of (key, counter).
    """
    base = np.int64(1) << precision
    scaled = np.int64(count) + base
    exponent = np.int64(0)
    while scaled >> exponent >= 2 * base:
        exponent += 1
    register = exponent * base + (scaled >> exponent) - base
    below = (np.int64(1) << exponent) - 1
    draw = np.int64(random_bits(key, counter) & np.uint64(below))
    return register + (1 if draw < scaled & below else 0)


def largest_precision(largest: int) -> int:
    """The highest precision with which eight bits represent numbers up to `largest`; ValueError above 3.2e10."""
    for precision in _PRECISIONS:
        if register_value(_LARGEST_REGISTER, precision) >= largest:
            return precision
    raise ValueError(f"A counter of eight bits cannot represent {largest}.")


def register_values(precision: int) -> np.ndarray:
    """The numbers of all registers of eight bits, (256,) int64."""
    return np.array([register_value(register, precision) for register in range(_LARGEST_REGISTER + 1)], np.int64)
