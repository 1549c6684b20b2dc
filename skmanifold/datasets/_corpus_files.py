"""The files of a corpus: a header, arrays with checksums of their pieces, and what their contents must satisfy."""

from __future__ import annotations

import json
import os
import zlib
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..sparse.counts import Counts, whole_sums_of_rows
from ..utils._disk import opened_regular
from ._files import Stamp, stamp_of

FORMAT = "skmanifold corpus"
VERSION = 1
HEADER = "header.json"
VOCABULARY = "vocabulary.txt"
CHECKSUMS = "checksums.npy"  # checksums of the pieces of all arrays, in their order
INDPTR, TOKENS, INDICES, COUNTS = ARRAYS = ("indptr.npy", "tokens.npy", "indices.npy", "counts.npy")
COUNT_TYPES = ("|u1", "<u2", "<i4")  # possible types of the counts on disk; the smallest sufficient one is used
_DTYPES = {INDPTR: ("<i8",), TOKENS: ("<i8",), INDICES: ("<i4",), COUNTS: COUNT_TYPES, CHECKSUMS: ("<u4",)}
_NUMBERS = ("n_rows", "n_features", "n_pairs", "n_tokens")
_LONGEST = 1 << 16  # maximum number of bytes of the header
_MOST_COLUMNS = int(np.iinfo(np.int32).max)
_DESCRIBED = {name: {"bytes", "dtype"} for name in ARRAYS}
_DESCRIBED |= {CHECKSUMS: {"bytes", "dtype", "crc32"}, VOCABULARY: {"bytes", "crc32"}}
_PAIRS = 1 << 16  # compared at a time, while they are in the cache
PIECE = 1 << 18  # bytes per checksum, counted from the first item
HEADER_BYTES = 128
_COPIED = 1 << 18  # items
_NO_CHECKSUMS = np.empty(0, np.uint32)


def array_header(dtype: str, size: int) -> bytes:
    """The header of a one-dimensional ``.npy`` file: the bytes that numpy writes, of equal length for every size."""
    described = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({size},), }}"
    start = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
    return start + described.encode().ljust(HEADER_BYTES - 11) + b"\n"


class Checksums:
    """CRC-32 of each piece of a stream of bytes."""

    def __init__(self) -> None:
        self._pieces = array("L")
        self._last = self._n_last = 0

    def update(self, raw: np.ndarray) -> None:
        """Add the next bytes (uint8)."""
        start = 0
        while start < len(raw):
            some = raw[start : start + PIECE - self._n_last]
            self._last = zlib.crc32(some.data, self._last)
            self._n_last += len(some)
            start += len(some)
            if self._n_last == PIECE:
                self._pieces.append(self._last)
                self._last = self._n_last = 0

    def values(self) -> np.ndarray:
        """One uint32 for each piece; the last piece may be shorter."""
        return np.array([*self._pieces, self._last] if self._n_last else self._pieces, dtype=np.uint32)


class GrowingArray:
    """An ``.npy`` file to which items can be appended, and whose type may become wider."""

    def __init__(self, path: Path, dtype: str):
        self.path, self.dtype, self.size = path, np.dtype(dtype), 0
        self.checksums = Checksums()
        self._file = open(path, "xb")  # noqa: SIM115 (open as long as this object)
        self._file.write(self._header())

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()

    def append(self, values: np.ndarray) -> None:
        """Write items at the end."""
        items = np.ascontiguousarray(values, self.dtype)
        self._file.write(items.data)
        self.checksums.update(items.view(np.uint8))
        self.size += len(values)

    def widen(self, dtype: str) -> None:
        """Convert the items to a wider type; nothing happens if `dtype` is not wider."""
        if np.dtype(dtype).itemsize <= self.dtype.itemsize:
            return
        self._file.close()  # some systems do not rename open files
        narrow = self.path.with_suffix(".narrow")
        os.replace(self.path, narrow)
        with GrowingArray(self.path, dtype) as wide, open(narrow, "rb") as file:
            file.seek(HEADER_BYTES)
            while len(values := np.fromfile(file, self.dtype, _COPIED)):
                wide.append(values)
        narrow.unlink()
        self.dtype, self.checksums = wide.dtype, wide.checksums
        self._file = open(self.path, "ab")  # noqa: SIM115

    def finish(self) -> None:
        """Write the header, now that the size is known."""
        self._file.close()
        with open(self.path, "r+b") as file:
            file.write(self._header())

    def _header(self) -> bytes:
        return array_header(self.dtype.str, self.size)


