"""Clusters of directions with von Mises-Fisher distributions."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit

from ....distributions import bessel_ratio
from ....random._keys import fold_in_each, subkey
from ....utils._conditions import MOST_COUNTED, Array
from ....utils._declared import holds
from ....utils._njit import njit
from ....utils._threads import Workers, split_range
from ..._von_mises_fisher.concentrations import MOST_NODES, draw_concentration, log_integral
from ..._von_mises_fisher.family import VonMisesFisherFamily, draw_directions, lengths_of, unit_vectors
from ..._von_mises_fisher.prior import ConcentrationPrior, log_peak
from ..._von_mises_fisher.rows import DenseRows, DirectedRows, SparseRows
from ..base import Clusters
from .kernels import (
    DenseDirectionComponents,
    DenseDirectionData,
    SparseDirectionComponents,
    SparseDirectionData,
)
from .predictive import add_interpolated, coefficients_of, table_of
from .split_kernels import DirectionPosterior

_CELLS_OF_TASK = 200_000  # products of rows and directions: a millisecond
_LOGITS = -12.0, 14.0  # of the learned mean cosine
_OF_CONCENTRATIONS, _OF_DIRECTIONS, _OF_ROWS = 0, 1, 2  # uses of the key of a draw


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    sums=Array("float64", ("capacity", "n_dimensions")),
)
class DirectionSums(NamedTuple):
    """Sums of unit vectors by label."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    sums: np.ndarray  # (capacity, d)

    @property
    def label_axes(self) -> tuple[int, int]:
        """Axis of the labels in each array."""
        return 0, 0

    def lengths(self) -> np.ndarray:
        """Lengths of the sums, at most the sizes."""
        return np.minimum(lengths_of(self.sums), self.sizes)


