"""Counts in binary formats: Parquet files with a line for each document and word, and AnnData files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from .._install import optional_module
from ..utils._disk import check_regular
from ..utils._inputs.sparse_structure import indices_fault, pointers_fault
from ._documents import (
    LONGEST_NAME,
    DocumentReader,
    Rows,
    Tables,
    checked_counts,
    dense_rows,
    row_ranges,
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
        of_names = [types.is_integer, types.is_string, types.is_large_string], "strings or integers"
        of_counts = [types.is_integer, types.is_floating], "numbers"
        for name, (are_right, wanted) in ((document, of_names), (word, of_names), (count, of_counts)):
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


_CHUNK = 1 << 18  # entries read at a time
_SURE = 1 << 24  # bytes that are allowed for any file
_COMPRESSION = 1032  # maximum ratio of deflate
_FILTERS = {1, 2, 3, 4, 5, 6, 32000}  # those of HDF5, and lzf of h5py; HDF5 loads all others as plug-ins
_SHOWN = 20  # layers in an error
_AXES = {"csr_matrix": ("row", "column"), "csc_matrix": ("column", "row")}


def read_anndata(path: PathLike, *, layer: str | None = None) -> DocumentReader:
    """Read the counts of an AnnData file (``.h5ad``) block by block; observations are documents, variables words.

    Parameters
    ----------
    path : str or path-like
        The file. Its matrix may be dense, or sparse by rows or by columns; columns are sorted in temporary files.
        It may be compressed by gzip or lzf, but not by filters that HDF5 loads as plug-ins.
    layer : str, default=None
        Name of the layer with counts; None is ``X``.

    Returns
    -------
    reader : DocumentReader
        The documents; pass it to :func:`save_corpus`. ``vocabulary`` has the names of the variables, and ``documents``
        those of the observations.

    Raises
    ------
    ValueError
        If the file is not an AnnData file, is damaged, does not have the layer, or refers to data in other files. If it
        exceeds a limit: a name of 2**20 characters, and all names of an axis together 2**24 characters or 16 times the
        size of the file, whichever is larger. While it is read: if the matrix is not valid, or a count is not a whole
        number.

    Notes
    -----
    Topic models need counts. ``X`` of a processed file often has normalised or logarithmic values, which `save_corpus`
    refuses; the counts are then in a layer or in another file.
    """
    stamps = stamps_of(path)
    with _opened(path) as file:
        documents, words = (_names(path, file, axis) for axis in ("obs", "var"))
        shape = len(documents), len(words)
        _matrix(path, file, layer, shape)

    def rows() -> Iterator[Rows]:
        with _opened(path) as file:
            kind, parts = _matrix(path, file, layer, shape)
            yield from dense_rows(parts[0]) if kind == "array" else _sparse_rows(path, kind, parts, shape)

    return DocumentReader(shape, words, np.array(documents, dtype=object), rows, str(path), stamps)


@contextmanager
def _opened(path: PathLike) -> Iterator[Any]:
    """The file; errors of h5py in the block become one sentence."""
    h5py = optional_module("h5py", "read_anndata", "h5ad")
    check_regular(path)
    with refuse_damaged(path, "an AnnData file"), h5py.File(path, "r") as file:
        if not {"obs", "var"} <= set(file):
            raise ValueError(f"{path} is not an AnnData file: it has no obs and var.")
        yield file


def _item(path: PathLike, group: Any, name: str) -> Any:
    """A group or data set of a path, unless a link, which could lead to any file, is on the way."""
    import h5py

    for part in name.split("/"):
        link = group.get(part, getlink=True) if isinstance(group, h5py.Group) else None
        if not isinstance(link, h5py.HardLink):
            kind = "no item" if link is None else "a soft or external link, which is not followed,"
            raise ValueError(f"{path} has {kind} {part!r} in {group.name!r}.")
        group = group[part]
    return group


def _dataset(path: PathLike, group: Any, name: str, kinds: str, n_dimensions: int = 1) -> Any:
    """A data set whose values are in the file, and need no more memory than their number of bytes allows."""
    import h5py

    dataset = _item(path, group, name)
    what = f"{path} has an item {name!r} in {group.name!r}"
    if not isinstance(dataset, h5py.Dataset):
        raise ValueError(f"{what} that is not a data set.")
    stored = dataset.id.get_create_plist()
    if stored.get_layout() == h5py.h5d.VIRTUAL or stored.get_external_count():  # whose shape may be in another file
        raise ValueError(f"{what} with values in other files, which are not read: copy them into this file.")
    for number, _, _, label in map(stored.get_filter, range(stored.get_nfilters())):
        if number not in _FILTERS:
            raise ValueError(f"{what} with the filter {number} ({label[:40]!r}), a plug-in: write it again with gzip.")
    kind, size = dataset.dtype.kind, dataset.dtype.itemsize
    if dataset.shape is None or len(dataset.shape) != n_dimensions or kind not in kinds or size > LONGEST_NAME:
        raise ValueError(f"{what} that cannot have the shape {dataset.shape} and the type {dataset.dtype}.")
    n_bytes = size * max(prod(dataset.shape), prod(dataset.chunks or ()))
    if n_bytes > max(_SURE, _COMPRESSION * dataset.id.get_storage_size()):
        raise ValueError(f"{what} of the shape {dataset.shape} but with only {dataset.id.get_storage_size()} bytes.")
    return dataset


def _attribute(item: Any, name: str) -> Any:
    """A text, a number or two numbers; None if the attribute is missing or something else."""
    if name not in item.attrs:
        return None
    stored = item.attrs.get_id(name)  # its announced size, before it is read
    if stored.shape not in ((), (2,)) or stored.dtype.itemsize > LONGEST_NAME:
        return None
    value = item.attrs[name]
    return value.decode() if isinstance(value, bytes) else value


def _names(path: PathLike, file: Any, axis: str) -> list[str]:
    """The index of the data frame of an axis."""
    frame = _item(path, file, axis)
    index = _attribute(frame, "_index")
    if not isinstance(index, str):
        raise ValueError(f"{path} was written by anndata before version 0.8: read it with anndata and write it again.")
    dataset = _dataset(path, frame, index, "OS")
    texts = dataset.asstr()
    names: list[str] = []
    n_bytes = os.path.getsize(path)
    step = max(256, min(4096, (1 << 28) // n_bytes))  # all could refer to one text of the length of the file
    room = max(_SURE, 16 * n_bytes) - 16 * len(dataset)
    while room >= 0 and len(names) < len(dataset):
        some = texts[len(names) : len(names) + step].tolist()
        if max(map(len, some)) > LONGEST_NAME:
            raise ValueError(f"{path} has a name of more than {LONGEST_NAME} characters in {axis}.")
        room -= sum(map(len, some))
        names += some
    if room < 0:
        raise ValueError(f"{path} has {len(dataset)} names in {axis}, which need much more memory than its bytes.")
    return names


def _matrix(path: PathLike, file: Any, layer: str | None, shape: tuple[int, int]) -> tuple[str, tuple[Any, ...]]:
    """The encoding of the matrix, and its data sets: indptr, indices and data, or only one if it is dense."""
    home, name = file, layer or "X"
    if layer is not None or "X" not in file:
        home = _item(path, file, "layers") if "layers" in file else {}
        names = sorted(home) if hasattr(home, "keys") else []
        if layer is None:
            raise ValueError(f"{path} has no X; it has the layers {names[:_SHOWN]}.")
        if layer not in names:
            raise ValueError(f"{path} has no layer {layer!r}; it has {names[:_SHOWN]}.")
    matrix = _item(path, home, name)
    kind = _attribute(matrix, "encoding-type") if "encoding-type" in matrix.attrs else "array"
    parts: tuple[Any, ...]
    if kind == "array":
        parts = (_dataset(path, home, name, "biuf", 2),)
        found = parts[0].shape
    elif kind in _AXES:
        kinds = {"indptr": "iu", "indices": "iu", "data": "biuf"}
        parts = tuple(_dataset(path, matrix, part, types) for part, types in kinds.items())
        given = np.asarray(_attribute(matrix, "shape"))
        found = tuple(given.tolist()) if given.shape == (2,) and given.dtype.kind in "iu" else str(given)[:60]
    else:
        raise ValueError(f"{path} has a matrix of the encoding-type {kind!r}, not one of array, {', '.join(_AXES)}.")
    if found != shape:
        raise ValueError(f"{path} has a matrix of the shape {found}, but {shape[0]} observations of {shape[1]}.")
    return kind, parts


def _sparse_rows(path: PathLike, kind: str, parts: tuple[Any, ...], shape: tuple[int, int]) -> Iterator[Rows]:
    (what, of), (n_major, n_minor) = _AXES[kind], shape if kind == "csr_matrix" else shape[::-1]
    indptr, indices, data = parts

    def refuse(fault: str | None) -> None:
        if fault:
            raise ValueError(f"{path} has an invalid {kind}: {fault}.")

    if (len(indptr), len(data)) != (n_major + 1, len(indices)):
        refuse(f"for {n_major} {what}s it has {len(indptr)} indptr, {len(indices)} indices and {len(data)} data")
    pointers = indptr[:].astype(np.int64)
    refuse(pointers_fault(pointers, what, n_major, len(indices)))
    if pointers[-1] != len(indices) or np.diff(pointers).max(initial=0) > n_minor:
        refuse(f"indptr ends at {pointers[-1]} of {len(indices)}, or a {what} has more entries than {of}s ({n_minor})")

    def entries(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        found = indices[start:stop]
        refuse(indices_fault(found, pointers, what, of, n_minor, start))
        return found.astype(np.int64), data[start:stop]

    def columns() -> Tables:
        for start in range(0, len(indices), _CHUNK):
            documents, values = entries(start, min(start + _CHUNK, len(indices)))
            words = np.searchsorted(pointers, np.arange(start, start + len(documents)), side="right")
            yield 0, np.column_stack((documents + 1, words, checked_counts(values, path)))

    if kind == "csc_matrix":
        tables = sorted_by_document(columns(), 1, n_minor + 1, len(indices))
        yield from rows_of_entries(path, tables, shape, "observation")
        return
    for start, stop in row_ranges(pointers):
        yield Rows(np.diff(pointers[start : stop + 1]), *entries(pointers[start], pointers[stop]), n_minor)
