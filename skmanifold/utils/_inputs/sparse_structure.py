"""Validation of the structure of sparse matrices, which neither scipy nor kernels check."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

_INT32_MAX = np.iinfo(np.int32).max
_UNSIGNED = {np.dtype(f"{order}i{n}"): np.dtype(f"{order}u{n}") for order in "<>" for n in (1, 2, 4, 8)}


def check_structure(X: Any, name: str = "X") -> None:
    """Raise a ValueError with the reason if X is a sparse matrix or array of scipy with an invalid structure.

    It makes one pass over the indices without converting their type. Dense data are accepted, and so are unsorted and
    duplicate entries, which all formats except DIA allow.
    """
    if not sp.issparse(X):
        return
    shape = X.shape
    if len(shape) != 2:
        raise ValueError(f"{name} must have 2 dimensions, rows and columns; got a {type(X).__name__} of {len(shape)}.")
    if min(shape) < 0:
        raise _broken(X, name, f"its shape is {shape}")
    if shape[0] > _INT32_MAX:
        raise ValueError(f"{name} has {shape[0]} rows; at most {_INT32_MAX} (int32) are supported.")
    _CHECKS[X.format](X, name, *shape)
    if X.dtype.kind not in "biufc":
        raise ValueError(f"{name} is a sparse matrix of the type {X.dtype}: its entries must be numbers.")


def _check_compressed(X, name: str, n_rows: int, n_columns: int) -> None:
    """Pointers and indices of CSR, CSC and BSR."""
    data = _array(X, name, "data", 3 if X.format == "bsr" else 1)
    indices, indptr = _index(X, name, "indices"), _index(X, name, "indptr")
    axes = [("row", n_rows), ("column", n_columns)]
    if X.format == "bsr":
        height, width = data.shape[1:]
        if not (height and width) or n_rows % height or n_columns % width:
            raise _broken(X, name, f"blocks of {height} x {width} do not fill {n_rows} rows and {n_columns} columns")
        axes = [("block row", n_rows // height), ("block column", n_columns // width)]
    (what, n_major), (of, n_minor) = reversed(axes) if X.format == "csc" else axes
    if len(indices) != len(data):
        raise _broken(X, name, f"it has {len(indices)} indices but {len(data)} entries of data")
    fault = pointers_fault(indptr, what, n_major, len(indices))
    fault = fault or indices_fault(indices[: int(indptr[-1])], indptr, what, of, n_minor)
    if fault:
        raise _broken(X, name, fault)


def pointers_fault(indptr: np.ndarray, what: str, n_major: int, n_entries: int) -> str | None:
    """Describe an error in the pointers of CSR, CSC or BSR, for a message; None if they are valid."""
    if len(indptr) != n_major + 1:
        return f"indptr has {len(indptr)} entries, not {n_major + 1}: one more than there are {what}s"
    if indptr[0] != 0:
        return f"indptr starts with {indptr[0]}, not 0"
    falls = indptr[1:] < indptr[:-1]
    if np.count_nonzero(falls):
        place = int(falls.argmax())
        return f"indptr decreases from {indptr[place]} to {indptr[place + 1]} at {what} {place}"
    return f"indptr ends at {indptr[-1]}, beyond its {n_entries} indices" if indptr[-1] > n_entries else None


def indices_fault(
    indices: np.ndarray, indptr: np.ndarray, what: str, of: str, n_minor: int, first: int = 0
) -> str | None:
    """Describe an error in the indices from entry `first` on, for a message; None if they are valid."""
    place = _place_outside(indices, n_minor)
    if place < 0:
        return None
    inside = int(np.searchsorted(indptr, first + place, side="right")) - 1
    return f"{of} index {indices[place]} in {what} {inside}, but there are {n_minor} {of}s"


def _check_coordinates(X, name: str, n_rows: int, n_columns: int) -> None:
    data = _array(X, name, "data", 1)
    coords = X.coords if isinstance(getattr(X, "coords", None), tuple) else ()
    if len(coords) != 2:
        raise _broken(X, name, "it does not have two arrays of coordinates")
    for (what, n), index in zip((("row", n_rows), ("column", n_columns)), coords, strict=True):
        _check_index(X, name, f"the array of its {what}s", index)
        if len(index) != len(data):
            raise _broken(X, name, f"it has {len(index)} {what}s but {len(data)} entries of data")
        place = _place_outside(index, n)
        if place >= 0:
            raise _broken(X, name, f"{what} index {index[place]} of entry {place}, but there are {n} {what}s")


def _check_diagonals(X, name: str, n_rows: int, n_columns: int) -> None:
    data, offsets = _array(X, name, "data", 2), _index(X, name, "offsets")
    if len(offsets) != len(data):
        raise _broken(X, name, f"it has {len(offsets)} offsets but {len(data)} diagonals")
    if len(np.unique(offsets)) != len(offsets):
        raise _broken(X, name, "an offset occurs twice")
    most = max(n_rows, n_columns, _INT32_MAX)
    for offset in offsets:
        if not -most <= int(offset) <= most:
            raise _broken(X, name, f"the offset {offset}, but {name} has {n_rows} rows and {n_columns} columns")


def _check_lists(X, name: str, n_rows: int, n_columns: int) -> None:
    for part in (getattr(X, "rows", None), getattr(X, "data", None)):
        if (
            not isinstance(part, np.ndarray)
            or part.shape != (n_rows,)
            or not all(isinstance(row, list) for row in part.tolist())
        ):
            raise _broken(X, name, f"it does not have {n_rows} lists of columns and of data, one of each per row")
    for row, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if len(columns) != len(values):
            raise _broken(X, name, f"row {row} has {len(columns)} columns but {len(values)} entries of data")
    _check_numbers(X, name, "column", list(chain.from_iterable(X.rows)), n_columns)


def _check_dictionary(X, name: str, n_rows: int, n_columns: int) -> None:
    keys = list(X.keys())
    if not all(isinstance(key, tuple) and len(key) == 2 for key in keys):
        raise _broken(X, name, "its keys are not pairs of a row and a column")
    for what, numbers, n in zip(("row", "column"), zip(*keys, strict=True), (n_rows, n_columns), strict=False):
        _check_numbers(X, name, what, list(numbers), n)


def _check_numbers(X, name: str, what: str, numbers: list, n: int) -> None:
    """Check Python numbers that are indices."""
    index = np.array(numbers) if numbers else np.empty(0, np.int64)
    _check_index(X, name, f"the list of its {what}s", index)
    place = _place_outside(index, n)
    if place >= 0:
        raise _broken(X, name, f"{what} index {index[place]}, but there are {n} {what}s")


_CHECKS = {
    **dict.fromkeys(("csr", "csc", "bsr"), _check_compressed),
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
    "dok": _check_dictionary,
}


def _array(X, name: str, attribute: str, ndim: int) -> np.ndarray:
    array = getattr(X, attribute, None)
    if not isinstance(array, np.ndarray) or array.ndim != ndim:
        raise _broken(X, name, f"{attribute} is not an array of {ndim} dimension{'s' * (ndim > 1)}")
    return array


def _index(X, name: str, attribute: str) -> np.ndarray:
    return _check_index(X, name, attribute, getattr(X, attribute, None))


def _check_index(X, name: str, what: str, array: Any) -> np.ndarray:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        raise _broken(X, name, f"{what} is not an array of whole numbers in one dimension")
    return array


def _place_outside(indices: np.ndarray, n: int) -> int:
    """A position whose index is not from 0 to n - 1, or -1; negative indices are compared as large unsigned ones."""
    if not len(indices):
        return -1
    unsigned = indices.view(_UNSIGNED.get(indices.dtype, indices.dtype))
    place = int(unsigned.argmax())
    return -1 if unsigned[place] < n else place


def _broken(X, name: str, what: str) -> ValueError:
    return ValueError(f"{name} is not a valid {X.format.upper()} matrix: {what}.")


def join_rows(parts: Sequence[Any]) -> Any:
    """The rows of arrays one after the other; a CSR matrix if any of them is sparse."""
    return sp.vstack(parts, format="csr") if any(map(sp.issparse, parts)) else np.vstack(parts)
