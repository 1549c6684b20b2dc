"""Suspension of the garbage collector while many objects without cycles are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector, unless it is disabled already."""
    enabled = gc.isenabled()
    try:  # at once, because an interrupt may come at any time
        gc.disable()
        yield
    finally:
        if enabled:
            gc.enable()
