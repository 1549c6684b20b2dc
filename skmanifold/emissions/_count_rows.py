"""Rows of counts whose cells may be missing, and default priors of their means."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ..sparse.counts import sums_of_rows
from ..utils._typing import MatrixLike
from ._base import BaseEmission, positive_prior
from ._linear_rows import LinearRows, read_counts


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


def prior_of_means(emission: Any, sums: np.ndarray, n_rows: float) -> tuple[np.ndarray, np.ndarray]:
    """Hyperparameters ``shape_prior`` and ``rate_prior`` of an emission, whose ratio is the prior mean of the means.

    Parameters
    ----------
    emission : Poisson or NegativeBinomial
        A ``shape_prior`` of None gives the means of the features, with half a count more, because a sum may be zero.
    sums : ndarray of shape (2 * n_features,)
        Sums of counts, followed by the numbers of missing cells.
    n_rows : float
        Number of rows, or the sum of their weights.

    Returns
    -------
    shape, rate : ndarray of shape (n_features,)
        Positive.
    """
    n_features, shape = len(sums) // 2, emission.shape_prior
    rate = positive_prior(emission.rate_prior, n_features, "rate_prior")
    if shape is None:
        shape = rate * (sums[:n_features] + 0.5) / np.maximum(n_rows - sums[n_features:], 1.0)
    return positive_prior(shape, n_features, "shape_prior"), rate
