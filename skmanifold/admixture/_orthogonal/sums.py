"""Sums of topics over passes in which their number changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics import match_topics
from .._spherical.passes import TopicStatistics


class TopicSums(NamedTuple):
    """Sums of topics over passes, separately for each number of topics."""

    by_number: dict[int, tuple[np.ndarray, int]]  # number of topics -> sum of the topics, (K, V), and number of passes

    @property
    def modal(self) -> int:
        """Most frequent number of topics; the smallest if several are equally frequent."""
        return max(sorted(self.by_number), key=lambda number: self.by_number[number][1])

    @property
    def probabilities(self) -> np.ndarray:
        """Relative frequencies of passes with 0, 1, 2, ... topics."""
        counts = np.zeros(max(self.by_number) + 1)
        for number, (_, n) in self.by_number.items():
            counts[number] = n
        return counts / counts.sum()


def as_sums(value: TopicStatistics | TopicSums, n: int = 1) -> TopicSums:
    """Convert the statistics of `n` passes with the same number of topics to `TopicSums`."""
    return value if isinstance(value, TopicSums) else TopicSums({len(value.topics): (value.topics, n)})


def add_by_number(left: TopicStatistics | TopicSums, right: TopicStatistics | TopicSums) -> TopicSums:
    """Add two sums.

    Topics are added and removed at any index, so that the order of the topics may differ between two passes with the
    same number of topics. Therefore the topics of `right` are matched to those of `left`.
    """
    sums = dict(as_sums(left).by_number)
    for number, (topics, n) in as_sums(right).by_number.items():
        if number in sums:
            total, m = sums[number]
            topics, n = total + topics[match_topics(total, topics).other], m + n
        sums[number] = topics, n
    return TopicSums(sums)
