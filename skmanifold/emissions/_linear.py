"""Families whose log densities are linear in sparse statistics: what Bernoulli, multinomial and Poisson rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from ..numerics.block_sums import BLOCK_ROWS, BlockSums
from ..random._keys import fold_in, uniform
from ..random._variates import multinomial, poisson
from ..utils._conditions import Array, Condition, Counted, Sizes, Whole
from ..utils._declared import holds
from ..utils._njit import njit
from ..utils._protocol_check import offers
from ..utils._threads import split_range
from ..utils._typing import available_if
from ._abilities import HasHighestLogDensities
from ._base import Family, check_shapes
from ._protocols import Arrays
from ._rows import LinearRows
from ._seeds import seed_labels

_CLOSE = 1e-6
PRIOR = Array("float64", ("n_dimensions",), above=0)
_MOST_NATURAL = 1e15  # far beyond what any rows say
_MIN_MULTINOMIAL = 1024  # tokens of a row
_TOKENS_PER_FEATURE = 4  # from here on a binomial variate for each feature takes less time than the tokens


@holds(
    offsets=Array("float64", ("n_components",)),
    naturals=Array("float64", (None, "n_components"), low=-_MOST_NATURAL, high=_MOST_NATURAL),
    means=Array("float64", (None, "n_components"), low=0, high=_MOST_NATURAL),
)
class LinearParameters(NamedTuple):
    """Parameters of K components: a row's log density is the offset and its statistics times the naturals."""

    offsets: np.ndarray  # (K,)
    naturals: np.ndarray  # (n_statistics, K)
    means: np.ndarray  # (n_features, K)


