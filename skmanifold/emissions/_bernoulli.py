"""Emission of binary features, some of which may be missing."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import xlogy
from sklearn.base import BaseEstimator

from ..random._keys import subkey
from ..random._variates import fill_log_gamma_variates
from ..sparse.counts import Counts, sums_of_rows, whole_counts
from ..utils._declared import holds
from ..utils._sklearn import Interval
from ..utils._typing import ArrayLike, MatrixLike
from ..utils._validation import column_name
from ._base import BaseEmission, dense_topics, positive_prior
from ._cells.distributions import EventCells
from ._clusters.linear.bernoulli import BernoulliClusters
from ._linear import (
    PRIOR,
    LinearFamily,
    LinearParameters,
    fill_events,
    linear_family,
    statistics_agree,
)
from ._linear_rows import LinearRows, read_counts
from ._protocols import Arrays, TokenCounts


class Bernoulli(BaseEmission):
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
        "ones_prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "zeros_prior": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "allow_probabilities": ["boolean"],
    }

    def __init__(
        self,
        ones_prior: float | ArrayLike = 1.0,
        zeros_prior: float | ArrayLike = 1.0,
        allow_probabilities: bool = False,
    ) -> None:
        self.ones_prior = ones_prior
        self.zeros_prior = zeros_prior
        self.allow_probabilities = allow_probabilities

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
        """Validate X of zeros, ones and NaN."""
        counts = read_counts(estimator, X, reset=reset, missing=True, emission=self)
        self._check_events(estimator, counts)
        return LinearRows(*counts[:3], counts.n_features // 2, None)

    def cell_distribution(self, attributes: dict[str, Any]) -> EventCells:
        """The distributions of missing cells given the component and the observed cells, for imputation.

        Parameters
        ----------
        attributes : dict of str to ndarray
            Fitted attributes, as the family's `attributes` returns them.

        Returns
        -------
        cells : EventCells
            The distributions.
        """
        return EventCells(attributes["components_"])

    def bind(self, rows: LinearRows, n_components: int) -> BernoulliFamily:
        """Make the family of rows."""
        return self._bind(rows.n_features, n_components)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> BernoulliFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        return self._bind(n_features, n_components)

    def bind_weighted(self, rows: LinearRows, n_components: int, row_weights: np.ndarray) -> BernoulliFamily:
        """Make the family of rows, which does not depend on the weights."""
        return self.bind(rows, n_components)

    def read_tokens(self, estimator: BaseEstimator, X: MatrixLike, key: np.uint64 | None, *, reset: bool) -> Counts:
        """Validate X and return one token for each observed cell: 2j for a zero of feature j, 2j + 1 for a one."""
        rows = self.read(estimator, X, reset=reset)
        n, m = rows.n_rows, rows.n_features
        if rows.counts.dtype.kind == "f":
            if key is None:
                return _weigh_tokens(rows)
            drawn = whole_counts(sp.csr_array((rows.counts, rows.indices, rows.indptr), shape=(n, 2 * m)), key)
            rows = LinearRows(*drawn[:3], m, None)
        cells = np.zeros((n, m), np.int8)  # -1 where missing
        of_row = np.repeat(np.arange(n), np.diff(rows.indptr))
        cells[of_row, rows.indices % m] = np.where(rows.indices < m, 1, -1)
        present = cells >= 0
        indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int64)
        indices = (2 * np.arange(m) + cells)[present].astype(np.int32)
        return Counts(indptr, indices, np.ones(len(indices), np.int32), 2 * m)

    def bind_tokens(self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None) -> BernoulliFamily:
        """Make the family of tokens."""
        return self._bind(tokens.n_features // 2, n_components)

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

    def _bind(self, n_features: int, n_components: int) -> BernoulliFamily:
        ones = positive_prior(self.ones_prior, n_features, "ones_prior")
        zeros = positive_prior(self.zeros_prior, n_features, "zeros_prior")
        return BernoulliFamily(ones, zeros, n_components)


def _weigh_tokens(rows: LinearRows) -> Counts:
    """Both tokens of each observed cell, weighted by their probabilities if these are positive."""
    n, m = rows.n_rows, rows.n_features
    ones = np.zeros((n, m))
    of_row = np.repeat(np.arange(n), np.diff(rows.indptr))
    ones[of_row, rows.indices % m] = np.where(rows.indices < m, rows.counts, np.nan)
    weights = np.stack([1.0 - ones, ones], axis=2).reshape(n, 2 * m)
    of_row, indices = np.nonzero(weights > 0)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(of_row, minlength=n))))
    return Counts(indptr, indices.astype(np.int32), weights[of_row, indices], 2 * m)


@holds(
    statistics_agree(2),
    **linear_family(ones=PRIOR, zeros=PRIOR),
)
class BernoulliFamily(LinearFamily):
    """Family of binary rows, whose statistics are the ones of a row, followed by its missing cells.

    Parameters
    ----------
    ones, zeros : ndarray of shape (n_features,)
        Pseudo-counts.
    n_components : int
        Number of components K.
    """

    parameters_type = LinearParameters

    def __init__(self, ones: np.ndarray, zeros: np.ndarray, n_components: int) -> None:
        self.ones = ones
        self.zeros = zeros
        self.n_components = n_components
        self.n_features = len(ones)
        self.n_statistics = 2 * self.n_features

    def mode(self, statistics: Arrays) -> LinearParameters:
        """The posterior mode of the logits."""
        ones, zeros = self._posterior(statistics)
        log_all = np.log(ones + zeros)
        return self._parameters(np.log(ones) - log_all, np.log(zeros) - log_all)

    def draw(self, statistics: Arrays, key: np.uint64) -> LinearParameters:
        """Draw probabilities from their beta posteriors."""
        logs = []
        for i, shapes in enumerate(self._posterior(statistics)):
            logs.append(np.empty(shapes.shape))
            fill_log_gamma_variates(subkey(key, i), shapes, logs[i])
        log_all = np.logaddexp(*logs)
        return self._parameters(logs[0] - log_all, logs[1] - log_all)

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

    def clusters(self, rows: LinearRows | None = None) -> BernoulliClusters:
        """The rows together with the prior, as Dirichlet process mixtures use them."""
        return BernoulliClusters(self, LinearRows.none(self.n_features) if rows is None else rows)

    def n_parameters(self) -> int:
        """Number of free parameters: one for each feature of each component."""
        return self.n_components * self.n_features

    def sample(self, parameters: LinearParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components, without missing cells."""
        out = np.empty((len(labels), self.n_features), np.int64)
        fill_events(key, labels, np.ascontiguousarray(parameters.means.T), out)
        return out

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of tokens by component; cells assigned to other components count as missing."""
        table = dense_topics(counts)
        zeros, ones = table[0::2], table[1::2]
        sizes = np.asarray(counts.totals, dtype=np.float64)
        return sizes, np.concatenate([ones, sizes - zeros - ones])

    def token_table(self, parameters: LinearParameters) -> np.ndarray:
        """Log probability of each token given each component, a zero and a one of each feature in turn."""
        table = np.empty((2 * self.n_features, self.n_components))
        table[0::2] = -parameters.naturals[self.n_features :]
        table[1::2] = parameters.naturals[: self.n_features] + table[0::2]
        return table

    def _posterior(self, statistics: Arrays) -> tuple[np.ndarray, np.ndarray]:
        """Parameters of the beta posteriors, (n_features, K) each."""
        seen = statistics[1][: self.n_features]
        zeros = np.maximum(self.observed(statistics) - seen, 0)
        return seen + self.ones[:, None], zeros + self.zeros[:, None]

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
        log_zero = -naturals[self.n_features :]
        return self._parameters(naturals[: self.n_features] + log_zero, log_zero)

    def _parameters(self, log_one: np.ndarray, log_zero: np.ndarray) -> LinearParameters:
        naturals = np.concatenate([log_one - log_zero, -log_zero])
        return LinearParameters(log_zero.sum(axis=0), naturals, np.exp(log_one))


Bernoulli.row_family = Bernoulli.token_family = BernoulliFamily
