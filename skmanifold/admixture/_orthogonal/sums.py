"""Sums of topics over passes in which their number changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics import match_topics
from .._spherical.passes import TopicStatistics


class TopicSums(NamedTuple):
    """Topics added up over passes, for each number of topics by itself."""

    by_number: dict[int, tuple[np.ndarray, int]]  # number of topics: their sum, (K, V), and the passes in it

    @property
    def modal(self) -> int:
        """The number of topics of most passes; of several, the least."""
        return max(sorted(self.by_number), key=lambda number: self.by_number[number][1])

    @property
    def probabilities(self) -> np.ndarray:
        """Shares of the passes with 0, 1, 2, ... topics."""
        counts = np.zeros(max(self.by_number) + 1)
        for number, (_, n) in self.by_number.items():
            counts[number] = n
        return counts / counts.sum()


def as_sums(value: TopicStatistics | TopicSums, n: int = 1) -> TopicSums:
    """What `n` passes with one number of topics left, as such sums."""
    return value if isinstance(value, TopicSums) else TopicSums({len(value.topics): (value.topics, n)})


def add_by_number(left: TopicStatistics | TopicSums, right: TopicStatistics | TopicSums) -> TopicSums:
    """Both sums in one.

    Topics are born and die at any place, so that two passes with as many topics may have them in another order: those
    of the right one are matched to the left one's.
    """
    sums = dict(as_sums(left).by_number)
    for number, (topics, n) in as_sums(right).by_number.items():
        if number in sums:
            total, m = sums[number]
            topics, n = total + topics[match_topics(total, topics).other], m + n
        sums[number] = topics, n
    return TopicSums(sums)
