"""Files of a corpus: only regular files are opened, and a stamp shows whether a file has changed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple


class Stamp(NamedTuple):
    """Identity, size and time of a file: different if another file has the same name or the file was modified."""

    inode: int
    n_bytes: int
    modified: int  # in ns


def stamp_of(path: Path) -> Stamp:
    """Raise a ValueError if the path is not a file, and a FileNotFoundError if it does not exist."""
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise ValueError(f"{path.parent} is damaged: {path.name} is a link to itself.") from error
    _refuse_irregular(path, status)
    return Stamp(status.st_ino, status.st_size, status.st_mtime_ns)


def first_changed(stamps: Mapping[Path, Stamp]) -> Path | None:
    """The first of these files that no longer has its stamp."""
    for path, stamp in stamps.items():
        try:
            same = stamp_of(path) == stamp
        except (FileNotFoundError, NotADirectoryError):
            same = False
        if not same:
            return path
    return None


@contextmanager
def opened_plain(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; a pipe or a device raises a ValueError, because reading could block."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _refuse_irregular(path, os.fstat(descriptor))
    except ValueError:
        os.close(descriptor)
        raise
    with open(descriptor, "rb", buffering=0) as file:
        yield file


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.parent} is damaged: {path.name} is not a regular file.")
