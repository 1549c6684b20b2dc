import numpy as np
import pytest
import scipy.sparse as sp
from models._topic_words import sparse_topics

from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.topics.proportions import infer_proportions
from skmanifold.topics.topic_word import TopicWord, topic_word_from_array
from skmanifold.utils._threads import Workers


def _make_topics(n_components=7, n_features=60, seed=0):
    """Sparse counts plus a rank-one prior."""
    generator = np.random.default_rng(seed)
    counts = generator.poisson(generator.gamma(0.1, 30.0, size=(n_features, n_components)))
    prior = generator.gamma(1.0, 0.1, size=n_features)
    inverse = 1 / (counts.sum(axis=0) + prior.sum())
    return sparse_topics(counts * inverse, prior, inverse)


def _make_counts(X):
    return whole_counts(canonical_csr(X if sp.issparse(X) else np.atleast_2d(X)), np.uint64(1))


def _make_documents(n_rows=12, n_features=60, mean=0.7, seed=1):
    generator = np.random.default_rng(seed)
    return generator.poisson(generator.gamma(0.3, mean / 0.3, size=(n_rows, n_features)))


def _step(phi, row, prior, point):
    """One EM step as the formula has it; `point` holds counts plus prior."""
    return prior + point * (phi @ (row / (point @ phi)))


def _solve_slowly(phi, row, prior, n_steps=10_000):
    point = prior + row.sum() / len(prior)
    for _ in range(n_steps):
        point = _step(phi, row, prior, point)
    return point / point.sum()


@pytest.mark.extended
@pytest.mark.parametrize("scale", [0.02, 0.5, 3.0])
def test_agrees_with_many_plain_steps(scale):
    topics = _make_topics()
    X = _make_documents(6)
    prior = scale * np.arange(1.0, 8.0) / 4
    proportions = infer_proportions(topics, _make_counts(X), prior, tol=1e-11, max_iter=100_000)
    expected = [_solve_slowly(topics.toarray(np.float64), row, prior) for row in X]
    np.testing.assert_allclose(proportions, expected, atol=1e-8, rtol=0)


def test_defaults_are_accurate():
    topics = _make_topics(n_components=30, n_features=300)
    X = _make_documents(100, 300, mean=0.3)
    for scale in (0.01, 0.1, 1.0):
        prior = np.full(30, scale)
        exact = infer_proportions(topics, _make_counts(X), prior, tol=1e-13, max_iter=1_000_000)
        np.testing.assert_allclose(infer_proportions(topics, _make_counts(X), prior), exact, atol=2e-5, rtol=0)


def test_one_step_is_one_em_step():
    topics = _make_topics()
    row = _make_documents(1)[0]
    prior = np.linspace(0.1, 0.9, 7)
    total = row.sum() + prior.sum()
    expected = _step(topics.toarray(np.float64), row, prior, prior + row.sum() / 7) / total
    np.testing.assert_allclose(infer_proportions(topics, _make_counts(row), prior, max_iter=1)[0], expected, rtol=1e-12)


def test_extrapolation_beats_plain_steps():
    topics = _make_topics(n_components=20, n_features=100)
    X = _make_documents(20, 100, mean=2.0)
    prior = np.full(20, 0.01)
    exact = infer_proportions(topics, _make_counts(X), prior, tol=1e-13, max_iter=1_000_000)
    fast = infer_proportions(topics, _make_counts(X), prior, tol=1e-13, max_iter=100)
    plain = [_solve_slowly(topics.toarray(np.float64), row, prior, n_steps=100) for row in X]
    assert abs(fast - exact).mean() < 0.1 * abs(plain - exact).mean()


@pytest.mark.parametrize(
    ("phi", "row", "scale"),
    [
        ([[12, 9, 19], [11, 12, 17], [26, 21, 24]], [30, 18, 28], 0.1),
        ([[26, 22, 6], [23, 17, 27], [12, 7, 17]], [37, 39, 12], 0.5),
        ([[29, 14, 8], [22, 7, 16], [25, 15, 29]], [39, 39, 39], 0.1),
    ],
)
def test_extrapolation_does_not_go_in_circles(phi, row, scale):
    """On these, extrapolation that is never refused is still far off after 2,000 steps."""
    topics, prior = topic_word_from_array(phi), np.full(3, scale)
    theta = infer_proportions(topics, _make_counts(row), prior)[0]
    expected = _solve_slowly(topics.toarray(np.float64), np.array(row), prior, n_steps=50_000)
    np.testing.assert_allclose(theta, expected, atol=2e-5)


def _with_stored_zeros(topics):
    """The same topics with an entry for each word and topic, which are copied to dense arrays."""
    n_features, n_components = topics.n_features, topics.n_components
    weights = np.zeros((n_features, n_components), np.float32)
    weights[np.repeat(np.arange(n_features), np.diff(topics.indptr)), topics.topics] = topics.weights
    entries = np.tile(np.arange(n_components, dtype=np.uint16), n_features), weights.ravel()
    return topics._replace(indptr=np.arange(n_features + 1) * n_components, topics=entries[0], weights=entries[1])


