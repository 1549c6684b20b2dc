"""Counts of topics that begin and end: sums over the passes of a chain, and estimates from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...utils._conditions import MOST_COUNTED, Array, Real, Sizes, Whole
from ...utils._declared import Held, holds
from .._tokens.topic_counts import TopicCounts, add_counts


def check_ids(ids: np.ndarray, n_ids: int) -> str | None:
    """What is wrong with the ids of topics, if anything."""
    if (np.diff(ids) <= 0).any() or ids[-1] >= n_ids:
        return "has ids of topics that are not in order"
    return None


def _agree(statistics: HDPStatistics, sizes: Sizes) -> str | None:
    return check_ids(statistics.ids, statistics.n_ids)


@holds(
    _agree,
    n_tables=Array("int64", ("n_components",), low=1, high=MOST_COUNTED),
    counts=Held(TopicCounts),
    ids=Array("int64", ("n_components",), low=0, high=MOST_COUNTED),
    n_passes=Array("int64", ("n_components",), low=1, high=MOST_COUNTED),
    n_ids=Whole(),
    alpha=Real(above=0),
    gamma=Real(above=0),
)
class HDPStatistics(NamedTuple):
    """What passes leave for draws and estimates, for the topics in use after the last of them."""

    counts: TopicCounts
    n_tables: np.ndarray  # (K,) int64
    ids: np.ndarray  # (K,) int64, ascending: a topic keeps its id, while its number may change
    n_passes: np.ndarray  # (K,) int64: passes in which the topic was in use
    n_ids: int  # number of ids that have been used
    alpha: float
    gamma: float


def add_statistics(left: HDPStatistics, right: HDPStatistics) -> HDPStatistics:
    """Sum over the passes of both, of which `right` are the later ones; topics that have ended are dropped."""
    _, at_left, at_right = np.intersect1d(left.ids, right.ids, assume_unique=True, return_indices=True)
    counts = add_counts(_place(left.counts, at_left, at_right, len(right.ids)), right.counts)
    n_tables, n_passes = right.n_tables.copy(), right.n_passes.copy()
    n_tables[at_right] += left.n_tables[at_left]
    n_passes[at_right] += left.n_passes[at_left]
    concentrations = left.alpha + right.alpha, left.gamma + right.gamma
    return HDPStatistics(counts, n_tables, right.ids, n_passes, right.n_ids, *concentrations)


def take_topics(counts: TopicCounts, topics: np.ndarray) -> TopicCounts:
    """The counts of some topics, in this order."""
    return _place(counts, topics, np.arange(len(topics)), len(topics))


def _place(counts: TopicCounts, topics: np.ndarray, places: np.ndarray, n_topics: int) -> TopicCounts:
    """The counts of some topics, with the numbers `places` among `n_topics`."""
    number = np.full(len(counts.totals), -1)
    number[topics] = places
    moved = number[counts.topics]
    kept = moved >= 0
    indptr = np.concatenate(([0], np.cumsum(kept)))[counts.indptr]
    totals = np.zeros(n_topics, counts.totals.dtype)
    totals[places] = counts.totals[topics]
    return TopicCounts(indptr, moved[kept].astype(np.uint16), counts.counts[kept], totals)
