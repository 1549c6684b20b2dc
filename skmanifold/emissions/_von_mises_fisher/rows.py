"""Rows of directions: sparse rows, and dense rows as the user gave them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...numerics.row_hash import hash_hashes
from ...numerics.row_products import RowProducts
from ...sparse.dense_directions import UnitRows
from ...sparse.directions import Directions, as_directions, validate_numbers
from ...utils._threads import split_range
from .dense_kernels import add_block_scores, add_rows, hash_dense_rows, label_block, share_block
from .sparse_kernels import add_labelled_rows, add_row_scores, add_shared_rows, expect_rows

_MAX_BLOCKS = 32
_BLOCK_CELLS = 1 << 20  # minimum of entries times components in a block: about a millisecond
_MAX_SUMS_BYTES = 1 << 28  # of all blocks
_CELLS_AT_ONCE = 1 << 18  # entries whose lengths or hashes are computed at a time
_ROWS_OF_BLOCK = 1024  # of dense rows, at least: about a millisecond


class _DirectedRows:
    """What dense and sparse rows have in common.

    Both have these methods for a range of rows, which threads run at the same time. `parameters` are directions,
    (n_features, K), concentrations, and log densities at the mean directions, and may include the logs of weights.

    - ``expect(first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels)``: an E step, which reads
      rows once for scores and sums; see `sparse_kernels.expect_rows`.
    - ``add_log_densities(first, stop, parameters, out)``: add log densities to `out`, (stop - first, K).
    - ``add_labelled(first, stop, labels, sums)`` and ``add_shares(first, stop, shares, sums)``: add rows to the sums,
      (K, n_features), by their labels or membership probabilities.
    """

    log_base = None
    least_gap = 1e-12  # two rows whose cosine is closer to 1 have the same direction
    n_rows: int
    n_features: int
    has_direction: np.ndarray  # (n_rows,) bool
    hashes: Any

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        return hash_hashes(self.hashes(), key, first_row)

    def _split(self, most_blocks: int, n_components: int) -> list[tuple[int, int]]:
        most = min(_MAX_BLOCKS, most_blocks, _MAX_SUMS_BYTES // (8 * self.n_features * n_components))
        return split_range(self.n_rows, -(-self.n_rows // max(1, most)))


class SparseRows(_DirectedRows):
    """Rows in CSR format.

    Parameters
    ----------
    directions : Directions
        Unit vectors.
    """

    reads_once = True  # one pass over the entries; products of blocks of dense rows are not faster in one step

    def __init__(self, directions: Directions) -> None:
        self.directions = directions
        self.n_rows, self.n_features = directions.n_rows, directions.n_features
        self._csr = directions[:3]
        self.has_direction = np.diff(directions.indptr) > 0

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows whose separate sums cost little compared with reading the rows."""
        n = len(self.directions.indices)
        return self._split(min(n * n_components // _BLOCK_CELLS, n // (4 * self.n_features)), n_components)

    def expect(self, first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels) -> float:
        """E step for a range of rows; returns the weighted sum of the log densities."""
        found = sums, sizes, log_density, labels
        return expect_rows(first, stop, self._csr, row_weights, tuple(parameters), hard, *found)

    def add_log_densities(self, first, stop, parameters, out) -> None:
        """Add log densities of a range of rows."""
        add_row_scores(first, stop, self._csr, tuple(parameters), out)

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels."""
        add_labelled_rows(first, stop, self._csr, labels, sums)

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        add_shared_rows(first, stop, self._csr, shares, sums)

    def unit(self, row: int) -> np.ndarray:
        """A row as a dense unit vector, (n_features,); zeros if it has no direction."""
        indptr, indices, data, n_features = self.directions
        dense, entries = np.zeros(n_features), slice(indptr[row], indptr[row + 1])
        dense[indices[entries]] = data[entries]
        return dense

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        out = np.empty(self.n_rows, np.uint64)
        self.directions.fill_keys(np.uint64(0), np.arange(self.n_rows), out)
        return out

    def part(self, start: int, stop: int) -> SparseRows:
        """The rows `start` to `stop`, or to the last."""
        return SparseRows(self.directions._replace(indptr=self.directions.indptr[start : min(stop, self.n_rows) + 1]))

    def take(self, rows: np.ndarray) -> SparseRows:
        """The rows with these indices, copied."""
        return SparseRows(self.directions.taken(rows))


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
        products, total = self._products(directions.T), 0.0
        whole = np.zeros(products.vectors.shape)
        shares, part = np.zeros_like(products.products), np.empty_like(products.vectors)
        for a, b, rows in self._filled(first, stop, products):
            of_rows = products.multiply(), products.first, row_weights[a:b], *of_scores
            if hard:
                total += label_block(*of_rows, sizes, log_density[a:b], labels[a:b])
                add_rows(rows, row_weights[a:b], labels[a:b], whole)
            else:
                shares[:, products.first + b - a :] = 0.0
                total += share_block(*of_rows, shares, sizes, log_density[a:b], labels[a:b])
                np.matmul(shares, products.block, out=part)
                whole += part
        sums += whole.T
        return total

    def add_log_densities(self, first, stop, parameters, out) -> None:
        """Add log densities of a range of rows."""
        directions, *of_scores = parameters
        products = self._products(directions.T)
        for a, b, _ in self._filled(first, stop, products):
            add_block_scores(products.multiply(), products.first, *of_scores, out[a - first : b - first])

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels."""
        products, ones = self._products(np.zeros_like(sums)), np.ones(stop - first)
        for a, b, rows in self._filled(first, stop, products):
            add_rows(rows, ones[a - first : b - first], labels[a - first : b - first], sums)

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        products = self._products(np.zeros_like(sums))
        of_block, part = np.zeros_like(products.products), np.empty_like(products.vectors)
        for a, b, _ in self._filled(first, stop, products):
            of_block[:, products.first : products.first + b - a] = shares[a - first : b - first].T
            of_block[:, products.first + b - a :] = 0.0
            np.matmul(of_block, products.block, out=part)
            sums += part

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        out, m = np.empty(self.n_rows, np.uint64), self.n_features
        for a, b in split_range(self.n_rows, max(1, _CELLS_AT_ONCE // m)):
            cells = self.values[a:b].astype(np.float64, order="C") + 0.0  # 0 equals -0
            hash_dense_rows(cells.view(np.uint64), out[a:b])
        return out

    def part(self, start: int, stop: int) -> DenseRows:
        """The rows `start` to `stop`, or to the last."""
        return DenseRows(self.values[start:stop])

    def take(self, rows: np.ndarray) -> DenseRows:
        """The rows with these indices, copied."""
        return DenseRows(self.values[rows])

    def _products(self, vectors: np.ndarray) -> RowProducts:
        """Space for blocks of rows, and their products with vectors, (K, n_features)."""
        return RowProducts(vectors, self.values.dtype)

    def _filled(self, first: int, stop: int, products: RowProducts) -> Iterator[tuple[int, int, np.ndarray]]:
        """Ranges of rows, and their unit vectors in the space for the products."""
        for start, end in split_range(stop - first, products.n_rows):
            a, b = first + start, first + end
            rows = products.rows(b - a)
            np.multiply(self.values[a:b], self._inverses[a:b, np.newaxis].astype(rows.dtype), out=rows)
            for row in self._unusual[slice(*np.searchsorted(self._unusual, (a, b)))]:
                rows[row - a] = self.unit(row)
            yield a, b, rows


DirectedRows = SparseRows | DenseRows


def read_rows(estimator: Any, X: Any, *, reset: bool) -> DirectedRows:
    """Validate a user's dense or sparse X of finite numbers of either sign.

    Raises
    ------
    ValueError
        If X has strings, values that are not finite, or a single column.
    """
    valid = validate_numbers(estimator, X, [np.float64, np.float32], reset=reset)
    if sp.issparse(valid):
        return SparseRows(as_directions(valid.astype(np.float64, copy=False)))
    return DenseRows(valid)
