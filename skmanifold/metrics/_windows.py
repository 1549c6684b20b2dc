"""Numbers of windows of texts that contain the top words of topics, alone and in pairs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..utils._njit import njit


class Texts:
    """Texts, of column indices or -1 for other words, cut into all windows of some length; a shorter text is one."""

    def __init__(self, texts: Iterable[Any], n_features: int, window: int) -> None:
        parts = [np.asarray(text) for text in texts]
        if not parts:
            raise ValueError("reference has no texts.")
        for number, part in enumerate(parts):
            if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
                got = f"an array of shape {part.shape} and type {part.dtype}"
                if part.dtype.kind in "OU":
                    got = "words: look up the column of each word"
                raise ValueError(
                    f"Text {number} of reference must be a sequence of column indices, whole numbers; got {got}."
                )
        lengths = [len(part) for part in parts]
        self.starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        self.words = np.concatenate(parts).astype(np.int64) if self.starts[-1] else np.empty(0, np.int64)
        if self.words.size and not (self.words.min() >= -1 and self.words.max() < n_features):
            raise ValueError(
                f"Words of reference must be column indices from 0 to {n_features - 1}, or -1; got "
                f"{self.words.min()} to {self.words.max()}."
            )
        self.n_features, self.window = n_features, window
        self.n_windows = int(np.maximum(np.diff(self.starts) - window + 1, 1).sum())

    def count(self, topics: np.ndarray) -> np.ndarray:
        """Numbers of windows with both words i and j of each topic, (K, n, n), and with word i on the diagonal."""
        (K, n), entries = topics.shape, topics.ravel()
        order = np.argsort(entries, kind="stable")
        indptr = np.searchsorted(entries[order], np.arange(self.n_features + 1)).astype(np.int64)
        together = np.zeros((K, n, n), np.int64)
        _count_windows(self.starts, self.words, self.window, indptr, order.astype(np.int64), together)
        return together


@njit(cache=True, nogil=True)
def _count_windows(starts, words, window, indptr, places, together):
    """Add the windows of all texts; word v is at ``places[indptr[v]:indptr[v + 1]]`` of the flat list of top words."""
    n = together.shape[1]
    for text in range(len(starts) - 1):
        start, stop = starts[text], starts[text + 1]
        last = max(stop - start - window, 0)  # start of the last window
        used = 0
        found = np.empty(stop - start, np.int64)
        for i in range(start, stop):
            v = words[i]
            if v >= 0 and indptr[v] < indptr[v + 1]:
                found[used] = i
                used += 1
        if used == 0:
            continue
        found = found[:used]
        found = found[np.argsort(words[found], kind="mergesort")]
        # Windows that contain a word begin in a union of ranges: those of word d are first[d] to first[d + 1].
        low, high = np.empty(used, np.int64), np.empty(used, np.int64)
        distinct, first = np.empty(used, np.int64), np.zeros(used + 1, np.int64)
        n_distinct, n_ranges = 0, 0
        for i in found:
            begin, end = max(i - start - window + 1, 0), min(i - start, last)
            if n_distinct == 0 or words[i] != distinct[n_distinct - 1]:
                distinct[n_distinct] = words[i]
                first[n_distinct] = n_ranges
                n_distinct += 1
            elif begin <= high[n_ranges - 1] + 1:
                high[n_ranges - 1] = max(high[n_ranges - 1], end)
                continue
            low[n_ranges], high[n_ranges] = begin, end
            n_ranges += 1
        first[n_distinct] = n_ranges
        # For each pair of words of the same topic, the number of windows in both unions.
        for a in range(n_distinct):
            for of_a in range(indptr[distinct[a]], indptr[distinct[a] + 1]):
                topic, i = divmod(places[of_a], n)
                for b in range(a, n_distinct):
                    for of_b in range(indptr[distinct[b]], indptr[distinct[b] + 1]):
                        other, j = divmod(places[of_b], n)
                        if other == topic:
                            shared = _overlap(low, high, first[a], first[a + 1], first[b], first[b + 1])
                            together[topic, i, j] += shared
                            if a != b:
                                together[topic, j, i] += shared


@njit(cache=True, nogil=True)
def _overlap(low, high, a, stop_a, b, stop_b):
    """Number of integers in both of two unions of ranges, which are in ascending order."""
    total = 0
    while a < stop_a and b < stop_b:
        total += max(min(high[a], high[b]) - max(low[a], low[b]) + 1, 0)
        if high[a] < high[b]:
            a += 1
        else:
            b += 1
    return total
