import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.datasets import make_lda_corpus

MOST_ERRORS = 4.5  # Monte Carlo standard errors


def assert_mean(draws, expected):
    draws = np.asarray(draws, dtype=np.float64)
    error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(error > 0)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - expected), MOST_ERRORS * error)


def test_shapes_types_and_rows_that_sum_to_one():
    corpus = make_lda_corpus(30, 200, 7, random_state=0)
    assert isinstance(corpus.data, sp.csr_array)
    assert corpus.data.shape == (30, 200)
    assert {corpus.data.dtype, corpus.data.indices.dtype, corpus.data.indptr.dtype} == {np.dtype(np.int32)}
    assert corpus.data.data.min() >= 1
    assert corpus.data.has_canonical_format
    assert corpus.components.shape == (7, 200)
    assert corpus.proportions.shape == (30, 7)
    for rows in (corpus.components, corpus.proportions, corpus.base_distribution[None]):
        assert rows.min() >= 0
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=1e-12)


def test_dtype_changes_the_truth_only_by_rounding():
    wide, narrow = (make_lda_corpus(20, 300, 4, dtype=dtype, random_state=0) for dtype in (np.float64, np.float32))
    assert (wide.data != narrow.data).nnz == 0
    for key in ("components", "proportions"):
        assert narrow[key].dtype == np.float32
        np.testing.assert_array_equal(wide[key].astype(np.float32), narrow[key])


@pytest.mark.parametrize("dispersion", [0.0, 0.5, 3.0])
def test_lengths_have_the_mean_and_variance_asked_for(dispersion):
    mean = 12.0
    corpus = make_lda_corpus(40_000, 5, 2, mean_length=mean, length_dispersion=dispersion, random_state=1)
    lengths = corpus.data.sum(axis=1)
    assert_mean(lengths, mean)
    assert_mean((lengths - mean) ** 2, mean + dispersion * mean**2)


def test_empty_documents_keep_their_rows():
    corpus = make_lda_corpus(2000, 10, 3, mean_length=1.0, random_state=0)
    assert corpus.data.shape == (2000, 10)
    empty = corpus.data.sum(axis=1) == 0
    assert_mean(empty, np.exp(-1.0))


def test_words_follow_the_topics_of_their_own_document():
    # given the truth, a random projection of the counts has a known mean and variance
    corpus = make_lda_corpus(300, 80, 6, mean_length=60.0, topic_word_prior=0.05, random_state=5)
    counts = corpus.data.toarray()
    lengths = counts.sum(axis=1, keepdims=True)
    probabilities = corpus.proportions @ corpus.components
    rng = np.random.default_rng(0)
    scores = []
    for _ in range(50):
        weights = rng.standard_normal(counts.shape)
        first = (probabilities * weights).sum(axis=1, keepdims=True)
        second = (probabilities * weights**2).sum(axis=1, keepdims=True)
        variance = (lengths * (second - first**2)).sum()
        scores.append(((counts - lengths * probabilities) * weights).sum() / np.sqrt(variance))
    assert np.max(np.abs(scores)) < MOST_ERRORS
    # and topics of another document would be noticed
    wrong = np.roll(probabilities, 1, axis=0)
    assert np.square(counts - lengths * wrong).sum() > 2 * np.square(counts - lengths * probabilities).sum()


def test_tiny_prior_gives_one_topic_per_document_and_no_nan():
    corpus = make_lda_corpus(3000, 10, 4, doc_topic_prior=1e-5, mean_length=1.0, random_state=0)
    largest = corpus.proportions.max(axis=1)
    assert np.mean(largest > 1 - 1e-9) > 0.99
    assert_mean(corpus.proportions.argmax(axis=1) == 0, 0.25)


@pytest.mark.extended
def test_topics_scatter_around_the_base_distribution_as_their_prior_says():
    prior, n_features = 0.2, 40
    corpus = make_lda_corpus(1, n_features, 20_000, topic_word_prior=prior, random_state=3)
    concentration = prior * n_features * corpus.base_distribution
    total = concentration.sum()
    assert_mean(corpus.components[:, concentration > 0.1], corpus.base_distribution[concentration > 0.1])
    second = (concentration * (concentration + 1)).sum() / (total * (total + 1))
    assert_mean((corpus.components**2).sum(axis=1), second)


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 2.0])
def test_base_distribution_is_zipf_with_ranks_dealt_at_random(exponent):
    base = make_lda_corpus(1, 500, 1, zipf_exponent=exponent, random_state=0).base_distribution
    ranked = np.sort(base)[::-1]
    np.testing.assert_allclose(ranked / ranked[0], np.arange(1.0, 501.0) ** -exponent, rtol=1e-10)
    if exponent > 0:
        rank_correlation = np.corrcoef(np.argsort(np.argsort(-base)), np.arange(500))[0, 1]
        assert abs(rank_correlation) < MOST_ERRORS / np.sqrt(499)


def test_smaller_word_prior_gives_sparser_topics():
    effective = []
    for prior in (0.01, 0.1, 1.0):
        topics = make_lda_corpus(1, 1000, 50, topic_word_prior=prior, random_state=0).components
        effective.append(np.mean(1.0 / (topics**2).sum(axis=1)))
    assert effective[0] < effective[1] < effective[2]


def test_vocabulary_with_words_that_never_occur():
    corpus = make_lda_corpus(50, 1000, 3, zipf_exponent=200.0, random_state=0)
    assert corpus.data.shape == (50, 1000)
    assert np.all(np.isfinite(corpus.components))
    assert np.all(np.flatnonzero(corpus.data.sum(axis=0)) == corpus.base_distribution.argmax())


@pytest.mark.parametrize("blocks", [1, 3])
def test_documents_of_every_block_are_drawn(blocks, monkeypatch):
    monkeypatch.setattr("skmanifold.datasets._synthetic._CELLS_PER_BLOCK", 5 * (10 // blocks))
    corpus = make_lda_corpus(10, 50, 5, mean_length=200.0, random_state=0)
    assert corpus.data.sum(axis=1).min() > 100
    np.testing.assert_allclose(corpus.proportions.sum(axis=1), 1.0)
