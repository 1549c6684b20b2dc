"""Conversion of documents in memory to counts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..sparse.counts import Counts
from ._entries import gathered
from ._save_corpus import _canonical, _rows_of


def counts_of_documents(documents: Iterable, n_features: int | None = None) -> Counts:
    """Counts of documents in the formats of :func:`save_corpus`; by default the largest column determines their width.

    Raises
    ------
    TypeError, ValueError
        If an item is not a document, or a count or a column is out of range.
    """
    parts = list(gathered(_rows_of(documents, n_features, None)))
    if n_features is None:
        n_features = max((max(part.width, 1 + int(part.columns.max(initial=-1))) for part in parts), default=0)
    canonical, number = [(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))], 0
    for part in parts:
        canonical.append(_canonical(part, number, n_features))
        number += len(part.sizes)
    sizes, columns, counts = (np.concatenate(arrays) for arrays in zip(*canonical, strict=True))
    return Counts(np.cumsum(sizes), columns.astype(np.int32, copy=False), counts, n_features)
