"""Rows of directions: sparse rows, and dense rows as the user gave them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ...numerics.row_hash import hash_hashes
from ...numerics.row_products import RowProducts
from ...sparse.dense_directions import UnitRows
from ...sparse.directions import Directions, as_directions, validate_numbers
from ...utils._threads import split_range
from .dense_kernels import add_block_scores, add_rows, fill_block_gaps, hash_dense_rows, label_block, share_block
from .sparse_kernels import (
    add_labelled_rows,
    add_row_scores,
    add_shared_rows,
    expect_rows,
    fill_gaps,
    hash_rows,
    predict_rows,
)

_MAX_BLOCKS = 32
_BLOCK_CELLS = 1 << 20  # minimum of entries times components in a block: about a millisecond
_MAX_SUMS_BYTES = 1 << 28  # of all blocks
_CELLS_AT_ONCE = 1 << 18  # entries whose lengths or hashes are computed at a time
_ROWS_OF_BLOCK = 1024  # of dense rows, at least: about a millisecond
_LEAST_GAPS = {"f": 1e-6, "d": 1e-12}  # two rows whose cosine is closer to 1 have the same direction


class DirectedRows(Protocol):
    """Rows whose directions are clustered. Ranges of rows are tasks of threads.

    `VonMisesFisherMixture` uses `blocks`, `expect` and `predict`, which read rows once for scores and sums; emissions
    use `add_log_densities`, `add_labelled` and `add_shares`, whose sums do not depend on the division of the rows if
    ranges begin where blocks of `numerics/block_sums.py` begin.
    """

    n_rows: int
    n_features: int
    log_base: None

    @property
    def directed(self) -> np.ndarray:
        """Whether a row has a direction, (n_rows,) bool."""
        ...

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows with separate sums, which depend only on the shape of the data."""
        ...

    def expect(
        self, first, stop, row_weights, directions, concentrations, log_peaks, hard, sums, sizes, log_density, labels
    ) -> float:
        """E-step for a range of rows; see `sparse_kernels.expect_rows`."""
        ...

    def predict(self, first, stop, directions, concentrations, log_peaks, log_density, labels, shares) -> None:
        """Log densities, labels and responsibilities of a range of rows; see `sparse_kernels.predict_rows`."""
        ...

    def add_log_densities(self, first, stop, directions, concentrations, log_peaks, out) -> None:
        """Add ``log_peaks + concentrations (cosine - 1)`` to `out`, (stop - first, K); directions are columns."""
        ...

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels, (K, n_features); `labels` are those of the range."""
        ...

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities, (stop - first, K), to the sums, (K, n_features)."""
        ...

    def fill_gaps(self, first, stop, directions, gaps, out) -> None:
        """Gaps of a range of rows with each candidate as an additional seed; see `sparse_kernels.fill_gaps`."""
        ...

    def unit(self, row: int) -> np.ndarray:
        """A row as a unit vector, (n_features,) float64; zeros if it has no direction."""
        ...

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        ...

    def part(self, start: int, stop: int) -> Any:
        """The rows `start` to `stop`, or to the last."""
        ...

    def take(self, rows: np.ndarray) -> Any:
        """The rows with these indices."""
        ...


class _Hashed:
    """The hash of rows as of shards on a cluster; from `hashes`."""

    hashes: Any

    def hash_rows(self, key: np.uint64, first_row: int) -> int:
        """A hash of the rows; the hashes of the ranges of a data set add up to its hash, modulo 2**64."""
        return hash_hashes(self.hashes(), key, first_row)


