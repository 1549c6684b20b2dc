"""Initial directions of components: k-means++ and rounds of spherical k-means."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...random._keys import Purpose, fold_in_each, subkey, uniform
from ...utils._threads import Workers
from .rows import DenseRows, DirectedRows

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
        self.sums = np.empty((len(self.blocks), rows.n_features, n_components))
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
        if isinstance(self.rows, DenseRows) and self.rows.n_rows > n_sampled:
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
        totals = self.workers.run(
            self.rows.expect,
            [(*block, *common, self.sums[b], self.sizes[b], *filled) for b, block in enumerate(self.blocks)],
        )
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

    def _sampled(self, rows: DenseRows, n: int, key: np.uint64) -> SphericalKMeans:
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
