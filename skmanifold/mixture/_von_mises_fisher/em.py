"""Expectation-maximisation of a mixture of von Mises-Fisher laws."""

from __future__ import annotations

import math
import warnings
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...distributions import inverse_bessel_ratio
from ...distributions._bessel import log_density_at_mode
from ...random._keys import subkey, uniform
from ...sparse.directions import Directions
from ...utils._threads import Workers, split_range
from .kernels import expect_rows, fill_gaps, hash_rows

_MAX_BLOCKS = 32
_BLOCK_CELLS = 1 << 20  # entries of rows times components, at least, of a block: about a millisecond
_MAX_SUMS_BYTES = 1 << 28  # of all blocks together
_FIRST_ROUNDS = 3  # after fewer the prior hangs on luck
_N_TRIED = 5  # first directions, of which the best go on: better than as many runs of EM, and cheaper
_MAX_PRIOR_RATIO = 1.0 - 1e-6
_MAX_RATIO = 1.0 - 1e-12  # of a resultant length: beyond, rounding decides


class Mixture(NamedTuple):
    """The parameters of a mixture."""

    weights: np.ndarray  # (K,)
    directions: np.ndarray  # (n_features, K): a row of X reads whole rows of it
    concentrations: np.ndarray  # (K,)

    def log_peaks(self) -> np.ndarray:
        """Logs of the weights times the densities at the mean directions."""
        return np.log(self.weights) + log_peak(len(self.directions), self.concentrations)


