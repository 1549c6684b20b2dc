"""Clusters of Gaussian rows with diagonal or spherical covariances; missing cells are integrated out."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ....random._keys import Purpose, fold_in_each, subkey
from ....utils._conditions import MOST_COUNTED, Array, Sizes
from ....utils._declared import holds
from ....utils._threads import Workers, split_range
from ..._gaussian.base import NormalPrior
from ..._seeds import cluster_vectors
from ..base import Clusters
from ..counting import count_rows
from ..statistics import occupied
from . import diagonal_split_kernels  # noqa: F401 - its kernels are chosen by type
from .base import refuse_far_rows
from .diagonal_kernels import DiagonalComponents, DiagonalData, add_given_components, draw_components
from .diagonal_predictive_kernels import (
    DiagonalPosteriors,
    PredictiveTerms,
    add_given_sums,
    fill_new_rows,
    fill_posteriors,
    no_posteriors,
)
from .learned_prior import PriorNumbers, VarianceMoments, best_numbers, pooled

_LEAST_DEGREES = 3.0  # of a predictive distribution whose variance is used
_N_LOG_GAMMAS = 1 << 16  # in the table
_CELLS_DRAWN = 20_000  # of a task: more than a millisecond
_CELLS_OF_TASK = 200_000  # rows times clusters times features
_ROWS_PER_SEED = 20
_LEAST_SEED_ROWS = 2_000
_MOST_SEED_ROWS = 20_000
_ROWS_AT_ONCE = 1 << 14  # whose distances from all seeds are stored


def _sums_agree(statistics: DiagonalSums, sizes: Sizes) -> str | None:
    more = statistics.observed > statistics.sizes[:, np.newaxis]
    return "has more observed cells of a feature than rows" if more.any() else None


@holds(
    _sums_agree,
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    observed=Array("int64", ("capacity", "n_dimensions"), low=0, high=MOST_COUNTED),
    sums=Array("float64", ("capacity", "n_dimensions")),
    squares=Array("float64", ("capacity", "n_dimensions")),
)
class DiagonalSums(NamedTuple):
    """Sums of rows by label, relative to an origin and in units of scales."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    observed: np.ndarray  # (capacity, d) int64: numbers of observed cells
    sums: np.ndarray  # (capacity, d)
    squares: np.ndarray  # (capacity, d): sums of squares

    @property
    def label_axes(self) -> tuple[int, int, int, int]:
        """Axis of the labels in each array."""
        return 0, 0, 0, 0


