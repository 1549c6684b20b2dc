"""Counts in Parquet files with a line for each document and word, or for each token."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._install import optional_module
from ..utils._disk import check_regular
from ._documents import (
    LONGEST_NAME,
    DocumentReader,
    Rows,
    Tables,
    checked_counts,
    rows_of_entries,
    sorted_by_document,
    stamps_of,
)
from ._files import PathLike, listed, refuse_damaged

_WHAT = "Parquet with documents and words"
_BATCH = 1 << 20  # lines read at a time; each time all documents and words are looked up


def read_parquet(
    path: PathLike | Sequence[PathLike],
    *,
    document: str = "document",
    word: str = "word",
    count: str | None = "count",
    sort: bool = False,
) -> DocumentReader:
    """Read counts in Parquet files with one line per document and word, block by block.

    Documents are in the order of their first lines, and words in increasing order. The lines are read once here for
    the documents and words, which must fit into memory, and again by each iteration.

    Parameters
    ----------
    path : str, path-like, or sequence of these
        A file, a folder of files, or a list of files.
    document : str, default="document"
        Name of the column with documents: strings or integers.
    word : str, default="word"
        Name of the column with words: strings or integers.
    count : str or None, default="count"
        Name of the column with counts. With None each line is one token. The counts of repeated lines are added.
    sort : bool, default=False
        Whether to sort the lines by document first, in temporary files. Without it, lines of a document that are not
        consecutive raise an error.

    Returns
    -------
    reader : DocumentReader
        The documents; pass it to :func:`save_corpus`. ``vocabulary`` has the words as strings, and ``documents`` the
        values of the column of documents.

    Raises
    ------
    ValueError
        If a file is damaged, or a column is missing, occurs twice, has missing values, a text of more than 2**20
        characters, or another type. While it is read: if the lines of a document are not consecutive, or a count is not
        a whole number.

    Examples
    --------
    >>> import os, tempfile
    >>> import pandas as pd
    >>> from skmanifold.datasets import read_parquet, save_corpus
    >>> lines = {"document": ["a", "a", "b"], "word": ["cat", "dog", "cat"], "count": [2, 1, 4]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "counts.parquet")
    ...     pd.DataFrame(lines).to_parquet(path)
    ...     corpus = save_corpus(read_parquet(path), os.path.join(folder, "corpus"))
    ...     print(corpus.vocabulary, corpus.rows(0, 2).toarray())
    ['cat', 'dog'] [[2 1]
     [4 0]]
    """
    stamps = stamps_of(path)
    with refuse_damaged(path, _WHAT):
        source = _Lines(path, document, word, count)
        documents, words, n_lines = source.distinct()
        names, vocabulary = documents.to_numpy(zero_copy_only=False), [str(value) for value in words.to_pylist()]
    shape = len(documents), len(words)
    advice = ": pass sort=True"

    def rows() -> Iterator[Rows]:
        with refuse_damaged(path, _WHAT):
            tables = source.tables(documents, words)
            if sort:
                tables = sorted_by_document(tables, 1, shape[0] + 1, n_lines)
            yield from rows_of_entries(str(path), tables, shape, "document", advice, may_repeat=True)

    return DocumentReader(shape, vocabulary, names, rows, str(path), stamps)


class _Lines:
    """The lines of Parquet files."""

    def __init__(self, path: Any, document: str, word: str, count: str | None):
        dataset = optional_module("pyarrow.dataset", "read_parquet", "parquet")
        from pyarrow import types

        paths = listed(path)
        is_folder = paths == [path] and os.path.isdir(paths[0])
        for one in [] if is_folder else paths:
            check_regular(one)
        self._path = path
        # each text once, as in the file: a small file can have many lines with the same long text
        form = dataset.ParquetFileFormat(dictionary_columns=[document, word])
        self._dataset = dataset.dataset(paths[0] if is_folder else [os.fspath(one) for one in paths], format=form)
        self._document, self._word, self._count = document, word, count
        self._columns = [name for name in (document, word, count) if name is not None]
        schema = self._dataset.schema
        if len(set(self._columns)) < len(self._columns):
            raise ValueError(f"document, word and count must be different columns of {path}; got {self._columns}.")
        missing = [name for name in self._columns if name not in schema.names]
        if missing:
            raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(map(repr, schema.names))}.")
        for name, are_right, wanted in (
            (document, [types.is_integer, types.is_string, types.is_large_string], "strings or integers"),
            (word, [types.is_integer, types.is_string, types.is_large_string], "strings or integers"),
            (count, [types.is_integer, types.is_floating], "numbers"),
        ):
            kind: Any = None if name is None else schema.field(name).type
            kind = kind.value_type if name != count and types.is_dictionary(kind) else kind
            if name is not None and not any(is_right(kind) for is_right in are_right):
                raise ValueError(f"The column {name!r} of {path} must have {wanted}; it has {kind}.")

    def _batches(self, columns: list[str]) -> Iterator[tuple[int, list[Any], Any]]:
        """Number of the first line, from 1, its documents and words with their distinct values, and all columns."""
        line = 1
        for batch in self._dataset.to_batches(columns=columns, batch_size=_BATCH, use_threads=False):
            for name in columns:
                if batch.column(name).null_count:
                    raise ValueError(f"The column {name!r} of {self._path} has missing values.")
            columns_of_names = map(batch.column, (self._document, self._word))
            encoded = [col if hasattr(col, "dictionary") else col.dictionary_encode() for col in columns_of_names]
            yield line, encoded, batch
            line += len(batch)

    def distinct(self) -> tuple[Any, Any, int]:
        """The documents in order of their first lines, the words in increasing order, and the number of lines."""
        import pyarrow as pa
        from pyarrow import compute, types

        found: list[Any] = [None, None]
        n_lines = 0
        for line, encoded, batch in self._batches([self._document, self._word]):
            n_lines = line + len(batch) - 1
            for i, (name, column) in enumerate(zip((self._document, self._word), encoded, strict=True)):
                new = column.dictionary.take(column.indices.unique())  # in the order of first lines
                longest = 0 if types.is_integer(new.type) else compute.max(compute.utf8_length(new)).as_py() or 0
                if longest > LONGEST_NAME:
                    raise ValueError(f"The column {name!r} of {self._path} has a text of {longest} characters.")
                found[i] = new if found[i] is None else compute.unique(pa.concat_arrays([found[i], new]))
        if not n_lines:
            raise ValueError(f"{self._path} has no lines.")
        documents, words = found
        return documents, words.take(compute.sort_indices(words)), n_lines

    def tables(self, documents: Any, words: Any) -> Tables:
        """Blocks of entries: document, word and count."""
        from pyarrow import compute

        for line, encoded, batch in self._batches(self._columns):
            table = np.ones((len(batch), 3), np.int64)
            for i, (column, values) in enumerate(zip(encoded, (documents, words), strict=True)):
                places = compute.index_in(column.dictionary, value_set=values).take(column.indices)
                if places.null_count:
                    raise ValueError(f"{self._path} has changed since it was opened.")
                table[:, i] = 1 + places.to_numpy(zero_copy_only=False)
            if self._count is not None:
                table[:, 2] = checked_counts(batch.column(self._count).to_numpy(zero_copy_only=False), self._path, line)
            yield line, table
