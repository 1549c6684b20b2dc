"""Sparse matrices of every format, altered at random, and a slow reader that says what is in them, if anything."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
INT32 = 2**31


class BrokenError(Exception):
    """The arrays are no matrix."""


def make(rng: np.random.Generator, dense: np.ndarray):
    """The matrix in any format, as an array or matrix, whose arrays may be changed."""
    kind = FORMATS[rng.integers(len(FORMATS))]
    return getattr(sp, f"{kind}_{'array' if rng.random() < 0.5 else 'matrix'}")(dense, copy=True)


def read(X) -> np.ndarray:
    """What X holds, entry by entry; a BrokenError where one is nowhere in it."""
    n_rows, n_columns = X.shape
    dense = np.zeros((n_rows, n_columns))
    for row, column, value in entries(X):
        if not 0 <= row < n_rows or not 0 <= column < n_columns:
            raise BrokenError(f"({row}, {column}) is not in {X.shape}")
        dense[row, column] += float(value)
    return dense


def entries(X):
    """Row, column and value of each entry of a matrix, or of an object with the same arrays."""
    n_dimensions = {"bsr": 3, "dia": 2}.get(X.format, 1)
    if X.format not in ("lil", "dok") and X.data.ndim != n_dimensions:
        raise BrokenError("data")
    if X.format in ("csr", "csc", "bsr"):
        height, width = X.data.shape[1:] if X.format == "bsr" else (1, 1)
        if not (height and width):
            raise BrokenError("blocks")
        n_major = X.shape[1] if X.format == "csc" else X.shape[0] // height
        indptr, indices = _integers(X.indptr), _integers(X.indices)
        shape_fits = X.shape[0] % height == 0 and X.shape[1] % width == 0
        rises = all(a <= b for a, b in pairwise(indptr))
        if not (len(indptr) == n_major + 1 and indptr[0] == 0 and rises and indptr[-1] <= len(indices) and shape_fits):
            raise BrokenError("indptr")
        if len(indices) != len(X.data):
            raise BrokenError("data")
        for major in range(n_major):
            for j in range(indptr[major], indptr[major + 1]):
                if X.format == "csc":
                    yield indices[j], major, X.data[j]
                elif X.format == "csr":
                    yield major, indices[j], X.data[j]
                elif not 0 <= indices[j] < X.shape[1] // width:
                    raise BrokenError("block")
                else:
                    for place, value in np.ndenumerate(X.data[j]):
                        yield major * height + place[0], indices[j] * width + place[1], value
    elif X.format == "coo":
        rows, columns = (_integers(index) for index in X.coords)
        if not len(rows) == len(columns) == len(X.data):
            raise BrokenError("lengths")
        yield from zip(rows, columns, X.data, strict=True)
    elif X.format == "dia":
        offsets = _integers(X.offsets)
        if len(set(offsets)) < len(offsets) or len(offsets) != len(X.data):
            raise BrokenError("offsets")
        for offset, diagonal in zip(offsets, X.data, strict=True):
            if abs(offset) > max(*X.shape, INT32 - 1):
                raise BrokenError("far away")
            for column, value in enumerate(diagonal[: X.shape[1]]):
                if 0 <= column - offset < X.shape[0]:
                    yield column - offset, column, value
    elif X.format == "lil":
        if not len(X.rows) == len(X.data) == X.shape[0]:
            raise BrokenError("lists")
        for row, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
            if not isinstance(columns, list) or not isinstance(values, list) or len(columns) != len(values):
                raise BrokenError("list")
            yield from ((row, _integer(column), value) for column, value in zip(columns, values, strict=True))
    else:
        for key, value in X.items():
            if not isinstance(key, tuple) or len(key) != 2:
                raise BrokenError("key")
            yield _integer(key[0]), _integer(key[1]), value


def _integers(index) -> list[int]:
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise BrokenError("index")
    return [int(i) for i in index]


def _integer(number) -> int:
    if not isinstance(number, int | np.integer):
        raise BrokenError("index")
    return int(number)


def alter_structure(rng: np.random.Generator, X) -> None:
    """Change something that says where entries are: often to what is no matrix, sometimes to another one."""
    for _ in range(rng.integers(1, 3)):
        part = _PARTS[X.format][rng.integers(len(_PARTS[X.format]))]
        if part == "shape":
            shape = [max(0, n + int(rng.choice([-3, -1, 1, 2]))) for n in X.shape]
            X._shape = (shape[0], X.shape[1]) if rng.random() < 0.5 else (X.shape[0], shape[1])
        elif X.format == "lil":
            row = rng.integers(len(X.rows))
            columns, values = X.rows[row], X.data[row]
            choice = rng.integers(5)
            if choice == 0:
                columns.append(int(_index(rng)))
            elif choice == 1 and columns:
                columns[0] = _index(rng)
            elif choice == 2 and columns:
                columns[0] = 0.5
            elif choice == 3:
                values.append(1.0)
            else:
                X.rows[row] = None
        elif X.format == "dok":
            n = int(_index(rng))
            key = [(n, 0), (0, n), (0.5, 0), (0,), (1, 1)][rng.integers(5)]
            X._dict[key] = 1.0
        elif part == "coords":
            axis, coords = rng.integers(2), list(X.coords)
            coords[axis] = _alter_array(rng, coords[axis])
            X.coords = tuple(coords)
        else:
            setattr(X, part, _alter_array(rng, getattr(X, part)))


_PARTS = {
    **dict.fromkeys(("csr", "csc", "bsr"), ("indices", "indices", "indptr", "indptr", "data", "shape")),
    "coo": ("coords", "coords", "data", "shape"),
    "dia": ("offsets", "offsets", "data"),
    "lil": ("rows", "rows", "shape"),
    "dok": ("keys", "keys", "shape"),
}


def _alter_array(rng, array):
    choice = rng.integers(10)
    if array.ndim != 1:
        return array
    if array.dtype.kind == "f":  # data: only its length
        return array[:-1] if choice < 5 else np.concatenate([array, array[:1]])
    if choice == 0:
        return array[:-1]
    if choice == 1:
        return np.concatenate([array, array[-1:]])
    if choice == 2:
        return array.astype(np.float64)
    if choice == 3 and len(array):
        return array.reshape(1, -1)
    if choice == 4:
        return rng.permutation(array)
    array = array.astype(rng.choice([np.int64, np.int64, np.uint32, np.int32]))
    if len(array):
        place = rng.integers(len(array))
        if choice == 5:
            array.view(np.uint8)[rng.integers(array.nbytes)] ^= np.uint8(1 << rng.integers(8))
        else:
            with np.errstate(over="ignore"):
                array[place] = np.array(_index(rng)).astype(array.dtype)
    return array


def _index(rng) -> int:
    """A small number, one just outside, or one that wraps around to a small one in 32 bits."""
    small = int(rng.integers(-2, 14))
    return int(rng.choice([small, small, small + 2**32, small - 2**32, INT32 - 1, -INT32, 2**62, 50]))


def alter_form(rng: np.random.Generator, X):
    """The same entries in another way, as arrays of any type: a legitimate matrix, or one refused for its type."""
    choice = rng.integers(11)
    if choice == 0:
        return X.astype(rng.choice([np.float32, np.int64, np.int32, np.uint64, np.int8, np.longdouble]))
    if choice == 1 and X.format in ("csr", "csc", "coo", "bsr"):
        X.data = X.data.astype(rng.choice([np.dtype(">f8"), np.dtype(np.float16), np.dtype(">i4")]))
    elif choice == 2 and X.format in ("csr", "csc", "coo", "bsr"):
        X.data = X.data.astype(rng.choice([np.dtype(object), np.dtype(np.complex128), np.dtype("U3"), np.dtype(bool)]))
    elif choice == 3:
        for name in ("data", "indices", "indptr", "row", "col", "offsets"):
            if isinstance(getattr(X, name, None), np.ndarray):
                getattr(X, name).flags.writeable = False
    elif choice == 4 and X.format in ("csr", "csc", "bsr"):
        for name in ("indices", "indptr"):
            kind = rng.choice([np.dtype(np.int64), np.dtype(">i4"), np.dtype(np.uint32), np.dtype(np.int16)])
            setattr(X, name, getattr(X, name).astype(kind))
    elif choice == 5 and X.format in ("csr", "csc"):  # sorted, says a flag that was right
        assert X.has_canonical_format
        X.indices, X.data = X.indices.copy(), X.data.copy()
        for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            X.indices[start:stop] = X.indices[start:stop][::-1].copy()
            X.data[start:stop] = X.data[start:stop][::-1].copy()
    elif choice == 6 and X.format in ("csr", "csc") and len(X.indices) > 1:  # no duplicates, says a flag
        assert X.has_canonical_format
        start = int(np.argmax(np.diff(X.indptr) > 1))
        X.indices[X.indptr[start] + 1] = X.indices[X.indptr[start]]
    elif choice == 7 and X.format == "coo":
        X = type(X)((np.tile(X.data, 2), tuple(np.tile(index, 2) for index in X.coords)), shape=X.shape)
        X.has_canonical_format = True
    elif choice == 8 and X.format in ("csr", "csc"):  # room for more entries
        X.data = np.concatenate([X.data, [7.0, np.nan][rng.integers(2)] * np.ones(3)])
        X.indices = np.concatenate([X.indices, np.full(3, 10**6, X.indices.dtype)])
    elif choice == 9 and X.format in ("csr", "csc", "coo"):
        X.data[: len(X.data) // 2] = 0.0
    elif choice == 10 and X.format == "csr":
        X.data, X.indices = (np.repeat(array, 2)[::2] for array in (X.data, X.indices))  # not contiguous
    return X


def alter_values(rng: np.random.Generator, X):
    """One entry is no count, or a huge one."""
    value = rng.choice([np.nan, np.inf, -1.0, 0.5, 1e-310, 1e300, 2.0**31 - 1, 2.0**31, 2.0**40, 1e5])
    if X.format == "lil":
        next(values for values in X.data if values)[0] = value
    elif X.format == "dok":
        X[next(iter(X.keys()))] = value
    else:
        X.data.flat[rng.integers(X.data.size)] = value
    return X
