"""Initial clusters of rows of tables by k-means, in which each column of X has the same weight."""

from __future__ import annotations

import numpy as np

from ...random._keys import Purpose, subkey
from ...utils._threads import split_range
from .._seeds import k_means, nearest, some_rows
from .rows import ColumnRows

_MOST_ROWS = 20_000  # of the sample in which centres are found
_CELLS_AT_ONCE = 1 << 22


def cluster_tables(
    rows: ColumnRows, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """Labels of the nearest of the centres that k-means finds in some of the rows.

    Numbers have variance 1, square roots of counts too, and the indicators of the categories of a column have variances
    that sum to 1.

    Parameters
    ----------
    rows : ColumnRows
        Rows.
    n_clusters : int
        Number of clusters; there may be fewer.
    key : uint64
        Key of the random choices.
    row_weights : ndarray of shape (n_rows,), optional
        Positive weights.

    Returns
    -------
    labels : ndarray of shape (n_rows,), int32
        Clusters.
    """
    n = rows.n_rows
    chosen = np.arange(n) if n <= _MOST_ROWS else some_rows(n, _MOST_ROWS, key)
    sample, columns = _cells(rows.take(chosen))
    weights = np.ones(len(chosen)) if row_weights is None else row_weights[chosen]
    is_seen = ~np.isnan(sample)
    n_seen = np.maximum(weights @ is_seen, weights.min())
    means = weights @ np.where(is_seen, sample, 0.0) / n_seen
    variances = weights @ np.where(is_seen, sample - means, 0.0) ** 2 / n_seen
    of_columns = np.bincount(columns, weights=variances)[columns]
    scales = np.divide(1.0, np.sqrt(of_columns), out=np.zeros_like(means), where=of_columns > 0.0)
    of_sample = None if row_weights is None else weights
    _, centres = k_means((sample - means) * scales, n_clusters, subkey(key, Purpose.LABELS), of_sample)
    out = np.empty(n, np.int32)
    for start, stop in split_range(n, max(1, _CELLS_AT_ONCE // len(columns))):
        out[start:stop] = nearest((_cells(rows.part(start, stop))[0] - means) * scales, centres)
    return out


def _cells(rows: ColumnRows) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and indicators of categories, (n_rows, n), NaN where missing, and the column of X of each.

    Rows whose cells are not compared as they are have the method `vectors`.
    """
    cells, columns = [], []
    for place, block in zip(rows.places, rows.blocks, strict=True):
        as_they_are = not hasattr(block, "vectors")
        of_block, local = (block.cells(), np.arange(block.n_features)) if as_they_are else block.vectors()
        cells.append(of_block)
        columns.append(place[local])
    return np.concatenate(cells, axis=1), np.concatenate(columns)
