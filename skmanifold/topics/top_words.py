"""Top words of topics, for estimators and displays."""

from __future__ import annotations

from numbers import Integral, Number
from typing import Any, NamedTuple

import numpy as np

from ..utils._inputs.column_order import names_by_position
from ..utils._typing import ArrayLike
from .topic_word import TopicWord


class TopicWords(NamedTuple):
    """The top words of a topic with signs, and their entries, the largest in absolute value first."""

    positive: list[tuple[Any, float]]
    negative: list[tuple[Any, float]]


def column_names(estimator: Any, n_features: int, feature_names: ArrayLike | None) -> np.ndarray:
    """Names of the columns, (n_features,): the given names, or those of the estimator, or their numbers."""
    known = getattr(estimator, "feature_names_in_", None)
    if feature_names is None:
        return names_by_position(range(n_features) if known is None else known, n_features)
    names = names_by_position(feature_names, n_features)
    if known is not None and not np.array_equal(names, known) and set(names) == set(known):
        raise ValueError(
            "feature_names has the names of the columns of X in another order: leave it out, since the names of X are "
            "used by default."
        )
    return names


def top_columns(entries: np.ndarray, n_words: int) -> np.ndarray:
    """Columns of the largest entries of each topic, at most `n_words`, largest first, ties by column."""
    if not isinstance(n_words, Integral):
        advice = "" if isinstance(n_words, Number) else ": pass names of columns as feature_names"
        raise TypeError(f"n_words must be a whole number; got a {type(n_words).__name__}{advice}.")
    if n_words < 1:
        raise ValueError(f"n_words must be at least 1; got {n_words}.")
    return find_top_words(entries, min(n_words, entries.shape[1]))


def top_words_by_sign(entry: np.ndarray, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the largest positive and the most negative entries of a topic, by absolute value, descending."""
    high, low = top_columns(np.array([entry, -entry]), n_words)
    return high[entry[high] > 0], low[entry[low] < 0]


def find_top_words(topic_word: ArrayLike | TopicWord, n_top_words: int) -> np.ndarray:
    """Columns of each topic's largest entries, largest first, ties by column; of shape (n_components, n_top_words)."""
    if not isinstance(topic_word, TopicWord):
        rows = np.asarray(topic_word)
        columns = np.arange(rows.shape[1])
        return np.array([_take_top(row, columns, n_top_words) for row in rows])
    by_topic, base = topic_word.tocsr().tocsc(), topic_word.base
    # Words without an entry in the topic cannot be larger than these.
    smooth_words = _take_top(base, np.arange(len(base)), n_top_words)
    out = np.empty((topic_word.n_components, n_top_words), dtype=np.int64)
    for k in range(topic_word.n_components):
        entry = slice(by_topic.indptr[k], by_topic.indptr[k + 1])
        own_words = by_topic.indices[entry]
        others = np.setdiff1d(smooth_words, own_words)
        columns = np.concatenate((own_words, others))
        values = base[columns] * topic_word.inverse[k]
        values[: len(own_words)] += by_topic.data[entry]
        out[k] = _take_top(values, columns, n_top_words)
    return out


def _take_top(values, columns, n_top):
    """The `n_top` columns of the largest values, largest first, ties by column."""
    least = np.partition(values, len(values) - n_top)[len(values) - n_top]
    near = np.flatnonzero(values >= least)
    return columns[near[np.lexsort((columns[near], -values[near]))[:n_top]]]
