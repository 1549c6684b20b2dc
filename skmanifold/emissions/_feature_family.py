"""Base classes of binary rows and of counts, whose features are independent and whose cells may be missing."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ..sparse.counts import sums_of_rows
from ..utils._conditions import MOST_COUNTED, Array
from ..utils._declared import holds
from ..utils._sklearn import Interval
from ..utils._threads import Workers, split_by_task
from ..utils._typing import MatrixLike
from ._base import BaseEmission, positive_prior, refuse_unset
from ._linear import LinearFamily
from ._linear_kernels import FeatureGroups, LinearPosterior
from ._linear_rows import LinearRows, read_counts
from ._protocols import Arrays

_DRAWS_OF_TASK = 10_000  # some milliseconds


@holds(
    sizes=Array("int64", ("capacity",), low=0, high=MOST_COUNTED),
    sums=Array("int64", ("capacity", None), low=0),
)
class LinearCounts(NamedTuple):
    """Sums of the statistics of rows by label."""

    sizes: np.ndarray  # (capacity,) int64: numbers of rows
    sums: np.ndarray  # (capacity, n_statistics) int64: sums of the features, and numbers of missing cells


class FeatureFamily(LinearFamily):
    """Base class of families of binary rows and of counts, whose statistics are followed by those of missing cells.

    Statistics are a `LinearCounts`, or a tuple of the same arrays with float64 numbers. The parameters of a drawn or
    estimated component are a `LinearParameters`, with `means` of each feature. The rows of a bound family have whole
    cells.
    """

    bounds_of_means = 0.0, np.inf
    draw_features: ClassVar[Any]  # kernel that draws the natural parameters of some features
    fill_rows: ClassVar[Any]  # kernel that draws rows
    log_marginal_of_label: ClassVar[Any]  # kernel

    if TYPE_CHECKING:

        def _prior(self) -> tuple[np.ndarray, ...]:
            """Hyperparameters, (n_features,) each, that `draw_features` reads."""
            ...

        def _posterior(self, statistics: Arrays, columns: Any = slice(None)) -> tuple[np.ndarray, np.ndarray]:
            """Parameters of the posterior distributions of some features, (K, n_columns) each."""
            ...

        def _drawn(self, naturals: np.ndarray) -> Any:
            """The parameters with these natural parameters, which `draw_features` has drawn."""
            ...

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

    # Posterior

    def _by_feature(self, statistics: Arrays) -> tuple[np.ndarray, ...]:
        """Parameters of the posterior distributions, (n_features, K), with the components contiguous in memory."""
        return tuple(np.ascontiguousarray(array.T) for array in self._posterior(statistics))

    def draw(self, statistics: Arrays, key: np.uint64) -> Any:
        """Draw the parameters from their posterior given statistics."""
        return self.draw_components(statistics, np.arange(len(statistics[0])), key, Workers(1))

    def draw_components(self, statistics: Any, labels: np.ndarray, key: np.uint64, workers: Workers) -> Any:
        """Draw the parameters of the components."""
        return self._drawn(self._draw_naturals(statistics, labels, self._prior(), key, workers))

    def _draw_naturals(
        self, statistics: Arrays, labels: np.ndarray, prior: tuple, key: np.uint64, workers: Workers
    ) -> np.ndarray:
        """Natural parameters, (n_statistics, K), drawn from their posterior given the statistics of labels."""
        naturals = np.empty((self.n_statistics, len(labels)))
        arguments = *prior, *map(np.ascontiguousarray, statistics), labels, key, naturals
        tasks = split_by_task(np.arange(self.n_features) * len(labels) // _DRAWS_OF_TASK)
        workers.run(type(self).draw_features, [(first, stop, *arguments) for first, stop in tasks])
        return naturals

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

    def log_marginals(self, statistics: LinearCounts) -> np.ndarray:
        """Log density of the rows of each label."""
        kernel = type(self).log_marginal_of_label
        return np.array([kernel(self.data, *of_label) for of_label in zip(*statistics, strict=True)])

    def _add_given_tables(self, kernel: Any, tables: tuple, out: np.ndarray, workers: Workers) -> None:
        """Add log densities of the rows that `kernel` computes from `tables`."""
        self._add_by_ranges(lambda a, b, scores: kernel(a, b, *self.rows[:3], *tables, scores), out, workers)


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


def group_features(rows: LinearRows, *priors: np.ndarray) -> FeatureGroups:
    """The groups of features with equal priors, and each feature with missing cells by itself.

    Parameters
    ----------
    rows : LinearRows
    *priors : (n_features,)
        Parameters of the prior.
    """
    n = rows.n_features
    is_missing = np.zeros(2 * n, bool)
    is_missing[rows.indices] = True
    own = np.where(is_missing[n:], np.arange(1.0, n + 1.0), 0.0)
    _, first, of_feature, sizes = np.unique(
        np.stack([own, *priors]), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    return FeatureGroups(of_feature.reshape(-1).astype(np.int64), first.astype(np.int64), sizes.astype(np.int64))
