"""Ctrl-C as a KeyboardInterrupt, also where it comes while a compiled function returns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Raise the KeyboardInterrupt that is the cause of a SystemError, instead of it.

    To return an array, a kernel runs a few lines of Python (numba's ``_numba_unpickle``), in which a signal can be
    handled. The kernel does not notice the exception, so Python sees a result and an exception together and reports a
    SystemError, caused by another or by the interrupt.
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
