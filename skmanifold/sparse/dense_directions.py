"""Dense rows as directions: the rows as the user gave them, and numbers that make them unit vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ..utils._threads import Workers, split_range
from .directions import (
    Directions,
    add_dense_direction_gradient,
    add_row_pulls,
    as_directions,
    fill_dense_keys,
    multiply_rows,
    validate_numbers,
)

_CELLS_AT_ONCE = 1 << 18  # of rows that are read at a time
_LEAST_SQUARE = 1e-50  # rows with smaller squared lengths, or larger ones than its inverse, are scaled twice
_BLOCK_ROWS = 256
_MAX_BLOCKS = 32  # whose sums are separate


class UnitRows:
    """Dense finite rows of float32 or float64, which stay as they are: in memory or mapped from a file, in any order.

    `has_direction`, (n_rows,), is false for rows of zeros.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.n_rows, self.n_features = values.shape
        squares = np.empty(self.n_rows)
        for a, b in split_range(self.n_rows, max(1, _CELLS_AT_ONCE // self.n_features)):
            cells = values[a:b].astype(np.float64, order="C")  # sums depend on the order of memory
            with np.errstate(over="ignore"):
                squares[a:b] = np.einsum("ij,ij->i", cells, cells)
        is_usual = (squares > _LEAST_SQUARE) & (squares < 1.0 / _LEAST_SQUARE)
        self._inverses = np.divide(1.0, np.sqrt(squares), out=np.zeros(self.n_rows), where=is_usual)
        others = np.flatnonzero(~is_usual)
        self._unusual = others[[bool(values[row].any()) for row in others]]  # too long or too short for one factor
        self.has_direction = is_usual
        self.has_direction[self._unusual] = True

    def take(self, rows: np.ndarray) -> Self:
        """The rows with these indices, copied."""
        return type(self)(self.values[rows])

    def unit(self, row: int) -> np.ndarray:
        """A row as a unit vector of float64; rows of any length."""
        dense = self.values[row].astype(np.float64)
        largest = np.abs(dense).max()
        if largest > 0.0:
            dense = np.ldexp(dense, -int(np.frexp(largest)[1]))[np.newaxis]  # exact
            dense = (dense * (1.0 / np.sqrt(np.einsum("ij,ij->i", dense, dense)))[:, np.newaxis])[0]
        return dense

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and numbers whose products are unit vectors: the rows as they are, or copies if some are too extreme."""
        if not len(self._unusual):
            return self.values, self._inverses
        return self.dense(np.arange(self.n_rows)), self.has_direction.astype(np.float64)

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """The rows with these indices as unit vectors of float64, (n, n_features), copied.

        Rows that differ by a power of two are the same.
        """
        units = np.empty((len(rows), self.n_features))
        np.multiply(self.values[rows], self._inverses[rows, np.newaxis], out=units)
        if len(self._unusual):
            for i in np.flatnonzero(np.isin(rows, self._unusual)):
                units[i] = self.unit(int(rows[i]))
        return units


class DenseDirections(UnitRows):
    """Dense rows with the methods of `Directions`; blocks of them are copied as unit vectors of float64."""

    @property
    def directed(self) -> np.ndarray:
        """Rows that have a direction, ascending int64."""
        return np.flatnonzero(self.has_direction)

    def matrix(self, rows: np.ndarray) -> np.ndarray:
        """The rows with these indices as unit vectors."""
        return self.dense(rows)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the features over rows, and of their squares."""
        sums, squares = np.zeros(self.n_features), np.zeros(self.n_features)
        for _, _, units in self._blocks(np.arange(self.n_rows), 0, self.n_rows):
            sums += units.sum(axis=0)
            squares += np.square(units).sum(axis=0)
        return sums, squares

    def work_before(self, rows: np.ndarray) -> np.ndarray:
        """Number of entries of the rows before each of these."""
        return np.arange(len(rows)) * self.n_features

    def fill_products(self, rows: np.ndarray, start: int, stop: int, word_topic: np.ndarray, out: np.ndarray) -> None:
        """Products of ``rows[start:stop]`` with topics, (n_features, K), in these rows of `out`."""
        for a, b, units in self._blocks(rows, start, stop):
            multiply_rows(units, word_topic, out[a:b])

    def add_pulls(self, rows: np.ndarray, pull: np.ndarray, scale: float, out: np.ndarray) -> None:
        """Add scale * sum_d v_d pull_d' to `out`, (n_features, K)."""
        pull = np.ascontiguousarray(pull)
        for a, b, units in self._blocks(rows, 0, len(rows)):
            add_row_pulls(units, pull[a:b], scale, out)

    def fill_direction_gradient(self, rows, start, stop, squares, products, direction, cosine, sine, out) -> None:
        """See `directions.fill_direction_gradient`."""
        out[:] = 0.0
        for a, b, units in self._blocks(rows, start, stop):
            add_dense_direction_gradient(units, squares[a:b], products[a:b], direction, cosine, sine, out)

    def fill_keys(self, key: np.uint64, rows: np.ndarray, out: np.ndarray) -> None:
        """Keys of rows, made of their directions."""
        for a, b, units in self._blocks(rows, 0, len(rows)):
            fill_dense_keys(key, (units + 0.0).view(np.uint64), out[a:b])

    def weighted_sums(self, rows: np.ndarray) -> DenseSums:
        """A function of weights that sums these rows."""
        return DenseSums(self, rows)

    def _blocks(self, rows: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int, np.ndarray]]:
        for a, b in split_range(stop - start, _BLOCK_ROWS):
            yield start + a, start + b, self.dense(rows[start + a : start + b])


class DenseSums:
    """Sums of dense rows times weights, in blocks that depend only on the number of rows."""

    def __init__(self, directions: DenseDirections, rows: np.ndarray) -> None:
        self.directions, self.rows = directions, rows

    def __call__(self, weights: np.ndarray, workers: Workers) -> np.ndarray:
        """The sum of rows times weights, (n, K), as (n_features, K)."""
        n = len(self.rows)
        blocks = split_range(n, max(_BLOCK_ROWS, -(-n // _MAX_BLOCKS)))
        parts = np.zeros((len(blocks), self.directions.n_features, weights.shape[1]))

        def add(block: int, start: int, stop: int) -> None:
            self.directions.add_pulls(self.rows[start:stop], weights[start:stop], 1.0, parts[block])

        workers.run(add, [(block, *task) for block, task in enumerate(blocks)])
        return np.add.reduce(parts, axis=0)


AnyDirections = Directions | DenseDirections


def read_directions(
    estimator: Any, X: Any, *, reset: bool, dense_type: Callable[[np.ndarray], Any] = DenseDirections
) -> Any:
    """A user's dense or sparse X of finite numbers as directions, which rows of zeros lack; dense rows are not copied.

    ValueError if X has strings, values that are not finite, or a single column.
    """
    valid = validate_numbers(estimator, X, [np.float64, np.float32], reset=reset)
    if sp.issparse(valid):
        return as_directions(valid.astype(np.float64, copy=False))
    return dense_type(valid)
