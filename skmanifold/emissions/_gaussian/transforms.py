"""Yeo-Johnson transforms of columns, with their powers, which are given or learned from clusters."""

from __future__ import annotations

from copy import copy
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ...utils._conditions import Array, Sizes
from ...utils._declared import Lacking
from ...utils._threads import Workers
from .._cells import TransformedCells
from .._dense_rows import DenseRows
from .._family import Family

# Of y = sign(z) ((1 + |z|)^p - 1) / p, where p is the power for positive z and 2 minus the power for negative z. The
# density of a transformed row is multiplied by the derivatives, and powers from 0 to 2 have all numbers as values.

_N_NODES = 32
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(_N_NODES)
_MOST_ROWS = 5000  # from which powers are learned
_LEAST_GAIN = 3.0  # in log density, for a power that is not 1
_DECIMALS = 2  # of learned powers
_NORMAL_RANGE = 1.349  # interquartile range of a standard normal distribution
_LEAST_SCALE = 0.01  # in standard deviations, for columns with many equal cells
_RIDGE = 0.01  # share of variances that is added, since columns may be dependent
_EXCESS = 2.0  # rows to which the prior of covariances is equivalent: the median of the learned numbers


def _side(z: np.ndarray, powers: np.ndarray) -> np.ndarray:
    return np.where(z < 0.0, 2.0 - powers, powers)


def _bent(z: np.ndarray, powers: np.ndarray) -> np.ndarray:
    p, logs = _side(z, powers), np.log1p(np.abs(z))
    return np.copysign(np.where(p == 0.0, logs, np.expm1(p * logs) / np.where(p == 0.0, 1.0, p)), z)


