"""Rows of a table as the rows of its blocks, and their initial clusters, in which each column has the same weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...random._keys import Purpose, subkey
from ...random._variates import some_rows
from ...utils._threads import split_range
from .._seeds import SUBSET, k_means, nearest

_MOST_ROWS = 20_000  # of the sample in which centres are found
_CELLS_AT_ONCE = 1 << 22


def scattered(places: Sequence[np.ndarray], of_blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Columns of all blocks, each (n, n_block_columns), at their `places` in a new array, (n, n_columns)."""
    out = np.empty((len(of_blocks[0]), sum(map(len, places))))
    for place, values in zip(places, of_blocks, strict=True):
        out[:, place] = values
    return out


class ColumnRows(NamedTuple):
    """Rows of all blocks, as their emissions read them, and the columns of X, `places`, of each."""

    blocks: tuple[Any, ...]
    places: tuple[np.ndarray, ...]

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return sum(map(len, self.places))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.blocks[0].n_rows

    @property
    def log_base(self) -> np.ndarray | None:
        """The part of each row's log density that does not depend on the parameters; None if it is zero."""
        parts = [rows.log_base for rows in self.blocks if rows.log_base is not None]
        return np.sum(parts, axis=0) if parts else None

    @property
    def has_missing(self) -> bool:
        """Whether a block may have missing cells that its family draws."""
        return any(getattr(rows, "has_missing", False) for rows in self.blocks)

    def cells(self) -> np.ndarray:
        """Cells as numbers and codes, (n_rows, n_features); NaN where a cell is missing. A new array."""
        return scattered(self.places, [rows.cells() for rows in self.blocks])

    def part(self, start: int, stop: int) -> ColumnRows:
        """The rows `start` to `stop`, or to the last."""
        return ColumnRows(tuple(rows.part(start, stop) for rows in self.blocks), self.places)

    def take(self, rows: np.ndarray) -> ColumnRows:
        """The rows with these indices."""
        return ColumnRows(tuple(block.take(rows) for block in self.blocks), self.places)

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        hashes = (int(rows.hash_rows(subkey(key, i), first_row)) for i, rows in enumerate(self.blocks))
        return sum(hashes) % 2**64


def cluster_tables(
    rows: ColumnRows, n_clusters: int, key: np.uint64, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """Labels, (n_rows,) int32, of the nearest of up to `n_clusters` centres that k-means finds in some of the rows.

    Numbers have variance 1, square roots of counts too, and the indicators of a column's categories have variances that
    sum to 1. `row_weights` are positive.
    """
    n = rows.n_rows
    chosen: Any = slice(None) if n <= _MOST_ROWS else some_rows(key, SUBSET, n, _MOST_ROWS)
    sample, columns = _cells(rows if n <= _MOST_ROWS else rows.take(chosen))
    weights = np.ones(len(sample)) if row_weights is None else row_weights[chosen]
    is_seen = ~np.isnan(sample)
    n_seen = np.maximum(weights @ is_seen, weights.min())
    means = weights @ np.where(is_seen, sample, 0.0) / n_seen
    variances = weights @ np.where(is_seen, sample - means, 0.0) ** 2 / n_seen
    of_columns = np.bincount(columns, weights=variances)[columns]
    scales = np.divide(1.0, np.sqrt(of_columns), out=np.zeros_like(means), where=of_columns > 0.0)
    of_sample = None if row_weights is None else weights
    vectors = (sample - means) * scales
    _, centres = k_means(vectors, n_clusters, subkey(key, Purpose.LABELS), of_sample)
    if n <= _MOST_ROWS:
        return nearest(vectors, centres)
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
