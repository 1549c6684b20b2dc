"""What Gaussian families with covariance matrices share: a matrix for each component, or one for all components."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from ...numerics.block_sums import BLOCK_ROWS, BlockSums
from ...numerics.rank_one import fill_upper_root
from ...random._keys import fold_in_each, subkey
from ...random._variates import fill_normal, gamma_variate
from ...utils._threads import Workers, split_range
from .._cells import MatrixNormalCells
from .._dense_rows import DenseRows, IncompleteRows
from .._protocols import Arrays
from .._seeds import cluster_rows
from .._statistics import count_some_rows, occupied
from .base import LEAST_SHARE, LOG_2PI, GaussianFamily, NormalPrior, refuse_far_rows, refuse_singular
from .kernels import add_diagonal_densities, factor_covariances
from .missing_kernels import (
    add_expected_products,
    add_observed_densities,
    draw_cells,
    draw_missing_cells,
    fill_columns_and_precisions,
    fill_observed_squares,
)

COST_OF_TASK = 2_000_000  # multiplications, about a millisecond
_ROWS_OF_SEEDS = 50  # per cluster, on average
_MOST_ROWS_OF_SEEDS = 20_000
_ROWS_DRAWN = 256  # of a task: some milliseconds
_OBSERVED_ROWS = 1024  # of a task: matrices are prepared once for them
_LEAST_FREEDOM = 1.0  # the denominator of the covariance of a predictive distribution whose covariance is used
_MISSING = 2**40  # child of a key beyond those of all rows, for draws of missing cells
_ONE = Workers(1)
_CELLS_OF_TASK = 20_000  # differences of rows and means: some milliseconds with ten features


class MatrixPosterior(NamedTuple):
    """Posterior of means given the covariance matrices, and of the matrices: G of them, K or one for all components."""

    precisions: np.ndarray  # (K,): of the means, in rows
    means: np.ndarray  # (K, d), relative to the origin
    scatters: np.ndarray  # (G, d, d)
    degrees: np.ndarray  # (G,): degrees of freedom


class MatrixFamily(GaussianFamily):
    """Base class of Gaussian families with covariance matrices.

    Their statistics are those of completed rows. The missing cells are drawn given the observed cells and the component
    of the row, or the statistics are expectations. Before there are parameters, missing cells are at the origin.

    Parameters
    ----------
    prior : NormalPrior
        Prior of the means and covariances.
    n_components : int
        Number of components K.
    origin : ndarray of shape (d,)
        A point near the rows, which reduces rounding errors: the mean of the observed cells.
    """

    rows: Any  # of clusters
    _incomplete: np.ndarray  # indices of the rows with missing cells
    data_type: ClassVar[Any]
    sums_type: ClassVar[Any]
    parameters_type: ClassVar[Any]

    def mode(self, statistics: Arrays) -> Any:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        _, means, scatters, degrees = self._bound()._posterior(self._sums(statistics))
        degrees = degrees - self.n_features - 1.0 - len(means) // len(scatters)
        return self._parameters(means, scatters / np.where(degrees > 0.0, degrees, np.nan)[:, np.newaxis, np.newaxis])

    def draw(self, statistics: Arrays, key: np.uint64) -> Any:
        """Draw means and covariances from their posterior."""
        bound = self._bound()
        bound._refuse_improper()
        return bound._draw(self._sums(statistics), np.arange(self.n_components), key, _ONE)

    def add_log_densities(
        self, rows: DenseRows | IncompleteRows, first: int, stop: int, parameters: Any, out: np.ndarray
    ) -> None:
        """Add the log densities of the observed cells of the rows `first` to `stop` given each component."""
        if not isinstance(rows, IncompleteRows):
            self._add_densities(rows.values, first, stop, parameters, out)
            return
        complete, incomplete = rows.split(first, stop)
        of_complete = np.zeros((len(complete), out.shape[1]))  # the same bytes as without the other rows
        self._add_densities(rows.values[complete], 0, len(complete), parameters, of_complete)
        out[complete - first] += of_complete
        if len(incomplete):
            of_components = parameters.means, self._matrices(parameters.factors), parameters.offsets
            add_observed_densities(rows.values, incomplete, incomplete - first, rows.patterns, *of_components, out)

    def draw_missing(
        self,
        rows: IncompleteRows,
        first: int,
        stop: int,
        labels: np.ndarray,
        parameters: Any,
        key: np.uint64,
        first_row: int,
    ) -> DenseRows:
        """Draw the missing cells of the rows `first` to `stop`, given their components and the observed cells."""
        values = rows.values[first:stop].copy()
        _, incomplete = rows.split(first, stop)
        incomplete = incomplete[np.argsort(labels[incomplete - first], kind="stable")]
        of_rows = rows.values, incomplete, incomplete - first, rows.patterns, labels
        factors = self._matrices(parameters.factors)
        draw_missing_cells(*of_rows, first_row, key, parameters.means, factors, values)
        return DenseRows(values)

    def sum_expected(
        self,
        rows: IncompleteRows,
        first: int,
        stop: int,
        first_block: int,
        shares: np.ndarray,
        parameters: Any,
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, given the observed cells and membership probabilities."""
        d, factors = self.n_features, self._matrices(parameters.factors)

        def add(start, stop, *arrays):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                sizes, sums, products = (array[block] for array in arrays)
                complete, incomplete = rows.split(first + start + a, first + start + b)
                of_complete = DenseRows(rows.values[complete]), 0, len(complete), shares[complete - first]
                self._add_shared(*of_complete, sizes, sums, products)
                of_rows = rows.values, incomplete, incomplete - first, rows.patterns, shares
                into = self.origin, sizes, sums, products.reshape(-1, d, d)
                add_expected_products(*of_rows, parameters.means, factors, *into)

        return self.sum_blocks(stop - first, first_block, add)

    def _sums(self, statistics: Arrays) -> Any:
        """Statistics as the kernels of posteriors read them."""
        return self.sums_type(*statistics, np.empty((0, self.n_features)))

    def _posterior(self, statistics: Any, labels: np.ndarray | None = None, workers: Workers = _ONE) -> MatrixPosterior:
        """The posterior of the parameters of labels; labels beyond the capacity have no rows."""
        n_labels = len(statistics.sizes)
        labels = np.arange(n_labels) if labels is None else labels
        sizes = np.where(labels < n_labels, statistics.sizes[np.minimum(labels, n_labels - 1)], 0)
        precisions, means = self._precisions(sizes), np.empty((len(labels), self.n_features))
        return MatrixPosterior(precisions, means, *self._fill_posterior(statistics, labels, sizes, means, workers))

    def _parameters(self, means: np.ndarray, covariances: np.ndarray) -> Any:
        """Parameters with these means, relative to the origin, and covariances."""
        covariances = self._matrices(covariances)
        return self._whole(means, covariances, *self._factors(covariances, LEAST_SHARE))

    def _factors(
        self, matrices: np.ndarray, least_share: float = 0.0, workers: Workers = _ONE
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inverses of the Cholesky factors of matrices, (G, d, d), and their log determinants."""
        factors, log_roots = np.empty(matrices.shape), np.empty(len(matrices))
        tasks = split_range(len(matrices), 1 + COST_OF_TASK // (self.n_features**3 + 1000))
        shared = matrices, least_share, factors, log_roots
        self._refuse_singular(workers.run(factor_covariances, [(*task, *shared) for task in tasks]))
        return factors, log_roots

    def _refuse_singular(self, found: list[int]) -> None:
        """Raise a NoModeError if a component is singular; kernels return -1 if none is."""
        component = max(found, default=-1)
        if component >= 0:
            refuse_singular(f"The covariance of {self._name_of(component)}")

    def _whole(self, means: np.ndarray, covariances: np.ndarray, factors: np.ndarray, log_roots: np.ndarray) -> Any:
        offsets = np.array(np.broadcast_to(log_roots - 0.5 * self.n_features * LOG_2PI, len(means)))
        return self.parameters_type(means + self.origin, self._shaped(covariances), self._shaped(factors), offsets)

    def _matrices(self, of_parameters: np.ndarray) -> np.ndarray:
        """Matrices of parameters, (G, d, d)."""
        return np.ascontiguousarray(of_parameters).reshape(-1, self.n_features, self.n_features)

    if TYPE_CHECKING:  # each subclass defines these

        def _fill_posterior(self, statistics, labels, sizes, means, workers) -> tuple[np.ndarray, np.ndarray]: ...

        def _draw(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any: ...

        def _shaped(self, matrices: np.ndarray) -> np.ndarray: ...

        def _name_of(self, component: int) -> str: ...

    # Clusters of rows

    def clusters(self, rows: DenseRows | IncompleteRows | None = None) -> Any:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        bound = self._bound(rows)
        bound._refuse_improper()
        extremes = [of.reduce(bound.rows.values, axis=0, initial=np.nan) for of in (np.fmin, np.fmax)]
        prior = self.prior
        with np.errstate(over="ignore"):
            gaps = np.array([*extremes, prior.mean]) - self.origin
            refuse_far_rows(gaps / np.sqrt(np.diagonal(prior.covariance)))
        return bound

    def _bound(self, rows: DenseRows | IncompleteRows | None = None) -> Any:
        bound = copy(self)
        bound.rows = rows = DenseRows(np.empty((0, self.n_features))) if rows is None else rows
        bound.n_rows = rows.n_rows
        patterns = rows.patterns if isinstance(rows, IncompleteRows) else np.zeros(rows.n_rows, np.uint64)
        bound._incomplete = np.flatnonzero(patterns)
        place = np.full(rows.n_rows, -1, np.int32)
        place[bound._incomplete] = np.arange(len(bound._incomplete))
        bound._set_data(place, patterns)
        return bound

    def _set_data(self, place: np.ndarray, patterns: np.ndarray) -> None:
        mean, mean_precision, covariance, degrees = self.prior
        covariance = np.ascontiguousarray(covariance, np.float64)
        of_prior = mean - self.origin, float(mean_precision), covariance, float(degrees)
        log_det = float(fill_upper_root(covariance, np.empty(covariance.shape)))
        self.data = self.data_type(self.rows.values, place, patterns, self.origin, *of_prior, log_det)

    def _refuse_improper(self) -> None:
        self._check_proper(self.n_features - 1, bool(np.isfinite(self.data.log_det)))

    def part(self, start: int, stop: int) -> Any:
        """The clusters of some of the rows."""
        return self._bound(self.rows.part(start, stop))

    def subset(self, rows: np.ndarray) -> Any:
        """The clusters of the rows with these indices."""
        return self._bound(self.rows.take(rows))

    def with_prior(self, prior: NormalPrior) -> Any:
        """These rows with another prior."""
        other = copy(self)
        other.prior = prior
        other._set_data(self.data.place, self.data.patterns)
        return other

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch, sorted by their labels; then those with missing cells, sorted by these cells."""
        if len(self._incomplete):
            return rows[np.lexsort((labels[rows], self.data.patterns[rows]))]
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
        incomplete = self.data.place[rows] >= 0
        if not incomplete.any():
            return
        chosen, drawn = rows[incomplete], place_of[new_labels[incomplete]].astype(np.int32)
        order = np.lexsort((drawn, self.data.patterns[chosen]))
        chosen, by_place = chosen[order], np.empty(len(self._incomplete), np.int32)
        places = self.data.place[chosen].astype(np.int64)
        by_place[places] = drawn[order]
        self._count_incomplete(chosen, -1, labels, statistics, workers)
        of_components = components.parameters.means, components.columns, components.precisions, statistics.completed
        shared = self.data.patterns, by_place, 0, subkey(key, _MISSING), *of_components
        tasks = split_range(len(chosen), _ROWS_DRAWN)
        workers.run(draw_cells, [(self.rows.values, chosen[a:b], places[a:b], *shared) for a, b in tasks])
        self._count_incomplete(chosen, 1, labels, statistics, workers)

    def log_marginal(self, statistics: Any) -> float:
        """Log density of all rows given their labels."""
        d, prior, labels = self.n_features, self.prior, occupied(statistics)
        _, _, scatters, degrees = self._posterior(statistics, labels)
        _, log_roots = self._factors(scatters)
        n = degrees - prior.degrees
        of_scatters = prior.degrees * self.data.log_det + 2.0 * degrees * log_roots - n * d * np.log(np.pi)
        of_degrees = multigammaln(0.5 * degrees, d) - multigammaln(0.5 * prior.degrees, d)
        of_means = d * np.log1p(statistics.sizes[labels] / prior.mean_precision).sum()
        return float((of_degrees + 0.5 * of_scatters).sum() - 0.5 * of_means)

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the observed cells of the rows given each cluster."""
        precisions, means, scatters, degrees = self._posterior(statistics, workers=workers)
        factors, log_roots = self._factors(scatters, workers=workers)
        parameters = self._whole(means, scatters, factors, log_roots)._replace(offsets=np.zeros(len(means)))
        shared = parameters, log_roots, precisions / (precisions + 1.0), degrees - self.n_features + 1.0, out
        workers.run(self._add_students, [(*task, *shared) for task in self._tasks(len(means))])

    def _add_students(self, start, stop, parameters, log_roots, shares, degrees, out):
        """Add log densities of the rows `start` to `stop`, Student t distributions with ``shares * F'F`` as shapes."""
        values, K = self.rows.values, len(shares)

        def log_densities(squares, log_roots, n_seen):
            powers = 0.5 * (degrees + n_seen)
            constants = gammaln(powers) - gammaln(0.5 * degrees) + 0.5 * n_seen * np.log(shares / np.pi)
            return constants + log_roots - powers * np.log1p(shares * squares)

        of_rows = self.rows.split(start, stop) if len(self._incomplete) else (np.arange(start, stop), ())
        complete, incomplete = of_rows
        halves = np.zeros((len(complete), K))
        self._add_densities(values[complete], 0, len(complete), parameters, halves)
        out[complete] += log_densities(-2.0 * halves, log_roots, self.n_features)
        n = len(incomplete)
        if not n:
            return
        squares, of_missing, n_seen = np.empty((n, K)), np.empty((n, K)), np.empty(n, np.int64)
        of_components = parameters.means, self._matrices(parameters.factors)
        fill_observed_squares(values, incomplete, self.data.patterns, *of_components, squares, of_missing, n_seen)
        seen = n_seen[:, np.newaxis]
        out[incomplete] += np.where(seen > 0, log_densities(squares, log_roots - of_missing, seen), 0.0)

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the observed cells of the rows given each component."""
        self._add_normal(components.parameters, out, workers)

    def _add_normal(self, parameters, out, workers):
        tasks = self._tasks(out.shape[1])
        workers.run(self.add_log_densities, [(self.rows, a, b, parameters, out[a:b]) for a, b in tasks])

    def drawn_attributes(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn means, (K, d), and covariances, (K, d, d) or (d, d)."""
        return self.attributes(components.parameters)

    def expected(self, statistics: Any) -> dict[str, np.ndarray]:
        """Posterior means of the mean of each cluster, and of covariances, which may have no finite mean."""
        _, means, scatters, degrees = self._posterior(statistics)
        freedom = (degrees - self.n_features - 1.0)[:, np.newaxis, np.newaxis]
        covariances = np.divide(scatters, freedom, out=np.full_like(scatters, np.inf), where=freedom > 0.0)
        return {"components_": means + self.origin, "covariances_": self._shaped(covariances)}

    def cell_distribution(self, attributes: dict[str, Any]) -> MatrixNormalCells:
        """The distributions of single cells of components with these attributes."""
        return MatrixNormalCells(attributes["components_"], attributes["covariances_"])

    def cell_attributes(self, statistics: Any) -> dict[str, np.ndarray]:
        """Means and covariances of the predictive distributions of clusters.

        Where a covariance is infinite or nearly so, the inverse of the mean precision is in its place.
        """
        precisions, means, scatters, degrees = self._posterior(statistics)
        freedom = degrees - self.n_features - 1.0
        factors = (precisions + 1.0) / precisions / np.where(freedom > _LEAST_FREEDOM, freedom, degrees)
        return {"components_": means + self.origin, "covariances_": scatters * factors[:, np.newaxis, np.newaxis]}

    def new_rows(self, statistics: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of clusters `labels`, with the parameters integrated out.

        They are m + sqrt(s / g) L z, with z standard normal and g chi-squared. Row i depends only on the key, i and its
        label.
        """
        precisions, means, scatters, degrees = self._posterior(statistics)
        roots, scales = np.linalg.cholesky(scatters), (precisions + 1.0) / precisions
        freedom = np.broadcast_to(degrees - self.n_features + 1.0, len(means))
        out, keys = np.empty((len(labels), self.n_features)), fold_in_each(key, np.arange(len(labels)))
        fill_normal(keys, 0, out)
        halves = np.array(
            [gamma_variate(subkey(of_row, 1), 0.5 * freedom[k]) for of_row, k in zip(keys, labels, strict=True)]
        )
        out *= np.sqrt(scales[labels] / (2.0 * halves))[:, np.newaxis]
        for k in np.unique(labels):
            mine = labels == k
            out[mine] = means[k] + np.einsum("ib,ab->ia", out[mine], roots[min(int(k), len(roots) - 1)])
        return out + self.origin

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels by k-means of a random sample of the rows; the other rows have the nearest centre."""
        n_sampled = min(max(_ROWS_OF_SEEDS * n_clusters, 1000), _MOST_ROWS_OF_SEEDS, self.n_rows)
        values = self.rows.values
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

    def _completed(self) -> np.ndarray:
        """Rows with missing cells, whose initial values are those of the origin."""
        rows = self.rows.values[self._incomplete]
        return np.where(np.isnan(rows), self.origin, rows)

    def _count_incomplete(self, rows: np.ndarray, sign: int, labels: np.ndarray, statistics: Any, workers: Workers):
        """Add rows with missing cells to the statistics of their labels, or subtract them."""
        tasks = self._ranges(np.bincount(labels[rows], minlength=len(statistics.sizes)), workers)
        workers.run(count_some_rows, [(self.data, rows, sign, labels, *task, statistics) for task in tasks])

    def _columns_and_precisions(self, factors: np.ndarray, workers: Workers) -> tuple[np.ndarray, np.ndarray]:
        """What draws of missing cells need of factors, (G, d, d); empty if no cell is missing."""
        each = factors[: len(factors) if len(self._incomplete) else 0]
        columns, precisions = np.empty(each.shape), np.empty(each.shape)
        tasks = split_range(len(each), 1 + COST_OF_TASK // (self.n_features**3 + 1000))
        workers.run(fill_columns_and_precisions, [(each[a:b], columns[a:b], precisions[a:b]) for a, b in tasks])
        return columns, precisions

    def _tasks(self, n_labels: int) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        least = _OBSERVED_ROWS if len(self._incomplete) else 64
        return split_range(self.n_rows, max(least, _CELLS_OF_TASK // max(1, n_labels)))
