"""Only regular files are opened and replaced: opening a pipe and reading a device can take forever."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

_OTHER_TYPES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def check_regular(path: Any, status: os.stat_result | None = None) -> None:
    """Raise a ValueError unless the path is a regular file or a link to one, and an OSError if it does not exist."""
    mode = (status or os.stat(path)).st_mode
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} must be a regular file, not {_OTHER_TYPES.get(stat.S_IFMT(mode), 'a device')}.")


@contextmanager
def opened_regular(path: Any) -> Iterator[BufferedReader]:
    """Open a regular file for reading; other paths raise a ValueError, because reading could block."""
    check_regular(path)
    with open(path, "rb", opener=_opened_without_waiting) as file:
        check_regular(path, os.fstat(file.fileno()))  # the file may have been replaced since the first check
        yield file


def refuse_irregular_target(path: Path) -> None:
    """Raise a ValueError if a new file would replace a pipe, a socket or a device."""
    if path.exists() and not path.is_dir():
        check_regular(path)


def _opened_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
