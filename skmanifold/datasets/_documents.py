"""Documents that are read block by block, in order or sorted in temporary files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ._files import PathLike, Stamp, first_changed, listed, stamp_of

_CHUNK = 1 << 18  # pairs or documents handled at a time: a few MB
_SORTED = 1 << 22  # entries sorted in memory: 100 MB
_MOST_FILES = 256
_FEW_DOCUMENTS = 1 << 20
_PER_ENTRY = 16  # documents
LARGEST = int(np.iinfo(np.int32).max)
LONGEST_NAME = 1 << 20  # characters of a document or word

Tables = Iterable[tuple[int, np.ndarray]]  # number of the first line, (n, 3) int64 of document, word (from 1) and count


class Rows(NamedTuple):
    """Documents as received, neither validated nor sorted."""

    sizes: np.ndarray  # (n_rows,) pairs in each
    columns: np.ndarray  # (n_pairs,) ints
    counts: np.ndarray  # (n_pairs,) numbers
    width: int  # width of the matrix of these rows, 0 if there is none


def refuse_empty_documents(path: PathLike, n_documents: int, n_entries: int, most: int | None = None) -> None:
    """Raise a ValueError if the number of documents is implausible for the number of entries."""
    most = max(_FEW_DOCUMENTS, _PER_ENTRY * n_entries) if most is None else most
    if n_documents > most:
        raise ValueError(
            f"{path} has {n_documents} documents for {n_entries} entries, more than the limit of {most}: if the file "
            f"is correct, read it as a matrix, by load_uci_docword with max_documents={n_documents} or by "
            "scipy.io.mmread."
        )


def row_ranges(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Ranges of rows of CSR arrays with few pairs each; one empty range if there are no rows."""
    start, n_rows = 0, len(indptr) - 1
    while True:
        end = indptr.dtype.type(min(int(indptr[start]) + _CHUNK, int(indptr[-1])))  # another type would copy indptr
        stop = min(max(start + 1, int(np.searchsorted(indptr, end, side="right")) - 1), n_rows)
        yield start, stop
        start = stop
        if start == n_rows:
            return


