"""Emission of counts given their total, with a Dirichlet prior."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import xlogy
from sklearn.base import BaseEstimator

from ..random._keys import subkey
from ..sparse.counts import Counts, sums_of_rows
from ..utils._typing import ArrayLike, MatrixLike
from ._base import POSITIVE_PRIOR, WeighableEmission, dense_topics, positive_prior
from ._categories import CategoryFamily
from ._cells import Tokens
from ._linear import PRIOR, fill_multinomial
from ._linear_rows import LENGTHS, LEVELS, LinearRows, distinct_lengths, draw_lengths, read_counts
from ._protocols import Arrays, TokenCounts

_ONE = np.ones(1, np.int64)  # number of tokens


class MultinomialFamily(CategoryFamily):
    """Family of multinomial rows and tokens, whose statistics are the counts of a row; `prior` has pseudo-counts.

    The number of tokens of a new row is drawn from `lengths`, (n_rows,), by `row_weights`.
    """

    prior: Annotated[np.ndarray, PRIOR]
    lengths: Annotated[np.ndarray, LENGTHS]
    _levels: Annotated[np.ndarray, LEVELS]

    def __init__(
        self, prior: np.ndarray, n_components: int, lengths: np.ndarray = _ONE, row_weights: np.ndarray | None = None
    ) -> None:
        self.prior = prior
        self.n_components = n_components
        self.n_features = len(prior)
        self.lengths, self._levels = distinct_lengths(lengths, row_weights)

    @property
    def column_start(self) -> np.ndarray:  # type: ignore[override]
        """All categories belong to one column."""
        return np.array([0, self.n_features], np.int64)

    def _attributes(self, probabilities: np.ndarray) -> dict[str, Any]:
        return {"components_": np.ascontiguousarray(probabilities.T)}

    def highest_log_densities(self, rows: LinearRows) -> np.ndarray:
        """Log densities with probabilities that equal the proportions of the row's counts."""
        totals = sums_of_rows(rows, rows.counts)
        return sums_of_rows(rows, xlogy(rows.counts, rows.counts)) - xlogy(totals, totals)

    def token_distribution(self, attributes: dict[str, Any]) -> Tokens:
        """The distribution of one token of components with these attributes."""
        return Tokens(attributes["components_"])

    def sample(self, parameters: np.ndarray, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """Draw new rows from given components, with numbers of tokens that occur in the fitted rows."""
        lengths = draw_lengths(self.lengths, self._levels, len(labels), subkey(key, 0))
        out = np.zeros((len(labels), self.n_features), np.int64)
        probabilities = np.ascontiguousarray(np.exp(parameters).T)
        fill_multinomial(subkey(key, 1), labels, probabilities, np.cumsum(probabilities, axis=1), lengths, out)
        return out

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics from counts of tokens by component."""
        return np.asarray(counts.totals, dtype=np.float64), dense_topics(counts)

    def token_table(self, parameters: np.ndarray) -> np.ndarray:
        """Log probability of each token given each component."""
        return parameters

    @property
    def token_prior(self) -> np.ndarray:
        """The pseudo-counts."""
        return self.prior


class Multinomial(WeighableEmission):
    r"""Counts of features, multinomial given the component and the row's total, such as words of documents.

    .. math:: p(x_i \mid z_i = k) = \prod_v \phi_{kv}^{x_{iv}}, \qquad \phi_k \sim \mathrm{Dir}(\beta).

    This is the probability of the row's tokens in one given order. The multinomial coefficient, the number of such
    orders, does not depend on the parameters; all scores of the library leave it out.

    The statistics of a component are its numbers of tokens :math:`s_{kv}`; the mode in the natural (softmax)
    parameters is

    .. math:: \phi_{kv} = \frac{s_{kv} + \beta_v}{\sum_w (s_{kw} + \beta_w)}.

    Parameters
    ----------
    category_prior : float or array-like of shape (n_features,), default=0.1
        Positive pseudo-counts :math:`\beta_v` of the features. `StochasticLDA` calls them `topic_word_prior`.

    Notes
    -----
    Fractional counts are weights: a mixture uses them as they are. An admixture is fitted to whole tokens. It rounds
    counts at random, up with the probability of their fraction, and warns if this changes more than 5% of the sum. Its
    `transform` and `score` use fractions as they are. Rows without tokens are allowed, and contain no information.

    Examples
    --------
    >>> from skmanifold.emissions import Multinomial
    >>> Multinomial(category_prior=0.5)
    Multinomial(category_prior=0.5)
    """

    short_name = "multinomial"
    row_family = token_family = MultinomialFamily
    _parameter_constraints: ClassVar[dict] = {"category_prior": POSITIVE_PRIOR}

    def __init__(self, category_prior: float | ArrayLike = 0.1) -> None:
        self.category_prior = category_prior

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
        """Validate X of counts."""
        return LinearRows(*read_counts(estimator, X, reset=reset, missing=False, emission=self), None)

    def prior_family(self, n_features: int, n_components: int, n_tokens: int) -> MultinomialFamily:
        """Make a family whose hyperparameters do not depend on rows."""
        prior = positive_prior(self.category_prior, n_features, "category_prior")
        return MultinomialFamily(prior, n_components, np.full(1, n_tokens, np.int64))

    def bind_weighted(self, rows: LinearRows, n_components: int, row_weights: np.ndarray | None) -> MultinomialFamily:
        """Make the family of rows; `sample` draws their numbers of tokens in proportion to their weights."""
        lengths = np.rint(sums_of_rows(rows, rows.counts)).astype(np.int64)
        prior = positive_prior(self.category_prior, rows.n_features, "category_prior")
        return MultinomialFamily(prior, n_components, lengths, row_weights)

    def bind_tokens(
        self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None
    ) -> MultinomialFamily:
        """Make the family of tokens."""
        return self.prior_family(tokens.n_features, n_components, 1)
