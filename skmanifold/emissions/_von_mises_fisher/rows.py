"""Rows of directions: sparse rows, and dense rows as the user gave them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...numerics.row_hash import hash_hashes
from ...numerics.row_products import RowProducts
from ...sparse.dense_directions import UnitRows, read_directions
from ...sparse.direction_kernels import fill_dense_keys
from ...sparse.directions import Directions
from ...utils._threads import split_range
from .row_kernels import (
    add_block_scores,
    add_labelled_rows,
    add_row_scores,
    add_rows,
    add_shared_rows,
    assign_rows,
    expect_rows,
)

_MAX_BLOCKS = 32
_BLOCK_CELLS = 1 << 20  # minimum of entries times components in a block: about a millisecond
_MAX_SUMS_BYTES = 1 << 28  # of all blocks
_CELLS_AT_ONCE = 1 << 18  # entries whose hashes are computed at a time
_ROWS_OF_BLOCK = 1024  # of dense rows, at least: about a millisecond


class _DirectedRows:
    """What dense and sparse rows have in common.

    Both have these methods for a range of rows, which threads run at the same time. `parameters` are directions,
    (n_features, K), concentrations, and log densities at the mean directions, and may include the logs of weights.

    - ``expect(first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels)``: an E step, which returns
      the weighted sum of the log densities and adds rows to `sums`, (n_features, K); see `row_kernels.assign_rows`.
    - ``add_log_densities(first, stop, parameters, out)``: add log densities to `out`, (stop - first, K).
    - ``add_labelled(first, stop, labels, sums)`` and ``add_shares(first, stop, shares, sums)``: add rows to the sums,
      (K, n_features), by their labels or membership probabilities.
    """

    log_base = None
    least_gap = 1e-12  # two rows whose cosine is closer to 1 have the same direction
    n_rows: Any
    n_features: int
    hashes: Any

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        return hash_hashes(self.hashes(), key, first_row)

    def _split(self, most_blocks: int, n_components: int) -> list[tuple[int, int]]:
        most = min(_MAX_BLOCKS, most_blocks, _MAX_SUMS_BYTES // (8 * self.n_features * n_components))
        return split_range(self.n_rows, -(-self.n_rows // max(1, most)))


class SparseRows(_DirectedRows, Directions):
    """Rows in CSR format, as unit vectors."""

    reads_once = True  # products of blocks of dense rows are not faster in one step

    @property
    def has_direction(self) -> np.ndarray:
        """Whether a row has entries, (n_rows,) bool."""
        return np.diff(self.indptr) > 0

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows whose separate sums cost little compared with reading the rows."""
        n = len(self.indices)
        return self._split(min(n * n_components // _BLOCK_CELLS, n // (4 * self.n_features)), n_components)

    def expect(self, first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels) -> float:
        """E step for a range of rows; returns the weighted sum of the log densities."""
        found = sums, sizes, log_density, labels
        return expect_rows(first, stop, self[:3], row_weights, tuple(parameters), hard, *found)

    def add_log_densities(self, first, stop, parameters, out) -> None:
        """Add log densities of a range of rows."""
        add_row_scores(first, stop, self[:3], tuple(parameters), out)

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels."""
        add_labelled_rows(first, stop, self[:3], labels, sums)

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        add_shared_rows(first, stop, self[:3], shares, sums)

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        out = np.empty(self.n_rows, np.uint64)
        self.fill_keys(np.uint64(0), np.arange(self.n_rows), out)
        return out

    def part(self, start: int, stop: int) -> SparseRows:
        """The rows `start` to `stop`, or to the last."""
        return self._replace(indptr=self.indptr[start : min(stop, self.n_rows) + 1])


class DenseRows(_DirectedRows, UnitRows):
    """Dense rows of float32 or float64, which stay as they are: in memory or mapped from a file, in any order.

    Blocks of rows are copied, divided by their lengths, and multiplied with the mean directions in the precision of the
    rows. Sums over rows of a block have this precision, sums over blocks are float64.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features)
        Finite rows of any length.
    """

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values)
        if values.dtype == np.float32:
            self.least_gap = 1e-6

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows whose separate sums cost little compared with the products."""
        return self._split(self.n_rows // _ROWS_OF_BLOCK, n_components)

    def expect(self, first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels) -> float:
        """E step for a range of rows; returns the weighted sum of the log densities."""
        directions, *of_scores = parameters
        total, whole = 0.0, np.zeros(sums.T.shape)
        for a, b, rows, products in self._blocks_of_products(first, stop, directions.T):
            terms, weights = np.zeros((b - a, len(sizes))), row_weights[a:b]
            add_block_scores(products.multiply(), products.first, *of_scores, terms)
            total += assign_rows(terms, weights, hard, sizes, log_density[a:b], labels[a:b])
            if hard:
                add_rows(rows, weights, labels[a:b], whole)
            else:
                whole += products.sums(terms)
        sums += whole.T
        return total

    def add_log_densities(self, first, stop, parameters, out) -> None:
        """Add log densities of a range of rows."""
        directions, *of_scores = parameters
        for a, b, _, products in self._blocks_of_products(first, stop, directions.T):
            add_block_scores(products.multiply(), products.first, *of_scores, out[a - first : b - first])

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels."""
        for a, b, rows, _ in self._blocks_of_products(first, stop, sums):
            add_rows(rows, np.ones(b - a), labels[a - first : b - first], sums)

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        for a, b, _, products in self._blocks_of_products(first, stop, sums):
            sums += products.sums(shares[a - first : b - first])

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        out, m = np.empty(self.n_rows, np.uint64), self.n_features
        for a, b in split_range(self.n_rows, max(1, _CELLS_AT_ONCE // m)):
            cells = self.values[a:b].astype(np.float64, order="C") + 0.0  # 0 equals -0
            fill_dense_keys(np.uint64(0), cells.view(np.uint64), out[a:b])
        return out

    def part(self, start: int, stop: int) -> DenseRows:
        """The rows `start` to `stop`, or to the last."""
        return DenseRows(self.values[start:stop])

    def _blocks_of_products(
        self, first: int, stop: int, vectors: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray, RowProducts]]:
        """Ranges of rows, their unit vectors, and the block of these whose products with vectors are computed."""
        products = RowProducts(vectors, self.values.dtype)
        factors = self._inverses[first:stop, np.newaxis].astype(self.values.dtype)
        unusual = self._unusual[slice(*np.searchsorted(self._unusual, (first, stop)))]
        for start, end in split_range(stop - first, products.n_rows):
            a, b = first + start, first + end
            rows = products.rows(b - a)
            np.multiply(self.values[a:b], factors[start:end], out=rows)
            for row in unusual[(a <= unusual) & (unusual < b)] if len(unusual) else ():
                rows[row - a] = self.unit(row)
            yield a, b, rows, products


DirectedRows = SparseRows | DenseRows


def read_rows(estimator: Any, X: Any, *, reset: bool) -> DirectedRows:
    """Validate a user's dense or sparse X of finite numbers of either sign, as `read_directions` does."""
    rows = read_directions(estimator, X, reset=reset, dense_type=DenseRows)
    return SparseRows(*rows) if isinstance(rows, Directions) else rows
