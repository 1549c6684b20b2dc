"""Writing a corpus on disk from a stream of documents, which are validated and sorted."""

from __future__ import annotations

import errno
import os
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..sparse.counts import Counts, canonical_csr
from ..utils._disk import exchange, remove_folder, sync
from ..utils._inputs.sparse_structure import check_structure
from ..utils._progress import show_progress
from ..utils._typing import MatrixLike
from ._corpus import Corpus, is_corpus, open_corpus
from ._corpus_files import ARRAYS, CHECKSUMS, COUNT_TYPES, VOCABULARY, GrowingArray, write_header
from ._documents import LARGEST, DocumentReader, Rows, dense_rows, gathered, not_counts, row_ranges
from ._files import PathLike
from ._formats import check_size, docword_reader, dump_vocabulary, given_words

_PAUSE = 10.0  # seconds between lines of progress
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OTHER_WRITER = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)  # was faster
_MOST_TRIES = 100


def save_corpus(
    documents: Iterable[Any] | MatrixLike | PathLike,
    path: PathLike,
    *,
    n_features: int | None = None,
    vocabulary: Sequence[str] | PathLike | None = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> Corpus:
    """Write documents into a folder, from which any range of them can be read at the speed of the disk.

    Documents are processed one after the other, so they need not fit into memory. Buffers take a few megabytes, or the
    size of the largest document or block.

    The folder gets its name only when it is complete. After an error (an invalid document, an error of the iterator, a
    full disk, Ctrl-C) nothing of it is left, and an existing corpus is unchanged. On Linux an existing corpus is
    replaced in one step, so other processes find the old or the new one. If several processes replace it, the last one
    wins.

    Parameters
    ----------
    documents : iterable, sparse matrix, ndarray, str or path-like
        One of

        - an iterable of documents or blocks of documents. A document is a mapping ``{column: count}``, or a
          one-dimensional sequence or array of ints, the columns of its tokens. A block is a sparse matrix or a
          two-dimensional array of counts with one or more rows;
        - such a matrix or array of all documents;
        - what :func:`read_matrix_market`, :func:`read_parquet` or :func:`read_anndata` returns, with its vocabulary;
        - the path of a UCI docword file in the format of :func:`load_uci_docword`, sorted by docID, which is read in
          blocks.

        Counts are integers of at most 2**31 - 1. Zeros are dropped, duplicates are summed (in a docword file they are
        an error), and rows are sorted. Documents may be empty.
    path : str or path-like
        The new folder; its parent folder must exist.
    n_features : int, default=None
        Number of columns. None is the length of `vocabulary`; without it, the largest column plus one, or the width of
        the widest matrix if that is larger.
    vocabulary : sequence of str, str or path-like, default=None
        The words, or a file with one word per line.
    overwrite : bool, default=False
        Whether to replace an existing corpus at `path`. Other files and folders are never replaced.
    verbose : bool, default=False
        Whether to show the progress: a bar on a terminal if rich is installed, otherwise a line every ten seconds.

    Returns
    -------
    corpus : Corpus
        The corpus, opened.

    Raises
    ------
    ValueError
        If a count of a document is not an integer from 0 to 2**31 - 1, or a column is out of range (the message has the
        number of the document, from 0). If a docword file does not have the right format, is not sorted, or up to some
        entry has more than 2**20 documents and more than 16 documents per entry. If `n_features` and `vocabulary` do
        not agree.
    TypeError
        If an item is not a document.
    FileExistsError
        If `path` exists and may not be replaced.

    See Also
    --------
    open_corpus : Opens the folder.

    Examples
    --------
    >>> import os, tempfile
    >>> from skmanifold.datasets import open_corpus, save_corpus
    >>> documents = ({0: 2, 2: 1} if i % 2 else [3, 1, 3] for i in range(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "corpus")
    ...     corpus = save_corpus(documents, path)
    ...     print(corpus.shape, corpus.n_tokens, corpus.pieces(6))
    ...     print(open_corpus(path).rows(1, 3).toarray())
    (4, 4) 12 [(0, 2), (2, 4)]
    [[2 0 1 0]
     [0 1 0 2]]
    """
    target = Path(path).resolve()
    check_size("n_features", n_features)
    _refuse_existing(target, overwrite)
    if isinstance(documents, str | os.PathLike):
        source, documents = documents, docword_reader(documents)
        words = None if vocabulary is None else given_words(vocabulary, documents.shape[1], source)
    else:
        if vocabulary is None and isinstance(documents, DocumentReader):
            vocabulary = documents.vocabulary
        words = None if vocabulary is None else given_words(vocabulary)
    if words is not None:
        if n_features is not None and n_features != len(words):
            raise ValueError(f"The vocabulary has {len(words)} words but n_features is {n_features}.")
        n_features = len(words)
    with _built(target, overwrite) as folder:
        if words is not None:
            dump_vocabulary(words, folder / VOCABULARY)
        parts = gathered(_rows_of(documents, n_features))
        if verbose:
            parts = _shown(parts, documents.shape[0] if hasattr(documents, "shape") else None)
        _write(folder, parts, n_features)
    return _opened(target)


def _shown(parts: Iterator[Rows], n_documents: int | None) -> Iterator[Rows]:
    """The same parts; shows how many documents have been used."""
    n_done = 0
    with show_progress(_PAUSE) as report:
        for rows in parts:
            yield rows
            n_done += len(rows.sizes)
            report("documents saved", n_done, n_documents)


def _rows_of(documents, n_features: int | None) -> Iterator[Rows]:
    if sp.issparse(documents) or getattr(documents, "ndim", 1) == 2:
        documents = [documents]
    if not isinstance(documents, Iterable):
        raise TypeError(f"documents must be an iterable, a matrix or the path of a docword file; got {documents!r}.")
    number = 0
    for document in documents._parts() if isinstance(documents, DocumentReader) else documents:
        for rows in [document] if isinstance(document, Rows) else _read_document(document, number):
            if n_features is not None and rows.width > n_features:
                raise ValueError(f"Document {number} is in a matrix of {rows.width} columns, more than {n_features}.")
            yield rows
            number += len(rows.sizes)


def _read_document(document, number: int) -> Iterator[Rows]:
    """Read one document, or the parts of a block of documents."""
    if sp.issparse(document):
        yield from _sparse_rows(document, number)
        return
    if getattr(document, "ndim", 1) == 2:
        document = np.asarray(document)
        _check_kind(document, number)
        yield from dense_rows(document)
        return
    columns = counts = np.empty((0, 0))
    if isinstance(document, Mapping):
        columns, counts = np.array(list(document)), np.array(list(document.values()))
    elif hasattr(document, "__array__") or (isinstance(document, Sequence) and not isinstance(document, str | bytes)):
        with suppress(ValueError):  # lists of different lengths
            columns = np.asarray(document)
            counts = np.ones(columns.shape, dtype=np.int8)
    if columns.ndim != 1 or counts.shape != columns.shape or (len(columns) and columns.dtype.kind not in "iu"):
        raise TypeError(
            f"Document {number} is neither a mapping from columns to counts, nor columns (ints) in one dimension, nor "
            f"a matrix of counts; got {type(document).__name__}."
        )
    _check_kind(counts, number)
    yield Rows(np.array([len(columns)]), columns.astype(np.int64), counts, 0)


def _check_kind(counts: np.ndarray, number: int) -> None:
    if counts.dtype.kind not in "biuf":
        raise TypeError(f"Document {number}: counts must be numbers; got the type {counts.dtype}.")


def _sparse_rows(X, number: int) -> Iterator[Rows]:
    X = X.reshape(1, -1) if X.ndim == 1 else X
    check_structure(X, f"Document {number}")
    _check_kind(X, number)
    # conversion to float before csr, because sums of duplicates could overflow narrow integers
    csr = X if X.format == "csr" else sp.csr_array(X.astype(np.float64))
    indptr = csr.indptr
    for start, stop in row_ranges(indptr):
        pairs = slice(indptr[start], indptr[stop])
        yield Rows(np.diff(indptr[start : stop + 1]), csr.indices[pairs], csr.data[pairs], csr.shape[1])


def _canonical(rows: Rows, number: int, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, columns and counts (int32) without zeros or duplicates, sorted; `number` is that of the first document."""
    sizes, columns, counts, _ = rows

    def document_of(place: int) -> int:
        return number + int(np.searchsorted(np.cumsum(sizes), place, side="right"))

    if len(columns) and (columns.min() < 0 or columns.max() >= n_features):
        place = int(((columns < 0) | (columns >= n_features)).argmax())
        raise ValueError(f"Document {document_of(place)}: column {columns[place]} is outside 0..{n_features - 1}.")
    bad = not_counts(counts)
    if bad.any():
        place = int(bad.argmax())
        raise ValueError(
            f"Document {document_of(place)}: the count {counts[place]:.10g} of column {columns[place]} is not a whole "
            f"number from 0 to {LARGEST}."
        )
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    if len(columns) <= LARGEST:
        indptr = indptr.astype(np.int32)  # with a wider type scipy would copy the columns
    counts, columns = (array.astype(np.int32, copy=False) for array in (counts, columns))
    csr = canonical_csr(sp.csr_array((counts, columns, indptr), shape=(len(sizes), n_features)))
    if csr.data.max(initial=0) > LARGEST:
        place = int((csr.data > LARGEST).argmax())
        sizes, column = np.diff(csr.indptr), csr.indices[place]
        what = f"the counts of column {column} add up to more than {LARGEST}"
        raise ValueError(f"Document {document_of(place)}: {what}.")
    return np.diff(csr.indptr), csr.indices, csr.data.astype(np.int32, copy=False)


def _write(folder: Path, parts: Iterator[Rows], n_features: int | None) -> None:
    """Fill a folder with all files of a corpus."""
    n_rows = n_pairs = n_tokens = 0
    width = n_features or 0
    with ExitStack() as stack:
        kinds = zip(ARRAYS, ("<i8", "<i8", "<i4", COUNT_TYPES[0]), strict=True)
        files = [stack.enter_context(GrowingArray(folder / name, dtype)) for name, dtype in kinds]
        indptr, tokens, indices, counts = files
        indptr.append(np.zeros(1, dtype=np.int64))
        tokens.append(np.zeros(1, dtype=np.int64))
        for rows in parts:
            sizes, columns, values = _canonical(rows, n_rows, LARGEST if n_features is None else n_features)
            ends = np.cumsum(sizes, dtype=np.int64)
            token_ends = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))[ends]
            largest = int(values.max(initial=0))
            counts.widen(next(dtype for dtype in COUNT_TYPES if largest <= np.iinfo(dtype).max))
            for file, part in zip(files, (n_pairs + ends, n_tokens + token_ends, columns, values), strict=True):
                file.append(part)
            n_rows, n_pairs, n_tokens = n_rows + len(sizes), indices.size, n_tokens + int(values.sum(dtype=np.int64))
            width = max(width, rows.width, int(columns.max(initial=-1)) + 1)
        for file in files:
            file.finish()
        described: dict[str, dict[str, Any]] = {file.path.name: {"dtype": file.dtype.str} for file in files}
    sums = np.concatenate([file.checksums.values() for file in files]).astype("<u4")
    with GrowingArray(folder / CHECKSUMS, "<u4") as stored:
        stored.append(sums)
        stored.finish()
    described[CHECKSUMS] = {"dtype": "<u4", "crc32": zlib.crc32(sums.data)}
    if (folder / VOCABULARY).exists():
        described[VOCABULARY] = {"crc32": zlib.crc32((folder / VOCABULARY).read_bytes())}
    numbers = {"n_rows": n_rows, "n_features": int(width), "n_pairs": n_pairs, "n_tokens": n_tokens}
    write_header(folder, numbers, described)


@contextmanager
def _built(target: Path, overwrite: bool) -> Iterator[Path]:
    """A temporary folder next to `target`, which replaces it on success and is deleted on failure."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"The parent folder {target.parent} of the corpus does not exist.")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        temporary.mkdir()
        yield temporary
        for file in temporary.iterdir():
            sync(file, os.O_RDWR)
        sync(temporary)
        _put_in_place(temporary, target, overwrite)
    except OSError as error:
        if error.errno in _NO_ROOM:
            message = f"There is not enough space for the corpus, so it was not saved ({os.strerror(error.errno)})"
            raise OSError(error.errno, message, str(target)) from error
        raise
    finally:
        remove_folder(temporary)
    sync(target.parent)


def _put_in_place(temporary: Path, target: Path, overwrite: bool) -> None:
    """Give the folder its name; `temporary` is then the corpus that it replaced, if there was one."""
    for left in reversed(range(_MOST_TRIES)):
        _refuse_existing(target, overwrite)
        try:
            if not (overwrite and target.exists()):
                os.rename(temporary, target)  # fails if another writer was faster
            elif not exchange(temporary, target):
                _replace(temporary, target)
            return
        except OSError as error:
            if error.errno not in _OTHER_WRITER or not left:
                raise


def _opened(target: Path) -> Corpus:
    """The new corpus, or that of another writer, who may be replacing it in two steps."""
    for _ in range(_MOST_TRIES):
        with suppress(FileNotFoundError, ValueError):
            return open_corpus(target)
        time.sleep(0.001)
    return open_corpus(target)


def _replace(temporary: Path, target: Path) -> None:
    """Move the existing folder away, and then rename the new one; the existing one is restored if that fails."""
    old = temporary.with_name(f"{temporary.name}.old")
    try:
        os.rename(target, old)
        os.rename(temporary, target)
    except BaseException:
        if old.exists() and not target.exists():
            os.rename(old, target)
        raise
    finally:
        if target.exists():
            remove_folder(old)


def _refuse_existing(target: Path, overwrite: bool) -> None:
    if not is_corpus(target):
        if not target.exists():
            return
        if not is_corpus(target):  # which another writer may have saved between the first two checks
            raise FileExistsError(f"{target} exists and contains something other than a corpus, so it is not replaced.")
    if not overwrite:
        raise FileExistsError(f"{target} exists; pass overwrite=True to replace the corpus.")


def counts_of_documents(documents: Iterable, n_features: int | None = None) -> Counts:
    """Counts of documents in the formats of :func:`save_corpus`; by default the largest column determines their width.

    Raises
    ------
    TypeError, ValueError
        If an item is not a document, or a count or a column is out of range.
    """
    parts = list(gathered(_rows_of(documents, n_features)))
    if n_features is None:
        n_features = max((max(part.width, 1 + int(part.columns.max(initial=-1))) for part in parts), default=0)
    canonical, number = [(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))], 0
    for part in parts:
        canonical.append(_canonical(part, number, n_features))
        number += len(part.sizes)
    sizes, columns, counts = (np.concatenate(arrays) for arrays in zip(*canonical, strict=True))
    return Counts(np.cumsum(sizes), columns.astype(np.int32, copy=False), counts, n_features)
