"""Columns of numbers that are linear functions of others, up to rounding."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from sklearn.base import BaseEstimator

from ...numerics.block_sums import BLOCK_ROWS
from ...utils._threads import split_range
from ...utils._validation import column_name

_UNEXPLAINED = 1e-10  # share of the variance of a column that is rounding, if others determine the column
_MOST_COLUMNS = 4096  # that are compared: the products of more need much time and memory


def warn_of_dependent_columns(estimator: BaseEstimator, X: np.ndarray) -> None:
    """Warn about columns that are linear functions of others: a component may become arbitrarily thin across them."""
    relations = list(dependent_columns(X))
    if not relations:
        return
    consequence = "which makes densities too high and distorts the clusters"
    if len(relations) == 1:
        columns, cure = np.sort(relations[0]), f"are linearly dependent, {consequence}: remove one of them"
    else:
        columns = np.sort([relation[0] for relation in relations])
        cure = f"are linear functions of other columns, {consequence}: remove them"
    names = [column_name(estimator, int(column)) for column in columns]
    *first, last = names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} others"]
    warnings.warn(f"Columns {', '.join(first)} and {last} of X {cure}.", UserWarning, stacklevel=7)


def dependent_columns(X: np.ndarray) -> Iterator[np.ndarray]:
    """Yield indices of columns that are linearly dependent up to rounding; the first is a function of the others.

    They are found in a sample of complete rows or, if few, among pairs of columns, and checked in all rows. Constant
    columns, those with two values (indicators have no density in any case), and what would hold for any numbers do not
    count.
    """
    d, rows = X.shape[1], X
    if d > _MOST_COLUMNS:
        return
    if np.isnan(X.min()):
        rows = X[~np.isnan(X).any(axis=1)]
    find = _dependent_sets
    if len(rows) < d + 2:
        rows, find = X, _dependent_pairs
    sample = rows[:: max(1, len(rows) // max(1000, 3 * d))]
    n_seen = np.maximum(1, np.count_nonzero(~np.isnan(sample), axis=0))
    with np.errstate(over="ignore", invalid="ignore"):
        location = np.nansum(sample, axis=0) / n_seen
        scale = np.sqrt(np.nansum((sample - location) ** 2, axis=0) / n_seen)
        varying = np.flatnonzero((scale > 1e-12 * np.abs(location)) & np.isfinite(scale))
    sample, location, scale = sample[:, varying], location[varying], scale[varying]
    for column, weights in find((sample - location) / scale):
        others = np.flatnonzero(np.abs(weights) > 1e-6)
        involved = np.append(column, others)
        if 2 <= len(involved) < len(X) - 1:
            coefficients = np.append(1.0, -weights[others]) / scale[involved]
            if _is_relation(X, varying[involved], coefficients, sample[:, involved]):
                yield varying[involved]


def _is_relation(X: np.ndarray, columns: np.ndarray, coefficients: np.ndarray, sample: np.ndarray) -> bool:
    """Whether this combination, with the first column scaled to variance 1, is constant in enough rows that vary."""
    if all(len(np.unique(cells[~np.isnan(cells)])) <= 2 for cells in sample.T):
        return False
    usual = np.nanmedian(sample, axis=0)
    blocks = []
    for start, stop in split_range(len(X), BLOCK_ROWS):
        terms = (X[start:stop, columns] - usual) * coefficients
        blocks.append(np.array([terms.sum(axis=1), np.abs(terms).sum(axis=1)]))
    combined, sizes = np.concatenate(blocks, axis=1)
    seen = ~np.isnan(combined)
    combined, sizes = combined[seen], sizes[seen]
    if combined.var() > _UNEXPLAINED or np.count_nonzero(sizes) <= len(columns) + 1:
        return False
    gaps = np.abs(combined - np.median(combined))[sizes > 0.0]  # large in usual rows if codes such as -999 dominate
    return bool(np.median(gaps) <= math.sqrt(_UNEXPLAINED) * np.median(sizes[sizes > 0.0]))


def _dependent_sets(scaled: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Columns of complete rows that others determine, each with its coefficients given all columns."""
    products = scaled.T @ scaled / len(scaled)
    factor, pivots, rank, _ = dpstrf(products, tol=_UNEXPLAINED)
    pivots, weights = pivots - 1, np.zeros(len(products))
    for column, projected in zip(pivots[rank:], factor[:rank, rank:].T, strict=True):
        weights[pivots[:rank]] = solve_triangular(factor[:rank, :rank], projected)
        yield column, weights


def _dependent_pairs(scaled: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Columns of incomplete rows that one column before them determines, with the coefficient at its place."""
    seen = (~np.isnan(scaled)).astype(np.float64)
    values = np.nan_to_num(scaled)
    with np.errstate(divide="ignore", invalid="ignore"):  # of pairs that no row has
        n_common = seen.T @ seen
        means = values.T @ seen / n_common  # of the first column of a pair, over the rows that have both
        variances = (values**2).T @ seen / n_common - means**2
        covariances = values.T @ values / n_common - means * means.T
        slopes = covariances / variances.T
        explained = np.where(np.minimum(variances, variances.T) > 1e-12, slopes * covariances / variances, 0.0)
    for column in range(1, len(explained)):
        other = int(np.argmax(explained[column, :column]))
        if explained[column, other] >= 1.0 - _UNEXPLAINED:
            weights = np.zeros(len(explained))
            weights[other] = slopes[column, other]
            yield column, weights
