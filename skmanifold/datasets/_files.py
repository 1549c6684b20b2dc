"""Files of documents: text in blocks of lines with bounded memory, atomic writing, changed and damaged files."""

from __future__ import annotations

import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from ..utils._disk import opened_regular, replaced

PathLike = str | os.PathLike[str]

LONGEST_LINE = 1 << 20  # bytes
_BLOCK = 1 << 19  # bytes parsed at a time: arrays fit in the cache, five times faster than a whole file
_SURE = 1 << 24  # uncompressed bytes that are allowed for any gzip file
_EXPANSION = 200  # maximum compression ratio of larger files; texts have 3 to 30


class _Unpacked(gzip.GzipFile):
    """A gzip file for reading, with a limit on its compression ratio."""

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        return self._bounded(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        """The next bytes, at most to the end of the line."""
        return self._bounded(super().readline(size))

    def _bounded(self, content: bytes) -> bytes:
        n_packed = self.fileobj.tell()  # type: ignore[union-attr]
        if self.tell() > max(_SURE, _EXPANSION * n_packed):
            raise ValueError(
                f"{self.name} expands to more than {_EXPANSION} times its {n_packed} bytes, which texts do not: "
                "decompress and check it."
            )
        return content


File = IO[bytes] | gzip.GzipFile


def listed(source: PathLike | Iterable[PathLike]) -> list[PathLike]:
    """The paths of an argument that is one path or several."""
    return [source] if isinstance(source, str | os.PathLike) else list(source)


@contextmanager
def opened(path: PathLike) -> Iterator[File]:
    """A file for reading; a name that ends in ``.gz`` is decompressed."""
    try:
        with opened_regular(path) as file:
            yield _Unpacked(os.fspath(path), "rb", fileobj=file) if _is_gzip(path) else file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is truncated or not a gzip file ({str(error).rstrip('.')}).") from error


def line_blocks(
    file: File, path: PathLike, first_line: int, *, longest: int = LONGEST_LINE, may_lack_end: bool = False
) -> Iterator[tuple[int, bytes]]:
    """Blocks of complete lines, each with the number of its first line; a line may have at most `longest` bytes."""
    held: list[bytes] = []  # parts of the line that continues in the next piece
    n_held = 0
    while piece := file.read(_BLOCK):
        end = piece.find(b"\n")
        if n_held + (len(piece) if end < 0 else end) > longest:
            raise ValueError(f"{path}, line {first_line}: the line has more than {longest} bytes.")
        if end < 0:
            held.append(piece)
            n_held += len(piece)
            continue
        head, newline, tail = piece.rpartition(b"\n")
        block = b"".join([*held, head, newline])
        yield first_line, block
        first_line += block.count(b"\n")
        held, n_held = [tail], len(tail)
    rest = b"".join(held)
    if rest and not may_lack_end:  # the last number may have lost digits
        raise ValueError(f"{path}, line {first_line}: the line does not end, so the file seems to be truncated.")
    if rest:
        yield first_line, rest


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """A temporary file next to `path`, which replaces it on success and is deleted on failure."""
    with replaced(path) as temporary, open(temporary, "xb") as file:
        # without name and time, so that equal counts give equal bytes
        packed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) if _is_gzip(path) else None
        with packed or file as written:
            yield written


def _is_gzip(path: PathLike) -> bool:
    return Path(path).suffix.lower() == ".gz"


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
