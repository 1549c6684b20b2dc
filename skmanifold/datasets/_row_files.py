"""Rows in several files, which the workers of a cluster open by path."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._install import optional_module
from ..utils._disk import opened_regular
from ..utils._inputs.sparse_structure import check_structure, join_rows
from ..utils._zip_members import DEFAULT_BYTES, Arrays, check_members, read_array_header
from ._files import PathLike, listed, refuse_damaged

_ALL = slice(None)
_READ = 1 << 22  # bytes read at a time if some rows of an array are left out
_EXPANSION = 100  # maximum compression ratio of large files; counts have 2 to 20
_FEW_ROWS = 1 << 20  # allowed in any sparse file, ...
_ROWS_PER_ENTRY = 16  # ... or so many per entry, because a conversion to CSR takes memory for all rows
_PLACES = {  # by format: the names of the arrays with the places of the entries
    **dict.fromkeys(("csr", "csc", "bsr"), ("indices", "indptr")),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


@dataclass(frozen=True)
class RowFile:
    """Consecutive rows in one file."""

    path: str
    n_rows: int
    n_features: int
    n_bytes: int
    left_out: np.ndarray | None = field(default=None, compare=False)  # rows of the file, sorted, that are not read

    def read(self, chosen: slice | np.ndarray = _ALL) -> Any:
        """Rows as an array in memory or a CSR array: all, a slice of them, or those with some sorted indices.

        Raises
        ------
        OSError, ValueError
            If the file cannot be read, or has other rows than those found by `RowFiles`.
        """
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"{self.path} does not exist: all workers must have the files of X by these paths.")
        shape = self.n_rows + (0 if self.left_out is None else len(self.left_out)), self.n_features
        if self.left_out is not None:
            chosen = np.delete(np.arange(shape[0]), self.left_out)[chosen]
        with _opened(self.path) as rows:
            if rows.shape != shape:
                raise ValueError(
                    f"{self.path} has the shape {rows.shape}, but had {shape}: the file has changed, or is not the "
                    "same on all workers."
                )
            return rows[chosen]

    def without(self, rows: np.ndarray) -> RowFile:
        """The same file without these of its rows."""
        if self.left_out is not None:
            raise ValueError("Rows can be held out only once.")
        return replace(self, n_rows=self.n_rows - len(rows), left_out=rows)


class RowFiles:
    """Rows in several files, one after the other; the workers of a cluster open them by path.

    Fits of :class:`~skmanifold.StochasticLDA`, :class:`~skmanifold.ExponentialFamilyAdmixture` and
    :class:`~skmanifold.ExponentialFamilyMixture` accept it as X. In a block of :func:`~skmanifold.distributed`, each
    worker reads consecutive rows, so that no process reads all of them; without a cluster all rows are read. Here only
    shapes are read. An iterable of the rows of one file at a time, for the other methods or for :func:`save_corpus`.

    Parameters
    ----------
    paths : str, path-like, or sequence of these
        A folder, whose files are in the order of their names, or a list of files. All workers must have the files
        under the same absolute paths. A file can be

        - ``.npy``: an array of shape (n, n_features),
        - ``.npz``: a sparse matrix of this shape, as `scipy.sparse.save_npz` writes it,
        - ``.parquet``, ``.arrow`` or ``.feather``: a table of numbers with one column per feature.

    Attributes
    ----------
    shape : (int, int)
        Numbers of rows and columns.
    feature_names : list of str or None
        The names of the columns, if all files are tables.
    files : list of RowFile
        The files that have rows, in order.

    Raises
    ------
    ImportError
        If there are tables and pyarrow is not installed.
    ValueError
        If there are no files, a file has another format, is damaged or is not a regular file, or they differ in their
        columns.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from skmanifold import StochasticLDA
    >>> from skmanifold.datasets import RowFiles, make_lda_corpus
    >>> X = make_lda_corpus(100, 30, 3, random_state=0).data.toarray()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for i in range(4):
    ...         np.save(os.path.join(folder, f"part-{i}.npy"), X[25 * i : 25 * (i + 1)])
    ...     files = RowFiles(folder)
    ...     lda = StochasticLDA(3, max_iter=20, random_state=0).fit(files)
    >>> files
    <100 rows of 30 columns in 4 files>
    >>> bool((lda.components_ == StochasticLDA(3, max_iter=20, random_state=0).fit(X).components_).all())
    True
    """

    def __init__(self, paths: PathLike | Sequence[PathLike]) -> None:
        found = [_described(path) for path in _listed(paths)]
        self.files = [RowFile(path, *shape, os.path.getsize(path)) for path, shape, _ in found if shape[0]]
        widths = sorted({n_features for _, (_, n_features), _ in found})
        if len(widths) > 1:
            raise ValueError(f"All files must have the same number of columns; there are files of {widths}.")
        names = [names for _, _, names in found]
        for (path, _, _), other in zip(found, names, strict=True):
            if names[0] and other and other != names[0]:
                raise ValueError(f"All files must have the same columns in the same order; those of {path} differ.")
        self.feature_names: list[str] | None = names[0] if all(names) else None
        self.shape = sum(file.n_rows for file in self.files), widths[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (file.read() for file in self.files)

    def hold_out(self, rows: np.ndarray) -> tuple[RowFiles, Any]:
        """The files without some rows, and these rows in memory; one file is read at a time.

        Parameters
        ----------
        rows : ndarray of int
            Indices of the rows, sorted.

        Returns
        -------
        kept : RowFiles
            The other rows.
        held : ndarray, csr_array or data frame
            The rows; a data frame if the columns have names.
        """
        kept, held, first = copy(self), [], 0
        kept.files = []
        for file in self.files:
            chosen = rows[(rows >= first) & (rows < first + file.n_rows)] - first
            if len(chosen):
                held.append(file.read(chosen))
            if len(chosen) < file.n_rows:
                kept.files.append(file.without(chosen) if len(chosen) else file)
            first += file.n_rows
        kept.shape = self.shape[0] - len(rows), self.shape[1]
        joined = join_rows(held)
        if self.feature_names:
            import pandas as pd

            return kept, pd.DataFrame(joined, columns=self.feature_names)
        return kept, joined

    def __repr__(self) -> str:
        return f"<{self.shape[0]} rows of {self.shape[1]} columns in {len(self.files)} files>"


def _listed(paths: Any) -> list[str]:
    """Absolute paths of the files; a ValueError if there is none, or one has an unknown suffix."""
    found = list(map(Path, listed(paths)))
    if isinstance(paths, str | os.PathLike) and found[0].is_dir():
        found = sorted(path for path in found[0].iterdir() if path.suffix in _FORMATS)
    if not found:
        raise ValueError(f"{paths} has no files with rows ({', '.join(_FORMATS)}).")
    absolute = [os.path.abspath(path) for path in found]
    for path in absolute:
        if Path(path).suffix not in _FORMATS:
            raise ValueError(f"{path} must be a file of one of the types {', '.join(_FORMATS)}.")
    return absolute


def _described(path: str) -> tuple[str, tuple[int, int], list[str] | None]:
    """Path, shape, and the names of the columns if the file is a table."""
    with _opened(path) as rows:
        shape, names = rows.shape, rows.names
    if len(shape) != 2:
        raise ValueError(f"{path} has an array of {len(shape)} dimensions; it must have two.")
    if min(shape) < 0:
        raise ValueError(f"{path} is damaged: its shape is {tuple(shape)}.")
    n_bytes = os.path.getsize(path)
    if names and 8 * shape[0] * shape[1] > _most_bytes(n_bytes):
        raise ValueError(
            f"{path} has {shape[0]} rows of {shape[1]} columns in only {n_bytes} bytes: if that is correct, save it as "
            "an .npy file."
        )
    return path, (int(shape[0]), int(shape[1])), names


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """The rows of a file, with `shape` and `names` of columns, by index; damaged files raise a ValueError."""
    name, read = _FORMATS[Path(path).suffix]
    with opened_regular(path) as file, refuse_damaged(path, name):
        yield read(path, file)


class _StoredRows:
    """The rows of an array in an open file, of which the chosen ones are read.

    The file is not mapped into memory: access to a mapped file that has become shorter ends the process.
    """

    names = None

    def __init__(self, path: str, file: BufferedReader):
        self._path, self._file = path, file
        self.shape, self._by_columns, self._dtype = read_array_header(file, "it", os.fstat(file.fileno()).st_size)
        if self._dtype.kind not in "biuf":
            raise ValueError(f"{path} must have numbers; it has the type {self._dtype}.")
        self._start = file.tell()

    def __getitem__(self, chosen: slice | np.ndarray) -> np.ndarray:
        n_rows, n_columns = self.shape
        if self._by_columns:
            return self._read(0, (n_columns, n_rows)).T[chosen]
        if isinstance(chosen, slice):
            start, stop, _ = chosen.indices(n_rows)
            return self._read(start * n_columns, (stop - start, n_columns))
        rows = np.empty((len(chosen), n_columns), self._dtype)
        height = max(1, _READ // max(1, n_columns * self._dtype.itemsize))
        for start in range(0, n_rows, height):
            first, last = np.searchsorted(chosen, (start, start + height))
            if first < last:
                rows[first:last] = self[start : start + height][chosen[first:last] - start]
        return rows

    def _read(self, first: int, shape: tuple[int, int]) -> np.ndarray:
        """Items from the given position in the file."""
        items = np.empty(shape, self._dtype)
        self._file.seek(self._start + first * self._dtype.itemsize)
        if items.size and self._file.readinto(items.reshape(-1).view(np.uint8).data) < items.nbytes:
            raise ValueError(f"{self._path} has been truncated since it was opened.")
        return items


def _most_bytes(n_bytes: int) -> int:
    """Maximum size in memory of a file of `n_bytes`."""
    return max(DEFAULT_BYTES, _EXPANSION * n_bytes)


class _SparseRows:
    """The rows of a sparse matrix in an open file, which is read as a whole."""

    names = None

    def __init__(self, path: str, file: BufferedReader):
        n_bytes = os.fstat(file.fileno()).st_size
        archive = zipfile.ZipFile(file)
        check_members(archive, n_bytes)
        advice = "if you trust the file, save it without compression"
        self._path, self._arrays = path, Arrays(archive, _most_bytes(n_bytes), advice)
        shape = self._arrays["shape"]
        if shape.dtype.kind not in "iu" or shape.ndim != 1:
            raise ValueError(f"{path} has the shape {shape.tolist()}; it must be whole numbers.")
        self.shape = tuple(shape.tolist())

    def __getitem__(self, chosen: slice | np.ndarray) -> sp.csr_array:
        name = str(self._arrays["format"].astype(str))
        data, places = self._arrays["data"], tuple(self._arrays[part] for part in _PLACES[name])
        is_whole = all(index.dtype.kind in "iu" and np.can_cast(index.dtype, np.int64) for index in places)
        if data.dtype.kind not in "biuf" or not is_whole:  # scipy converts other indices without a check
            raise ValueError(f"{self._path} must have numbers, and whole numbers (int64 at most) as their places.")
        matrix = getattr(sp, f"{name}_array")((data, places) if name == "coo" else (data, *places), shape=self.shape)
        check_structure(matrix, self._path)  # before scipy converts it
        if name != "csr" and self.shape[0] > max(_FEW_ROWS, _ROWS_PER_ENTRY * data.size):
            raise ValueError(
                f"{self._path} has {self.shape[0]} rows for {data.size} entries: if that is correct, save it as CSR."
            )
        rows = sp.csr_array(matrix)
        return rows if chosen is _ALL else rows[chosen]  # a full slice would be a copy


class _TableRows:
    """The rows of a table of numbers in a file, which is read as a whole."""

    def __init__(self, path: str, file: BufferedReader):
        dataset = optional_module("pyarrow.dataset", "A table in a file", "parquet")
        self._path = path
        self._table = dataset.dataset(path, format="parquet" if path.endswith(".parquet") else "ipc")
        self.names = _numeric(path, self._table.schema)
        self.shape = self._table.count_rows(), len(self.names)

    def __getitem__(self, chosen: slice | np.ndarray) -> np.ndarray:
        """The columns of numbers; missing values become NaN."""
        table = self._table.to_table(use_threads=False)
        table.validate(full=True)  # of damaged files
        columns = []
        for column in map(table.column, self.names):
            with_missing = column.type == "bool" and column.null_count
            columns.append((column.cast("uint8") if with_missing else column).to_numpy())
        rows = np.column_stack(columns) if columns else np.empty((len(table), 0))
        if rows.shape != self.shape:
            raise ValueError(f"{self._path} is damaged: it has {len(rows)} rows, not {self.shape[0]}.")
        return rows[chosen]


def _numeric(path: str, schema: Any) -> list[str]:
    """Names of the columns, without the index of a data frame; a ValueError if one is not of numbers."""
    from pyarrow import types

    pandas = schema.pandas_metadata or {}
    index = pandas.get("index_columns", []) if isinstance(pandas, dict) else None
    if not isinstance(index, list):
        raise ValueError(f"{path} has no valid description of its index.")
    names = [name for name in schema.names if name not in index]
    for name in names:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(f"The column {name!r} of {path} must have numbers; it has {kind}.")
    return names


_FORMATS: dict[str, tuple[str, Any]] = {  # by suffix: name, and what reads rows
    ".npy": ("an array", _StoredRows),
    ".npz": ("a sparse matrix of scipy.sparse.save_npz", _SparseRows),
    ".parquet": ("a Parquet table", _TableRows),
    ".arrow": ("an Arrow table", _TableRows),
    ".feather": ("an Arrow table", _TableRows),
}