def dense_rows(X: Any) -> Iterator[Rows]:
    """The rows of a two-dimensional array, or of one in a file."""
    height = max(1, _CHUNK // max(1, X.shape[1]))
    for start in range(0, max(1, len(X)), height):
        some = X[start : start + height]
        present = some != 0
        yield Rows(present.sum(axis=1), np.nonzero(present)[1], some[present], X.shape[1])


def gathered(parts: Iterator[Rows]) -> Iterator[Rows]:
    """Combine the same documents into fewer and larger parts."""
    held: list[Rows] = []
    n_held = 0
    for rows in parts:
        size = len(rows.columns) + len(rows.sizes)
        large = size > _CHUNK // 2
        if held and (large or n_held + size > _CHUNK):
            yield _joined(held)
            held, n_held = [], 0
        if large:
            yield rows
        else:
            # the iterator may reuse its arrays
            held.append(Rows(rows.sizes.copy(), rows.columns.copy(), rows.counts.copy(), rows.width))
            n_held += size
    if held:
        yield _joined(held)


def _joined(held: list[Rows]) -> Rows:
    sizes, columns, counts, widths = zip(*held, strict=True)
    return Rows(np.concatenate(sizes), np.concatenate(columns), np.concatenate(counts), max(widths))


def rows_of_entries(
    path: PathLike, tables: Tables, shape: tuple[int, int], name: str, advice: str = "", may_repeat: bool = False
) -> Iterator[Rows]:
    """The documents of tables that are sorted by document.

    Parameters
    ----------
    path : str or path-like
        The file, for messages.
    tables : iterable
        The entries, in blocks.
    shape : (int, int)
        Number of documents and words.
    name : str
        What the file calls the number of a document.
    advice : str, default=""
        What to do about a file that is not sorted.
    may_repeat : bool, default=False
        Whether a document may have several entries for a word.
    """
    n_documents, n_features = shape
    last = n_found = 0  # the document that continues in the next block; all previous ones have been yielded
    held: list[np.ndarray] = [np.empty((0, 3), dtype=np.int64)]  # its entries
    for first_line, table in tables:
        documents = np.concatenate(([last], table[:, 0]))
        if np.any(documents[1:] < documents[:-1]):
            place = int((documents[1:] < documents[:-1]).argmax())
            raise ValueError(
                f"{path}, line {first_line + place}: {name} {documents[place + 1]} comes after {documents[place]}, "
                f"but the file must be sorted by {name}{advice}."
            )
        n_found += len(table)
        held.append(table)
        if last == documents[-1] and sum(map(len, held)) <= n_features:
            continue  # concatenated once, when the document is complete
        refuse_empty_documents(path, int(documents[-1]), n_found)
        entries = np.concatenate(held)
        cut = np.searchsorted(entries[:, 0], documents[-1])
        yield from _whole_documents(path, entries[:cut], max(last, 1), int(documents[-1]), n_features, may_repeat)
        last, held = int(documents[-1]), [entries[cut:]]
        if len(held[0]) > n_features and not may_repeat:
            raise ValueError(f"{path} has a word of document {last} more than once.")
    refuse_empty_documents(path, n_documents, n_found)
    yield from _whole_documents(path, np.concatenate(held), max(last, 1), n_documents + 1, n_features, may_repeat)


def _whole_documents(
    path: PathLike, entries: np.ndarray, first: int, end: int, n_features: int, may_repeat: bool
) -> Iterator[Rows]:
    """The documents `first` to `end - 1` with all entries; at least one item, possibly empty."""
    keys = entries[:, 0] * (n_features + 1) + entries[:, 1]
    if np.any(keys[1:] <= keys[:-1]):
        order = np.argsort(keys)
        entries, keys = entries[order], keys[order]
        if not may_repeat and np.any(keys[1:] == keys[:-1]):
            document, word, _ = entries[int((keys[1:] == keys[:-1]).argmax())]
            raise ValueError(f"{path} has word {word} of document {document} more than once.")
    # in chunks, because empty documents alone could fill the memory
    for start in range(first, max(end, first + 1), _CHUNK):
        stop = min(start + _CHUNK, end)
        some = slice(*np.searchsorted(entries[:, 0], [start, stop]))
        sizes = np.bincount(entries[some, 0] - start, minlength=stop - start)
        yield Rows(sizes, entries[some, 1] - 1, entries[some, 2], n_features)


def sorted_by_document(tables: Tables, first: int, end: int, n_entries: int) -> Iterator[tuple[int, np.ndarray]]:
    """The entries of the documents `first` to `end - 1` in order, by temporary files with ranges of documents.

    Entries of a document stay in the order of the tables. The numbers of lines are 0.
    """
    if n_entries <= _SORTED or end - first == 1:
        entries = np.concatenate([np.empty((0, 3), np.int64), *(table for _, table in tables)])
        yield 0, entries[np.argsort(entries[:, 0], kind="stable")]
        return
    n_files = min(_MOST_FILES, end - first, -(-2 * n_entries // _SORTED))
    cuts = first + (end - first) * np.arange(n_files + 1) // n_files
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(n_files)]
        sizes = np.zeros(n_files, np.int64)
        for _, table in tables:
            range_of = np.searchsorted(cuts, table[:, 0], side="right") - 1
            for i in np.unique(range_of):
                part = table[range_of == i]
                files[i].write(np.ascontiguousarray(part, np.int64).data)
                sizes[i] += len(part)
        for file, start, stop, size in zip(files, cuts[:-1].tolist(), cuts[1:].tolist(), sizes.tolist(), strict=True):
            file.seek(0)
            yield from sorted_by_document(_blocks_of(file), start, stop, size)
            file.truncate(0)


def _blocks_of(file) -> Iterator[tuple[int, np.ndarray]]:
    while content := file.read(24 * _CHUNK):
        yield 0, np.frombuffer(content, np.int64).reshape(-1, 3)


def not_counts(values: np.ndarray) -> np.ndarray:
    """Which values are not whole numbers from 0 to the largest count."""
    if values.dtype.kind != "f" and values.min(initial=0) >= 0 and values.max(initial=0) <= LARGEST:
        return np.zeros(len(values), dtype=bool)
    if values.dtype.kind == "f":
        values = values.astype(np.float64, copy=False)  # narrower types cannot represent the limit
    return ~((values >= 0) & (values <= LARGEST) & (values == np.floor(values)))


def checked_counts(values: np.ndarray, path: PathLike, line: int = 0) -> np.ndarray:
    """The values as int64; raises a ValueError if one is no count, whose line is named if the first one is given."""
    bad = not_counts(values)
    if bad.any():
        place = int(bad.argmax())
        where = f"{path}, line {line + place}" if line else path
        raise ValueError(f"{where}: the count {values[place]:.10g} is not a whole number from 0 to {LARGEST}.")
    return values.astype(np.int64)


class DocumentReader:
    """Documents in a file, for :func:`save_corpus` or a stream of minibatches.

    An iterable of blocks: sparse matrices of counts of shape (n, n_features), in the order of the documents, of about
    260,000 entries each. Every iteration reads the file from its beginning, so that only one block is in memory.
    A file that is modified or replaced after its reader was made raises a ValueError.
    :func:`read_matrix_market`, :func:`read_parquet` and :func:`read_anndata` return such objects.

    Parameters
    ----------
    shape : (int, int)
        Number of documents and of words.
    vocabulary : list of str or None
        The words, if the file has them or if they were given.
    documents : ndarray or None
        Names of the documents, if the file has them: Python strings or integers.
    rows : callable
        Returns an iterator of the documents, from the first one; internal.
    source : str
        The file, for the representation.
    stamps : dict
        The result of `stamps_of` before the shape was read.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        vocabulary: list[str] | None,
        documents: np.ndarray | None,
        rows: Callable[[], Iterator[Rows]],
        source: str,
        stamps: dict[Path, Stamp],
    ) -> None:
        self.shape, self.vocabulary, self.documents = shape, vocabulary, documents
        self._rows, self._source, self._stamps = rows, source, stamps

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[sp.csr_array]:
        for sizes, columns, counts, _ in self._parts():
            yield sp.csr_array((counts, columns, [0, *sizes.cumsum()]), shape=(len(sizes), self.shape[1]))

    def _parts(self) -> Iterator[Rows]:
        """The documents; a ValueError if the files are no longer those from which the shape was read."""
        parts = gathered(self._rows())
        while True:
            try:
                part = next(parts, None)
            finally:
                changed = first_changed(self._stamps)
                if changed is not None:
                    what = f"{changed} was modified or replaced after its reader was made"
                    raise ValueError(f"{what}: make a new reader.")
            if part is None:
                return
            yield part

    def __repr__(self) -> str:
        return f"<{self.shape[0]} documents over {self.shape[1]} words in {self._source}>"


def stamps_of(source: PathLike | Sequence[PathLike]) -> dict[Path, Stamp]:
    """The stamps of a file, of the files in a folder, or of several of these; only files on this machine have any."""
    paths = map(Path, listed(source))
    files = [file for path in paths for file in (path.rglob("[!._]*") if path.is_dir() else [path]) if file.is_file()]
    return {file: stamp_of(file) for file in files}
