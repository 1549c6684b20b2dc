"""Calls of users' functions: of all chains at once, or of one after the other, on arrays that they cannot change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def call_at_all(function: Callable, name: str, vectorized: bool, *arrays: np.ndarray) -> Any:
    """What a function returns for arrays with a leading axis: of one call, or a list of a call for each entry.

    The arrays are passed as read-only views; `name` is what the user calls the function.
    """
    arrays = tuple(_protected(array, function) for array in arrays)
    try:
        if vectorized:
            return function(*arrays)
        return [function(*each) for each in zip(*arrays, strict=True)]
    except ValueError as error:
        if not str(error).endswith("is read-only"):  # numpy's words
            raise
        raise ValueError(
            f"{name} writes to a read-only array; its argument is the sampler's own state, so let it work on a copy "
            "such as x.copy()."
        ) from error


def _protected(array: np.ndarray, function: Callable) -> np.ndarray:
    if hasattr(function, "nopython_signatures"):  # numba compiles anew for read-only arrays, or refuses them
        return array.copy()
    view = array.view()
    view.flags.writeable = False
    return view