class StoredArray:
    """A one-dimensional ``.npy`` file from which ranges of items are read; threads may read at the same time.

    Parameters
    ----------
    path : Path
        The file.
    dtype : str
        Type of the items.
    size : int
        Number of items.
    checksums : ndarray of uint32, optional
        One per piece; a piece is verified when one of its items is read for the first time.
    """

    def __init__(self, path: Path, dtype: str, size: int, checksums: np.ndarray = _NO_CHECKSUMS):
        self.path, self.dtype, self.size = path, np.dtype(dtype), size
        self.checksums = checksums
        self._verified = np.zeros(n_pieces(self.dtype.itemsize * size), dtype=bool)
        with opened_regular(path) as file:
            if file.read(HEADER_BYTES) != array_header(dtype, size):
                raise self._damaged("is not the array that header.json describes")

    def read(self, first: int, last: int) -> np.ndarray:
        """The items `first` to `last - 1`. Not by a memory map: if a mapped file is truncated, the process crashes."""
        with opened_regular(self.path) as file:
            items = self._items(file, first, last)
            if len(self.checksums):
                self._verify(file, first, items)
        return items

    def _items(self, file: BinaryIO, first: int, last: int) -> np.ndarray:
        file.seek(HEADER_BYTES + first * self.dtype.itemsize)
        items = np.fromfile(file, self.dtype, last - first)
        if len(items) != last - first:
            raise self._damaged("has been truncated since it was opened")
        return items

    def _verify(self, file: BinaryIO, first: int, items: np.ndarray) -> None:
        """Verify the whole pieces that contain these items."""
        size, raw = self.dtype.itemsize, items.view(np.uint8)
        start, stop = first * size, first * size + len(raw)
        for piece in range(start // PIECE, n_pieces(stop)):
            if self._verified[piece]:
                continue
            low, high = piece * PIECE, min((piece + 1) * PIECE, self.size * size)
            before, after = max(low, start), min(high, stop)
            found = zlib.crc32(self._items(file, low // size, before // size).data)
            found = zlib.crc32(raw[before - start : after - start].data, found)
            found = zlib.crc32(self._items(file, after // size, high // size).data, found)
            if found != self.checksums[piece]:
                where = f"bytes {HEADER_BYTES + low} to {HEADER_BYTES + high - 1}"
                raise self._damaged(f"does not have the checksum with which {where} were written")
            self._verified[piece] = True

    def _damaged(self, how: str) -> ValueError:
        return ValueError(f"{self.path.parent} is damaged: {self.path.name} {how}.")


def n_pieces(n_bytes: int) -> int:
    """Number of pieces of this many bytes."""
    return -(-n_bytes // PIECE)


class Header(NamedTuple):
    """The contents of a validated header."""

    n_rows: int
    n_features: int
    n_pairs: int
    n_tokens: int
    sizes: dict[str, int]  # items of each array
    files: dict[str, dict[str, Any]]  # dtype of an array, number of bytes, CRC-32 of files without pieces


def write_header(folder: Path, numbers: dict[str, int], files: dict[str, dict[str, Any]]) -> None:
    """Describe the files of a folder, with a checksum of the header itself."""
    for name, described in files.items():
        described["bytes"] = stamp_of(folder / name).n_bytes
    header = {"format": FORMAT, "version": VERSION, **numbers, "files": files}
    header["crc32"] = _checksum(header)
    (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n", "utf-8")


def _checksum(header: dict) -> int:
    return zlib.crc32(json.dumps(header, sort_keys=True).encode())


def read_header(path: Path) -> tuple[Header, dict[str, Stamp]]:
    """The header of a corpus, and the stamps of its files, whose sizes are checked."""
    if not path.exists():
        raise FileNotFoundError(f"There is no corpus at {path}.")
    try:
        stamps = {HEADER: stamp_of(path / HEADER)}
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(f"{path} is not a corpus: it has no {HEADER}.") from error
    header = _checked(path, parse_header(path))
    for name, described in header.files.items():
        try:
            stamps[name] = stamp_of(path / name)
        except FileNotFoundError as error:
            raise ValueError(f"{path} is damaged: {name} is missing.") from error
        if stamps[name].n_bytes != described["bytes"]:
            raise ValueError(
                f"{path} is damaged: {name} has {stamps[name].n_bytes} bytes, not the {described['bytes']} written."
            )
    return header, stamps


def parse_header(path: Path) -> dict:
    """The parsed header of a corpus; only the name of the format is checked."""
    with opened_regular(path / HEADER) as file:
        content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ValueError(f"{path} is not a corpus: its {HEADER} has more than {_LONGEST} bytes.")
    try:
        header = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a corpus: its {HEADER} is not JSON.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a corpus: its {HEADER} does not name the format {FORMAT!r}.")
    return header


def _checked(path: Path, found: dict[str, Any]) -> Header:
    """A validated header: its fields and their types, and their consistency."""
    crc32, version = found.pop("crc32", None), found.get("version")
    files: Any = found.get("files")
    if type(version) is int and version > VERSION:
        raise ValueError(
            f"{path} has format {version}, but this release reads up to format {VERSION}: upgrade skmanifold."
        )
    numbers: list[Any] = [found.get(name) for name in ("version", *_NUMBERS)]
    is_complete = (
        {*found} == {"format", "version", "files", *_NUMBERS}
        and isinstance(files, dict)
        and {*files} | {VOCABULARY} == {*_DESCRIBED}
        and all(isinstance(each, dict) and {*each} == _DESCRIBED[name] for name, each in files.items())
    )
    if is_complete:
        numbers += [number for each in files.values() for field, number in each.items() if field != "dtype"]
    if not is_complete or version != VERSION or not all(type(n) is int and 0 <= n < 1 << 63 for n in numbers):
        raise ValueError(f"{path} is damaged: its {HEADER} is incomplete.")
    if crc32 != _checksum(found):
        raise ValueError(f"{path} is damaged: its {HEADER} does not have the checksum with which it was written.")
    for name, possible in _DTYPES.items():
        if files[name]["dtype"] not in possible:
            raise ValueError(f"{path} is damaged: {name} cannot have the type {files[name]['dtype']!r}.")
    n_rows, n_features, n_pairs, n_tokens = numbers[1:5]
    sizes = dict(zip(ARRAYS, (n_rows + 1, n_rows + 1, n_pairs, n_pairs), strict=True))
    sizes[CHECKSUMS] = sum(n_pieces(np.dtype(files[name]["dtype"]).itemsize * size) for name, size in sizes.items())
    for name, size in sizes.items():
        if files[name]["bytes"] != HEADER_BYTES + np.dtype(files[name]["dtype"]).itemsize * size:
            raise ValueError(f"{path} is damaged: {name} is not the array that {HEADER} describes.")
    if n_features > _MOST_COLUMNS:
        raise ValueError(f"{path} is damaged: it has {n_features} columns, more than the maximum {_MOST_COLUMNS}.")
    return Header(n_rows, n_features, n_pairs, n_tokens, sizes, files)


def starts_fault(indptr: np.ndarray, token_start: np.ndarray, n_features: int, largest: int) -> str | None:
    """Describe an error in the starts of consecutive documents, for a message; None if they are valid.

    `largest` is the largest count that the type of the counts can hold.
    """
    for starts, what in ((indptr, "pairs"), (token_start, "tokens")):
        if starts.min() < 0 or np.any(starts[1:] < starts[:-1]):
            return f"a document has a negative number of {what}"
    pairs, tokens = np.diff(indptr), np.diff(token_start)
    if pairs.max(initial=0) > n_features:
        return f"a document has more pairs than there are columns ({n_features})"
    if np.any(tokens < pairs) or np.any(tokens > pairs.astype(np.float64) * largest):
        return "the number of tokens of a document is impossible for its number of pairs"
    return None


def rows_fault(rows: Counts, narrow: np.ndarray, token_start: np.ndarray) -> str | None:
    """Describe an error in some documents, for a message; None if they are valid.

    `narrow` are the counts in their type on disk; `token_start` are the expected sums.
    """
    wanted = rows.indptr[0] + np.arange(0, len(narrow), _PAIRS)
    cuts = np.unique(np.concatenate((np.searchsorted(rows.indptr, wanted), [rows.n_rows])))
    for start, stop in pairwise([0, *cuts.tolist()]):
        pairs = slice(rows.indptr[start], rows.indptr[stop])
        n_tokens = np.diff(token_start[start : stop + 1])
        fault = range_fault(rows.indices[pairs], narrow[pairs], rows.n_features)
        fault = fault or _order_fault(rows.part(start, stop), narrow[pairs], n_tokens)
        if fault:
            return fault
    return None


def range_fault(indices: np.ndarray, narrow: np.ndarray, n_features: int) -> str | None:
    """Describe an error in some pairs, for a message; None if they are valid."""
    if len(indices) and (indices.min() < 0 or indices.max() >= n_features):
        return f"a column is outside 0..{n_features - 1}"
    return "a count is below 1" if len(narrow) and narrow.min() < 1 else None


def _order_fault(rows: Counts, narrow: np.ndarray, n_tokens: np.ndarray) -> str | None:
    starts = rows.indptr[np.flatnonzero(np.diff(rows.indptr))]
    rises = rows.indices[1:] > rows.indices[:-1]
    rises[starts[1:] - 1] = True
    if not rises.all():
        return "the columns of a document are not sorted or not distinct"
    if np.any(whole_sums_of_rows(rows.indptr, narrow) != n_tokens):
        return "the counts of a document do not add up to its number of tokens"
    return None
