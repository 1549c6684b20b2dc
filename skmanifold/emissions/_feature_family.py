"""Base classes of binary rows and of counts, whose features are independent and whose cells may be missing."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ..random._keys import fold_in
from ..random._variates import fill_log_gammas
from ..sparse.counts import sums_of_rows
from ..utils._conditions import MOST_COUNTED, Array, refuse
from ..utils._njit import njit
from ..utils._sklearn import Interval
from ..utils._threads import Workers, split_range
from ..utils._typing import MatrixLike
from ._base import WeighableEmission, positive_prior, refuse_unset
from ._linear import LinearFamily
from ._linear_kernels import FeatureGroups, LinearPosterior, add_given_sums, log_factor_of_sums
from ._linear_rows import LinearRows, read_counts
from ._protocols import Arrays
from ._statistics import occupied, selected

_DRAWS_OF_TASK = 10_000  # some milliseconds
_TOLERANCE = 1e-6  # of stored parameters that must be consistent


class LinearCounts(NamedTuple):
    """Sums of the statistics of rows by label."""

    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    # Sums of the features, and numbers of missing cells
    sums: Annotated[np.ndarray, Array("int64", "capacity _", low=0)]


class FeatureFamily(LinearFamily):
    """Base class of families of binary rows and of counts, whose statistics are followed by those of missing cells.

    Statistics are a `LinearCounts`, or a tuple of the same arrays in float64. Components are `LinearParameters`, with
    `means` of each feature. The rows of a bound family have whole cells.
    """

    bounds_of_means = 0.0, np.inf
    fill_rows: ClassVar[Any]  # kernel that draws rows

    parameters_again: Callable[..., Any]  # all parameters, given the second and those after the first three
    _posterior: Callable[..., tuple[np.ndarray, np.ndarray]]  # two parameters of the posterior, (K, n_features) each

    @property
    def n_statistics(self) -> int:  # type: ignore[override]
        """Two for each feature."""
        return 2 * self.n_features

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_components, self.n_statistics)

    def _arranged(self, sizes: np.ndarray, sums: np.ndarray) -> Arrays:
        """Statistics with the other order of the axes of the sums."""
        return sizes, sums.T

    def observed(self, statistics: Arrays) -> np.ndarray:
        """Numbers of observed cells, (K, n_features)."""
        return super().observed(self._arranged(*statistics)).T

    def n_parameters(self) -> int:
        """Number of free parameters: one for each feature of each component."""
        return self.n_components * self.n_features

    def check_parameters(self, parameters: Any) -> None:
        """Raise a ValueError if these parameters, read from a file, cannot be of this family."""
        super().check_parameters(parameters)
        with np.errstate(over="ignore", invalid="ignore"):
            again = self.parameters_again(parameters.naturals, *parameters[3:])
            pairs = zip(parameters, again, strict=True)
            if not all(np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE) for pair in pairs):
                refuse("parameters", "contradict each other")

    # Posterior

    def _by_feature(self, statistics: Arrays) -> tuple[np.ndarray, ...]:
        """Parameters of the posterior distributions, (n_features, K), with the components contiguous in memory."""
        return tuple(np.ascontiguousarray(array.T) for array in self._posterior(statistics))

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components."""
        return self.draw(selected(statistics, labels), key, workers)

    def _draw_log_gammas(self, *shapes: np.ndarray, key: np.uint64, workers: Workers) -> np.ndarray:
        """Logs of gamma variates with these shapes, (n_features, K) each; a draw depends on the key and its place."""
        of_all = np.concatenate(shapes)
        logs = np.empty(of_all.shape)
        tasks = split_range(len(of_all), 1 + _DRAWS_OF_TASK // of_all.shape[1])
        workers.run(_fill_log_gammas, [(first, stop, key, of_all, logs) for first, stop in tasks])
        return logs.reshape(-1, *shapes[0].shape)

    def sample(self, parameters: Any, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components, without missing cells."""
        out = np.empty((len(labels), self.n_features), np.int64)
        type(self).fill_rows(key, labels, np.ascontiguousarray(parameters.means.T), *parameters[3:], out)
        return out

    # Bound to rows

    def _no_rows(self) -> LinearRows:
        return LinearRows.none(self.n_features)

    def no_statistics(self, capacity: int) -> LinearCounts:
        """Sums over no rows."""
        return LinearCounts(np.zeros(capacity, np.int64), np.zeros((capacity, self.n_statistics), np.int64))

    def new_posterior(self, capacity: int, statistics: LinearCounts, key: np.uint64) -> LinearPosterior:
        """Space for the posteriors of labels, and for the columns of two sides."""
        n, sizes = self.n_statistics, self.data.groups.sizes
        present = np.zeros(n, bool), np.empty(n, np.int64), np.zeros(1, np.int64), sizes.copy()
        return LinearPosterior(np.full(capacity, np.nan), np.zeros((2, len(sizes)), np.int64), *present)

    def log_marginal(self, statistics: LinearCounts) -> float:
        """Log density of all rows given their labels: that of one cluster, and Bayes factors, which skip zeros."""
        sizes, sums = selected(statistics, occupied(statistics))
        unions = np.cumsum(sizes), np.cumsum(sums, axis=0)
        pairs = zip(*(union[:-1] for union in unions), sizes[1:], sums[1:], strict=True)
        log_factors = [log_factor_of_sums(self.data, *pair) for pair in pairs]
        whole = LinearCounts(*(union[-1:] for union in unions))
        return super().log_marginal(whole) + sum(log_factors)

    def _add_given_sums(self, tables: tuple[np.ndarray, ...], out: np.ndarray, workers: Workers) -> None:
        """Add log predictive densities of the rows, given the tables that `add_given_sums` reads."""
        self._add_by_ranges(lambda a, b, scores: add_given_sums(a, b, self.data, *tables, scores), out, workers)


class CountEmission(WeighableEmission):
    """Base class of emissions of counts whose cells may be missing.

    With a ``shape_prior`` of None the prior mean ``shape_prior / rate_prior`` of a feature is that of the data, with
    half a count added to its sum, which may be zero.
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

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> Any:
        """Make a family whose hyperparameters do not depend on rows."""
        refuse_unset(self, "shape_prior")
        return self.bind(LinearRows.none(n_features), n_components)

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

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Shapes plus sums of counts, and rates plus numbers of observed cells, (K, n_features) each."""
        return statistics[1][:, : self.n_features] + self.shape, self.observed(statistics) + self.rate


@njit(cache=True, nogil=True)
def _fill_log_gammas(first, stop, key, shapes, out):
    for i in range(first, stop):
        fill_log_gammas(fold_in(key, i), shapes[i], out[i])


def group_features(rows: LinearRows, *priors: np.ndarray) -> FeatureGroups:
    """Groups of features with equal priors, each (n_features,), and each feature with missing cells by itself."""
    n = rows.n_features
    is_missing = np.zeros(2 * n, bool)
    is_missing[rows.indices] = True
    own = np.where(is_missing[n:], np.arange(1.0, n + 1.0), 0.0)
    _, first, of_feature, sizes = np.unique(
        np.stack([own, *priors]), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return FeatureGroups(of_feature.reshape(-1).astype(np.int64), first.astype(np.int64), sizes.astype(np.int64))
