"""Rounded columns of Gaussian families: cells of numbers, draws within them, and parameters of rounded numbers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Annotated, Any

import numpy as np

from ...random._keys import fold_in_each
from ...utils._conditions import Array
from ...utils._declared import Lacking, Saved
from ...utils._threads import Workers
from .._dense_rows import DenseRows
from .._rounding import within_cells
from .rounded_kernels import draw_in_cells, log_means
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
    _bounds: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # of cells of rows, and first numbers within them

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
        first = within_cells(X, self.resolution)
        return *self._ends_of_cells(X), first if self.transform is None else self.transform.forward(first)

    def _ends_of_cells(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds, transformed, of the cells of rows, which are not."""
        assert self.resolution is not None
        half = 0.5 * self.resolution
        ends = X - half, X + half
        return ends if self.transform is None else (self.transform.forward(ends[0]), self.transform.forward(ends[1]))

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
        drawn = (X if family.transform is None else family.transform.forward(X)) - zeros
        values[rows] = np.where(is_rounded, drawn / units, values[rows])
        return statistics._replace(values=values)

    def exact(self, statistics: Any) -> Any:
        """The rows with their numbers within cells as exact numbers."""
        exact = self.unrounded or self
        if exact is not self and self.transform is not None:
            exact.log_base = self.transform.log_derivatives(self._inverse(self._values(statistics)))
        return exact

    def of_rounded(self, parameters: Any) -> Any:
        """Parameters of the distributions of rounded numbers, given those of the numbers within their cells."""
        covariances = self._rounded(parameters.covariances)
        return self._parameters(parameters.means - self.origin, covariances)

    def _rounded(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances of rounded numbers, given those of the numbers within their cells."""
        variances = self._variances_of_cells()
        if variances is None:
            return covariances
        return covariances + (np.diag(variances) if self.has_matrices else variances)