class DirectionClusters(Clusters):
    """Directions; each component has a mean direction, and a concentration that may be that of all components.

    Parameters
    ----------
    family : VonMisesFisherFamily
        The prior.
    rows : DirectedRows
        Dense or sparse rows.
    """

    has_columns = False

    def __init__(self, family: VonMisesFisherFamily, rows: DirectedRows) -> None:
        self.family, self.rows, self.prior = family, rows, family.prior
        self.n_features = family.n_features
        self._order = 0.5 * family.n_features - 1.0
        kind = family.concentration
        self._given = 0.0 if isinstance(kind, str) else float(kind)
        self._is_shared = kind == "shared"
        prior = family.n_features, self.prior.rows, self.prior.gap, self.prior.log_normalizer(family.n_features)
        data: DenseDirectionData | SparseDirectionData
        if isinstance(rows, DenseRows):
            values, factors = rows.factors()
            data = DenseDirectionData(np.ascontiguousarray(values), factors, *prior)
        else:
            indptr, indices, units, _ = cast(SparseRows, rows).directions
            data = SparseDirectionData(indptr, indices, units, *prior)
        super().__init__(data, rows.n_rows)

    def with_prior(self, prior: ConcentrationPrior) -> DirectionClusters:
        """These rows with another prior."""
        family = self.family
        numbers = family.concentration, family.n_components, family.n_features
        return DirectionClusters(VonMisesFisherFamily(prior, *numbers), self.rows)

    def with_learned_prior(self, statistics: DirectionSums, free: Any) -> DirectionClusters:
        """These rows with the mean cosine of the prior that maximises the marginal likelihood of a partition."""
        used = statistics.sizes > 0
        sizes, lengths, prior = statistics.sizes[used].astype(float), statistics.lengths()[used], self.prior

        def cost(logit: float) -> float:
            of_prior = ConcentrationPrior(prior.rows, float(expit(logit)))
            log_normalizer = of_prior.log_normalizer(self.n_features)
            return -float(_log_marginals(self._order, of_prior.rows, of_prior.gap, log_normalizer, sizes, lengths))

        found = minimize_scalar(cost, bounds=_LOGITS, method="bounded", options={"xatol": 0.01})
        return self.with_prior(ConcentrationPrior(prior.rows, float(expit(found.x))))

    def no_statistics(self, capacity: int) -> DirectionSums:
        """Sums of no rows."""
        return DirectionSums(np.zeros(capacity, np.int64), np.zeros((capacity, self.n_features)))

    def new_posterior(self, capacity: int, statistics: DirectionSums, key: np.uint64) -> DirectionPosterior:
        """Space for the posteriors of labels, with a drawn concentration if all clusters share it."""
        concentration = self._given
        if self._is_shared:
            concentration = float(self._draw_concentrations(statistics, np.arange(1), key)[0])
        return DirectionPosterior(np.zeros(capacity), concentration, np.empty(MOST_NODES), np.empty(MOST_NODES))

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch, sorted by their labels: pairs of rows then need scores of as many components."""
        return rows[np.argsort(labels[rows], kind="stable")]

    def relabelled(
        self, labels: np.ndarray, statistics: DirectionSums, new_labels: np.ndarray, workers: Workers
    ) -> Any:
        """Sums by the new labels, added again: rounding errors of rows that moved do not accumulate."""
        again = self.no_statistics(max(len(statistics.sizes), int(new_labels.max()) + 1))
        self.count(labels, again, workers)
        return again

    def draw_components(self, statistics: DirectionSums, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw concentrations with the directions integrated out, and then directions."""
        concentrations = self._draw_concentrations(statistics, labels, subkey(key, _OF_CONCENTRATIONS))
        sums = np.zeros((len(labels), self.n_features))
        known = labels < len(statistics.sizes)
        sums[known] = statistics.sums[labels[known]]
        of_directions = concentrations * lengths_of(sums)
        directions = draw_directions(subkey(key, _OF_DIRECTIONS), sums, of_directions)
        log_peaks = log_peak(self.n_features, concentrations)
        if isinstance(self.data, DenseDirectionData):
            directions = directions.astype(self.data.values.dtype)
            return DenseDirectionComponents(directions, concentrations, log_peaks)
        return SparseDirectionComponents(np.ascontiguousarray(directions.T), concentrations, log_peaks)

    def log_marginal(self, statistics: DirectionSums) -> float:
        """Log density of all rows given their labels, relative to the uniform distribution."""
        used = statistics.sizes > 0
        sizes, lengths = statistics.sizes[used].astype(float), statistics.lengths()[used]
        if self._is_shared:
            n, log_normalizer = sizes.sum(), self.data.log_normalizer
            gap = float((sizes - lengths).sum()) + self.prior.gap
            return float(log_integral(self._order, n + self.prior.rows, gap, lengths)) - log_normalizer
        if self._given > 0.0:
            peaks = sizes * log_peak(self.n_features, self._given) - log_peak(self.n_features, self._given * lengths)
            return float((peaks - self._given * (sizes - lengths)).sum())
        prior = self.prior.rows, self.prior.gap, self.data.log_normalizer
        return float(_log_marginals(self._order, *prior, sizes, lengths))

    def add_log_predictive(self, statistics: DirectionSums, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster, relative to the uniform distribution."""
        units, _ = unit_vectors(statistics.sums)
        lengths = statistics.lengths()
        tables = [] if self._given > 0.0 else self._tables(statistics)
        coefficients = coefficients_of(self._order, self._given, tables, lengths)
        shared = np.ascontiguousarray(units.T), coefficients, out
        workers.run(self._add_interpolated, [(*task, *shared) for task in self._tasks(len(lengths))])

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component, relative to the uniform distribution."""
        of_components = self._columns(components), components.concentrations, components.log_peaks
        tasks = self._tasks(out.shape[1])
        workers.run(self.rows.add_log_densities, [(a, b, *of_components, out[a:b]) for a, b in tasks])

    def add_log_density_of_new(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """The density of a row given a new component is that of the uniform distribution."""

    def arrays_of(self, components: Any) -> dict[str, np.ndarray]:
        """Expected rows, (K, d), and concentrations."""
        cosines = bessel_ratio(self.n_features, components.concentrations)
        return {
            "components": cosines[:, np.newaxis] * self._columns(components).T,
            "concentrations": components.concentrations,
        }

    def expected(self, statistics: DirectionSums) -> dict[str, np.ndarray]:
        """Posterior means of expected rows and of concentrations, and directions of the sums of rows."""
        units, _ = unit_vectors(statistics.sums)
        lengths, d = statistics.lengths(), self.n_features
        tables = [(np.log([self._given]), np.zeros(1))] if self._given > 0.0 else self._tables(statistics)
        cosines, concentrations = np.empty(len(lengths)), np.empty(len(lengths))
        for k, length in enumerate(lengths):
            nodes, logs = tables[min(k, len(tables) - 1)]
            values, shares = np.exp(nodes), np.exp(logs)
            cosines[k] = shares @ (bessel_ratio(d, values) * bessel_ratio(d, values * length))
            concentrations[k] = shares @ values
        return {
            "components_": cosines[:, np.newaxis] * units,
            "mean_directions_": units,
            "concentrations_": concentrations,
        }

    def new_rows(self, statistics: DirectionSums, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Rows drawn from the predictive distributions of clusters."""
        keys = fold_in_each(subkey(key, _OF_CONCENTRATIONS), np.arange(len(labels)))
        lengths, sizes = statistics.lengths(), statistics.sizes
        concentrations = np.full(len(labels), self._given)
        if self._given == 0.0:
            of_rows = self._posterior_of(statistics)
            for i, k in enumerate(labels):
                concentrations[i] = draw_concentration(keys[i], self._order, *of_rows(sizes[k], lengths[k]))
        of_means = concentrations * lengths_of(statistics.sums)[labels]
        means = draw_directions(subkey(key, _OF_DIRECTIONS), statistics.sums[labels], of_means)
        return draw_directions(subkey(key, _OF_ROWS), means, concentrations)

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by spherical k-means from seeds."""
        family, n = self.family, min(n_clusters, self.n_rows)
        return VonMisesFisherFamily(self.prior, family.concentration, n, self.n_features).seed_labels(self.rows, key)

    def part(self, start: int, stop: int) -> DirectionClusters:
        """The clusters of some of the rows."""
        return self._of(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> DirectionClusters:
        """The clusters of the rows with these indices."""
        return self._of(self.rows.take(rows))

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        return 24.0 * self.n_features * n_components

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        return 2000

    def _of(self, rows: DirectedRows) -> DirectionClusters:
        return DirectionClusters(self.family, rows)

    def _columns(self, components: Any) -> np.ndarray:
        """Directions as columns, (d, K)."""
        is_dense = isinstance(components, DenseDirectionComponents)
        return components.directions.T if is_dense else components.directions

    def _tasks(self, n_labels: int) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        size = max(256, _CELLS_OF_TASK // max(1, n_labels))
        return split_range(self.n_rows, 256 * -(-size // 256))

    def _add_interpolated(self, first: int, stop: int, directions: np.ndarray, coefficients, out: np.ndarray) -> None:
        cosines, ones = np.zeros((stop - first, len(coefficients))), np.ones(len(coefficients))
        self.rows.add_log_densities(first, stop, directions, ones, ones, cosines)
        add_interpolated(cosines, coefficients, out[first:stop])

    def _posterior_of(self, statistics: DirectionSums) -> Any:
        """A function of the size and length of a cluster that returns what `tabulate` needs of its concentration."""
        prior = self.prior
        if not self._is_shared:
            return lambda n, length: (n + prior.rows, n - length + prior.gap, np.full(int(length > 0.0), length))
        used = statistics.sizes > 0
        n, lengths = float(statistics.sizes.sum()), statistics.lengths()[used]
        common = n + prior.rows, n - float(lengths.sum()) + prior.gap, lengths
        return lambda n, length: common

    def _tables(self, statistics: DirectionSums) -> list[tuple[np.ndarray, np.ndarray]]:
        """Posteriors of the concentration of each cluster, or of all."""
        of_cluster = self._posterior_of(statistics)
        pairs = zip(statistics.sizes, statistics.lengths(), strict=True)
        if self._is_shared:
            return [table_of(self._order, *of_cluster(0, 0.0))]
        return [table_of(self._order, *of_cluster(size, length)) for size, length in pairs]

    def _draw_concentrations(self, statistics: DirectionSums, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Concentrations of components; labels beyond the capacity have no rows."""
        kind, known = self.family.concentration, labels < len(statistics.sizes)
        if kind == "shared":
            every = statistics.sizes.astype(float), statistics.lengths()
            return np.full(len(labels), self.prior.draw(self.n_features, kind, *every, key)[0])
        sizes, lengths = np.zeros(len(labels)), np.zeros(len(labels))
        sizes[known] = statistics.sizes[labels[known]]
        lengths[known] = statistics.lengths()[labels[known]]
        return self.prior.draw(self.n_features, kind, sizes, lengths, key)


@njit(cache=True, nogil=True)
def _log_marginals(order, rows, gap, log_normalizer, sizes, lengths):
    """Sum of log densities of the rows of clusters that have their own concentrations."""
    total = 0.0
    for k in range(len(sizes)):
        of_cluster = lengths[k : k + (1 if lengths[k] > 0.0 else 0)]
        total += log_integral(order, sizes[k] + rows, sizes[k] - lengths[k] + gap, of_cluster) - log_normalizer
    return total
