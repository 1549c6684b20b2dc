"""Counts of topics, divided by words: parts are merged separately, with the same bytes."""

import numpy as np
import pytest

from skmanifold.admixture._tokens.compact_counts import cut_words, join_words
from skmanifold.admixture._tokens.topic_counts import TopicCounts, add_counts

RNG = np.random.default_rng(0)
V, K = 23, 6


def make_counts(dtype=np.int32, largest=50):
    """Lists of topics in any order; some words have none."""
    lists = [RNG.permutation(K)[: RNG.integers(0, K + 1)].astype(np.uint16) for _ in range(V)]
    topics = np.concatenate(lists)
    counts = RNG.integers(1, largest, len(topics)).astype(dtype)
    totals = np.bincount(topics, counts, K).astype(np.int64)
    return TopicCounts(np.concatenate(([0], np.cumsum(list(map(len, lists))))), topics, counts, totals)


def assert_same(left, right):
    for one, other in zip(left, right, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("n_parts", [1, 2, 5, V, 2 * V])
def test_parts_are_merged_to_the_parts_of_the_sum(n_parts):
    left, right = make_counts(), make_counts()
    assert_same(join_words(cut_words(left, n_parts)), left)
    parts = [add_counts(*pair) for pair in zip(cut_words(left, n_parts), cut_words(right, n_parts), strict=True)]
    assert len(parts) == min(n_parts, V)
    assert_same(join_words(parts), add_counts(left, right))


@pytest.mark.parametrize("largest", [50, 1 << 40])
def test_type_of_the_counts_is_that_of_the_whole_sum(largest):
    """Parts may need 32 bits where all words together need 64."""
    left, right = make_counts(np.int64, largest), make_counts(np.int32, 1 << 30)
    parts = [add_counts(*pair) for pair in zip(cut_words(left, V), cut_words(right, V), strict=True)]
    assert_same(join_words(parts), add_counts(left, right))


def test_parts_have_about_equal_numbers_of_counts():
    """Common words often have neighbouring indices."""
    n_topics = np.minimum(2000 // (1 + np.arange(1000)), 500)
    indptr = np.concatenate(([0], np.cumsum(n_topics)))
    topics = np.concatenate([np.arange(n, dtype=np.uint16) for n in n_topics])
    counts = TopicCounts(indptr, topics, np.ones(len(topics), np.int32), np.bincount(topics))
    sizes = [len(part.topics) for part in cut_words(counts, 4)]
    assert max(sizes) < 1.2 * min(sizes)
