import tracemalloc

import numpy as np
import pytest

from skmanifold.topics import topic_word as topic_word_module
from skmanifold.topics.topic_word import TopicWord, as_topic_word, topic_word_from_array

from ._topic_words import sparse_topics


def _random_array(n_components=5, n_features=40, seed=0):
    generator = np.random.default_rng(seed)
    array = generator.gamma(0.3, size=(n_components, n_features)) * (generator.random((n_components, n_features)) < 0.4)
    array[:, 0] += 0.1
    return array


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_array_becomes_its_normalised_rows(dtype, order):
    array = np.ceil(3 * _random_array()) if dtype == np.int64 else _random_array()
    array = array.astype(dtype, order=order)
    before = array.copy()
    topic_word = topic_word_from_array(array)
    expected = array.astype(np.float64) / array.astype(np.float64).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(topic_word.toarray(np.float64), expected, rtol=1e-7, atol=1e-37)
    np.testing.assert_array_equal(array, before)
    assert (topic_word.n_components, topic_word.n_features) == array.shape


def test_layout_is_the_documented_one():
    array = _random_array()
    topic_word = topic_word_from_array(array)
    assert [a.dtype for a in topic_word] == [np.int64, np.uint16, np.float32, np.float64, np.float64]
    for v in range(40):
        entries = slice(topic_word.indptr[v], topic_word.indptr[v + 1])
        np.testing.assert_array_equal(topic_word.topics[entries], np.flatnonzero(array[:, v] > 1e-40))
    assert not topic_word.base.any()
    assert np.all(topic_word.inverse == 1)


def test_counts_and_rank_one_prior_add_up():
    generator = np.random.default_rng(1)
    counts = generator.poisson(0.4, size=(30, 4))  # (V, K)
    prior = generator.gamma(1.0, size=30)
    inverse = 1 / (counts.sum(axis=0) + prior.sum())
    topic_word = sparse_topics(counts * inverse, prior, inverse)
    dense = topic_word.toarray(np.float64)
    np.testing.assert_allclose(dense, ((counts + prior[:, np.newaxis]) * inverse).T, rtol=1e-7)
    np.testing.assert_allclose(dense.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(topic_word.words(7, 12), dense[:, 7:12])
    assert topic_word.toarray().dtype == np.float32


def test_chunks_do_not_show(monkeypatch):
    array = _random_array()
    whole = topic_word_from_array(array)
    dense = whole.toarray()
    monkeypatch.setattr(topic_word_module, "_CHUNK_CELLS", 13)
    for a, b in zip(whole, topic_word_from_array(array), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(whole.toarray(), dense)


def test_conversion_makes_no_dense_copy(monkeypatch):
    monkeypatch.setattr(topic_word_module, "_CHUNK_CELLS", 1 << 14)
    array = np.zeros((100, 20_000))
    array[:, ::50] = 1.0
    tracemalloc.start()
    try:
        topic_word_from_array(array)
        assert tracemalloc.get_traced_memory()[1] < 0.2 * array.nbytes
    finally:
        tracemalloc.stop()


def test_one_topic_and_one_word():
    np.testing.assert_array_equal(topic_word_from_array([[4.0]]).toarray(), [[1.0]])


def test_topic_word_passes_through():
    topic_word = topic_word_from_array(_random_array())
    assert as_topic_word(topic_word) is topic_word
    assert isinstance(as_topic_word(_random_array()), TopicWord)


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([1.0, 2.0], "must be a dense, non-empty numeric array"),
        (np.empty((0, 3)), "must be a dense, non-empty numeric array"),
        (np.empty((3, 0)), "must be a dense, non-empty numeric array"),
        ([["a", "b"]], "must be a dense, non-empty numeric array"),
        ([[1.0, np.nan]], "must be finite"),
        ([[1.0, np.inf]], "must be finite"),
        ([[1.0, -1e-9]], "must be non-negative; its smallest entry is -1e-09"),
        ([[1.0, 1.0], [0.0, 0.0]], "row 1 does not"),
        ([[1.7e308, 1.7e308]], "row 0 does not"),
        (np.ones((65536, 1)), "65536 rows; at most 65535"),
    ],
)
def test_bad_arrays_are_refused_in_one_sentence(components, message):
    with pytest.raises(ValueError, match=message):
        topic_word_from_array(components)
