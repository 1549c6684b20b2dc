"""Check the files of memory-mapped arrays: access beyond the end of a file ends the process."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import scipy.sparse as sp


def check_files(X: Any, name: str = "X") -> None:
    """Raise a ValueError if the file of a mapped array, or of a sparse matrix of such arrays, has become shorter."""
    parts = (X.indptr, X.indices, X.data) if sp.issparse(X) and hasattr(X, "indptr") else (X,)
    for part in parts:
        owner: Any = part
        while isinstance(owner, np.ndarray) and not isinstance(owner.base, mmap.mmap):
            owner = owner.base
        if isinstance(owner, np.memmap):
            _check_file(owner, name)


def _check_file(array: Any, name: str) -> None:
    n_bytes = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY + len(array.base)
    if array.base.size() < n_bytes:
        raise ValueError(
            f"{name} is mapped from the file {array.filename}, which is truncated: it has {array.base.size()} bytes of "
            f"{n_bytes}."
        )
