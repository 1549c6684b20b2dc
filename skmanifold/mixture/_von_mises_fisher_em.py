"""Expectation-maximisation for a mixture of von Mises-Fisher distributions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..emissions._von_mises_fisher.family import VonMisesFisherFamily
from ..emissions._von_mises_fisher.kernels import Concentration, ConcentrationPrior
from ..emissions._von_mises_fisher.rows import SphericalKMeans, Start
from ._memberships import Position

_FIRST_ITERATIONS = 10  # on the first minibatch of a stream


class Estimate(NamedTuple):
    """Parameters and what else a stream needs; the sums of rows are the lengths times the mean directions."""

    position: Position
    lengths: np.ndarray  # (K,): of the sums of rows
    total: float  # sum of the weights of rows

    def attributes(self) -> dict[str, Any]:
        """The fitted attributes of the estimator."""
        directions, concentrations, _ = self.position.parameters
        return {
            "weights_": self.position.weights,
            "mean_directions_": np.ascontiguousarray(directions.T),
            "concentrations_": concentrations,
            "_lengths": self.lengths,
            "_total": self.total,
        }


class DirectionEM(SphericalKMeans):
    """E steps, with soft or hard assignments, and M steps on some rows; `mode` and `expect` need the `family`."""

    family: VonMisesFisherFamily

    def __init__(self, *of_k_means: Any, concentration: Concentration, hard: bool) -> None:
        super().__init__(*of_k_means)
        self.concentration, self.hard = concentration, hard

    def begin_em(self, start: Start) -> Estimate:
        """Initial parameters; also sets the family, whose prior has the mean cosine of these clusters."""
        self._set_family(ConcentrationPrior(1.0, start.mean_cosine))
        return self._mode(start.sizes, start.lengths, start.directions)

    def expect(self, position: Position) -> float:
        """E step; returns the lower bound at these parameters."""
        directions, concentrations, log_peaks = position.parameters
        total = self.assign_rows((directions, concentrations, np.log(position.weights) + log_peaks), self.hard)
        return (total - self.family.penalty(position.parameters)) / self.total

    def maximize(self, before: Position) -> Estimate:
        """M step; components whose rows sum to zero keep their directions."""
        directions, lengths = self.mean_directions(before.parameters.directions)
        return self._mode(self.sizes[0].copy(), lengths, directions)

    def begin_stream(self, start: Start, total: float) -> Estimate:
        """A few iterations on the first minibatch of a stream of `total` rows."""
        estimate = self.begin_em(start)
        for _ in range(_FIRST_ITERATIONS):
            self.expect(estimate.position)
            estimate = self.maximize(estimate.position)
        return estimate._replace(lengths=total / estimate.total * estimate.lengths, total=total)

    def blend(self, old: Estimate, prior: ConcentrationPrior, total: float, rate: float) -> Estimate:
        """One iteration on a minibatch of the weight `rate`, whose statistics are added to those of rows before."""
        self._set_family(prior)
        self.expect(old.position)
        before, now = (1.0 - rate) * total / old.total, rate * total / self.total
        self.sums[0] = before * old.lengths * old.position.parameters.directions + now * self.sums[0]
        self.sizes[0] = before * old.total * old.position.weights + now * self.sizes[0]
        return self.maximize(old.position)

    def _set_family(self, prior: ConcentrationPrior) -> None:
        self.family = VonMisesFisherFamily(prior, self.concentration, self.sums.shape[2], self.rows.n_features)

    def _mode(self, sizes: np.ndarray, lengths: np.ndarray, directions: np.ndarray) -> Estimate:
        lengths = np.minimum(lengths, sizes)  # rounding may exceed the bound
        position = Position(sizes / sizes.sum(), self.family.mode_of(sizes, lengths, directions))
        return Estimate(position, lengths, float(sizes.sum()))
