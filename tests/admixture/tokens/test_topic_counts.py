import numpy as np
import pytest

from skmanifold.admixture._tokens.topic_counts import (
    TopicCounts,
    TopicPrior,
    add_counts,
    counts_from_dense,
    scale_counts,
)

N_TOPICS, N_WORDS = 6, 11
SHAPES = [(), (N_WORDS,), (N_TOPICS, 1), (N_TOPICS, N_WORDS)]


def random_counts(seed, kind=np.int32, *, shuffle=True):
    """Counts whose words list their topics in any order, one word and one topic unused; and the dense (V, K) array."""
    rng = np.random.default_rng(seed)
    dense = rng.poisson(0.8, (N_WORDS, N_TOPICS)).astype(kind)
    dense[3] = 0
    dense[:, 2] = 0
    if np.issubdtype(kind, np.floating):
        dense *= rng.random(dense.shape)
    topics, counts, n_topics = [], [], [0]
    for row in dense:
        order = rng.permutation(np.flatnonzero(row)) if shuffle else np.flatnonzero(row)
        topics.append(order)
        counts.append(row[order])
        n_topics.append(len(order))
    total_kind = np.float64 if np.issubdtype(kind, np.floating) else np.int64
    return TopicCounts(
        np.cumsum(n_topics),
        np.concatenate(topics).astype(np.uint16),
        np.concatenate(counts).astype(kind),
        dense.sum(axis=0, dtype=total_kind),
    ), dense


def dense_of(counts):
    """As a (V, K) array, without scipy; refuses a topic that stands twice in a word's list."""
    out = np.zeros((len(counts.indptr) - 1, len(counts.totals)), counts.counts.dtype)
    for word in range(len(out)):
        entries = slice(counts.indptr[word], counts.indptr[word + 1])
        assert len(np.unique(counts.topics[entries])) == len(counts.topics[entries])
        out[word, counts.topics[entries]] = counts.counts[entries]
    return out


def make_prior(shape, seed=0):
    return np.random.default_rng(seed).uniform(0.05, 1.5, shape)


def test_as_sparse_array():
    counts, dense = random_counts(0)
    assert counts.tocsr().shape == (N_WORDS, N_TOPICS)
    np.testing.assert_array_equal(counts.tocsr().toarray(), dense)


def test_topics_above_15_bits_survive_in_the_sparse_array():
    counts = TopicCounts(np.array([0, 1]), np.array([65_534], np.uint16), np.array([3]), np.zeros(65_535, np.int64))
    assert counts.tocsr()[0, 65_534] == 3


