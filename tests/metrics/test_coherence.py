import numpy as np
import pytest
import scipy.sparse as sp
from _memory import memory_below
from models._topic_words import sparse_topics

from skmanifold.metrics import topic_coherence
from skmanifold.topics.top_words import find_top_words
from skmanifold.topics.topic_word import TopicWord, topic_word_from_array


def _make_data(seed=0, n_components=6, n_features=40):
    generator = np.random.default_rng(seed)
    topic_word = generator.dirichlet(np.full(n_features, 0.2), size=n_components)
    X = generator.poisson(generator.gamma(0.3, 2.0, size=(70, n_features)))
    X[:, :2] = 0  # in no document
    X[:, 2] = 1  # in every document
    return topic_word, X


def _score_slowly(row, X, measure, n_top_words, eps):
    words = sorted(range(len(row)), key=lambda v: (-row[v], v))[:n_top_words]
    n_rows = len(X)
    values = []
    for m in range(n_top_words):
        for i in range(m):
            earlier = np.count_nonzero(X[:, words[i]])
            later = np.count_nonzero(X[:, words[m]])
            both = np.count_nonzero((X[:, words[m]] > 0) & (X[:, words[i]] > 0))
            if earlier == 0 or later == 0:
                continue
            if measure == "umass":
                values.append(np.log((both + eps) / earlier))
            elif both == n_rows:
                values.append(0.0)
            elif both / n_rows + eps == 0:
                values.append(-1.0)
            else:
                joint = both / n_rows + eps
                values.append(np.log(joint * n_rows**2 / (earlier * later)) / -np.log(joint))
    return np.mean(values) if values else np.nan


@pytest.mark.parametrize(
    ("measure", "eps", "default"), [("npmi", 0.0, True), ("npmi", 1e-3, False), ("umass", 1.0, True)]
)
@pytest.mark.parametrize("n_top_words", [2, 7, 40])
def test_agrees_with_counting_by_hand(measure, eps, default, n_top_words):
    topic_word, X = _make_data()
    given = {} if default else {"eps": eps}
    result = topic_coherence(topic_word, X, measure=measure, n_top_words=n_top_words, **given)
    expected = [_score_slowly(row, X, measure, n_top_words, eps) for row in topic_word]
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert np.ptp(result) > 0
    for container in (sp.csr_array, sp.csc_matrix):
        again = topic_coherence(topic_word, container(X), measure=measure, n_top_words=n_top_words, **given)
        np.testing.assert_array_equal(again, result)


def test_umass_conditions_on_the_more_probable_word():
    X = [[1, 1], [1, 0], [1, 0], [0, 1]]
    values = topic_coherence([[0.6, 0.4], [0.4, 0.6]], X, measure="umass", n_top_words=2)
    np.testing.assert_allclose(values, [np.log(2 / 3), np.log(2 / 2)])


def test_extremes_of_npmi():
    X = [[1, 3, 0, 1], [2, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]]
    topics = [[5, 4, 1, 0], [5, 1, 4, 0], [5, 1, 0, 4]]  # always together; never; independent
    np.testing.assert_allclose(topic_coherence(topics, X, n_top_words=2), [1, -1, 0], atol=1e-12)


def test_words_in_no_document_leave_no_pair():
    X = [[1, 1, 0], [1, 1, 0], [0, 1, 0]]
    values = topic_coherence([[1, 0, 2], [2, 1, 1.5]], X, n_top_words=2)
    assert np.isnan(values).all()
    assert np.isfinite(topic_coherence([[2, 1, 1.5]], X, n_top_words=3)).all()


@pytest.mark.parametrize("n_top_words", [2, 5, 40])
def test_sparse_topics_have_the_same_top_words(n_top_words):
    generator = np.random.default_rng(2)
    counts = generator.poisson(0.3, size=(40, 6))
    base = generator.integers(1, 4, size=40) / 8  # many ties
    inverse = np.full(6, 2.0**-5)
    sparse = sparse_topics(counts / 32, base, inverse)  # exact
    dense = sparse.toarray(np.float64)
    expected = [sorted(range(40), key=lambda v, row=row: (-row[v], v))[:n_top_words] for row in dense]
    np.testing.assert_array_equal(find_top_words(sparse, n_top_words), expected)
    np.testing.assert_array_equal(find_top_words(dense, n_top_words), expected)
    np.testing.assert_array_equal(find_top_words(topic_word_from_array(dense), n_top_words), expected)


