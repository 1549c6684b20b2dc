"""Latents of rows in the files of a checkpoint, which any division into shards can read, and their validation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...utils._disk import read_own, write_own

_VALUES, _ROWS = 1 << 24, 1 << 22  # maximum in a file, unless a single row has more, because a file is read as a whole
_POINTER = np.dtype("<i8")


class RowLatents(NamedTuple):
    """Latents of consecutive rows in the format of the files: row i has ``values[indptr[i]:indptr[i + 1]]``."""

    first_row: int
    indptr: np.ndarray
    values: np.ndarray


class LatentFile(NamedTuple):
    """One file in the header of a checkpoint; it has ``n_rows + 1`` pointers of eight bytes, then the values."""

    first_row: int
    n_rows: int
    n_values: int
    dtype: str
    digest: str

    def path(self, folder: str, chain: int) -> Path:
        """Path of the file."""
        return Path(folder) / f"latents-{chain}-{self.first_row}"

    def n_bytes(self) -> int:
        """Size of the file in bytes."""
        return (self.n_rows + 1) * _POINTER.itemsize + self.n_values * np.dtype(self.dtype).itemsize


def write_latents(parts: Iterable[RowLatents], chain: int, folder: str) -> list[LatentFile]:
    """Write the latents of one chain for consecutive rows."""
    written = []
    for first_row, indptr, values in itertools.chain.from_iterable(map(_cut, parts)):
        content = indptr.astype(_POINTER).tobytes(), np.ascontiguousarray(values).view(np.uint8).data
        digest = blake2b(content[0], digest_size=16)
        digest.update(content[1])
        file = LatentFile(first_row, len(indptr) - 1, len(values), values.dtype.str, digest.hexdigest())
        write_own(file.path(folder, chain), *content)
        written.append(file)
    return written


def _cut(part: RowLatents) -> Iterator[RowLatents]:
    """Divide latents into parts, one for each file."""
    start, n_rows = 0, len(part.indptr) - 1
    while start < n_rows:
        first = part.indptr[start]
        stop = int(np.searchsorted(part.indptr, first + _VALUES, "right")) - 1
        stop = min(max(stop, start + 1), start + _ROWS, n_rows)
        yield RowLatents(
            part.first_row + start, part.indptr[start : stop + 1] - first, part.values[first : part.indptr[stop]]
        )
        start = stop


def listed_files(nodes: Any, n_rows: int, dtype: np.dtype | None) -> list[LatentFile]:
    """The files of one chain in a header's list, parsed JSON; ValueError unless every row is in exactly one."""
    if not isinstance(nodes, list) or not all(isinstance(node, list) and len(node) == 5 for node in nodes):
        raise ValueError("its list of latents is not valid")
    files = sorted(
        (LatentFile(*node) for node in nodes if [*map(type, node)] == [int, int, int, str, str]), key=itemgetter(0)
    )
    if any(dtype is None or file.dtype != dtype.str for file in files):
        raise ValueError("its latents have a different type from those of this sampler")
    ends = [0, *itertools.accumulate(file.n_rows for file in files)]
    is_whole = [file.first_row for file in files] == ends[:-1] and ends[-1] == (0 if dtype is None else n_rows)
    if len(files) < len(nodes) or not is_whole or any(file.n_rows < 1 or file.n_values < 0 for file in files):
        raise ValueError("its list of latents does not contain every row exactly once")
    return files


class StoredLatents:
    """The latents of one chain in the folder of a checkpoint, in files in the order of rows."""

    def __init__(self, folder: str, chain: int, files: list[LatentFile]):
        self._folder = folder
        self._chain = chain
        self._files = files

    def read(self, start: int, stop: int) -> RowLatents:
        """Latents of the rows `start` to `stop`; ValueError if a file does not match its checksum."""
        lengths, values = [], []
        for file in self._files:
            low, high = max(start - file.first_row, 0), min(stop - file.first_row, file.n_rows)
            if low < high:
                indptr, stored = self._open(file)
                lengths.append(np.diff(indptr[low : high + 1]))
                values.append(stored[indptr[low] : indptr[high]])
        return RowLatents(start, np.concatenate(([0], np.cumsum(np.concatenate(lengths)))), np.concatenate(values))

    def _open(self, file: LatentFile) -> tuple[np.ndarray, np.ndarray]:
        path = file.path(self._folder, self._chain)
        content = read_own(path, file.n_bytes())
        if blake2b(content, digest_size=16).hexdigest() != file.digest:
            raise ValueError(f"{path.name} does not match its checksum")
        indptr = np.frombuffer(content, _POINTER, file.n_rows + 1)
        if indptr[0] != 0 or indptr[-1] != file.n_values or np.any(indptr[1:] < indptr[:-1]):
            raise ValueError(f"{path.name} does not assign its values to rows")
        return indptr, np.frombuffer(content, file.dtype, file.n_values, offset=indptr.nbytes)
