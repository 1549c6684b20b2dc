"""Gaussian families with a full covariance matrix for each component, also multiples of one matrix, and their kernels.

Proportional covariances are for mixtures with a given number of components.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from ...numerics.linalg import add_outer, fill_upper_root, squared_length
from ...numerics.simd import ENTRIES
from ...numerics.special import copy_to, log_rising_of_real
from ...utils._conditions import MOST_COUNTED, Array
from ...utils._njit import njit, njit_part
from ...utils._threads import Workers, split_range
from .. import kernels
from .._bound_rows import StartEffort
from .._protocols import Arrays
from .._statistics import OF_ROWS, move_entry, occupied
from . import matrix_kernels
from .base import GaussianParameters, MatrixData, refuse_singular
from .hyperparameters import MatrixMoments, NormalPrior, PriorNumbers, pooled
from .kernels import FULL_LANES, add_full_densities, add_products, add_squares_of_rows, load_columns, order_by_label
from .matrices import MatrixFamily, symmetric
from .missing_kernels import row_of

# Given n rows, a component has kappa = mean_precision + n, nu = degrees + n, a mean m and a scatter Psi. A further row
# x then has a Student t density, which depends on the squared length |L^-1 (x - m)|^2 with LL' = Psi; here U = L'.

_LOG_PI = math.log(math.pi)


class FullData(MatrixData):
    """Rows of clusters with a covariance matrix each."""

    __slots__ = ()


class FullPosterior(NamedTuple):
    """Posterior of each label with rows, for split-merge moves."""

    means: np.ndarray  # (capacity, d), relative to the origin
    roots: np.ndarray  # (capacity, d, d): U, upper triangular
    log_dets: np.ndarray  # (capacity,): of the scatters
    constants: np.ndarray  # (capacity,): of the predictive densities
    scratch: np.ndarray  # (d, d)
    gaps: np.ndarray  # (d,) scratch


@kernels.count_row.of(FullData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    total, product = statistics.sums[label], statistics.products[label]
    if statistics.sizes[label] == 0:
        total[:] = 0.0
        product[:] = 0.0
        return
    x, origin = row_of(data, statistics, row), data.origin
    for a in range(len(x)):
        entry = sign * (x[a] - origin[a])
        total[a] += entry
        for b in range(a + 1):
            product[a, b] += entry * (x[b] - origin[b])


@njit(cache=True, nogil=True)
def add_by_label(first, stop, X, by_label, ends, origin, sums, products):
    """Add rows to the sums of the labels `first` to `stop`; label k has ``by_label[ends[k] : ends[k + 1]]``."""
    scratch, ones = (np.zeros((4, X.shape[1])), np.empty(4)), np.ones(len(by_label))
    for k in range(first, stop):
        add_products(X, 0, by_label, ends[k], ends[k + 1], ones, origin, scratch, sums[k], products[k])


@kernels.merge_labels.of(FullData)
@njit_part
def _merge_labels(data, statistics, kept, gone):
    move_entry(statistics.sizes, kept, gone)
    move_entry(statistics.sums, kept, gone)
    move_entry(statistics.products, kept, gone)


@njit(cache=True, nogil=True)
def fill_posterior(data, statistics, label, mean, scatter):
    """Fill the posterior mean, relative to the origin, and the scatter; returns the size.

    Labels beyond the capacity have no rows.
    """
    n = statistics.sizes[label] if label < len(statistics.sizes) else np.int64(0)
    if n > 0:
        fill_from_sums(data, n, statistics.sums[label], statistics.products[label], mean, scatter)
        return n
    copy_to(mean, data.mean)
    copy_to(scatter, data.covariance)
    return n


@njit(cache=True, nogil=True)
def fill_from_sums(data, n, total, product, mean, scatter):
    """Fill the posterior mean, relative to the origin, and the scatter, given n rows."""
    d, prior, strength = len(mean), data.mean, data.mean_precision
    precision = strength + n
    for a in range(d):
        mean[a] = (strength * prior[a] + total[a]) / precision
    for a in range(d):
        from_prior, from_mean = strength * prior[a], precision * mean[a]
        for b in range(a + 1):
            entry = (data.covariance[a, b] + from_prior * prior[b] + product[a, b]) - from_mean * mean[b]
            scatter[a, b] = scatter[b, a] = entry


@matrix_kernels.fill_posteriors.of(FullData)
@njit(cache=True, nogil=True)
def _fill_posteriors(data, statistics, labels, first, stop, precisions, means, scatters, degrees):
    """Each label has a posterior of its own."""
    for k in range(first, stop):
        n = fill_posterior(data, statistics, labels[k], means[k], scatters[k])
        precisions[k], degrees[k] = data.mean_precision + n, data.degrees + n


# Scores


@kernels.fill_scores.of(FullData)
@njit(cache=True, nogil=True)
def _fill_scores(data, statistics, rows, n_above, current, components, scores):
    """A batch of rows at a time; rows with the same current component, which comes first, should be neighbours.

    A squared length is a sum of squares: a component is left out as soon as the first features show that all rows are
    far.
    """
    n_above = matrix_kernels.fill_observed_scores(components, data, rows, n_above, scores)
    parameters, padded = components.parameters, components.prepared
    n_padded = padded.shape[1]
    columns, gaps = np.zeros((n_padded, FULL_LANES)), np.zeros((n_padded, FULL_LANES))
    chosen, above = np.empty(FULL_LANES, np.int64), np.empty(FULL_LANES, np.int64)
    best, limit, total = np.empty(FULL_LANES), np.empty(FULL_LANES), np.empty(FULL_LANES)
    seen = np.full(len(padded), -1)  # the first row of the last batch for which a component was computed
    i = 0
    while i < len(rows):
        n, n_most, i = load_columns(data.values, rows, n_above, i, columns, chosen)
        for lane in range(n):
            above[lane], best[lane] = n_above[chosen[lane]], -np.inf
        # The rows' current components first: they are near, so that the others can be left out early.
        for step in range(n + n_most):
            k = current[chosen[step]] if step < n else step - n
            if seen[k] == chosen[0]:
                continue
            seen[k] = chosen[0]
            offset = parameters.offsets[k]
            for lane in range(n):
                # Beyond this squared length a component does not change the draw; -1 for rows that do not need it.
                limit[lane] = 2.0 * (offset - best[lane]) + data.far if above[lane] > k else -1.0
            if not _add_until_far(columns, n, parameters.means[k], padded[k], limit, gaps, total):
                total[:] = np.inf
            for lane in range(n):
                total[lane] = offset - 0.5 * total[lane]
                best[lane] = total[lane] if (total[lane] > best[lane]) & (above[lane] > k) else best[lane]
            for lane in range(n):
                if above[lane] > k:
                    scores[chosen[lane], k] = total[lane]


@njit(cache=True, nogil=True)
def _add_until_far(columns, n, mean, factor, limit, gaps, total):
    """Fill `total` with squared lengths of n rows; False if the first entries show that all are above their limits."""
    total[:] = 0.0
    for j in range(0, len(columns), ENTRIES):
        add_squares_of_rows(columns, n, mean, factor, j, j + ENTRIES, gaps, total)
        n_near = 0
        for lane in range(n):
            n_near += total[lane] <= limit[lane]
        if n_near == 0:
            return False
    return True


# Posteriors of labels


@njit(cache=True, nogil=True)
def _constant_of(data, n, log_det):
    """The part of the log predictive density given n rows that does not depend on the new row."""
    d, precision = len(data.mean), data.mean_precision + n
    of_degrees = log_rising_of_real(0.5 * (data.degrees + n + 1.0 - d), 0.5 * d)
    return of_degrees - 0.5 * d * (_LOG_PI + math.log1p(1.0 / precision)) - 0.5 * log_det


@njit(cache=True, nogil=True)
def _log_marginal_of(data, n, log_det):
    """Log marginal density of n rows whose scatter has this log determinant."""
    d, degrees = len(data.mean), data.degrees
    result = 0.5 * degrees * data.log_det - 0.5 * (degrees + n) * log_det - 0.5 * n * d * _LOG_PI
    result -= 0.5 * d * math.log1p(n / data.mean_precision)
    for j in range(d):
        result += log_rising_of_real(0.5 * (degrees - j), 0.5 * n)
    return result


@kernels.refresh_posterior.of(FullData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    n = fill_posterior(data, statistics, label, posterior.means[label], posterior.scratch)
    log_det = fill_upper_root(posterior.scratch, posterior.roots[label])
    posterior.log_dets[label], posterior.constants[label] = log_det, _constant_of(data, n, log_det)


@kernels.add_predictive.of(FullData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    x, origin, gaps = row_of(data, statistics, row), data.origin, posterior.gaps
    for c in range(n_labels):
        label = labels[c]
        n, mean = statistics.sizes[label], posterior.means[label]
        for a in range(len(x)):
            gaps[a] = (x[a] - origin[a]) - mean[a]
        share = (data.mean_precision + n) / (data.mean_precision + n + 1.0)
        of_square = math.log1p(share * squared_length(posterior.roots[label], gaps))
        out[c] += posterior.constants[label] - 0.5 * (data.degrees + n + 1.0) * of_square


@kernels.log_bayes_factor.of(FullData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    sizes, sums, products = statistics.sizes, statistics.sums, statistics.products
    n_0, n_1 = sizes[label_0], sizes[label_1]
    total, product = sums[label_0] + sums[label_1], products[label_0] + products[label_1]
    fill_from_sums(data, n_0 + n_1, total, product, posterior.gaps, posterior.scratch)
    of_union = _log_marginal_of(data, n_0 + n_1, fill_upper_root(posterior.scratch, product))
    of_0, of_1 = posterior.log_dets[label_0], posterior.log_dets[label_1]
    return _log_marginal_of(data, n_0, of_0) + _log_marginal_of(data, n_1, of_1) - of_union


@kernels.update_posterior.of(FullData)
@njit_part
def _update_posterior(data, statistics, posterior, row, label, sign):
    """Change the root of the scatter by a row, which takes less time than its computation from the sums."""
    kernels.count_row(data, statistics, row, label, sign)
    n, mean, root = statistics.sizes[label], posterior.means[label], posterior.roots[label]
    x, origin, gaps, precision = row_of(data, statistics, row), data.origin, posterior.gaps, data.mean_precision + n
    scale = math.sqrt((precision - sign) / precision)
    for a in range(len(x)):
        gap = (x[a] - origin[a]) - mean[a]
        mean[a] += sign * gap / precision
        gaps[a] = scale * gap
    change = add_outer(root, gaps, sign)
    posterior.log_dets[label] += change
    if np.isnan(change):
        fill_from_sums(data, n, statistics.sums[label], statistics.products[label], mean, posterior.scratch)
        posterior.log_dets[label] = fill_upper_root(posterior.scratch, root)
    posterior.constants[label] = _constant_of(data, n, posterior.log_dets[label])


_MANY_COLUMNS = 32  # distances between rows say little then
_N_PASSES = 40
_ROWS_AT_ONCE = 1 << 12
_PRIOR_ROWS = 1.0  # with the mean of all rows, in each cluster
_ROWS_OF_SHAPE = 0.1  # to which the prior of proportional covariances is equivalent, in each component
_TOLERANCE = 1e-4  # of the logarithms of volumes; the error of the density is of the order of its square
_MOST_STEPS = 100


class FullSums(NamedTuple):
    """Sums of rows by label."""

    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    sums: Annotated[np.ndarray, Array("float64", "capacity n_dimensions")]  # relative to the origin
    # (capacity, d, d), about the origin; lower triangles
    products: Annotated[np.ndarray, Array("float64", "_ n_dimensions n_dimensions")]
    # Rows with missing cells, which have their current values
    completed: Annotated[np.ndarray, Array("float64", "_ n_dimensions")]
    values: Annotated[np.ndarray, Array("float64", "_ n_dimensions")]  # of all rows, within their cells; else empty
    hyperparameters: Annotated[np.ndarray, Array("float64", "_")]  # of `Hyperprior`; without it empty

    @property
    def label_axes(self) -> tuple[int | None, ...]:
        """Axis of the labels in each array."""
        return 0, 0, 0, OF_ROWS, OF_ROWS, None


class FullFamily(MatrixFamily):
    """Gaussian family with a full covariance matrix for each component."""

    data_type, sums_type = FullData, FullSums

    def _add_densities(self, X, first, stop, parameters, out):
        add_full_densities(X, first, stop, parameters.means, self._prepared(parameters), parameters.offsets, out)

    def _prepared(self, parameters: GaussianParameters) -> np.ndarray:
        d = self.n_features
        padded = np.zeros((len(parameters.means), d + -d % ENTRIES, d + -d % ENTRIES))
        padded[:, :d, :d] = parameters.factors
        return padded

    # Clusters of rows

    def among_others(self) -> FullFamily:
        """These rows as one of several blocks of columns: no component is far if other blocks may prefer it."""
        block = copy(self)
        block._far, block.data = np.inf, self.data._replace(far=np.inf)
        return block

    def start_effort(self) -> StartEffort:
        """With many columns, more rows but fewer rounds: few rows do not tell clusters apart."""
        is_large = self.n_features >= _MANY_COLUMNS and self.n_rows > StartEffort().most_rows
        return StartEffort(100_000, (), 1, 0.25) if is_large else StartEffort()

    def _within(self, statistics: FullSums) -> np.ndarray:
        (sizes, _, scatters), d = self._moments(statistics), self.n_features
        whole = self.prior.covariance * len(sizes) ** (-2.0 / d)
        return pooled(scatters.sum(axis=0), sizes.sum(), len(sizes), whole, d + 2.0)

    def log_marginal_of(self, statistics: FullSums, reference: np.ndarray) -> Callable[[PriorNumbers], float]:
        """The log marginal density of the rows as a function of the numbers of the prior, up to a constant."""
        sizes, means, scatters = self._moments(statistics)
        return MatrixMoments(sizes, means - (self.prior.mean - self.origin), scatters, reference)

    def _moments(self, statistics: FullSums) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sizes of clusters with rows, their means relative to the origin, and scatters about these."""
        labels = occupied(statistics)
        sizes, products = statistics.sizes[labels], statistics.products[labels]
        means = statistics.sums[labels] / sizes[:, np.newaxis]
        rooted = np.sqrt(sizes)[:, np.newaxis] * means
        return sizes, means, symmetric(products) - rooted[:, :, np.newaxis] * rooted[:, np.newaxis, :]

    def count(self, labels: np.ndarray, statistics: FullSums, workers: Workers) -> None:
        """Add all rows to the statistics of their labels."""
        complete = np.flatnonzero(self.data.place < 0)
        ends, order = np.empty(len(statistics.sizes) + 1, np.int64), np.empty(len(complete), np.int64)
        order_by_label(labels[complete], ends, order)
        statistics.sizes[:] += np.diff(ends)
        shared = self.rows.values, complete[order], ends, self.origin, statistics.sums, statistics.products
        workers.run(add_by_label, [(*task, *shared) for task in self._ranges(np.diff(ends), workers)])
        if len(self._incomplete):
            self._count_some(self._incomplete, 1, labels, statistics, workers)

    def new_posterior(self, capacity: int, statistics: FullSums, key: np.uint64) -> FullPosterior:
        """Space for the posteriors of labels."""
        d = self.n_features
        of_labels = np.zeros((capacity, d)), np.zeros((capacity, d, d)), np.zeros(capacity), np.zeros(capacity)
        return FullPosterior(*of_labels, np.empty((d, d)), np.empty(d))

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means; with many columns, of clusters with one covariance that EM finds from there."""
        labels = super().spread_labels(n_clusters, key)
        if n_clusters == 1 or self.n_features < _MANY_COLUMNS:
            return labels
        d, prior = self.n_features, self.prior
        scatter = (d + 2.0) / max(prior.degrees - d - 1.0, 0.5) * prior.covariance  # as of d + 2 rows
        return tied_labels(self.rows.filled(0, self.n_rows, self.origin), labels, n_clusters, scatter)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 1000 + 45 * self.n_features


def tied_labels(rows: np.ndarray, labels: np.ndarray, n_clusters: int, scatter: np.ndarray) -> np.ndarray:
    """The likeliest clusters, (n,) int32, after some passes of EM for Gaussian clusters with one covariance.

    Distances between complete rows say little in many dimensions. The passes, in time K d + d^2 per row, find the
    metric of the clusters from initial labels; a positive definite `scatter`, (d, d), is added to that within clusters.
    """
    n, d = rows.shape
    gaps = rows - rows.mean(axis=0)
    whole = gaps.T @ gaps + scatter
    sizes, sums = np.bincount(labels, minlength=n_clusters).astype(float), np.zeros((n_clusters, d))
    np.add.at(sums, labels, gaps)
    found = np.empty(n, np.int32)
    for _ in range(_N_PASSES):
        precisions = sizes + _PRIOR_ROWS
        means = sums / precisions[:, np.newaxis]
        within = (whole - (precisions[:, np.newaxis] * means).T @ means) / n
        images = solve_triangular(np.linalg.cholesky(within), np.vstack([means, np.eye(d)]).T, lower=True)
        weights = images[:, n_clusters:].T @ images[:, :n_clusters]  # of the columns, in the score of each cluster
        offsets = np.log(precisions) - 0.5 * (images[:, :n_clusters] ** 2).sum(axis=0)
        sizes, sums = np.zeros(n_clusters), np.zeros((n_clusters, d))
        for start, stop in split_range(n, _ROWS_AT_ONCE):
            scores = gaps[start:stop] @ weights + offsets
            found[start:stop] = scores.argmax(axis=1)
            scores -= scores.max(axis=1, keepdims=True)
            shares = np.exp(scores, out=scores)
            shares /= shares.sum(axis=1, keepdims=True)
            sizes += shares.sum(axis=0)
            sums += shares.T @ gaps[start:stop]
    return found


class ProportionalFamily(FullFamily):
    """Gaussian family with the covariance matrix ``volume * matrix`` of each component.

    There is no conjugate prior: the mode maximises the density of `FullFamily` among such covariances.
    """

    draw = clusters = False  # type: ignore[assignment]

    def n_parameters(self) -> int:
        """Number of free parameters: means, volumes, and the matrix, whose determinant is 1."""
        K, d = self.n_components, self.n_features
        return K * d + K + d * (d + 1) // 2 - 1

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, among proportional covariances.

        Volumes given the matrix and the matrix given the volumes are computed in turn (Celeux and Govaert, 1995).
        """
        (data, sums), (K, d) = self._of_sums(statistics), statistics[1].shape
        self._precisions(statistics[0])
        means, scatters, degrees = np.empty((K, d)), np.empty((K, d, d)), np.empty(K)
        matrix_kernels.fill_posteriors(data, sums, np.arange(K), 0, K, np.empty(K), means, scatters, degrees)
        sizes = degrees - self._least_degrees - 1.0
        traces = np.einsum("kaa->k", scatters)
        if not (sizes.min() > 0.0 and traces.min() > 0.0):
            refuse_singular(f"The covariance of component {np.minimum(sizes, traces).argmin()}")
        volumes = traces / (d * sizes)
        for _ in range(_MOST_STEPS):
            matrix, before = np.einsum("kab,k->ab", scatters, 1.0 / volumes), volumes
            sign, log_det = np.linalg.slogdet(matrix)
            if not sign > 0.0:
                refuse_singular("The covariance of all components")
            matrix /= np.exp(log_det / d)
            volumes = np.einsum("kab,ab->k", scatters, np.linalg.inv(matrix)) / (d * sizes)
            if np.abs(np.log(volumes / before)).max() < _TOLERANCE:
                break
        return self._parameters(means, volumes[:, np.newaxis, np.newaxis] * matrix)

    def _learned_prior(self, sums: Any, free: Any, reference: np.ndarray, is_rough: bool) -> NormalPrior:
        """The prior whose covariances are those within components, with the weight of a tenth of a row each."""
        if is_rough:
            return super()._learned_prior(sums, free, reference, is_rough)
        if "covariance" not in free:
            return self.prior
        degrees = self._least_degrees + 1.0 + _ROWS_OF_SHAPE if "degrees" in free else self.prior.degrees
        return self.prior._replace(covariance=_ROWS_OF_SHAPE * reference, degrees=degrees)
