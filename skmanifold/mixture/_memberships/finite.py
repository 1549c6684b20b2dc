"""The finite membership: K components, whose weights have a Dirichlet prior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np

from ...random._keys import Purpose, fold_in_each, subkey
from ...random._variates import fill_log_gammas
from ...utils._conditions import Array
from ...utils._threads import Workers
from .._densities import FamilyRows, Memberships, to_shares
from .._scores import refuse_far_rows

_TO_UNIT = 2.0**-64


class DirichletWeights(NamedTuple):
    r"""The prior of the weights of K components, :math:`w \sim \mathrm{Dir}(\alpha, \dots, \alpha)`."""

    prior: float

    @classmethod
    def of_parameter(cls, weight_prior: float | None, n_components: int) -> DirichletWeights:
        """The prior with this parameter of an estimator; None is one row for all components together."""
        return cls(1.0 / n_components if weight_prior is None else float(weight_prior))

    def mode(self, sizes: np.ndarray) -> np.ndarray:
        """The mode of the weights in the natural parametrisation, given the sizes of the components, (K,)."""
        weights = sizes + self.prior
        return weights / weights.sum()

    def draw(self, sizes: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw the weights given the sizes of the components, (K,); sizes of zero give the prior."""
        logs = np.empty(len(sizes))
        fill_log_gammas(subkey(key, Purpose.WEIGHTS), sizes + self.prior, logs)
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    def log_prior(self, weights: np.ndarray) -> float:
        """Log prior density in the natural parametrisation, up to a constant."""
        return self.prior * float(np.log(weights).sum())


Parameters = TypeVar("Parameters")


class Position(NamedTuple, Generic[Parameters]):
    """Parameters of a finite mixture: an estimate, or a draw from the posterior."""

    weights: Annotated[np.ndarray, Array("float64", "n_components", low=0, sums_to_one=0)]
    parameters: Parameters  # of the family, which checks them

    def log_weights(self) -> np.ndarray:
        """Logarithms of the weights, (K,)."""
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    def log_terms(self, rows: FamilyRows, workers: Workers) -> np.ndarray:
        """Log of weight times density, (n_rows, K)."""
        terms = np.repeat(self.log_weights()[None], rows.n_rows, axis=0)
        rows.add_densities_of_rows(self.parameters, terms, workers)
        return terms

    def cell_attributes(self, family: Any) -> dict[str, Any]:
        """The parameters as attributes for `cell_distribution`; for `Columns` those of each block."""
        return getattr(family, "attributes_of_blocks", family.attributes)(self.parameters)

    def expected(self, rows: FamilyRows, workers: Workers) -> Memberships:
        """Memberships of the rows, and the parameters of the components as attributes."""
        shares = self.log_terms(rows, workers)
        refuse_far_rows(to_shares(shares, workers))
        return shares, self.cell_attributes(rows.family)

    def drawn(self, rows: FamilyRows, key: np.uint64, workers: Workers) -> Memberships:
        """The same: there is nothing left to draw."""
        return self.expected(rows, workers)

    def new_rows(self, family: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of the components with these labels."""
        return family.sample(self.parameters, labels, key)


class PositionDraws(NamedTuple):
    """Draws from the posterior with matched components, as an estimate: densities are means over the draws."""

    draws: Sequence[Position]

    @property
    def weights(self) -> np.ndarray:
        """Mean weights of the components, (K,)."""
        return np.mean([draw.weights for draw in self.draws], axis=0)

    def log_terms(self, rows: FamilyRows, workers: Workers) -> np.ndarray:
        """Log of weight times density, averaged over the draws, (n_rows, K)."""
        total = self.draws[0].log_terms(rows, workers)
        for draw in self.draws[1:]:
            np.logaddexp(total, draw.log_terms(rows, workers), out=total)
        return total - np.log(len(self.draws))

    def new_rows(self, family: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of the components with these labels, each of a draw that is chosen by its weight of the label."""
        chosen, X = np.empty(len(labels), np.int32), np.empty((len(labels), family.n_features))
        for k, weights in enumerate(np.transpose([draw.weights for draw in self.draws])):
            rows = np.flatnonzero(labels == k)
            chosen[rows] = draw_labels(weights, len(rows), subkey(key, Purpose.LABELS, k))
        for i, draw in enumerate(self.draws):
            rows = np.flatnonzero(chosen == i)
            X[rows] = family.sample(draw.parameters, labels[rows], subkey(key, Purpose.ROWS, i))
        return X


def draw_labels(weights: np.ndarray, n_rows: int, key: np.uint64) -> np.ndarray:
    """Components of rows, drawn with these weights, (n_rows,) int32."""
    levels = np.cumsum(weights)
    places = fold_in_each(key, np.arange(n_rows)) * _TO_UNIT * levels[-1]
    return np.searchsorted(levels[:-1], places, side="right").astype(np.int32)
