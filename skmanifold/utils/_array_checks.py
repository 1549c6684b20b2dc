"""What an array from a file must be before kernels, which look at no bounds, may have it."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_array_is(name: str, array: Any, dtypes: tuple[Any, ...], shape: tuple[int | None, ...]) -> None:
    """Raise a ValueError unless this is an array of one of the types and of this shape, in which None is any length."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} is a {type(array).__name__} and not an array")
    fits = len(shape) == array.ndim and all(a in (None, b) for a, b in zip(shape, array.shape, strict=True))
    if not fits or array.dtype not in dtypes:
        raise ValueError(f"{name} is an array of {array.dtype} and the shape {array.shape}, which it cannot be")


def check_lists(name: str, indptr: Any, entries: Any, n_lists: int, n_kinds: int) -> None:
    """Raise a ValueError unless these are `n_lists` lists of numbers below `n_kinds`, one after the other."""
    check_array_is(name, indptr, (np.int64,), (n_lists + 1,))
    if indptr[0] != 0 or indptr[-1] != len(entries) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"{name} has pointers that do not cut its {len(entries)} entries into lists")
    if len(entries) and not 0 <= entries.min() <= entries.max() < n_kinds:
        raise ValueError(f"{name} has entries that are not from 0 to {n_kinds - 1}")


def check_finite(name: str, array: np.ndarray, least: float = -np.inf) -> None:
    """Raise a ValueError unless all numbers are finite and at least `least`."""
    if not np.isfinite(array).all() or (array.size and array.min() < least):
        raise ValueError(f"{name} has numbers that it cannot have")
