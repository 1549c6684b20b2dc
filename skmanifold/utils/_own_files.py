"""Files that no other user of the machine can have put there or changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class ForeignFileError(ValueError):
    """Raised where a file or folder is, or may be, somebody else's work."""


def check_own(path: Path, is_folder: bool = False) -> int:
    """Raise a ForeignFileError unless this user owns a plain file, or a folder, and no other user may write to it.

    Returns
    -------
    n_bytes : int
        Its size.
    """
    status = os.lstat(path)
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.st_mode):
        raise ForeignFileError(f"{path.name} is not a {'folder' if is_folder else 'regular file'}")
    if os.name == "posix":  # elsewhere owner and mode mean nothing
        if status.st_uid != os.geteuid():
            raise ForeignFileError(f"{path.name} belongs to another user (number {status.st_uid})")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ForeignFileError(f"other users may write to {path.name} (mode {stat.S_IMODE(status.st_mode):04o})")
    return status.st_size


def read_own(path: Path, n_bytes: int) -> bytes:
    """What is in a file of this user, after a look at its size.

    Raises
    ------
    ForeignFileError
        As `check_own`.
    ValueError
        If it has another size.
    """
    size = check_own(path)
    if size != n_bytes:
        raise ValueError(f"{path.name} has {size} bytes, not the {n_bytes} that were written")
    with open(path, "rb") as file:
        return file.read(n_bytes)


def write_own(path: Path, *parts: bytes | memoryview) -> None:
    """Write a new file that no other user may read or change, and wait until the disk has it."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
