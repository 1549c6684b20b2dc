"""What Gaussian families with covariance matrices share: a matrix for each component, or one for all components."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from ...numerics.block_sums import BlockSums
from ...numerics.linalg import fill_upper_root
from ...random._keys import subkey
from ...utils._threads import ONE, Workers, split_range
from .._cells import MatrixNormalCells, TransformedCells
from .._dense_rows import DenseRows, IncompleteRows
from .._protocols import Arrays
from .._statistics import occupied
from .base import (
    LEAST_SHARE,
    LOG_2PI,
    GaussianFamily,
    GaussianParameters,
    IncompleteComponents,
    MatrixComponents,
    MatrixData,
    Posterior,
    refuse_far_rows,
    refuse_singular,
)
from .kernels import fill_images
from .matrix_kernels import factor_covariances, fill_draws, fill_modes, fill_posteriors, total_log_marginal
from .missing_kernels import add_expected_sums, draw_cells, fill_columns_and_precisions, fill_observed_squares
from .rounded import draw_in_dependent_cells, fill_tangents

COST_OF_TASK = 2_000_000  # multiplications, about a millisecond
_ROWS_DRAWN = 256  # of a task: some milliseconds
_OBSERVED_ROWS = 1024  # of a task: matrices are prepared once for them
_MISSING = 2**40  # child of a key beyond those of all rows, for draws of missing cells


class MatrixFamily(GaussianFamily):
    """Base class of Gaussian families with covariance matrices, whose statistics are those of completed rows.

    Missing cells are drawn given the observed cells and the row's component, or statistics are expectations. Before
    there are parameters, missing cells are at the origin, the mean of the observed cells.
    """

    _ranks: np.ndarray  # of the patterns of all rows
    _far = 84.0  # see `MatrixData`
    _n_of_rows = 3
    data_type: ClassVar[Any]
    _prepared: Callable[..., np.ndarray]  # what the scores of rows need of parameters
    sums_type: ClassVar[Any]

    def log_prior(self, parameters: GaussianParameters) -> float:
        """Log normal-inverse-Wishart density of the natural parameters, up to a constant."""
        prior, factors = self.prior, parameters.factors
        log_roots = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
        gaps = self._images(factors, parameters.means - prior.mean)
        spread = np.einsum("kab,bc,kac->", factors, prior.covariance, factors) + prior.mean_precision * (gaps**2).sum()
        power = prior.degrees - self._least_degrees - self.n_components // len(factors)
        return float(power * log_roots - 0.5 * spread)

    def log_likelihood(self, statistics: Arrays, parameters: GaussianParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products = statistics
        means, factors = parameters.means - self.origin, parameters.factors
        # Products about the mean are S - (s - n m) m' - m s'; the quadratic form needs only this, symmetric or not
        of_each = "ka,kb->ab" if self.shares_covariance else "ka,kb->kab"
        gaps = np.einsum(of_each, sums - sizes[:, None] * means, means) + np.einsum(of_each, means, sums)
        spread = np.einsum("kab,kbc,kac->", factors, symmetric(products) - gaps, factors)
        return float(sizes @ parameters.offsets - 0.5 * spread)

    def n_parameters(self) -> int:
        """Number of free parameters: means and covariances."""
        d = self.n_features
        return self.n_components * d + self._n_matrices(self.n_components) * d * (d + 1) // 2

    def add_log_densities(self, rows: DenseRows, first: int, stop: int, parameters: Any, out: np.ndarray) -> None:
        """Add the log densities of the observed cells of the rows `first` to `stop` given each component."""
        variances = self._variances_of_cells()
        if variances is not None:
            out -= 0.5 * np.einsum("kab,kab,b->k", parameters.factors, parameters.factors, variances)
        self._add_observed(rows, first, stop, parameters, out)

    def _add_observed(self, rows, first, stop, parameters, out):
        if not isinstance(rows, IncompleteRows):
            self._add_densities(rows.values, first, stop, parameters, out)
            return
        complete, incomplete = rows.split(first, stop)
        of_complete = np.zeros((len(complete), out.shape[1]))  # the same bytes as without the other rows
        self._add_densities(rows.values[complete], 0, len(complete), parameters, of_complete)
        out[complete - first] += of_complete
        if len(incomplete):
            squares, log_roots, n_seen = self._observed_squares(rows.values, incomplete, rows.patterns, parameters)
            of_missing = (self.n_features - n_seen) * (0.5 * LOG_2PI)
            terms = parameters.offsets + of_missing - log_roots - 0.5 * squares
            out[incomplete - first] += np.where(n_seen > 0, terms, 0.0)

    def _tangents(self, lows, highs, labels, parameters):
        means, covariances, factors, offsets = parameters
        roots = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        precisions = 1.0 / (roots * (np.abs(covariances) / roots[:, np.newaxis]).sum(axis=2))
        points, slopes, heights = np.empty(lows.shape), np.empty(lows.shape), np.empty(len(lows))
        fill_tangents(lows, highs, labels, means, factors.mT @ factors, points, slopes, heights)
        return points, slopes, precisions[np.minimum(labels, len(roots) - 1)], offsets[labels] + heights

    def _observed_squares(self, values, chosen, patterns, parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Squared lengths of observed cells and log determinants of missing ones, (n, K); numbers of the former."""
        shape = len(chosen), len(parameters.means)
        squares, log_roots, n_above = np.empty(shape), np.empty(shape), np.full(len(chosen), shape[1] + 1)
        of_components = parameters.means, *self._columns_and_precisions(parameters.factors)
        fill_observed_squares(values, chosen, patterns, n_above, *of_components, squares, log_roots)
        return squares, log_roots, np.count_nonzero(~np.isnan(values[chosen]), axis=1)[:, np.newaxis]

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
        of_components = parameters.means, *self._columns_and_precisions(parameters.factors)
        draw_cells(*of_rows, first_row, key, *of_components, values)
        return DenseRows(values)

    def sum_expected(
        self, rows: IncompleteRows, first: int, stop: int, first_block: int, shares: np.ndarray, parameters: Any
    ) -> BlockSums:
        """Expected statistics of the rows `first` to `stop`, given the observed cells and membership probabilities."""
        of_components = parameters.means, *self._columns_and_precisions(parameters.factors)

        def add(start, stop, own, *of_block):
            complete, incomplete = rows.split(start, stop)
            self._add_shared(DenseRows(rows.values[complete]), 0, len(complete), own[complete - start], *of_block)
            of_rows = rows.values, incomplete, incomplete - start, rows.patterns, own
            add_expected_sums(*of_rows, *of_components, self.origin, *of_block)

        return self._sum_each_block(first, stop, first_block, shares, add)

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        self._precisions(statistics[0])
        return self._components(fill_modes, *self._of_sums(statistics))

    def draw(self, statistics: Arrays, key: np.uint64) -> GaussianParameters:
        """Draw the covariances, with the means integrated out, and then the means."""
        self._check_proper()
        return self._components(fill_draws, *self._of_sums(statistics), key)

    def _is_definite(self) -> bool:
        covariance = np.ascontiguousarray(self.prior.covariance, np.float64)
        return math.isfinite(fill_upper_root(covariance, np.empty(covariance.shape)))

    def _of_sums(self, statistics: Arrays) -> tuple[Any, Any]:
        data = self.prepare(self._no_rows())
        return data, self.sums_type(*statistics, data.values, data.values, np.empty(0))

    def _components(
        self,
        kernel: Callable[..., int],
        data: MatrixData,
        statistics: Any,
        *key: np.uint64,
        labels: np.ndarray | None = None,
        workers: Workers = ONE,
    ) -> GaussianParameters:
        """Parameters of labels, modes or draws."""
        labels, d = np.arange(len(statistics.sizes)) if labels is None else labels, self.n_features
        of_covariances = self._n_matrices(len(labels)), d, d
        found = np.empty((len(labels), d)), np.empty(of_covariances), np.empty(of_covariances), np.empty(len(labels))
        tasks = split_range(of_covariances[0], 1 + COST_OF_TASK // (2 * d**3 + 1000))
        shared = data, statistics, labels, *key, *found
        self._refuse_singular(workers.run(kernel, [(*task, *shared) for task in tasks]))
        return GaussianParameters(*found)

    def _posterior(self, statistics: Any, labels: np.ndarray | None = None, workers: Workers = ONE) -> Posterior:
        """The posterior of the parameters of labels."""
        labels, d = np.arange(len(statistics.sizes)) if labels is None else labels, self.n_features
        G = self._n_matrices(len(labels))
        posterior = Posterior(np.empty(len(labels)), np.empty((len(labels), d)), np.empty((G, d, d)), np.empty(G))
        tasks = split_range(G, 1 + COST_OF_TASK // (10 * d**2 + 1000))
        workers.run(fill_posteriors, [(self.data, statistics, labels, *task, *posterior) for task in tasks])
        return posterior

    def _parameters(self, means: np.ndarray, covariances: np.ndarray) -> Any:
        """Parameters with these means, relative to the origin, and covariances."""
        covariances = np.ascontiguousarray(covariances).reshape(-1, self.n_features, self.n_features)
        factors, log_roots = self._factors(covariances, LEAST_SHARE)
        offsets = np.zeros(len(means)) + (log_roots - 0.5 * self.n_features * LOG_2PI)
        return GaussianParameters(means + self.origin, covariances, factors, offsets)

    def _factors(
        self, matrices: np.ndarray, least_share: float = 0.0, workers: Workers = ONE
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
            name = "all components" if self.shares_covariance else f"component {component}"
            refuse_singular(f"The covariance of {name}")

    def _images(self, factors: np.ndarray, vectors: np.ndarray, of_vectors: np.ndarray | None = None) -> np.ndarray:
        """Products of triangular matrices, of each component or of all, and vectors of these components."""
        out = np.empty(vectors.shape)
        fill_images(factors, np.arange(len(vectors)) if of_vectors is None else of_vectors, vectors, out)
        return out

    def _with_covariances(self, normals, covariances, labels) -> np.ndarray:
        return self._images(np.linalg.cholesky(covariances), normals, labels)

    def _shaped(self, covariances: np.ndarray) -> np.ndarray:
        return covariances[0] if self.shares_covariance else covariances

    # Clusters of rows

    def clusters(self, rows: DenseRows | None = None) -> Any:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        self._check_proper()
        bound = self._bound(self._no_rows() if rows is None else self.transformed(rows))
        extremes = [of.reduce(bound.rows.values, axis=0, initial=np.nan) for of in (np.fmin, np.fmax)]
        with np.errstate(over="ignore"):
            gaps = np.array([*extremes, self.prior.mean]) - self.origin
            refuse_far_rows(gaps / np.sqrt(np.diagonal(self.prior.covariance)))
        return bound

    def prepare(self, rows: DenseRows) -> MatrixData:
        """Rows and prior, as the kernels read them."""
        patterns = np.zeros(rows.n_rows, np.uint64) if rows.patterns is None else rows.patterns
        place, incomplete = np.full(rows.n_rows, -1, np.int32), np.flatnonzero(patterns)
        place[incomplete] = np.arange(len(incomplete))
        return self._data(rows.values, place, patterns)

    def _bound(self, rows: DenseRows) -> Any:
        bound = super()._bound(rows)
        bound._incomplete = np.flatnonzero(bound.data.patterns)
        bound._ranks = np.unique(bound.data.patterns, return_inverse=True)[1]
        bound._bounds = self._bounds_of(rows.values)
        return bound

    def _units_of_columns(self, columns: np.ndarray) -> tuple[float, float]:
        return 0.0, 1.0

    def _set_values(self, values: np.ndarray) -> None:
        self.data, self.rows = self.data._replace(values=values), self.rows._replace(values=values)

    def _drawn_in_cells(
        self, places: np.ndarray, present: np.ndarray, statistics: Any, key: np.uint64, workers: Workers
    ) -> dict[str, np.ndarray]:
        parameters = self._components(fill_draws, self.data, statistics, key, labels=present, workers=workers)
        values, completed = statistics.values.copy(), statistics.completed.copy()
        means, precisions = parameters.means - self.origin, parameters.factors.mT @ parameters.factors
        assert self._bounds is not None
        shared = *self._bounds[:2], places, means, precisions, self.origin, key, self.data.place, values, completed
        workers.run(draw_in_dependent_cells, [(*task, *shared) for task in split_range(self.n_rows, _ROWS_DRAWN)])
        return {"values": values, "completed": completed}

    def _data(self, values: np.ndarray, place: np.ndarray, patterns: np.ndarray) -> MatrixData:
        """Rows and the prior, as the kernels read them."""
        mean, mean_precision, covariance, degrees = self.prior
        covariance = np.ascontiguousarray(covariance, np.float64)
        of_prior = mean - self.origin, float(mean_precision), covariance, float(degrees)
        log_det = float(fill_upper_root(covariance, np.empty(covariance.shape)))
        return self.data_type(values, place, patterns, self.origin, *of_prior, log_det, self._far)

    @property
    def _least_degrees(self) -> float:  # type: ignore[override]
        return self.n_features + 1.0

    def sorted_rows(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Rows of a minibatch, sorted by their labels; then those with missing cells, sorted by these cells."""
        return rows[self._order(rows, labels[rows])]

    def _order(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Order of rows with these labels by missing cells, then by label."""
        keys = self._ranks[rows] * (labels.max(initial=0) + np.int64(1)) + labels
        if keys.max(initial=0) <= np.iinfo(np.uint16).max:
            keys = keys.astype(np.uint16)  # numpy sorts these by radix, which is several times faster
        return np.argsort(keys, kind="stable")

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
        if not len(self._incomplete):
            return
        incomplete = self.data.place[rows] >= 0
        chosen, drawn = rows[incomplete], place_of[new_labels[incomplete]].astype(np.int32)
        order = self._order(chosen, drawn)
        chosen, by_place = chosen[order], np.empty(len(self._incomplete), np.int32)
        places = self.data.place[chosen].astype(np.int64)
        by_place[places] = drawn[order]
        self._count_some(chosen, -1, labels, statistics, workers)
        of_components = components.parameters.means, components.columns, components.precisions, statistics.completed
        shared = self.data.patterns, by_place, 0, subkey(key, _MISSING), *of_components
        tasks = split_range(len(chosen), _ROWS_DRAWN)
        workers.run(draw_cells, [(self.rows.values, chosen[a:b], places[a:b], *shared) for a, b in tasks])
        self._count_some(chosen, 1, labels, statistics, workers)

    def entropy_of_missing(self, labels: np.ndarray, statistics: Any) -> float:
        """Entropy of missing cells given labels and observed cells, at the expected parameters."""
        if not len(self._incomplete):
            return 0.0
        present = occupied(statistics)
        _, means, scatters, degrees = self._posterior(statistics, present)
        freedom = np.maximum(degrees - self._least_degrees, 0.5)
        parameters = self._parameters(means, scatters / self._as_covariances(freedom))
        of_rows = self.rows.values, self._incomplete, self.data.patterns
        _, log_roots, n_seen = self._observed_squares(*of_rows, parameters)
        own = log_roots[np.arange(len(log_roots)), np.searchsorted(present, labels[self._incomplete])]
        return float((0.5 * (1.0 + LOG_2PI) * (self.n_features - n_seen[:, 0]) - own).sum())

    def log_marginal(self, statistics: Any) -> float:
        """Log density of all rows given their labels."""
        labels = occupied(statistics)
        _, _, scatters, degrees = self._posterior(statistics, labels)
        return total_log_marginal(self.data, statistics.sizes[labels], scatters, degrees) + self._total_base()

    def add_log_predictive(self, statistics: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the observed cells of the rows given each cluster."""
        precisions, means, scatters, degrees = self._posterior(statistics, workers=workers)
        variances = self._variances_of_cells()
        if variances is not None:
            of_cells = (precisions / (precisions + 1.0) * (degrees - self.n_features + 1.0))[:, None, None]
            scatters = scatters + of_cells * np.diag(variances)
        factors, log_roots = self._factors(scatters, workers=workers)
        parameters = GaussianParameters(means + self.origin, scatters, factors, np.zeros(len(means)))
        shared = parameters, log_roots, precisions / (precisions + 1.0), degrees - self.n_features + 1.0, out
        workers.run(self._add_students, [(*task, *shared) for task in self._tasks(len(means))])
        self._add_base(out)

    def _add_students(self, start, stop, parameters, log_roots, shares, degrees, out):
        """Add log densities of the rows `start` to `stop`, Student t distributions with ``shares * F'F`` as shapes."""
        values, K = self.rows.values, len(shares)

        def log_densities(squares, log_roots, n_seen):
            powers = 0.5 * (degrees + n_seen)
            constants = gammaln(powers) - gammaln(0.5 * degrees) + 0.5 * n_seen * np.log(shares / np.pi)
            return constants + log_roots - powers * np.log1p(shares * squares)

        complete, incomplete = self.rows.split(start, stop) if len(self._incomplete) else (np.arange(start, stop), ())
        halves = np.zeros((len(complete), K))
        self._add_densities(values[complete], 0, len(complete), parameters, halves)
        out[complete] += log_densities(-2.0 * halves, log_roots, self.n_features)
        if not len(incomplete):
            return
        squares, of_missing, n_seen = self._observed_squares(values, incomplete, self.data.patterns, parameters)
        out[incomplete] += np.where(n_seen > 0, log_densities(squares, log_roots - of_missing, n_seen), 0.0)

    def total_precision(self, statistics: Any, key: np.uint64) -> np.ndarray:
        """Sum of drawn precisions of the clusters with rows, (d, d)."""
        factors = self._components(fill_draws, self.data, statistics, key, labels=occupied(statistics)).factors
        return np.einsum("kab,kac->bc", factors, factors)

    def add_densities_of_rows(self, components: Any, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the observed cells of the rows given each component."""
        parameters = components.parameters if self.resolution is None else self.of_rounded(components.parameters)
        self._add_by_ranges(lambda a, b, new: self._add_observed(self.rows, a, b, parameters, new), out, workers)

    def drawn_attributes(self, components: Any) -> dict[str, np.ndarray]:
        """Drawn means, (K, d), and covariances, (K, d, d) or (d, d), of transformed columns."""
        return self.parameters_of_cells(components.parameters)

    def cell_distribution(self, attributes: dict[str, Any]) -> MatrixNormalCells | TransformedCells:
        """The distributions of single cells of components with these attributes."""
        return self._cells(MatrixNormalCells(attributes["components_"], self._rounded(attributes["covariances_"])))

    def no_statistics(self, capacity: int) -> Any:
        """Sums of no rows."""
        d = self.n_features
        sums, products = np.zeros((capacity, d)), np.zeros((self._n_matrices(capacity), d, d))
        values = (self.rows.values if self._bounds is None else self._first_values)[self._incomplete]
        others = np.where(np.isnan(values), self.origin, values), self._first_values, self.hyperparameters
        return self.sums_type(np.zeros(capacity, np.int64), sums, products, *others)

    def draw_components(
        self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> MatrixComponents | IncompleteComponents:
        """Draw the means and covariances of components."""
        parameters = self._components(fill_draws, self.data, statistics, key, labels=labels, workers=workers)
        prepared = self._prepared(parameters)
        if not len(self._incomplete):
            return MatrixComponents(parameters, prepared)
        return IncompleteComponents(parameters, prepared, *self._columns_and_precisions(parameters.factors, workers))

    def draw_bytes(self, n_components: float) -> float:
        """Approximate memory of a drawn partition with its components."""
        d = self.n_features
        return 8.0 * d * (2.0 * n_components + 3.0 * d * self._n_matrices(n_components))

    def _columns_and_precisions(self, factors: np.ndarray, workers: Workers = ONE) -> tuple[np.ndarray, np.ndarray]:
        """What kernels of missing cells need of factors: transposes, and lower triangles of precisions."""
        columns, precisions = np.empty(factors.shape), np.empty(factors.shape)
        tasks = split_range(len(factors), 1 + COST_OF_TASK // (self.n_features**3 + 1000))
        workers.run(fill_columns_and_precisions, [(factors[a:b], columns[a:b], precisions[a:b]) for a, b in tasks])
        return columns, precisions

    def _tasks(self, n_labels: int) -> list[tuple[int, int]]:
        """Ranges of rows whose densities given each label are computed at the same time."""
        least = _OBSERVED_ROWS if len(self._incomplete) else 64
        return split_range(self.n_rows, max(least, self.cells_of_task // max(1, n_labels)))


def symmetric(lower: np.ndarray) -> np.ndarray:
    """The symmetric matrices with these lower triangles."""
    return np.tril(lower) + np.tril(lower, -1).mT
