"""Emission of binary features, some of which may be missing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import betaln, xlogy
from sklearn.base import BaseEstimator

from ..sparse.counts import Counts, sums_of_rows, whole_counts
from ..utils._njit import njit, njit_part
from ..utils._threads import ONE, Workers
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import column_name
from . import _linear_kernels as linear_kernels
from . import kernels
from ._base import POSITIVE_PRIOR, WeighableEmission, dense_topics, positive_prior
from ._cells import EventCells
from ._linear import PRIOR, FeatureFamily, LinearCounts, LinearParameters, fill_events, group_features
from ._linear_kernels import FeatureGroups, log_bayes_factor_of_counts, multiply, multiply_power
from ._linear_rows import LinearRows, read_counts, refuse_fractions
from ._protocols import Arrays, TokenCounts


@dataclass(eq=False, repr=False)
class Bernoulli(WeighableEmission):
    r"""Features that are 0 or 1, independent given the component: latent class models, grade-of-membership models.

    .. math:: p(x_i \mid z_i = k) = \prod_{j \text{ observed}} p_{kj}^{x_{ij}} (1 - p_{kj})^{1 - x_{ij}}, \qquad
        p_{kj} \sim \mathrm{Beta}(a_j, b_j).

    The statistics of a component are the numbers :math:`s_{kj}` of ones and :math:`n_{kj}` of observed cells; the mode
    in the natural parameters, the logits, is

    .. math:: p_{kj} = \frac{s_{kj} + a_j}{n_{kj} + a_j + b_j}.

    Cells with NaN are missing, and assumed missing at random: density and statistics leave them out. All others are 0
    or 1, unless `allow_probabilities` is True.

    Parameters
    ----------
    ones_prior, zeros_prior : float or array-like of shape (n_features,), default=1.0
        Positive pseudo-counts :math:`a_j` of ones and :math:`b_j` of zeros. With 1 and 1, Laplace's rule, the prior is
        uniform and no estimate is 0 or 1. Where ones are rare, as those of words in documents, smaller numbers are
        better, above all for `ones_prior`.
    allow_probabilities : bool, default=False
        Whether a cell may be any number from 0 to 1, the probability :math:`x_{ij}` of a one. A mixture weights both
        values by their probabilities, and the formulas above remain valid. An admixture draws each cell once, with
        that probability of a one, and is fitted to these cells; its `transform` and `score` weight both values. With
        False such cells are an error.

    Examples
    --------
    >>> from skmanifold.emissions import Bernoulli
    >>> Bernoulli(ones_prior=0.1)
    Bernoulli(ones_prior=0.1)
    """

    short_name = "bernoulli"
    allows_missing = True
    has_missing_tokens = True
    tokens_of_column = 2  # a zero and a one
    _parameter_constraints: ClassVar[dict] = {
        "ones_prior": POSITIVE_PRIOR,
        "zeros_prior": POSITIVE_PRIOR,
        "allow_probabilities": ["boolean"],
    }

    ones_prior: float | ArrayLike = 1.0
    zeros_prior: float | ArrayLike = 1.0
    allow_probabilities: bool = False

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
        """Validate X of zeros, ones and NaN."""
        counts = read_counts(estimator, X, reset=reset, missing=True, emission=self)
        self._check_events(estimator, counts)
        return LinearRows(*counts[:3], counts.n_features // 2, None)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> BernoulliFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        ones = positive_prior(self.ones_prior, n_features, "ones_prior")
        zeros = positive_prior(self.zeros_prior, n_features, "zeros_prior")
        return BernoulliFamily(ones, zeros, n_components)

    def bind_weighted(self, rows: LinearRows, n_components: int, row_weights: np.ndarray | None) -> BernoulliFamily:
        """Make the family of rows, which does not depend on the weights."""
        return self.prior_family(rows.n_features, n_components, 0)

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """Validate X and return one token for each observed cell: 2j for a zero of feature j, 2j + 1 for a one."""
        rows = self.read(estimator, X, reset=reset)
        n, m = rows.n_rows, rows.n_features
        if rows.counts.dtype.kind == "f":
            if key is None:
                return _weigh_tokens(rows)
            drawn = whole_counts(sp.csr_array((rows.counts, rows.indices, rows.indptr), shape=(n, 2 * m)), key)
            rows = LinearRows(*drawn[:3], m, None)
        cells = rows.cells()
        present = ~np.isnan(cells)
        indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int64)
        indices = (2 * np.arange(m) + cells)[present].astype(np.int32)
        return Counts(indptr, indices, np.ones(len(indices), np.int32), 2 * m)

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> BernoulliFamily:
        """Make the family of tokens."""
        return self.prior_family(tokens.n_features // 2, n_components, 0)

    def _check_events(self, estimator: BaseEstimator, counts: Counts) -> None:
        """Raise a ValueError if a cell is not valid; it names the first one and its place."""
        values = counts.counts
        wrong = values > 1 if self.allow_probabilities else values != 1
        if not wrong.any():
            return
        entry = int(wrong.argmax())
        row = int(np.searchsorted(counts.indptr, entry, side="right")) - 1
        takes = "numbers from 0 to 1" if self.allow_probabilities else "0 and 1"
        place = f"row {row}, column {column_name(estimator, int(counts.indices[entry]))}"
        cure = " (for probabilities of a one: Bernoulli(allow_probabilities=True))" if values[entry] < 1 else ""
        raise ValueError(
            f"emission='bernoulli' takes {takes}, and NaN where a cell is missing, but X has {values[entry]} in "
            f"{place}{cure}."
        )


def _weigh_tokens(rows: LinearRows) -> Counts:
    """Both tokens of each observed cell, weighted by their probabilities if these are positive."""
    n, m = rows.n_rows, rows.n_features
    ones = rows.cells()
    weights = np.stack([1.0 - ones, ones], axis=2).reshape(n, 2 * m)
    of_row, indices = np.nonzero(weights > 0)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(of_row, minlength=n))))
    return Counts(indptr, indices.astype(np.int32), weights[of_row, indices], 2 * m)


# Kernels
#
# A feature with s ones among n observed cells has the marginal probability (a)_s (b)_{n - s} / (a + b)_n, with rising
# factorials, and the next cell is a one with probability (a + s) / (a + b + n).


class BernoulliData(NamedTuple):
    """Binary rows in CSR format, with columns for missing cells, and their prior."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    n_features: int
    ones: np.ndarray  # (n_features,): pseudo-counts of ones
    zeros: np.ndarray  # (n_features,): pseudo-counts of zeros
    groups: FeatureGroups


