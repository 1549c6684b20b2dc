"""A corpus on disk: a folder of arrays in CSR order, of which any stretch of documents is read when it is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cached_property
from numbers import Integral
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ..utils._csr import Counts
from ._formats import PathLike, load_vocabulary

FORMAT = "skmanifold corpus"
VERSION = 1
HEADER = "header.json"
VOCABULARY = "vocabulary.txt"
INDPTR, TOKENS, INDICES, COUNTS = ARRAYS = ("indptr.npy", "tokens.npy", "indices.npy", "counts.npy")
COUNT_TYPES = ("|u1", "<u2", "<i4")  # of the counts on disk: the smallest that holds them all
_INT32_MAX = np.iinfo(np.int32).max


class Corpus:
    """Documents on disk as counts in CSR order; :func:`save_corpus` makes one and :func:`open_corpus` opens it.

    Opening reads a header and maps two numbers for each document; what the documents hold is read when :meth:`rows` or
    :meth:`counts` ask for it. Threads may read at the same time. A pickle is the path alone, so that it travels to
    other processes at no cost; they open the folder again.

    Attributes
    ----------
    path : Path
        The folder, absolute.
    shape : tuple of int
        Number of documents and of columns (words).
    nnz : int
        Number of pairs of a document and one of its words.
    n_tokens : int
        Sum of all counts.
    token_start : ndarray of shape (n_rows + 1,), int64
        Where each document's tokens begin, and the number of all; read-only, mapped from the disk.

    See Also
    --------
    save_corpus : Writes a corpus, with examples.
    """

    path: Path
    shape: tuple[int, int]
    nnz: int
    n_tokens: int
    token_start: np.ndarray

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path).resolve()
        self._stamp = _stamp(self.path)
        header = _read_header(self.path)
        self.shape = (header["n_rows"], header["n_features"])
        self.nnz, self.n_tokens = header["n_pairs"], header["n_tokens"]
        arrays = {name: _mapped(self.path, name) for name in ARRAYS}
        sizes = (len(self) + 1, len(self) + 1, self.nnz, self.nnz)
        for (name, array), size in zip(arrays.items(), sizes, strict=True):
            if array.shape != (size,) or array.dtype.str != header["files"][name].get("dtype"):
                raise ValueError(f"{self.path} is damaged: {name} is not the array that {HEADER} describes.")
        self.token_start, self._indptr = arrays[TOKENS], arrays[INDPTR]
        ends = (self._indptr[0], self._indptr[-1], self.token_start[0], self.token_start[-1])
        if ends != (0, self.nnz, 0, self.n_tokens):
            raise ValueError(f"{self.path} is damaged: {INDPTR} and {TOKENS} do not add up to what {HEADER} says.")
        self._files = {
            name: (arrays[name].dtype, header["files"][name]["bytes"] - arrays[name].nbytes)
            for name in (INDICES, COUNTS)
        }

    def __reduce__(self) -> tuple[Callable[[PathLike], Corpus], tuple[str]]:
        return open_corpus, (str(self.path),)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        return f"Corpus({str(self.path)!r}: {n_rows} documents, {n_features} words, {self.n_tokens} tokens)"

    @cached_property
    def vocabulary(self) -> list[str] | None:
        """The words, read when first asked for; None if none were saved."""
        words = self.path / VOCABULARY
        return load_vocabulary(words) if words.exists() else None

    def counts(self, start: int, stop: int) -> Counts:
        """The documents ``start`` to ``stop - 1`` as kernels want them: new arrays in memory, with indptr from 0.

        Parameters
        ----------
        start, stop : int
            The documents, ``0 <= start <= stop <= len(corpus)``.

        Returns
        -------
        counts : Counts
            The arrays `indptr` (int64), `indices` and `counts` (int32), and `n_features`.
        """
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"Documents {start} to {stop} are not within the {len(self)} of {self.path}.")
        first, last = int(self._indptr[start]), int(self._indptr[stop])
        indptr = self._indptr[start : stop + 1] - np.int64(first)
        indices, counts = (self._read(name, first, last).astype(np.int32, copy=False) for name in (INDICES, COUNTS))
        # the folder is replaced as a whole: one that is the same after reading was the same while reading
        if _stamp(self.path) != self._stamp:
            raise ValueError(f"{self.path} was replaced after this corpus was opened; open it again.")
        return Counts(indptr, indices, counts, self.shape[1])

    def rows(self, start: int, stop: int) -> sp.csr_array:
        """The documents ``start`` to ``stop - 1`` as a matrix in memory.

        Parameters
        ----------
        start, stop : int
            The documents, ``0 <= start <= stop <= len(corpus)``.

        Returns
        -------
        rows : csr_array of shape (stop - start, n_features), int32
            Counts; indices are sorted within rows.
        """
        indptr, indices, counts, n_features = self.counts(start, stop)
        narrow = indptr.astype(np.int32) if len(counts) <= _INT32_MAX else indptr
        rows = sp.csr_array((counts, indices, narrow), shape=(len(indptr) - 1, n_features))
        rows.has_canonical_format = True
        return rows

    def pieces(self, n_tokens: int) -> list[tuple[int, int]]:
        """Cut the documents into consecutive pieces, each as long as it can be.

        Parameters
        ----------
        n_tokens : int
            The most tokens in a piece; only a document that has more makes a piece that has more.

        Returns
        -------
        pieces : list of (start, stop)
            Documents of each piece, which together are all.
        """
        if not isinstance(n_tokens, Integral) or n_tokens < 1:
            raise ValueError(f"n_tokens must be an int of at least 1; got {n_tokens!r}.")
        pieces, start = [], 0
        while start < len(self):
            end = int(self.token_start[start]) + int(n_tokens)
            stop = max(start + 1, int(np.searchsorted(self.token_start, end, side="right")) - 1)
            pieces.append((start, stop))
            start = stop
        return pieces

    def _read(self, name: str, first: int, last: int) -> np.ndarray:
        """Items of a file. Not through a map, whose pages would count as the process's own memory."""
        dtype, offset = self._files[name]
        items = np.fromfile(self.path / name, dtype, last - first, offset=offset + first * dtype.itemsize)
        if len(items) != last - first:
            raise ValueError(f"{self.path} is damaged: {name} has been cut since it was opened.")
        return items