def _straight(y: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """The inverse of `_bent`."""
    p, size = _side(y, powers), np.abs(y)
    return np.copysign(np.expm1(np.where(p == 0.0, size, np.log1p(p * size) / np.where(p == 0.0, 1.0, p))), y)


def _log_slope(z: np.ndarray, powers: np.ndarray) -> np.ndarray:
    return (_side(z, powers) - 1.0) * np.log1p(np.abs(z))


class YeoJohnson(NamedTuple):
    """A monotone function of each column, or of each of d cells: intercept + slope * y(z), z = (x - location) / scale.

    Below `low` and above `high`, the extremes of z in the fitted rows, it is a straight line: otherwise the means of
    components without rows could be arbitrarily large. Columns with power 1 stay as they are.
    """

    location: Annotated[np.ndarray, Array("float64", "n_dimensions")]
    scale: Annotated[np.ndarray, Array("float64", "n_dimensions", above=0)]
    powers: Annotated[np.ndarray, Array("float64", "n_dimensions", low=0, high=2)]
    low: Annotated[np.ndarray, Array("float64", "n_dimensions", high=0)]
    high: Annotated[np.ndarray, Array("float64", "n_dimensions", low=0)]
    intercept: Annotated[np.ndarray, Array("float64", "n_dimensions")]
    slope: Annotated[np.ndarray, Array("float64", "n_dimensions", above=0)]

    def _disagreement(self, sizes: Sizes) -> str | None:
        with np.errstate(all="ignore"):
            ends = np.array([self.forward(self.location + self.scale * end) for end in (self.low, self.high)])
        return None if np.isfinite(ends).all() else "has a transform of the fitted rows that is not finite"

    @classmethod
    def of_rows(cls, X: np.ndarray, weights: np.ndarray, powers: np.ndarray) -> YeoJohnson | None:
        """The transform with these powers that keeps the weighted means and deviations of rows; None if all are 1."""
        means, deviations = _moments(X, weights)
        powers = np.where(deviations > 0.0, powers, 1.0)
        if (powers == 1.0).all():
            return None
        location, scale = _middle(X, weights)
        z = (X - location) / scale
        mean, deviation = _moments(_bent(z, powers), weights)
        slope = np.where(powers == 1.0, scale, deviations / np.where(deviation > 0.0, deviation, 1.0))
        extremes = np.fmin.reduce(z, axis=0), np.fmax.reduce(z, axis=0)
        return cls(location, scale, powers, *extremes, means - slope * mean, slope)

    def take(self, columns: np.ndarray | slice) -> YeoJohnson:
        """The functions of these columns."""
        return YeoJohnson(*(each[columns] for each in self))

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
        bent, (location, scale, powers, low, high, _, slope) = self._bent_columns()
        near = np.clip((X[:, bent] - location) / scale, low, high)
        return np.nansum(np.log(slope / scale) + _log_slope(near, powers), axis=1)

    def moments(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second moments of numbers whose transforms are normal, by Gauss-Hermite quadrature."""
        first, second, deviations = np.zeros(means.shape), np.zeros(means.shape), np.sqrt(variances)
        for node, weight in zip(_NODES, _WEIGHTS / _WEIGHTS.sum(), strict=True):
            gaps = self.inverse(means + node * deviations) - self.location
            first += weight * gaps
            second += weight * gaps**2
        second += self.location * (2.0 * first + self.location)
        same = self.powers == 1.0
        return np.where(same, means, self.location + first), np.where(same, variances + means**2, second)

    def _bent_columns(self) -> tuple[np.ndarray, YeoJohnson]:
        bent = self.powers != 1.0
        return bent, self.take(bent)


class TransformsColumns(Family):
    """Base class of families of rows of numbers that may be transformed before anything else.

    Parameters, priors and statistics are of transformed columns. Fitted attributes, cells and new rows are not.
    """

    has_matrices: bool
    shares_covariance: bool
    transform: Lacking[YeoJohnson | None] = None  # None if all columns stay as they are

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
        if "transform" not in free:
            return self, statistics
        filled, completed = self._values(), getattr(statistics, "completed", np.empty((0, self.n_features)))
        X, weights = self._inverse(filled), np.ones(self.n_rows)
        if len(completed):
            filled[np.isnan(filled).any(axis=1)] = completed
        powers = self.powers_within(X, filled, weights, labels)
        other = self._with_transform(YeoJohnson.of_rows(X, weights, powers))
        again = other.no_statistics(len(statistics.sizes))
        if len(completed):
            of_rows = DenseRows(self._inverse(completed))
            again.completed[:] = other.transformed(of_rows).values
        other.count(labels, again, workers)
        return other, again

    @classmethod
    def powers_within(cls, X: np.ndarray, filled: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The most probable power of each column given clusters of weighted rows, see `learned_powers`.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
        filled : ndarray of shape (n_rows, n_features)
            Transformed rows; missing cells may have values.
        weights : ndarray of shape (n_rows,)
        labels : ndarray of shape (n_rows,)

        Returns
        -------
        powers : ndarray of shape (n_features,)
        """
        others = filled if cls.has_matrices else X[:, :0]
        return learned_powers(X, others, weights, labels, cls.shares_covariance)

    def _with_transform(self, transform: YeoJohnson | None) -> Any:
        """Bound rows with another transform."""
        if transform is self.transform:
            return self
        other = copy(self)
        other.transform = transform
        return other.clusters(self.rows._replace(values=self._inverse(self._values()), log_base=None))

    def _values(self) -> np.ndarray:
        """Transformed values of bound rows, a new array."""
        return self.rows.values.copy()

    def _inverse(self, values: np.ndarray) -> np.ndarray:
        """Values of which these are transforms."""
        return values if self.transform is None else self.transform.inverse(values)

    def _cells(self, cells: Any) -> Any:
        """Distributions of cells, given those of their transforms."""
        return cells if self.transform is None else TransformedCells(cells, self.transform)


def _moments(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means and deviations of the observed cells of columns."""
    seen = ~np.isnan(X)
    totals = weights @ seen
    means = weights @ np.where(seen, X, 0.0) / totals
    return means, np.sqrt(weights @ np.where(seen, X - means, 0.0) ** 2 / totals)


def _middle(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted medians and interquartile ranges, in deviations of a normal distribution, of columns.

    Most cells of a skewed column are nearer to each other than its standard deviation. A constant column has scale 1.
    """
    observed = ((x[seen], weights[seen]) for x, seen in zip(X.T, ~np.isnan(X.T), strict=True))
    found = [np.quantile(x, (0.25, 0.5, 0.75), method="inverted_cdf", weights=own) for x, own in observed]
    lower, middle, upper = np.transpose(found)
    scale = np.maximum((upper - lower) / _NORMAL_RANGE, _LEAST_SCALE * _moments(X, weights)[1])
    return middle, np.where(scale > 0.0, scale, 1.0)


def learned_powers(
    X: np.ndarray, others: np.ndarray, weights: np.ndarray, labels: np.ndarray, shares_covariance: bool
) -> np.ndarray:
    """The most probable power of each column given clusters of weighted rows, (d,); 1 without a clear gain.

    The density of a column is that given the other columns in `others`, (n, d), which are transformed; with no columns,
    (n, 0), columns are independent. Means and covariances are integrated out, with a
    prior at the covariance within clusters.
    """
    chosen = np.argsort(labels, kind="stable")
    chosen = chosen[:: -(-len(chosen) // _MOST_ROWS)]
    X, others, weights, labels = X[chosen], others[chosen], weights[chosen], labels[chosen]
    (location, scale), found = _middle(X, weights), np.ones(X.shape[1])
    for j in np.flatnonzero(_moments(X, weights)[1] > 0.0):
        seen = np.flatnonzero(~np.isnan(X[:, j]))
        z, given = (X[seen, j] - location[j]) / scale[j], others[seen]
        given = np.delete(given, j, axis=1) if others.shape[1] else given
        within = _Within(labels[seen], weights[seen], given, shares_covariance)

        def cost(power: float, z: np.ndarray = z, within: _Within = within) -> float:
            return -within.log_density(_bent(z, np.array(power)), _log_slope(z, np.array(power)))

        best = minimize_scalar(cost, bounds=(0.0, 2.0), method="bounded", options={"xatol": 0.1**_DECIMALS})
        if cost(1.0) - best.fun > _LEAST_GAIN:
            found[j] = round(float(best.x), _DECIMALS)
    return found


class _Within:
    """Weighted rows, sorted by cluster, with the other columns, for densities of a column given these."""

    def __init__(self, labels: np.ndarray, weights: np.ndarray, others: np.ndarray, shares_covariance: bool) -> None:
        self.starts = np.flatnonzero(np.append(True, np.diff(labels) != 0))
        self.weights, self.lengths = weights[:, np.newaxis], np.diff(np.append(self.starts, len(labels)))
        self.sizes, self.shares_covariance = np.add.reduceat(weights, self.starts), shares_covariance
        self.others, self.degrees = self._centred(others), others.shape[1] + 2.0 + _EXCESS
        parts = zip(*(np.split(each, self.starts[1:]) for each in (self.others, self.weights)), strict=True)
        products = np.array([(of_weights * part).T @ part for part, of_weights in parts])
        pooled = products.sum(axis=0) / self.sizes.sum()
        variances = np.diagonal(pooled)
        pooled += np.diag(np.where(variances > 0.0, _RIDGE * variances, 1.0))
        self.of_pooled, self.of_groups = (
            np.linalg.inv(pooled),
            np.linalg.inv(self._grouped(products) + _EXCESS * pooled),
        )

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """Weighted sums by cluster."""
        return np.add.reduceat(self.weights * values, self.starts)

    def _centred(self, values: np.ndarray) -> np.ndarray:
        """Values minus means of their clusters; zero in place of NaN."""
        seen = ~np.isnan(values)
        totals = np.maximum(self._sums(seen), self.weights.min())
        means = self._sums(np.where(seen, values, 0.0)) / totals
        return np.where(seen, values - np.repeat(means, self.lengths, axis=0), 0.0)

    def _grouped(self, sums: np.ndarray) -> np.ndarray:
        """Sums for each covariance."""
        return sums.sum(axis=0, keepdims=True) if self.shares_covariance else sums

    def log_density(self, y: np.ndarray, log_slopes: np.ndarray) -> float:
        """Log marginal density, up to a constant, of a column whose transformed cells are `y`."""
        gaps = self._centred(y[:, np.newaxis])
        squares, products = self._sums(gaps**2)[:, 0], self._sums(gaps * self.others)
        total, least = self.sizes.sum(), np.finfo(np.float64).eps * y.var()
        square, product = (1.0 + _RIDGE) * squares.sum() / total, products.sum(axis=0) / total
        pooled = max(square - product @ self.of_pooled @ product, least)
        products = self._grouped(products) + _EXCESS * product
        explained = np.einsum("ka,kab,kb->k", products, self.of_groups, products)
        rests = np.maximum(self._grouped(squares) + _EXCESS * square - explained, least)
        sizes, degrees = self._grouped(self.sizes), self.degrees
        of_prior = 0.5 * degrees * len(sizes) * np.log(pooled)
        return float(self.weights[:, 0] @ log_slopes + of_prior - 0.5 * ((degrees + sizes) @ np.log(rests)))
