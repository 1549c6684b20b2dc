"""What clusters with covariance matrices share, full and tied: the prior, initial labels, and new rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from ....random._keys import fold_in_each, subkey
from ....random._variates import fill_normal, gamma_variate
from ....utils._threads import Workers, split_range
from ..._gaussian.base import NormalPrior, is_definite
from ..._gaussian.kernels import add_diagonal_densities
from ..._gaussian.missing_kernels import add_observed_densities, draw_cells, fill_observed_squares
from ..._pattern_kernels import fill_patterns
from ..._seeds import cluster_rows
from ..base import Clusters
from ..counting import count_some_rows

_ROWS_OF_SEEDS = 50  # per cluster, on average
_MOST_ROWS_OF_SEEDS = 20_000
_ROWS_DRAWN = 256  # of a task: some milliseconds
_OBSERVED_ROWS = 1024  # of a task: matrices are prepared once for them
_LEAST_FREEDOM = 1.0  # the denominator of the covariance of a predictive distribution whose covariance is used
_MISSING = 2**40  # child of a key beyond those of all rows, for draws of missing cells
_MOST_DEVIATIONS = 1e35  # from a row to the origin, so that products of a few squares are finite
_CELLS_OF_TASK = 20_000  # differences of rows and means: some milliseconds with ten features


class GaussianClusters(Clusters):
    """Base class of Gaussian rows whose components have covariance matrices.

    Parameters
    ----------
    values : ndarray of shape (n_rows, d)
        Rows; NaN where a cell is missing. The statistics have the current values of missing cells.
    prior : NormalPrior
        Prior of the means and of the covariance matrices.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    def __init__(self, values: np.ndarray, prior: NormalPrior, origin: np.ndarray) -> None:
        d = values.shape[1]
        if not (prior.mean_precision > 0.0 and prior.degrees > d - 1 and is_definite(prior.covariance)):
            raise ValueError(
                "A Dirichlet process mixture of Gaussian components needs a proper prior: mean_precision_prior above "
                f"0, degrees_of_freedom_prior above {d - 1} and a positive definite covariance_prior."
            )
        extremes = [of.reduce(values, axis=0, initial=np.nan) for of in (np.fmin, np.fmax)]
        with np.errstate(over="ignore"):
            refuse_far_rows((np.array([*extremes, prior.mean]) - origin) / np.sqrt(np.diagonal(prior.covariance)))
        self.values, self.prior, self.origin = values, prior, origin
        self.n_features = d
        self._patterns = np.empty(len(values), np.uint64)
        fill_patterns(values, self._patterns)
        self._incomplete = np.flatnonzero(self._patterns)
        self._place = np.full(len(values), -1, np.int32)
        self._place[self._incomplete] = np.arange(len(self._incomplete))
        super().__init__(self._data(), len(values))

    def part(self, start: int, stop: int) -> GaussianClusters:
        """The clusters of some of the rows."""
        return type(self)(self.values[start:stop], self.prior, self.origin)

    def subset(self, rows: np.ndarray) -> GaussianClusters:
        """The clusters of the rows with these indices."""
        return type(self)(self.values[rows], self.prior, self.origin)

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch, sorted by their labels; then those with missing cells, sorted by these cells."""
        if len(self._incomplete):
            return rows[np.lexsort((labels[rows], self._patterns[rows]))]
        of_rows = labels[rows]
        if of_rows.max(initial=0) <= np.iinfo(np.uint16).max:
            of_rows = of_rows.astype(np.uint16)  # numpy sorts these by radix, which is several times faster
        return rows[np.argsort(of_rows, kind="stable")]

    def split_merge_space(self, statistics: Any, key: np.uint64) -> tuple[Any, tuple[Any, Any]]:
        """Space for posteriors and sides, whose rows have the current values of missing cells."""
        posterior, (of_sides, posterior_of_sides) = super().split_merge_space(statistics, key)
        return posterior, (of_sides._replace(completed=statistics.completed), posterior_of_sides)

    def redraw_missing(
        self,
        rows: np.ndarray,
        new_labels: np.ndarray,
        labels: np.ndarray,
        statistics: Any,
        components: Any,
        place_of: np.ndarray,
        key: np.uint64,
        workers: Workers,
    ) -> None:
        """Draw the missing cells of rows given their new labels; the rows keep their old labels in the statistics."""
        incomplete = self._place[rows] >= 0
        if not incomplete.any():
            return
        chosen, drawn = rows[incomplete], place_of[new_labels[incomplete]].astype(np.int32)
        order = np.lexsort((drawn, self._patterns[chosen]))
        chosen, by_place = chosen[order], np.empty(len(self._incomplete), np.int32)
        places = self._place[chosen].astype(np.int64)
        by_place[places] = drawn[order]
        self._count_incomplete(chosen, -1, labels, statistics, workers)
        of_components = components.means, components.columns, components.precisions, statistics.completed
        shared = self._patterns, by_place, 0, subkey(key, _MISSING), *of_components
        tasks = split_range(len(chosen), _ROWS_DRAWN)
        workers.run(draw_cells, [(self.values, chosen[a:b], places[a:b], *shared) for a, b in tasks])
        self._count_incomplete(chosen, 1, labels, statistics, workers)

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the observed cells of the rows given each cluster."""
        if not len(self._incomplete):
            self._add_predictive(statistics, out, workers)
            return
        complete = np.flatnonzero(self._place < 0)
        of_complete = np.zeros((len(complete), out.shape[1]))
        self.subset(complete)._add_predictive(statistics, of_complete, workers)
        out[complete] += of_complete
        students = self._students(statistics, workers)
        tasks = [(self._by_pattern()[a:b], *students, out) for a, b in self._observed_tasks()]
        workers.run(self._add_observed_predictive, tasks)

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the observed cells of the rows given each component."""
        self._add_normal(components.means, self._factors_of(components), components.offsets, out, workers)

    def _completed(self) -> np.ndarray:
        """Rows with missing cells, whose initial values are those of the origin."""
        rows = self.values[self._incomplete]
        return np.where(np.isnan(rows), self.origin, rows)

    def _count_incomplete(self, rows: np.ndarray, sign: int, labels: np.ndarray, statistics: Any, workers: Workers):
        """Add rows with missing cells to the statistics of their labels, or subtract them."""
        tasks = self._ranges(np.bincount(labels[rows], minlength=len(statistics.sizes)), workers)
        workers.run(count_some_rows, [(self.data, rows, sign, labels, *task, statistics) for task in tasks])

    def _add_normal(self, means, factors, offsets, out, workers):
        """Add normal log densities of the observed cells, given means, (K, d), and factors, (K, d, d) or (1, d, d)."""
        if not len(self._incomplete):
            self._add_normal_of_complete(means, factors, offsets, out, workers)
            return
        complete = np.flatnonzero(self._place < 0)
        of_complete = np.zeros((len(complete), out.shape[1]))
        self.subset(complete)._add_normal_of_complete(means, factors, offsets, of_complete, workers)
        out[complete] += of_complete
        chosen, shared = self._by_pattern(), (self._patterns, means, factors, offsets, out)
        tasks = [(self.values, chosen[a:b], chosen[a:b], *shared) for a, b in self._observed_tasks()]
        workers.run(add_observed_densities, tasks)

    def _add_observed_predictive(self, chosen, means, factors, log_roots, shares, degrees, out):
        """Add the log densities of observed cells, of Student t distributions with ``shares * F'F`` as shapes."""
        n, K = len(chosen), len(means)
        squares, of_missing, n_seen = np.empty((n, K)), np.empty((n, K)), np.empty(n, np.int64)
        fill_observed_squares(self.values, chosen, self._patterns, means, factors, squares, of_missing, n_seen)
        seen = n_seen[:, np.newaxis]
        powers = 0.5 * (degrees + seen)
        terms = gammaln(powers) - gammaln(0.5 * degrees) + 0.5 * seen * np.log(shares / np.pi)
        terms += log_roots - of_missing - powers * np.log1p(shares * squares)
        out[chosen] += np.where(seen > 0, terms, 0.0)

    def _by_pattern(self) -> np.ndarray:
        """Rows with missing cells, those with the same missing cells next to each other."""
        return self._incomplete[np.argsort(self._patterns[self._incomplete], kind="stable")]

    def _observed_tasks(self) -> list[tuple[int, int]]:
        return split_range(len(self._incomplete), _OBSERVED_ROWS)

    if TYPE_CHECKING:  # each subclass defines these

        def _data(self) -> Any: ...

        def _add_predictive(self, statistics, out, workers): ...

        def _students(self, statistics, workers) -> Any: ...

        def _factors_of(self, components) -> np.ndarray: ...

        def _add_normal_of_complete(self, means, factors, offsets, out, workers): ...

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means of a random sample of the rows; the other rows have the nearest centre."""
        n_sampled = min(max(_ROWS_OF_SEEDS * n_clusters, 1000), _MOST_ROWS_OF_SEEDS, self.n_rows)
        values = self.values
        if len(self._incomplete):
            values = np.where(np.isnan(values), self.origin, values)
        if n_sampled == self.n_rows:
            return cluster_rows(values, min(n_clusters, self.n_rows), key)
        order = np.argsort(fold_in_each(key, np.arange(self.n_rows)), kind="stable")[:n_sampled]
        sample = values[order]
        labels = cluster_rows(sample, n_clusters, key)
        used, labels = np.unique(labels, return_inverse=True)
        centres = np.array([sample[labels == k].mean(axis=0) for k in range(len(used))])
        scales = np.ptp(values, axis=0)
        precisions = np.repeat(np.where(scales > 0.0, scales, 1.0)[np.newaxis] ** -2, len(centres), axis=0)
        nearest = np.empty(self.n_rows, np.int32)
        for start, stop in split_range(self.n_rows, max(1, (1 << 22) // len(centres))):
            nearness = np.zeros((stop - start, len(centres)))
            add_diagonal_densities(values, start, stop, centres, precisions, np.zeros(centres.shape), nearness)
            nearest[start:stop] = nearness.argmax(axis=1)
        return nearest

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 24.0 * self.n_features**2 * n_components

    def _tasks(self, n_labels: int, workers: Workers) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        return split_range(self.n_rows, max(64, _CELLS_OF_TASK // max(1, n_labels)))


def refuse_far_rows(*deviations: np.ndarray) -> None:
    """Raise a ValueError if a deviation from the origin, in prior standard deviations, is too large for its square."""
    if not max(np.fmax.reduce(np.abs(part), axis=None, initial=0.0) for part in deviations) < _MOST_DEVIATIONS:
        raise ValueError(
            f"X or mean_prior has values more than {_MOST_DEVIATIONS:g} prior standard deviations from the mean of the "
            "fitted rows: correct them, or use a larger covariance_prior."
        )


def predictive_factors(degrees: Any, n_features: int, precisions: np.ndarray) -> np.ndarray:
    """Ratios, (K,), of the covariances of predictive distributions and the posterior scatters.

    Where the covariance is infinite or nearly so, the inverse of the mean precision is in its place.
    """
    freedom = degrees - n_features - 1.0
    return (precisions + 1.0) / precisions / np.where(freedom > _LEAST_FREEDOM, freedom, degrees)


def student_rows(
    key: np.uint64,
    labels: np.ndarray,
    means: np.ndarray,
    roots: np.ndarray,
    scales: np.ndarray,
    degrees: np.ndarray,
) -> np.ndarray:
    """Rows m + sqrt(s / g) L z, with z standard normal and g chi-squared, given the label of each.

    Means (K, d), roots L (K, d, d) or (1, d, d), scales s and degrees of freedom (K,) are those of the labels. Row i
    depends only on the key, i and its label.
    """
    out, keys = np.empty((len(labels), means.shape[1])), fold_in_each(key, np.arange(len(labels)))
    fill_normal(keys, 0, out)
    halves = np.array(
        [gamma_variate(subkey(of_row, 1), 0.5 * degrees[k]) for of_row, k in zip(keys, labels, strict=True)]
    )
    out *= np.sqrt(scales[labels] / (2.0 * halves))[:, np.newaxis]
    for k in np.unique(labels):
        mine = labels == k
        out[mine] = means[k] + np.einsum("ib,ab->ia", out[mine], roots[min(int(k), len(roots) - 1)])
    return out


def log_student(values: np.ndarray, locations: np.ndarray, squares: np.ndarray, degrees: Any) -> np.ndarray:
    """Log densities, (n, K), of Student t distributions whose squared scales are `squares` over the degrees."""
    gaps = (values[:, np.newaxis] - locations) ** 2 / squares
    of_degrees = gammaln(0.5 * (degrees + 1.0)) - gammaln(0.5 * degrees) - 0.5 * np.log(np.pi * squares)
    return of_degrees - 0.5 * (degrees + 1.0) * np.log1p(gaps)
