"""Emissions of counts whose cells may be missing, default priors of the means, and the posterior of these."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ..sparse.counts import sums_of_rows
from ..utils._sklearn import Interval
from ..utils._typing import MatrixLike
from ._base import BaseEmission, positive_prior, refuse_unset
from ._feature_family import FeatureFamily
from ._linear_rows import LinearRows, read_counts
from ._protocols import Arrays


class CountEmission(BaseEmission):
    """Base class of emissions of counts whose cells may be missing.

    A ``shape_prior`` of None makes the prior mean of a feature, ``shape_prior / rate_prior``, that of the data; half a
    count is added to the sum of each feature, because it may be zero.
    """

    allows_missing = True
    shape_prior: Any
    rate_prior: Any
    _parameter_constraints: ClassVar[dict] = {
        "shape_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "rate_prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
        """Validate X of counts and NaN; the base of log densities is minus the logs of the factorials."""
        counts = read_counts(estimator, X, reset=reset, missing=True, emission=self)
        # A missing cell's statistic is 1, whose factorial is 1.
        return LinearRows(*counts[:3], counts.n_features // 2, -sums_of_rows(counts, gammaln(counts.counts + 1.0)))

    def bind(self, rows: LinearRows, n_components: int) -> Any:
        """Make the family of rows."""
        return self.bind_weighted(rows, n_components, None)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> Any:
        """Make a family whose hyperparameters do not depend on rows."""
        refuse_unset(self, "shape_prior")
        return self.bind(LinearRows.none(n_features), n_components)

    if TYPE_CHECKING:  # each emission has its own

        def bind_weighted(self, rows: LinearRows, n_components: int, row_weights: np.ndarray | None) -> Any: ...

    def _prior_of_means(self, rows: LinearRows, row_weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Shapes and rates of the prior, (n_features,) each, given rows that may have weights."""
        m, shape = rows.n_features, self.shape_prior
        rate = positive_prior(self.rate_prior, m, "rate_prior")
        if shape is None:
            counts, n_missing = np.split(rows.overall(2 * m, row_weights), 2)
            n_rows = rows.n_rows if row_weights is None else row_weights.sum()
            shape = rate * (counts + 0.5) / np.maximum(n_rows - n_missing, 1.0)
        return positive_prior(shape, m, "shape_prior"), rate


class CountFamily(FeatureFamily):
    """Base class of families of counts, with hyperparameters `shape` and `rate`, (n_features,), of the means."""

    def __init__(self, shape: np.ndarray, rate: np.ndarray, n_components: int) -> None:
        self.shape = shape
        self.rate = rate
        self.n_components = n_components
        self.n_features = len(shape)

    def _prior(self) -> tuple[np.ndarray, ...]:
        return self.shape, self.rate

    def _posterior(self, statistics: Arrays, columns: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Shapes plus sums of counts, and rates plus numbers of observed cells, (K, n_columns) each."""
        shapes = statistics[1][:, : self.n_features][:, columns] + self.shape[columns]
        return shapes, self.observed(statistics)[:, columns] + self.rate[columns]
