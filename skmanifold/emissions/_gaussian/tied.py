"""Gaussian family with one covariance matrix for all components, and its kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...numerics.simd import ROW_LANES
from ...utils._njit import njit, njit_part
from ...utils._threads import Workers
from .. import kernels
from .._linear_kernels import merge_labels
from .._statistics import OF_ROWS, occupied, without_rows
from . import matrix_kernels
from .base import GaussianParameters, IncompleteComponents, MatrixComponents, MatrixData
from .full import FullSums, add_by_label
from .hyperparameters import NormalPrior, PriorNumbers, pooled
from .kernels import add_tied_densities, fill_image, fill_images_of_rows, fill_tied_squares, load_columns
from .learned import LearnsNumbers
from .matrices import MatrixFamily, symmetric
from .matrix_kernels import fill_draws
from .missing_kernels import row_of

# For split-merge moves a covariance is drawn before and fixed during them. Rows are multiplied by F, the inverse of its
# Cholesky factor, and are relative to the mean of the prior. Then the features are independent with variance 1, and the
# mean of a cluster with kappa = mean_precision + n has the posterior N(sum / kappa, 1 / kappa) in each.


class TiedData(MatrixData):
    """Rows of clusters with one covariance matrix."""

    __slots__ = ()


class TiedPosterior(NamedTuple):
    """Sums of the images of the rows of each label."""

    sums: np.ndarray  # (capacity, d)
    factor: np.ndarray  # (d, d)
    offset: float  # log density of a row at the mean, given the parameters
    gaps: np.ndarray  # (d,) scratch
    image: np.ndarray  # (d,), of the last row
    last: np.ndarray  # (1,) int64: the last row, or -1


@kernels.count_row.of(TiedData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    total = statistics.sums[label]
    if statistics.sizes[label] == 0:
        total[:] = 0.0
        return
    x, origin = row_of(data, statistics, row), data.origin
    for a in range(len(x)):
        total[a] += sign * (x[a] - origin[a])


kernels.merge_labels.of(TiedData)(merge_labels)


@kernels.fill_scores.of(TiedData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    n_above = matrix_kernels.fill_observed_scores(components, data, rows, n_above, scores)
    parameters, images, d = components.parameters, components.prepared, components.prepared.shape[1]
    columns, image, total = np.zeros((d, ROW_LANES)), np.empty((d, ROW_LANES)), np.empty(ROW_LANES)
    chosen, i = np.empty(ROW_LANES, np.int64), 0
    while i < len(rows):
        n, n_most, i = load_columns(data.values, rows, n_above, i, columns, chosen)
        fill_images_of_rows(columns, data.origin, parameters.factors[0], image)
        for k in range(n_most):
            fill_tied_squares(image, images[k], total)
            for lane in range(n):
                scores[chosen[lane], k] = parameters.offsets[k] - 0.5 * total[lane]


# Posteriors of labels


@matrix_kernels.fill_posteriors.of(TiedData)
@njit(cache=True, nogil=True)
def _fill_posteriors(data, statistics, labels, first, stop, precisions, means, scatters, degrees):
    """The scatter is that of all rows about the posterior means of all labels."""
    sizes, sums, scatter = statistics.sizes, statistics.sums, scatters[0]
    d, strength, centre = len(scatter), data.mean_precision, np.empty(len(scatter))
    for a in range(d):
        for b in range(d):
            scatter[a, b] = data.covariance[a, b] + statistics.products[0, a, b]
    degrees[0] = data.degrees + sizes.sum()
    for k in range(len(sizes)):
        if sizes[k] == 0:
            continue
        for a in range(d):
            from_prior = strength * data.mean[a]
            centre[a] = from_prior + sums[k, a]
            of_mean = centre[a] / (strength + sizes[k])
            for b in range(a + 1):
                scatter[a, b] += from_prior * data.mean[b] - of_mean * centre[b]
    for a in range(d):
        for b in range(a):
            scatter[b, a] = scatter[a, b]
    for i, k in enumerate(labels):
        has_rows = k < len(sizes) and sizes[k] > 0
        precisions[i] = strength + sizes[k] if has_rows else strength
        for a in range(d):
            means[i, a] = (strength * data.mean[a] + sums[k, a]) / (strength + sizes[k]) if has_rows else data.mean[a]


@njit(cache=True, nogil=True)
def _use_row(data, statistics, posterior, row):
    """Compute the image of a row unless it is that of the last one."""
    if posterior.last[0] == row:
        return
    x = row_of(data, statistics, row)
    for a in range(len(x)):
        posterior.gaps[a] = (x[a] - data.origin[a]) - data.mean[a]
    fill_image(posterior.factor, posterior.gaps, posterior.image)
    posterior.last[0] = row


@kernels.refresh_posterior.of(TiedData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    n = statistics.sizes[label]
    for a in range(len(data.mean)):
        posterior.gaps[a] = statistics.sums[label, a] - n * data.mean[a]
    fill_image(posterior.factor, posterior.gaps, posterior.sums[label])


@kernels.add_predictive.of(TiedData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    _use_row(data, statistics, posterior, row)
    image, d = posterior.image, len(posterior.image)
    for c in range(n_labels):
        total, precision = posterior.sums[labels[c]], data.mean_precision + statistics.sizes[labels[c]]
        spread, square = 1.0 + 1.0 / precision, 0.0
        for a in range(d):
            gap = image[a] - total[a] / precision
            square += gap * gap
        out[c] += posterior.offset - 0.5 * d * math.log(spread) - 0.5 * square / spread


@kernels.log_bayes_factor.of(TiedData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    sum_0, sum_1 = posterior.sums[label_0], posterior.sums[label_1]
    strength, d = data.mean_precision, len(sum_0)
    kappa_0, kappa_1 = strength + n_0, strength + n_1
    result = 0.5 * d * (math.log1p(n_1 / kappa_0) - math.log1p(n_1 / strength))
    of_0 = of_1 = of_union = 0.0
    for a in range(d):
        of_0 += sum_0[a] * sum_0[a]
        of_1 += sum_1[a] * sum_1[a]
        of_union += (sum_0[a] + sum_1[a]) * (sum_0[a] + sum_1[a])
    return result + 0.5 * (of_0 / kappa_0 + of_1 / kappa_1 - of_union / (kappa_0 + n_1))


@kernels.update_posterior.of(TiedData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    """Add or remove the image of a row; the sums of the rows of sides are not needed."""
    _use_row(data, statistics, posterior, row)
    statistics.sizes[label] += sign
    for a in range(len(posterior.image)):
        posterior.sums[label, a] += sign * posterior.image[a]


class TiedSums(FullSums):
    """Sums of rows by label, and sums of products of all rows, (1, d, d)."""

    __slots__ = ()

    @property
    def label_axes(self) -> tuple[int | None, ...]:
        """Axis of the labels in each array."""
        return 0, 0, None, OF_ROWS, OF_ROWS, None


class TiedFamily(MatrixFamily):
    """Gaussian family with one full covariance matrix for all components."""

    data_type, sums_type = TiedData, TiedSums
    shares_covariance = True

    def _add_densities(self, X, first, stop, parameters, out):
        of_components = parameters.factors[0], self._prepared(parameters), parameters.offsets
        add_tied_densities(X, first, stop, self.origin, *of_components, out)

    def _prepared(self, parameters: GaussianParameters) -> np.ndarray:
        return self._images(parameters.factors, parameters.means - self.origin)

    def _learned_prior(self, sums: Any, free: Any, reference: np.ndarray, is_rough: bool) -> NormalPrior:
        """The prior whose covariance is that within components, with the weight of one row."""
        return self.prior._replace(covariance=reference)

    def _within(self, statistics: TiedSums) -> np.ndarray:
        labels = occupied(statistics)
        sizes, whole = statistics.sizes[labels], self.prior.covariance * len(labels) ** (-2.0 / self.n_features)
        roots = statistics.sums[labels] / np.sqrt(sizes)[:, np.newaxis]
        scatter = symmetric(statistics.products[0]) - roots.T @ roots
        return pooled(scatter, sizes.sum(), len(sizes), whole, self.n_features + 2.0)

    # Clusters of rows

    def with_hyperprior(self, free: Any, before: LearnsNumbers) -> Any:
        """The family whose prior is the start of a chain, which draws no covariance of the prior."""
        return super().with_hyperprior([name for name in free if name not in ("covariance", "degrees")], before)

    def with_learned_prior(self, statistics: TiedSums, free: Any) -> TiedFamily:
        """These rows with the most probable prior of the means given a partition."""
        return super().with_learned_prior(statistics, {"mean_precision"}.intersection(free))

    def log_marginal_of(self, statistics: TiedSums, reference: np.ndarray) -> Callable[[PriorNumbers], float]:
        """The log marginal density of the rows as a function of the precision of means."""

        def log_marginal(numbers: PriorNumbers) -> float:
            prior = self.prior._replace(mean_precision=numbers.mean_precision)
            return self._with_numbers(prior).log_marginal(statistics)

        return log_marginal

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

    def add_log_density_of_new(
        self, components: MatrixComponents | IncompleteComponents, out: np.ndarray, workers: Workers
    ) -> None:
        """Add the log density of the rows given a new component, whose mean is integrated out."""
        _, covariances, factors, offsets = components.parameters
        scale = math.sqrt(1.0 + 1.0 / self.prior.mean_precision)
        of_new = covariances * scale**2, factors / scale, offsets[:1] - self.n_features * math.log(scale)
        parameters = GaussianParameters(self.prior.mean[np.newaxis], *of_new)
        self._add_by_ranges(lambda a, b, new: self._add_observed(self.rows, a, b, parameters, new), out, workers)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 500 + 10 * self.n_features

    def _products_of(self, rows: np.ndarray, chosen: np.ndarray | None = None) -> np.ndarray:
        """Sum of products of rows about the origin, (1, d, d): the lower triangle."""
        d, order = self.n_features, np.arange(len(rows)) if chosen is None else chosen
        sums, products = np.zeros((1, d)), np.zeros((1, d, d))
        add_by_label(0, 1, rows, order, np.array([0, len(order)]), self.origin, sums, products)
        return products
