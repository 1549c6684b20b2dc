"""Emission of counts with a Poisson rate for each feature; cells may be missing."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy
from scipy.stats import nbinom
from sklearn.base import BaseEstimator

from ..random._keys import fold_in
from ..random._variates import log_gamma_variate
from ..sparse.counts import Counts, sums_of_rows
from ..utils._declared import holds
from ..utils._njit import njit
from ..utils._sklearn import Interval
from ..utils._threads import Workers
from ..utils._typing import ArrayLike, MatrixLike
from ._base import BaseEmission, positive_prior, refuse_unset
from ._cells.distributions import CountCells
from ._clusters.linear.base import LinearComponents, LinearCounts, group_features, refuse_fractions
from ._clusters.linear.poisson_kernels import PoissonData, add_given_sums, fill_counts, log_marginal_of_label
from ._count_rows import prior_of_means, read_count_rows
from ._feature_family import FeatureFamily
from ._linear import (
    PRIOR,
    LinearParameters,
    fill_poisson,
    linear_family,
    statistics_agree,
)
from ._linear_rows import LinearRows
from ._multinomial import MultinomialFamily
from ._protocols import Arrays

_TOKEN_PRIOR = 0.1


class Poisson(BaseEmission):
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
    allows_missing = True
    has_random_totals = True
    _parameter_constraints: ClassVar[dict] = {
        "shape_prior": [None, Interval(Real, 0, None, closed="neither"), "array-like"],
        "rate_prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
    }

    def __init__(self, shape_prior: float | ArrayLike | None = None, rate_prior: float | ArrayLike = 0.5) -> None:
        self.shape_prior = shape_prior
        self.rate_prior = rate_prior

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
        """Validate X of counts and NaN."""
        return read_count_rows(self, estimator, X, reset=reset)

    def cell_distribution(self, attributes: dict[str, Any]) -> CountCells:
        """The distributions of missing cells given the component and the observed cells, for imputation.

        Parameters
        ----------
        attributes : dict of str to ndarray
            Fitted attributes, as the family's `attributes` returns them.

        Returns
        -------
        cells : CountCells
            The distributions.
        """
        return CountCells(attributes["components_"])

    def bind(self, rows: LinearRows, n_components: int) -> PoissonFamily:
        """Make the family of rows."""
        return PoissonFamily(*prior_of_means(self, rows.overall(2 * rows.n_features), rows.n_rows), n_components)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> PoissonFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        refuse_unset(self, "shape_prior")
        return self.bind(LinearRows.none(n_features), n_components)

    def bind_weighted(self, rows: LinearRows, n_components: int, row_weights: np.ndarray) -> PoissonFamily:
        """Make the family of rows; the default prior uses their weights."""
        prior = prior_of_means(self, rows.overall(2 * rows.n_features, row_weights), row_weights.sum())
        return PoissonFamily(*prior, n_components)

    def bind_tokens(
        self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None
    ) -> MultinomialFamily:
        """Make the family of tokens, which are multinomial given the total of the row."""
        prior = _TOKEN_PRIOR if self.shape_prior is None else self.shape_prior
        return MultinomialFamily(positive_prior(prior, tokens.n_features, "shape_prior"), n_components)


@njit(cache=True, nogil=True)
def draw_rates(first, stop, shape, rate, sizes, sums, labels, key, out):
    """Draw rates of the features `first` to `stop` from their gamma posteriors.

    Parameters
    ----------
    first, stop : int
        Range of features.
    shape, rate : (n_features,)
        Parameters of the prior.
    sizes : (capacity,)
    sums : (capacity, n_statistics)
    labels : (K,) int64
        Labels beyond the capacity have no rows.
    key
        A draw depends only on the key, the feature and the index in `labels`.
    out : (n_statistics, K) float64
        Logs of the rates, followed by the rates.
    """
    for j in range(first, stop):
        missing = len(shape) + j
        for k in range(len(labels)):
            label, a, b = labels[k], shape[j], rate[j]
            if label < len(sizes):
                a += sums[label, j]
                b += max(sizes[label] - sums[label, missing], 0)
            out[j, k] = log_gamma_variate(fold_in(fold_in(key, j), k), a) - math.log(b)
            out[missing, k] = math.exp(out[j, k])


@holds(
    statistics_agree(2),
    **linear_family(shape=PRIOR, rate=PRIOR),
)
class PoissonFamily(FeatureFamily):
    """Family of Poisson rows, whose statistics are the counts of a row, followed by its missing cells.

    Parameters
    ----------
    shape, rate : ndarray of shape (n_features,)
        Parameters of the gamma priors.
    n_components : int
        Number of components K.
    """

    draw_features: ClassVar[Any] = draw_rates
    log_marginal_of_label: ClassVar[Any] = log_marginal_of_label
    rows_per_feature: ClassVar[int] = 1000

    def __init__(self, shape: np.ndarray, rate: np.ndarray, n_components: int) -> None:
        self.shape = shape
        self.rate = rate
        self.n_components = n_components
        self.n_features = len(shape)
        self.n_statistics = 2 * self.n_features

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

    def sample(self, parameters: LinearParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components, without missing cells."""
        out = np.empty((len(labels), self.n_features), np.int64)
        fill_poisson(key, labels, np.ascontiguousarray(parameters.means.T), out)
        return out

    def parameters_again(self, naturals: np.ndarray) -> LinearParameters:
        """The parameters with these natural parameters.

        Parameters
        ----------
        naturals : ndarray of shape (n_statistics, K)
            Natural parameters.

        Returns
        -------
        parameters : LinearParameters
            Parameters of all components.
        """
        return self._parameters(naturals[: self.n_features])

    def add_log_predictive(self, statistics: LinearCounts, out: np.ndarray, workers: Workers) -> None:
        """Add the log predictive density of the rows given each cluster."""
        shapes, rates = self._by_feature(statistics)
        log_next, of_missing = np.log(rates + 1.0), shapes * np.log1p(1.0 / rates)
        naturals = np.concatenate([np.log(shapes) - log_next, of_missing])
        self._add(add_given_sums, (-of_missing.sum(axis=0), naturals, shapes, log_next), out, workers)

    def arrays_of(self, components: LinearComponents) -> dict[str, np.ndarray]:
        """Drawn rates, (K, n_features)."""
        return {"components": components.naturals[self.n_features :].T}

    def expected(self, statistics: LinearCounts) -> dict[str, np.ndarray]:
        """Posterior means of the rates, (K, n_features)."""
        shapes, rates = self._posterior(statistics)
        return {"components_": shapes / rates}

    def log_densities_of_column(self, statistics: LinearCounts, column: int, values: np.ndarray) -> np.ndarray:
        """Log predictive densities of values of one column given each cluster, (n_values, K): negative binomial."""
        shapes, rates = (array[:, column] for array in self._posterior(statistics))
        return nbinom.logpmf(values[:, None], shapes, rates / (rates + 1.0))

    def new_rows(self, statistics: LinearCounts, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw a row for each label from its predictive distribution."""
        out = np.empty((len(labels), self.n_features), np.int64)
        fill_counts(key, labels, *self._posterior(statistics), out)
        return out

    def _prior(self) -> tuple[np.ndarray, ...]:
        return self.shape, self.rate

    def _data_of(self, rows: LinearRows) -> PoissonData:
        refuse_fractions(rows, "poisson", "whole counts")
        groups = group_features(rows, self.rate)
        shapes = np.bincount(groups.of_feature, weights=self.shape)
        return PoissonData(*rows[:3], rows.n_features, self.shape, self.rate, groups, shapes)

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Shapes and rates of the gamma posteriors, (K, n_features) each."""
        return statistics[1][:, : self.n_features] + self.shape, self.observed(statistics) + self.rate

    def _parameters(self, logs: np.ndarray) -> LinearParameters:
        """Parameters with these logs of rates."""
        return self._parameters_of_drawn(np.concatenate([logs, np.exp(logs)]))

    def _parameters_of_drawn(self, naturals: np.ndarray) -> LinearParameters:
        rates = naturals[self.n_features :]
        return LinearParameters(-rates.sum(axis=0), naturals, rates)
