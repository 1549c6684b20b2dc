"""Stamps of files, which show whether a file has changed."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


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
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path.parent} is damaged: {path.name} is not a regular file.")
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
