"""Csuros' floating-point counters: approximate counts in one byte, without bias.

A register X = 2^d t + u with 0 <= u < 2^d stands for the number (2^d + u) 2^t - 2^d: a significand of d bits and an
exponent (M. Csuros, "Approximate counting with a floating-point counter", COCOON 2010). Numbers up to 2^d are exact.
The *precision* d trades the range of a byte for the error, which of a number that is counted up one by one tends to a
standard deviation of sqrt(3 / (8 2^d)) of itself. A number that is known as a whole is rounded once instead, to one of
its two neighbours: then the error is that of one step.
"""

from __future__ import annotations

import numpy as np

from ..random._keys import random_bits
from ..utils._njit import njit

_LARGEST_REGISTER = 255
_PRECISIONS = range(8, 2, -1)  # 2 and less hold more than 64 bits do


@njit(cache=True)
def register_value(register, precision):
    """The number that a register stands for."""
    base = np.int64(1) << precision
    return ((base + (register & (base - 1))) << (register >> precision)) - base


@njit(cache=True)
def round_to_register(count, precision, key, counter):
    """The register of one of the two numbers next to a whole `count`, the upper as likely as makes the mean right.

    The draw belongs to (key, counter).
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
    """The highest precision at which eight bits hold numbers up to `largest`.

    Raises
    ------
    ValueError
        Beyond 3.2e10.
    """
    for precision in _PRECISIONS:
        if register_value(_LARGEST_REGISTER, precision) >= largest:
            return precision
    raise ValueError(f"A counter of eight bits does not hold {largest}.")


def register_values(precision: int) -> np.ndarray:
    """The numbers of all registers of eight bits, (256,) int64."""
    return np.array([register_value(register, precision) for register in range(_LARGEST_REGISTER + 1)], np.int64)
