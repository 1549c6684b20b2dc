"""Checks that all manifolds share, each refusing in one sentence."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..utils._typing import ArrayLike


def check_count(subject: str, value: Any) -> None:
    """Refuse a constructor's argument that is not a positive integer; `subject` begins the sentence."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{subject} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{subject} must be at least 1, got {value!r}.")


def check_shape(owner: str, shape: Any) -> tuple[int, ...]:
    """A tuple of positive integers made of `shape`, an integer or a sequence of them; a tuple is returned as it is."""
    if isinstance(shape, Integral) and not isinstance(shape, bool):
        shape = (int(shape),)
    elif isinstance(shape, list):
        shape = tuple(shape)
    if not isinstance(shape, tuple) or not shape:
        raise TypeError(f"The shape of {owner} must be an integer or a tuple of integers, got {shape!r}.")
    for length in shape:
        check_count(f"Every axis of {owner}", length)
    return shape


def finite_array(x: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """`x` as an array of floats; refused unless it ends in `shape` and is finite."""
    x = np.asarray(x, dtype=np.float64)
    if x.shape[max(x.ndim - len(shape), 0) :] != shape:
        raise ValueError(f"A point has shape {shape}, after any leading axes, but this array has shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"A point is finite, but {np.count_nonzero(~np.isfinite(x))} of these numbers are not.")
    return x


def check_non_negative(x: np.ndarray) -> None:
    """Refuse negative coordinates, however small: the boundary is exact, and square roots of them are not real."""
    if (x < 0).any():
        raise ValueError(f"A point has no negative coordinate, but one of these is {x.min():.3g}.")
