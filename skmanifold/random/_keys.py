"""Counter-based random streams: a draw is a function of its key and counter, not of previous draws.

A key is a 64-bit integer. ``fold_in(key, value)`` derives a key for one purpose, chain, sweep, row or feature from its
parent; ``uniform(key, counter)`` draws. Both are one round of splitmix64's finaliser (Stafford's mix 13, as in Steele,
Lea and Flood, 2014) over a Weyl sequence, so the result does not depend on threads or on the order of draws. The two
use different increments, so a key may be used for both: the draws of its children differ from its own.
"""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from ..utils._njit import njit
from ..utils._typing import RandomStateLike

_DRAW_STEP = np.uint64(0x9E3779B97F4A7C15)
_FOLD_STEP = np.uint64(0xD1342543DE82EF95)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


class Purpose:
    """The purpose of draws: a value that is folded into a key, so that different uses of a key have different draws.

    Each use has a name that describes the draws. Two names may have the same number if they are never folded into the
    same key. The numbers never change, so that seeded results remain the same.

    The values are plain integers, because numba's dispatcher is fifty times slower for members of an enumeration.
    """

    INITIAL_LATENTS = 1
    SWEEP = 2
    ROUNDING = 3
    INFERENCE = 4
    MINIBATCH = 5
    CHAIN = 6
    STEP = 7
    NOISE = 8
    START = 9
    ACCEPTANCE = 10
    METRIC = 11
    GRADIENT_NOISE = 12
    DRAW = 13
    READ = 14
    STICKS = 15
    CONCENTRATION = 16
    SLICE = 17
    LABELS = 18
    SPLIT_MERGE = 19
    RELABEL = 20
    COMPONENTS = 21

    # Names that were added later; their numbers are those that the same draws had before
    SUBSAMPLE = 5
    ANNEALING = 7
    FRAMES = 7
    ROTATIONS = 7
    STEP_SIZE = 7
    TOPICS = 7
    COMPLETION = 8
    PROPOSAL = 8
    ROWS = 8
    BIRTHS = 9
    DIRECTION = 9
    JUMP = 9
    MOMENTUM = 9
    OUTLIERS = 9
    PILOT = 9
    ROW_SUMS = 9
    TUNING = 9
    WARM_UP = 9
    PRIOR = 12
    BIRTH_DEATH = 13
    COLUMN_SUMS = 13
    SHARES = 13
    CENTRES = 14
    HYPERPARAMETERS = 14
    MISSING_CELLS = 14
    WEIGHTS = 15
    LOG_SUM = 16
    NOISE_PRECISION = 16
    FLIPS = 18
    ORDER = 20
    OFFSETS = 21
    SIZE_MOVES = 21


def root_key(random_state: RandomStateLike) -> np.uint64:
    """A new 64-bit key from a ``random_state`` as in scikit-learn.

    Parameters
    ----------
    random_state : None, int or RandomState
        Source of randomness; an int always gives the same key.

    Returns
    -------
    uint64
        The key.
    """
    generator = check_random_state(random_state)
    return np.uint64(generator.randint(0, 2**64, dtype=np.uint64))


@njit(cache=True)
def mix64(x):
    """Splitmix64's finaliser: a bijection of 64-bit integers in which every input bit affects every output bit."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


@njit(cache=True)
def fold_in(key, value):
    """Derive a key from a parent key and an integer.

    Parameters
    ----------
    key : uint64
        Parent key.
    value : int
        Integer that identifies the derived key, such as a `Purpose`, a row or a pass.

    Returns
    -------
    uint64
    """
    return mix64(np.uint64(key) + _FOLD_STEP * (np.uint64(value) + np.uint64(1)))


@njit(cache=True)
def fold_in_each(key, values):
    """The keys derived from `key` with an array of integers."""
    out = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        out[i] = fold_in(key, values[i])
    return out


def uniform_each(key: np.uint64, values: np.ndarray) -> np.ndarray:
    """Uniform variates in [0, 1) of a key and an array of integers; the key is not used for other draws."""
    return (fold_in_each(key, values) >> np.uint64(11)) * _TO_UNIT


@njit(cache=True)
def random_bits(key, counter):
    """The 64 random bits of a key and a counter.

    Parameters
    ----------
    key : uint64
    counter : int
        Number of the draw in the stream of the key.

    Returns
    -------
    uint64
        The bits.
    """
    return mix64(np.uint64(key) + _DRAW_STEP * (np.uint64(counter) + np.uint64(1)))


@njit(cache=True)
def uniform(key, counter):
    """A float64 in [0, 1) with 53 random bits.

    Parameters
    ----------
    key : uint64
    counter : int
        Number of the draw in the stream of the key.

    Returns
    -------
    float
    """
    return (random_bits(key, np.uint64(counter)) >> np.uint64(11)) * _TO_UNIT


@njit(cache=True)
def row_key(key, indices, bits, start, stop):
    """A key computed from the contents of a sparse row: the same for equal rows at any position.

    `indices` must be sorted and explicit zeros dropped; `bits` are the values' 64-bit patterns (``data.view(uint64)``).
    """
    for j in range(start, stop):
        key = fold_in(fold_in(key, indices[j]), bits[j])
    return key


def subkey(key: int | np.integer, *values: int | np.integer) -> np.uint64:
    """Fold several values into a key, outside of kernels.

    Parameters
    ----------
    key : uint64
        Parent key.
    *values : int
        Integers that are folded in, in order.

    Returns
    -------
    uint64
    """
    for value in values:
        key = fold_in(np.uint64(key), np.uint64(value))
    return np.uint64(key)
