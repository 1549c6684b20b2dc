"""Clusters of Poisson counts, some of which may be missing, with gamma priors of the rates."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.stats import nbinom

from ....utils._threads import Workers
from ..._linear_rows import LinearRows
from .base import LinearClusters, LinearComponents, LinearCounts, group_features, refuse_fractions
from .poisson_kernels import PoissonData, add_given_sums, draw_rates, fill_counts, log_marginal_of_label


class PoissonClusters(LinearClusters):
    """Rows of counts; missing cells are integrated out.

    Parameters
    ----------
    family : PoissonFamily
        The prior.
    rows : LinearRows
        Rows of whole counts.
    """

    draw_features: ClassVar[Any] = draw_rates
    log_marginal_of_label: ClassVar[Any] = log_marginal_of_label
    rows_per_feature: ClassVar[int] = 1000

    def __init__(self, family: Any, rows: LinearRows) -> None:
        refuse_fractions(rows, "poisson", "whole counts")
        groups = group_features(rows, family.rate)
        shapes = np.bincount(groups.of_feature, weights=family.shape)
        data = PoissonData(*rows[:3], rows.n_features, family.shape, family.rate, groups, shapes)
        super().__init__(family, rows, data)

    def _posterior(self, statistics: LinearCounts) -> tuple[np.ndarray, np.ndarray]:
        """Shapes and rates of the gamma posteriors, (capacity, n_features) each."""
        sums = statistics.sums[:, : self.family.n_features]
        return self.family.shape + sums, self.family.rate + self.observed(statistics)

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        shapes, rates = (np.ascontiguousarray(array.T) for array in self._posterior(statistics))
        log_next, of_missing = np.log(rates + 1.0), shapes * np.log1p(1.0 / rates)
        naturals = np.concatenate([np.log(shapes) - log_next, of_missing])
        self._add(add_given_sums, (-of_missing.sum(axis=0), naturals, shapes, log_next), out, workers)

    def arrays_of(self, components: LinearComponents) -> dict[str, np.ndarray]:
        """Drawn rates, (K, n_features)."""
        return {"components": components.naturals[self.family.n_features :].T}

    def expected(self, statistics: LinearCounts) -> dict[str, np.ndarray]:
        """Posterior means of the rates, (capacity, n_features)."""
        shapes, rates = self._posterior(statistics)
        return {"components_": shapes / rates}

    def log_densities_of_column(self, statistics: LinearCounts, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column given each cluster, (n_values, K): negative binomial."""
        shapes = self.family.shape[column] + statistics.sums[:, column]
        rates = self.family.rate[column] + self.observed(statistics)[:, column]
        return nbinom.logpmf(values[:, None], shapes, rates / (rates + 1.0))

    def new_rows(self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw a row for each label from its predictive distribution."""
        out = np.empty((len(labels), self.family.n_features), np.int64)
        fill_counts(key, labels, *self._posterior(statistics), out)
        return out
