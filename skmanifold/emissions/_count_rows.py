"""Rows of counts whose cells may be missing, default priors of their means, and the posterior of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ..sparse.counts import sums_of_rows
from ..utils._typing import MatrixLike
from ._base import BaseEmission, positive_prior
from ._feature_family import FeatureFamily
from ._linear_rows import LinearRows, read_counts
from ._protocols import Arrays


def read_count_rows(emission: BaseEmission, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
    """Validate X of counts and NaN; the base of log densities is minus the logs of the factorials.

    Parameters
    ----------
    emission : BaseEmission
        For errors.
    estimator : estimator instance
        Validation stores the number and names of columns in it.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        As the user gave it.
    reset : bool
        Whether to store the number and names of columns, or to compare them with those of `fit`.

    Returns
    -------
    rows : LinearRows
        Rows; column ``n_features + j`` of the statistics is 1 where cell j is missing.
    """
    counts = read_counts(estimator, X, reset=reset, missing=True, emission=emission)
    # A missing cell's statistic is 1, whose factorial is 1.
    return LinearRows(*counts[:3], counts.n_features // 2, -sums_of_rows(counts, gammaln(counts.counts + 1.0)))


def prior_of_means(
    emission: Any, rows: LinearRows, row_weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Hyperparameters ``shape_prior`` and ``rate_prior`` of an emission, whose ratio is the prior mean of the means.

    Parameters
    ----------
    emission : Poisson or NegativeBinomial
        A ``shape_prior`` of None gives the means of the features, with half a count more, because a sum may be zero.
    rows : LinearRows
        Rows of counts.
    row_weights : ndarray of shape (n_rows,), optional
        Positive weights.

    Returns
    -------
    shape, rate : ndarray of shape (n_features,)
        Positive.
    """
    m, shape = rows.n_features, emission.shape_prior
    rate = positive_prior(emission.rate_prior, m, "rate_prior")
    if shape is None:
        counts, n_missing = np.split(rows.overall(2 * m, row_weights), 2)
        n_rows = rows.n_rows if row_weights is None else row_weights.sum()
        shape = rate * (counts + 0.5) / np.maximum(n_rows - n_missing, 1.0)
    return positive_prior(shape, m, "shape_prior"), rate


class CountFamily(FeatureFamily):
    """Base class of families of counts, with hyperparameters `shape` and `rate`, (n_features,), of the means."""

    shape: np.ndarray
    rate: np.ndarray

    def _prior(self) -> tuple[np.ndarray, ...]:
        return self.shape, self.rate

    def _posterior(self, statistics: Arrays, columns: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Shapes plus sums of counts, and rates plus numbers of observed cells, (K, n_columns) each."""
        shapes = statistics[1][:, : self.n_features][:, columns] + self.shape[columns]
        return shapes, self.observed(statistics)[:, columns] + self.rate[columns]
