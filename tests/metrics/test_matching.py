import itertools

import numpy as np
import pytest
from models._topic_words import sparse_topics

from skmanifold.metrics import _matching, match_topics
from skmanifold.topics.topic_word import topic_word_from_array

METRICS = ["cosine", "hellinger", "total_variation"]


def _make_topics(n_topics, seed=0, n_features=30):
    return np.random.default_rng(seed).dirichlet(np.full(n_features, 0.3), size=n_topics)


def _similarity(p, q, metric):
    if metric == "cosine":
        return p @ q / np.linalg.norm(p) / np.linalg.norm(q)
    p, q = p / p.sum(), q / q.sum()
    if metric == "hellinger":
        return 1 - np.linalg.norm(np.sqrt(p) - np.sqrt(q)) / np.sqrt(2)
    return 1 - abs(p - q).sum() / 2


@pytest.mark.parametrize("metric", METRICS)
def test_a_permutation_is_undone(metric):
    topics = _make_topics(8)
    order = np.random.default_rng(1).permutation(8)
    scales = np.arange(1.0, 9.0)[:, np.newaxis]  # rows need not be normalised
    match = match_topics(topics, (scales * topics)[order], metric=metric)
    np.testing.assert_array_equal(match.reference, np.arange(8))
    np.testing.assert_array_equal(order[match.other], np.arange(8))
    np.testing.assert_allclose(match.similarity, 1, atol=1e-7)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n_reference", "n_other"), [(5, 5), (3, 6), (6, 3), (1, 4)])
def test_no_other_matching_is_better(metric, n_reference, n_other):
    reference, other = _make_topics(n_reference), _make_topics(n_other, seed=1)
    match = match_topics(reference, other, metric=metric)
    table = np.array([[_similarity(p, q, metric) for q in other] for p in reference])
    np.testing.assert_allclose(match.similarity, table[match.reference, match.other], atol=1e-12)
    small = min(table.shape)
    wide = table if n_reference <= n_other else table.T
    best = max(
        wide[range(small), list(columns)].sum() for columns in itertools.permutations(range(wide.shape[1]), small)
    )
    assert match.similarity.sum() == pytest.approx(best, abs=1e-12)
    assert len(match.reference) == len(set(match.reference)) == len(set(match.other)) == small
    assert np.all(np.diff(match.reference) > 0)


@pytest.mark.parametrize("metric", METRICS)
def test_sparse_topics_and_chunks_give_the_same(metric, monkeypatch):
    reference, other = _make_topics(4), _make_topics(5, seed=1)
    expected = match_topics(reference, other, metric=metric)
    base = reference.min(axis=0)
    smooth = sparse_topics((reference - base).T, base, np.ones(4))
    monkeypatch.setattr(_matching, "_CHUNK_CELLS", 20)
    match = match_topics(smooth, topic_word_from_array(other), metric=metric)
    np.testing.assert_array_equal(match.other, expected.other)
    np.testing.assert_allclose(match.similarity, expected.similarity, atol=1e-6)


def test_directions_may_be_negative_for_the_cosine():
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(4, 9))
    match = match_topics(directions, -directions[::-1])
    assert match.similarity.sum() > 0
    with pytest.raises(ValueError, match="Negative values in data passed to match_topics with metric='hellinger'"):
        match_topics(directions, directions, metric="hellinger")


@pytest.mark.parametrize(
    ("reference", "other", "metric", "message"),
    [
        ([[1, 0]], [[1, 0]], "euclidean", 'metric must be "cosine", "hellinger" or "total_variation"'),
        ([[1, 0]], [[1, 0, 0]], "cosine", "The reference has 2 words, but the other matrix has 3"),
        ([[1, 0], [0, 0]], [[1, 0]], "cosine", "Every topic must have a nonzero entry"),
        ([[1, np.nan]], [[1, 0]], "cosine", "contains NaN"),
    ],
)
def test_bad_input_is_refused(reference, other, metric, message):
    with pytest.raises(ValueError, match=message):
        match_topics(reference, other, metric=metric)
