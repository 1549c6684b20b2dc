"""Families whose log densities are linear in sparse statistics, as of Bernoulli, multinomial and Poisson rows."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ..numerics.block_sums import BlockSums
from ..random._discrete_variates import MAX_MEAN, multinomial, poisson
from ..random._keys import fold_in, uniform
from ..utils._conditions import MOST_COUNTED, Array
from ..utils._njit import njit
from ..utils._parameters import offers
from ..utils._typing import available_if
from ._abilities import HasHighestLogDensities
from ._family import Family
from ._linear_kernels import add_labelled, add_linear_scores, add_shared
from ._linear_rows import LinearRows
from ._protocols import Arrays
from ._seeds import seed_clusters, seed_labels

PRIOR = Array("float64", "n_dimensions", above=0, high=MOST_COUNTED)
MOST_NATURAL = 1e15  # far beyond the natural parameters of any data
# Rows with more tokens than both limits are drawn by one binomial variate per feature, which is faster there.
_MIN_MULTINOMIAL = 1024  # tokens of a row
_TOKENS_PER_FEATURE = 4  # tokens of a row, over the number of features


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

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics."""
        return (self.n_components,), (self.n_statistics, self.n_components)

    def add_log_densities(
        self, rows: LinearRows, first: int, stop: int, parameters: LinearParameters, out: np.ndarray
    ) -> None:
        """Add the log densities of the rows `first` to `stop` given each component, without their ``log_base``."""
        add_linear_scores(first, stop, *rows[:3], parameters.offsets, parameters.naturals, out)

    def sum_labels(self, rows: LinearRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes and sums of the rows `first` to `stop`, given their labels; integer statistics have exact sums."""
        if rows.counts.dtype.kind == "f":
            return self._sum_in_blocks(add_labelled, rows, first, stop, first_block, labels)
        sizes = np.zeros(self.n_components, np.int64)
        totals = np.zeros((self.n_statistics, self.n_components), np.int64)
        add_labelled(first, stop, *rows[:3], labels, sizes, totals)
        return BlockSums.whole(self._arranged(sizes, totals))

    def sum_shares(self, rows: LinearRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Sizes and sums of the rows `first` to `stop`, given their membership probabilities."""
        return self._sum_in_blocks(add_shared, rows, first, stop, first_block, shares)

    def _sum_in_blocks(self, kernel, rows, first, stop, first_block, labels_or_shares) -> BlockSums:
        """The sums by blocks that `kernel` adds up, given the labels or the membership probabilities."""

        def add(start, stop, of_block, sizes, totals):
            kernel(start, stop, *rows[:3], of_block, sizes, totals)

        shapes = LinearFamily.shapes(self)
        sums = self._sum_each_block(first, stop, first_block, labels_or_shares, add, shapes)
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
