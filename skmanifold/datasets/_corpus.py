"""A corpus on disk: a folder of arrays in CSR order, from which any range of documents can be read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import blake2b
from numbers import Integral
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ..sparse.counts import Counts
from ..utils._disk import opened_regular
from ._corpus_files import (
    ARRAYS,
    CHECKSUMS,
    COUNTS,
    FORMAT,
    HEADER,
    INDICES,
    INDPTR,
    TOKENS,
    VOCABULARY,
    Header,
    StoredArray,
    n_pieces,
    parse_header,
    range_fault,
    read_header,
    rows_fault,
    starts_fault,
)
from ._files import PathLike, Stamp, first_changed, stamp_of
from ._formats import words_of

_MOST_TRIES = 100  # of opening a corpus while others replace it
_INT32_MAX = np.iinfo(np.int32).max
_ROWS_AT_ONCE = 1 << 18  # whose two numbers each are checked together while a corpus is opened
_TOKENS_AT_ONCE = 1 << 22


class Corpus:
    """Documents on disk as counts in CSR order; use :func:`save_corpus` to write and :func:`open_corpus` to open one.

    Opening a corpus reads a header and two numbers for each document, and keeps one of them in memory. The contents of
    documents are read by :meth:`rows` or :meth:`counts`. Several threads may read at the same time. A pickle contains
    only the path and a short identifier; other processes open the folder again, and raise an error for a different
    corpus.

    Damaged files raise a ValueError. Each piece of 256 KiB is compared with its checksum when it is first read. In
    all documents that are read, columns must be in range and sorted, and counts must be positive with the right sums.
    Files that are truncated, changed or replaced while the corpus is open are detected by their sizes and modification
    times.

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
        Number of tokens before each document, and in total; read-only.
    digest : str
        32 hexadecimal digits that identify the documents, their order and the number of columns, but not the
        vocabulary.

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
        self.path = Path(os.path.realpath(path))
        for left in reversed(range(_MOST_TRIES)):
            stamp = self._stamp_of_header()
            try:
                self._open()
                return
            except (OSError, ValueError):
                if self._stamp_of_header() == stamp or not left:  # else another process has replaced it meanwhile
                    raise

    def _stamp_of_header(self) -> Stamp | None:
        with suppress(OSError, ValueError):
            return stamp_of(self.path / HEADER)
        return None

    def _open(self) -> None:
        header, self._stamps = read_header(self.path)
        self.shape = (header.n_rows, header.n_features)
        self.nnz, self.n_tokens = header.n_pairs, header.n_tokens
        self._checked = np.zeros(len(self), dtype=bool)  # documents that were read before
        self._words = header.files.get(VOCABULARY)
        with self._unchanged():
            self._arrays = _arrays(self.path, header)
            self.token_start = self._read_starts()

    def __reduce__(self) -> tuple[Callable[[str, str], Corpus], tuple[str, str]]:
        return _open_same, (str(self.path), self.digest)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        n_rows, n_features = self.shape
        return f"Corpus({str(self.path)!r}: {n_rows} documents, {n_features} words, {self.n_tokens} tokens)"

    @cached_property
    def vocabulary(self) -> list[str] | None:
        """The words, read at first access; None if none were saved."""
        if self._words is None:
            return None
        with self._unchanged():
            with opened_regular(self.path / VOCABULARY) as file:
                content = file.read(self._words["bytes"])
            if zlib.crc32(content) != self._words["crc32"]:
                raise self._damaged(f"{VOCABULARY} does not have the checksum with which it was written")
            words = words_of(content, self.path / VOCABULARY)
            if len(words) != self.shape[1]:
                raise self._damaged(f"{VOCABULARY} has {len(words)} words, and there are {self.shape[1]} columns")
        return words

    @cached_property
    def digest(self) -> str:
        """A digest of the documents, their order and the number of columns."""
        found = blake2b(repr((FORMAT, self.shape)).encode(), digest_size=16)
        with self._unchanged():
            for array in self._arrays.values():
                found.update(f"{array.dtype.str} {array.size} ".encode())
                found.update(array.checksums.astype("<u4").data)
        return found.hexdigest()

    def counts(self, start: int, stop: int) -> Counts:
        """The documents ``start`` to ``stop - 1`` as new arrays in memory, with indptr from 0.

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
        return self._counts_of(start, stop)

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
        """Divide the documents into consecutive pieces of maximum length.

        Parameters
        ----------
        n_tokens : int
            Maximum number of tokens in a piece; a longer document is a piece by itself.

        Returns
        -------
        pieces : list of (start, stop)
            Documents of each piece; the pieces cover all documents.
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

    def _read_starts(self) -> np.ndarray:
        """The token starts, checked together with the pair starts, which are not kept in memory."""
        indptr, tokens, counts = (self._arrays[name] for name in (INDPTR, TOKENS, COUNTS))
        token_start = tokens.read(0, tokens.size)
        largest, ends = np.iinfo(counts.dtype).max, [*token_start[[0, -1]]]
        for first in range(0, len(self) or 1, _ROWS_AT_ONCE):
            last = min(first + _ROWS_AT_ONCE, len(self)) + 1
            some = indptr.read(first, last)
            fault = starts_fault(some, token_start[first:last], self.shape[1], largest)
            if fault:
                raise self._damaged(f"{fault} ({INDPTR}, {TOKENS})")
            ends += [some[0]] * (first == 0) + [some[-1]] * (last == len(self) + 1)
        if ends != [0, self.n_tokens, 0, self.nnz]:
            raise self._damaged(f"{INDPTR} and {TOKENS} do not add up to what {HEADER} says")
        token_start.flags.writeable = False
        return token_start

    def _counts_of(self, start: int, stop: int) -> Counts:
        """`counts` of a range that exists."""
        token_start = self.token_start[start : stop + 1]
        largest = np.iinfo(self._arrays[COUNTS].dtype).max
        with self._unchanged():
            indptr = self._arrays[INDPTR].read(start, stop + 1)
            first, last = int(indptr[0]), int(indptr[-1])
            fault = starts_fault(indptr, token_start, self.shape[1], largest)
            if not fault and last <= self.nnz:
                indices, counts = (self._arrays[name].read(first, last) for name in (INDICES, COUNTS))
                indptr -= first
                rows = Counts(indptr, indices, counts.astype(np.int32, copy=False), self.shape[1])
                if self._checked[start:stop].all():
                    fault = range_fault(indices, counts, self.shape[1])  # a disk can fail later: kernels must not crash
                else:
                    fault = rows_fault(rows, counts, token_start)
                if not fault:
                    self._checked[start:stop] = True
                    return rows
            raise self._damaged(f"among documents {start} to {stop - 1}, {fault or 'one ends after the last pair'}")

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Check that everything read in the block is from the files that were opened; otherwise raise an error."""
        try:
            yield
        except (OSError, ValueError):
            self._refuse_changed()
            raise
        self._refuse_changed()

    def _refuse_changed(self) -> None:
        """Raise a ValueError unless all files are still those that were opened."""
        changed = first_changed({self.path / name: stamp for name, stamp in self._stamps.items()})
        if changed is not None and self._stamp_of_header() != self._stamps[HEADER]:
            raise ValueError(f"{self.path} was replaced after this corpus was opened; open it again.")
        if changed is not None:
            raise ValueError(f"{self.path} has changed: {changed.name} was modified after this corpus was opened.")

    def _damaged(self, how: str) -> ValueError:
        return ValueError(f"{self.path} is damaged: {how}.")


def open_corpus(path: PathLike, *, verify: bool = False) -> Corpus:
    """Open a corpus that :func:`save_corpus` wrote.

    Parameters
    ----------
    path : str or path-like
        The folder.
    verify : bool, default=False
        Whether to read and check all files now. Otherwise documents are checked when they are read, each checksum once.

    Returns
    -------
    corpus : Corpus
        The documents, which are read from disk when needed.

    Raises
    ------
    FileNotFoundError
        If `path` does not exist.
    ValueError
        If the folder is not a corpus, has a newer format than this release can read, or is damaged: files are missing,
        have another size, or have contents that are not valid.
    """
    corpus = Corpus(path)
    if verify:  # read everything once
        for start, stop in corpus.pieces(_TOKENS_AT_ONCE):
            corpus.counts(start, stop)
        _ = corpus.vocabulary
    return corpus


def _open_same(path: str, digest: str) -> Corpus:
    """Open the corpus at a path again; it must be the same corpus as before."""
    corpus = Corpus(path)
    if corpus.digest != digest:
        raise ValueError(f"{path} contains a different corpus from the one that was opened first: open it again.")
    return corpus


def _arrays(path: Path, header: Header) -> dict[str, StoredArray]:
    """The arrays, with the checksums of their pieces."""

    def stored(name: str, *checksums: np.ndarray) -> StoredArray:
        return StoredArray(path / name, header.files[name]["dtype"], header.sizes[name], *checksums)

    sums = stored(CHECKSUMS).read(0, header.sizes[CHECKSUMS])
    if zlib.crc32(sums.data) != header.files[CHECKSUMS]["crc32"]:
        raise ValueError(f"{path} is damaged: {CHECKSUMS} does not have the checksum with which it was written.")
    arrays, first = {}, 0
    for name in ARRAYS:
        last = first + n_pieces(np.dtype(header.files[name]["dtype"]).itemsize * header.sizes[name])
        arrays[name] = stored(name, sums[first:last])
        first = last
    return arrays


def is_corpus(path: Path) -> bool:
    """Whether a folder is a corpus, possibly a damaged or newer one, without other files."""
    try:
        parse_header(path)
        names = {file.name for file in path.iterdir()}
    except (OSError, ValueError):
        return False
    return names <= {HEADER, VOCABULARY, CHECKSUMS, *ARRAYS}


class RestOfCorpus(Corpus):
    """The other documents of a corpus; it has the attributes and methods of a corpus, and reads the same files.

    Parameters
    ----------
    whole : Corpus
        The corpus.
    left_out : ndarray of int64
        Indices of the documents to leave out, sorted.
    nnz : int
        Number of pairs of the other documents and their words.
    """

    def __init__(self, whole: Corpus, left_out: np.ndarray, nnz: int) -> None:
        self._whole, self._left_out = whole, left_out
        self._kept = np.setdiff1d(np.arange(len(whole)), left_out, assume_unique=True)
        lengths = np.diff(whole.token_start)[self._kept]
        self.token_start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        self.token_start.flags.writeable = False
        self.path = whole.path
        self.shape = (len(self._kept), whole.shape[1])
        self.nnz, self.n_tokens = nnz, int(self.token_start[-1])

    def __reduce__(self) -> tuple:
        return RestOfCorpus, (self._whole, self._left_out, self.nnz)

    @cached_property
    def vocabulary(self) -> list[str] | None:
        """The words of the whole corpus."""
        return self._whole.vocabulary

    @cached_property
    def digest(self) -> str:
        """A digest of the whole corpus and of what is left out."""
        return blake2b(self._whole.digest.encode() + self._left_out.tobytes(), digest_size=16).hexdigest()

    def _counts_of(self, start: int, stop: int) -> Counts:
        """The counts of a range of the documents that are kept."""
        if start == stop:
            return self._whole.counts(0, 0)
        chosen = self._kept[start:stop]
        return self._whole.counts(int(chosen[0]), int(chosen[-1]) + 1).take(chosen - chosen[0])


def hold_out_documents(corpora: Sequence[Corpus], documents: np.ndarray) -> tuple[list[Corpus], sp.csr_array]:
    """Corpora without some documents, and these documents in memory; they are read piece by piece.

    Parameters
    ----------
    corpora : sequence of Corpus
        One after the other.
    documents : ndarray of int64
        Indices of the documents in all corpora, sorted.

    Returns
    -------
    kept : list of Corpus
        The other documents.
    held : csr_array of shape (len(documents), n_features)
        The counts of the documents.
    """
    kept: list[Corpus] = []
    held, first = [], 0
    for corpus in corpora:
        chosen = documents[(documents >= first) & (documents < first + len(corpus))] - first
        first += len(corpus)
        found = [sp.csr_array((0, corpus.shape[1]), dtype=np.int32)]
        for start, stop in corpus.pieces(_TOKENS_AT_ONCE):
            here = chosen[(chosen >= start) & (chosen < stop)]
            if len(here):
                low = int(here[0])
                found.append(corpus.rows(low, int(here[-1]) + 1)[here - low])
        held.append(sp.vstack(found, format="csr"))
        if len(chosen) < len(corpus):
            kept.append(RestOfCorpus(corpus, chosen, corpus.nnz - held[-1].nnz) if len(chosen) else corpus)
    return kept, sp.csr_array(sp.vstack(held, format="csr"))
