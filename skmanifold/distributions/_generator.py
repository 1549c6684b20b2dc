"""Conversion of the parameters `random_state` and `size` to a numpy Generator and a shape."""

from __future__ import annotations

import numbers
from typing import Any, TypeAlias

import numpy as np

from ..utils._typing import RandomStateLike

GeneratorLike: TypeAlias = RandomStateLike | np.random.Generator
SizeLike: TypeAlias = int | tuple[int, ...] | None


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator: the argument itself, or one seeded by an int, by draws of a RandomState, or (None) at random."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint64))
    is_seed = isinstance(random_state, numbers.Integral) and int(random_state) >= 0
    if random_state is None or is_seed:
        return np.random.default_rng(random_state)
    raise ValueError(
        f"random_state must be None, a non-negative int, a RandomState or a Generator; got {random_state!r}."
    )


def as_shape(size: Any) -> tuple[int, ...]:
    """The shape that `size` (None, an int or a tuple of ints) describes."""
    entries = () if size is None else (size,) if isinstance(size, numbers.Integral) else tuple(size)
    if not all(isinstance(entry, numbers.Integral) and int(entry) >= 0 for entry in entries):
        raise ValueError(f"size must be None, a non-negative int or a tuple of them; got {size!r}.")
    return tuple(int(entry) for entry in entries)
