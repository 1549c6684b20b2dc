"""Regular files only, atomic replacement, files that no other user can have changed, and clear errors of disks."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import sys
import uuid
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
    without_waiting = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | without_waiting)) as file:
        check_regular(path, os.fstat(file.fileno()))  # the file may have been replaced since the first check
        yield file


_HERE, _RENAME_EXCHANGE = -100, 2  # AT_FDCWD of fcntl.h and the flag of linux/fs.h


@contextmanager
def replaced(path: os.PathLike[str] | str) -> Iterator[Path]:
    """A temporary file in the folder of `path`, which replaces `path` on success and is deleted on failure."""
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        check_regular(target)
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}")  # file names have a maximum length
    try:
        yield temporary
        sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync(target.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one step; False if that is not possible, as on other systems than Linux."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    return call is not None and call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _RENAME_EXCHANGE) == 0


def remove_folder(folder: Path) -> None:
    """Delete a folder if it exists; an interrupt is raised when it is gone."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Wait until a file or folder is written to disk."""
    if os.name == "nt" and path.is_dir():  # Windows cannot open folders
        return
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def clear_if_unwritable(what: str, folder: os.PathLike[str] | str, rest: str = "") -> Iterator[None]:
    """Raise an OSError with a message that names what could not be written, and the folder, followed by `rest`."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"{what} could not be written to {folder} ({reason}){rest}."
        raise OSError(error.errno or errno.EIO, message) from error


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
