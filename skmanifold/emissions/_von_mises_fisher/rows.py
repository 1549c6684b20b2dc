"""Rows of directions, sparse or dense as the user gave them, and initial directions by spherical k-means."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...numerics.products import MOST_ROWS, RowProducts
from ...numerics.row_hash import hash_hashes
from ...random._keys import Purpose, fold_in_each, subkey, uniform
from ...sparse.directions import Directions, UnitRows, fill_dense_keys, read_directions
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .._linear_kernels import add_entries, add_labelled, add_shared
from .dense_kernels import add_dense_labelled, assign_dense

# In kernels `csr` are sparse rows, (indptr, indices, data). `parameters` are directions, (n_features, K),
# concentrations, and log densities at the mean directions or their sums with the logs of weights. *Terms* of a row are
# ``log_peaks + concentrations (cosine - 1)``.

_LEAST_LOG_SHARE = -40.0  # smaller responsibilities are lost in rounding when added to 1
_MAX_BLOCKS = 32
_BLOCK_CELLS = 1 << 20  # minimum of entries times components in a block: about a millisecond
_MAX_SUMS_BYTES = 1 << 28  # of all blocks
_CELLS_AT_ONCE = 1 << 18  # entries whose hashes are computed at a time
_ROWS_OF_BLOCK = 2048  # of dense rows, at least: a few milliseconds


# Kernels of sparse rows


@njit(cache=True, nogil=True)
def fill_row_scores(csr, row, parameters, scores):
    """Fill `scores`, (n,), with the terms of the first n components for a row."""
    indptr, indices, data = csr
    directions, concentrations, log_peaks = parameters
    scores[:] = 0.0
    add_entries(indptr, indices, data, row, len(scores), directions, scores)
    for k in range(len(scores)):
        scores[k] = log_peaks[k] + concentrations[k] * (scores[k] - 1.0)


@njit(cache=True, nogil=True)
def _normalize_row(scores, best, shares):
    """Write the normalised exponentials of the scores to `shares`; returns the log of the sum."""
    total = 0.0
    for k in range(len(scores)):
        below = scores[k] - scores[best]
        shares[k] = math.exp(below) if below > _LEAST_LOG_SHARE else 0.0
        total += shares[k]
    for k in range(len(scores)):
        shares[k] /= total
    return scores[best] + math.log(total)


@njit(cache=True, nogil=True)
def _expect_rows(first, stop, csr, row_weights, parameters, hard, sums, sizes, log_density, labels):
    """E step for a range of rows: assign rows to components as `assign_dense`, and add them to `sums`, (n_features, K).

    Arrays of rows are those of all rows.
    """
    (indptr, indices, data), n = csr, len(sizes)
    scores = np.empty(n)
    shares = np.zeros(n)
    total = 0.0
    for row in range(first, stop):
        fill_row_scores(csr, row, parameters, scores)
        best = 0
        for k in range(1, n):
            if scores[k] > scores[best]:
                best = k
        labels[row] = best
        log_density[row] = scores[best] if hard else _normalize_row(scores, best, shares)
        weight = row_weights[row]
        if weight == 0.0:
            continue
        total += weight * log_density[row]
        # `shares` is all zeros with a hard assignment, except for this row's component.
        if hard:
            shares[best] = 1.0
        n_chosen = 0
        for k in range(n):
            n_chosen += shares[k] > 0.0
            sizes[k] += weight * shares[k]
        if n_chosen < 4 + n // 16:  # few: then reading the entries again costs less than adding zeros
            for k in range(n):
                if shares[k] > 0.0:
                    for e in range(indptr[row], indptr[row + 1]):
                        sums[indices[e], k] += weight * data[e] * shares[k]
        else:
            for e in range(indptr[row], indptr[row + 1]):
                x = weight * data[e]
                feature_sums = sums[indices[e]]
                for k in range(n):
                    feature_sums[k] += x * shares[k]
        if hard:
            shares[best] = 0.0
    return total


@njit(cache=True, nogil=True)
def _add_row_scores(first, stop, csr, parameters, out):
    """Add the terms of a range of rows to `out`, (stop - first, K)."""
    scores = np.empty(out.shape[1])
    for row in range(first, stop):
        fill_row_scores(csr, row, parameters, scores)
        for k in range(len(scores)):
            out[row - first, k] += scores[k]


# Rows


class _DirectedRows:
    """What dense and sparse rows have in common.

    Both have these methods for a range of rows, which threads run at the same time. `parameters` are directions,
    (n_features, K), concentrations, and log densities at the mean directions, perhaps plus logs of weights.

    - ``expect(first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels)``: see `assign_dense`;
      adds rows to `sums`, (n_features, K).
    - ``add_log_densities(first, stop, parameters, out)``: add log densities to `out`, (stop - first, K).
    - ``add_labelled(first, stop, labels, sizes, sums)`` and ``add_shares(first, stop, shares, sizes, sums)``: add rows
      to the sizes, (K,), and sums, (K, n_features), by their labels or membership probabilities.
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

    def empty_sums(self, n_blocks: int, n_components: int) -> np.ndarray:
        """Space for sums of blocks, (n_blocks, n_features, K), in the order of memory of the kernels."""
        return np.empty((n_blocks, self.n_features, n_components))

    def expect(self, first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels) -> float:
        """E step for a range of rows; returns the weighted sum of the log densities."""
        found = sums, sizes, log_density, labels
        return _expect_rows(first, stop, self[:3], row_weights, tuple(parameters), hard, *found)

    def add_log_densities(self, first, stop, parameters, out) -> None:
        """Add log densities of a range of rows."""
        _add_row_scores(first, stop, self[:3], tuple(parameters), out)

    def add_labelled(self, first, stop, labels, sizes, sums) -> None:
        """Add rows to the sums of their labels."""
        add_labelled(first, stop, *self[:3], labels, sizes, sums.T)

    def add_shares(self, first, stop, shares, sizes, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        totals = np.zeros(sums.T.shape)  # with contiguous components
        add_shared(first, stop, *self[:3], shares, sizes, totals)
        sums += totals.T

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        out = np.empty(self.n_rows, np.uint64)
        self.fill_keys(np.uint64(0), np.arange(self.n_rows), out)
        return out

    def part(self, start: int, stop: int) -> SparseRows:
        """The rows `start` to `stop`, or to the last."""
        return self._replace(indptr=self.indptr[start : min(stop, self.n_rows) + 1])


class DenseUnitRows(_DirectedRows, UnitRows):
    """Dense rows of float32 or float64, which stay as they are: in memory or mapped from a file, in any order."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values)
        if values.dtype == np.float32:
            self.least_gap = 1e-6

    def blocks(self, n_components: int) -> list[tuple[int, int]]:
        """Ranges of rows whose separate sums cost little compared with the products."""
        return self._split(self.n_rows // _ROWS_OF_BLOCK, n_components)

    def empty_sums(self, n_blocks: int, n_components: int) -> np.ndarray:
        """Space for sums of blocks, (n_blocks, n_features, K), in the order of memory of the kernels."""
        return np.empty((n_blocks, n_components, self.n_features)).swapaxes(1, 2)

    def expect(self, first, stop, row_weights, parameters, hard, sums, sizes, log_density, labels) -> float:
        """E step for a range of rows; returns the weighted sum of the log densities."""
        directions, *of_terms = parameters
        block = RowProducts(directions, self.values.dtype)
        work = np.empty((5, block.n_rows + 8))
        for a, b, place in self._blocks(first, stop, block.n_rows):
            factors, weights, own = self._inverses[a:b], row_weights[a:b], labels[a:b]
            given = block.multiply(*place), work, factors, weights, *of_terms, hard
            assign_dense(*given, block.weights, sizes, log_density[a:b], own)
            if hard:
                add_dense_labelled(*place[:2], factors, weights, own, sizes, sums.T)
            else:
                block.add_sums(*place, sums.T)
        block.flush(sums.T)
        return float((row_weights[first:stop] * log_density[first:stop]).sum())

    def add_log_densities(self, first, stop, parameters, out) -> None:
        """Add log densities of a range of rows."""
        directions, concentrations, log_peaks = parameters
        block = RowProducts(directions, self.values.dtype)
        for a, b, place in self._blocks(first, stop, block.n_rows):
            cosines = self._inverses[a:b, np.newaxis] * block.multiply(*place)[: b - a, : len(log_peaks)]
            out[a - first : b - first] += log_peaks + concentrations * (cosines - 1.0)

    def add_labelled(self, first, stop, labels, sizes, sums) -> None:
        """Add rows to the sums of their labels."""
        for a, b, place in self._blocks(first, stop, MOST_ROWS):
            of_rows = self._inverses[a:b], np.ones(b - a), labels[a - first : b - first]
            add_dense_labelled(*place[:2], *of_rows, sizes, sums)

    def add_shares(self, first, stop, shares, sizes, sums) -> None:
        """Add rows times their membership probabilities to the sums."""
        sizes += shares.sum(axis=0)
        block = RowProducts(sums.T, self.values.dtype)
        for a, b, place in self._blocks(first, stop, block.n_rows):
            block.weights[: len(sizes), : b - a] = shares[a - first : b - first].T * self._inverses[a:b]
            block.add_sums(*place, sums)
        block.flush(sums)

    def hashes(self) -> np.ndarray:
        """A hash of the contents of each row, (n_rows,) uint64."""
        out, m = np.empty(self.n_rows, np.uint64), self.n_features
        for a, b in split_range(self.n_rows, max(1, _CELLS_AT_ONCE // m)):
            cells = self.values[a:b].astype(np.float64, order="C") + 0.0  # 0 equals -0
            fill_dense_keys(np.uint64(0), cells.view(np.uint64), out[a:b])
        return out

    def part(self, start: int, stop: int) -> DenseUnitRows:
        """The rows `start` to `stop`, or to the last."""
        return DenseUnitRows(self.values[start:stop])

    @cached_property
    def _in_order(self) -> np.ndarray | None:
        """The rows as kernels read them, or None if they must be copied."""
        values = self.values
        if not (values.flags.c_contiguous and values.flags.aligned):
            return None
        if values.flags.writeable:
            return values
        # Kernels, which only read it, would be compiled again for a read-only array.
        memory: Any = (ctypes.c_char * values.nbytes).from_address(values.ctypes.data)
        return np.frombuffer(memory, values.dtype).reshape(values.shape)

    def _blocks(self, first: int, stop: int, size: int) -> Iterator[tuple[int, int, tuple[np.ndarray, int, int]]]:
        """Ranges of rows, and an array and places with them; their products with their factors are unit vectors."""
        unusual = self._unusual[slice(*np.searchsorted(self._unusual, (first, stop)))]
        for a in range(first, stop, size):
            b = min(a + size, stop)
            among = unusual[(a <= unusual) & (unusual < b)] if len(unusual) else unusual
            if self._in_order is not None and not len(among):
                yield a, b, (self._in_order, a, b)
                continue
            rows = self.values[a:b].copy(order="C")
            for row in among:
                rows[row - a] = self.unit(row)
            yield a, b, (rows, 0, b - a)


DirectedRows = SparseRows | DenseUnitRows


def read_rows(estimator: Any, X: Any, *, reset: bool) -> DirectedRows:
    """Validate a user's dense or sparse X of finite numbers of either sign, as `read_directions` does."""
    rows = read_directions(estimator, X, reset=reset, dense_type=DenseUnitRows)
    return SparseRows(*rows) if isinstance(rows, Directions) else rows


_FIRST_ROUNDS = 3  # with fewer rounds the mean cosine depends too much on the seeds
_N_TRIED = 5  # seedings, of which the best is used: better and cheaper than the same number of fits
_MAX_COSINE = 1.0 - 1e-6
_LEAST_SAMPLE, _SAMPLE_PER_COMPONENT = 2000, 30  # dense rows among which directions are found, if there are more
_TO_UNIT = 2.0**-64


class Start(NamedTuple):
    """Clusters from which a fit begins."""

    mean_cosine: float  # of the rows with the directions of their clusters
    sizes: np.ndarray  # (K,): sums of weights
    lengths: np.ndarray  # (K,): of the sums of rows
    directions: np.ndarray  # (n_features, K)


class SphericalKMeans:
    """Assignments of rows to K directions, in blocks that depend only on the shape of the data.

    `row_weights`, (n_rows,), are 0 for rows without a direction. Entry 0 of `sums`, (n_blocks, n_features, K), and of
    `sizes` is of all blocks; `log_density` is of each row or, with a hard assignment, of row and label.
    """

    def __init__(self, rows: DirectedRows, row_weights: np.ndarray, n_components: int, workers: Workers) -> None:
        self.rows = rows
        self.row_weights = row_weights
        self.total = float(row_weights.sum())
        self.workers = workers
        self.blocks = rows.blocks(n_components)
        self.sums = rows.empty_sums(len(self.blocks), n_components)
        self.sizes = np.empty((len(self.blocks), n_components))
        self.log_density = np.empty(rows.n_rows)
        self.labels = np.empty(rows.n_rows, np.int64)

    def seed(self, key: np.uint64, method: str) -> np.ndarray:
        """Draw initial directions from the rows by their weights; returns them as columns.

        Rows are sorted by hashes of their contents, so that copies have the effect of a weight. K-means++ tries a few
        rows for each direction.
        """
        rows = self.rows
        n_components = self.sums.shape[2]
        n_tried = 2 + int(math.log(n_components)) if method == "k-means++" else 1
        order = self._content_order
        gaps = np.full(rows.n_rows, 2.0)
        with_trial = np.empty((rows.n_rows, n_tried))
        mass = self.row_weights
        seeds = np.empty((rows.n_features, n_components))

        def fill_gaps(first: int, stop: int, directions: np.ndarray) -> None:
            """One minus the cosine of a row with the nearest seed, if each of these directions were one more."""
            n, below = n_tried, np.zeros((stop - first, n_tried))
            rows.add_log_densities(first, stop, (directions, np.ones(n), np.zeros(n)), below)  # cosines minus one
            below[below >= -rows.least_gap] = 0.0
            np.minimum(gaps[first:stop, np.newaxis], -below, out=with_trial[first:stop])

        for place in range(n_components):
            cumulative = np.cumsum(mass[order])
            if cumulative[-1] == 0.0:  # no direction is left
                cumulative = np.cumsum(self.row_weights[order])
            drawn = [uniform(key, place * n_tried + trial) * cumulative[-1] for trial in range(n_tried)]
            tried = order[np.searchsorted(cumulative, drawn, side="right")]
            directions = np.ascontiguousarray(rows.dense(tried).T)
            self.workers.run(fill_gaps, [(*block, directions) for block in self.blocks])
            best = np.argmin((self.row_weights[:, np.newaxis] * with_trial).sum(axis=0))
            seeds[:, place] = directions[:, best]
            gaps = with_trial[:, best].copy()
            mass = self.row_weights * (gaps if method == "k-means++" else gaps > 0.0)
        return seeds

    def begin_at_rows(self, key: np.uint64, method: str) -> Start:
        """`begin` from several draws of `seed`; returns the clusters with the largest mean cosine.

        Many dense rows are replaced by a sample, in which the directions are found.
        """
        n_sampled = max(_LEAST_SAMPLE, _SAMPLE_PER_COMPONENT * self.sums.shape[2])
        if isinstance(self.rows, DenseUnitRows) and self.rows.n_rows > n_sampled:
            return self.begin(self._sampled(self.rows, n_sampled, key).begin_at_rows(key, method).directions)
        begun = [self.begin(self.seed(subkey(key, trial), method)) for trial in range(_N_TRIED)]
        return max(begun, key=lambda start: start.mean_cosine)

    def labels_from_rows(self, key: np.uint64) -> np.ndarray:
        """Labels of the rows by spherical k-means from seeds, (n_rows,) int32."""
        alike = np.ones(self.sums.shape[2])
        self.assign_rows((self.begin_at_rows(key, "k-means++").directions, alike, alike), hard=True)
        return self.labels.astype(np.int32)

    def begin(self, directions: np.ndarray) -> Start:
        """Clusters after rounds of spherical k-means from directions, which are columns."""
        alike = np.ones(directions.shape[1])
        for _ in range(_FIRST_ROUNDS):
            self.assign_rows((directions, alike, alike), hard=True)
            cosines = np.sqrt(np.square(self.sums[0]).sum(axis=0)).sum() / self.total
            directions, lengths = self.mean_directions(directions)
        return Start(float(min(cosines, _MAX_COSINE)), self.sizes[0].copy(), lengths, directions)

    def assign_rows(self, parameters: tuple[np.ndarray, ...], hard: bool) -> float:
        """Assign rows to components, hard or by responsibilities, and add them; returns the sum of log densities.

        `parameters` are directions, concentrations and the logs of weights times densities at the mean directions.
        """
        self.sums[:] = 0.0
        self.sizes[:] = 0.0
        common, filled = (self.row_weights, parameters, hard), (self.log_density, self.labels)
        tasks = [(*block, *common, self.sums[b], self.sizes[b], *filled) for b, block in enumerate(self.blocks)]
        totals = self.workers.run(self.rows.expect, tasks)
        for b in range(1, len(self.blocks)):
            self.sums[0] += self.sums[b]
            self.sizes[0] += self.sizes[b]
        return math.fsum(totals)

    def mean_directions(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions and lengths of the sums of rows, after components without rows were filled.

        Components whose rows sum to zero keep their `directions`.
        """
        sums = self.sums[0]
        self._fill_empty(sums, self.sizes[0])
        lengths = np.sqrt(np.square(sums).sum(axis=0))
        known = lengths > 0.0
        return np.where(known, sums / np.where(known, lengths, 1.0), directions), lengths

    def _fill_empty(self, sums, sizes) -> None:
        """Give each component without rows one of the rows with the lowest densities."""
        empty = np.flatnonzero(sizes == 0.0)
        if len(empty):
            usable = np.flatnonzero(self.row_weights)
            worst = usable[np.argsort(self.log_density[usable], kind="stable")]
            for k, row in zip(empty, worst, strict=False):
                sizes[k] = self.row_weights[row]
                sums[:, k] = sizes[k] * self.rows.dense(np.array([row]))[0]

    def _sampled(self, rows: DenseUnitRows, n: int, key: np.uint64) -> SphericalKMeans:
        """The same for n rows drawn by their weights, with replacement."""
        cumulative = np.cumsum(self.row_weights[self._content_order])
        places = fold_in_each(subkey(key, Purpose.SUBSAMPLE), np.arange(n)) * _TO_UNIT * cumulative[-1]
        last = np.searchsorted(cumulative, cumulative[-1])  # rows after it have no weight
        chosen = self._content_order[np.minimum(np.searchsorted(cumulative, places, side="right"), last)]
        return SphericalKMeans(rows.take(np.sort(chosen)), np.ones(n), self.sums.shape[2], self.workers)

    @cached_property
    def _content_order(self) -> np.ndarray:
        """Indices that sort the rows by hashes of their contents."""
        return np.argsort(self.rows.hashes(), kind="stable")
