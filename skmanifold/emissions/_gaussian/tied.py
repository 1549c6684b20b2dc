"""Gaussian family with one covariance matrix for all components."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...utils._threads import Workers
from .._statistics import OF_ROWS, without_rows
from .base import GaussianParameters, MatrixComponents
from .full import FullSums
from .kernels import add_products, add_tied_densities
from .learned_prior import PriorNumbers
from .matrices import MatrixFamily
from .matrix_kernels import fill_draws
from .tied_kernels import TiedData, TiedPosterior


class TiedSums(FullSums):
    """Sums of rows by label, and sums of products of all rows, (1, d, d)."""

    __slots__ = ()

    @property
    def label_axes(self) -> tuple[int, int, None, int]:  # type: ignore[override]
        """Axis of the labels in each array."""
        return 0, 0, None, OF_ROWS


class TiedFamily(MatrixFamily):
    """Gaussian family with one full covariance matrix for all components."""

    data_type, sums_type = TiedData, TiedSums
    shares_covariance = True

    def _add_densities(self, X, first, stop, parameters, out):
        of_components = parameters.factors[0], self._prepared(parameters), parameters.offsets
        add_tied_densities(X, first, stop, self.origin, *of_components, out)

    def _prepared(self, parameters: GaussianParameters) -> np.ndarray:
        return self._images(parameters.factors, parameters.means - self.origin)

    # Clusters of rows

    def with_learned_prior(self, statistics: TiedSums, free: Any) -> TiedFamily:
        """These rows with the most probable prior of the means given a partition."""
        prior = self.prior

        def log_marginal(numbers: PriorNumbers) -> float:
            return self.with_prior(prior._replace(mean_precision=numbers.mean_precision)).log_marginal(statistics)

        of_means = {"mean_precision"}.intersection(free)
        return self._with_best_prior(log_marginal, of_means, prior.covariance)

    def new_posterior(self, capacity: int, statistics: TiedSums, key: np.uint64) -> TiedPosterior:
        """Space for the posteriors of labels, with a covariance drawn given the partition."""
        one, d = np.zeros(1, np.int64), self.n_features
        drawn = self._components(fill_draws, self.data, statistics, key, labels=one)
        of_rows = drawn.factors[0], float(drawn.offsets[0]), np.empty(d), np.empty(d), np.full(1, -1)
        return TiedPosterior(np.zeros((capacity, d)), *of_rows)

    def count(self, labels: np.ndarray, statistics: TiedSums, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        super().count(labels, statistics, workers)  # sizes and sums
        statistics.products[:] += self._products_of(self.rows.values, np.flatnonzero(self.data.place < 0))
        statistics.products[:] += self._products_of(statistics.completed)

    def redraw_missing(self, rows, new_labels, labels, statistics, components, place_of, key, workers) -> None:
        """Draw the missing cells of rows given their new labels; the rows keep their old labels in the statistics."""
        places = self.data.place[rows[self.data.place[rows] >= 0]].astype(np.int64)
        before = self._products_of(statistics.completed, places)
        super().redraw_missing(rows, new_labels, labels, statistics, components, place_of, key, workers)
        statistics.products[:] += self._products_of(statistics.completed, places) - before

    def relabelled(self, labels: np.ndarray, statistics: TiedSums, new_labels: np.ndarray, workers: Workers) -> Any:
        """Sums by the new labels, added again: rounding errors of rows that moved do not accumulate."""
        if len(self._incomplete):
            of_none = statistics._replace(products=np.zeros_like(statistics.products))
            return super().relabelled(labels, of_none, new_labels, workers)
        again = without_rows(statistics, max(len(statistics.sizes), int(new_labels.max()) + 1))
        super().count(labels, again, workers)
        return again

    def add_log_density_of_new(self, components: MatrixComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given a new component, whose mean is integrated out."""
        _, covariances, factors, offsets = components.parameters
        scale = math.sqrt(1.0 + 1.0 / self.prior.mean_precision)
        of_new = covariances * scale**2, factors / scale, offsets[:1] - self.n_features * math.log(scale)
        self._add_normal(GaussianParameters(self.prior.mean[np.newaxis], *of_new), out, workers)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 500 + 10 * self.n_features

    def _products_of(self, rows: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Sum of products of rows about the origin, (d, d): the lower triangle."""
        d = self.n_features
        order, products = np.arange(len(rows)) if chosen is None else chosen, np.zeros((d, d))
        shared = np.ones(len(order)), self.origin, (np.zeros((4, d)), np.empty(4))
        add_products(rows, 0, order, 0, len(order), *shared, np.zeros(d), products)
        return products
