"""Clusters of binary rows, some of whose cells may be missing, with beta priors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ....utils._threads import Workers
from ..._column_information import information_of_categories
from ..._linear import add_linear_scores, fill_events
from ..._linear_rows import LinearRows
from .base import LinearClusters, LinearComponents, LinearCounts, group_features, refuse_fractions
from .bernoulli_kernels import BernoulliData, draw_logits, log_marginal_of_label


class BernoulliClusters(LinearClusters):
    """Binary rows; missing cells are integrated out.

    Parameters
    ----------
    family : BernoulliFamily
        The prior.
    rows : LinearRows
        Rows of zeros and ones.
    """

    bounds_of_means = 0.0, 1.0
    draw_features: ClassVar[Any] = draw_logits
    log_marginal_of_label: ClassVar[Any] = log_marginal_of_label
    rows_per_feature: ClassVar[int] = 2000

    def __init__(self, family: Any, rows: LinearRows) -> None:
        refuse_fractions(rows, "bernoulli", "cells that are 0, 1 or NaN")
        groups = group_features(rows, family.ones, family.zeros)
        data = BernoulliData(*rows[:3], rows.n_features, family.ones, family.zeros, groups)
        super().__init__(family, rows, data)

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        n_ones, n_observed = statistics.sums[:, : self.family.n_features], self.observed(statistics)
        log_one = np.log(self.family.ones + n_ones).T
        log_zero = np.log(self.family.zeros + (n_observed - n_ones)).T
        log_all = np.log(self.family.ones + self.family.zeros + n_observed).T
        naturals = np.concatenate([log_one - log_zero, log_all - log_zero])
        self._add(add_linear_scores, ((log_zero - log_all).sum(axis=0), naturals), out, workers)

    def arrays_of(self, components: LinearComponents) -> dict[str, np.ndarray]:
        """Drawn probabilities of a one, (K, n_features)."""
        logits, minus_log_zero = np.split(components.naturals, 2)
        return {"components": np.exp(logits - minus_log_zero).T}

    def expected(self, statistics: LinearCounts) -> dict[str, np.ndarray]:
        """Posterior means of the probabilities of a one, (capacity, n_features)."""
        cells = self.family.ones + statistics.sums[:, : self.family.n_features]
        return {"components_": cells / (self.family.ones + self.family.zeros + self.observed(statistics))}

    def log_densities_of_column(self, statistics: LinearCounts, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column given each cluster, (n_values, K)."""
        cells = self.family.ones[column] + statistics.sums[:, column]
        ones = cells / (self.family.ones[column] + self.family.zeros[column] + self.observed(statistics)[:, column])
        return np.where(values[:, None] == 1, np.log(ones), np.log1p(-ones))

    def column_information(self, statistics: LinearCounts) -> np.ndarray:
        """Mutual information of each column and the cluster, (n_features,): exact."""
        ones = self.expected(statistics)["components_"]
        of_ones, of_zeros = (information_of_categories(statistics.sizes, p) for p in (ones, 1.0 - ones))
        return of_ones + of_zeros

    def new_rows(self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw a row for each label from its predictive distribution."""
        out = np.empty((len(labels), self.family.n_features), np.int64)
        fill_events(key, labels, self.expected(statistics)["components_"], out)
        return out
