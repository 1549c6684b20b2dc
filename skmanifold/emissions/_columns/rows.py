"""Rows of a table as the rows of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...random._keys import subkey


def scattered(places: Sequence[np.ndarray], of_blocks: Sequence[np.ndarray]) -> np.ndarray:
    """Columns of all blocks in the order of X.

    Parameters
    ----------
    places : sequence of ndarray of int64
        Columns of X that belong to each block.
    of_blocks : sequence of ndarray of shape (n, n_block_columns)
        Columns of each block.

    Returns
    -------
    values : ndarray of shape (n, n_columns)
        A new array.
    """
    out = np.empty((len(of_blocks[0]), sum(map(len, places))))
    for place, values in zip(places, of_blocks, strict=True):
        out[:, place] = values
    return out


class ColumnRows(NamedTuple):
    """Rows of all blocks.

    Attributes
    ----------
    blocks : tuple
        What the emissions of the blocks read.
    places : tuple of ndarray of int64
        Columns of X that belong to each block.
    """

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
        """The rows with these indices.

        Parameters
        ----------
        rows : ndarray of shape (n,), int64
            Indices of rows.

        Returns
        -------
        taken : ColumnRows
            These rows alone.
        """
        return ColumnRows(tuple(block.take(rows) for block in self.blocks), self.places)

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        hashes = (int(rows.hash_rows(subkey(key, i), first_row)) for i, rows in enumerate(self.blocks))
        return sum(hashes) % 2**64
