"""Clusters of negative binomial counts, some of which may be missing, with beta priors of the probabilities."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import betaln, gammaln

from ....utils._threads import Workers
from ..._linear_rows import LinearRows
from ..._negative_binomial.dispersions import Dispersions, dispersions_of
from ..._negative_binomial.kernels import add_log_rising
from ..statistics import occupied, selected
from .base import LinearClusters, LinearComponents, LinearCounts, group_features, refuse_fractions
from .negative_binomial_kernels import (
    NegativeBinomialData,
    add_given_sums,
    draw_logits,
    fill_counts,
    log_marginal_of_label,
)


class NegativeBinomialClusters(LinearClusters):
    """Rows of counts with known dispersions; missing cells are integrated out.

    Parameters
    ----------
    family : NegativeBinomialFamily
        The prior.
    rows : LinearRows
        Rows of whole counts.
    inverses : ndarray of shape (n_features,)
        Inverse dispersions r.
    """

    draw_features: ClassVar[Any] = draw_logits
    log_marginal_of_label: ClassVar[Any] = log_marginal_of_label
    rows_per_feature: ClassVar[int] = 2000

    def __init__(self, family: Any, rows: LinearRows, inverses: np.ndarray) -> None:
        refuse_fractions(rows, "negative_binomial", "whole counts")
        groups = group_features(rows, family.shape, family.rate, inverses)
        data = NegativeBinomialData(*rows[:3], rows.n_features, family.shape, family.rate, inverses, groups)
        super().__init__(family, rows, data)
        base = np.zeros((rows.n_rows, 1))
        add_log_rising(0, rows.n_rows, *rows[:3], inverses, base)
        self.log_base = base[:, 0] if rows.log_base is None else base[:, 0] + rows.log_base

    @property
    def prior(self) -> np.ndarray:
        """Inverse dispersions, which are learned."""
        return self.data.inverses

    def with_prior(self, prior: np.ndarray) -> NegativeBinomialClusters:
        """These rows with other dispersions."""
        return NegativeBinomialClusters(self.family, self.rows, prior)

    def with_learned_prior(self, statistics: LinearCounts, free: Any) -> NegativeBinomialClusters:
        """These rows with the most probable dispersions given a partition."""
        shapes, rates = (array.T for array in self._posterior(selected(statistics, occupied(statistics))))
        n_observed = (rates - self.family.rate[:, None]).sum(axis=1)
        prior = self.family.shape, self.family.rate
        return self.with_prior(self._dispersions.most_probable_marginal(shapes, rates, prior, n_observed))

    @cached_property
    def _dispersions(self) -> Dispersions:
        """Possible dispersions, which every round of learning needs."""
        return dispersions_of(self.rows, None)

    def _of(self, rows: LinearRows) -> NegativeBinomialClusters:
        """The same prior and dispersions with other rows."""
        return NegativeBinomialClusters(self.family, rows, self.data.inverses)

    def _posterior(self, statistics: LinearCounts) -> tuple[np.ndarray, np.ndarray]:
        """Prior shapes plus sums of counts, and rates plus numbers of observed cells, (capacity, n_features) each."""
        sums = statistics.sums[:, : self.family.n_features]
        return self.family.shape + sums, self.family.rate + self.observed(statistics)

    def _beta(self, statistics: LinearCounts) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the beta posteriors, (n_features, capacity) each."""
        shapes, rates = self._posterior(statistics)
        return np.ascontiguousarray(shapes.T), np.ascontiguousarray((1.0 + rates * self.data.inverses).T)

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        (x, y), r = self._beta(statistics), self.data.inverses[:, None]
        of_zeros = _log_rising(y, r) - _log_rising(x + y, r)
        sums = x + y + r
        naturals = np.concatenate([np.log(x) - np.log(sums), -of_zeros])
        self._add(add_given_sums, (of_zeros.sum(axis=0), naturals, x, sums), out, workers)

    def arrays_of(self, components: LinearComponents) -> dict[str, np.ndarray]:
        """Drawn means, (K, n_features)."""
        log_p, of_missing = np.split(components.naturals, 2)
        inverses = self.data.inverses[:, None]
        return {"components": (inverses * np.exp(np.minimum(log_p + of_missing / inverses, 100.0))).T}

    def drawn_attributes(self, components: LinearComponents) -> dict[str, np.ndarray]:
        """Drawn means, and the dispersions."""
        return {**super().drawn_attributes(components), "dispersions_": 1.0 / self.data.inverses}

    def expected(self, statistics: LinearCounts) -> dict[str, np.ndarray]:
        """Posterior means of the expected counts, (capacity, n_features), and the dispersions."""
        shapes, rates = self._posterior(statistics)
        return {"components_": shapes / rates, "dispersions_": 1.0 / self.data.inverses}

    def log_densities_of_column(self, statistics: LinearCounts, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column given each cluster, (n_values, K)."""
        (x, y), r, counts = self._beta(statistics), self.data.inverses[column], values[:, None]
        log_choose = gammaln(counts + r) - gammaln(r) - gammaln(counts + 1.0)
        return log_choose + betaln(x[column] + counts, y[column] + r) - betaln(x[column], y[column])

    def new_rows(self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw a row for each label from its predictive distribution."""
        out = np.empty((len(labels), self.family.n_features), np.int64)
        fill_counts(key, labels, *self._posterior(statistics), self.data.inverses, out)
        return out


def _log_rising(x: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Log of Gamma(x + n) / Gamma(x), by beta functions, which keep the digits of large x."""
    return gammaln(n) - betaln(x, n)