def open_corpus(path: PathLike) -> Corpus:
    """Open a corpus that :func:`save_corpus` wrote.

    Parameters
    ----------
    path : str or path-like
        The folder.

    Returns
    -------
    corpus : Corpus
        The documents, which stay on disk until they are asked for.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    ValueError
        If it is no corpus, was written by a newer release in a format that this one does not know, or if files are
        missing or do not have the size with which they were written.
    """
    return Corpus(path)


def is_corpus(path: Path) -> bool:
    """Whether a folder is a corpus, maybe a damaged or newer one, and holds nothing else."""
    try:
        _parse_header(path)
    except (OSError, ValueError):
        return False
    return {file.name for file in path.iterdir()} <= {HEADER, VOCABULARY, *ARRAYS}


def _stamp(path: Path) -> tuple[int, int]:
    """What tells the header of one corpus from that of another under the same name."""
    if not path.exists():
        raise FileNotFoundError(f"There is no corpus at {path}.")
    try:
        status = os.stat(path / HEADER)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ValueError(f"{path} is not a corpus: it has no {HEADER}.") from error
    return status.st_ino, status.st_mtime_ns


def _parse_header(path: Path) -> dict:
    try:
        header = json.loads((path / HEADER).read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a corpus: its {HEADER} is not JSON.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{path} is not a corpus: its {HEADER} does not name the format {FORMAT!r}.")
    return header


def _read_header(path: Path) -> dict:
    """The header of a corpus, after a look at whether all files have the sizes that it tells."""
    header = _parse_header(path)
    version = header.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ValueError(f"{path} has version {version} of the format, and this release reads up to {VERSION}: update.")
    files = header.get("files")
    numbers = [header.get(name) for name in ("n_rows", "n_features", "n_pairs", "n_tokens")]
    if version != VERSION or not isinstance(files, dict) or not {*ARRAYS} <= {*files}:
        raise ValueError(f"{path} is damaged: its {HEADER} is incomplete.")
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or not all(
        isinstance(file, dict) for file in files.values()
    ):
        raise ValueError(f"{path} is damaged: its {HEADER} is incomplete.")
    for name, file in files.items():
        try:
            n_bytes = os.stat(path / name).st_size
        except FileNotFoundError as error:
            raise ValueError(f"{path} is damaged: {name} is missing.") from error
        if n_bytes != file.get("bytes"):
            raise ValueError(f"{path} is damaged: {name} has {n_bytes} bytes, not the {file.get('bytes')} written.")
    return header


def _mapped(path: Path, name: str) -> np.ndarray:
    try:
        return np.asarray(np.load(path / name, mmap_mode="r"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {name} is not an array.") from error
