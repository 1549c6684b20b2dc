"""Expectation-maximisation for a mixture of von Mises-Fisher distributions."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...distributions import inverse_bessel_ratio
from ...emissions._von_mises_fisher.concentrations import Concentration, ConcentrationPrior, log_peak
from ...emissions._von_mises_fisher.family import VonMisesFisherFamily
from ...emissions._von_mises_fisher.k_means import SphericalKMeans, Start
from ...emissions._von_mises_fisher.rows import DirectedRows
from ...utils._conditions import MOST_COUNTED, Array, Real
from ...utils._declared import holds
from ...utils._threads import Workers


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
        labels[~rows.has_direction] = np.argmax(self.mixture.weights)
        return {
            **self.mixture.attributes(),
            "_statistics": self.statistics,
            "labels_": labels,
            "converged_": self.converged,
            "n_iter_": len(self.trace),
            "lower_bound_": self.trace[-1],
            "log_likelihood_trace_": np.array(self.trace),
        }


class VonMisesFisherEM(SphericalKMeans):
    """E-step and M-step of EM on some rows.

    `expect` stores the sums of the rows by component, from which `maximize` computes the parameters. `statistics` are
    those of the last M-step.
    """

    statistics: DirectionStatistics

    def __init__(
        self,
        rows: DirectedRows,
        row_weights: np.ndarray,
        n_components: int,
        hard: bool,
        concentration: Concentration,
        workers: Workers,
    ):
        super().__init__(rows, row_weights, n_components, workers)
        self.hard = hard
        self.concentration = concentration

    def first(self, start: Start) -> Mixture:
        """Initial parameters; also sets the prior."""
        self.mean_cosine, *of_clusters = start
        return self._mode(*of_clusters)

    def expect(self, mixture: Mixture) -> float:
        """E-step: assign the rows to components; returns the lower bound at these parameters."""
        peaks = log_peak(self.rows.n_features, mixture.concentrations)
        log_peaks = np.log(mixture.weights) + peaks
        total = self.assign_rows((mixture.directions, mixture.concentrations, log_peaks), self.hard)
        return (total - self._penalty(mixture.concentrations, peaks)) / self.total

    def maximize(self, directions: np.ndarray) -> Mixture:
        """M-step: parameters from the sums. Components whose rows sum to zero keep their `directions`."""
        directions, lengths = self.mean_directions(directions)
        return self._mode(self.sizes[0].copy(), lengths, directions)

    def _mode(self, sizes, lengths, directions) -> Mixture:
        lengths = np.minimum(lengths, sizes)  # rounding may exceed the bound
        self.statistics = DirectionStatistics(lengths, float(sizes.sum()), float(self.mean_cosine))
        prior = ConcentrationPrior(1.0, self.mean_cosine)
        family = VonMisesFisherFamily(prior, self.concentration, len(sizes), len(directions))
        return Mixture(sizes / sizes.sum(), directions, family.mode_of(sizes, lengths, directions).concentrations)

    def _penalty(self, concentrations, peaks) -> float:
        """Sum of KL divergences from a distribution with the concentration of the prior to those of the components.

        `peaks` are the results of `log_peak` for the concentrations.
        """
        if self.concentration != "per_component":
            n_fitted = int(self.concentration == "shared")
            concentrations, peaks = concentrations[:n_fitted], peaks[:n_fitted]
        prior, prior_peak = _prior_component(self.rows.n_features, self.mean_cosine)
        return float(np.sum((concentrations - prior) * (1.0 - self.mean_cosine) + prior_peak - peaks))


@lru_cache(maxsize=16)
def _prior_component(n_features: int, prior_ratio: float) -> tuple[float, float]:
    """Concentration with this mean cosine, and its `log_peak`; the same in all iterations of a fit."""
    concentration = inverse_bessel_ratio(n_features, prior_ratio)
    return float(concentration), float(log_peak(n_features, concentration))
