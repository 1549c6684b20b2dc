"""Contexts of long work: without garbage collection, and with a plain KeyboardInterrupt after Ctrl-C."""

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


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Replace a SystemError by the KeyboardInterrupt that caused it.

    To return an array, a kernel runs a few lines of Python (numba's ``_numba_unpickle``), in which a signal can be
    handled. The kernel ignores the exception. Python then detects a result together with an exception and raises a
    SystemError, whose cause is another SystemError or the interrupt.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise
