import itertools

import numpy as np
import pytest
from models._topic_words import sparse_topics
from scipy.special import gammaln

from skmanifold.metrics import left_to_right
from skmanifold.metrics._left_to_right import _resample
from skmanifold.topics.topic_word import topic_word_from_array

PRIOR = np.array([0.2, 0.4, 0.7])


def _make_topics():
    """Three topics over five words, sharp, with a smoothing part; word 3 and word 4 have little or nothing else."""
    counts = np.array([[8, 0, 1], [0, 9, 2], [1, 0, 7], [0, 1, 0], [0, 0, 0]])
    base = np.array([0.3, 0.1, 0.2, 0.9, 1.1])
    inverse = 1 / (counts.sum(axis=0) + base.sum())
    return sparse_topics(counts * inverse, base, inverse)


DOCUMENTS = np.array(
    [[2, 1, 2, 0, 0], [0, 0, 0, 3, 2], [1, 1, 1, 1, 1], [4, 0, 0, 0, 2], [3, 2, 0, 1, 0], [0, 2, 2, 0, 1]]
)


def _enumerate(phi, row, prior):
    """log p(w) as the sum over every assignment of topics to tokens."""
    tokens = np.repeat(np.arange(len(row)), row)
    total = 0.0
    for latents in itertools.product(range(len(prior)), repeat=len(tokens)):
        sizes = np.bincount(latents, minlength=len(prior))
        log_prior = gammaln(prior.sum()) - gammaln(prior.sum() + len(tokens))
        log_prior += np.sum(gammaln(prior + sizes) - gammaln(prior))
        total += np.exp(log_prior) * np.prod(phi[list(latents), tokens])
    return np.log(total)


@pytest.mark.extended
@pytest.mark.short_cases("3")
@pytest.mark.parametrize("n_particles", [1, 3, 8])
def test_expected_probability_is_the_exact_one(n_particles):
    topics = _make_topics()
    score = left_to_right(topics, DOCUMENTS, PRIOR, n_particles=n_particles, n_runs=20_000 // n_particles)
    phi = topics.toarray(np.float64)
    exact = np.array([_enumerate(phi, row, PRIOR) for row in DOCUMENTS])
    assert np.all(score.document_errors < 0.02)
    # In probabilities, where the estimate is unbiased: (estimate - p) / (standard error of the estimate).
    z = -np.expm1(exact - score.per_document.log_likelihood) / score.document_errors
    assert np.all(abs(z) < 4)
    # What the check must be able to tell: another prior, and the proportions' mean plugged in.
    plug_in = DOCUMENTS @ np.log(PRIOR @ phi / PRIOR.sum())
    other_prior = np.array([_enumerate(phi, row, 1.2 * PRIOR) for row in DOCUMENTS])
    for wrong in (plug_in, other_prior):
        assert np.max(abs(wrong - score.per_document.log_likelihood) / score.document_errors) > 8


@pytest.mark.extended
def test_moves_and_resampling_do_not_bias_longer_documents():
    # Sharp topics and a weak prior: the weights differ and particles are resampled often.
    phi = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
    prior = np.array([0.05, 0.1])
    row = np.array([5, 1, 1, 4])
    score = left_to_right(phi, row[np.newaxis], prior, n_particles=5, n_runs=4000)
    z = -np.expm1(_enumerate(phi, row, prior) - score.per_document.log_likelihood) / score.document_errors
    assert abs(z[0]) < 4
    assert score.document_errors[0] < 0.02


@pytest.mark.extended
def test_resampling_makes_up_for_skew_weights():
    generator = np.random.default_rng(0)
    phi = generator.dirichlet(np.full(200, 0.3), size=20)
    X = np.array([generator.multinomial(80, theta @ phi) for theta in generator.dirichlet(np.full(20, 0.1), size=20)])
    prior = np.full(20, 0.02)
    together = left_to_right(phi, X, prior, n_particles=20, n_runs=2)
    apart = left_to_right(phi, X, prior, n_particles=1, n_runs=40)
    # Both are too low on average for the logarithm, particles without resampling far more so.
    assert np.sum(together.per_document.log_likelihood - apart.per_document.log_likelihood) > 50


@pytest.mark.extended
def test_errors_are_those_of_the_estimates():
    topics = _make_topics()
    phi = topics.toarray(np.float64)
    generator = np.random.default_rng(0)
    X = np.unique(generator.multinomial(6, phi.mean(axis=0), size=150), axis=0)
    exact = np.array([_enumerate(phi, row, PRIOR) for row in X])
    score = left_to_right(topics, X, PRIOR, n_particles=10, n_runs=30)
    z = (score.per_document.log_likelihood - exact) / score.document_errors
    assert len(X) > 40
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.25  # root mean square of 1, to within 2.5 / sqrt(2 * 40)
    total_z = (score.log_likelihood - exact.sum() / X.sum()) / score.monte_carlo_error
    assert abs(total_z) < 4
    assert score.monte_carlo_error < score.standard_error


def test_resampling_keeps_counts_and_means():
    weights = np.array([0.0, 2.5, 0.1, 1.0, 1.4])
    mean = np.zeros(5)
    grid = (np.arange(1000) + 0.5) / 1000
    for u in grid:
        latents = np.array([[0, 0, 9], [0, 1, 9], [1, 1, 9], [1, 2, 9], [2, 2, 9]], dtype=np.int32)
        start = latents.copy()
        topic_counts = np.array([np.bincount(row[:2], minlength=3) for row in latents], dtype=np.int32)
        new_weights = weights.copy()
        _resample(new_weights, u, 2, latents, topic_counts)
        np.testing.assert_array_equal(new_weights, 1)
        for row, sizes in zip(latents, topic_counts, strict=True):
            np.testing.assert_array_equal(np.bincount(row[:2], minlength=3), sizes)
        offspring = np.array([np.all(latents[:, :2] == row[:2], axis=1).sum() for row in start])
        assert offspring.sum() == 5
        assert np.all(abs(offspring - weights) < 1)
        mean += offspring / len(grid)
    np.testing.assert_allclose(mean, weights, atol=2e-3)


def test_one_token_and_one_topic_are_exact():
    topics = _make_topics()
    score = left_to_right(topics, np.eye(5), PRIOR)
    expected = np.log(PRIOR @ topics.toarray(np.float64) / PRIOR.sum())
    np.testing.assert_allclose(score.per_document.log_likelihood, expected, rtol=1e-12)
    np.testing.assert_allclose(score.document_errors, 0, atol=1e-15)
    unigram = np.array([[0.5, 0.25, 0.125, 0.0625, 0.0625]])
    score = left_to_right(unigram, DOCUMENTS, [0.3])
    np.testing.assert_allclose(score.per_document.log_likelihood, DOCUMENTS @ np.log(unigram[0]), rtol=1e-12)
    assert score.perplexity == pytest.approx(np.exp(-(DOCUMENTS @ np.log(unigram[0])).sum() / DOCUMENTS.sum()))


def test_batch_position_and_threads_do_not_show():
    generator = np.random.default_rng(0)
    X = generator.poisson(1.0, size=(40, 5))
    X[:3] = 0
    score = left_to_right(_make_topics(), X, PRIOR)
    order = generator.permutation(40)
    for n_jobs in (1, 2):
        other = left_to_right(_make_topics(), X[order], PRIOR, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.per_document.log_likelihood, score.per_document.log_likelihood[order])
        np.testing.assert_array_equal(other.document_errors, score.document_errors[order])
    few = left_to_right(_make_topics(), X[[20, 9, 20]], PRIOR)
    np.testing.assert_array_equal(few.per_document.log_likelihood, score.per_document.log_likelihood[[20, 9, 20]])
    assert score.n_documents == np.count_nonzero(X.sum(axis=1))
    assert score.n_tokens == X.sum()
    seeded = left_to_right(_make_topics(), X, PRIOR, random_state=1)
    assert np.any(seeded.per_document.log_likelihood != score.per_document.log_likelihood)


def test_impossible_words_make_the_likelihood_zero():
    score = left_to_right([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0]], [[2, 2, 0], [1, 0, 1]], [1.0, 1.0])
    assert score.log_likelihood == -np.inf
    assert np.isfinite(score.per_document.log_likelihood[0])
    assert score.per_document.log_likelihood[1] == -np.inf
    assert np.isnan(score.document_errors[1])


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        ([[0, 0, 0]], {}, "must have tokens to evaluate"),
        ([[1, -1, 0]], {}, "Negative values in data passed to left_to_right"),
        ([[1, 2]], {}, "X has 2 columns, but the topics have 3 words"),
        ([[1, 2, 3]], {"n_particles": 0}, "n_particles must be at least 1"),
        ([[1, 2, 3]], {"n_runs": 1}, "n_runs must be at least 2"),
    ],
)
def test_bad_input_is_refused(X, options, message):
    with pytest.raises(ValueError, match=message):
        left_to_right(topic_word_from_array([[1, 1, 1], [1, 2, 3]]), X, [1.0, 1.0], **options)


def test_fractional_counts_are_refused():
    with pytest.raises(
        ValueError,
        match=r"needs integer counts, but X has fractional counts: pass counts of words .* use document_completion",
    ):
        left_to_right([[0.5, 0.5]], [[0.5, 1.0]], [1.0])