@pytest.mark.parametrize("mean", [0.02, 0.3, 3.0])
def test_dense_copies_of_the_weights_give_the_same_proportions(mean):
    generator = np.random.default_rng(3)
    components = generator.dirichlet(np.full(90, 0.1), 40)
    components[generator.random(components.shape) < 0.95] = 0.0  # two topics for a word
    topics = topic_word_from_array(components + 1e-9 * (components.sum(axis=1, keepdims=True) == 0))
    topics = topics._replace(
        weights=(0.9 * topics.weights).astype(np.float32), base=np.full(90, 0.1 / 90), inverse=np.ones(40)
    )
    counts = _make_counts(_make_documents(20, 90, mean=mean))
    entries = np.diff(topics.indptr)[counts.indices].mean()
    assert 40 / entries > 16  # far fewer entries than topics
    for prior in (np.full(40, 0.02), np.linspace(0.1, 2.0, 40)):
        sparse = infer_proportions(topics, counts, prior)
        # Sums have the same order, since the entries of a word are sorted by topic
        np.testing.assert_array_equal(infer_proportions(_with_stored_zeros(topics), counts, prior), sparse)


def test_documents_with_very_many_words_and_topics():
    generator = np.random.default_rng(0)
    topics = topic_word_from_array(generator.gamma(0.1, size=(1500, 800)) + 1e-6)
    X, prior = generator.poisson(1.0, (2, 800)) + 1, np.full(1500, 0.1)
    proportions = infer_proportions(topics, _make_counts(np.vstack([X, X[:, ::-1]])), prior)
    for row, theta in zip(X, proportions, strict=False):
        total = row.sum() + prior.sum()
        np.testing.assert_allclose(
            _step(topics.toarray(np.float64), row, prior, theta * total) / total, theta, atol=1e-6
        )


def test_topics_without_common_words_have_a_closed_form():
    topics = topic_word_from_array([[0.2, 0.8, 0, 0], [0, 0, 0.5, 0.5]])
    prior = np.array([0.3, 0.7])
    proportions = infer_proportions(topics, _make_counts([[3, 1, 2, 0]]), prior)
    np.testing.assert_allclose(proportions, [[4.3 / 7, 2.7 / 7]], rtol=1e-12)


def test_both_forms_of_the_topics_agree():
    topics = _make_topics()
    counts = _make_counts(_make_documents())
    prior = np.full(7, 0.2)
    dense = topic_word_from_array(topics.toarray(np.float64))
    assert dense.base.sum() == 0 < topics.base.sum()
    np.testing.assert_allclose(
        infer_proportions(dense, counts, prior), infer_proportions(topics, counts, prior), atol=1e-5
    )


def test_a_row_does_not_depend_on_batch_position_or_threads():
    topics = _make_topics()
    X = _make_documents(400)
    prior = np.full(7, 0.2)
    alone = np.vstack([infer_proportions(topics, _make_counts(row), prior) for row in X])
    order = np.random.default_rng(0).permutation(400)
    together = infer_proportions(topics, _make_counts(X[order]), prior)
    np.testing.assert_array_equal(together, alone[order])
    with Workers(2) as workers:
        np.testing.assert_array_equal(infer_proportions(topics, _make_counts(X), prior, workers=workers), alone)
    assert len(np.unique(alone[:, 0])) > 300


def test_words_without_a_topic_tell_nothing():
    array = np.zeros((3, 6))
    array[:, :4] = np.random.default_rng(0).random((3, 4))
    topics = topic_word_from_array(array)
    prior = np.array([0.1, 0.2, 0.3])
    proportions = infer_proportions(
        topics, _make_counts([[2, 0, 1, 5, 0, 0], [2, 0, 1, 5, 9, 1], [0, 0, 0, 0, 3, 0], [0, 0, 0, 0, 0, 0]]), prior
    )
    np.testing.assert_array_equal(proportions[0], proportions[1])
    np.testing.assert_array_equal(proportions[2:], [prior / prior.sum()] * 2)
    assert np.isfinite(proportions).all()


def test_huge_models_stay_sparse():
    n_components, n_features = 10_000, 1_000_000
    indptr = np.zeros(n_features + 1, dtype=np.int64)
    indptr[6:] = 1
    inverse = np.full(n_components, 1.0 / n_features)
    topics = TopicWord(indptr, np.array([9_999], np.uint16), np.array([0.5], np.float32), np.ones(n_features), inverse)
    X = sp.csr_array(([4.0, 1.0], ([0, 0], [5, 999_999])), shape=(1, n_features))
    proportions = infer_proportions(topics, _make_counts(X), np.full(n_components, 1e-4))
    assert proportions.argmax() == 9_999
    assert 0.7 < proportions.max() < 1


def test_read_only_topics_are_accepted():
    topics = _make_topics()
    counts = _make_counts(_make_documents())
    expected = infer_proportions(topics, counts, np.full(7, 0.2))
    for array in topics:
        array.flags.writeable = False
    np.testing.assert_array_equal(infer_proportions(topics, counts, np.full(7, 0.2)), expected)


@pytest.mark.parametrize(
    ("prior", "options", "message"),
    [
        (np.ones(6), {}, r"must have shape \(7,\)"),
        (1.0, {}, r"must have shape \(7,\)"),
        (np.arange(7.0), {}, "must be positive and finite"),
        (np.full(7, np.nan), {}, "must be positive and finite"),
        (np.ones(7), {"max_iter": 0}, "must be positive; got max_iter=0"),
        (np.ones(7), {"tol": float("nan")}, "must be positive"),
    ],
)
def test_bad_input_is_refused(prior, options, message):
    with pytest.raises(ValueError, match=message):
        infer_proportions(_make_topics(), _make_counts(_make_documents()), prior, **options)


def test_other_vocabulary_is_refused():
    with pytest.raises(ValueError, match="have 3 columns, the topics 60 words"):
        infer_proportions(_make_topics(), _make_counts([[1, 2, 3]]), np.ones(7))
