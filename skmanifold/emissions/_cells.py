"""Distributions of the cells of rows given the component, and of missing cells given the observed cells too.

A family makes them from fitted attributes (``components_`` and others). Each column has numbers,
with moments, or categories, with probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, rel_entr
from scipy.stats import nbinom, norm, poisson

from ..random._keys import fold_in_each, subkey
from ..random._variates import fill_normal
from ..utils._njit import njit
from ._codes import fill_codes
from ._dense_rows import fill_patterns
from ._gaussian.missing_kernels import add_conditional_moments, draw_cells, fill_columns_and_precisions
from ._linear import fill_events, fill_poisson
from ._negative_binomial_kernels import fill_negative_binomial

_LEAST_SHARE = 1e-12  # of a component, in expected values whose computation takes long
_N_DRAWN = 2000  # rows for an estimate of information
_KEY = np.uint64(24)


@njit(cache=True, nogil=True)
def add_mixed(shares, values, out):
    """Add ``shares @ values``, where a row has the same rounding errors among any other rows."""
    for row in range(len(out)):
        for k in range(len(values)):
            for column in range(out.shape[1]):
                out[row, column] += shares[row, k] * values[k, column]


class ExpectedCells(NamedTuple):
    """Sums over components and draws of conditional expectations, weighted by memberships.

    `firsts` and `seconds`, (n_rows, n_columns), are of numbers and squares, zero for observed cells of blocks with
    covariance matrices; `probabilities` are of the categories of each column, (n_rows, n_categories), None for numbers.
    """

    firsts: np.ndarray
    seconds: np.ndarray
    probabilities: list[np.ndarray | None]

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> ExpectedCells:
        """Apply a function to all arrays, which have a row for each row."""
        of_categories = [None if each is None else function(each) for each in self.probabilities]
        return ExpectedCells(function(self.firsts), function(self.seconds), of_categories)


class ColumnDistributions:
    """Base class of distributions of each column given the component; `n_categories` is 0 for numbers."""

    n_categories: list[int]

    def typical(self, shares: np.ndarray) -> np.ndarray:
        """A typical value of each column in each cluster of components: the mean of numbers, the most probable code.

        Parameters
        ----------
        shares : ndarray of shape (n_clusters, K)
            Weights of the components in each cluster.

        Returns
        -------
        values : ndarray of shape (n_clusters, n_columns)
        """
        raise NotImplementedError

    def information(self, weights: np.ndarray) -> np.ndarray:
        """Mutual information of each column and the cluster.

        Parameters
        ----------
        weights : ndarray of shape (n_clusters, K)
            Weights of the components in each cluster.

        Returns
        -------
        information : ndarray of shape (n_columns,)
            In nats.
        """
        raise NotImplementedError

    def point_masses(self) -> list[tuple[int, float, np.ndarray]]:
        """Values of numbers that have a probability.

        Returns
        -------
        masses : list of (int, float, ndarray of shape (K,))
            Column, value and probabilities in each component.
        """
        return []


class CellDistribution(ColumnDistributions):
    """Base class of distributions of the cells of rows, which a `kernel` may draw, given `tables` of components."""

    kernel: ClassVar[Any]
    tables: tuple[np.ndarray, ...]

    def nothing(self, n_rows: int) -> ExpectedCells:
        """Sums over nothing, for so many rows.

        Parameters
        ----------
        n_rows : int

        Returns
        -------
        sums : ExpectedCells
        """
        shape = n_rows, len(self.n_categories)
        of_categories = [np.zeros((n_rows, n)) if n else None for n in self.n_categories]
        return ExpectedCells(np.zeros(shape), np.zeros(shape), of_categories)

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            Cells; NaN where missing.
        shares : ndarray of shape (n_rows, K)
        out : ExpectedCells
        """
        raise NotImplementedError

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Cumulative distribution function of a number given the observed cells of its row and the component.

        Parameters
        ----------
        column : int
        values : ndarray of shape (n_rows, n_columns)
            Cells; NaN where missing, as the column is.

        Returns
        -------
        function : callable
            Of a number for each row, (n_rows,), to probabilities, (n_rows, K).
        """
        raise NotImplementedError(f"{type(self).__name__} has no distribution functions.")

    def has_counts(self, column: int) -> bool:
        """Whether a column has whole numbers from 0.

        Parameters
        ----------
        column : int

        Returns
        -------
        has_counts : bool
        """
        return False

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows with drawn cells where cells are missing.

        Parameters
        ----------
        values : ndarray of shape (n_rows, n_columns)
            Cells; NaN where missing.
        labels : ndarray of shape (n_rows,), int32
        key : uint64
        first_row : int
            Number of the first row; the draws of a row depend only on the key and its number.

        Returns
        -------
        rows : ndarray of shape (n_rows, n_columns)
            Only missing cells are needed; others may have any value.
        """
        out = np.empty(values.shape, np.int64)
        type(self).kernel(subkey(key, first_row), labels, *self.tables, out)
        return out.astype(np.float64)


