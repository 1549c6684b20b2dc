"""Rows in several files, which the workers of a cluster open by path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._install import install_command
from ..utils._inputs.sparse_structure import check_structure, join_rows
from ._text_files import PathLike


@dataclass(frozen=True)
class RowFile:
    """Consecutive rows in one file."""

    path: str
    n_rows: int
    n_features: int
    n_bytes: int
    left_out: np.ndarray | None = field(default=None, compare=False)  # rows of the file, sorted, that are not read

    def read(self) -> Any:
        """The rows: an array, mapped from the file if possible, or a CSR array.

        Raises
        ------
        OSError, ValueError
            If the file cannot be read, or has other rows than those found by `RowFiles`.
        """
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"{self.path} does not exist: all workers must have the files of X by these paths.")
        rows = _FORMATS[Path(self.path).suffix][1](self.path)
        n_rows = self.n_rows + (0 if self.left_out is None else len(self.left_out))
        if rows.shape != (n_rows, self.n_features):
            raise ValueError(
                f"{self.path} has the shape {rows.shape}, but had {(n_rows, self.n_features)}: the file has "
                "changed, or is not the same on all workers."
            )
        return rows if self.left_out is None else rows[np.setdiff1d(np.arange(n_rows), self.left_out)]

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
        If there are no files, a file has another format, or they differ in their columns.

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
                held.append(file.read()[chosen])
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
    if isinstance(paths, str | os.PathLike):
        folder = Path(paths)
        found: Iterable[Path] = [folder]
        if folder.is_dir():
            found = sorted(path for path in folder.iterdir() if path.suffix in _FORMATS)
    else:
        found = list(map(Path, paths))
    listed = [os.path.abspath(path) for path in found]
    if not listed:
        raise ValueError(f"{paths} has no files with rows ({', '.join(_FORMATS)}).")
    for path in listed:
        if Path(path).suffix not in _FORMATS:
            raise ValueError(f"{path} must be a file of one of the types {', '.join(_FORMATS)}.")
    return listed


def _described(path: str) -> tuple[str, tuple[int, int], list[str] | None]:
    """Path, shape, and the names of the columns if the file is a table."""
    shape, names = _FORMATS[Path(path).suffix][0](path)
    if len(shape) != 2:
        raise ValueError(f"{path} has an array of {len(shape)} dimensions; it must have two.")
    return path, (int(shape[0]), int(shape[1])), names


def _array(path: str) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as an array: {error}") from error


def _shape_of_sparse(path: str) -> tuple[tuple[int, ...], None]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return tuple(arrays["shape"].tolist()), None
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a sparse matrix that scipy.sparse.save_npz wrote: {error}") from error


def _sparse(path: str) -> sp.csr_array:
    matrix = sp.load_npz(path)
    check_structure(matrix)  # before scipy converts it
    return sp.csr_array(matrix)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(f"Tables in files need pyarrow: {install_command('parquet')}") from error
    return pyarrow


def _shape_of_parquet(path: str) -> tuple[tuple[int, int], list[str]]:
    _pyarrow()
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        names = _numeric(path, file.schema_arrow)
        return (file.metadata.num_rows, len(names)), names


def _shape_of_arrow(path: str) -> tuple[tuple[int, int], list[str]]:
    pyarrow = _pyarrow()
    with pyarrow.memory_map(path) as source, pyarrow.ipc.open_file(source) as file:
        names = _numeric(path, file.schema)
        return (sum(file.get_batch(i).num_rows for i in range(file.num_record_batches)), len(names)), names


def _numeric(path: str, schema: Any) -> list[str]:
    """Names of the columns, without the index of a data frame; a ValueError if one is not of numbers."""
    from pyarrow import types

    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    for name in names:
        kind = schema.field(name).type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ValueError(f"The column {name!r} of {path} must have numbers; it has {kind}.")
    return names


def _parquet(path: str) -> np.ndarray:
    _pyarrow()
    from pyarrow import parquet

    return _of_table(path, parquet.read_table(path, use_threads=False))


def _arrow(path: str) -> np.ndarray:
    pyarrow = _pyarrow()
    with pyarrow.memory_map(path) as source, pyarrow.ipc.open_file(source) as file:
        return _of_table(path, file.read_all())


def _of_table(path: str, table: Any) -> np.ndarray:
    """The columns of numbers; missing values become NaN."""
    columns = [table.column(name).to_numpy() for name in _numeric(path, table.schema)]
    return np.column_stack(columns) if columns else np.empty((len(table), 0))


_ARROW = _shape_of_arrow, _arrow
_FORMATS: dict[str, tuple[Any, Any]] = {  # by suffix: what finds the shape and names, and what reads the rows
    ".npy": (lambda path: (_array(path).shape, None), _array),
    ".npz": (_shape_of_sparse, _sparse),
    ".parquet": (_shape_of_parquet, _parquet),
    ".arrow": _ARROW,
    ".feather": _ARROW,
}