@pytest.mark.parametrize("kind", [np.int32, np.float64])
def test_from_dense_and_back(kind):
    counts, dense = random_counts(1, kind, shuffle=False)
    totals = counts.totals.copy()
    ours = counts_from_dense(dense, totals)
    for a, b in zip(ours, counts, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == b.dtype
    dense[:], totals[:] = 99, 99  # what comes out does not share memory with what went in
    np.testing.assert_array_equal(dense_of(ours), dense_of(counts))
    np.testing.assert_array_equal(ours.totals, counts.totals)


@pytest.mark.parametrize(
    ("left_kind", "right_kind", "scales", "expected_kind"),
    [
        (np.int32, np.int32, (), np.int32),
        (np.int64, np.int32, (), np.int32),
        (np.int32, np.int32, (3, -2), np.int32),
        (np.int32, np.int32, (10**8, -(10**8)), np.int64),
        (np.int32, np.int32, (0.25, 1.5), np.float64),
        (np.float64, np.int32, (), np.float64),
        (np.float64, np.float64, (0.1, 7), np.float64),
    ],
)
def test_sums_are_those_of_the_dense_arrays(left_kind, right_kind, scales, expected_kind):
    left, left_dense = random_counts(2, left_kind)
    right, right_dense = random_counts(3, right_kind)
    total = add_counts(left, right, *scales)
    a, b = scales or (1, 1)
    assert [array.dtype for array in total[:3]] == [np.int64, np.uint16, expected_kind]
    np.testing.assert_allclose(dense_of(total), a * left_dense + b * right_dense, rtol=1e-15)
    np.testing.assert_allclose(total.totals, a * left.totals + b * right.totals, rtol=1e-15)
    np.testing.assert_array_equal(dense_of(left), left_dense)
    np.testing.assert_array_equal(dense_of(right), right_dense)


def test_sums_of_many_passes_do_not_overflow():
    most = np.iinfo(np.int32).max
    one = TopicCounts(np.array([0, 1]), np.zeros(1, np.uint16), np.array([most], np.int32), np.array([most]))
    total = add_counts(add_counts(one, one), one)
    assert total.counts.tolist() == total.totals.tolist() == [3 * most]


def test_sums_with_nothing():
    counts, dense = random_counts(4)
    nothing = counts_from_dense(np.zeros((N_WORDS, N_TOPICS), np.int32), np.zeros(N_TOPICS, np.int64))
    for total in (add_counts(counts, nothing), add_counts(nothing, counts)):
        np.testing.assert_array_equal(dense_of(total), dense)
    assert len(add_counts(nothing, nothing).counts) == 0


def test_scaling():
    counts, dense = random_counts(5)
    scaled = scale_counts(counts, 0.3)
    assert scaled.counts.dtype == scaled.totals.dtype == np.float64
    np.testing.assert_allclose(dense_of(scaled), 0.3 * dense, rtol=1e-15)
    np.testing.assert_allclose(scaled.totals, 0.3 * counts.totals, rtol=1e-15)
    assert scale_counts(counts, 2).counts.dtype == np.float64
    np.testing.assert_array_equal(dense_of(counts), dense)


@pytest.mark.parametrize("shape", SHAPES)
def test_prior_is_its_base_and_what_topics_have_on_top(shape):
    values = make_prior(shape)
    prior = TopicPrior(values, N_TOPICS, N_WORDS)
    full = np.broadcast_to(values, (N_TOPICS, N_WORDS))
    extra = 0 if prior.extra is None else prior.extra.toarray().T
    np.testing.assert_allclose(np.broadcast_to(prior.base + extra, full.shape), full, rtol=1e-15)
    np.testing.assert_allclose(prior.totals, full.sum(axis=1), rtol=1e-14)
    assert prior.base.shape == (N_WORDS,)
    assert prior.base.min() > 0
    assert (prior.extra is None) == (len(shape) < 2)
    assert np.all(np.asarray(extra) >= 0)


def test_matrix_of_equal_rows_has_nothing_on_top():
    values = np.tile(make_prior((N_WORDS,)), (N_TOPICS, 1))
    assert TopicPrior(values, N_TOPICS, N_WORDS).extra is None


def test_seeded_topics_stay_sparse():
    values = np.full((N_TOPICS, N_WORDS), 0.1)
    values[2, 5] = values[4, 7] = 3.0
    assert TopicPrior(values, N_TOPICS, N_WORDS).extra.nnz == 2


def strides_of(prior, n_components, n_features):
    """The dense (K, V) prior as a kernel would read it; refuses to read outside."""
    flat, word_step, topic_step = prior.strides(n_components, n_features)
    assert flat.ndim == 1
    assert flat.flags.c_contiguous
    places = np.add.outer(np.arange(n_components) * topic_step, np.arange(n_features) * word_step)
    assert places.min() >= 0
    assert places.max() < len(flat)
    return flat[places]


@pytest.mark.parametrize("shape", SHAPES)
def test_strides_read_the_prior_wherever_it_comes_from(shape):
    values = make_prior(shape)
    arrays = [np.asfortranarray(values), np.flip(np.flip(values).copy()), values.tolist()] if shape else []
    for array in (values, *arrays):
        prior = TopicPrior(array, N_TOPICS, N_WORDS)
        expected = np.broadcast_to(values, (N_TOPICS, N_WORDS))
        np.testing.assert_array_equal(strides_of(prior, N_TOPICS, N_WORDS), expected)


@pytest.mark.parametrize(("n_components", "n_features"), [(1, 1), (1, 4), (4, 1), (4, 4)])
def test_strides_at_the_smallest_sizes(n_components, n_features):
    for shape in {(), (n_features,), (n_components, 1), (n_components, n_features)}:
        values = make_prior(shape)
        read = strides_of(TopicPrior(values, n_components, n_features), n_components, n_features)
        np.testing.assert_array_equal(read, np.broadcast_to(values, (n_components, n_features)))


def test_topics_of_a_word_lie_together_in_a_full_prior():
    for order in "CF":
        values = np.asarray(make_prior((N_TOPICS, N_WORDS)), order=order)
        _, word_step, topic_step = TopicPrior(values, N_TOPICS, N_WORDS).strides(N_TOPICS, N_WORDS)
        assert (word_step, topic_step) == (N_TOPICS, 1)


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_smoothing_is_the_formula(shape, kind):
    counts, dense = random_counts(6, kind)
    values = make_prior(shape)
    topics = TopicPrior(values, N_TOPICS, N_WORDS).smooth(counts)
    pseudo = dense.T + np.broadcast_to(values, (N_TOPICS, N_WORDS))
    np.testing.assert_allclose(topics.toarray(np.float64), pseudo / pseudo.sum(axis=1, keepdims=True), rtol=2e-7)
    assert [array.dtype for array in topics] == [np.int64, np.uint16, np.float32, np.float64, np.float64]
    for word in range(N_WORDS):
        listed = topics.topics[topics.indptr[word] : topics.indptr[word + 1]]
        assert len(np.unique(listed)) == len(listed)


@pytest.mark.parametrize("shape", [(), (N_WORDS,)])
def test_smoothing_keeps_the_lists_of_the_counts(shape):
    counts, _ = random_counts(7)
    topics = TopicPrior(make_prior(shape), N_TOPICS, N_WORDS).smooth(counts)
    np.testing.assert_array_equal(topics.indptr, counts.indptr)
    np.testing.assert_array_equal(topics.topics, counts.topics)


@pytest.mark.parametrize("shape", [(N_TOPICS,), (1, N_WORDS), (N_WORDS, N_TOPICS), (1, 1), (N_TOPICS, N_WORDS, 1)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"must be a number or have shape \(11,\), \(6, 1\) or \(6, 11\); got"):
        TopicPrior(np.ones(shape), N_TOPICS, N_WORDS)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("shape", SHAPES)
def test_entries_that_are_no_pseudo_counts_are_refused(shape, bad):
    values = np.ones(shape)
    values[(-1,) * len(shape)] = bad
    with pytest.raises(ValueError, match="must be positive and finite"):
        TopicPrior(values, N_TOPICS, N_WORDS)


def test_prior_does_not_follow_later_changes_of_its_array():
    values = make_prior((N_TOPICS, N_WORDS))
    before = values.copy()
    prior = TopicPrior(values, N_TOPICS, N_WORDS)
    values[:] = 99
    np.testing.assert_array_equal(strides_of(prior, N_TOPICS, N_WORDS), before)