class LinearFamily(Family):
    """A family with ``n_statistics`` statistics a row; see the classes derived from it."""

    n_statistics: int

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of sizes and sums of statistics.

        Returns
        -------
        shapes : tuple of tuple of int
            One for each array.
        """
        return (self.n_components,), (self.n_statistics, self.n_components)

    def parameter_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of offsets, naturals and means.

        Returns
        -------
        shapes : tuple of tuple of int
            One for each array.
        """
        return (self.n_components,), (self.n_statistics, self.n_components), (self.n_features, self.n_components)

    def check_parameters(self, parameters: LinearParameters) -> None:
        """Refuse parameters, read from a file, that cannot be of this family.

        Parameters
        ----------
        parameters : LinearParameters
            From a file.

        Raises
        ------
        ValueError
            If they are not of this family.
        """
        check_shapes(parameters, self.parameter_shapes())

    def add_log_densities(
        self, rows: LinearRows, first: int, stop: int, parameters: LinearParameters, out: np.ndarray
    ) -> None:
        """Add log densities of rows, but for their ``log_base``, to `out`, (stop - first, K).

        Parameters
        ----------
        rows : LinearRows
            What the emission's `read` returned.
        first : int
            The first row.
        stop : int
            The row after the last.
        parameters : LinearParameters
            Parameters of all components.
        out : ndarray of shape (stop - first, K)
            What log densities are added to.
        """
        add_linear_scores(first, stop, *rows[:3], parameters.offsets, parameters.naturals, out)

    def sum_labels(self, rows: LinearRows, first: int, stop: int, first_block: int, labels: np.ndarray) -> BlockSums:
        """Sizes and sums of statistics by label, exact where they are whole.

        Parameters
        ----------
        rows : LinearRows
            What the emission's `read` returned.
        first : int
            The first row.
        stop : int
            The row after the last.
        first_block : int
            Number of the block that the first row begins.
        labels : ndarray of shape (n_rows,), int32
            Components of the rows.

        Returns
        -------
        sums : BlockSums
            The statistics, by blocks of rows.
        """
        if rows.counts.dtype.kind == "f":
            return self._sum_in_blocks(add_labelled, rows, first, stop, first_block, labels)
        sizes = np.zeros(self.n_components, np.int64)
        totals = np.zeros((self.n_statistics, self.n_components), np.int64)
        add_labelled(first, stop, *rows[:3], labels, sizes, totals)
        return BlockSums.whole((sizes, totals))

    def sum_shares(self, rows: LinearRows, first: int, stop: int, first_block: int, shares: np.ndarray) -> BlockSums:
        """Sums of shares and of statistics by share.

        Parameters
        ----------
        rows : LinearRows
            What the emission's `read` returned.
        first : int
            The first row.
        stop : int
            The row after the last.
        first_block : int
            Number of the block that the first row begins.
        shares : ndarray of shape (stop - first, K)
            Membership probabilities of these rows.

        Returns
        -------
        sums : BlockSums
            The statistics, by blocks of rows.
        """
        return self._sum_in_blocks(add_shared, rows, first, stop, first_block, shares)

    def _sum_in_blocks(self, kernel, rows, first, stop, first_block, labels_or_shares) -> BlockSums:
        """What `kernel` adds for each row, given its label or its shares."""

        def add(start, stop, sizes, totals):
            for block, (a, b) in enumerate(split_range(stop - start, BLOCK_ROWS)):
                of_block = labels_or_shares[start + a : start + b]
                kernel(first + start + a, first + start + b, *rows[:3], of_block, sizes[block], totals[block])

        return self.sum_blocks(stop - first, first_block, add)

    def log_likelihood(self, statistics: Arrays, parameters: LinearParameters) -> float:
        """Log density of rows with these statistics, but for their ``log_base``, given whose they are.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.
        parameters : LinearParameters
            Parameters of all components.

        Returns
        -------
        log_density : float
            Summed over rows, in nats.
        """
        sizes, totals = statistics
        return float(sizes @ parameters.offsets + (totals * parameters.naturals).sum())

    @available_if(lambda family: offers(family, HasHighestLogDensities))
    def seed_labels(self, rows: LinearRows, key: np.uint64) -> np.ndarray:
        """Initial labels from seeds that are spread by likelihood; there if the family has `highest_log_densities`.

        Parameters
        ----------
        rows : LinearRows
            What the emission's `read` returned.
        key : uint64
            Of the random numbers.

        Returns
        -------
        labels : ndarray of shape (n_rows,), int32
            Components.
        """
        return seed_labels(self, rows, key)

    def attributes(self, parameters: LinearParameters) -> dict[str, np.ndarray]:
        """``components_``, the expected rows.

        Parameters
        ----------
        parameters : LinearParameters
            Parameters of all components.

        Returns
        -------
        attributes : dict of str to ndarray
            Fitted attributes by their names.
        """
        return {"components_": np.ascontiguousarray(parameters.means.T)}

    def observed(self, statistics: Arrays) -> np.ndarray:
        """How many cells of each feature each component has seen, (n_features, K), of families with missing cells.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.

        Returns
        -------
        n_observed : ndarray of shape (n_features, K)
            Numbers of cells.
        """
        sizes, totals = statistics
        return np.maximum(sizes - totals[self.n_features :], 0)


class StoredFamily(Protocol):
    """A linear family whose parameters can be saved, and are checked when they are loaded."""

    n_components: int
    n_features: int
    n_statistics: int

    def parameters_again(self, naturals: np.ndarray) -> LinearParameters:
        """The parameters that have these naturals.

        Parameters
        ----------
        naturals : ndarray of shape (n_statistics, K)
            Natural parameters.

        Returns
        -------
        parameters : LinearParameters
            Parameters of all components.
        """
        ...


