"""Means and covariances of the observed cells of rows, for default priors."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.block_sums import BLOCK_ROWS
from ...utils._threads import split_range


def location_and_covariance(X: np.ndarray, weights: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means of columns, and covariances or variances; from the observed cells if some are missing.

    The variance of a column is that of its observed cells. A covariance is that of rows whose missing cells have the
    mean of the column, scaled to these variances: such a matrix is positive semi-definite, and estimates of pairs of
    columns from different rows might not be.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows; NaN where a cell is missing.
    weights : ndarray of shape (n,)
        Not negative.
    full : bool
        Whether covariances are needed.

    Returns
    -------
    location : ndarray of shape (d,)
        Means.
    covariance : ndarray of shape (d, d) or (d,)
        Covariances, or variances. Those of columns with less than two cells are zero.

    Raises
    ------
    ValueError
        If the weights have no finite sum, or values are too large.
    """
    total = weights.sum()
    if total == 0.0 or not math.isfinite(total):
        raise ValueError("X has no tokens.")
    if np.isnan(X.min()):
        return _of_observed_cells(X, weights, full)
    mean = np.einsum("i,ij->j", weights, X) / total
    return mean, _scatter(X, mean, weights, full) / _degrees(total)


def _scatter(X: np.ndarray, mean: np.ndarray, weights: np.ndarray, full: bool) -> np.ndarray:
    """Weighted sum of products, or squares, about the mean; missing cells are at the mean."""
    scatter = np.zeros((X.shape[1], X.shape[1]) if full else X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        for start, stop in split_range(len(X), BLOCK_ROWS):
            gaps = X[start:stop] - mean
            gaps[np.isnan(gaps)] = 0.0
            weighted = weights[start:stop, None] * gaps
            scatter += weighted.T @ gaps if full else np.einsum("ij,ij->j", weighted, gaps)
    if not np.isfinite(scatter).all():
        raise ValueError("X has values whose squares are too large for float64: scale it.")
    return (scatter + scatter.T) / 2.0 if full else scatter


def _degrees(totals: float | np.ndarray) -> np.ndarray:
    """Divisors of squares: the totals of weights less one, but not less than half, as weights may be fractions."""
    return np.where(np.greater(totals, 0.0), np.maximum(np.subtract(totals, 1.0), np.divide(totals, 2.0)), np.inf)


def _of_observed_cells(X: np.ndarray, weights: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray]:
    seen = ~np.isnan(X)
    totals = np.einsum("i,ij->j", weights, seen)
    mean = np.einsum("i,ij->j", weights, np.where(seen, X, 0.0)) / totals
    scatter = _scatter(X, mean, weights, full)
    degrees = _degrees(totals)
    return mean, scatter / (np.sqrt(np.outer(degrees, degrees)) if full else degrees)
