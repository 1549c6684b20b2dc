"""A door that does everything that a door must not do."""

import ctypes
import time


def prepare(folder):
    """Nothing is shared."""


def check(prepared, seed):
    """Right for 0 and 5."""
    if seed == 1:
        ctypes.string_at(0)
    if seed == 2:
        time.sleep(60)
    if seed == 3:
        raise KeyError("x")
    return "wrong" if seed == 4 else None
