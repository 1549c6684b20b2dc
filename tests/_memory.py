"""Limits of the memory that Python and NumPy allocate in a block."""

import tracemalloc
from contextlib import contextmanager


@contextmanager
def memory_below(n_bytes):
    """Fail if more bytes than so many are allocated at a time in the block."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n_bytes, f"{peak / 1e6:.1f} MB of {n_bytes / 1e6:.1f}"
