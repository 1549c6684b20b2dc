"""Yeo-Johnson transforms of columns, with their powers, which are given or learned from clusters."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ...numerics.slice_update import slice_updates
from ...random._keys import root_key
from ...utils._conditions import Array, Sizes
from ...utils._declared import Saved
from ...utils._threads import Workers
from .._cells import TransformedCells
from .._dense_rows import DenseRows
from .._family import Family
from .._seeds import cluster_rows
from .hyperparameters import Hyperprior

# Of y = sign(z) ((1 + |z|)^p - 1) / p, where p is the power for positive z and 2 minus the power for negative z. The
# density of a transformed row is multiplied by the derivatives, and powers from 0 to 2 have all numbers as values.

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)  # of the quadrature
_LEAST_POWER = 1e-12  # in place of 0, a logarithm
_MOST_ROWS = 2000  # from which clusters and powers are learned
_LEAST_GAIN = 3.0  # in log density, for a power that is not 1
_N_ALTERNATIONS = 2  # of clusters by k-means and powers given these
_DECIMALS = 2  # of learned powers
_LEVELS = np.linspace(0.0, 1.0, 65)  # of the quantiles that stand for a column
_NORMAL_RANGE = 1.349  # interquartile range of a standard normal distribution
_LEAST_SCALE = 0.01  # in standard deviations, for columns with many equal cells
_LEAST_SHARE = 1e-4  # of the variance of a column, within clusters: columns may be dependent
_EXCESS = 2.0  # rows to which the prior of covariances is equivalent: the median of the learned numbers


def _side(z: np.ndarray, powers: np.ndarray | float) -> np.ndarray:
    return np.where(z < 0.0, np.maximum(2.0 - powers, _LEAST_POWER), np.maximum(powers, _LEAST_POWER))


def _bent(z: np.ndarray, powers: np.ndarray | float) -> np.ndarray:
    p = _side(z, powers)
    return np.copysign(np.expm1(p * np.log1p(np.abs(z))) / p, z)


def _straight(y: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """The inverse of `_bent`."""
    p = _side(y, powers)
    return np.copysign(np.expm1(np.log1p(p * np.abs(y)) / p), y)


def _log_slope(z: np.ndarray, powers: np.ndarray | float) -> np.ndarray:
    return (_side(z, powers) - 1.0) * np.log1p(np.abs(z))


class YeoJohnson(NamedTuple):
    """A monotone function of each column, or of each of d cells: intercept + slope * y(z), z = (x - location) / scale.

    `points` are quantiles of z in the fitted rows, whose mean and deviation stay the same. Below the first and above
    the last the function is a straight line: otherwise the means of components without rows could be arbitrarily
    large. Columns with power 1 stay as they are.
    """

    location: Annotated[np.ndarray, Array("float64", "n_dimensions")]
    scale: Annotated[np.ndarray, Array("float64", "n_dimensions", above=0)]
    powers: Annotated[np.ndarray, Array("float64", "n_dimensions", low=0, high=2)]
    points: Annotated[np.ndarray, Array("float64", "n_points n_dimensions")]
    intercept: Annotated[np.ndarray, Array("float64", "n_dimensions")]
    slope: Annotated[np.ndarray, Array("float64", "n_dimensions", above=0)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        with np.errstate(all="ignore"):
            ends = self.forward(self.location + self.scale * self.points[[0, -1]])
        return None if np.isfinite(ends).all() else "has a transform of the fitted rows that is not finite"

    @classmethod
    def of_rows(cls, X: np.ndarray, weights: np.ndarray, powers: np.ndarray) -> YeoJohnson | None:
        """The transform with these powers; None if all are 1."""
        quantiles = _quantiles(X, weights)
        location, scale = _middle(quantiles, X, weights)
        points = (quantiles - location) / scale
        powers = np.where(points[0] < points[-1], powers, 1.0)
        if (powers == 1.0).all():
            return None
        return cls(location, scale, powers, points, location, scale).with_powers(powers)

    def with_powers(self, powers: np.ndarray) -> YeoJohnson:
        """The functions with other powers, from 0 to 2."""
        if not ((powers >= 0.0) & (powers <= 2.0)).all():
            raise ValueError("a power of a transform is not between 0 and 2")
        y, same = _bent(self.points, powers), powers == 1.0
        slope = self.scale * np.where(same, 1.0, self.points.std(axis=0) / np.where(same, 1.0, y.std(axis=0)))
        intercept = self.location + self.scale * self.points.mean(axis=0) - slope * y.mean(axis=0)
        return self._replace(powers=powers, intercept=intercept, slope=slope)

    def take(self, columns: np.ndarray | slice) -> YeoJohnson:
        """The functions of these columns."""
        return YeoJohnson(*(each[..., columns] for each in self))

    def forward(self, X: np.ndarray) -> np.ndarray:
        """Transformed numbers, with the columns along the last axis; NaN stays."""
        bent, (location, scale, powers, low, high, intercept, slope) = self._bent_columns()
        z = (X[..., bent] - location) / scale
        near = np.clip(z, low, high)
        y = _bent(near, powers) + np.exp(_log_slope(near, powers)) * (z - near)
        out = X.copy()
        out[..., bent] = intercept + slope * y
        return out

    def inverse(self, Y: np.ndarray) -> np.ndarray:
        """Numbers whose transforms are these."""
        bent, (location, scale, powers, low, high, intercept, slope) = self._bent_columns()
        y = (Y[..., bent] - intercept) / slope
        near = np.clip(y, _bent(low, powers), _bent(high, powers))
        z = _straight(near, powers)
        out = Y.copy()
        out[..., bent] = location + scale * (z + np.exp(-_log_slope(z, powers)) * (y - near))
        return out

    def log_derivatives(self, X: np.ndarray) -> np.ndarray:
        """Log of the product of the derivatives of the observed cells of each row, (n_rows,)."""
        return np.nansum(self._log_slopes(X)[1], axis=1)

    def log_slopes(self, X: np.ndarray) -> np.ndarray:
        """Logs of the derivatives of the cells, (n_rows, d); NaN where missing."""
        (bent, logs), out = self._log_slopes(X), np.zeros(X.shape)
        out[:, bent] = logs
        return out

    def _log_slopes(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which columns change, and the logs of the derivatives of their cells."""
        bent, (location, scale, powers, low, high, _, slope) = self._bent_columns()
        near = np.clip((X[:, bent] - location) / scale, low, high)
        return bent, np.log(slope / scale) + _log_slope(near, powers)

    def moments(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second moments of numbers whose transforms are normal, by Gauss-Hermite quadrature."""
        nodes = np.expand_dims(_NODES, tuple(range(1, means.ndim + 1)))
        gaps = self.inverse(means + nodes * np.sqrt(variances)) - self.location
        first, second = (np.tensordot(_WEIGHTS / _WEIGHTS.sum(), each, 1) for each in (gaps, gaps**2))
        second += self.location * (2.0 * first + self.location)
        same = self.powers == 1.0
        return np.where(same, means, self.location + first), np.where(same, variances + means**2, second)

    def _bent_columns(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Which columns change, and of these all fields, with the ends of the points."""
        bent, (location, scale, powers, points, *line) = self.powers != 1.0, self
        return bent, [each[bent] for each in (location, scale, powers, points[0], points[-1], *line)]


class TransformsColumns(Family):
    """Base class of families of rows of numbers that may be transformed before anything else.

    Parameters, priors and statistics are of transformed columns. Fitted attributes, cells and new rows are not.
    """

    has_matrices = True  # whether covariances are matrices
    transform: Saved[YeoJohnson | None]  # None if all columns stay as they are
    _incomplete: np.ndarray  # indices of the rows with missing cells, if there are matrices
    hyperprior: Saved[Hyperprior | None]  # of what chains of a Dirichlet process mixture draw
    # Each subclass defines these.
    _set_values: Callable[[np.ndarray], None]  # of the rows, within their cells
    _units_of_columns: Callable[[np.ndarray], tuple[Any, Any]]  # zero and unit of the data

    def transformed(self, rows: DenseRows) -> DenseRows:
        """Rows with transformed columns; these have a ``log_base``, others do not."""
        if self.transform is None or rows.log_base is not None:
            return rows
        log_base = self.transform.log_derivatives(rows.values)
        return rows._replace(values=self.transform.forward(rows.values), log_base=log_base)

    def in_units(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes whose ``components_`` are means of the columns; covariances stay those of transformed columns."""
        if self.transform is None:
            return attributes
        variances = attributes["covariances_"]
        variances = np.diagonal(variances, axis1=-2, axis2=-1) if self.has_matrices else variances
        return attributes | {"components_": self.transform.moments(attributes["components_"], variances)[0]}

    def with_prior_of(self, other: TransformsColumns) -> Any:
        """These rows with the transform and the prior of clusters of other rows."""
        return self._with_transform(other.transform).with_prior(other.prior)

    def with_learned_transform(self, labels: np.ndarray, statistics: Any, free: Any, workers: Workers) -> Any:
        """These rows with the most probable transform given a partition."""
        if "transform" not in free or not self.n_features:
            return self, statistics
        filled, completed = self._values(statistics), getattr(statistics, "completed", np.empty((0, self.n_features)))
        spread, X, weights = self._inverse(filled), self._inverse(self._values()), np.ones(self.n_rows)
        if len(completed):
            filled[np.isnan(filled).any(axis=1)] = completed
        powers = best_powers(self, spread, filled, weights, labels)
        if (powers == self.powers).all():
            return self, statistics
        other = self._with_transform(YeoJohnson.of_rows(X, weights, powers))
        again = other.no_statistics(len(statistics.sizes))
        if len(completed):
            again.completed[:] = other.transformed(DenseRows(self._inverse(completed))).values
        other.given(again).count(labels, again, workers)
        return other, again

    def _with_transform(self, transform: YeoJohnson | None) -> Any:
        """The family, and rows if it has some, with another transform."""
        if transform is self.transform:
            return self
        other = copy(self)
        other.transform = transform
        if not hasattr(self, "data"):
            return other
        return other.clusters(self.rows._replace(values=self._inverse(self._values()), log_base=None))

    @property
    def powers(self) -> np.ndarray:
        """Powers of the transforms of all columns, (d,)."""
        return np.ones(self.n_features) if self.transform is None else self.transform.powers

    def _with_powers(self, powers: np.ndarray) -> Any:
        """The family, and rows if it has some, with other powers; those of the last pass are often the same."""
        last, own = self._last_given, getattr(self, "data", None)
        known = [self] if last is None or last[0][-1] is not own else [self, last[1]]
        for family in known:  # this one first: rows that are transformed again are rounded otherwise
            if self.transform is None or np.array_equal(family.powers, powers):
                return family
        assert self.transform is not None
        return self._with_transform(self.transform.with_powers(powers))

    @property
    def is_separated(self) -> bool:
        """Whether each column has its own numbers of the prior."""
        return bool(np.ndim(self.prior.degrees))

    def with_drawn_power(self, labels: np.ndarray, statistics: Any, rng: np.random.Generator, workers: Workers) -> Any:
        """Statistics with another power of a random column, drawn given the partition, and its transformed numbers.

        Numbers within cells stay the same, drawn values of missing cells those of the transformed column. If columns
        have their own numbers of the prior, the powers of all are drawn.
        """
        assert self.transform is not None
        assert self.hyperprior is not None
        columns = np.flatnonzero(self.powers != 1.0)
        if not self.is_separated:
            columns = np.array([rng.choice(columns)])
        own, drawn = self.transform.take(columns), statistics
        x = own.inverse(self._values(statistics)[:, columns])

        def log_densities(powers: np.ndarray) -> Any:
            nonlocal drawn
            of_columns = own.with_powers(powers)
            other, drawn = self._with_columns(columns, of_columns.forward(x), statistics)
            other.count(labels, drawn, workers)
            if self.is_separated:
                return np.nansum(of_columns.log_slopes(x), axis=0) + other.log_marginals_of_columns(drawn)[columns]
            return of_columns.log_derivatives(x).sum() + other.log_marginal(drawn)

        bounds, vector = (np.zeros(len(columns)), np.full(len(columns), 2.0)), statistics.hyperparameters.copy()
        # The last powers, those of `drawn`, are those that are returned
        self.hyperprior.powers_of(vector)[columns] = slice_updates(log_densities, own.powers, *bounds, rng)
        return drawn._replace(hyperparameters=vector)

    def _with_columns(self, columns: np.ndarray, Y: np.ndarray, statistics: Any) -> tuple[Any, Any]:
        """These rows with other transformed numbers of some columns, and statistics without rows."""
        other, values = copy(self), self.data[0].copy()
        shift, unit = self._units_of_columns(columns)
        values[:, columns] = (Y - shift) / unit
        other._set_values(values)
        kept = {"values": values} if len(statistics.values) else {}
        if self.has_matrices:
            kept["completed"] = completed = statistics.completed.copy()
            own = Y[self._incomplete]
            completed[:, columns] = np.where(np.isnan(own), completed[:, columns], own)
        return other, self.no_statistics(len(statistics.sizes))._replace(**kept)

    def _values(self, statistics: Any = None) -> np.ndarray:
        """Transformed values of bound rows, or those within cells in statistics if numbers are rounded; a new array."""
        has_cells = statistics is not None and len(statistics.values)
        return (statistics.values if has_cells else self.rows.values).copy()

    def _inverse(self, values: np.ndarray) -> np.ndarray:
        """Values of which these are transforms."""
        return values if self.transform is None else self.transform.inverse(values)

    def _forward(self, X: np.ndarray) -> np.ndarray:
        """Transformed values."""
        return X if self.transform is None else self.transform.forward(X)

    def _cells(self, cells: Any) -> Any:
        """Distributions of cells, given those of their transforms."""
        return cells if self.transform is None else TransformedCells(cells, self.transform)


def _moments(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means and deviations of the observed cells of columns; zero if there are none."""
    seen = ~np.isnan(X)
    totals = np.maximum(weights @ seen, np.finfo(np.float64).tiny)
    means = weights @ np.where(seen, X, 0.0) / totals
    return means, np.sqrt(weights @ np.where(seen, X - means, 0.0) ** 2 / totals)


def _quantiles(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted quantiles of the observed cells of columns, (n_levels, d); zero if there are none."""
    seen = ~np.isnan(X) | np.isnan(X).all(axis=0)
    observed = ((x[own], weights[own]) for x, own in zip(X.T, seen.T, strict=True))
    found = [np.quantile(x, _LEVELS, method="inverted_cdf", weights=own) for x, own in observed]
    return np.nan_to_num(np.transpose(found))


def _middle(quantiles: np.ndarray, X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted medians and interquartile ranges, in deviations of a normal distribution, of columns.

    Most cells of a skewed column are nearer to each other than its standard deviation. A constant column has scale 1.
    """
    lower, middle, upper = quantiles[:: len(quantiles) // 4][1:4]
    scale = np.maximum((upper - lower) / _NORMAL_RANGE, _LEAST_SCALE * _moments(X, weights)[1])
    return middle, np.where(scale > 0.0, scale, 1.0)


def transform_of_rows(
    family: Any, X: np.ndarray, spread: np.ndarray, weights: np.ndarray, n_clusters: int
) -> YeoJohnson | None:
    """The transform of weighted rows with powers that are learned from clusters of k-means, in rows with `spread`."""
    transform = None
    for _ in range(_N_ALTERNATIONS):
        filled = spread if transform is None else transform.forward(spread)
        labels = cluster_rows(filled, n_clusters, root_key(0), weights, _MOST_ROWS)
        transform = YeoJohnson.of_rows(X, weights, best_powers(family, spread, filled, weights, labels))
    return transform


def best_powers(family: Any, X: np.ndarray, filled: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The most probable power of each column given clusters of weighted rows, (d,); 1 without a clear gain.

    `filled` are transformed rows, of which missing cells may have values: the density of a column is that given its
    other columns, unless the family has variances alone. Means and covariances of the clusters, also if the family has
    one for all, are integrated out, with a prior at the covariance within clusters.
    """
    chosen = np.argsort(labels, kind="stable")
    chosen = chosen[:: -(-len(chosen) // _MOST_ROWS)]
    X, filled, weights, labels = X[chosen], filled[chosen], weights[chosen], labels[chosen]
    location, scale = _middle(_quantiles(X, weights), X, weights)
    deviations, found = _moments(filled, weights)[1], np.ones(X.shape[1])
    for j in np.flatnonzero(deviations > 0.0):
        seen, given = np.flatnonzero(~np.isnan(X[:, j])), (deviations > 0.0) & family.has_matrices
        given[j], z = False, (X[seen, j] - location[j]) / scale[j]
        within = _Within(labels[seen], weights[seen], filled[seen][:, given], _LEAST_SHARE * deviations[given] ** 2)
        best = minimize_scalar(within.cost, bounds=(0.0, 2.0), args=(z,), options={"xatol": 0.1**_DECIMALS})
        if within.cost(1.0, z) - best.fun > _LEAST_GAIN:
            found[j] = round(float(best.x), _DECIMALS)
    return found


class _Within:
    """Weighted rows, sorted by cluster, with the other columns, whose variances within clusters `least` is added to."""

    def __init__(self, labels: np.ndarray, weights: np.ndarray, others: np.ndarray, least: np.ndarray) -> None:
        self.starts = np.flatnonzero(np.append(True, np.diff(labels) != 0))
        self.weights, self.lengths = weights[:, np.newaxis], np.diff(np.append(self.starts, len(labels)))
        self.sizes, self.others = np.add.reduceat(weights, self.starts), self._centred(others)
        products = np.array([part.T @ part for part in np.split(np.sqrt(self.weights) * self.others, self.starts[1:])])
        pooled = products.sum(axis=0) / self.sizes.sum() + np.diag(least)
        self.of_pooled, self.of_clusters = np.linalg.inv(pooled), np.linalg.inv(products + _EXCESS * pooled)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Weighted sums by cluster."""
        return np.add.reduceat(self.weights * values, self.starts)

    def _centred(self, values: np.ndarray) -> np.ndarray:
        """Values minus means of their clusters; zero in place of NaN."""
        seen = ~np.isnan(values)
        means = self._sums(np.where(seen, values, 0.0)) / np.maximum(self._sums(seen), self.weights.min())
        return np.where(seen, values - np.repeat(means, self.lengths, axis=0), 0.0)

    def cost(self, power: float, z: np.ndarray) -> float:
        """Minus the log marginal density, up to a constant, of the column `z` if it is transformed with this power."""
        y, sizes = _bent(z, power), self.sizes
        gaps, least = self._centred(y[:, np.newaxis]), _LEAST_SHARE * _moments(y, self.weights[:, 0])[1] ** 2
        squares, products = self._sums(gaps**2)[:, 0], self._sums(gaps * self.others)
        square, product = squares.sum() / sizes.sum() + least, products.sum(axis=0) / sizes.sum()
        pooled = max(square - product @ self.of_pooled @ product, least)
        products += _EXCESS * product
        explained = np.einsum("ka,kab,kb->k", products, self.of_clusters, products, optimize=True)
        rests = np.maximum(squares + _EXCESS * square - explained, least)
        degrees = len(product) + 2.0 + _EXCESS
        of_prior = degrees * len(sizes) * np.log(pooled)
        return float(0.5 * ((degrees + sizes) @ np.log(rests) - of_prior) - self.weights[:, 0] @ _log_slope(z, power))
