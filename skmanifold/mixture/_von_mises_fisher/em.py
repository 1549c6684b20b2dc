"""Expectation-maximisation for a mixture of von Mises-Fisher distributions."""

from __future__ import annotations

import math
import warnings
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...distributions import inverse_bessel_ratio
from ...distributions._bessel import log_density_at_mode
from ...random._keys import Purpose, fold_in_each, subkey, uniform
from ...utils._conditions import MOST_COUNTED, Array, Real
from ...utils._declared import holds
from ...utils._threads import Workers
from .rows import DenseRows, DirectedRows

_FIRST_ROUNDS = 3  # with fewer rounds of spherical k-means the prior depends too much on the seeds
_N_TRIED = 5  # seedings, of which the best is used: better and cheaper than the same number of runs of EM
_MAX_PRIOR_RATIO = 1.0 - 1e-6
_MAX_RATIO = 1.0 - 1e-12  # maximum mean resultant length, because of rounding
_LEAST_SAMPLE, _SAMPLE_PER_COMPONENT = 2000, 30  # dense rows among which directions are found, if there are more
_TO_UNIT = 2.0**-64


class Mixture(NamedTuple):
    """The parameters of a mixture."""

    weights: np.ndarray  # (K,)
    directions: np.ndarray  # (n_features, K), so that an entry of X uses one contiguous row
    concentrations: np.ndarray  # (K,)

    def log_peaks(self) -> np.ndarray:
        """Logs of the weights times the densities at the mean directions, (K,)."""
        return np.log(self.weights) + log_peak(len(self.directions), self.concentrations)

    def attributes(self) -> dict[str, np.ndarray]:
        """The parameters as fitted attributes of the estimator."""
        return {
            "weights_": self.weights,
            "mean_directions_": np.ascontiguousarray(self.directions.T),
            "concentrations_": self.concentrations,
        }


@holds(
    lengths=Array("float64", ("n_components",), low=0, high=MOST_COUNTED),
    total=Real(above=0, high=MOST_COUNTED),
    prior_ratio=Real(low=0, high=1),
)
class DirectionStatistics(NamedTuple):
    """What a stream needs besides the parameters; the sums of rows are the lengths times the mean directions."""

    lengths: np.ndarray  # (K,): of the sums of rows
    total: float  # sum of the weights of rows
    prior_ratio: float  # mean cosine under the prior


