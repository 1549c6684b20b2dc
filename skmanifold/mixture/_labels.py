"""Labels of rows: those that a user passes, and random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..random._keys import fold_in_each


def read_labels(labels: Any, n_rows: int, n_labels: int | None, name: str) -> np.ndarray:
    """Check a user's labels, (n_rows,), or raise a ValueError that begins with `name`; returns them as int64.

    They are whole numbers from 0, below `n_labels` if that is given, of any numeric type: pandas stores a column of
    integers with missing values as floats.
    """
    given = np.asarray(labels)
    limit = 2**63 if n_labels is None else n_labels
    to_last = "" if n_labels is None else f" to {n_labels - 1}"
    wanted = f"{name} {n_rows} whole numbers from 0{to_last}, one for each row"
    if given.shape != (n_rows,) or given.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}; got shape {given.shape} and type {given.dtype}.")
    wrong = ~((given >= 0) & (given < limit)) | (given % 1 != 0)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{wanted}; got {given[row]} for row {row}.")
    return given.astype(np.int64)


def random_labels(key: np.uint64, n_rows: int, n_labels: int) -> np.ndarray:
    """Draw a label from 0 to `n_labels` - 1 for each row, (n_rows,) int32, nearly uniform.

    The label of a row depends only on the key and the index of the row.
    """
    return (fold_in_each(key, np.arange(n_rows)) % np.uint64(n_labels)).astype(np.int32)
