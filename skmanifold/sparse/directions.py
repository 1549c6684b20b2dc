"""Rows of data as directions: unit vectors in canonical CSR layout, or dense rows with numbers that make them so."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ..random._keys import fold_in, row_key
from ..utils._njit import njit
from ..utils._threads import Workers, split_by_task, split_range
from ..utils._validation import validate_data
from .counts import canonical_csr, index_columns, refuse_texts, take_rows

SumOfRows = Callable[[np.ndarray, Workers], np.ndarray]

# `DenseDirections` has the same for dense rows. The kernels here serve both; they have topics with words as rows,
# (V, K), so that the entries of a word are adjacent in memory.

_CELLS_OF_TASK = 1 << 19


class Directions(NamedTuple):
    """Unit vectors in CSR order: row i has the values ``data[indptr[i]:indptr[i + 1]]``; a zero row has no entries."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    data: np.ndarray  # (nnz,) float64
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def directed(self) -> np.ndarray:
        """Rows that have a direction, ascending int64."""
        return np.flatnonzero(np.diff(self.indptr))

    def dense(self, rows: np.ndarray) -> np.ndarray:
        """The rows with these indices as dense unit vectors, (n, n_features)."""
        return self.take(rows).matrix().toarray()

    def matrix(self, rows: np.ndarray | slice = slice(None)) -> sp.csr_array:
        """The rows with these indices in CSR format."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=(self.n_rows, self.n_features))[rows]

    def take(self, rows: np.ndarray) -> Self:
        """The rows with these indices, copied."""
        return type(self)(*take_rows(*self[:3], rows), self.n_features)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Sums of the features over rows, and of their squares."""
        V = self.n_features
        return np.bincount(self.indices, self.data, minlength=V), np.bincount(self.indices, self.data**2, minlength=V)

    def work_before(self, rows: np.ndarray) -> np.ndarray:
        """Number of entries of the rows before each of these."""
        return np.concatenate(([0], np.cumsum(np.diff(self.indptr)[rows])))[:-1]

    def fill_products(self, rows: np.ndarray, start: int, stop: int, word_topic: np.ndarray, out: np.ndarray) -> None:
        """Products of ``rows[start:stop]`` with topics, (n_features, K), in these rows of `out`."""
        gather_products(*self[:3], rows, start, stop, word_topic, out)

    def add_pulls(self, rows: np.ndarray, pull: np.ndarray, scale: float, out: np.ndarray) -> None:
        """Add scale * sum_d v_d pull_d' to `out`, (n_features, K)."""
        add_pulls(*self[:3], rows, pull, scale, out)

    def fill_direction_gradient(self, rows, start, stop, squares, products, direction, cosine, sine, out) -> None:
        """See `fill_direction_gradient`."""
        fill_direction_gradient(*self[:3], rows, start, stop, squares, products, direction, cosine, sine, out)

    def fill_keys(self, key: np.uint64, rows: np.ndarray, out: np.ndarray) -> None:
        """Keys of rows, made of their directions."""
        fill_row_keys(key, *self[:2], self.data.view(np.uint64), rows, out)

    def weighted_sums(self, rows: np.ndarray) -> SumOfRows:
        """A function of weights, (n, K), and workers: the sum of these rows, all that have entries, times weights."""
        indptr, entries = np.empty(self.n_features + 1, np.int64), np.empty(len(self.indices), np.int64)
        index_columns(self.indices, indptr, entries)
        places = np.repeat(np.arange(len(rows)), np.diff(self.indptr)[rows])
        return partial(_sum_by_word, (indptr, places[entries], self.data[entries]))


