"""What counts and laws of topics must be, where they come from a file."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..models._topic_word import TopicWord
from ..utils._array_checks import check_array_is, check_finite, check_lists
from ._log_topics import LogTopics
from ._topic_counts import TopicCounts


def check_topic_counts(counts: Any, n_components: int, n_features: int) -> None:
    """Raise a ValueError unless these are whole counts of so many topics and words, with their totals."""
    if not isinstance(counts, TopicCounts):
        raise ValueError(f"a {type(counts).__name__} is no TopicCounts")
    name = "a table of counts"
    check_array_is(name, counts.topics, (np.uint16,), (None,))
    check_array_is(name, counts.counts, (np.int32, np.int64), counts.topics.shape)
    check_array_is(name, counts.totals, (np.int64,), (n_components,))
    check_lists(name, counts.indptr, counts.topics, n_features, n_components)
    check_finite(name, counts.counts, 1)
    totals = np.zeros(n_components, np.int64)
    np.add.at(totals, counts.topics, counts.counts)
    if np.any(totals != counts.totals):
        raise ValueError(f"{name} does not have the sums that it says")


def check_topic_word(topics: Any, n_components: int, n_features: int) -> None:
    """Raise a ValueError unless this is the sparse law of so many topics and words."""
    if not isinstance(topics, TopicWord):
        raise ValueError(f"a {type(topics).__name__} is no TopicWord")
    name = "a topic-word matrix"
    check_array_is(name, topics.topics, (np.uint16,), (None,))
    check_array_is(name, topics.weights, (np.float32,), topics.topics.shape)
    check_array_is(name, topics.base, (np.float64,), (n_features,))
    check_array_is(name, topics.inverse, (np.float64,), (n_components,))
    check_lists(name, topics.indptr, topics.topics, n_features, n_components)
    for array in (topics.weights, topics.base, topics.inverse):
        check_finite(name, array, 0.0)


def check_log_topics(topics: Any, n_components: int, n_features: int) -> None:
    """Raise a ValueError unless this is a draw of so many topics and words."""
    if not isinstance(topics, LogTopics):
        raise ValueError(f"a {type(topics).__name__} is no LogTopics")
    name = "a draw of the topics"
    check_array_is(name, topics.log_weights, (np.float32, np.float64), (n_features, n_components))
    check_array_is(name, topics.log_normalisers, (np.float64,), (n_components,))
    check_finite(name, topics.log_normalisers)
    if not np.all(topics.log_weights < np.inf):  # NaN neither
        raise ValueError(f"{name} has numbers that it cannot have")
