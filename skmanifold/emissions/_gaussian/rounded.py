"""Rounded columns of Gaussian families: cells of numbers, draws within them, and parameters of rounded numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any

import numpy as np
from scipy.special import erfcx

from ...random._keys import fold_in, fold_in_each
from ...random._variates import truncated_normal
from ...utils._conditions import Array
from ...utils._declared import Lacking, Saved
from ...utils._njit import njit, njit_part
from ...utils._threads import Workers
from .._dense_rows import DenseRows
from .._rounding import within_cells
from .missing_kernels import HALF_LOG_2PI, LEAST_PIVOT
from .transforms import TransformsColumns


class RoundsColumns(TransformsColumns):
    """Base class of families of rows of numbers that may have been rounded to cells.

    Cells are those of the columns as they are; bounds are transformed.
    """

    origin: np.ndarray
    _tangents: Callable[..., tuple]  # points of cells; slopes, bounds of precisions and log densities there
    _parameters: Callable[..., Any]  # with means relative to the origin, and covariances
    # Widths of the cells to which numbers were rounded, zero for exact columns; None if all are exact
    resolution: Saved[Annotated[np.ndarray, Array("float64", "n_dimensions", low=0)] | None]
    _bounds: tuple[np.ndarray, ...] | None = None  # of cells of rows, and first numbers within them

    @property
    def unrounded(self) -> Any:
        """The same family for exact numbers; False if these are exact."""
        if self.resolution is None:
            return False
        other = copy(self)
        other.resolution = None
        return other

    def add_log_bounds(self, rows: DenseRows, first: int, stop: int, parameters: Any, out: np.ndarray) -> None:
        """Add logs of bounds of the probabilities of the observed cells, divided by their volumes."""
        lows, highs = self._ends_of_cells(self._inverse(rows.values[first:stop]))
        for k in range(len(parameters.means)):
            points, *of_bound, heights = self._tangents(lows, highs, np.full(len(lows), k, np.int32), parameters)
            out[:, k] += heights + np.nansum(log_means(lows - points, highs - points, *of_bound), axis=1)

    def propose_in_cells(
        self, rows: DenseRows, labels: np.ndarray, parameters: Any, key: np.uint64, numbers: np.ndarray
    ) -> np.ndarray:
        """Replace rows by numbers within their cells; returns logs of acceptance probabilities."""
        lows, highs = self._ends_of_cells(self._inverse(rows.values))
        points, slopes, precisions, heights = self._tangents(lows, highs, labels, parameters)
        of_rows = np.arange(len(labels)), points + slopes / precisions, precisions, fold_in_each(key, numbers)
        draw_in_cells(0, len(labels), lows, highs, *of_rows, rows.values)
        steps = rows.values - points
        *_, reached = self._tangents(rows.values, rows.values, labels, parameters)
        return reached - heights - np.nansum(steps * (slopes - 0.5 * precisions * steps), axis=1)

    def _bounds_of(self, values: np.ndarray) -> Any:
        """Lower and upper bounds of the cells of rows, and first numbers, spread over these; None if all are exact."""
        if self.resolution is None:
            return None
        X = self._inverse(values)
        return *self._ends_of_cells(X), self._forward(within_cells(X, self.resolution))

    def _ends_of_cells(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, transformed, of the cells of rows, which are not."""
        assert self.resolution is not None
        half = 0.5 * self.resolution
        return self._forward(X - half), self._forward(X + half)

    @property
    def _first_values(self) -> np.ndarray:
        """Numbers within the cells of all rows; empty if all columns are exact."""
        return np.empty((0, self.n_features)) if self._bounds is None else self._bounds[2]

    def _variances_of_cells(self) -> np.ndarray | None:
        """Variances of uniform numbers within cells, which predictive distributions have in addition, (d,)."""
        if self.resolution is None:
            return None
        slopes = 1.0 if self.transform is None else self.transform.slope / self.transform.scale  # at the median
        return (self.resolution * slopes) ** 2 / 12.0

    # Outliers

    log_ranges: Lacking[Annotated[np.ndarray, Array("float64", "n_dimensions")]]  # of the columns of the fitted rows

    def with_ranges(self, rows: DenseRows) -> Any:
        """The family with the ranges of the columns, with whole cells; a constant column has range 1."""
        other, X = copy(self), rows.values
        ranges = np.fmax.reduce(X) - np.fmin.reduce(X) + (0.0 if self.resolution is None else self.resolution)
        other.log_ranges = np.log(np.where(ranges > 0.0, ranges, 1.0))
        return other

    def add_log_broad(self, out: np.ndarray, workers: Workers) -> None:
        """Add the log density of the observed cells of outliers: one over the range, also outside of it."""
        out[:, 0] -= ~np.isnan(self.rows.values) @ self.log_ranges

    def spread_in_cells(self, statistics: Any, rows: np.ndarray, key: np.uint64) -> Any:
        """Statistics with uniform numbers of these rows within their cells, in the units of X."""
        if not len(statistics.values):
            return statistics
        family: Any = self.given(statistics)
        values, is_rounded = statistics.values.copy(), family.resolution > 0.0
        zeros, units = self._units_of_columns(np.arange(self.n_features))
        lows, highs = (family._inverse(zeros + units * ends[rows]) for ends in family._bounds[:2])
        X = lows + np.random.default_rng(int(key)).random(lows.shape) * (highs - lows)
        values[rows] = np.where(is_rounded, (family._forward(X) - zeros) / units, values[rows])
        return statistics._replace(values=values)

    def exact(self, statistics: Any) -> Any:
        """The rows with their numbers within cells as exact numbers."""
        exact = self.unrounded or self
        if exact is not self and self.transform is not None:
            exact.log_base = self.transform.log_derivatives(self._inverse(self._values(statistics)))
        return exact

    def of_rounded(self, parameters: Any) -> Any:
        """Parameters of the distributions of rounded numbers, given those of the numbers within their cells."""
        return self._parameters(parameters.means - self.origin, self._rounded(parameters.covariances))

    def _rounded(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances of rounded numbers, given those of the numbers within their cells."""
        variances = self._variances_of_cells()
        if variances is None:
            return covariances
        return covariances + (np.diag(variances) if self.has_matrices else variances)


# Draws of numbers within the cells to which they were rounded, given the components of their rows.
#
# In finite mixtures labels and numbers are drawn from their joint distribution given the parameters, by rejection. With
# the precision L and the mean m of a component, and the slopes g = -L (c - m) at a point c of the cell,
#
#     log N(c + u) = log N(c) + g'u - u'Lu / 2 <= log N(c) + g'u - u'Du / 2
#
# for each diagonal D with L - D positive semi-definite. The integral of the bound over the cell is a product of
# integrals over the columns. Labels are drawn in proportion to it, and u given the label from independent truncated
# normal distributions. Both are accepted with probability exp(-u'(L - D)u / 2); independent columns have L = D.
#
# 1 / D_aa is s_a sum_b |C_ab| / s_b, for the covariance C and the standard deviations s: 1 / D - C is diagonally
# dominant in units of s. L is the precision of the observed cells; their C is a part of that of all.

_N_ROUNDS = 3  # in which the points of cells are found, one column after the other
_LEAST_FALL = 1e-5  # of the logarithm of a function, below which its integral is a series


@njit_part
def _within(key, low, high, mean, precision):
    root = math.sqrt(precision)
    x = mean + truncated_normal(key, (low - mean) * root, (high - mean) * root) / root
    return min(max(x, low), high)


@njit(cache=True, nogil=True)
def draw_in_cells(first, stop, lows, highs, labels, means, precisions, keys, values):
    """Draw the numbers of cells of positive width in the rows `first` to `stop` of `values`, which are independent.

    `lows` and `highs` are the bounds of cells, with NaN where a cell is missing; `means` and `precisions`, (K, d).
    Each row has a key.
    """
    for row in range(first, stop):
        k = labels[row]
        for a in range(values.shape[1]):
            if lows[row, a] < highs[row, a]:
                of_cell = fold_in(keys[row], a)
                values[row, a] = _within(of_cell, lows[row, a], highs[row, a], means[k, a], precisions[k, a])


@njit(cache=True, nogil=True)
def draw_in_dependent_cells(first, stop, lows, highs, labels, means, precisions, origin, key, place, values, completed):
    """As `draw_in_cells` for precision matrices, (G, d, d): one cell after the other, given the others of its row.

    Rows with missing cells are at `place` in `completed`, and condition on these values. `means` are relative to the
    origin.
    """
    d = values.shape[1]
    gaps = np.empty(d)
    for row in range(first, stop):
        k, of_row = labels[row], fold_in(key, row)
        precision = precisions[min(k, len(precisions) - 1)]
        x = values[row] if place[row] < 0 else completed[place[row]]
        for a in range(d):
            gaps[a] = (x[a] - origin[a]) - means[k, a]
        for a in range(d):
            low, high = lows[row, a], highs[row, a]
            if not low < high:
                continue
            total = 0.0
            for b in range(d):
                total += precision[a, b] * gaps[b]
            total -= precision[a, a] * gaps[a]
            centre = origin[a] + means[k, a]
            mean = centre - total / precision[a, a]
            x[a] = values[row, a] = _within(fold_in(of_row, a), low, high, mean, precision[a, a])
            gaps[a] = x[a] - centre


@njit(cache=True, nogil=True)
def fill_tangents(lows, highs, labels, means, precisions, points, slopes, heights):
    """Fill points of the cells of rows, and the slopes, (n, d), and heights, (n,), of log densities of labels there.

    Heights are relative to the log density of all columns at the mean. A point is near the mean of the numbers in the
    cell, where the bound is lowest: the mean if they were normal instead of uniform within the cell, moved into it.
    `precisions`, (G, d, d), are those of each component or of all.
    """
    d, gaps = means.shape[1], np.empty(means.shape[1])
    for i in range(len(labels)):
        mean, slope, whole = means[labels[i]], slopes[i], precisions[min(labels[i], len(precisions) - 1)]
        precision, heights[i] = whole.copy(), 0.0
        for a in range(d):
            gaps[a] = slope[a] = 0.0
            if np.isnan(lows[i, a]):  # the precision of the others is a Schur complement
                pivot = max(precision[a, a], LEAST_PIVOT * whole[a, a])
                share = precision[a] / pivot
                for b in range(d):
                    precision[b] -= precision[b, a] * share
                heights[i] += HALF_LOG_2PI - 0.5 * math.log(pivot)
        for j in range(_N_ROUNDS * d):
            a = j % d
            low, high = lows[i, a] - mean[a], highs[i, a] - mean[a]
            if low <= high:
                variance = (high - low) ** 2 / 12.0
                change = 0.5 * (low + high) - gaps[a] + variance * slope[a]
                new = gaps[a] + change / (1.0 + variance * precision[a, a])
                step = min(max(new, low), high) - gaps[a]
                gaps[a] += step
                for b in range(d):
                    slope[b] -= step * precision[a, b]
        for a in range(d):
            points[i, a] = mean[a] + gaps[a]
            heights[i] += 0.5 * gaps[a] * slope[a]


def log_means(lows, highs, slopes, precisions):
    """Logs of the means of ``exp(slope u - precision u^2 / 2)`` from low to high, or of the value if both are equal.

    The function falls from its highest value, which may be at an end, to both sides.
    """
    tops = np.clip(slopes / precisions, lows, highs)
    steep, roots, totals = np.abs(slopes - precisions * tops), np.sqrt(0.5 * precisions), 0.0
    starts = 0.5 * steep / roots
    for widths in (tops - lows, highs - tops):
        falls = widths * (steep + 0.5 * precisions * widths)
        exact = erfcx(starts) - np.exp(-falls) * erfcx(starts + roots * widths)
        series = widths * (1.0 - 0.5 * steep * widths - precisions * widths**2 / 6.0)
        totals = totals + np.where(falls < _LEAST_FALL, series, math.sqrt(0.5 * math.pi) * exact / np.sqrt(precisions))
    widths = highs - lows
    means = np.divide(totals, widths, out=np.ones(widths.shape), where=widths != 0.0)
    return tops * (slopes - 0.5 * precisions * tops) + np.log(means)