linear_kernels.register(BernoulliData)


@linear_kernels.log_density_of_zeros.of(BernoulliData)
@njit(cache=True, nogil=True)
def _log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""
    product, below, log_product = 1.0, 1.0, 0.0
    for j in range(data.n_features):
        observed = data.zeros[j] + size - sums[data.n_features + j]
        product, below, log_product = multiply(observed - sums[j], data.ones[j] + observed, product, below, log_product)
    return log_product + math.log(product / below)


@linear_kernels.log_ratio_to_zeros.of(BernoulliData)
@njit(cache=True, nogil=True)
def _log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""
    product, below, log_product = 1.0, 1.0, 0.0
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column = data.indices[e]
        j = column if column < data.n_features else column - data.n_features
        n_observed = size - sums[data.n_features + j]
        zero = data.zeros[j] + n_observed - sums[j]
        other = data.ones[j] + sums[j] if column == j else data.ones[j] + data.zeros[j] + n_observed
        product, below, log_product = multiply(other, zero, product, below, log_product)
    return log_product + math.log(product / below)


@linear_kernels.log_factor_of_sums.of(BernoulliData)
@njit(cache=True, nogil=True)
def _log_factor_of_sums(data, size_0, sums_0, size_1, sums_1):
    """Log marginal probability of two sets of rows with these statistics minus that of their union."""
    groups, n_absent = data.groups, data.groups.sizes.copy()
    result = 0.0
    for j in range(data.n_features):
        ones_0, ones_1 = sums_0[j], sums_1[j]
        if ones_0 + ones_1 > 0:
            missing = data.n_features + j
            zeros_0, zeros_1 = size_0 - sums_0[missing] - ones_0, size_1 - sums_1[missing] - ones_1
            result += log_bayes_factor_of_counts(data.ones[j], ones_0, ones_1)
            result += log_bayes_factor_of_counts(data.zeros[j], zeros_0, zeros_1)
            n_absent[groups.of_feature[j]] -= 1
    for group in range(len(groups.first)):
        j = groups.first[group]
        observed_0, observed_1 = size_0 - sums_0[data.n_features + j], size_1 - sums_1[data.n_features + j]
        result += n_absent[group] * log_bayes_factor_of_counts(data.zeros[j], observed_0, observed_1)
        both = data.ones[j] + data.zeros[j]
        result -= groups.sizes[group] * log_bayes_factor_of_counts(both, observed_0, observed_1)
    return result