def test_nothing_large_becomes_dense():
    n_components, n_features, n_rows = 500, 100_000, 5_000
    generator = np.random.default_rng(3)
    X = sp.random_array((n_rows, n_features), density=1e-4, random_state=generator, format="csr")
    indptr = np.arange(n_features + 1)
    topics = generator.integers(0, n_components, n_features).astype(np.uint16)
    sparse = TopicWord(
        indptr, topics, np.full(n_features, 0.01, np.float32), np.ones(n_features), np.full(n_components, 1e-6)
    )
    with memory_below(0.1 * n_components * n_features * 4):
        assert topic_coherence(sparse, X, n_top_words=5).shape == (n_components,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "u_mass"}, 'measure must be "npmi", "umass" or "c_v"'),
        ({"measure": "c_v", "eps": 0.0}, "eps must be positive for c_v"),
        ({"measure": "c_v", "eps": 0.5}, "eps must be less than 1 / n_rows"),
        ({"reference": [[0, 1]]}, "Give either X, the counts of documents, or reference"),
        ({"window": 0}, "window == 0, must be >= 1"),
        ({"n_top_words": 1}, "n_top_words must be between 2 and the number of words, 40"),
        ({"n_top_words": 41}, "n_top_words must be between 2 and the number of words, 40"),
        ({"eps": -1.0}, "eps must be finite and not negative"),
        ({"eps": 0.5}, "eps must be less than 1 / n_rows"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        topic_coherence(*_make_data(), **options)


def test_bad_data_is_refused():
    topic_word, X = _make_data()
    with pytest.raises(ValueError, match="X has 39 columns, but the topics have 40 words"):
        topic_coherence(topic_word, X[:, 1:])
    with pytest.raises(ValueError, match="Negative values in data passed to topic_coherence"):
        topic_coherence(topic_word, -X)


# --- texts in order ----------------------------------------------------------------------------------------


def _make_texts(n_features=40, seed=1):
    """Texts of several lengths with repeated and unknown words; one has no word, one no known word."""
    generator = np.random.default_rng(seed)
    texts = [generator.integers(-1, n_features - 1, n) for n in (*generator.integers(1, 60, 25), 7, 8, 0)]
    return [*texts, np.full(9, -1)]


def _as_documents(texts, window, n_features=40):
    """Each window as a row of counts."""
    rows = []
    for text in texts:
        for start in range(max(len(text) - window, 0) + 1):
            words = text[start : start + window]
            rows.append(np.bincount(words[words >= 0], minlength=n_features))
    return np.array(rows)


@pytest.mark.parametrize("measure", ["npmi", "umass", "c_v"])
@pytest.mark.parametrize("window", [1, 2, 8, 110])
def test_texts_are_the_documents_of_their_windows(measure, window):
    topic_word, _ = _make_data()
    texts = _make_texts()
    result = topic_coherence(topic_word, reference=texts, measure=measure, window=window)
    expected = topic_coherence(topic_word, _as_documents(texts, window), measure=measure)
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert window == 1 or np.ptp(result) > 0
    lists = topic_coherence(topic_word, reference=(t.tolist() for t in texts), measure=measure, window=window)
    np.testing.assert_array_equal(lists, result)


def _c_v_slowly(row, X, n_top_words, eps=1e-12):
    present = np.asarray(X > 0)
    words = [v for v in sorted(range(len(row)), key=lambda v: (-row[v], v))[:n_top_words] if present[:, v].any()]
    p = {(u, v): np.mean(present[:, u] & present[:, v]) for u in words for v in words}

    def npmi(u, v):
        if p[u, v] == 1:
            return 0.0
        return np.log((p[u, v] + eps) / (p[u, u] * p[v, v])) / -np.log(p[u, v] + eps)

    vectors = {u: np.array([npmi(u, v) for v in words]) for u in words}
    total = sum(vectors.values())
    return np.mean([v @ total / (np.linalg.norm(v) * np.linalg.norm(total) or 1.0) for v in vectors.values()])


@pytest.mark.parametrize("n_top_words", [3, 10])
def test_c_v_is_the_mean_cosine_with_all_top_words(n_top_words):
    topic_word, X = _make_data()
    result = topic_coherence(topic_word, X, measure="c_v", n_top_words=n_top_words)
    expected = [_c_v_slowly(row, X, n_top_words) for row in topic_word]
    np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_words_that_always_occur_together_have_a_c_v_of_one():
    X = np.repeat(np.eye(2), 3, axis=1)
    topics = np.eye(2)[:, [0, 0, 0, 1, 1, 1]] + 0.01
    np.testing.assert_allclose(topic_coherence(topics, X, measure="c_v", n_top_words=3), 1.0)
    mixed = [[1.0, 0, 0, 1.0, 0, 0]]
    assert topic_coherence(mixed, X, measure="c_v", n_top_words=2)[0] < 0.1


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "reference has no texts"),
        ([[0, 40]], "Words of reference must be column indices from 0 to 39, or -1; got 0 to 40"),
        ([[0, -2]], "Words of reference must be column indices from 0 to 39, or -1; got -2 to 0"),
        ([[0, 1], ["cat"]], "Text 1 of reference must be a sequence of column indices"),
        ([[0.5, 1.0]], "Text 0 of reference must be a sequence of column indices"),
        ([[[0, 1]]], "Text 0 of reference must be a sequence of column indices"),
    ],
)
def test_bad_texts_are_refused(texts, message):
    with pytest.raises(ValueError, match=message):
        topic_coherence(_make_data()[0], reference=texts)
