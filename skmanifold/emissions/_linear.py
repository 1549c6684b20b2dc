"""Families whose log densities are linear in sparse statistics, and those of features whose cells may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ..numerics.block_sums import BlockSums
from ..random._discrete_variates import MAX_MEAN, multinomial, poisson
from ..random._keys import fold_in, fold_in_each, uniform
from ..random._variates import fill_log_gammas
from ..sparse.counts import sums_of_rows
from ..utils._conditions import MOST_COUNTED, Array, refuse
from ..utils._njit import njit
from ..utils._parameters import offers
from ..utils._threads import Workers, split_range
from ..utils._typing import MatrixLike, available_if
from . import _linear_kernels as linear_kernels
from ._abilities import HasHighestLogDensities
from ._base import POSITIVE_PRIOR, WeighableEmission, positive_prior, refuse_unset
from ._family import Family
from ._linear_rows import LinearRows, read_counts
from ._negative_binomial_kernels import log_rising_of_columns
from ._protocols import Arrays
from ._seeds import seed_clusters, seed_labels
from ._statistics import occupied, selected

PRIOR = Array("float64", "n_dimensions", above=0, high=MOST_COUNTED)
MOST_NATURAL = 1e15  # far beyond the natural parameters of any data
# Rows with more tokens than both limits are drawn by one binomial variate per feature, which is faster there.
_MIN_MULTINOMIAL = 1024  # tokens of a row
_TOKENS_PER_FEATURE = 4  # tokens of a row, over the number of features
_DRAWS_OF_TASK = 10_000  # some milliseconds
_TO_UNIT = 2.0**-64
_TOLERANCE = 1e-6  # of stored parameters that must be consistent


class LinearParameters(NamedTuple):
    """Parameters of K components: a row's log density is the offset plus its statistics times the natural parameters.

    Attributes
    ----------
    offsets : ndarray of shape (K,)
        Log densities of a row whose statistics are all zero.
    naturals : ndarray of shape (n_statistics, K)
        Natural parameters.
    means : ndarray of shape (n_features, K)
        Expected value of each feature.
    """

    offsets: Annotated[np.ndarray, Array("float64", "n_components")]
    naturals: Annotated[np.ndarray, Array("float64", "n_statistics n_components", low=-MOST_NATURAL, high=MOST_NATURAL)]
    means: Annotated[np.ndarray, Array("float64", "n_dimensions n_components", low=0, high=MOST_NATURAL)]


class LinearFamily(Family):
    """Base class of families with ``n_statistics`` statistics per row, which subclasses define."""

    n_statistics: int
    rows_per_statistic: ClassVar[int]  # of a minibatch, times the entries of a row plus 12
    hyperparameters = np.empty(0)  # that chains draw

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_statistics, self.n_components)

    def add_log_densities(
        self, rows: LinearRows, first: int, stop: int, parameters: LinearParameters, out: np.ndarray
    ) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``."""
        linear_kernels.add_linear_scores(first, stop, *rows[:3], parameters.offsets, parameters.naturals, out)

    def sum_labels(self, rows: LinearRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes and sums of the rows `first` to `stop`, given their labels; integer statistics have exact sums."""
        if rows.counts.dtype.kind == "f":
            return self._sum_in_blocks(linear_kernels.add_labelled, rows, first, stop, first_block, labels)
        sizes = np.zeros(self.n_components, np.int64)
        totals = np.zeros((self.n_statistics, self.n_components), np.int64)
        linear_kernels.add_labelled(first, stop, *rows[:3], labels, sizes, totals)
        return BlockSums.whole(self._arranged(sizes, totals))

    def sum_shares(self, rows: LinearRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Sizes and sums of the rows `first` to `stop`, given their membership probabilities."""
        return self._sum_in_blocks(linear_kernels.add_shared, rows, first, stop, first_block, shares)

    def _sum_in_blocks(self, kernel, rows, first, stop, first_block, labels_or_shares) -> BlockSums:
        """The sums by blocks that `kernel` adds up, given the labels or the membership probabilities."""
        shapes = LinearFamily.shapes(self)
        of_rows = first, stop, first_block, labels_or_shares
        sums = self._sum_each_block(*of_rows, lambda a, b, *own: kernel(a, b, *rows[:3], *own), shapes)
        return BlockSums(tuple((level, index, self._arranged(*arrays)) for level, index, arrays in sums.nodes))

    def _arranged(self, sizes: np.ndarray, totals: np.ndarray) -> Arrays:
        """Statistics as the methods take them, given sums by statistic and component, or the inverse."""
        return sizes, totals

    def log_likelihood(self, statistics: Arrays, parameters: LinearParameters) -> float:
        """Log density of rows with these statistics given their components, without their ``log_base``."""
        sizes, totals = self._arranged(*statistics)
        return float(sizes @ parameters.offsets + (totals * parameters.naturals).sum())

    @available_if(lambda family: offers(family, HasHighestLogDensities))
    def seed_weighted_labels(self, rows: LinearRows, key: np.uint64, row_weights: np.ndarray | None) -> np.ndarray:
        """Initial labels from seeds among the rows; available if the family has `highest_log_densities`."""
        return seed_labels(self, rows, key, row_weights)

    def spread_labels(self, n_clusters: int, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds among the rows."""
        return seed_clusters(self, self.rows, n_clusters, key)

    def rows_of_batch(self) -> int:
        """So many rows that drawing their labels takes about four times as long as drawing the components."""
        entries_of_row = len(self.rows.indices) / self.n_rows
        return int(self.rows_per_statistic * self.n_statistics / (entries_of_row + 12))

    def attributes(self, parameters: LinearParameters) -> dict[str, Any]:
        """The fitted attribute ``components_``, the expected rows."""
        return {"components_": np.ascontiguousarray(parameters.means.T)}

    def observed(self, statistics: Arrays) -> np.ndarray:
        """Numbers of observed cells by feature and component, for families with missing cells.

        Parameters
        ----------
        statistics : tuple of ndarray

        Returns
        -------
        n_observed : ndarray of shape (n_features, K)
        """
        sizes, totals = statistics
        return np.maximum(sizes - totals[self.n_features :], 0)


class ColumnwiseFamily(LinearFamily):
    """Base class of families whose columns share no hyperparameters; `prior` may have those that are learned."""

    _without_others: Callable[..., Self]  # a copy with the hyperparameters of some columns

    def separated(self) -> Self:
        """The same family, since columns share no hyperparameters."""
        return self

    def with_priors_of(self, columns: list[Any]) -> Self:
        """These rows with the prior of each column by itself; the same family if it learns none."""
        if self.prior is None or not columns:
            return self
        return self.with_prior(np.concatenate([each.prior for each in columns]))

    def of_columns(self, columns: np.ndarray) -> Self:
        """The family, and the rows to which it is bound, of some columns."""
        chosen = self._without_others(columns)
        return chosen._bound(self.rows.of_columns(columns)) if hasattr(self, "data") else chosen


class LinearCounts(NamedTuple):
    """Sums of the statistics of rows by label."""

    sizes: Annotated[np.ndarray, Array("int64", "capacity", low=0, high=MOST_COUNTED)]  # numbers of rows
    # Sums of the features, and numbers of missing cells
    sums: Annotated[np.ndarray, Array("int64", "capacity _", low=0)]
    hyperparameters: Annotated[np.ndarray, Array("float64", "_", above=0)]  # that chains draw; else empty

    @property
    def label_axes(self) -> tuple[int | None, ...]:
        """Axis of the labels in each array."""
        return 0, 0, None


class FeatureFamily(ColumnwiseFamily):
    """Base class of families of binary rows and of counts, whose statistics are followed by those of missing cells.

    Statistics are a `LinearCounts`, or a tuple of the same arrays in float64. Components are `LinearParameters`, with
    `means` of each feature. The rows of a bound family have whole cells.
    """

    bounds_of_means = 0.0, np.inf
    fill_rows: ClassVar[Any]  # kernel that draws rows
    of_each_column: ClassVar[tuple[str, ...]]  # hyperparameters

    parameters_again: Callable[..., Any]  # all parameters, given the second and those after the first three
    _posterior: Callable[..., tuple[np.ndarray, np.ndarray]]  # two parameters of the posterior, (K, n_features) each
    # Log densities of the observed cells of each label and column, without their base, (K, n_features)
    _log_marginals_of_cells: Callable[..., np.ndarray]

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
        return super().observed(self._arranged(*statistics[:2])).T

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
        return logs.reshape(len(shapes), *shapes[0].shape)

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
        sums = np.zeros((capacity, self.n_statistics), np.int64)
        return LinearCounts(np.zeros(capacity, np.int64), sums, self.hyperparameters)

    def new_posterior(self, capacity: int, statistics: LinearCounts, key: np.uint64) -> linear_kernels.LinearPosterior:
        """Space for the posteriors of labels, and for the columns of two sides."""
        n, sizes = self.n_statistics, self.data.groups.sizes
        present = np.zeros(n, bool), np.empty(n, np.int64), np.zeros(1, np.int64), sizes.copy()
        return linear_kernels.LinearPosterior(np.full(capacity, np.nan), np.zeros((2, len(sizes)), np.int64), *present)

    def log_marginal(self, statistics: LinearCounts) -> float:
        """Log density of all rows given their labels: that of one cluster, and Bayes factors, which skip zeros."""
        sizes, sums = selected(statistics, occupied(statistics))[:2]
        unions = np.cumsum(sizes), np.cumsum(sums, axis=0)
        pairs = zip(*(union[:-1] for union in unions), sizes[1:], sums[1:], strict=True)
        log_factors = [linear_kernels.log_factor_of_sums(self.data, *pair) for pair in pairs]
        whole = statistics._replace(sizes=unions[0][-1:], sums=unions[1][-1:])
        return super().log_marginal(whole) + sum(log_factors)

    def log_marginals(self, statistics: LinearCounts) -> np.ndarray:
        """Log density of the rows of each label."""
        return self._log_marginals_of_cells(statistics).sum(axis=1)

    def _without_others(self, columns: np.ndarray) -> Self:
        """A copy with the hyperparameters of some columns."""
        of_each = {name: getattr(self, name)[columns] for name in self.of_each_column}
        return self._replaced(n_features=len(columns), **of_each)

    def log_marginals_of_columns(self, statistics: LinearCounts) -> np.ndarray:
        """Log densities of the observed cells of each column, given the labels of the rows."""
        of_columns = self._log_marginals_of_cells(selected(statistics, occupied(statistics))).sum(axis=0)
        if self.rows.log_base is None:
            return of_columns
        return of_columns - log_rising_of_columns(self.rows.indices, self.rows.counts, np.ones(self.n_features))

    def _add_given_sums(self, tables: tuple[np.ndarray, ...], out: np.ndarray, workers: Workers) -> None:
        """Add log predictive densities of the rows, given the tables that `add_given_sums` reads."""
        add = linear_kernels.add_given_sums
        self._add_by_ranges(lambda a, b, scores: add(a, b, self.data, *tables, scores), out, workers)


class CountEmission(WeighableEmission):
    """Base class of emissions of counts whose cells may be missing.

    With a ``shape_prior`` of None the prior mean ``shape_prior / rate_prior`` of a feature is that of the data, with
    half a count added to its sum, which may be zero.
    """

    allows_missing = True
    shape_prior: Any
    rate_prior: Any
    _parameter_constraints: ClassVar[dict] = {"shape_prior": [None, *POSITIVE_PRIOR], "rate_prior": POSITIVE_PRIOR}

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

    of_each_column: ClassVar[tuple[str, ...]] = ("shape", "rate")

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


def drawn_places(log_weights: np.ndarray, key: np.uint64) -> np.ndarray:
    """An index for each row, drawn with probabilities in proportion to weights; it depends on the key and the row."""
    levels = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    uniforms = fold_in_each(key, np.arange(len(log_weights))) * _TO_UNIT * levels[:, -1]
    return (levels[:, :-1] <= uniforms[:, np.newaxis]).sum(axis=1)


def group_features(rows: LinearRows, *priors: np.ndarray) -> linear_kernels.FeatureGroups:
    """Groups of features with equal priors, each (n_features,), and each feature with missing cells by itself."""
    n = rows.n_features
    is_missing = np.zeros(2 * n, bool)
    is_missing[rows.indices] = True
    own = np.where(is_missing[n:], np.arange(1.0, n + 1.0), 0.0)
    if n == 0:  # which `unique` does not take
        return linear_kernels.FeatureGroups(*np.zeros((3, 0), np.int64))
    _, first, of_feature, sizes = np.unique(
        np.stack([own, *priors]), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    groups = (each.reshape(-1).astype(np.int64) for each in (of_feature, first, sizes))
    return linear_kernels.FeatureGroups(*groups)


@njit(cache=True, nogil=True)
def fill_events(key, labels, means, out):
    """Draw rows of 0 and 1; `means`, (K, m), are the probabilities of a one in each component."""
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            out[i, j] = 1 if uniform(of_row, j) < means[labels[i], j] else 0


@njit(cache=True, nogil=True)
def fill_poisson(key, labels, means, out):
    """Draw rows of Poisson counts; `means`, (K, m), are those of each component."""
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            out[i, j] = np.int64(poisson(fold_in(of_row, j), min(means[labels[i], j], MAX_MEAN)))


@njit(cache=True, nogil=True)
def fill_multinomial(key, labels, probabilities, cumulated, lengths, out):
    """Draw rows of multinomial counts; `probabilities`, (K, m), and their running sums are those of each component.

    A row of many tokens is drawn feature by feature, a shorter one token by token.
    """
    last = probabilities.shape[1] - 1
    most_single = max(_MIN_MULTINOMIAL, _TOKENS_PER_FEATURE * (last + 1))
    tails = np.empty(last + 1)
    for i in range(len(labels)):
        of_row, levels = fold_in(key, i), cumulated[labels[i]]
        if lengths[i] > most_single:
            multinomial(of_row, lengths[i], probabilities[labels[i]], tails, out[i])
            continue
        for n in range(lengths[i]):
            at = uniform(of_row, n) * levels[last]
            out[i, min(np.searchsorted(levels, at, side="right"), last)] += 1