class Climb(NamedTuple):
    """State of the EM iterations from one initialisation."""

    mixture: Mixture
    statistics: DirectionStatistics
    labels: np.ndarray
    trace: list[float]
    converged: bool

    def finished(self, rows: DirectedRows, max_iter: int, tol: float) -> dict[str, Any]:
        """Fitted attributes; warns if EM stopped at `max_iter` before it converged, unless `tol` is 0."""
        if not self.converged and len(self.trace) >= max_iter and tol > 0.0:
            warnings.warn(
                f"EM stopped after max_iter={max_iter} iterations, before it converged: raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self.attributes(rows)

    def attributes(self, rows: DirectedRows) -> dict[str, Any]:
        """Fitted attributes of the estimator."""
        labels = self.labels.copy()
        labels[~rows.directed] = np.argmax(self.mixture.weights)
        return {
            **self.mixture.attributes(),
            "_statistics": self.statistics,
            "labels_": labels,
            "converged_": self.converged,
            "n_iter_": len(self.trace),
            "lower_bound_": self.trace[-1],
            "log_likelihood_trace_": np.array(self.trace),
        }


class VonMisesFisherEM:
    """E-step and M-step of EM on some rows, in blocks that depend only on the shape of the data.

    `expect` stores the sums of the rows by component, from which `maximize` computes the parameters. `statistics` are
    those of the last M-step.
    """

    def __init__(self, rows: DirectedRows, row_weights, n_components: int, hard: bool, concentration, workers: Workers):
        self.statistics: DirectionStatistics
        self.rows = rows
        self.row_weights = row_weights
        self.total = float(row_weights.sum())
        self.hard = hard
        self.concentration = concentration
        self.workers = workers
        self.blocks = rows.blocks(n_components)
        self.sums = np.empty((len(self.blocks), rows.n_features, n_components))
        self.sizes = np.empty((len(self.blocks), n_components))
        self.log_density = np.empty(rows.n_rows)
        self.labels = np.empty(rows.n_rows, np.int64)
        self.prior_ratio = 0.0  # mean cosine under the prior, set by the initialisation

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
            directions = np.stack([rows.unit(row) for row in tried], axis=1)
            self.workers.run(rows.fill_gaps, [(*block, directions, gaps, with_trial) for block in self.blocks])
            best = np.argmin((self.row_weights[:, np.newaxis] * with_trial).sum(axis=0))
            seeds[:, place] = directions[:, best]
            gaps = with_trial[:, best].copy()
            mass = self.row_weights * (gaps if method == "k-means++" else gaps > 0.0)
        return seeds

    @cached_property
    def _content_order(self) -> np.ndarray:
        """Indices that sort the rows by hashes of their contents."""
        return np.argsort(self.rows.hashes(), kind="stable")

    def begin_at_rows(self, key: np.uint64, method: str) -> Mixture:
        """Initialise from several draws of `seed`; returns the one with the largest mean cosine within components.

        Many dense rows are replaced by a sample, in which the directions are found.
        """
        if isinstance(self.rows, DenseRows) and self.rows.n_rows > (n := _sample_size(self.sums.shape[2])):
            return self.begin(self._sampled(n, key).begin_at_rows(key, method).directions)
        begun = []
        for trial in range(_N_TRIED):
            mixture = self.begin(self.seed(subkey(key, trial), method))
            begun.append((self.prior_ratio, mixture))
        self.prior_ratio, best = max(begun, key=lambda start: start[0])
        return best

    def _sampled(self, n: int, key: np.uint64) -> VonMisesFisherEM:
        """The same for n rows drawn by their weights, with replacement."""
        cumulative = np.cumsum(self.row_weights[self._content_order])
        places = fold_in_each(subkey(key, Purpose.SUBSAMPLE), np.arange(n)) * _TO_UNIT * cumulative[-1]
        last = np.searchsorted(cumulative, cumulative[-1])  # rows after it have no weight
        chosen = self._content_order[np.minimum(np.searchsorted(cumulative, places, side="right"), last)]
        rows = cast(DenseRows, self.rows).taken(np.sort(chosen))
        settings = self.sums.shape[2], self.hard, self.concentration, self.workers
        return VonMisesFisherEM(rows, np.ones(n), *settings)

    def begin(self, directions: np.ndarray) -> Mixture:
        """Initial parameters by rounds of spherical k-means from the directions; also sets the prior."""
        alike = np.ones(directions.shape[1])
        for _ in range(_FIRST_ROUNDS - 1):
            self._assign_rows(directions, alike, alike, hard=True)
            directions, _ = self._mean_directions(directions)
        self._assign_rows(directions, alike, alike, hard=True)
        lengths = np.sqrt(np.square(self.sums[0]).sum(axis=0))
        self.prior_ratio = min(lengths.sum() / self.total, _MAX_PRIOR_RATIO)
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
        common = (self.row_weights, directions, concentrations, log_peaks, hard)
        filled = (self.log_density, self.labels)
        totals = self.workers.run(
            self.rows.expect,
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
        self.statistics = DirectionStatistics(lengths, float(sizes.sum()), float(self.prior_ratio))
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
                sums[:, k] = sizes[k] * self.rows.unit(row)

    def _concentrations(self, lengths, sizes) -> np.ndarray:
        if self.concentration == "shared":
            lengths, sizes = np.full(len(sizes), lengths.sum()), np.full(len(sizes), sizes.sum())
        elif self.concentration is not None:
            return np.full(len(sizes), float(self.concentration))
        ratios = np.minimum((lengths + self.prior_ratio) / (sizes + 1.0), _MAX_RATIO)
        return inverse_bessel_ratio(self.rows.n_features, ratios)

    def _penalty(self, concentrations, peaks) -> float:
        """Sum of KL divergences from a distribution with the concentration of the prior to those of the components.

        `peaks` are the results of `log_peak` for the concentrations.
        """
        if self.concentration is not None:
            n_fitted = int(self.concentration == "shared")
            concentrations, peaks = concentrations[:n_fitted], peaks[:n_fitted]
        prior, prior_peak = _prior_component(self.rows.n_features, self.prior_ratio)
        return float(np.sum((concentrations - prior) * (1.0 - self.prior_ratio) + prior_peak - peaks))


def _sample_size(n_components: int) -> int:
    return max(_LEAST_SAMPLE, _SAMPLE_PER_COMPONENT * n_components)


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
