"""Family of rows of negative binomial counts."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

from ...random._keys import subkey
from ...utils._conditions import Array
from ...utils._declared import Saved
from ...utils._threads import ONE, Workers
from .._cells import OverdispersedCells
from .._feature_family import CountFamily, LinearCounts, group_features
from .._linear import MOST_NATURAL, PRIOR
from .._linear_kernels import add_linear_scores
from .._linear_rows import LinearRows, refuse_fractions
from .._protocols import Arrays
from .._seeds import cluster_rows
from .._statistics import occupied, selected
from .dispersions import Dispersions, dispersions_of
from .kernels import (
    NegativeBinomialData,
    add_log_rising,
    fill_negative_binomial,
)

_OF_DISPERSIONS, _OF_PROBABILITIES = 0, 1  # uses of the key of a draw


class NegativeBinomialParameters(NamedTuple):
    """Parameters of K components as in `LinearParameters`, and `sizes`, (n_features,), the r that all share.

    `naturals`, (2 * n_features, K), are log p, and -r log(1 - p), which a missing cell adds.
    """

    offsets: Annotated[np.ndarray, Array("float64", "n_components")]
    naturals: Annotated[np.ndarray, Array("float64", "n_statistics n_components", low=-MOST_NATURAL, high=MOST_NATURAL)]
    means: Annotated[np.ndarray, Array("float64", "n_dimensions n_components", low=0, high=MOST_NATURAL)]
    sizes: Annotated[np.ndarray, Array("float64", "n_dimensions", above=0)]


class NegativeBinomialFamily(CountFamily):
    """Family of negative binomial rows, whose statistics are the counts of a row, followed by its missing cells.

    The prior of p is Beta(shape, 1 + rate * r). All components share dispersions: parameters, but in bound families
    hyperparameters.
    """

    shape: Annotated[np.ndarray, PRIOR]
    rate: Annotated[np.ndarray, PRIOR]
    dispersions: Saved[Dispersions]

    parameters_type = NegativeBinomialParameters
    fill_rows: ClassVar[Any] = fill_negative_binomial
    rows_per_statistic: ClassVar[int] = 1000

    prior: np.ndarray  # inverse dispersions, of a family with rows

    def __init__(self, shape: np.ndarray, rate: np.ndarray, dispersions: Dispersions, n_components: int) -> None:
        super().__init__(shape, rate, n_components)
        self.dispersions = dispersions

    def add_log_densities(self, rows: LinearRows, first: int, stop: int, parameters: Any, out: np.ndarray) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``."""
        super().add_log_densities(rows, first, stop, parameters, out)
        add_log_rising(first, stop, *rows[:3], parameters.sizes, out)

    def mode(self, statistics: Arrays) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p and of the dispersions."""
        return self._mode(statistics, self.dispersions.most_probable(*self._known(statistics)))

    def _mode(self, statistics: Arrays, sizes: np.ndarray) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p, given the inverse dispersions."""
        shapes, rates = self._by_feature(statistics)
        return self._parameters(np.log(shapes) - np.log(rates) - np.log(sizes)[:, None], sizes)

    def draw(self, statistics: Arrays, key: np.uint64) -> NegativeBinomialParameters:
        """Draw dispersions given the partition, and then p from the beta posteriors."""
        sizes = self.dispersions.drawn(*self._known(statistics), subkey(key, _OF_DISPERSIONS))
        return self._draw_given(sizes, statistics, subkey(key, _OF_PROBABILITIES), ONE)

    def log_prior(self, parameters: NegativeBinomialParameters) -> float:
        """Log prior density of the logs of p, up to a constant."""
        log_p, of_missing = np.split(parameters.naturals, 2)
        of_each = self.shape[:, None] * log_p - self.rate[:, None] * of_missing
        return float(of_each.sum() - self.n_components * betaln(self.shape, 1.0 + self.rate * parameters.sizes).sum())

    def log_likelihood(self, statistics: Arrays, parameters: Any) -> float:
        """Log density of rows with these statistics given their components, without their ``log_base``."""
        of_cells = self.dispersions.log_rising(parameters.sizes, self._n_observed(statistics))
        return super().log_likelihood(statistics, parameters) + of_cells

    def seed_weighted_labels(self, rows: LinearRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels by k-means of the logs of counts plus one."""
        return cluster_rows(np.log1p(rows.cells()), self.n_components, key, row_weights)

    def n_parameters(self) -> int:
        """Number of free parameters: a mean for each feature of each component, and a dispersion for each feature."""
        n_free = self.n_features if self.dispersions.inverses.shape[1] > 1 else 0
        return self.n_components * self.n_features + n_free

    def cell_distribution(self, attributes: dict[str, Any]) -> OverdispersedCells:
        """The distributions of single cells of components with these attributes."""
        return OverdispersedCells(attributes["components_"], attributes["dispersions_"])

    def attributes(self, parameters: Any) -> dict[str, Any]:
        """The fitted attributes ``components_``, the expected rows, and ``dispersions_``."""
        return {**super().attributes(parameters), "dispersions_": 1.0 / parameters.sizes}

    def parameters_again(self, naturals: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """The parameters with these natural parameters and inverse dispersions."""
        log_p, of_missing = np.split(naturals, 2)
        return self._parameters(log_p + of_missing / sizes[:, None], sizes)

    def _known(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray], np.ndarray]:
        """What the distribution of the dispersions depends on: posterior, prior, and numbers of observed cells."""
        shapes, rates = self._by_feature(statistics)
        return shapes, rates, (self.shape, self.rate), self._n_observed(statistics)

    def _n_observed(self, statistics: Arrays) -> np.ndarray:
        """Numbers of observed cells of all components, (n_features,)."""
        return np.ascontiguousarray(self.observed(statistics).T).sum(axis=1)

    def _of_naturals(self, naturals: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """Parameters with these natural parameters."""
        log_p, of_missing = np.split(naturals, 2)
        logits = log_p + of_missing / sizes[:, None]
        return NegativeBinomialParameters(-of_missing.sum(axis=0), naturals, _means(logits, sizes), sizes)

    def _parameters(self, logits: np.ndarray, sizes: np.ndarray) -> NegativeBinomialParameters:
        """Parameters with these logits of p."""
        of_missing = sizes[:, None] * np.logaddexp(0.0, logits)
        naturals = np.concatenate([-np.logaddexp(0.0, -logits), of_missing])
        return NegativeBinomialParameters(-of_missing.sum(axis=0), naturals, _means(logits, sizes), sizes)

    # With rows, and with dispersions as hyperparameters

    def clusters(self, rows: LinearRows | None = None) -> NegativeBinomialFamily:
        """The family with rows and the dispersions that are most probable if all rows are in one cluster."""
        bound = copy(self)
        bound.prior = self.dispersions.inverses[:, 0]
        if self.dispersions.inverses.shape[1] > 1 and rows is not None:
            sums = np.array([rows.n_rows]), rows.overall(self.n_statistics)[np.newaxis]
            bound.prior = self.dispersions.most_probable_marginal(*self._known(sums))
        return bound._bound(self._no_rows() if rows is None else rows)

    def with_learned_prior(self, statistics: LinearCounts, free: Any) -> NegativeBinomialFamily:
        """The same rows with the most probable dispersions given a partition."""
        known = self._known(selected(statistics, occupied(statistics)))
        return self.with_prior(self._possible.most_probable_marginal(*known))

    @cached_property
    def _possible(self) -> Dispersions:
        """Possible dispersions of these rows, which every round of learning needs."""
        return dispersions_of(self.rows, None)

    def _bound(self, rows: LinearRows) -> NegativeBinomialFamily:
        bound = super()._bound(rows)
        vars(bound).pop("_possible", None)
        log_rising = np.zeros((rows.n_rows, 1))
        add_log_rising(0, rows.n_rows, *rows[:3], self.prior, log_rising)
        bound.log_base = log_rising[:, 0] if rows.log_base is None else log_rising[:, 0] + rows.log_base
        return bound

    def prepare(self, rows: LinearRows) -> NegativeBinomialData:
        """Rows and prior, as the kernels read them."""
        refuse_fractions(rows, "negative_binomial", "whole counts")
        groups = group_features(rows, self.shape, self.rate, self.prior)
        return NegativeBinomialData(*rows[:3], rows.n_features, self.shape, self.rate, self.prior, groups)

    def _draw(self, statistics: Arrays, key: np.uint64, workers: Workers) -> NegativeBinomialParameters:
        return self._draw_given(self.prior, statistics, key, workers)

    def _draw_given(
        self, sizes: np.ndarray, statistics: Arrays, key: np.uint64, workers: Workers
    ) -> NegativeBinomialParameters:
        """Draw p from the beta posteriors, given the inverse dispersions."""
        shapes, rates = self._by_feature(statistics)
        above, below = self._draw_log_gammas(shapes, 1.0 + rates * sizes[:, None], key=key, workers=workers)
        both = np.logaddexp(above, below)
        return self._of_naturals(np.concatenate([above - both, sizes[:, None] * (both - below)]), sizes)

    def log_marginals(self, statistics: LinearCounts) -> np.ndarray:
        """Log density of the rows of each label."""
        shapes, rates = self._posterior(statistics)
        of_prior = betaln(self.shape, 1.0 + self.rate * self.prior)
        return (betaln(shapes, 1.0 + rates * self.prior) - of_prior).sum(axis=1)

    def mean(self, statistics: LinearCounts) -> NegativeBinomialParameters:
        """The posterior mode of the logs of p, where expected counts are their posterior means."""
        return self._mode(statistics, self.prior)

    def arrays_of(self, components: NegativeBinomialParameters) -> dict[str, np.ndarray]:
        """Drawn means, (K, n_features), without the dispersions, which are hyperparameters."""
        return {"components": components.means.T}

    def add_densities_of_rows(self, components: NegativeBinomialParameters, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component; `log_base` has the terms of the dispersions."""
        shared = *self.rows[:3], *components[:2]
        self._add_by_ranges(lambda a, b, scores: add_linear_scores(a, b, *shared, scores), out, workers)

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        (x, rates), r = self._by_feature(statistics), self.prior[:, None]
        y = 1.0 + rates * r
        of_zeros = _log_rising(y, r) - _log_rising(x + y, r)
        sums = x + y + r
        naturals = np.concatenate([np.log(x) - np.log(sums), -of_zeros])
        self._add_given_sums((of_zeros.sum(axis=0), naturals, x, sums), out, workers)


def _means(logits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Expected counts, (n_features, K), given the logits of p."""
    return np.minimum(sizes[:, None] * np.exp(np.minimum(logits, 100.0)), MOST_NATURAL)


def _log_rising(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Log of Gamma(x + n) / Gamma(x), by beta functions, which keep the digits of large x."""
    return gammaln(n) - betaln(x, n)
