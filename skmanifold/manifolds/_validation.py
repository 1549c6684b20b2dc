"""Validation functions that all manifolds share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ..utils._typing import ArrayLike


def check_count(subject: str, value: Any) -> None:
    """Raise an error unless `value` is a positive integer; the message begins with `subject`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{subject} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{subject} must be at least 1, got {value!r}.")


def check_shape(owner: str, shape: Any) -> tuple[int, ...]:
    """`shape`, an integer or a sequence of integers, as a tuple of positive integers; a tuple is returned unchanged."""
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
    """`x` as an array of floats; raises a ValueError unless its last axes have the shape `shape` and it is finite."""
    x = np.asarray(x, dtype=np.float64)
    if x.shape[max(x.ndim - len(shape), 0) :] != shape:
        raise ValueError(f"A point must have shape {shape}, after any leading axes; got an array of shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"A point must be finite; {np.count_nonzero(~np.isfinite(x))} of its entries are not.")
    return x


def check_non_negative(x: np.ndarray) -> None:
    """Raise a ValueError for negative coordinates of any size, because their square roots are not real."""
    if (x < 0).any():
        raise ValueError(f"The coordinates of a point must not be negative; the smallest is {x.min():.3g}.")
