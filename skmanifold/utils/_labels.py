"""Validation of labels of rows that users pass."""

from __future__ import annotations

from typing import Any

import numpy as np


def read_labels(labels: Any, n_rows: int, n_labels: int, name: str) -> np.ndarray:
    """Labels from 0 to `n_labels` - 1 as int64, (n_rows,).

    Integers may have any numeric type, because a data frame column with missing values has a float type. Error messages
    begin with `name`.
    """
    given = np.asarray(labels)
    wanted = f"{name} {n_rows} whole numbers from 0 to {n_labels - 1}, one for each row"
    if given.shape != (n_rows,) or given.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}; got shape {given.shape} and type {given.dtype}.")
    wrong = ~((given >= 0) & (given < n_labels)) | (given % 1 != 0)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{wanted}; got {given[row]} for row {row}.")
    return given.astype(np.int64)
