"""New rows of tokens: proportions, components of tokens given these, values given both; and draws from priors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...emissions._linear import fill_multinomial, fill_poisson
from ...random._keys import Purpose, fold_in_each, root_key, subkey
from ...random._variates import fill_log_gamma_variates
from ...topics.topic_word import TopicWord, topic_word_from_array
from ...utils._threads import limit_threads, split_range
from ...utils._typing import ArrayLike, RandomStateLike
from ...utils._validation import check_prior_sizes
from .topic_counts import TopicPrior

_TO_UNIT = 2.0**-64
_CELLS_AT_ONCE = 1 << 20


def draw_dirichlet(shapes: np.ndarray, key: np.uint64) -> np.ndarray:
    """Draw from a Dirichlet distribution for each row of `shapes`, (n, V)."""
    logs = _log_gammas(shapes, key)
    out = np.exp(logs - logs.max(axis=1, keepdims=True))
    return out / out.sum(axis=1, keepdims=True)


def draw_proportions(prior: np.ndarray, n_samples: int, key: np.uint64) -> np.ndarray:
    """Draw proportions of new rows from their Dirichlet prior, (n_samples, K)."""
    return draw_dirichlet(np.tile(prior, (n_samples, 1)), key)


def draw_intensities(prior: np.ndarray, rate: float, n_samples: int, key: np.uint64) -> np.ndarray:
    """Draw intensities of new rows from their gamma prior, (n_samples, K)."""
    return np.exp(_log_gammas(np.tile(prior, (n_samples, 1)), key)) / rate


def _log_gammas(shapes: np.ndarray, key: np.uint64) -> np.ndarray:
    out = np.empty(shapes.shape)
    fill_log_gamma_variates(key, np.ascontiguousarray(shapes, dtype=np.float64), out)
    return out


def draw_totals(intensities: np.ndarray, key: np.uint64) -> np.ndarray:
    """Draw numbers of tokens of each component from Poisson distributions with these means, (n_samples, K)."""
    out = np.empty(intensities.shape, np.int64)
    fill_poisson(key, np.arange(len(out), dtype=np.int32), intensities, out)
    return out


def share_tokens(proportions: np.ndarray, lengths: np.ndarray, key: np.uint64) -> np.ndarray:
    """Draw numbers of tokens of each component, whose sums are `lengths`, (n_samples, K)."""
    out = np.zeros(proportions.shape, np.int64)
    levels = np.cumsum(proportions, axis=1)
    fill_multinomial(key, np.arange(len(out), dtype=np.int32), proportions, levels, lengths, out)
    return out


def components_of_tokens(totals: np.ndarray) -> np.ndarray:
    """The component of each token, row by row, given the numbers of tokens of each component, (n_tokens,)."""
    n_samples, n_components = totals.shape
    return np.repeat(np.tile(np.arange(n_components, dtype=np.int32), n_samples), totals.ravel())


def draw_words(topics: TopicWord, totals: np.ndarray, key: np.uint64) -> sp.csr_array:
    """Draw counts of words, given the numbers of tokens of each component in the rows."""
    of_token = components_of_tokens(totals)
    uniforms = fold_in_each(key, np.arange(len(of_token))) * _TO_UNIT
    by_component = np.argsort(of_token, kind="stable")
    stops = np.cumsum(totals.sum(axis=0))
    columns, of_base = topics.tocsr().tocsc(), np.cumsum(topics.base)
    words = np.empty(len(of_token), np.int32)
    for k, (start, stop) in enumerate(zip(np.append(0, stops), stops, strict=False)):
        tokens = by_component[start:stop]
        sparse = slice(columns.indptr[k], columns.indptr[k + 1])
        # The words of the sparse part, then those of the smoothing part
        levels = np.concatenate([np.cumsum(columns.data[sparse]), topics.inverse[k] * of_base])
        n_sparse = sparse.stop - sparse.start
        levels[n_sparse:] += levels[n_sparse - 1] if n_sparse else 0.0
        found = np.searchsorted(levels, uniforms[tokens] * levels[-1], side="right")
        found = np.minimum(found, np.searchsorted(levels, levels[-1]))  # a uniform variate may be rounded to 1
        values = np.concatenate([columns.indices[sparse], np.arange(topics.n_features)])
        words[tokens] = values[found]
    rows = np.repeat(np.arange(len(totals)), totals.sum(axis=1))
    shape = len(totals), topics.n_features
    counts = sp.coo_array((np.ones(len(words), np.int64), (rows, words)), shape=shape).tocsr()
    counts.sum_duplicates()
    return counts


def word_probabilities(tokens: Any, position: Any) -> TopicWord:
    """Probabilities of words given each component; densities of a user-defined family are normalised."""
    if isinstance(position, TopicWord):
        return position
    table = tokens.family.token_table(position)
    return topic_word_from_array(np.exp(table - table.max(axis=0)).T)


def draw_cells(log_table: np.ndarray, proportions: np.ndarray, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Draw one value for each column of the rows, each with its own component.

    Parameters
    ----------
    log_table : ndarray of shape (n_features, n_values, K)
        Log probabilities of the values of each column.
    proportions : ndarray of shape (n_samples, K)
        Proportions of the rows.
    key : uint64

    Returns
    -------
    values : ndarray of shape (n_samples, n_features), int64
        Numbers from 0 to ``n_values - 1``.
    totals : ndarray of shape (n_samples, K), int64
        Number of cells of each component.
    """
    n_features, n_values, K = log_table.shape
    levels = np.cumsum(np.exp(log_table), axis=1).transpose(0, 2, 1)
    values, totals = np.empty((len(proportions), n_features), np.int64), np.empty(proportions.shape, np.int64)
    for start, stop in split_range(len(values), max(1, _CELLS_AT_ONCE // (n_features * max(n_values, K)))):
        cells = np.arange(start * n_features, stop * n_features)
        of_labels, of_values = (
            (fold_in_each(subkey(key, use), cells) * _TO_UNIT).reshape(stop - start, n_features, 1)
            for use in (Purpose.LABELS, Purpose.ROWS)
        )
        shares = np.cumsum(proportions[start:stop], axis=1)[:, np.newaxis]
        labels = (of_labels * shares[..., -1:] >= shares[..., :-1]).sum(axis=2)
        totals[start:stop] = (labels[..., np.newaxis] == np.arange(K)).sum(axis=1)
        chosen = levels[np.arange(n_features), labels]
        values[start:stop] = (of_values * chosen[..., -1:] >= chosen[..., :-1]).sum(axis=2)
    return values, totals


class NewRows(NamedTuple):
    """Rows, their proportions or intensities, and their numbers of tokens of each component, both (n_samples, K)."""

    X: Any
    proportions: np.ndarray
    totals: np.ndarray


class PriorOfRows(NamedTuple):
    """What rows are drawn from, given parameters of the components."""

    emission: Any  # an instance or a class: what the tokens are
    tokens: Any  # TopicPrior or FamilyTokens
    doc_topic_prior: np.ndarray  # (K,): of the proportions or intensities
    rate: float | None = None  # of the intensities, if the emission has random totals


def draw_rows(prior: PriorOfRows, position: Any, lengths: np.ndarray, key: np.uint64) -> NewRows:
    """Draw rows given the parameters of the components; of topics these are a `TopicWord`.

    The rows have `lengths` tokens, (n_samples,), unless the emission has random totals or one token per column.
    """
    emission, tokens, alpha, rate = prior
    of_rows, of_labels, of_values = (subkey(key, use) for use in (Purpose.SHARES, Purpose.LABELS, Purpose.ROWS))
    if emission.has_random_totals:
        assert rate is not None
        proportions = draw_intensities(alpha, rate, len(lengths), of_rows)
        totals = draw_totals(proportions, of_labels)
    else:
        proportions = draw_proportions(alpha, len(lengths), of_rows)
        if emission.has_missing_tokens:
            table = tokens.family.token_table(position)
            table = table.reshape(-1, emission.tokens_of_column, table.shape[1])
            values, totals = draw_cells(table, proportions, of_values)
            return NewRows(values, proportions, totals)
        totals = share_tokens(proportions, lengths, of_labels)
    if not emission.has_vector_tokens:
        return NewRows(draw_words(word_probabilities(tokens, position), totals, of_values), proportions, totals)
    with limit_threads("blas"):  # other numbers of threads round otherwise
        vectors = tokens.family.sample(position, components_of_tokens(totals), of_values)
    return NewRows(np.split(vectors, np.cumsum(totals.sum(axis=1))[:-1]), proportions, totals)


class DrawsTokensFromPrior:
    """The method `sample_prior` of an admixture of tokens; not public."""

    _purpose_of_components: int = Purpose.TOPICS

    def sample_prior(
        self,
        n_samples: int = 1,
        n_features: int | None = None,
        *,
        n_tokens: ArrayLike = 100,
        random_state: RandomStateLike = None,
        return_parameters: bool = False,
    ) -> Any:
        """Draw components, such as topics, and proportions from the prior, and rows given these.

        Use it to see what data the prior expects, or for simulation-based calibration
        (:func:`~skmanifold.metrics.calibration_ranks`).

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        n_features : int, default=None
            Number of columns, or for the emission "gaussian" of dimensions. Hyperparameters are then those of the
            constructor, and none may depend on data. None means a fitted estimator: its columns and the hyperparameters
            of the fit.
        n_tokens : int or array-like of shape (n_samples,), default=100
            Number of tokens of each row. For the emission "poisson" it is random, for "bernoulli" that of the columns.
        random_state : int, RandomState instance or None, default=None
        return_parameters : bool, default=False
            Whether to return the parameters too.

        Returns
        -------
        X : csr_array or ndarray of shape (n_samples, n_features), or list of ndarray of shape (n_tokens, n_dims)
            Counts, or for the emission "bernoulli" zeros and ones. For "gaussian" each row is an array with the vectors
            of its tokens.
        parameters : dict of str to ndarray
            Only if `return_parameters` is True: the components with their weights and concentrations, with names and
            shapes as in ``posterior_``; ``"doc_topic"``, the proportions, or for "poisson" the intensities; and
            ``"doc_topic_counts"``, the number of tokens of each component in each row, both of shape (n_samples,
            n_components). If the number of topics is inferred, ``"n_components"`` is the number of those with tokens,
            and the proportions are integrated out: tokens share tables, and tables share topics, as in the Chinese
            restaurant franchise.

        Raises
        ------
        ValueError
            If a number is not valid, or a hyperparameter depends on the data and `n_features` is given.
        IncompatibleError
            If the emission does not draw parameters and rows.
        NotFittedError
            If `n_features` is None and the estimator is not fitted.
        """
        check_prior_sizes(self, n_samples, n_features)
        X, parameters = self._draw_from_prior(n_features, _lengths(n_tokens, n_samples), root_key(random_state))
        return (X, parameters) if return_parameters else X

    def _prior_of_rows(self, n_features: int | None) -> PriorOfRows:
        """The prior of the fit, or that of the constructor for a number of columns."""
        raise NotImplementedError

    def _draw_from_prior(self, n_features: int | None, lengths: np.ndarray, key: np.uint64) -> tuple[Any, dict]:
        """Rows with these numbers of tokens, and the parameters."""
        prior = self._prior_of_rows(n_features)
        tokens, key_of_components = prior.tokens, subkey(key, self._purpose_of_components)
        if isinstance(tokens, TopicPrior):
            shapes = np.broadcast_to(tokens.values, (len(tokens.totals), len(tokens.base)))
            parameters = {"components": draw_dirichlet(shapes, key_of_components)}
            position: Any = topic_word_from_array(parameters["components"])
        else:
            with limit_threads("blas"):
                position = tokens.family.draw(tuple(map(np.zeros, tokens.family.shapes())), key_of_components)
            parameters = tokens.record(position)
        rows = draw_rows(prior, position, lengths, key)
        totals = rows.totals.sum(axis=0)
        shares = {"topic_weights": totals / max(1, totals.sum()), "doc_topic": rows.proportions}
        return rows.X, {**parameters, **shares, "doc_topic_counts": rows.totals}


def _lengths(n_tokens: ArrayLike, n_samples: int) -> np.ndarray:
    """Numbers of tokens of the rows, (n_samples,) int64, from a parameter; a ValueError if they are not valid."""
    lengths = np.asarray(n_tokens)
    if lengths.dtype.kind not in "iu" or lengths.shape not in ((), (n_samples,)) or lengths.min(initial=0) < 0:
        raise ValueError(
            f"n_tokens must be a non-negative int or an array of {n_samples} of them, one for each document; got "
            f"{n_tokens!r}."
        )
    return np.full(n_samples, lengths, np.int64)
