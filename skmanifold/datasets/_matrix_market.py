"""Counts in Matrix Market files, which tools for single cells and gensim write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ._documents import DocumentReader, Rows, Tables, rows_of_entries, sorted_by_document, stamps_of
from ._files import File, PathLike, line_blocks, opened
from ._formats import LARGEST, all_entries, given_words, refuse_empty_documents, refuse_lines, refuse_values, scan

_BANNER = [b"%%matrixmarket", b"matrix", b"coordinate"]
_FIELDS = ("integer", "real", "pattern", "double")
_LONGEST_COMMENT = 1 << 20  # bytes
_NOT_IN_NUMBERS = re.compile(rb"[^-+.0-9aefintyAEFINTY \t\r\n]")  # with signs, exponents, nan and infinity


class _Header(NamedTuple):
    n_rows: int
    n_columns: int
    n_entries: int
    is_pattern: bool  # entries without values, which are 1
    first_line: int  # of the entries


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
    stamps = stamps_of(path)
    with opened(path) as file:
        header = _read_header(file, path)
    shape = header.n_rows, header.n_columns
    name = "row" if documents == "rows" else "column"
    if documents == "columns":
        shape = shape[::-1]
    refuse_empty_documents(path, shape[0], header.n_entries)
    words = None if vocabulary is None else given_words(vocabulary, shape[1], path)
    advice = f": pass sort=True, or documents={'columns' if name == 'row' else 'rows'!r} if that is what they are"

    def rows() -> Iterator[Rows]:
        with opened(path) as file:
            header = _read_header(file, path)
            tables: Tables = all_entries(path, _read_tables(file, path, header, name == "column"), header.n_entries)
            if sort:
                tables = sorted_by_document(tables, 1, shape[0] + 1, header.n_entries)
            yield from rows_of_entries(path, tables, *shape, name, advice)

    return DocumentReader(shape, words, None, rows, str(path), stamps)


def _read_header(file: File, path: PathLike) -> _Header:
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
    return _Header(n_rows, n_columns, n_entries, field == "pattern", line + 1)


def _read_tables(file: File, path: PathLike, header: _Header, is_transposed: bool) -> Tables:
    """Blocks of entries: document, word and count."""
    n_fields = 2 if header.is_pattern else 3
    limits = {"row": header.n_rows, "column": header.n_columns}
    is_end = False
    for first_line, block in line_blocks(file, path, first_line=header.first_line, may_lack_end=True):
        table = _parse(path, first_line, block if block.endswith(b"\n") else block + b"\n", n_fields)
        if is_end and len(table):
            raise ValueError(f"{path}, line {first_line - 1}: the line is empty, but there are entries after it.")
        is_end = is_end or len(table) < block.count(b"\n")
        for column, (name, limit) in enumerate(limits.items()):
            refuse_values(path, first_line, table[:, column], np.arange(len(table)), name, 1, limit)
        if header.is_pattern:
            table = np.column_stack((table, np.ones(len(table), np.int64)))
        refuse_values(path, first_line, table[:, 2], np.arange(len(table)), "value", 0, LARGEST)
        yield first_line, table[:, [1, 0, 2]] if is_transposed else table


def _parse(path: PathLike, first_line: int, block: bytes, n_fields: int) -> np.ndarray:
    """The numbers of a block of lines, (n_lines, n_fields) int64."""
    fields = scan(block)
    if not (fields.bad_lines.any() or (fields.per_line != n_fields).any()):
        return fields.values.reshape(-1, n_fields)
    filled = block.rstrip(b" \t\r\n")
    texts = filled.split(b"\n") if filled else []  # with points, exponents or empty lines at the end: ten times slower
    expected = "'row column'" if n_fields == 2 else "'row column count' (numbers)"
    lines = [text.split() for text in texts]
    refuse_lines(path, first_line, block, np.array([len(line) != n_fields for line in lines]), expected)
    try:
        if _NOT_IN_NUMBERS.search(block):  # Python would accept 1_0
            raise ValueError
        values = np.array([float(field) for line in lines for field in line]).reshape(-1, n_fields)
    except ValueError:
        refuse_lines(path, first_line, block, np.array([not _are_numbers(text) for text in texts]), expected)
        raise
    whole = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) <= 2.0**53)
    refuse_lines(path, first_line, block, ~whole.all(axis=1), "whole numbers")
    return values.astype(np.int64)


def _are_numbers(text: bytes) -> bool:
    try:
        return not _NOT_IN_NUMBERS.search(text) and bool([float(field) for field in text.split()])
    except ValueError:
        return False