class Tokens(ColumnDistributions):
    """Numbers of tokens, with the probabilities of one token, (K, n_columns)."""

    def __init__(self, probabilities: np.ndarray) -> None:
        self.probabilities = probabilities
        self.n_categories = [0] * probabilities.shape[1]

    def typical(self, shares: np.ndarray) -> np.ndarray:
        """Probabilities of the columns."""
        return shares @ self.probabilities

    def information(self, weights: np.ndarray) -> np.ndarray:
        """The contribution of each column to the information of a token about its cluster."""
        return information_of_categories(weights, self.probabilities)


class IndependentNumbers(CellDistribution):
    """Numbers that are independent given the component: base class.

    Parameters
    ----------
    means, variances : ndarray of shape (K, n_columns)
        Moments.
    """

    def __init__(self, means: np.ndarray, variances: np.ndarray) -> None:
        self.means = np.ascontiguousarray(means)
        self.variances = variances
        self.n_categories = [0] * means.shape[1]

    def typical(self, shares: np.ndarray) -> np.ndarray:
        """Means."""
        return shares @ self.means

    def information(self, weights: np.ndarray) -> np.ndarray:
        """Mutual information of each column and the cluster, estimated from drawn rows."""
        weights = weights / weights.sum()
        shares = weights.sum(axis=0)
        evenly = (np.arange(_N_DRAWN) + 0.5) / _N_DRAWN
        labels = np.searchsorted(np.cumsum(shares)[:-1], evenly).astype(np.int32)
        rows = self.drawn(np.full((_N_DRAWN, len(self.n_categories)), np.nan), labels, _KEY, 0)
        columns = (self.log_densities_of_column(j, column) for j, column in enumerate(rows.T))
        return np.array([mutual_information(of_column, weights) for of_column in columns])

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log densities of values of one column given each component.

        Parameters
        ----------
        column : int
        values : ndarray of shape (n_values,)

        Returns
        -------
        log_densities : ndarray of shape (n_values, K)
            In nats.
        """
        raise NotImplementedError

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations, which are those without conditions."""
        add_mixed(shares, self.means, out.firsts)
        add_mixed(shares, self.variances + self.means**2, out.seconds)


