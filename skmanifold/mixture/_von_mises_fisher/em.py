"""Expectation-maximisation for a mixture of von Mises-Fisher distributions."""

from __future__ import annotations

import math
import warnings
from functools import cached_property, lru_cache
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
_BLOCK_CELLS = 1 << 20  # minimum of entries times components in a block: about a millisecond
_MAX_SUMS_BYTES = 1 << 28  # of all blocks
_FIRST_ROUNDS = 3  # with fewer rounds of spherical k-means the prior depends too much on the seeds
_N_TRIED = 5  # seedings, of which the best is used: better and cheaper than the same number of runs of EM
_MAX_PRIOR_RATIO = 1.0 - 1e-6
_MAX_RATIO = 1.0 - 1e-12  # maximum mean resultant length, because of rounding


class Mixture(NamedTuple):
    """The parameters of a mixture."""

    weights: np.ndarray  # (K,)
    directions: np.ndarray  # (n_features, K), so that an entry of X uses one contiguous row
    concentrations: np.ndarray  # (K,)

    def log_peaks(self) -> np.ndarray:
        """Logs of the weights times the densities at the mean directions, (K,)."""
        return np.log(self.weights) + log_peak(len(self.directions), self.concentrations)


class Climb(NamedTuple):
    """State of the EM iterations from one initialisation."""

    mixture: Mixture
    labels: np.ndarray
    trace: list[float]
    converged: bool

    def finished(self, rows: Directions, max_iter: int, tol: float) -> dict[str, Any]:
        """Fitted attributes; warns if EM stopped at `max_iter` before it converged, unless `tol` is 0."""
        if not self.converged and len(self.trace) >= max_iter and tol > 0.0:
            warnings.warn(
                f"EM stopped after max_iter={max_iter} iterations, before it converged: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self.attributes(rows)

    def attributes(self, rows: Directions) -> dict[str, Any]:
        """Fitted attributes of the estimator."""
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
    """E-step and M-step of EM on some rows, in blocks that depend only on the shape of the data.

    `expect` stores the sums of the rows by component, from which `maximize` computes the parameters.
    """

    def __init__(self, rows: Directions, row_weights, n_components: int, hard: bool, concentration, workers: Workers):
        self.rows = rows
        self.row_weights = row_weights
        self.total = float(row_weights.sum())
        self.hard = hard
        self.concentration = concentration
        self.workers = workers
        # Each block has separate sums, which should cost little compared with reading the rows.
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
        self._prior_ratio = 0.0  # mean cosine under the prior, set by the initialisation

    def seed(self, key: np.uint64, method: str) -> np.ndarray:
        """Draw initial directions from the rows by their weights; returns them as columns.

        Rows are sorted by hashes of their contents before drawing, so that copies of a row have the same effect as a
        weight. With k-means++ a few rows are tried for each direction.
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
            cumulative = np.cumsum(mass[order])
            if cumulative[-1] == 0.0:  # no direction is left
                cumulative = np.cumsum(self.row_weights[order])
            drawn = [uniform(key, place * n_tried + trial) * cumulative[-1] for trial in range(n_tried)]
            tried = order[np.searchsorted(cumulative, drawn, side="right")]
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
        """Indices that sort the rows by hashes of their contents."""
        hashes = np.empty(self.rows.n_rows, np.uint64)
        hash_rows(self.rows.indptr, self.rows.indices, self.rows.data.view(np.uint64), hashes)
        return np.argsort(hashes, kind="stable")

    def begin_at_rows(self, key: np.uint64, method: str) -> Mixture:
        """Initialise from several draws of `seed`; returns the one with the largest mean cosine within components."""
        begun = []
        for trial in range(_N_TRIED):
            mixture = self.begin(self.seed(subkey(key, trial), method))
            begun.append((self._prior_ratio, mixture))
        self._prior_ratio, best = max(begun, key=lambda start: start[0])
        return best

    def begin(self, directions: np.ndarray) -> Mixture:
        """Initial parameters by rounds of spherical k-means from the directions; also sets the prior."""
        alike = np.ones(directions.shape[1])
        for _ in range(_FIRST_ROUNDS - 1):
            self._assign_rows(directions, alike, alike, hard=True)
            directions, _ = self._mean_directions(directions)
        self._assign_rows(directions, alike, alike, hard=True)
        lengths = np.sqrt(np.square(self.sums[0]).sum(axis=0))
        self._prior_ratio = min(lengths.sum() / self.total, _MAX_PRIOR_RATIO)
        return self.maximize(directions)

    def expect(self, mixture: Mixture) -> float:
        """E-step: assign the rows to components; returns the lower bound at these parameters."""
        peaks = log_peak(self.rows.n_features, mixture.concentrations)
        log_peaks = np.log(mixture.weights) + peaks
        total = self._assign_rows(mixture.directions, mixture.concentrations, log_peaks, self.hard)
        return (total - self._penalty(mixture.concentrations, peaks)) / self.total

    def _assign_rows(self, directions, concentrations, log_peaks, hard: bool) -> float:
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
        """M-step: parameters from the sums. Components whose rows sum to zero keep their `directions`."""
        directions, lengths = self._mean_directions(directions)
        sizes = self.sizes[0]
        lengths = np.minimum(lengths, sizes)  # rounding may exceed the bound
        return Mixture(sizes / sizes.sum(), directions, self._concentrations(lengths, sizes))

    def _mean_directions(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions and lengths of the sums of rows, after components without rows were filled."""
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
                sums[:, k] = sizes[k] * dense_row(self.rows, row)

    def _concentrations(self, lengths, sizes) -> np.ndarray:
        if self.concentration == "shared":
            lengths, sizes = np.full(len(sizes), lengths.sum()), np.full(len(sizes), sizes.sum())
        elif self.concentration is not None:
            return np.full(len(sizes), float(self.concentration))
        ratios = np.minimum((lengths + self._prior_ratio) / (sizes + 1.0), _MAX_RATIO)
        return inverse_bessel_ratio(self.rows.n_features, ratios)

    def _penalty(self, concentrations, peaks) -> float:
        """Sum of KL divergences from a distribution with the concentration of the prior to those of the components.

        `peaks` are the results of `log_peak` for the concentrations.
        """
        if self.concentration is not None:
            n_fitted = int(self.concentration == "shared")
            concentrations, peaks = concentrations[:n_fitted], peaks[:n_fitted]
        prior, prior_peak = _prior_component(self.rows.n_features, self._prior_ratio)
        return float(np.sum((concentrations - prior) * (1.0 - self._prior_ratio) + prior_peak - peaks))


@lru_cache(maxsize=16)
def _prior_component(n_features: int, prior_ratio: float) -> tuple[float, float]:
    """Concentration with this mean cosine, and its `log_peak`; the same in all iterations of a fit."""
    concentration = inverse_bessel_ratio(n_features, prior_ratio)
    return float(concentration), float(log_peak(n_features, concentration))


def log_peak(n_features: int, concentrations) -> np.ndarray:
    """Log density at the mean direction relative to the uniform distribution."""
    return log_density_at_mode(n_features, concentrations) - _uniform_peak(n_features)


@lru_cache(maxsize=16)
def _uniform_peak(n_features: int) -> float:
    """Log density of the uniform distribution."""
    return float(log_density_at_mode(n_features, 0.0))


def dense_row(rows: Directions, row: int) -> np.ndarray:
    """One row as a dense vector, (n_features,)."""
    start, stop = rows.indptr[row], rows.indptr[row + 1]
    dense = np.zeros(rows.n_features)
    dense[rows.indices[start:stop]] = rows.data[start:stop]
    return dense
