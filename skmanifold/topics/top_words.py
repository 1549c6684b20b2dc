"""The words of topics, from the top: for estimators and pictures."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..metrics._coherence import find_top_words
from ..utils._typing import ArrayLike


class TopicWords(NamedTuple):
    """What describes a topic with signs: words and their entries, the largest in absolute value first."""

    positive: list[tuple[Any, float]]
    negative: list[tuple[Any, float]]


def column_names(estimator: Any, n_features: int, feature_names: ArrayLike | None) -> Any:
    """Names of the columns: those given, or the estimator's, or their numbers."""
    names: Any = getattr(estimator, "feature_names_in_", range(n_features)) if feature_names is None else feature_names
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names for {n_features} features.")
    return names


def top_columns(entries: np.ndarray, n_words: int) -> np.ndarray:
    """Columns of each topic's largest entries, largest first, ties by column: at most `n_words` of each."""
    if n_words < 1:
        raise ValueError(f"n_words must be at least 1; got {n_words}.")
    return find_top_words(entries, min(n_words, entries.shape[1]))


def top_words_by_sign(entry: np.ndarray, n_words: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a topic's largest positive entries and of its most negative ones, the largest in size first."""
    high, low = top_columns(np.array([entry, -entry]), n_words)
    return high[entry[high] > 0], low[entry[low] < 0]