class SparseRows(_Hashed):
    """Rows in CSR format.

    Parameters
    ----------
    directions : Directions
        Unit vectors.
    """

    log_base = None

    def __init__(self, directions: Directions) -> None:
        self.directions = directions
        self.n_rows, self.n_features = directions.n_rows, directions.n_features

    @property
    def directed(self) -> np.ndarray:
        """Whether a row has a direction, (n_rows,) bool."""
        return np.diff(self.directions.indptr) > 0

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows whose separate sums cost little compared with reading the rows."""
        n_entries = len(self.directions.indices)
        most = min(
            _MAX_BLOCKS,
            n_entries * n_components // _BLOCK_CELLS,
            n_entries // (4 * self.n_features),
            _MAX_SUMS_BYTES // (8 * self.n_features * n_components),
        )
        return split_range(self.n_rows, -(-self.n_rows // max(1, most)))

    def expect(
        self, first, stop, row_weights, directions, concentrations, log_peaks, hard, sums, sizes, log_density, labels
    ) -> float:
        """E-step for a range of rows."""
        of_mixture = directions, concentrations, log_peaks
        found = sums, sizes, log_density, labels
        return expect_rows(first, stop, *self.directions[:3], row_weights, *of_mixture, hard, *found)

    def predict(self, first, stop, directions, concentrations, log_peaks, log_density, labels, shares) -> None:
        """Log densities, labels and responsibilities of a range of rows."""
        of_mixture = directions, concentrations, log_peaks
        predict_rows(first, stop, *self.directions[:3], *of_mixture, log_density, labels, shares)

    def add_log_densities(self, first, stop, directions, concentrations, log_peaks, out) -> None:
        """Add ``log_peaks + concentrations (cosine - 1)`` to `out`."""
        add_row_scores(first, stop, *self.directions[:3], directions, concentrations, log_peaks, out)

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels."""
        add_labelled_rows(first, stop, *self.directions[:3], labels, sums)

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        add_shared_rows(first, stop, *self.directions[:3], shares, sums)

    def fill_gaps(self, first, stop, directions, gaps, out) -> None:
        """Gaps of a range of rows with each candidate as an additional seed."""
        fill_gaps(first, stop, *self.directions[:3], directions, gaps, out)

    def unit(self, row: int) -> np.ndarray:
        """A row as a dense unit vector."""
        indptr, indices, data, n_features = self.directions
        dense = np.zeros(n_features)
        dense[indices[indptr[row] : indptr[row + 1]]] = data[indptr[row] : indptr[row + 1]]
        return dense

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row."""
        out = np.empty(self.n_rows, np.uint64)
        hash_rows(self.directions.indptr, self.directions.indices, self.directions.data.view(np.uint64), out)
        return out

    def part(self, start: int, stop: int) -> SparseRows:
        """The rows `start` to `stop`, or to the last."""
        return SparseRows(self.directions._replace(indptr=self.directions.indptr[start : min(stop, self.n_rows) + 1]))

    def take(self, rows: np.ndarray) -> SparseRows:
        """These rows alone, copied."""
        indptr, indices, data, n_features = self.directions
        matrix = sp.csr_array((data, indices, indptr), shape=(self.n_rows, n_features))[rows]
        arrays = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
        return SparseRows(Directions(*arrays, n_features))


class DenseRows(_Hashed, UnitRows):
    """Dense rows of float32 or float64, which stay as they are: in memory or mapped from a file, in any order.

    Blocks of rows are copied, divided by their lengths, and multiplied with the mean directions in the precision of the
    rows. Sums over rows of a block have this precision, sums over blocks are float64.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features)
        Finite rows of any length.
    """

    log_base = None

    @property
    def directed(self) -> np.ndarray:
        """Whether a row has a direction, (n_rows,) bool."""
        return self.has_direction

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows whose separate sums cost little compared with the products."""
        most = min(_MAX_BLOCKS, self.n_rows // _ROWS_OF_BLOCK, _MAX_SUMS_BYTES // (8 * self.n_features * n_components))
        return split_range(self.n_rows, -(-self.n_rows // max(1, most)))

    def expect(
        self, first, stop, row_weights, directions, concentrations, log_peaks, hard, sums, sizes, log_density, labels
    ) -> float:
        """E-step for a range of rows."""
        products, total = RowProducts(directions.T, self.values.dtype), 0.0
        whole = np.zeros(products.vectors.shape)
        shares, part = np.zeros_like(products.products), np.empty_like(products.vectors)
        for a, b, rows in self._filled(first, stop, products):
            place = products.multiply(), products.first
            of_mixture, found = (concentrations, log_peaks), (log_density[a:b], labels[a:b])
            if hard:
                total += label_block(*place, row_weights[a:b], *of_mixture, sizes, *found)
                add_rows(rows, row_weights[a:b], labels[a:b], whole)
            else:
                shares[:, products.first + b - a :] = 0.0
                total += share_block(*place, row_weights[a:b], *of_mixture, shares, sizes, *found)
                np.matmul(shares, products.block, out=part)
                whole += part
        sums += whole.T
        return total

    def predict(self, first, stop, directions, concentrations, log_peaks, log_density, labels, shares) -> None:
        """Log densities, labels and responsibilities of a range of rows."""
        products = RowProducts(directions.T, self.values.dtype)
        of_block, sizes = np.empty(products.products.shape), np.zeros(len(log_peaks))
        for a, b, _ in self._filled(first, stop, products):
            place, of_mixture = (products.multiply(), products.first), (concentrations, log_peaks)
            share_block(*place, np.ones(b - a), *of_mixture, of_block, sizes, log_density[a:b], labels[a:b])
            shares[a:b] = of_block[:, products.first : products.first + b - a].T

    def add_log_densities(self, first, stop, directions, concentrations, log_peaks, out) -> None:
        """Add ``log_peaks + concentrations (cosine - 1)`` to `out`."""
        products = RowProducts(directions.T, self.values.dtype)
        for a, b, _ in self._filled(first, stop, products):
            of_block = out[a - first : b - first]
            add_block_scores(products.multiply(), products.first, concentrations, log_peaks, of_block)

    def add_labelled(self, first, stop, labels, sums) -> None:
        """Add rows to the sums of their labels."""
        products, ones = self._space(len(sums)), np.ones(stop - first)
        for a, b, rows in self._filled(first, stop, products):
            add_rows(rows, ones[a - first : b - first], labels[a - first : b - first], sums)

    def add_shares(self, first, stop, shares, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        products = self._space(len(sums))
        of_block, part = np.zeros_like(products.products), np.empty_like(products.vectors)
        for a, b, _ in self._filled(first, stop, products):
            of_block[:, products.first : products.first + b - a] = shares[a - first : b - first].T
            of_block[:, products.first + b - a :] = 0.0
            np.matmul(of_block, products.block, out=part)
            sums += part

    def fill_gaps(self, first, stop, directions, gaps, out) -> None:
        """Gaps of a range of rows with each candidate as an additional seed."""
        products, least = RowProducts(directions.T, self.values.dtype), _LEAST_GAPS[self.values.dtype.char]
        for a, b, _ in self._filled(first, stop, products):
            fill_block_gaps(products.multiply(), products.first, gaps[a:b], least, out[a:b])

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row."""
        out, m = np.empty(self.n_rows, np.uint64), self.n_features
        for a, b in split_range(self.n_rows, max(1, _CELLS_AT_ONCE // m)):
            cells = self.values[a:b].astype(np.float64, order="C") + 0.0  # 0 equals -0
            hash_dense_rows(cells.view(np.uint64), out[a:b])
        return out

    def part(self, start: int, stop: int) -> DenseRows:
        """The rows `start` to `stop`, or to the last."""
        return DenseRows(self.values[start:stop])

    def take(self, rows: np.ndarray) -> DenseRows:
        """These rows alone, copied."""
        return DenseRows(self.values[rows])

    def _space(self, n_components: int) -> RowProducts:
        """Space for rows that are multiplied with the shares of so many components."""
        return RowProducts(np.zeros((n_components, self.n_features)), self.values.dtype)

    def _filled(self, first: int, stop: int, products: RowProducts) -> Iterator[tuple[int, int, np.ndarray]]:
        """Ranges of rows, and their unit vectors in the space for the products."""
        for start, end in split_range(stop - first, products.n_rows):
            a, b = first + start, first + end
            rows = products.rows(b - a)
            np.multiply(self.values[a:b], self._inverses[a:b, np.newaxis].astype(rows.dtype), out=rows)
            for row in self._unusual[slice(*np.searchsorted(self._unusual, (a, b)))]:
                rows[row - a] = self.unit(row)
            yield a, b, rows


def read_rows(estimator: Any, X: Any, *, reset: bool) -> SparseRows | DenseRows:
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