class NormalCells(IndependentNumbers):
    """Numbers with a normal distribution for each column."""

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows of normal variates."""
        out = np.empty(values.shape)
        fill_normal(fold_in_each(key, first_row + np.arange(len(values))), 0, out)
        return self.means[labels] + np.sqrt(self.variances)[labels] * out

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Normal distribution functions."""
        means, variances = self._moments_given(column, values)
        deviations = np.sqrt(variances)
        return lambda x: ndtr((x[:, np.newaxis] - means) / deviations)

    def _moments_given(self, column: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.means[:, column], self.variances[:, column]

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log normal densities."""
        return norm.logpdf(values[:, np.newaxis], self.means[:, column], np.sqrt(self.variances[:, column]))


class WholeNumbers(IndependentNumbers):
    """Counts: base class."""

    def has_counts(self, column: int) -> bool:
        """All columns have counts."""
        return True


class CountCells(WholeNumbers):
    """Poisson counts, with means `rates`, (K, n_columns)."""

    kernel = fill_poisson

    def __init__(self, rates: np.ndarray) -> None:
        super().__init__(rates, rates)
        self.tables = (self.means,)

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Poisson distribution functions."""
        return lambda x: poisson.cdf(x[:, np.newaxis], self.means[:, column])

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log Poisson probabilities."""
        return poisson.logpmf(values[:, np.newaxis], self.means[:, column])


class OverdispersedCells(WholeNumbers):
    """Negative binomial counts: means, (K, n_columns), and variances ``means + dispersions * means**2``."""

    kernel = fill_negative_binomial

    def __init__(self, means: np.ndarray, dispersions: np.ndarray) -> None:
        super().__init__(means, means + dispersions * means**2)
        self.sizes = 1.0 / dispersions
        self.tables = self.means, self.sizes

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Negative binomial distribution functions."""
        size, means = self.sizes[column], self.means[:, column]
        return lambda x: nbinom.cdf(x[:, np.newaxis], size, size / (size + means))

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log negative binomial probabilities."""
        size, means = self.sizes[column], self.means[:, column]
        return nbinom.logpmf(values[:, np.newaxis], size, size / (size + means))


class DependentNumbers(NormalCells):
    """Normal numbers whose missing cells depend on the observed ones: base class."""

    def _moments_given(self, column: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances given the observed cells, (n_rows, K), in each component alone."""
        found = np.empty((2, len(values), len(self.means)))
        for k in range(len(self.means)):
            alone, own = np.zeros(found.shape[1:]), self.nothing(len(values))
            alone[:, k] = 1.0
            self.add_expected(values, alone, own)
            found[:, :, k] = own.firsts[:, column], own.seconds[:, column]
        means, squares = found
        return means, squares - means**2


class MatrixNormalCells(DependentNumbers):
    """Normal numbers with covariances (K, d, d) or (d, d)."""

    def __init__(self, means: np.ndarray, covariances: np.ndarray) -> None:
        covariances = covariances.reshape(-1, means.shape[1], means.shape[1])
        super().__init__(means, np.diagonal(covariances, axis1=1, axis2=2))
        factors = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(covariances)))
        self._of_factors = np.empty(factors.shape), np.empty(factors.shape)
        fill_columns_and_precisions(factors, *self._of_factors)

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations given the observed cells."""
        patterns, chosen = _incomplete(values)
        of_components = np.ascontiguousarray(shares), self.means, *self._of_factors
        firsts, seconds = np.zeros(values.shape), np.zeros(values.shape)
        add_conditional_moments(values, chosen, patterns, *of_components, firsts, seconds)
        out.firsts[...] += firsts
        out.seconds[...] += seconds

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows with missing cells drawn given the observed ones."""
        out = values.copy()
        patterns, chosen = _incomplete(values)
        chosen = chosen[np.lexsort((labels[chosen], patterns[chosen]))]
        of_rows = values, chosen, chosen, patterns, labels
        draw_cells(*of_rows, first_row, key, self.means, *self._of_factors, out)
        return out