def parameters_agree(family: StoredFamily, parameters: LinearParameters) -> str | None:
    """Whether these are parameters of the family; says what is wrong, or None.

    Parameters
    ----------
    family : Family
        One of the library's linear families.
    parameters : LinearParameters
        Parameters of all components.

    Returns
    -------
    told : str or None
        What is wrong; None if nothing is.
    """
    K, m = family.n_components, family.n_features
    if parameters.naturals.shape != (family.n_statistics, K) or parameters.means.shape != (m, K):
        return "has parameters that are not of its family"
    with np.errstate(over="ignore", invalid="ignore"):
        again = family.parameters_again(parameters.naturals)
        same = (np.allclose(a, b, rtol=_CLOSE, atol=_CLOSE) for a, b in zip(parameters, again, strict=True))
        return None if all(same) else "has parameters that contradict each other"


def linear_family(**priors: Condition) -> dict[str, Condition]:
    """Conditions of a family's attributes, of those of its prior.

    Returns
    -------
    conditions : dict of str to Condition
        By name of the attribute.
    """
    sizes = {"n_features": Counted("n_dimensions"), "n_components": Counted("n_components")}
    return {**sizes, **priors, "n_statistics": Whole(low=1)}


def statistics_agree(of_feature: int) -> Callable[[LinearFamily, Sizes], str | None]:
    """An agreement: so many statistics a feature.

    Parameters
    ----------
    of_feature : int
        Statistics of each feature.

    Returns
    -------
    agree : callable
        From a family and known sizes to what is wrong, or None.
    """

    def agree(family: LinearFamily, sizes: Sizes) -> str | None:
        return None if family.n_statistics == of_feature * family.n_features else "has another number of statistics"

    return agree


@njit(cache=True, nogil=True)
def add_linear_scores(first, stop, indptr, indices, counts, offsets, table, out):
    """Add the rows' scores, the offset of each component and their counts times its column, to `out`.

    Parameters
    ----------
    first, stop : int
        Rows; `out` begins with the first.
    indptr, indices, counts
        Statistics of rows in CSR order.
    offsets : (K,)
    table : (n_statistics, K)
    out : (stop - first, K)
    """
    n_components = table.shape[1]
    for row in range(first, stop):
        scores = out[row - first]
        for k in range(n_components):
            scores[k] += offsets[k]
        for e in range(indptr[row], indptr[row + 1]):
            count, natural = np.float64(counts[e]), table[indices[e]]
            for k in range(n_components):
                scores[k] += count * natural[k]


@njit(cache=True, nogil=True)
def add_labelled(first, stop, indptr, indices, counts, labels, sizes, totals):
    """Add rows to the statistics of their labels; `labels` begin with row `first`."""
    for row in range(first, stop):
        k = labels[row - first]
        sizes[k] += 1
        for e in range(indptr[row], indptr[row + 1]):
            totals[indices[e], k] += counts[e]


@njit(cache=True, nogil=True)
def add_shared(first, stop, indptr, indices, counts, shares, sizes, totals):
    """Add rows to the statistics of all components by their shares, which begin with row `first`."""
    n_components = len(sizes)
    for row in range(first, stop):
        share = shares[row - first]
        for k in range(n_components):
            sizes[k] += share[k]
        for e in range(indptr[row], indptr[row + 1]):
            count, total = np.float64(counts[e]), totals[indices[e]]
            for k in range(n_components):
                total[k] += count * share[k]


@njit(cache=True, nogil=True)
def fill_events(key, labels, means, out):
    """Rows of 0 and 1 with these probabilities, (K, m), of their labels."""
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            out[i, j] = 1 if uniform(of_row, j) < means[labels[i], j] else 0


@njit(cache=True, nogil=True)
def fill_poisson(key, labels, means, out):
    """Rows of Poisson counts with these means, (K, m), of their labels."""
    for i in range(len(labels)):
        of_row = fold_in(key, i)
        for j in range(means.shape[1]):
            out[i, j] = np.int64(poisson(fold_in(of_row, j), means[labels[i], j]))


@njit(cache=True, nogil=True)
def fill_multinomial(key, labels, probabilities, cumulated, lengths, out):
    """Rows of multinomial counts; `probabilities`, (K, m), and their running sums are those of their labels.

    A row of many tokens is drawn at once, a shorter one token by token.
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
