"""Calls of user functions, for all chains at once or for each chain, with read-only arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def call_at_all(function: Callable, name: str, vectorized: bool, *arrays: np.ndarray) -> Any:
    """Call a function for arrays with a leading axis: once if it is vectorized, otherwise for each entry.

    The arrays are passed as read-only views. Error messages call the function `name`. The result of one call, or a list
    of the results for all entries, is returned.
    """
    arrays = tuple(_protected(array, function) for array in arrays)
    try:
        if vectorized:
            return function(*arrays)
        return [function(*each) for each in zip(*arrays, strict=True)]
    except ValueError as error:
        if not str(error).endswith("is read-only"):  # the message of numpy
            raise
        raise ValueError(
            f"{name} writes to a read-only array; its argument is the state of the sampler, so it must modify a copy "
            "such as x.copy()."
        ) from error


def _protected(array: np.ndarray, function: Callable) -> np.ndarray:
    if hasattr(function, "nopython_signatures"):  # numba compiles again for read-only arrays, or rejects them
        return array.copy()
    view = array.view()
    view.flags.writeable = False
    return view
