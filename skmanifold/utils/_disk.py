"""Writing so that what is on disk is the old or the new, never half of it; and saying clearly why it could not be."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced(path: os.PathLike[str] | str) -> Iterator[Path]:
    """A file to write beside `path`, which takes its name when all went well and goes away when not."""
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex}")  # names have a longest length
    try:
        yield temporary
        sync(temporary, os.O_RDWR)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    sync(target.parent)


def sync(path: Path, flags: int = os.O_RDONLY) -> None:
    """Wait until the disk has it."""
    if os.name == "nt" and path.is_dir():  # cannot be opened there
        return
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def clear_if_unwritable(what: str, folder: os.PathLike[str] | str, rest: str = "") -> Iterator[None]:
    """Say in one sentence what could not be written where, and what else there is to say."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        told = f"{what} could not be written to {folder} ({reason}){rest}."
        raise OSError(error.errno or errno.EIO, told) from error
