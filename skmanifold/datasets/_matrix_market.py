"""Counts in Matrix Market files, which tools for single cells and gensim write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np

from ._documents import (
    LARGEST,
    DocumentReader,
    Rows,
    refuse_empty_documents,
    rows_of_entries,
    sorted_by_document,
    stamps_of,
)
from ._files import File, PathLike, opened
from ._formats import Header, given_words, read_entries, refuse_lines, scan

_BANNER = [b"%%matrixmarket", b"matrix", b"coordinate"]
_FIELDS = ("integer", "real", "pattern", "double")
_LONGEST_COMMENT = 1 << 20  # bytes
_NOT_IN_NUMBERS = re.compile(rb"[^-+.0-9aefintyAEFINTY \t\r\n]")  # with signs, exponents, nan and infinity


def read_matrix_market(
    path: PathLike,
    *,
    documents: Literal["rows", "columns"] = "rows",
    vocabulary: Sequence[str] | PathLike | None = None,
    sort: bool = False,
) -> DocumentReader:
    """Read counts in the Matrix Market format (``.mtx``, ``.mm``) block by block.

    Parameters
    ----------
    path : str or path-like
        A file in coordinate format. A name that ends in ``.gz`` is decompressed.
    documents : {"rows", "columns"}, default="rows"
        What a document is: a row, as in gensim's ``MmCorpus``, or a column, such as a cell in the ``matrix.mtx.gz`` of
        10x Genomics.
    vocabulary : sequence of str, str or path-like, default=None
        The words, or a file with one word per line.
    sort : bool, default=False
        Whether to sort the entries by document first, in temporary files. Without it, files that are not in the order
        of the documents raise an error.

    Returns
    -------
    reader : DocumentReader
        The documents; pass it to :func:`save_corpus`. Entries are read when it is iterated.

    Raises
    ------
    ValueError
        If the file does not have the format, is symmetric, or does not agree with the vocabulary. While it is read: if
        it is truncated, not in the order of the documents, or has indices out of range, a value that is not a whole
        number, or two values for a word of a document.

    References
    ----------
    .. [1] R. F. Boisvert, R. Pozo and K. A. Remington, "The Matrix Market exchange formats: initial design", NISTIR
       5935, 1996.

    Examples
    --------
    >>> import os, tempfile
    >>> import scipy.io, scipy.sparse
    >>> from skmanifold.datasets import read_matrix_market, save_corpus
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "matrix.mtx")
    ...     scipy.io.mmwrite(path, scipy.sparse.csr_array([[2, 0, 1], [0, 3, 0]]))
    ...     corpus = save_corpus(read_matrix_market(path), os.path.join(folder, "corpus"))
    ...     print(corpus.rows(0, 2).toarray())
    [[2 0 1]
     [0 3 0]]
    """
    if documents not in ("rows", "columns"):
        raise ValueError(f"documents must be 'rows' or 'columns'; got {documents!r}.")
    stamps, name = stamps_of(path), documents[:-1]
    with opened(path) as file:
        header, _ = _read_header(file, path)
    shape = header.shape if name == "row" else header.shape[::-1]
    refuse_empty_documents(path, shape[0], header.n_entries)
    words = None if vocabulary is None else given_words(vocabulary, shape[1], path)
    advice = f": pass sort=True, or documents={'columns' if name == 'row' else 'rows'!r} if that is what they are"

    def rows() -> Iterator[Rows]:
        with opened(path) as file:
            header, parse = _read_header(file, path)
            tables = read_entries(file, path, header, parse, may_lack_end=True)
            if name == "column":
                tables = ((line, table[:, [1, 0, 2]]) for line, table in tables)
            if sort:
                tables = sorted_by_document(tables, 1, shape[0] + 1, header.n_entries)
            yield from rows_of_entries(path, tables, shape, name, advice)

    return DocumentReader(shape, words, None, rows, str(path), stamps)


def _read_header(file: File, path: PathLike) -> tuple[Header, Callable[[PathLike, int, bytes], np.ndarray]]:
    """Numbers of rows, columns and entries, and the parser of entries."""
    banner = file.readline(1000)
    words = banner.lower().split()
    if words[:3] != _BANNER or len(words) != 5 or not banner.endswith(b"\n"):
        shown = banner.decode("ascii", "replace").strip()[:60]
        raise ValueError(f"{path}, line 1: expected '%%MatrixMarket matrix coordinate ...', got {shown!r}.")
    field, symmetry = (word.decode("ascii", "replace") for word in words[3:])
    if field not in _FIELDS or symmetry != "general":
        raise ValueError(f"{path} has {field} {symmetry} entries, which are not counts of words in documents.")
    line = 2
    while (text := file.readline(_LONGEST_COMMENT)).endswith(b"\n") and (text.startswith(b"%") or text.isspace()):
        line += 1
    sizes = text.split()
    if len(sizes) != 3 or not all(size.isdigit() and len(size) < 19 for size in sizes) or not text.endswith(b"\n"):
        shown = text.decode("ascii", "replace").strip()[:60]
        raise ValueError(f"{path}, line {line}: expected the numbers of rows, columns and entries, got {shown!r}.")
    n_rows, n_columns, n_entries = map(int, sizes)
    if max(n_rows, n_columns) > LARGEST:
        raise ValueError(f"{path}, line {line}: {n_rows} rows and {n_columns} columns are more than {LARGEST}.")
    limits = ("row", 1, n_rows), ("column", 1, n_columns), ("value", 0, LARGEST)
    return Header((n_rows, n_columns), n_entries, line + 1, limits), partial(_parse, 2 if field == "pattern" else 3)


def _parse(n_fields: int, path: PathLike, first_line: int, block: bytes) -> np.ndarray:
    """The numbers of a block of lines, (n_lines, 3) int64; with two fields the third is 1."""
    block = block if block.endswith(b"\n") else block + b"\n"
    fields = scan(block)
    table = fields.values
    if fields.bad_lines.any() or (fields.per_line != n_fields).any():  # decimals, or empty lines at the end
        filled = block.rstrip(b" \t\r\n")
        values = np.array([_numbers(line, n_fields) for line in filled.split(b"\n") if filled]).reshape(-1, n_fields)
        expected = "'row column'" if n_fields == 2 else "'row column count' (numbers)"
        refuse_lines(path, first_line, block, np.isnan(values).all(axis=1), expected)
        whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) <= 2.0**53)
        refuse_lines(path, first_line, block, ~whole.all(axis=1), "whole numbers")
        table = values.astype(np.int64)
    table = table.reshape(-1, n_fields)
    return table if n_fields == 3 else np.column_stack((table, np.ones(len(table), np.int64)))


def _numbers(line: bytes, n_fields: int) -> list[float]:
    """The fields of a line; NaN if they are not as many numbers."""
    try:  # Python would accept 1_0
        numbers = [] if _NOT_IN_NUMBERS.search(line) else [*map(float, line.split())]
    except ValueError:
        numbers = []
    return numbers if len(numbers) == n_fields else [np.nan] * n_fields
