"""Counts in AnnData files, which tools for single cells write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._install import install_command
from ._document_reader import DocumentReader, stamps_of
from ._entries import Rows, Tables, checked_counts, dense_rows, row_ranges, rows_of_entries, sorted_by_document
from ._text_files import PathLike

_CHUNK = 1 << 18  # entries read at a time


def read_anndata(path: PathLike, *, layer: str | None = None) -> DocumentReader:
    """Read the counts of an AnnData file (``.h5ad``) block by block; observations are documents, variables words.

    Parameters
    ----------
    path : str or path-like
        The file. Its matrix may be dense, or sparse by rows or by columns; columns are sorted in temporary files.
    layer : str, default=None
        Name of the layer with counts; None is ``X``.

    Returns
    -------
    reader : DocumentReader
        The documents; pass it to :func:`save_corpus`. ``vocabulary`` has the names of the variables, and ``documents``
        those of the observations.

    Raises
    ------
    ImportError
        If h5py is not installed.
    ValueError
        If the file is not an AnnData file, or does not have the layer.

    Notes
    -----
    Topic models need counts. ``X`` of a processed file often has normalised or logarithmic values, which `save_corpus`
    refuses; the counts are then in a layer or in another file.
    """
    stamps = stamps_of(path)
    with _opened(path, layer) as (file, matrix):
        documents, words = (_names(path, file, axis) for axis in ("obs", "var"))
        shape = len(documents), len(words)
        found = tuple(matrix.shape if hasattr(matrix, "shape") else matrix.attrs["shape"])
        if found != shape:
            raise ValueError(f"{path} has a matrix of the shape {found}, but {shape[0]} observations of {shape[1]}.")

    def rows() -> Iterator[Rows]:
        with _opened(path, layer) as (_, matrix):
            kind = matrix.attrs.get("encoding-type", "array")
            if kind == "csr_matrix":
                yield from _sparse_rows(matrix, shape[1])
            elif kind == "csc_matrix":
                tables = sorted_by_document(_columns(path, matrix), 1, shape[0] + 1, len(matrix["data"]))
                yield from rows_of_entries(path, tables, *shape, "observation")
            else:
                yield from dense_rows(matrix)

    return DocumentReader(shape, words, np.array(documents), rows, str(path), stamps)


@contextmanager
def _opened(path: PathLike, layer: str | None) -> Iterator[tuple[Any, Any]]:
    """The file, and its matrix: a group if it is sparse, else a dataset."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"read_anndata needs h5py: {install_command('h5ad')}") from error
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} is not an AnnData file ({error}).") from error
    with file:
        if not {"obs", "var"} <= set(file):
            raise ValueError(f"{path} is not an AnnData file: it has no obs and var.")
        if layer is None and "X" not in file:
            raise ValueError(f"{path} has no X; it has the layers {sorted(file.get('layers', ()))}.")
        if layer is not None and layer not in file.get("layers", ()):
            raise ValueError(f"{path} has no layer {layer!r}; it has {sorted(file.get('layers', ()))}.")
        yield file, file["X"] if layer is None else file["layers"][layer]


def _names(path: PathLike, file: Any, axis: str) -> list[str]:
    """The index of the data frame of an axis."""
    frame = file[axis]
    if "_index" not in frame.attrs:
        raise ValueError(f"{path} was written by anndata before version 0.8: read it with anndata and write it again.")
    return frame[frame.attrs["_index"]].asstr()[:].tolist()


def _sparse_rows(matrix: Any, n_columns: int) -> Iterator[Rows]:
    indptr = matrix["indptr"][:].astype(np.int64)
    for start, stop in row_ranges(indptr):
        pairs = slice(indptr[start], indptr[stop])
        yield Rows(np.diff(indptr[start : stop + 1]), matrix["indices"][pairs], matrix["data"][pairs], n_columns)


def _columns(path: PathLike, matrix: Any) -> Tables:
    """Blocks of entries: document, word and count."""
    indptr = matrix["indptr"][:].astype(np.int64)
    for start in range(0, int(indptr[-1]), _CHUNK):
        pairs = slice(start, min(start + _CHUNK, int(indptr[-1])))
        columns = np.searchsorted(indptr, np.arange(pairs.start, pairs.stop), side="right")
        counts = checked_counts(matrix["data"][pairs], path)
        yield 0, np.column_stack((matrix["indices"][pairs] + np.int64(1), columns, counts))