def _sum_by_word(by_word: tuple[np.ndarray, ...], weights: np.ndarray, workers: Workers) -> np.ndarray:
    """The sum of rows times weights, (n, K), as (n_features, K), from entries in the order of words."""
    indptr = by_word[0]
    out = np.empty((len(indptr) - 1, weights.shape[1]))
    work = (indptr[:-1] + np.arange(len(out))) * weights.shape[1]
    tasks = split_by_task(work // _CELLS_OF_TASK)
    workers.run(sum_words, [(*part, *by_word, weights, out) for part in tasks])
    return out


def as_directions(X) -> Directions:
    """A validated matrix as directions; the matrix is not modified."""
    csr = canonical_csr(X)
    indptr = csr.indptr.astype(np.int64)
    n_entries = np.diff(indptr)
    full = n_entries > 0
    data = csr.data.astype(np.float64)  # a copy
    if full.any():
        # First divide by the largest entry of a row: squares of very long and very short rows overflow or underflow.
        starts = indptr[:-1][full]
        for reduce, power in ((np.maximum, False), (np.add, True)):
            sizes = reduce.reduceat(data * data if power else np.abs(data), starts)
            data /= np.repeat(np.sqrt(sizes) if power else sizes, n_entries[full])
    return Directions(indptr, np.require(csr.indices, np.int32, ["C", "W"]), data, csr.shape[1])


# Rows in CSR format


@njit(cache=True, nogil=True)
def gather_products(indptr, indices, data, rows, start, stop, word_topic, out):
    """Products b = beta'v of documents ``rows[start:stop]``; `out` is (n, K)."""
    for i in range(start, stop):
        row = rows[i]
        b = out[i]
        b[:] = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            value, topics = data[j], word_topic[indices[j]]
            for k in range(len(b)):
                b[k] += value * topics[k]


@njit(cache=True, nogil=True)
def add_pulls(indptr, indices, data, rows, pull, scale, out):
    """Add scale * sum_d v_d pull_d' to `out`, (V, K)."""
    for i in range(len(rows)):
        row, shares = rows[i], scale * pull[i]
        for j in range(indptr[row], indptr[row + 1]):
            value, topics = data[j], out[indices[j]]
            for k in range(len(shares)):
                topics[k] += value * shares[k]


@njit(cache=True, nogil=True)
def sum_words(start, stop, word_indptr, word_rows, word_data, weights, out):
    """Write the sum of documents times their weights for words `start` to `stop`, in the order of the documents."""
    n_components = weights.shape[1]
    for word in range(start, stop):
        cells = out[word]
        cells[:] = 0.0
        for i in range(word_indptr[word], word_indptr[word + 1]):
            value = word_data[i]
            row = weights[word_rows[i]]
            for k in range(n_components):
                cells[k] += value * row[k]


@njit(cache=True, nogil=True, _nrt=False)
def fill_row_keys(key, indptr, indices, bits, rows, out):
    """Keys of documents, made of their contents."""
    for i in range(len(rows)):
        out[i] = row_key(key, indices, bits, indptr[rows[i]], indptr[rows[i] + 1])


@njit(cache=True, nogil=True)
def fill_direction_gradient(indptr, indices, data, rows, start, stop, squares, products, direction, cosine, sine, out):
    """Write the gradient in f of the sum of lengths of the documents' projections on the cone of the topics.

    For documents ``rows[start:stop]`` topics are cos(w) u + sin(w) f and sin(w) u - cos(w) f, with `products` u'v, and
    others with `squares`, the sum of squared products. A topic with a negative product has no share.
    """
    out[:] = 0.0
    for i in range(start, stop):
        row = rows[i]
        product = 0.0
        for j in range(indptr[row], indptr[row + 1]):
            product += data[j] * direction[indices[j]]
        weight = _pull_of_direction(product, squares[i], products[i], cosine, sine)
        if weight != 0.0:
            for j in range(indptr[row], indptr[row + 1]):
                out[indices[j]] += weight * data[j]


@njit(cache=True, nogil=True)
def _pull_of_direction(product, square, other, cosine, sine):
    first = max(cosine * other + sine * product, 0.0)
    second = max(sine * other - cosine * product, 0.0)
    weight = sine * first - cosine * second
    return weight / math.sqrt(square + first * first + second * second) if weight != 0.0 else 0.0


# Blocks of dense unit vectors, (n, V)


@njit(cache=True, nogil=True)
def multiply_rows(units, word_topic, out):
    """Products of unit vectors with topics; `out` is (n, K). A product does not depend on the other rows."""
    V, K = word_topic.shape
    whole = V // 4 * 4
    for i in range(len(units)):
        x, b = units[i], out[i]
        b[:] = 0.0
        for v in range(0, whole, 4):  # four words at a time, so that the products are read and written less often
            p, q, r, s = x[v], x[v + 1], x[v + 2], x[v + 3]
            t0, t1, t2, t3 = word_topic[v], word_topic[v + 1], word_topic[v + 2], word_topic[v + 3]
            for k in range(K):
                b[k] += (p * t0[k] + q * t1[k]) + (r * t2[k] + s * t3[k])
        for v in range(whole, V):
            for k in range(K):
                b[k] += x[v] * word_topic[v, k]


@njit(cache=True, nogil=True)
def add_row_pulls(units, pull, scale, out):
    """Add scale * sum_d v_d pull_d' to `out`, (V, K)."""
    n, K = pull.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = scale * pull[i], scale * pull[i + 1], scale * pull[i + 2], scale * pull[i + 3]
        x0, x1, x2, x3 = units[i], units[i + 1], units[i + 2], units[i + 3]
        for v in range(len(out)):
            topics, p, q, r, s = out[v], x0[v], x1[v], x2[v], x3[v]
            for k in range(K):
                topics[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * d[k])
    for i in range(whole, n):
        shares, x = scale * pull[i], units[i]
        for v in range(len(out)):
            for k in range(K):
                out[v, k] += x[v] * shares[k]


@njit(cache=True, nogil=True)
def fill_dense_keys(key, bits, out):
    """Keys of dense documents, made of their contents: bits of their entries, (n, V) uint64."""
    for i in range(len(out)):
        of_row = key
        for v in range(bits.shape[1]):
            of_row = fold_in(of_row, bits[i, v])
        out[i] = of_row


@njit(cache=True, nogil=True)
def add_dense_direction_gradient(units, squares, products, direction, cosine, sine, out):
    """Add what `fill_direction_gradient` sums, for a block of rows."""
    for i in range(len(units)):
        x, product = units[i], 0.0
        for v in range(len(x)):
            product += x[v] * direction[v]
        weight = _pull_of_direction(product, squares[i], products[i], cosine, sine)
        if weight != 0.0:
            for v in range(len(x)):
                out[v] += weight * x[v]


_CELLS_AT_ONCE = 1 << 18  # of rows that are read at a time
_LEAST_SQUARE = 1e-30  # rows with smaller squared lengths, or larger ones than its inverse, are scaled twice
_BLOCK_ROWS = 256
_MAX_BLOCKS = 32  # whose sums are separate


class UnitRows:
    """Dense finite rows of float32 or float64, which stay as they are: in memory or mapped from a file, in any order.

    `has_direction`, (n_rows,), is false for rows of zeros.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = np.asarray(values)  # ranges of mapped arrays take longer
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
        self._inverses[self._unusual] = 1.0  # they are replaced by unit vectors
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

    def weighted_sums(self, rows: np.ndarray) -> SumOfRows:
        """A function of weights, (n, K), and workers: the sum of these rows times weights."""
        return partial(self._sum_in_blocks, rows)

    def _sum_in_blocks(self, rows: np.ndarray, weights: np.ndarray, workers: Workers) -> np.ndarray:
        """The sum of rows times weights, (n, K), as (n_features, K), in blocks that depend only on n."""
        n = len(rows)
        blocks = split_range(n, max(_BLOCK_ROWS, -(-n // _MAX_BLOCKS)))
        parts = np.zeros((len(blocks), self.n_features, weights.shape[1]))

        def add(block: int, start: int, stop: int) -> None:
            self.add_pulls(rows[start:stop], weights[start:stop], 1.0, parts[block])

        workers.run(add, [(block, *task) for block, task in enumerate(blocks)])
        return np.add.reduce(parts, axis=0)

    def _blocks(self, rows: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int, np.ndarray]]:
        for a, b in split_range(stop - start, _BLOCK_ROWS):
            yield start + a, start + b, self.dense(rows[start + a : start + b])


AnyDirections = Directions | DenseDirections


def read_directions(
    estimator: Any, X: Any, *, reset: bool, dense_type: Callable[[np.ndarray], Any] = DenseDirections
) -> Any:
    """A user's dense or sparse X of finite numbers as directions, which rows of zeros lack; dense rows are not copied.

    ValueError if X has strings, values that are not finite, or a single column.
    """
    refuse_texts(estimator, X, "directions", "TfidfVectorizer")
    least = 2 if reset else 1  # not at later calls, where the error about a different number of columns is more helpful
    types = [np.float64, np.float32]
    try:
        valid = validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=types, ensure_min_features=least)
    except ValueError as error:
        if "contains NaN" not in str(error):
            raise
        cure = "put an imputer before it in a pipeline, or remove these rows"
        raise ValueError(f"X contains NaN, but directions have no missing cells: {cure}.") from error
    if sp.issparse(valid):
        return as_directions(valid.astype(np.float64, copy=False))
    return dense_type(valid)
