"""Emission of counts with a Poisson rate for each feature; cells may be missing."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from ..numerics.special import log_rising
from ..sparse.counts import Counts, sums_of_rows
from ..utils._njit import njit, njit_part
from ..utils._threads import ONE, Workers
from ..utils._typing import ArrayLike
from . import _linear_kernels as linear_kernels
from . import kernels
from ._base import positive_prior
from ._cells import CountCells
from ._linear import PRIOR, CountEmission, CountFamily, LinearCounts, LinearParameters, fill_poisson, group_features
from ._linear_kernels import FeatureGroups, log_bayes_factor_of_counts, multiply_power, multiply_rising
from ._linear_rows import LinearRows, refuse_fractions
from ._multinomial import MultinomialFamily
from ._protocols import Arrays

_TOKEN_PRIOR = 0.1


class Poisson(CountEmission):
    r"""Counts of features, independent given the component.

    .. math:: p(x_i \mid z_i = k) = \prod_{j \text{ observed}}
        \frac{\lambda_{kj}^{x_{ij}} e^{-\lambda_{kj}}}{x_{ij}!}, \qquad \lambda_{kj} \sim \mathrm{Ga}(a_j, b_j),

    with shape and rate. The statistics of a component are the sums :math:`s_{kj}` and the numbers :math:`n_{kj}` of
    observed cells; the mode in the natural parameters, the logs of rates, is

    .. math:: \lambda_{kj} = \frac{a_j + s_{kj}}{b_j + n_{kj}}.

    In a mixture, cells with NaN are missing, and assumed missing at random: density and statistics leave them out.

    In an admixture this is the gamma-Poisson model: tokens of a row are assigned to components in proportion to
    :math:`\theta_k \phi_{kv}`, with :math:`\phi_{kv} = (n_{kv} + a_v) / (n_k + \sum_w a_w)`. There NaN is an error: the
    model is fitted given the totals of rows, which are unknown if a cell is missing.

    Parameters
    ----------
    shape_prior : float or array-like of shape (n_features,), default=None
        Positive pseudo-counts :math:`a_j`. None is `rate_prior` times the mean of the feature, so that the prior mean
        is the mean of the data (half a count is added to the sum of each feature, because it may be zero). In an
        admixture None is 0.1.
    rate_prior : float or array-like of shape (n_features,), default=0.5
        Positive :math:`b_j`: the number of rows to which the prior is equivalent. An admixture does not use it.

    Notes
    -----
    Fractional counts are weights: a mixture uses them as they are, with a gamma function in place of the factorial. An
    admixture is fitted to whole tokens. It rounds counts at random, up with the probability of their fraction, and
    warns if this changes more than 5% of the sum. Its `transform` and `score` use fractions as they are.

    Examples
    --------
    >>> from skmanifold.emissions import Poisson
    >>> Poisson(rate_prior=0.1)
    Poisson(rate_prior=0.1)
    """

    short_name = "poisson"
    has_random_totals = True

    def __init__(self, shape_prior: float | ArrayLike | None = None, rate_prior: float | ArrayLike = 0.5) -> None:
        self.shape_prior = shape_prior
        self.rate_prior = rate_prior

    def bind_weighted(self, rows: LinearRows, n_components: int, row_weights: np.ndarray | None) -> PoissonFamily:
        """Make the family of rows; the default prior uses their weights."""
        return PoissonFamily(*self._prior_of_means(rows, row_weights), n_components)

    def bind_tokens(
        self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None
    ) -> MultinomialFamily:
        """Make the family of tokens, which are multinomial given the total of the row."""
        prior = _TOKEN_PRIOR if self.shape_prior is None else self.shape_prior
        return MultinomialFamily(positive_prior(prior, tokens.n_features, "shape_prior"), n_components)


# Kernels
#
# A feature with sum s over n observed cells has the marginal probability (a)_s b^a / (b + n)^(a + s), with a rising
# factorial and without the factorials of the counts. The next cell has a negative binomial distribution: a zero has the
# probability ((b + n) / (b + n + 1))^(a + s), and a count x this times (a + s)_x / (b + n + 1)^x.


class PoissonData(NamedTuple):
    """Poisson rows in CSR format, with columns for missing cells, and their prior."""

    indptr: np.ndarray  # (n_rows + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    counts: np.ndarray  # (nnz,) int32
    n_features: int
    shape: np.ndarray  # (n_features,)
    rate: np.ndarray  # (n_features,)
    groups: FeatureGroups  # of features with the same rate
    group_shapes: np.ndarray  # (n_groups,): sums of the shapes


linear_kernels.register(PoissonData)


@linear_kernels.log_density_of_zeros.of(PoissonData)
@njit(cache=True, nogil=True)
def _log_density_of_zeros(data, size, sums):
    """Log predictive density of a row of zeros given the rows with these statistics."""
    groups, totals = data.groups, data.group_shapes.copy()
    for j in range(data.n_features):
        totals[groups.of_feature[j]] += sums[j]
    result = 0.0
    for group in range(len(groups.first)):
        j = groups.first[group]
        result -= totals[group] * math.log1p(1.0 / (data.rate[j] + size - sums[data.n_features + j]))
    return result


@linear_kernels.log_of_count.of(PoissonData)
@njit_part
def _log_of_count(data, count, shape, log_next):
    return log_rising(shape, count) - count * log_next


@linear_kernels.log_ratio_to_zeros.of(PoissonData)
@njit(cache=True, nogil=True)
def _log_ratio_to_zeros(data, row, size, sums):
    """Log predictive density of a row minus that of a row of zeros."""
    result = 0.0
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], np.int64(data.counts[e])
        j = column if column < data.n_features else column - data.n_features
        shape, rate = data.shape[j] + sums[j], data.rate[j] + size - sums[data.n_features + j]
        if column == j:
            result += _log_of_count(data, count, shape, math.log(rate + 1.0))
        else:
            result += shape * math.log1p(1.0 / rate)
    return result


@linear_kernels.log_factor_of_sums.of(PoissonData)
@njit(cache=True, nogil=True)
def _log_factor_of_sums(data, size_0, sums_0, size_1, sums_1):
    """Log marginal probability of two sets of rows with these statistics minus that of their union."""
    groups = data.groups
    totals_0, totals_1 = np.zeros(len(groups.first)), np.zeros(len(groups.first))
    result = 0.0
    for j in range(data.n_features):
        result += log_bayes_factor_of_counts(data.shape[j], sums_0[j], sums_1[j])
        totals_0[groups.of_feature[j]] += sums_0[j]
        totals_1[groups.of_feature[j]] += sums_1[j]
    for group in range(len(groups.first)):
        j = groups.first[group]
        rate, shape = data.rate[j], data.group_shapes[group]
        observed_0, observed_1 = size_0 - sums_0[data.n_features + j], size_1 - sums_1[data.n_features + j]
        result += (shape + totals_0[group]) * math.log1p(observed_1 / (rate + observed_0))
        result += totals_1[group] * math.log1p(observed_0 / (rate + observed_1))
        result -= shape * math.log1p(observed_1 / rate)
    return result


@kernels.odds_of_sides.of(PoissonData)
@njit_part
def _odds_of_sides(data, statistics, posterior, row, scratch):
    """The odds of a row of zeros, times those of each entry compared with a zero."""
    n_features, groups = data.n_features, data.groups
    size_0, size_1 = statistics.sizes[0], statistics.sizes[1]
    sums_0, sums_1 = statistics.sums[0], statistics.sums[1]
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    for group in range(len(groups.first)):
        j = groups.first[group]
        rate_0 = data.rate[j] + size_0 - sums_0[n_features + j]
        rate_1 = data.rate[j] + size_1 - sums_1[n_features + j]
        log_odds += (data.group_shapes[group] + posterior.of_groups[0, group]) * math.log1p(1.0 / rate_0)
        log_odds -= (data.group_shapes[group] + posterior.of_groups[1, group]) * math.log1p(1.0 / rate_1)
    for e in range(data.indptr[row], data.indptr[row + 1]):
        column, count = data.indices[e], np.int64(data.counts[e])
        j = column if column < n_features else column - n_features
        shape_0, rate_0 = data.shape[j] + sums_0[j], data.rate[j] + size_0 - sums_0[n_features + j]
        shape_1, rate_1 = data.shape[j] + sums_1[j], data.rate[j] + size_1 - sums_1[n_features + j]
        if column != j:
            log_odds += shape_1 * math.log1p(1.0 / rate_1) - shape_0 * math.log1p(1.0 / rate_0)
            continue
        factor_1, factor_0, log_odds = multiply_rising(shape_1, shape_0, count, factor_1, factor_0, log_odds)
        factor_1, factor_0, log_odds = multiply_power(rate_0 + 1.0, rate_1 + 1.0, count, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


# Family


class PoissonFamily(CountFamily):
    """Family of Poisson rows, whose statistics are the counts of a row, followed by its missing cells.

    The gamma priors have `shape` and `rate`, (n_features,).
    """

    shape: Annotated[np.ndarray, PRIOR]
    rate: Annotated[np.ndarray, PRIOR]

    parameters_type = LinearParameters
    fill_rows: ClassVar[Any] = fill_poisson
    rows_per_statistic: ClassVar[int] = 500

    def mode(self, statistics: Arrays) -> LinearParameters:
        """The posterior mode of the logs of rates."""
        shapes, rates = self._by_feature(statistics)
        return self._parameters(np.log(shapes) - np.log(rates))

    def log_prior(self, parameters: LinearParameters) -> float:
        """Log prior density of the logs of rates, up to a constant."""
        logs = parameters.naturals[: self.n_features]
        return float((self.shape[:, None] * logs - self.rate[:, None] * parameters.means).sum())

    def highest_log_densities(self, rows: LinearRows) -> np.ndarray:
        """Log densities with rates that equal the row's counts."""
        counts = np.where(rows.indices < self.n_features, rows.counts, 0)
        return sums_of_rows(rows, xlogy(counts, counts) - counts)

    def cell_distribution(self, attributes: dict[str, Any]) -> CountCells:
        """The distributions of single cells of components with these attributes."""
        return CountCells(attributes["components_"])

    def parameters_again(self, naturals: np.ndarray) -> LinearParameters:
        """The parameters with these natural parameters."""
        return self._parameters(naturals[: self.n_features])

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        shapes, rates = self._by_feature(statistics)
        log_next, of_missing = np.log(rates + 1.0), shapes * np.log1p(1.0 / rates)
        naturals = np.concatenate([np.log(shapes) - log_next, of_missing])
        self._add_given_sums((-of_missing.sum(axis=0), naturals, shapes, log_next), out, workers)

    def prepare(self, rows: LinearRows) -> PoissonData:
        """Rows and prior, as the kernels read them."""
        refuse_fractions(rows, "poisson", "whole counts")
        groups = group_features(rows, self.rate)
        shapes = np.bincount(groups.of_feature, weights=self.shape, minlength=len(groups.first))
        return PoissonData(*rows[:3], rows.n_features, self.shape, self.rate, groups, shapes)

    def _parameters(self, logs: np.ndarray) -> LinearParameters:
        """Parameters with these logs of rates."""
        rates = np.exp(logs)
        return LinearParameters(-rates.sum(axis=0), np.concatenate([logs, rates]), rates)

    def draw(self, statistics: Arrays, key: np.uint64, workers: Workers = ONE) -> LinearParameters:
        """Draw the parameters from their posterior given statistics."""
        shapes, rates = self._by_feature(statistics)
        return self._parameters(self._draw_log_gammas(shapes, key=key, workers=workers)[0] - np.log(rates))

    def _log_marginals_of_cells(self, statistics: LinearCounts) -> np.ndarray:
        shapes, rates = self._posterior(statistics)
        of_shapes = gammaln(shapes) - gammaln(self.shape)
        return of_shapes + self.shape * np.log(self.rate) - shapes * np.log(rates)


Poisson.row_family, Poisson.token_family = PoissonFamily, MultinomialFamily
