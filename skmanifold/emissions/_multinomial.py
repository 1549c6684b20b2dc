"""Categories with a Dirichlet prior: counts that share one distribution, as of words, and codes by column."""

from __future__ import annotations

from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.special import xlogy
from sklearn.base import BaseEstimator

from ..random._keys import fold_in_each, subkey
from ..random._variates import fill_log_gamma_variates
from ..sparse.counts import Counts, sums_of_rows
from ..utils._conditions import Array
from ..utils._declared import holds
from ..utils._sklearn import Interval
from ..utils._typing import ArrayLike, MatrixLike
from ._base import BaseEmission, dense_topics, positive_prior
from ._linear import (
    PRIOR,
    LinearFamily,
    LinearParameters,
    fill_multinomial,
    linear_family,
    statistics_agree,
)
from ._protocols import Arrays, TokenCounts
from ._rows import LinearRows, read_counts


class Multinomial(BaseEmission):
    r"""Counts of features, multinomial given the component and the row's total: documents and their words.

    .. math:: p(x_i \mid z_i = k) = \prod_v \phi_{kv}^{x_{iv}}, \qquad \phi_k \sim \mathrm{Dir}(\beta).

    This is the probability of the row's tokens in one given order. The multinomial coefficient, the number of such
    orders, is left out here and in all scores of the library: no parameter changes it.

    The statistics of a component are its numbers of tokens :math:`s_{kv}`; the mode in the natural (softmax)
    parameters is

    .. math:: \phi_{kv} = \frac{s_{kv} + \beta_v}{\sum_w (s_{kw} + \beta_w)}.

    Parameters
    ----------
    prior : float or array-like of shape (n_features,), default=0.1
        Positive pseudo-counts :math:`\beta_v`.

    Notes
    -----
    Fractional counts are weights: a mixture takes them as they are, with gamma functions in place of factorials. An
    admixture is fitted to whole tokens, for which they are rounded at random, up with the probability of their fraction
    and with a warning if this moves more than 5% of the sum; its `transform` and `score` take them as they are. Rows
    without tokens are allowed, and tell nothing.

    Examples
    --------
    >>> from skmanifold.emissions import Multinomial
    >>> Multinomial(prior=0.5)
    Multinomial(prior=0.5)
    """

    short_name = "multinomial"
    _parameter_constraints: ClassVar[dict] = {"prior": [Interval(Real, 0, None, closed="neither"), "array-like"]}

    def __init__(self, prior: float | ArrayLike = 0.1) -> None:
        self.prior = prior

    def read(self, estimator: BaseEstimator, X: MatrixLike, *, reset: bool) -> LinearRows:
        """A user's X of counts.

        Parameters
        ----------
        estimator : estimator instance
            It keeps the number and the names of columns, as scikit-learn's validation does.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            As the user gave it.
        reset : bool
            Whether the columns are learned, or compared with those of `fit`.

        Returns
        -------
        rows : LinearRows
            Rows, with ``n_rows``, ``n_features`` and ``log_base``.

        Raises
        ------
        ValueError
            If X has values that the emission does not take.
        """
        return LinearRows(*read_counts(estimator, X, reset=reset, missing=False, emission=self), None)

    def bind(self, rows: LinearRows, n_components: int) -> MultinomialFamily:
        """The family of rows; it remembers how many tokens they have, for rows like them.

        Parameters
        ----------
        rows : LinearRows
            What the emission's `read` returned.
        n_components : int
            Number of components K.

        Returns
        -------
        family : MultinomialFamily
            The family, a `RowFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the rows.
        """
        lengths = np.rint(sums_of_rows(rows, rows.counts)).astype(np.int64)
        return MultinomialFamily(positive_prior(self.prior, rows.n_features, "prior"), n_components, lengths)

    def bind_tokens(
        self, tokens: Counts, n_components: int, word_vectors: ArrayLike | None = None
    ) -> MultinomialFamily:
        """The family of tokens.

        Parameters
        ----------
        tokens : Counts
            What `read_tokens` returned.
        n_components : int
            Number of components K.
        word_vectors : array-like of shape (n_features, n_dims), default=None
            Of emissions whose tokens are vectors: one for each column of X.

        Returns
        -------
        family : MultinomialFamily
            The family, a `TokenFamily` or a `DirichletFamily`.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the tokens.
        """
        return MultinomialFamily(positive_prior(self.prior, tokens.n_features, "prior"), n_components)


_LENGTHS = Array("int64 int32", ("n_lengths",), low=0)
_LEVELS = Array("float64", ("n_lengths",), above=0, high=1)


