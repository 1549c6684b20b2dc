"""Reading of members of a zip archive with limits: sizes in the archive are verified before they are used."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

DEFAULT_BYTES = 4 << 30
MORE_BYTES = "give load a larger max_bytes if you trust the file"
_MAX_MEMBERS = 1 << 20
_DOCUMENT_SHARE = 128  # limit of the document as a fraction of that of the arrays: 32 MiB by default
_MAX_INFLATION = 100  # compression ratio of a document above 1 MiB; that of real ones is at most 20
_NAME = re.compile(r"[\w.\- ]+")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # which are read in bounded pieces
_HEADERS = {  # readers of array headers, by the version of numpy's format
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_MAX_DIMENSIONS = 32


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of an archive by their names, each read once, at its first use.

    Parameters
    ----------
    archive : ZipFile
        Open, and checked by `check_members`.
    limit : int
        Maximum number of bytes of all arrays that are read.
    advice : str
        What to do if they take more.
    """

    def __init__(self, archive: zipfile.ZipFile, limit: int, advice: str):
        self._archive = archive
        arrays = (info for info in archive.infolist() if info.filename.endswith(".npy"))
        self._members = {info.filename.removesuffix(".npy"): info for info in arrays}
        self._room = self._limit = limit
        self._advice = advice
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            info = self._members[name]
            if info.file_size > self._room:
                raise ValueError(f"its arrays take more than {self._limit} bytes; {self._advice}")
            self._room -= info.file_size
            with self._archive.open(info) as member:
                read_array_header(member, info.filename, info.file_size)
                member.seek(0)
                self._read[name] = np.lib.format.read_array(member, allow_pickle=False)
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def check_members(archive: zipfile.ZipFile, n_bytes: int) -> None:
    """Raise a ValueError if `write` cannot have made this list of members in a file of `n_bytes`."""
    members = archive.infolist()
    if len(members) > _MAX_MEMBERS:
        raise ValueError(f"it has {len(members)} members, more than {_MAX_MEMBERS}")
    if len({info.filename for info in members}) < len(members):
        raise ValueError("two of its members have the same name")
    for info in members:
        if not _NAME.fullmatch(info.filename):
            raise ValueError(f"it has a member with the invalid name {info.filename[:60]!r}")
        if info.compress_type not in _METHODS:
            raise ValueError(f"{info.filename[:60]} is compressed by an unsupported method")
    if sum(info.compress_size for info in members) > n_bytes:
        raise ValueError("its members overlap")


def read_document(archive: zipfile.ZipFile, name: str, max_bytes: int) -> bytes:
    """The text of a document, unless it is too long for an archive whose arrays take at most `max_bytes`."""
    info, most = archive.getinfo(name), max_bytes // _DOCUMENT_SHARE
    if info.file_size > most:
        raise ValueError(f"{name} takes {info.file_size} bytes, more than {most}; {MORE_BYTES}")
    if info.file_size > max(1 << 20, _MAX_INFLATION * info.compress_size):
        raise ValueError(f"{name} expands from {info.compress_size} to {info.file_size} bytes, which is not plausible")
    return archive.read(info)


def read_array_header(file: IO[bytes], name: str, n_bytes: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, whether the order is Fortran's, and type of an array, which must take the rest of a file of `n_bytes`."""
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"{name} is an array in an unsupported format")
    shape, transposed, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        raise ValueError(f"{name} contains Python objects, which are not read")
    if dtype.itemsize == 0 or dtype.subdtype or len(shape) > _MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ValueError(f"{name} has the shape {shape} and the type {dtype}, which is not valid")
    if file.tell() + math.prod(shape) * dtype.itemsize != n_bytes:  # before memory is allocated
        raise ValueError(f"{name} does not have the length that its header specifies")
    return shape, transposed, dtype
