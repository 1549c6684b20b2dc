"""Gaussian family with diagonal or spherical covariances; missing cells are integrated out."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ...random._keys import fold_in_each
from ...utils._conditions import MOST_COUNTED, Array, Sizes
from ...utils._threads import ONE, Workers, split_range
from ...utils._typing import available_if
from .._cells import NormalCells, TransformedCells
from .._dense_rows import DenseRows
from .._protocols import Arrays
from .._statistics import OF_ROWS, occupied, selected
from .base import LOG_2PI, GaussianFamily, GaussianParameters, Posterior, refuse_far_rows, refuse_singular
from .diagonal_kernels import (
    DiagonalComponents,
    DiagonalData,
    DiagonalPosteriors,
    PredictiveTerms,
    add_given_sums,
    draw_components,
    log_marginals_of_pools,
    no_posteriors,
    posteriors_of,
    total_log_marginal,
)
from .hyperparameters import NormalPrior, PriorNumbers, pooled
from .kernels import add_diagonal_densities
from .rounded import draw_in_cells
from .transforms import YeoJohnson

_N_LOG_GAMMAS = 1 << 16  # in the table
_ROWS_DRAWN = 10_000  # of a task: a few milliseconds with ten features
_CELLS_DRAWN = 20_000  # of a task: more than a millisecond
_CELLS_OF_TASK = 200_000  # rows times clusters times features


class DiagonalSums(NamedTuple):
    """Sums of rows by label, relative to an origin and in units of scales."""

    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    # Numbers of observed cells
    observed: Annotated[np.ndarray, Array("int64", "capacity n_dimensions", low=0, high=MOST_COUNTED)]
    sums: Annotated[np.ndarray, Array("float64", "capacity n_dimensions")]
    squares: Annotated[np.ndarray, Array("float64", "capacity n_dimensions")]  # sums of squares
    values: Annotated[np.ndarray, Array("float64", "_ n_dimensions")]  # of all rows, within their cells; else empty
    # Of `Hyperprior`, of all columns or of each; without it empty
    hyperparameters: (
        Annotated[np.ndarray, Array("float64", "_")] | Annotated[np.ndarray, Array("float64", "n_dimensions _")]
    )

    @property
    def label_axes(self) -> tuple[int | None, ...]:
        """Axis of the labels in each array."""
        return 0, 0, 0, 0, OF_ROWS, None

    def of_column(self, j: int) -> DiagonalSums:
        """Sums of one column, without hyperparameters."""
        _, observed, sums, squares, values, _ = self
        of_column = (array[:, [j]] for array in (observed, sums, squares, values))
        return DiagonalSums._make((self.sizes, *of_column, np.empty(0)))

    def _disagreement(self, sizes: Sizes) -> str | None:
        more = self.observed > self.sizes[:, np.newaxis]
        return "has more observed cells of a feature than rows" if more.any() else None


class DiagonalFamily(GaussianFamily):
    """Gaussian family with one variance for each feature of a component, or, by the prior, one for all features.

    Missing cells are integrated out: statistics are of observed cells, a fourth counts the missing. Clusters of rows
    have `DiagonalSums`, in units of scales near the prior standard deviations, which stay when the prior is learned.
    """

    has_matrices, _least_degrees, _n_of_rows = False, 2.0, 1
    scales = np.ones(1)  # with clusters (d,)

    @property
    def _least_excess(self) -> float:  # type: ignore[override]
        return self._pool_width + 0.1

    @property
    def _pool_width(self) -> int:
        """Number of columns with the same variance."""
        return self.n_features // max(1, len(self.prior.covariance))

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes, sums, squares and numbers of missing cells."""
        return *super().shapes(), (self.n_components, self.n_features)

    def mode(self, statistics: Arrays) -> GaussianParameters:
        """The mode of precisions and their products with the means, which are the natural parameters."""
        data, sums = self._of_sums(statistics)
        self._precisions(sums.observed)
        posteriors = posteriors_of(data, sums)
        freedom = data.degrees + posteriors.pooled - self._least_degrees - self._pool_width
        return self._parameters(posteriors.means, posteriors.scatters / np.where(freedom > 0.0, freedom, np.nan))

    def draw(self, statistics: Arrays, key: np.uint64) -> GaussianParameters:
        """Draw variances, with the means integrated out, and then the means."""
        self._check_proper()
        data, sums = self._of_sums(statistics)
        means, precisions, _ = self._draw_all(data, sums, key, ONE)
        return self._parameters(means, 1.0 / precisions)

    def _is_definite(self) -> bool:
        return bool(np.all(self.prior.covariance > 0.0))

    def _of_sums(self, statistics: Arrays) -> tuple[DiagonalData, DiagonalSums]:
        sizes, sums, products, missing = statistics
        data = self._data(np.empty((0, self.n_features)))
        return data, DiagonalSums(sizes, sizes[:, None] - missing, sums, products[:, :, 0], data.rows, np.empty(0))

    def _posterior(self, statistics: DiagonalSums) -> Posterior:
        posteriors, scales = posteriors_of(self.data, statistics), self.scales
        scatters = scales[: len(self.data.scatter)] ** 2 * posteriors.scatters
        precisions = self._precisions(statistics.observed)
        return Posterior(precisions, scales * posteriors.means, scatters, self.data.degrees + posteriors.pooled)

    def log_prior(self, parameters: GaussianParameters) -> float:
        """Log normal-inverse-gamma density of the natural parameters, up to a constant."""
        prior = self.prior
        gaps = prior.mean_precision * (parameters.means - prior.mean) ** 2
        variances = parameters.covariances
        n_pools = len(prior.covariance)
        gaps, variances = gaps.reshape(len(gaps), n_pools, -1).sum(axis=2), variances[:, :n_pools]
        power = prior.degrees - 2.0 - self.n_features // n_pools
        return float(-0.5 * (power * np.log(variances) + (prior.covariance + gaps) / variances).sum())

    def log_likelihood(self, statistics: Arrays, parameters: GaussianParameters) -> float:
        """Log density of rows with these statistics, given whose they are."""
        sizes, sums, products, missing = statistics
        means = parameters.means - self.origin
        squares = products[:, :, 0] - means * (2.0 * sums - (sizes[:, None] - missing) * means)
        of_cells = sizes @ parameters.offsets - (missing * _cell_offsets(parameters)).sum()
        return float(of_cells - 0.5 * (parameters.factors * squares).sum())

    def clusters(self, rows: DenseRows | None = None) -> DiagonalFamily:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        self._check_proper()
        rows = self._no_rows() if rows is None else self.transformed(rows)
        # Powers of two change no digit of the rows. Sums stay in the same units if rows are transformed again.
        scales = self.scales if hasattr(self, "data") else np.exp2(np.round(np.log2(self.prior.covariance) / 2.0))
        scaled = copy(self)
        scaled.scales = np.array(np.broadcast_to(scales, self.n_features))
        with np.errstate(over="ignore"):
            bound = scaled._bound(rows._replace(values=np.ascontiguousarray((rows.values - self.origin) / scales)))
        refuse_far_rows(bound.data.rows, bound.data.mean)
        return bound

    def n_parameters(self) -> int:
        """Number of free parameters: means and variances."""
        return self.n_components * (self.n_features + len(self.prior.covariance))

    def cell_distribution(self, attributes: dict[str, Any]) -> NormalCells | TransformedCells:
        """The distributions of single cells of components with these attributes."""
        return self._cells(NormalCells(attributes["components_"], self._rounded(attributes["covariances_"])))

    def add_log_densities(
        self, rows: DenseRows, first: int, stop: int, parameters: GaussianParameters, out: np.ndarray
    ) -> None:
        """Add the log densities of the observed cells of the rows `first` to `stop` given each component."""
        self._add_densities(rows.values, first, stop, parameters, out)

    def _add_densities(self, X, first, stop, parameters, out):
        offsets, variances = _cell_offsets(parameters), self._variances_of_cells()
        if variances is not None:
            offsets -= 0.5 * variances * parameters.factors
        add_diagonal_densities(X, first, stop, parameters.means, parameters.factors, offsets, out)

    def _tangents(self, lows, highs, labels, parameters):
        means, precisions = parameters.means[labels], parameters.factors[labels]
        points = np.clip(means, lows, highs)
        gaps, offsets = points - means, _cell_offsets(parameters)[labels]
        return points, -precisions * gaps, precisions, np.nansum(offsets - 0.5 * precisions * gaps**2, axis=1)

    def _with_covariances(self, normals, covariances, labels) -> np.ndarray:
        return normals * np.sqrt(covariances)[labels]

    def _shaped(self, covariances: np.ndarray) -> np.ndarray:
        return np.repeat(covariances, self.n_features // max(1, covariances.shape[1]), axis=1)

    def _parameters(self, means: np.ndarray, variances: np.ndarray) -> GaussianParameters:
        if not np.all(variances > 0.0):
            singular = int(np.argmin(np.where(np.isnan(variances), 0.0, variances).min(axis=1)))
            refuse_singular(f"The covariance of component {singular}")
        variances = self._shaped(variances)
        offsets = -0.5 * (np.log(variances) + LOG_2PI).sum(axis=1)
        return GaussianParameters(means + self.origin, variances, 1.0 / variances, offsets)

    # Clusters of rows

    def _within(self, statistics: DiagonalSums) -> np.ndarray:
        labels, data = occupied(statistics), self.data
        K, n_pools, d = len(labels), len(data.scatter), len(self.origin)
        observed, sums = statistics.observed[labels].astype(float), statistics.sums[labels]
        means = np.divide(sums, observed, out=np.repeat(data.mean[np.newaxis], K, axis=0), where=observed > 0.0)
        scatters = np.maximum(statistics.squares[labels] - sums * means, 0.0)
        whole = data.scatter * K ** (-2.0 / d)
        squares, n_cells = (array.sum(axis=0).reshape(n_pools, -1).sum(axis=1) for array in (scatters, observed))
        return pooled(squares, n_cells, K * (d // n_pools), whole, 3.0) * self.scales[:n_pools] ** 2

    def log_marginal_of(self, statistics: DiagonalSums, reference: np.ndarray) -> Callable[[PriorNumbers], Any]:
        """The log marginal density of the rows, or of each column, as a function of numbers, up to a constant."""
        data, scaled = self.data, reference / self.scales[: len(reference)] ** 2
        if self.is_separated:
            statistics = selected(statistics, occupied(statistics))

        def log_marginal(numbers: PriorNumbers) -> Any:
            mean_precision = np.full(len(data.mean), numbers.mean_precision, np.float64)
            degrees = np.full(len(data.scatter), numbers.degrees, np.float64)
            kernel = log_marginals_of_pools if self.is_separated else total_log_marginal
            changed = data._replace(mean_precision=mean_precision, scatter=numbers.factor * scaled, degrees=degrees)
            return kernel(changed, statistics)

        return log_marginal

    def _units_of_columns(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.origin[columns], self.scales[columns]

    def _set_values(self, values: np.ndarray) -> None:
        self.data = self.data._replace(rows=values)

    def _drawn_in_cells(
        self, places: np.ndarray, present: np.ndarray, statistics: DiagonalSums, key: np.uint64, workers: Workers
    ) -> dict[str, np.ndarray]:
        means, precisions, _ = self._draw_all(self.data, selected(statistics, present), key, workers)
        values = statistics.values.copy()
        assert self._bounds is not None
        shared = *self._bounds[:2], places, means, precisions, fold_in_each(key, np.arange(self.n_rows)), values
        workers.run(draw_in_cells, [(*task, *shared) for task in split_range(self.n_rows, _ROWS_DRAWN)])
        return {"values": values}

    def total_precision(self, statistics: DiagonalSums, key: np.uint64) -> np.ndarray:
        """Sums of drawn precisions of the clusters with rows, (n_pools,)."""
        n_pools = len(self.data.scatter)
        _, precisions, _ = self._draw_all(self.data, selected(statistics, occupied(statistics)), key, ONE)
        return precisions[:, :n_pools].sum(axis=0) / self.scales[:n_pools] ** 2

    def no_statistics(self, capacity: int) -> DiagonalSums:
        """Sums of no rows."""
        shape = capacity, len(self.origin)
        sums = np.zeros(capacity, np.int64), np.zeros(shape, np.int64), np.zeros(shape), np.zeros(shape)
        return DiagonalSums(*sums, self._first_values, self.hyperparameters)

    def new_posterior(self, capacity: int, statistics: DiagonalSums, key: np.uint64) -> DiagonalPosteriors:
        """Space for the posteriors of the labels, and of one union of two labels."""
        return no_posteriors(self.data, capacity + 1, statistics.observed)

    def draw_components(
        self, statistics: DiagonalSums, labels: np.ndarray, key: np.uint64, workers: Workers
    ) -> DiagonalComponents:
        """Draw means and variances."""
        return self._draw_all(self.data, selected(statistics, labels), key, workers)

    def _draw_all(
        self, data: DiagonalData, statistics: DiagonalSums, key: np.uint64, workers: Workers
    ) -> DiagonalComponents:
        shape = statistics.sums.shape
        components = DiagonalComponents(np.empty(shape), np.empty(shape), np.empty(shape))
        shared = statistics.observed, posteriors_of(data, statistics), key, components
        tasks = split_range(len(statistics.sums), max(1, _CELLS_DRAWN // max(1, self.n_features)))
        workers.run(draw_components, [(data, *task, *shared) for task in tasks])
        return components

    def log_marginal(self, statistics: DiagonalSums) -> float:
        """Log density of the observed cells of all rows given their labels."""
        return float(total_log_marginal(self.data, statistics)) + self._total_base()

    def add_log_predictive(self, statistics: DiagonalSums, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        shared = self.data.rows, self.data.pool_start, self._predictive_terms(posteriors_of(self.data, statistics)), out
        workers.run(add_given_sums, [(a, b, *shared) for a, b in self._tasks(out.shape[1])])
        self._add_base(out)

    def add_densities_of_rows(self, components: DiagonalComponents, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the rows given each component."""
        if self.resolution is not None:
            means, precisions, heights = components
            of_rounded = self.scales**2 / self._rounded(self.scales**2 / precisions)
            components = DiagonalComponents(means, of_rounded, heights + 0.5 * np.log(of_rounded / precisions))
        X = self.data.rows
        self._add_by_ranges(lambda a, b, new: add_diagonal_densities(X, a, b, *components, new), out, workers)

    def drawn_attributes(self, components: DiagonalComponents) -> dict[str, np.ndarray]:
        """Drawn means and variances, (K, d), of transformed columns."""
        means, precisions, _ = components
        return {"components_": self.origin + self.scales * means, "covariances_": self.scales**2 / precisions}

    def _values(self, statistics: Any = None) -> np.ndarray:
        return self.origin + self.scales * super()._values(statistics)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        d = len(self.origin)
        return max(1, int(250 * d / (0.17 * d + 5)))

    def _predictive_terms(self, posteriors: DiagonalPosteriors) -> PredictiveTerms:
        width = self._pool_width
        scatters, weights = np.repeat(posteriors.scatters.T, width, axis=0), posteriors.weights.T
        variances = self._variances_of_cells()
        if variances is not None:
            degrees = np.repeat((self.data.degrees + posteriors.pooled).T, width, axis=0)
            scatters = scatters + (variances / self.scales**2)[:, np.newaxis] * weights * degrees
        heights = 0.5 * (np.log(weights) - np.log(scatters) - np.log(np.pi)) - self.data.log_scales[:, np.newaxis]
        powers = 0.5 * (self.data.degrees + posteriors.pooled).T
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

    def _bound(self, rows: DenseRows) -> DiagonalFamily:
        bound = copy(self)
        bound.rows, bound.n_rows, bound.log_base = rows, rows.n_rows, rows.log_base
        bound.cells_of_task = _CELLS_OF_TASK // max(1, self.n_features)
        bound.data = self._data(rows.values)
        if self.resolution is not None:
            bounds = self._bounds_of(self.origin + self.scales * rows.values)
            bound._bounds = tuple((each - self.origin) / self.scales for each in bounds)
        return bound

    def _data(self, values: np.ndarray) -> DiagonalData:
        """Rows, relative to the origin and in units of scales, and the prior, as the kernels read them."""
        d, scales, (mean, mean_precision, covariance, degrees) = self.n_features, self.scales, self.prior
        n_pools, width = len(covariance), self._pool_width
        n_table = 0 if self.is_separated else min(len(values) * width + 1, _N_LOG_GAMMAS)
        return DiagonalData(
            values,
            np.arange(n_pools + 1) * width,
            (mean - self.origin) / scales,
            np.full(d, mean_precision, np.float64),
            covariance / scales[:n_pools] ** 2,
            np.full(n_pools, degrees, np.float64),
            np.full(d, np.log(scales)),
            np.empty(0) if self.is_separated else gammaln(0.5 * (degrees + np.arange(n_table))),
        )

    # Columns by themselves

    _last_logs: tuple[Any, np.ndarray, np.ndarray] | None = None  # rows, and `_log_derivatives` of them

    @available_if(lambda family: len(family.prior.covariance) == family.n_features)
    def separated(self) -> DiagonalFamily:
        """The family whose columns have their own numbers of the prior."""
        if self.is_separated:
            return self
        d, prior = self.n_features, self.prior
        own = prior._replace(mean_precision=np.full(d, prior.mean_precision), degrees=np.full(d, prior.degrees))
        other = self._with_numbers(own)
        if self._vector is not None:
            assert self.hyperprior is not None
            other._vector = self.hyperprior.of_each_column(self._vector)
        return other

    @available_if(lambda family: len(family.prior.covariance) == family.n_features)
    def of_columns(self, columns: np.ndarray) -> DiagonalFamily:
        """The family, and rows if it has some, of these columns; if one column of all is rounded, they have cells."""
        other = copy(self)
        other.n_features, other.origin, other._last_given = len(columns), self.origin[columns], None
        other.prior = self.prior.of_columns(columns)
        if self.transform is not None:
            taken = self.transform.take(columns)
            other.transform = None if (taken.powers == 1.0).all() else taken
        if self.resolution is not None:
            other.resolution = self.resolution[columns]
        if hasattr(self, "log_ranges"):
            other.log_ranges = self.log_ranges[columns]
        if self.hyperprior is not None:
            other.hyperprior = self.hyperprior._replace(inverse=self.hyperprior.inverse[columns])
            if self._vector is not None:
                other._vector = self.hyperprior.of_columns(self._vector, columns)
        if not hasattr(self, "data"):
            return other
        other.scales, other.rows = self.scales[columns], self.rows.of_columns(columns)
        other.cells_of_task = _CELLS_OF_TASK // max(1, len(columns))
        if self._bounds is not None:
            other._bounds = tuple(np.take(each, columns, axis=1) for each in self._bounds)
        has_own = self.data.rows is not self.rows.values  # numbers within cells
        other.data = other._data(np.take(self.data.rows, columns, axis=1) if has_own else other.rows.values)
        logs = None if other.transform is None else np.take(self._log_derivatives()[0], columns, axis=1)
        other.log_base = None if logs is None else np.nansum(logs, axis=1)
        other.rows = other.rows._replace(log_base=other.log_base)
        other._last_logs = None if logs is None else (other.rows, logs, np.nansum(logs, axis=0))
        return other

    @available_if(lambda family: len(family.prior.covariance) == family.n_features)
    def with_priors_of(self, columns: list[Any]) -> Any:
        """These rows with the transforms and priors of each column by itself."""
        if not columns:
            return self
        powers, X = np.concatenate([each.powers for each in columns]), self._inverse(self._values())
        other = self._with_transform(YeoJohnson.of_rows(X, np.ones(self.n_rows), powers))
        return other.with_prior(NormalPrior._make(map(np.hstack, zip(*(each.prior for each in columns), strict=True))))

    @available_if(lambda family: len(family.prior.covariance) == family.n_features)
    def log_marginals_of_columns(self, statistics: DiagonalSums) -> np.ndarray:
        """Log densities of the observed cells of each column given the labels of the rows."""
        of_pools = log_marginals_of_pools(self.data, statistics)
        return of_pools if self.transform is None else of_pools + self._log_derivatives()[1]

    def _log_derivatives(self) -> tuple[np.ndarray, np.ndarray]:
        """Log derivatives of the transform in each cell, (n_rows, d), and their sums, which moves of columns reuse."""
        assert self.transform is not None
        if self._last_logs is None or self._last_logs[0] is not self.rows:
            logs = self.transform.log_slopes(self._inverse(self._values()))
            self._last_logs = self.rows, logs, np.nansum(logs, axis=0)
        return self._last_logs[1:]

    def with_learned_prior(self, statistics: DiagonalSums, free: Any) -> Any:
        """These rows with the most probable prior, or that of each column, given a partition."""
        if not (self.is_separated and self.n_features):
            return super().with_learned_prior(statistics, free) if self.n_features else self
        priors = []
        for j in range(self.n_features):
            column = self.of_columns(np.array([j]))
            shared = column._with_numbers(column.prior.shared())
            priors.append(shared.with_learned_prior(statistics.of_column(j), free).prior)
        return self.with_prior(NormalPrior._make(map(np.hstack, zip(*priors, strict=True))))


def _cell_offsets(parameters: GaussianParameters) -> np.ndarray:
    """Log densities of the features at their means, (K, d)."""
    return -0.5 * (np.log(parameters.covariances) + LOG_2PI)