@holds(
    statistics_agree(1),
    **linear_family(prior=PRIOR),
    lengths=_LENGTHS,
    _levels=_LEVELS,
)
class MultinomialFamily(LinearFamily):
    """Statistics of a row: its counts.

    Parameters
    ----------
    prior : ndarray of shape (n_features,)
        Pseudo-counts.
    n_components : int
    lengths : ndarray of shape (n_rows,), optional
        Numbers of tokens of rows, one of which a new row has.
    """

    def __init__(self, prior: np.ndarray, n_components: int, lengths: np.ndarray | None = None) -> None:
        self.prior = prior
        self.n_components = n_components
        self.n_features = self.n_statistics = len(prior)
        self.lengths, repeated = np.unique([1] if lengths is None else lengths, return_counts=True)
        self._levels = np.cumsum(repeated) / repeated.sum()

    def mode(self, statistics: Arrays) -> LinearParameters:
        """The parameters that are most probable in softmax coordinates.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.

        Returns
        -------
        parameters : LinearParameters
            Parameters of all components.
        """
        cells = statistics[1] + self.prior[:, None]
        return self._parameters(np.log(cells) - np.log(cells.sum(axis=0)))

    def draw(self, statistics: Arrays, key: np.uint64) -> LinearParameters:
        """Probabilities from their Dirichlet laws.

        Parameters
        ----------
        statistics : tuple of ndarray
            Sums over rows or tokens, of the shapes that `shapes` has.
        key : uint64
            Of the random numbers.

        Returns
        -------
        parameters : LinearParameters
            Parameters of all components.
        """
        shapes = statistics[1] + self.prior[:, None]
        logs = np.empty(shapes.shape)
        fill_log_gamma_variates(key, shapes, logs)
        logs -= logs.max(axis=0)
        return self._parameters(logs - np.log(np.exp(logs).sum(axis=0)))

    def log_prior(self, parameters: LinearParameters) -> float:
        """Log of the Dirichlet densities in softmax coordinates.

        Parameters
        ----------
        parameters : LinearParameters
            Parameters of all components.

        Returns
        -------
        log_density : float
            Summed over components, up to a constant.
        """
        return float((self.prior[:, None] * parameters.naturals).sum())

    def highest_log_densities(self, rows: LinearRows) -> np.ndarray:
        """Of probabilities that are the row's shares.

        Parameters
        ----------
        rows : LinearRows
            What the emission's `read` returned.

        Returns
        -------
        log_densities : ndarray of shape (n_rows,)
            In nats.
        """
        totals = sums_of_rows(rows, rows.counts)
        return sums_of_rows(rows, xlogy(rows.counts, rows.counts)) - xlogy(totals, totals)

    def n_parameters(self) -> int:
        """One less than features for each component.

        Returns
        -------
        n_parameters : int
            Of all components together.
        """
        return self.n_components * (self.n_features - 1)

    def sample(self, parameters: LinearParameters, labels: np.ndarray, key: np.uint64) -> np.ndarray:
        """New rows of components `labels`, as long as rows that were fitted.

        Parameters
        ----------
        parameters : LinearParameters
            Parameters of all components.
        labels : ndarray of shape (n_rows,), int32
            Components of the rows.
        key : uint64
            Of the random numbers.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            New rows.
        """
        uniforms = fold_in_each(subkey(key, 0), np.arange(len(labels))) * 2.0**-64
        lengths = self.lengths[np.searchsorted(self._levels[:-1], uniforms, side="right")].astype(np.int64)
        out = np.zeros((len(labels), self.n_features), np.int64)
        probabilities = np.ascontiguousarray(parameters.means.T)
        fill_multinomial(subkey(key, 1), labels, probabilities, np.cumsum(probabilities, axis=1), lengths, out)
        return out

    def statistics_of_tokens(self, counts: TokenCounts) -> Arrays:
        """Statistics of how often each topic took each token.

        Parameters
        ----------
        counts : TokenCounts
            How often each component took each token.

        Returns
        -------
        statistics : tuple of ndarray
            Of the shapes that `shapes` has.
        """
        return np.asarray(counts.totals, dtype=np.float64), dense_topics(counts)

    def token_table(self, parameters: LinearParameters) -> np.ndarray:
        """Log probabilities of tokens, (n_features, K).

        Parameters
        ----------
        parameters : LinearParameters
            Parameters of all components.

        Returns
        -------
        log_densities : ndarray of shape (n_tokens, K)
            In nats.
        """
        return parameters.naturals

    @property
    def token_prior(self) -> np.ndarray:
        """The pseudo-counts."""
        return self.prior

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
        return self._parameters(naturals)

    def _parameters(self, logs: np.ndarray) -> LinearParameters:
        return LinearParameters(np.zeros(logs.shape[1]), logs, np.exp(logs))


class Categorical(BaseEmission):
    r"""Columns of category codes, independent given the component: for `DPCategoricalMixture`.

    .. math:: p(x_i \mid z_i = k) = \prod_{c \text{ observed}} \theta_{k c x_{ic}}, \qquad
        \theta_{kc} \sim \mathrm{Dir}(a, \dots, a).

    Codes are whole numbers from 0, NaN where a cell is missing. Other estimators refuse this emission.

    Parameters
    ----------
    prior : float, default=0.5
        Positive pseudo-count a of each category.

    Examples
    --------
    >>> from skmanifold.emissions import Categorical
    >>> Categorical(prior=1.0)
    Categorical(prior=1.0)
    """

    short_name = "categorical"
    allows_missing = True
    allows_sparse = False
    has_codes = True
    _parameter_constraints: ClassVar[dict] = {"prior": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, prior: float = 0.5) -> None:
        self.prior = prior
