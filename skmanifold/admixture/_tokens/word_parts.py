"""Counts of topics, divided by words among the workers of a cluster, which merge them."""

from __future__ import annotations

import numpy as np

from ...utils._njit import njit
from .topic_counts import TopicCounts


def cut_words(counts: TopicCounts, n: int) -> list[TopicCounts]:
    """Part i has the words i, i + n, i + 2 n and so on: about the same number of counts in each part."""
    n = max(1, min(n, len(counts.indptr) - 1))
    return [_take_words(counts, first, n) for first in range(n)] if n > 1 else [counts]


def join_words(parts: list[TopicCounts]) -> TopicCounts:
    """The inverse of `cut_words`."""
    if len(parts) == 1:
        return parts[0]
    totals = np.sum([part.totals for part in parts], axis=0)
    n_topics = np.zeros(sum(len(part.indptr) - 1 for part in parts) + 1, np.int64)
    for first, part in enumerate(parts):
        n_topics[1 + first :: len(parts)] = np.diff(part.indptr)
    indptr = np.cumsum(n_topics)
    topics = np.empty(indptr[-1], np.uint16)
    kind = np.result_type(*(part.counts.dtype for part in parts))
    if kind == np.int32 and totals.sum() > np.iinfo(np.int32).max:  # as `add_counts` does
        kind = np.dtype(np.int64)
    counts = np.empty(indptr[-1], kind)
    for first, part in enumerate(parts):
        _put(part.indptr, part.topics, part.counts, first, len(parts), indptr, topics, counts)
    return TopicCounts(indptr, topics, counts, totals)


def _take_words(counts: TopicCounts, first: int, step: int) -> TopicCounts:
    n_topics = np.diff(counts.indptr)[first::step]
    indptr = np.concatenate(([0], np.cumsum(n_topics)))
    topics = np.empty(indptr[-1], np.uint16)
    taken = np.empty(indptr[-1], counts.counts.dtype)
    totals = np.zeros_like(counts.totals)
    _take(counts.indptr, counts.topics, counts.counts, first, step, indptr, topics, taken, totals)
    return TopicCounts(indptr, topics, taken, totals)


@njit(cache=True, nogil=True)
def _take(indptr, topics, counts, first, step, out_indptr, out_topics, out_counts, out_totals):
    for i in range(len(out_indptr) - 1):
        begin, end = indptr[first + i * step], indptr[first + i * step + 1]
        out = out_indptr[i]
        for j in range(end - begin):
            out_topics[out + j] = topics[begin + j]
            out_counts[out + j] = counts[begin + j]
            out_totals[np.uint64(topics[begin + j])] += counts[begin + j]


@njit(cache=True, nogil=True)
def _put(indptr, topics, counts, first, step, out_indptr, out_topics, out_counts):
    for i in range(len(indptr) - 1):
        begin, out = indptr[i], out_indptr[first + i * step]
        for j in range(indptr[i + 1] - begin):
            out_topics[out + j] = topics[begin + j]
            out_counts[out + j] = counts[begin + j]
