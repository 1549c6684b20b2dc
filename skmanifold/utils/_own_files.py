"""Files that no other user of the machine can have created or changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class ForeignFileError(ValueError):
    """Raised if another user owns a file or folder, or may have changed it."""


def check_own(path: Path, is_folder: bool = False) -> int:
    """Raise a ForeignFileError unless this user owns the regular file or folder and no other user may write to it.

    Returns
    -------
    n_bytes : int
        Size of the file.
    """
    status = os.lstat(path)
    if not (stat.S_ISDIR if is_folder else stat.S_ISREG)(status.st_mode):
        raise ForeignFileError(f"{path.name} is not a {'folder' if is_folder else 'regular file'}")
    if os.name == "posix":  # other systems do not use owner and mode
        if status.st_uid != os.geteuid():
            raise ForeignFileError(f"{path.name} is owned by another user (uid {status.st_uid})")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ForeignFileError(f"other users may write to {path.name} (mode {stat.S_IMODE(status.st_mode):04o})")
    return status.st_size


def read_own(path: Path, n_bytes: int) -> bytes:
    """Read a file of this user that must have the given size.

    Raises
    ------
    ForeignFileError
        If `check_own` raises it.
    ValueError
        If the file has another size.
    """
    size = check_own(path)
    if size != n_bytes:
        raise ValueError(f"{path.name} has {size} bytes, not the {n_bytes} that were written")
    with open(path, "rb") as file:
        return file.read(n_bytes)


def write_own(path: Path, *parts: bytes | memoryview) -> None:
    """Write a new file that no other user may read or change, and wait until it is on disk."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())
