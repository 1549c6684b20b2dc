"""Lossless packing of counts of topics, and of topics made of counts, for communication: three bytes per count."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...topics.topic_word import TopicWord
from ...utils._njit import njit
from .compact_counts import PackedCounts, pack, unpack
from .model import TopicsOfPass
from .topic_counts import TopicCounts, _weigh


class PackedTopics(NamedTuple):
    """A `TopicWord`, represented by the counts from which it was computed."""

    counts: PackedCounts  # without totals
    base: np.ndarray  # (V,) float64
    inverse: np.ndarray  # (K,) float64


def pack_travelling(value: Any) -> Any:
    """Pack whole counts, and topics made of whole counts; other objects are returned unchanged."""
    if isinstance(value, TopicsOfPass):
        return value._replace(topics=pack_travelling(value.topics))
    if isinstance(value, TopicCounts) and np.issubdtype(value.counts.dtype, np.integer):
        return pack(value)
    return pack_topics(value) if isinstance(value, TopicWord) else value


def unpack_travelling(value: Any) -> Any:
    """The exact inverse of `pack_travelling`."""
    if isinstance(value, TopicsOfPass):
        return value._replace(topics=unpack_travelling(value.topics))
    if isinstance(value, PackedCounts):
        return unpack(value)
    return unpack_topics(value) if isinstance(value, PackedTopics) else value


def pack_topics(topics: TopicWord) -> PackedTopics | TopicWord:
    """Topics by their counts, if these determine all weights exactly; a prior with seed words may prevent it."""
    counts = np.empty(len(topics.weights), np.int32)
    if not _find_counts(topics.topics, topics.weights, topics.inverse, 1.0 / topics.inverse, counts):
        return topics
    whole = TopicCounts(topics.indptr, topics.topics, counts, np.empty(0, np.int64))
    return PackedTopics(pack(whole), topics.base, topics.inverse)


def unpack_topics(packed: PackedTopics) -> TopicWord:
    """The exact inverse of `pack_topics`."""
    indptr, topics, counts, _ = unpack(packed.counts)
    return TopicWord(indptr, topics, _weigh(topics, counts, packed.inverse), packed.base, packed.inverse)


@njit(cache=True, nogil=True)
def _find_counts(topics, weights, inverse, totals, out):
    """Whether every weight is that of a whole count; the counts are written to `out`."""
    is_whole = True  # without an early exit, so that the loop can be vectorized
    for j in range(len(weights)):
        topic = np.uint64(topics[j])
        count = np.rint(weights[j] * totals[topic])
        is_whole &= (count >= 0.0) & (count < 2147483648.0) & (np.float32(count * inverse[topic]) == weights[j])
        out[j] = np.int32(count)
    return is_whole