class TransformedCells(IndependentNumbers):
    """Numbers whose transforms, by a function of each column, have the distributions `cells` of normal numbers."""

    def __init__(self, cells: NormalCells, transform: Any) -> None:
        means, squares = transform.moments(cells.means, cells.variances)
        super().__init__(means, squares - means**2)
        self.cells, self.transform = cells, transform

    def distribution_function(self, column: int, values: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Distribution functions of the transforms, which are monotone."""
        function = self.cells.distribution_function(column, self.transform.forward(values))
        of_column = self.transform.take(slice(column, column + 1))
        return lambda x: function(of_column.forward(x[:, np.newaxis])[:, 0])

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log densities of the transforms, with their derivatives."""
        of_column, X = self.transform.take(slice(column, column + 1)), values[:, np.newaxis]
        logs = self.cells.log_densities_of_column(column, of_column.forward(X)[:, 0])
        return logs + of_column.log_derivatives(X)[:, np.newaxis]

    def information(self, weights: np.ndarray) -> np.ndarray:
        """Mutual information of each column and the cluster, which monotone functions do not change."""
        return self.cells.information(weights)

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add conditional expectations of missing cells, from the conditional moments of each component."""
        transformed, missing = self.transform.forward(values), np.isnan(values)
        for k in range(shares.shape[1]):
            alone, own = np.zeros(shares.shape), self.nothing(len(values))
            alone[:, k] = 1.0
            self.cells.add_expected(transformed, alone, own)
            rows, columns = cells = np.nonzero(missing & (shares[:, [k]] > _LEAST_SHARE))
            means = own.firsts[cells]
            moments = self.transform.take(columns).moments(means, np.maximum(own.seconds[cells] - means**2, 0.0))
            for total, of_each in zip(out[:2], moments, strict=True):
                total[cells] += shares[rows, k] * of_each

    def drawn(self, values: np.ndarray, labels: np.ndarray, key: np.uint64, first_row: int) -> np.ndarray:
        """Rows whose transforms are drawn."""
        return self.transform.inverse(self.cells.drawn(self.transform.forward(values), labels, key, first_row))


class CategoryCells(CellDistribution):
    """Codes of categories, with the probabilities of each column, (K, n_categories)."""

    kernel = fill_codes

    def __init__(self, probabilities: list[np.ndarray]) -> None:
        self.probabilities = probabilities
        self.n_categories = [column.shape[1] for column in probabilities]
        starts = np.concatenate(([0], np.cumsum(self.n_categories)))
        self.tables = np.ascontiguousarray(np.concatenate(probabilities, axis=1)), starts

    def typical(self, shares: np.ndarray) -> np.ndarray:
        """The most probable codes."""
        return np.stack([(shares @ column).argmax(axis=1) for column in self.probabilities], axis=1)

    def information(self, weights: np.ndarray) -> np.ndarray:
        """Mutual information of each column and the cluster."""
        return np.array([information_of_categories(weights, column).sum() for column in self.probabilities])

    def log_densities_of_column(self, column: int, values: np.ndarray) -> np.ndarray:
        """Log probabilities of codes."""
        return np.log(self.probabilities[column].T)[values.astype(int)]

    def add_expected(self, values: np.ndarray, shares: np.ndarray, out: ExpectedCells) -> None:
        """Add probabilities of the categories."""
        for column, of_column in zip(self.probabilities, out.probabilities, strict=True):
            assert of_column is not None
            add_mixed(shares, column, of_column)


class EventCells(CategoryCells):
    """Events, codes 0 and 1; `ones`, (K, n_columns), are the probabilities of a one."""

    kernel = fill_events

    def __init__(self, ones: np.ndarray) -> None:
        super().__init__([np.stack((1.0 - column, column), axis=1) for column in ones.T])
        self.ones = np.ascontiguousarray(ones)
        self.tables = (self.ones,)

    def typical(self, shares: np.ndarray) -> np.ndarray:
        """Probabilities of a one."""
        return shares @ self.ones


def distribution_of_columns(family: Any, attributes: dict[str, Any]) -> Any:
    """The distributions of columns, or of a token, that a family makes from attributes; None if it has none."""
    for name in ("cell_distribution", "token_distribution"):
        if hasattr(family, name):
            return getattr(family, name)(attributes)
    return None


def _incomplete(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Patterns of missing cells, and the rows that have some, sorted by these."""
    patterns = np.empty(len(values), np.uint64)
    fill_patterns(values, patterns)
    rows = np.flatnonzero(patterns)
    return patterns, rows[np.argsort(patterns[rows], kind="stable")]


def mutual_information(log_densities: np.ndarray, weights: np.ndarray) -> float:
    """Mean over rows of the divergence of p(cluster | row) from p(cluster), given log densities (n_rows, K).

    `weights`, (n_clusters, K), are those of the components in each cluster; the sum is one. If the rows are drawn from
    the mixture, this estimates the mutual information without bias.
    """
    weights = weights[weights.any(axis=1)]
    of_clusters = (logsumexp(log_densities[:, own > 0.0] + np.log(own[own > 0.0]), axis=1) for own in weights)
    log_joint = np.stack(list(of_clusters), axis=1)
    log_posterior, log_weights = log_joint - logsumexp(log_joint, axis=1, keepdims=True), np.log(weights.sum(axis=1))
    terms = np.exp(log_posterior) * np.where(np.isfinite(log_posterior), log_posterior - log_weights, 0.0)
    return max(0.0, float(terms.sum(axis=1).mean()))


def information_of_categories(weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The contribution of each category to its information about the cluster, (n_categories,)."""
    shares = weights.sum(axis=1) / weights.sum()
    probabilities = weights @ probabilities / np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return shares @ rel_entr(probabilities, shares @ probabilities)
