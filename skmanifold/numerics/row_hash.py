"""A keyed hash of rows. The hashes of ranges sum to that of all rows, modulo 2**64, for every division."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..random._keys import _FOLD_STEP, mix64
from ..utils._threads import split_range

_ONE = np.uint64(1)
_CELLS = 1 << 14  # hashed at a time, so that they fit in the cache
_mix = getattr(mix64, "py_func", mix64)  # numpy does the same for arrays


def hash_counts(indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray, key: np.uint64, first_row: int) -> int:
    """Hash of rows in CSR order, with sorted indices and without zeros: of each entry's row, column and count.

    Counts are int32, or float64 if there are fractions.
    """
    wanted = indptr[0] + np.arange(0, indptr[-1] - indptr[0], _CELLS)
    cuts = np.union1d(np.searchsorted(indptr, wanted, "right") - 1, len(indptr) - 1)
    total = 0
    for start, stop in pairwise(cuts.tolist()):
        cells = slice(indptr[start], indptr[stop])
        keys = np.repeat(_keys_of_rows(key, first_row + start, first_row + stop), np.diff(indptr[start : stop + 1]))
        content = indices[cells].astype(np.uint64) << np.uint64(32)
        if counts.dtype.kind == "f":
            total += int(_fold(_fold(keys, content), counts[cells].view(np.uint64)).sum())
        else:
            total += int(_fold(keys, content | counts[cells].astype(np.uint64)).sum())
    return total % 2**64


def hash_dense(values: np.ndarray, key: np.uint64, first_row: int) -> int:
    """Hash of rows of float64, (n, d): of each cell's row, column and value; all NaN are equal, and 0 equals -0."""
    columns = np.arange(values.shape[1], dtype=np.uint64)
    total = 0
    for start, stop in split_range(len(values), max(1, _CELLS // max(1, len(columns)))):
        content = values[start:stop] + 0.0
        content[np.isnan(content)] = np.nan
        keys = _fold(_keys_of_rows(key, first_row + start, first_row + stop)[:, np.newaxis], columns)
        total += int(_fold(keys, content.view(np.uint64)).sum())
    return total % 2**64


def hash_hashes(hashes: np.ndarray, key: np.uint64, first_row: int) -> int:
    """Hash of rows whose contents have these hashes, (n,) uint64."""
    return int(_fold(_keys_of_rows(key, first_row, first_row + len(hashes)), hashes).sum()) % 2**64


def _keys_of_rows(key: np.uint64, start: int, stop: int) -> np.ndarray:
    return _fold(np.full(1, key, np.uint64), np.arange(start, stop, dtype=np.uint64))


def _fold(keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`fold_in` of arrays."""
    return _mix(keys + _FOLD_STEP * (values + _ONE))
