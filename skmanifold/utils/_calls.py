"""Calls of users' functions: of all chains at once, or of one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def call_at_all(function: Callable, vectorized: bool, *arrays: Any) -> Any:
    """What a function returns for arrays with a leading axis: of one call, or a list of a call for each entry."""
    if vectorized:
        return function(*arrays)
    return [function(*each) for each in zip(*arrays, strict=True)]
