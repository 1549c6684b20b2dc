"""Atomic replacement of files, and clear error messages if a file cannot be written."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._regular_files import refuse_irregular_target

_HERE, _RENAME_EXCHANGE = -100, 2  # AT_FDCWD of fcntl.h and the flag of linux/fs.h


@contextmanager
def replaced(path: os.PathLike[str] | str) -> Iterator[Path]:
    """A temporary file in the folder of `path`, which replaces `path` on success and is deleted on failure."""
    target = Path(path).resolve()
    refuse_irregular_target(target)
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
