"""Validation of the structure of the arrays of a corpus, which kernels do not check again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ..sparse.counts import Counts

_PAIRS = 1 << 16  # compared at a time, while they are in the cache


def starts_fault(indptr: np.ndarray, token_start: np.ndarray, n_features: int, largest: int) -> str | None:
    """Describe an error in the starts of consecutive documents, for a message; None if they are valid.

    `largest` is the largest count that the type of the counts can hold.
    """
    for starts, what in ((indptr, "pairs"), (token_start, "tokens")):
        if starts.min() < 0 or np.any(starts[1:] < starts[:-1]):
            return f"a document has a negative number of {what}"
    pairs, tokens = np.diff(indptr), np.diff(token_start)
    if pairs.max(initial=0) > n_features:
        return f"a document has more pairs than there are columns ({n_features})"
    if np.any(tokens < pairs) or np.any(tokens > pairs.astype(np.float64) * largest):
        return "the number of tokens of a document is impossible for its number of pairs"
    return None


def rows_fault(rows: Counts, narrow: np.ndarray, token_start: np.ndarray) -> str | None:
    """Describe an error in some documents, for a message; None if they are valid.

    `narrow` are the counts in their type on disk; `token_start` are the expected sums.
    """
    wanted = rows.indptr[0] + np.arange(0, len(narrow), _PAIRS)
    cuts = np.unique(np.concatenate((np.searchsorted(rows.indptr, wanted), [rows.n_rows])))
    for start, stop in pairwise([0, *cuts.tolist()]):
        pairs = slice(rows.indptr[start], rows.indptr[stop])
        n_tokens = np.diff(token_start[start : stop + 1])
        fault = range_fault(rows.indices[pairs], narrow[pairs], rows.n_features)
        fault = fault or _order_fault(rows.part(start, stop), narrow[pairs], n_tokens)
        if fault:
            return fault
    return None


def range_fault(indices: np.ndarray, narrow: np.ndarray, n_features: int) -> str | None:
    """Describe an error in some pairs, for a message; None if they are valid."""
    if len(indices) and (indices.min() < 0 or indices.max() >= n_features):
        return f"a column is outside 0..{n_features - 1}"
    return "a count is below 1" if len(narrow) and narrow.min() < 1 else None


def _order_fault(rows: Counts, narrow: np.ndarray, n_tokens: np.ndarray) -> str | None:
    not_empty = np.diff(rows.indptr) > 0
    starts = rows.indptr[:-1][not_empty]
    if not len(starts):
        return None
    rises = rows.indices[1:] > rows.indices[:-1]
    rises[starts[1:] - 1] = True
    if not rises.all():
        return "the columns of a document are not sorted or not distinct"
    if np.any(np.add.reduceat(narrow, starts, dtype=np.int64) != n_tokens[not_empty]):
        return "the counts of a document do not add up to its number of tokens"
    return None
