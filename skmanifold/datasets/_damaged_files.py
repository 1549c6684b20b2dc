"""Errors of libraries about the content of a file, as one sentence that names the file."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ._text_files import listed

_LONGEST_REASON = 200  # characters
_OF_CONTENT = (None, errno.EINVAL, errno.EFAULT, errno.EOVERFLOW)  # error numbers that a damaged file can cause


@contextmanager
def refuse_damaged(path: Any, what: str) -> Iterator[None]:
    """Raise a ValueError of one sentence for errors of libraries that read a file.

    ValueErrors that name the file, and errors that the content of a file cannot cause, such as a full disk, remain.
    An error that a ``with`` block of a context manager throws into its ``yield`` is replaced too: there, yield outside
    of this block. A generator that a loop iterates may yield inside.

    Parameters
    ----------
    path : str, path-like or sequence of these
        The file, for the message.
    what : str
        What the file must be, such as "an AnnData file".
    """
    paths = list(map(str, listed(path)))
    try:
        yield
    except (AttributeError, ImportError, NameError, Warning):  # no errors of a file
        raise
    except Exception as error:
        is_of_system = isinstance(error, OSError) and error.errno not in _OF_CONTENT
        if is_of_system or (type(error) is ValueError and any(one in str(error) for one in paths)):
            raise
        text = "".join(letter if letter.isprintable() else " " for letter in str(error)[: 5 * _LONGEST_REASON])
        reason = " ".join([f"{type(error).__name__}:", *text.split()])[:_LONGEST_REASON].rstrip(".:")
        raise ValueError(f"{', '.join(paths)} cannot be read as {what} ({reason}).") from error
