"""The topics of the tokens at the start of a chain."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ...random._keys import fold_in, fold_in_each, uniform
from ...utils._njit import njit
from ...utils._threads import Workers
from .._posterior.inference import TopicInference
from .._tokens.document_gibbs import Documents, make_word_table, sample_documents

_TOKENS_PER_TOPIC = 16  # the initial number of topics is the square root of the number of tokens, divided by four
_LEAST_TOPICS = 10
_SWEEPS = 5  # with the topics of another estimator

Start = Callable[[Documents, int, Workers, np.uint64], np.ndarray]


def start_of(init: Any, n_tokens: int, n_features: int, max_topics: int) -> tuple[Start, int]:
    """The start that `init` describes for a corpus, and about how many topics it has.

    ValueError if there are more than `max_topics`, or if the topics of an estimator are of other words.
    """
    if isinstance(init, str):
        n_topics = max(_LEAST_TOPICS, round(math.sqrt(n_tokens / _TOKENS_PER_TOPIC)))
        init = min(n_topics, n_tokens, max_topics)
    if isinstance(init, int | np.integer):
        _check_number(int(init), max_topics, "init")
        return _RandomStart(int(init)), int(init)
    fitted = init.estimator if isinstance(init, FrozenEstimator) else init
    if not isinstance(fitted, TopicInference):
        raise ValueError(f"init must be 'auto', a number or a fitted StochasticLDA; got {init!r}.")
    check_is_fitted(fitted)
    if fitted.n_features_in_ != n_features:
        raise ValueError(f"init has topics of {fitted.n_features_in_} words, but X has {n_features} columns.")
    topics = fitted._parameters.toarray(np.float64)
    _check_number(len(topics), max_topics, "the estimator in init")
    return _StartFromTopics(topics, fitted.doc_topic_prior_), len(topics)


def _check_number(n_topics: int, max_topics: int, who: str) -> None:
    if n_topics > max_topics:
        raise ValueError(f"{who} has {n_topics} topics, more than max_components={max_topics}.")


class _RandomStart:
    """Uniformly random topics."""

    def __init__(self, n_topics: int):
        self.n_topics = n_topics

    def __call__(self, documents: Documents, first_row: int, workers: Workers, key: np.uint64) -> np.ndarray:
        """The topic of each token, uint16."""
        topics = np.empty(documents.token_start[-1], np.uint16)
        _draw_uniform(documents.token_start, first_row, self.n_topics, key, topics)
        return topics


@njit(cache=True)
def _draw_uniform(token_start, first_row, n_topics, key, out):
    for row in range(len(token_start) - 1):
        row_key = fold_in(key, first_row + row)
        for token in range(token_start[row], token_start[row + 1]):
            out[token] = min(np.int64(uniform(row_key, token - token_start[row]) * n_topics), n_topics - 1)


class _StartFromTopics:
    """Topics drawn given those of a fitted estimator."""

    def __init__(self, topics: np.ndarray, doc_topic_prior: np.ndarray):
        with np.errstate(divide="ignore"):
            self.log_topics = np.log(topics.T)
        self.doc_topic_prior = doc_topic_prior

    def __call__(self, documents: Documents, first_row: int, workers: Workers, key: np.uint64) -> np.ndarray:
        """The topic of each token, uint16."""
        alpha = self.doc_topic_prior
        table = make_word_table(self.log_topics, np.zeros(len(alpha)), alpha, workers)
        row_keys = fold_in_each(key, np.arange(first_row, first_row + len(documents.token_start) - 1))
        return sample_documents(
            documents, table, alpha, row_keys, n_burn_in=_SWEEPS, n_kept=1, workers=workers
        ).token_topics