class DiagonalClusters(Clusters):
    """Rows of numbers; a component has a normal distribution for each feature, with its own or with a shared variance.

    Parameters
    ----------
    values : ndarray of shape (n_rows, d)
        Rows; NaN is a missing cell.
    prior : NormalPrior
        Proper prior of the means and variances; a variance of each feature, or one that all features share.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors.
    """

    def __init__(self, values: np.ndarray, prior: NormalPrior, origin: np.ndarray) -> None:
        d, n_pools = len(origin), len(prior.covariance)
        # Powers of two change no digit of the rows.
        scales = np.broadcast_to(np.exp2(np.round(np.log2(prior.covariance) / 2.0)), (d,))
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray((values - origin) / scales)
            mean = (prior.mean - origin) / scales
        refuse_far_rows(rows, mean)
        n_table = min(len(rows) * (d // n_pools) + 1, _N_LOG_GAMMAS)
        data = DiagonalData(
            rows,
            np.linspace(0, d, n_pools + 1).astype(np.int64),
            mean,
            float(prior.mean_precision),
            prior.covariance / scales[:n_pools] ** 2,
            float(prior.degrees),
            np.log(scales),
            _log_gammas(prior.degrees, n_table),
        )
        super().__init__(data, len(rows))
        self.prior, self.origin, self.scales = prior, origin, scales

    def with_prior(self, prior: NormalPrior) -> DiagonalClusters:
        """These rows with another prior, in the same units; the mean of the prior stays."""
        other, data, degrees = copy(self), self.data, float(prior.degrees)
        other.prior = prior
        other.data = data._replace(
            mean_precision=float(prior.mean_precision),
            scatter=prior.covariance / self.scales[: len(prior.covariance)] ** 2,
            degrees=degrees,
            log_gammas=_log_gammas(degrees, len(data.log_gammas)),
        )
        return other

    def with_learned_prior(self, statistics: DiagonalSums, free: Any) -> DiagonalClusters:
        """These rows with the most probable prior given a partition."""
        labels, prior, data = occupied(statistics), self.prior, self.data
        K, n_pools, d = len(labels), len(data.scatter), len(self.origin)
        observed, sums = statistics.observed[labels].astype(float), statistics.sums[labels]
        means = np.divide(sums, observed, out=np.repeat(data.mean[np.newaxis], K, axis=0), where=observed > 0.0)
        scatters = np.maximum(statistics.squares[labels] - sums * means, 0.0)
        reference = data.scatter
        if "covariance" in free:
            whole = data.scatter * K ** (-2.0 / d)
            squares, n_cells = (array.sum(axis=0).reshape(n_pools, -1).sum(axis=1) for array in (scatters, observed))
            reference = pooled(squares, n_cells, K * (d // n_pools), whole, 3.0)
        moments = VarianceMoments(observed, means - data.mean, scatters, reference)
        given = PriorNumbers(1.0, prior.degrees, prior.mean_precision)
        factor, degrees, mean_precision = best_numbers(moments.log_marginal, given, free, 2.0)
        spread = factor * reference * self.scales[:n_pools] ** 2
        return self.with_prior(NormalPrior(prior.mean, mean_precision, spread, degrees))

    def no_statistics(self, capacity: int) -> DiagonalSums:
        """Sums of no rows."""
        shape = capacity, len(self.origin)
        return DiagonalSums(np.zeros(capacity, np.int64), np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape))

    def new_posterior(self, capacity: int, statistics: DiagonalSums, key: np.uint64) -> DiagonalPosteriors:
        """Space for the posteriors of the labels, and of one union of two labels."""
        return no_posteriors(self.data, capacity + 1)

    def relabelled(
        self, labels: np.ndarray, statistics: DiagonalSums, new_labels: np.ndarray, workers: Workers
    ) -> DiagonalSums:
        """Sums of the new labels, computed again from the rows, without the rounding errors of rows that moved."""
        counted = self.no_statistics(max(len(statistics.sizes), int(new_labels.max()) + 1))
        self.count(labels, counted, workers)
        return counted

    def draw_components(
        self, statistics: DiagonalSums, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> DiagonalComponents:
        """Draw means and variances."""
        d, K = len(self.origin), len(labels)
        components = DiagonalComponents(np.empty((d, K)), np.empty((d, K)), np.empty((d, K)))
        tasks = split_range(K, max(1, _CELLS_DRAWN // d))
        workers.run(draw_components, [(self.data, a, b, labels, statistics, key, components) for a, b in tasks])
        return components

    def log_marginal(self, statistics: DiagonalSums) -> float:
        """Log density of the observed cells of all rows given their labels."""
        return float(fill_posteriors(self.data, statistics, no_posteriors(self.data, len(statistics.sizes))))

    def add_log_predictive(self, statistics: DiagonalSums, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        self._add_log_predictive(self.data.rows, statistics, out, workers)

    def add_densities_of_rows(self, components: DiagonalComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        workers.run(add_given_components, [(a, b, self.data.rows, components, out) for a, b in self._tasks(out)])

    def arrays_of(self, components: DiagonalComponents) -> dict[str, np.ndarray]:
        """Drawn means and variances, (K, d)."""
        roots = components.roots.T
        return {
            "components": self.origin - self.scales * (components.shifts.T / roots),
            "covariances": (self.scales / roots) ** 2,
        }

    def expected(self, statistics: DiagonalSums) -> dict[str, np.ndarray]:
        """Posterior means of the means and variances, (K, d); a variance may have no finite mean."""
        posteriors = self._posteriors(statistics)
        degrees = self.data.degrees - 2.0 + posteriors.pooled
        variances = np.where(degrees > 0.0, posteriors.scatters / np.where(degrees > 0.0, degrees, 1.0), np.inf)
        return {
            "components_": self.origin + self.scales * posteriors.means,
            "covariances_": self.scales**2 * variances,
        }

    def cell_attributes(self, statistics: DiagonalSums) -> dict[str, np.ndarray]:
        """Means and variances of the predictive distributions of clusters."""
        posteriors = self._posteriors(statistics)
        after = self.data.degrees + posteriors.pooled
        variances = posteriors.scatters / np.where(after > _LEAST_DEGREES, after - 2.0, after)
        variances = np.repeat(variances, len(self.origin) // variances.shape[1], axis=1) / posteriors.weights
        return {
            "components_": self.origin + self.scales * posteriors.means,
            "covariances_": self.scales**2 * variances,
        }

    def new_rows(self, statistics: DiagonalSums, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Complete rows drawn from the predictive distributions of clusters."""
        rows = np.empty((len(labels), len(self.origin)))
        fill_new_rows(self.data, self._posteriors(statistics), labels, key, rows)
        return self.origin + self.scales * rows

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Labels of the nearest of the centres that k-means finds in some of the rows, from seeds by k-means++."""
        n_chosen = min(self.n_rows, max(_LEAST_SEED_ROWS, min(_ROWS_PER_SEED * n_clusters, _MOST_SEED_ROWS)))
        order = fold_in_each(subkey(key, Purpose.SUBSAMPLE), np.arange(self.n_rows))
        chosen = self.data.rows[np.sort(np.argpartition(order, n_chosen - 1)[:n_chosen])]
        missing = np.isnan(chosen)
        means = np.where(missing, 0.0, chosen).sum(axis=0) / np.maximum(n_chosen - missing.sum(axis=0), 1)
        filled = np.where(missing, means, chosen)
        labels = cluster_vectors(filled, np.ones(n_chosen), min(n_clusters, n_chosen), subkey(key, Purpose.LABELS))
        sums = self.no_statistics(int(labels.max()) + 1)
        count_rows(self.data._replace(rows=filled), labels, 0, len(sums.sizes), sums)
        centres = (sums.sums[occupied(sums)] / sums.sizes[occupied(sums), np.newaxis]).T
        deviations = filled.std(axis=0)
        roots = np.divide(1.0, deviations, out=np.zeros_like(means), where=deviations > 0.0)[:, np.newaxis]
        products = np.ascontiguousarray(-roots * centres)  # as in `draw_components`
        seeds = DiagonalComponents(np.repeat(roots, centres.shape[1], 1), products, np.zeros(centres.shape))
        out = np.empty(self.n_rows, np.int32)
        for start, stop in split_range(self.n_rows, _ROWS_AT_ONCE):
            nearness = np.zeros((stop - start, centres.shape[1]))
            add_given_components(0, stop - start, self.data.rows[start:stop], seeds, nearness)
            out[start:stop] = nearness.argmax(axis=1)
        return out

    def log_densities_of_column(self, statistics: DiagonalSums, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column, in rows whose other cells are missing."""
        rows = np.full((len(values), len(self.origin)), np.nan)
        rows[:, column] = (values - self.origin[column]) / self.scales[column]
        out = np.zeros((len(values), len(statistics.sizes)))
        self._add_log_predictive(rows, statistics, out, Workers(1))
        return out

    def part(self, start: int, stop: int) -> DiagonalClusters:
        """The clusters of some of the rows."""
        part = copy(self)
        part.data = self.data._replace(rows=self.data.rows[start:stop])
        part.n_rows = len(part.data.rows)
        return part

    def subset(self, rows: np.ndarray) -> DiagonalClusters:
        """The clusters of the rows with these indices."""
        chosen = copy(self)
        chosen.data, chosen.n_rows = self.data._replace(rows=self.data.rows[rows]), len(rows)
        return chosen

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 48.0 * len(self.origin) * n_components

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        d = len(self.origin)
        return int(250 * d / (0.17 * d + 5))

    def _posteriors(self, statistics: DiagonalSums) -> DiagonalPosteriors:
        posteriors = no_posteriors(self.data, len(statistics.sizes))
        fill_posteriors(self.data, statistics, posteriors)
        return posteriors

    def _add_log_predictive(
        self, rows: np.ndarray, statistics: DiagonalSums, out: np.ndarray, workers: Workers
    ) -> None:
        terms = self._predictive_terms(self._posteriors(statistics))
        tasks = self._tasks(out)
        workers.run(add_given_sums, [(a, b, rows, self.data.pool_start, terms, out) for a, b in tasks])

    def _predictive_terms(self, posteriors: DiagonalPosteriors) -> PredictiveTerms:
        width = len(self.origin) // len(self.data.scatter)
        scatters, weights = np.repeat(posteriors.scatters.T, width, axis=0), posteriors.weights.T
        heights = 0.5 * (np.log(weights) - np.log(scatters) - np.log(np.pi)) - self.data.log_scales[:, np.newaxis]
        powers = 0.5 * (self.data.degrees + posteriors.pooled.T)
        after = powers[:, np.newaxis] + 0.5 * np.arange(width + 1)[:, np.newaxis]
        steps = gammaln(after) - gammaln(powers)[:, np.newaxis]  # (n_pools, width + 1, K)
        _, groups = np.unique(powers, axis=0, return_inverse=True)
        return PredictiveTerms(
            np.ascontiguousarray(posteriors.means.T),
            np.ascontiguousarray(weights / scatters),
            heights,
            steps.reshape(-1, powers.shape[1]),
            np.ascontiguousarray(powers),  # kernels are compiled for one layout
            heights.sum(axis=0) + steps[:, width].sum(axis=0),
            groups.reshape(-1).astype(np.int64),
        )

    def _tasks(self, out: np.ndarray) -> list[tuple[int, int]]:
        """Ranges of rows of about a millisecond."""
        return split_range(len(out), max(1, _CELLS_OF_TASK // max(1, out.shape[1] * len(self.origin))))


def _log_gammas(degrees: float, n_table: int) -> np.ndarray:
    """Log gamma functions of half the degrees of freedom after 0, 1, ... cells."""
    return gammaln(0.5 * (degrees + np.arange(n_table)))
