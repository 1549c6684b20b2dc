"""An ``.npy`` file with checksums of its pieces, which can be extended and read in parts."""

from __future__ import annotations

import os
import zlib
from array import array
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..utils._regular_files import opened_regular

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