@kernels.odds_of_sides.of(BernoulliData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    """The odds of a row of zeros, times those of each entry compared with a zero."""
    n_features, ones, zeros, groups, n_absent = data.n_features, data.ones, data.zeros, data.groups, posterior.n_absent
    size_0, size_1 = statistics.sizes[0], statistics.sizes[1]
    sums_0, sums_1 = statistics.sums[0], statistics.sums[1]
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    for group in range(len(groups.first)):
        j = groups.first[group]
        observed_0, observed_1 = size_0 - sums_0[n_features + j], size_1 - sums_1[n_features + j]
        of_0, of_1 = ones[j] + zeros[j] + observed_0, ones[j] + zeros[j] + observed_1
        factor_1, factor_0, log_odds = multiply_power(of_0, of_1, groups.sizes[group], factor_1, factor_0, log_odds)
        of_0, of_1 = zeros[j] + observed_0, zeros[j] + observed_1
        factor_1, factor_0, log_odds = multiply_power(of_1, of_0, n_absent[group], factor_1, factor_0, log_odds)
    for place in range(posterior.n_present[0]):
        j = posterior.present[place]
        if j < n_features:
            of_0 = zeros[j] + size_0 - sums_0[n_features + j] - sums_0[j]
            of_1 = zeros[j] + size_1 - sums_1[n_features + j] - sums_1[j]
            factor_1, factor_0, log_odds = multiply(of_1, of_0, factor_1, factor_0, log_odds)
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column = data.indices[e]
        j = column if column < n_features else column - n_features
        observed_0, observed_1 = size_0 - sums_0[n_features + j], size_1 - sums_1[n_features + j]
        zero_0, zero_1 = zeros[j] + observed_0 - sums_0[j], zeros[j] + observed_1 - sums_1[j]
        if column == j:
            of_0, of_1 = ones[j] + sums_0[j], ones[j] + sums_1[j]
        else:
            of_0, of_1 = ones[j] + zeros[j] + observed_0, ones[j] + zeros[j] + observed_1
        factor_1, factor_0, log_odds = multiply(of_1 * zero_0, of_0 * zero_1, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


# Family


class BernoulliFamily(FeatureFamily):
    """Family of binary rows, whose statistics are the ones of a row, followed by its missing cells.

    `ones` and `zeros`, (n_features,), are pseudo-counts.
    """

    ones: Annotated[np.ndarray, PRIOR]
    zeros: Annotated[np.ndarray, PRIOR]

    parameters_type = LinearParameters
    bounds_of_means = 0.0, 1.0
    fill_rows: ClassVar[Any] = fill_events
    of_each_column: ClassVar[tuple[str, ...]] = ("ones", "zeros")
    rows_per_statistic: ClassVar[int] = 1000

    def __init__(self, ones: np.ndarray, zeros: np.ndarray, n_components: int) -> None:
        self.ones = ones
        self.zeros = zeros
        self.n_components = n_components
        self.n_features = len(ones)

    def mode(self, statistics: Arrays) -> LinearParameters:
        """The posterior mode of the logits."""
        ones, zeros = self._by_feature(statistics)
        log_all = np.log(ones + zeros)
        return self._parameters(np.log(ones) - log_all, np.log(zeros) - log_all)

    def parameters_of(self, attributes: dict[str, np.ndarray]) -> LinearParameters:
        """The parameters with these fitted attributes."""
        ones = np.clip(attributes["components_"].T, np.finfo(float).tiny, 1.0 - np.finfo(float).epsneg)
        return self._parameters(np.log(ones), np.log1p(-ones))

    def log_prior(self, parameters: LinearParameters) -> float:
        """Log prior density of the logits, up to a constant."""
        log_zero = -parameters.naturals[self.n_features :]
        log_one = parameters.naturals[: self.n_features] + log_zero
        return float((self.ones[:, None] * log_one + self.zeros[:, None] * log_zero).sum())

    def highest_log_densities(self, rows: LinearRows) -> np.ndarray:
        """Log densities with probabilities that equal the cells of the row: zero for cells that are 0 or 1."""
        cells = rows.counts.astype(np.float64)  # a missing cell's statistic is 1
        return sums_of_rows(rows, xlogy(cells, cells) + xlogy(1.0 - cells, 1.0 - cells))

    def cell_distribution(self, attributes: dict[str, Any]) -> EventCells:
        """The distributions of single cells of components with these attributes."""
        return EventCells(attributes["components_"])

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of tokens by component; cells assigned to other components count as missing."""
        table = dense_topics(counts)
        zeros, ones = table[0::2], table[1::2]
        sizes = np.asarray(counts.totals, dtype=np.float64)
        return self._arranged(sizes, np.concatenate([ones, sizes - zeros - ones]))

    def token_table(self, parameters: LinearParameters) -> np.ndarray:
        """Log probability of each token given each component, a zero and a one of each feature in turn."""
        table = np.empty((2 * self.n_features, self.n_components))
        table[0::2] = -parameters.naturals[self.n_features :]
        table[1::2] = parameters.naturals[: self.n_features] + table[0::2]
        return table

    def parameters_again(self, naturals: np.ndarray) -> LinearParameters:
        """The parameters with these natural parameters."""
        logits, minus_log_zero = naturals[: self.n_features], naturals[self.n_features :]
        return LinearParameters(-minus_log_zero.sum(axis=0), naturals, np.exp(logits - minus_log_zero))

    def _parameters(self, log_one: np.ndarray, log_zero: np.ndarray) -> LinearParameters:
        naturals = np.concatenate([log_one - log_zero, -log_zero])
        return LinearParameters(log_zero.sum(axis=0), naturals, np.exp(log_one))

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster, which is the density at the mode."""
        self.add_densities_of_rows(self.mode(statistics), out, workers)

    def new_rows(self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw a row for each label from its predictive distribution, which is that of the mode."""
        return self.sample(self.mode(statistics), labels, key)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the beta posteriors, (K, n_features) each."""
        seen = statistics[1][:, : self.n_features]
        return seen + self.ones, np.maximum(self.observed(statistics) - seen, 0) + self.zeros

    def draw(self, statistics: Arrays, key: np.uint64, workers: Workers = ONE) -> LinearParameters:
        """Draw the parameters from their posterior given statistics."""
        log_one, log_zero = self._draw_log_gammas(*self._by_feature(statistics), key=key, workers=workers)
        log_both = np.logaddexp(log_one, log_zero)
        return self.parameters_again(np.concatenate([log_one - log_zero, log_both - log_zero]))

    def _log_marginals_of_cells(self, statistics: LinearCounts) -> np.ndarray:
        return betaln(*self._posterior(statistics)) - betaln(self.ones, self.zeros)

    def prepare(self, rows: LinearRows) -> BernoulliData:
        """Rows and prior, as the kernels read them."""
        refuse_fractions(rows, "bernoulli", "cells that are 0, 1 or NaN")
        groups = group_features(rows, self.ones, self.zeros)
        return BernoulliData(*rows[:3], rows.n_features, self.ones, self.zeros, groups)


Bernoulli.row_family = Bernoulli.token_family = BernoulliFamily