class Climb(NamedTuple):
    """Where the iterations from some first directions stand."""

    mixture: Mixture
    labels: np.ndarray
    trace: list[float]
    converged: bool

    def finished(self, rows: Directions, max_iter: int, tol: float) -> dict[str, Any]:
        """The attributes; warns if the iterations ran out before the gain fell below `tol`, which is not 0."""
        if not self.converged and len(self.trace) >= max_iter and tol > 0.0:
            warnings.warn(
                f"EM stopped after max_iter={max_iter} iterations, before it converged: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self.attributes(rows)

    def attributes(self, rows: Directions) -> dict[str, Any]:
        """What the estimator has when it is fitted."""
        labels = self.labels.copy()
        labels[np.diff(rows.indptr) == 0] = np.argmax(self.mixture.weights)
        return {
            "weights_": self.mixture.weights,
            "mean_directions_": np.ascontiguousarray(self.mixture.directions.T),
            "concentrations_": self.mixture.concentrations,
            "labels_": labels,
            "converged_": self.converged,
            "n_iter_": len(self.trace),
            "lower_bound_": self.trace[-1],
            "log_likelihood_trace_": np.array(self.trace),
        }


class VonMisesFisherEM:
    """Both steps of an iteration on some rows, in blocks of rows that depend on the data's shape alone.

    `expect` leaves the rows' sums by component here, from which `maximize` makes parameters.
    """

    def __init__(self, rows: Directions, row_weights, n_components: int, hard: bool, concentration, workers: Workers):
        self.rows = rows
        self.row_weights = row_weights
        self.total = float(row_weights.sum())
        self.hard = hard
        self.concentration = concentration
        self.workers = workers
        # Each block has sums of its own, which should cost little beside reading the rows.
        n_cells = rows.n_features * n_components
        n_entries = len(rows.indices)
        most = min(
            _MAX_BLOCKS,
            n_entries * n_components // _BLOCK_CELLS,
            n_entries // (4 * rows.n_features),
            _MAX_SUMS_BYTES // (8 * n_cells),
        )
        self.blocks = split_range(rows.n_rows, -(-rows.n_rows // max(1, most)))
        self.sums = np.empty((len(self.blocks), rows.n_features, n_components))
        self.sizes = np.empty((len(self.blocks), n_components))
        self.log_density = np.empty(rows.n_rows)
        self.labels = np.empty(rows.n_rows, np.int64)
        self._prior_ratio = 0.0  # the mean cosine that the prior expects, known when iterations begin

    def seed(self, key: np.uint64, method: str) -> np.ndarray:
        """Directions of rows, drawn by their weights, as columns.

        Rows are drawn in the order of what their contents hash to, so that a row's copies are as good as its weight.
        With k-means++ a few rows are tried for each direction.
        """
        rows = self.rows
        n_components = self.sums.shape[2]
        n_tried = 2 + int(math.log(n_components)) if method == "k-means++" else 1
        order = self._content_order
        gaps = np.full(rows.n_rows, 2.0)
        with_trial = np.empty((rows.n_rows, n_tried))
        mass = self.row_weights
        seeds = np.empty((rows.n_features, n_components))
        for place in range(n_components):
            rising = np.cumsum(mass[order])
            if rising[-1] == 0.0:  # no direction is left
                rising = np.cumsum(self.row_weights[order])
            drawn = [uniform(key, place * n_tried + trial) * rising[-1] for trial in range(n_tried)]
            tried = order[np.searchsorted(rising, drawn, side="right")]
            directions = np.stack([dense_row(rows, row) for row in tried], axis=1)
            common = (*rows[:3], directions, gaps, with_trial)
            self.workers.run(fill_gaps, [(*block, *common) for block in self.blocks])
            best = np.argmin((self.row_weights[:, np.newaxis] * with_trial).sum(axis=0))
            seeds[:, place] = directions[:, best]
            gaps = with_trial[:, best].copy()
            mass = self.row_weights * (gaps if method == "k-means++" else gaps > 0.0)
        return seeds

    @cached_property
    def _content_order(self) -> np.ndarray:
        """The rows in the order of what their contents hash to."""
        hashes = np.empty(self.rows.n_rows, np.uint64)
        hash_rows(self.rows.indptr, self.rows.indices, self.rows.data.view(np.uint64), hashes)
        return np.argsort(hashes, kind="stable")

    def begin_at_rows(self, key: np.uint64, method: str) -> Mixture:
        """Begin at several draws of `seed`; the one with the largest mean cosine within components goes on."""
        begun = []
        for trial in range(_N_TRIED):
            mixture = self.begin(self.seed(subkey(key, trial), method))
            begun.append((self._prior_ratio, mixture))
        self._prior_ratio, best = max(begun, key=lambda start: start[0])
        return best

    def begin(self, directions: np.ndarray) -> Mixture:
        """Parameters from rows dealt out to the nearest directions, which also settle the prior."""
        alike = np.ones(directions.shape[1])
        for _ in range(_FIRST_ROUNDS):
            self._deal_out(directions, alike, alike, hard=True)
            lengths = np.sqrt(np.square(self.sums[0]).sum(axis=0))
            self._prior_ratio = min(lengths.sum() / self.total, _MAX_PRIOR_RATIO)
            mixture = self.maximize(directions)
            directions = mixture.directions
        return mixture

    def expect(self, mixture: Mixture) -> float:
        """Deal the rows out; returns the lower bound at these parameters."""
        total = self._deal_out(mixture.directions, mixture.concentrations, mixture.log_peaks(), self.hard)
        return (total - self._penalty(mixture.concentrations)) / self.total

    def _deal_out(self, directions, concentrations, log_peaks, hard: bool) -> float:
        self.sums[:] = 0.0
        self.sizes[:] = 0.0
        common = (*self.rows[:3], self.row_weights, directions, concentrations, log_peaks, hard)
        filled = (self.log_density, self.labels)
        totals = self.workers.run(
            expect_rows,
            [(*block, *common, self.sums[b], self.sizes[b], *filled) for b, block in enumerate(self.blocks)],
        )
        for b in range(1, len(self.blocks)):
            self.sums[0] += self.sums[b]
            self.sizes[0] += self.sizes[b]
        return math.fsum(totals)

    def maximize(self, directions: np.ndarray) -> Mixture:
        """Parameters from the sums; components whose rows cancel keep their `directions`."""
        sums, sizes = self.sums[0], self.sizes[0]
        self._fill_empty(sums, sizes)
        lengths = np.sqrt(np.square(sums).sum(axis=0))
        known = lengths > 0.0
        directions = np.where(known, sums / np.where(known, lengths, 1.0), directions)
        lengths = np.minimum(lengths, sizes)  # but for rounding
        return Mixture(sizes / sizes.sum(), directions, self._concentrations(lengths, sizes))

    def _fill_empty(self, sums, sizes) -> None:
        """Give each component without rows one of those that had the lowest densities."""
        empty = np.flatnonzero(sizes == 0.0)
        if len(empty):
            usable = np.flatnonzero(self.row_weights)
            worst = usable[np.argsort(self.log_density[usable], kind="stable")]
            for k, row in zip(empty, worst, strict=False):
                sizes[k] = self.row_weights[row]
                sums[:, k] = sizes[k] * dense_row(self.rows, row)

    def _concentrations(self, lengths, sizes) -> np.ndarray:
        if self.concentration == "shared":
            lengths, sizes = np.full(len(sizes), lengths.sum()), np.full(len(sizes), sizes.sum())
        elif self.concentration is not None:
            return np.full(len(sizes), float(self.concentration))
        ratios = np.minimum((lengths + self._prior_ratio) / (sizes + 1.0), _MAX_RATIO)
        return inverse_bessel_ratio(self.rows.n_features, ratios)

    def _penalty(self, concentrations) -> float:
        """Sum of the divergences from a law with the prior's concentration to those of the components."""
        if self.concentration is not None:
            concentrations = concentrations[: self.concentration == "shared"]
        prior = inverse_bessel_ratio(self.rows.n_features, self._prior_ratio)
        peaks = log_peak(self.rows.n_features, np.append(prior, concentrations))
        return float(np.sum((concentrations - prior) * (1.0 - self._prior_ratio) + peaks[0] - peaks[1:]))


def log_peak(n_features: int, concentrations) -> np.ndarray:
    """Log density at the mean direction relative to the uniform law."""
    return log_density_at_mode(n_features, concentrations) - log_density_at_mode(n_features, 0.0)


def dense_row(rows: Directions, row: int) -> np.ndarray:
    """One row with its zeros, (n_features,)."""
    start, stop = rows.indptr[row], rows.indptr[row + 1]
    dense = np.zeros(rows.n_features)
    dense[rows.indices[start:stop]] = rows.data[start:stop]
    return dense
