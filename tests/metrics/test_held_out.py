import numpy as np
import pytest
import scipy.sparse as sp
from models._topic_words import sparse_topics
from scipy.special import logsumexp
from scipy.stats import chi2, multivariate_hypergeom

from skmanifold.metrics import document_completion
from skmanifold.metrics._held_out import split_tokens
from skmanifold.random._keys import root_key
from skmanifold.sparse.counts import as_counts, canonical_csr, whole_counts
from skmanifold.topics.topic_word import topic_word_from_array
from skmanifold.utils._threads import Workers


def _make_corpus(n_rows=60, n_components=4, n_features=50, length=30, seed=0):
    generator = np.random.default_rng(seed)
    topic_word = generator.dirichlet(np.full(n_features, 0.1), size=n_components)
    topic_word = (topic_word + 1e-4) / (topic_word + 1e-4).sum(axis=1, keepdims=True)
    doc_topic = generator.dirichlet(np.full(n_components, 0.3), size=n_rows)
    X = np.array([generator.multinomial(generator.poisson(length), theta @ topic_word) for theta in doc_topic])
    return topic_word, X


def _split(X, seed=0):
    counts = whole_counts(canonical_csr(X), np.uint64(3))
    parts = split_tokens(counts, root_key(seed), Workers(1))
    assert all(part.counts.min(initial=1) > 0 for part in parts)
    return [sp.csr_array((c.counts, c.indices, c.indptr), shape=np.shape(X)).toarray() for c in parts]


def _solve_slowly(phi, row, prior):
    point = prior + row.sum() / len(prior)
    for _ in range(3000):
        point = prior + point * (phi @ (row / (point @ phi)))
    return point / point.sum()


def test_split_is_exactly_half():
    _, X = _make_corpus()
    observed, held_out = _split(X)
    np.testing.assert_array_equal(observed + held_out, X)
    np.testing.assert_array_equal(observed.sum(axis=1), X.sum(axis=1) // 2)


def test_documents_under_two_tokens_are_in_neither_half():
    observed, held_out = _split([[0, 0, 0], [0, 1, 0], [1, 0, 1]])
    assert not observed[:2].any()
    assert not held_out[:2].any()
    assert observed[2].sum() == held_out[2].sum() == 1


@pytest.mark.extended
def test_every_half_is_equally_likely():
    row = np.array([4, 2, 1])
    seen: dict[tuple, int] = {}
    for seed in range(4000):
        observed = tuple(_split(row[np.newaxis], seed)[0][0].tolist())
        seen[observed] = seen.get(observed, 0) + 1
    law = multivariate_hypergeom(row, 3)
    expected = {cell: 4000 * law.pmf(cell) for cell in np.ndindex(5, 3, 2) if sum(cell) == 3}
    assert set(seen) <= set(expected)
    statistic = sum((seen.get(cell, 0) - value) ** 2 / value for cell, value in expected.items())
    assert chi2.sf(statistic, len(expected) - 1) > 1e-4


@pytest.mark.extended
def test_score_is_that_of_the_other_half():
    phi, X = _make_corpus()
    X[3] = 0
    X[4] = 0
    X[4, 7] = 1
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    score = document_completion(phi, X, prior, tol=1e-10, max_iter=10_000)
    observed, held_out = _split(X)
    theta = np.array([_solve_slowly(phi, row, prior) for row in observed])
    log_p = np.log(theta @ phi)
    sums = (held_out * log_p).sum(axis=1)
    np.testing.assert_allclose(score.per_document.log_likelihood, sums, rtol=1e-5, atol=1e-12)
    np.testing.assert_array_equal(score.per_document.n_tokens, held_out.sum(axis=1))
    assert score.log_likelihood == pytest.approx(sums.sum() / held_out.sum(), abs=1e-5)
    assert score.perplexity == pytest.approx(np.exp(-sums.sum() / held_out.sum()), rel=1e-5)
    assert (score.n_tokens, score.n_documents) == (held_out.sum(), len(X) - 2)
    # What the check must be able to tell: the wrong half scored, all tokens scored, the proportions of all tokens.
    full_theta = np.array([_solve_slowly(phi, row, prior) for row in X])
    for wrong in (
        (observed * log_p).sum() / observed.sum(),
        (X * log_p).sum() / X.sum(),
        (held_out * np.log(full_theta @ phi)).sum() / held_out.sum(),
    ):
        assert abs(wrong - score.log_likelihood) > 0.01


def test_batch_position_and_threads_do_not_show():
    phi, X = _make_corpus(n_rows=600)
    prior = np.full(4, 0.2)
    score = document_completion(phi, X, prior)
    order = np.random.default_rng(1).permutation(600)
    for n_jobs in (1, 2):
        other = document_completion(phi, X[order], prior, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.per_document.log_likelihood, score.per_document.log_likelihood[order])
    other = document_completion(phi, X, prior, random_state=1)
    assert np.any(other.per_document.log_likelihood != score.per_document.log_likelihood)
    few = document_completion(phi, X[order[:5]], prior)
    np.testing.assert_array_equal(few.per_document.log_likelihood, score.per_document.log_likelihood[order[:5]])


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.coo_array, sp.csc_array, np.ndarray.tolist])
def test_every_container_gives_the_same(container):
    phi, X = _make_corpus()
    expected = document_completion(phi, X, np.full(4, 0.2))
    assert document_completion(phi, container(X), np.full(4, 0.2)).log_likelihood == expected.log_likelihood


def test_fractions_are_weights():
    phi, X = _make_corpus()
    X = X * 0.7
    score = document_completion(phi, X, np.full(4, 0.2))
    twice = document_completion(phi, np.vstack([X[5:], X]), np.full(4, 0.2))
    sums = score.per_document.log_likelihood
    np.testing.assert_array_equal(twice.per_document.log_likelihood, np.concatenate((sums[5:], sums)))
    assert score.n_tokens == pytest.approx(X.sum() / 2, rel=0.1)
    assert score.n_tokens == pytest.approx(score.per_document.n_tokens.sum())


def test_a_fraction_is_a_token_of_its_weight():
    X = np.array([[2.3, 0.5, 0.0, 1.0], [0.9, 0.0, 0.0, 0.0], [4.0, 2.0, 1.0, 0.0]])
    halves = [split_tokens(as_counts(canonical_csr(X)), root_key(seed), Workers(1)) for seed in range(400)]
    tables = np.array(
        [[sp.csr_array((c.counts, c.indices, c.indptr), X.shape).toarray() for c in parts] for parts in halves]
    )
    np.testing.assert_allclose(tables.sum(axis=1)[:, [0, 2]], np.tile(X[[0, 2]], (400, 1, 1)))
    assert not tables[:, :, 1].any()  # a single token
    observed = tables[:, 0, 0]  # two of the five tokens 1, 1, .3, .5, 1
    assert {round(total, 9) for total in observed.sum(axis=1)} == {2.0, 1.3, 1.5, 0.8}
    assert abs((observed[:, 1] > 0).mean() - 2 / 5) < 4 * np.sqrt(0.24 / 400)
    alone = split_tokens(as_counts(canonical_csr(X[[2]])), root_key(0), Workers(1))
    np.testing.assert_array_equal(alone[0].counts, tables[0, 0, 2][tables[0, 0, 2] > 0])  # where all are whole


def test_both_forms_of_the_topics_agree():
    phi, X = _make_corpus()
    base = phi.min(axis=0)
    sparse = sparse_topics((phi - base).T, base, np.ones(4))
    prior = np.full(4, 0.2)
    score = document_completion(sparse, X, prior)
    assert score.log_likelihood == pytest.approx(document_completion(phi, X, prior).log_likelihood, abs=1e-5)


def test_one_topic_is_the_unigram_model():
    phi, X = _make_corpus()
    unigram = X.sum(axis=0) + 1.0
    score = document_completion(unigram[np.newaxis], X, [1.0])
    _, held_out = _split(X)
    expected = (held_out * np.log(unigram / unigram.sum())).sum() / held_out.sum()
    assert score.log_likelihood == pytest.approx(expected, abs=1e-6)
    assert score.perplexity > 1.3 * document_completion(phi, X, np.full(4, 0.3)).perplexity


def test_standard_error_is_that_of_the_jackknife():
    phi, X = _make_corpus(n_rows=300)
    X[::2] *= 3  # documents of unlike length
    score = document_completion(phi, X, np.full(4, 0.3))
    sums, sizes = score.per_document
    left_out = (sums.sum() - sums) / (sizes.sum() - sizes)
    jackknife = np.sqrt((len(X) - 1) * left_out.var())
    assert score.standard_error == pytest.approx(jackknife, rel=0.02)


def test_one_document_has_no_standard_error():
    phi, X = _make_corpus(1)
    assert np.isnan(document_completion(phi, X, np.full(4, 0.3)).standard_error)


def test_impossible_words_make_the_likelihood_zero():
    score = document_completion([[0.5, 0.5, 0.0]], [[2, 2, 0], [0, 0, 9]], [1.0])
    assert score.log_likelihood == -np.inf
    assert score.perplexity == np.inf
    assert np.isnan(score.standard_error)
    assert score.per_document.log_likelihood[0] == pytest.approx(2 * np.log(0.5))


def _make_draws(phi, n_draws, seed=7):
    """Topics around `phi`, in an order of their own in each draw."""
    generator = np.random.default_rng(seed)
    draws = [np.array([generator.dirichlet(30 * row + 0.02) for row in phi]) for _ in range(n_draws)]
    return np.array([(draw + 1e-6)[generator.permutation(len(phi))] for draw in draws])


@pytest.mark.long
def test_a_token_is_scored_by_its_mean_probability_over_draws():
    phi, X = _make_corpus()
    draws = _make_draws(phi, 3)
    priors = [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.2, 0.2, 0.2, 0.2]]
    score = document_completion(list(draws), X, priors, tol=1e-10, max_iter=10_000)
    observed, held_out = _split(X)
    draws = draws / draws.sum(axis=2, keepdims=True)
    probability = np.array(  # (S, D, V)
        [[_solve_slowly(draws[s], row, np.array(priors[s])) @ draws[s] for row in observed] for s in range(3)]
    )
    sums = (held_out * np.log(probability.mean(axis=0))).sum(axis=1)
    np.testing.assert_allclose(score.per_document.log_likelihood, sums, rtol=1e-5, atol=1e-12)
    assert score.log_likelihood == pytest.approx(sums.sum() / held_out.sum(), abs=1e-5)
    assert score.n_tokens == held_out.sum()
    # What the check must be able to tell: the mean of the log scores, the mean for each document, one prior for all.
    log_scores = (held_out * np.log(probability)).sum(axis=2)  # (S, D)
    one_prior = document_completion(list(draws), X, priors[0], tol=1e-10, max_iter=10_000)
    for wrong in (log_scores.mean(axis=0), logsumexp(log_scores, axis=0) - np.log(3), one_prior.per_document[0]):
        assert abs(wrong - sums).max() > 0.1


def test_equal_draws_score_as_one():
    phi, X = _make_corpus()
    prior = np.full(4, 0.2)
    expected = document_completion(phi, X, prior)
    one = document_completion([phi], X, [prior])
    np.testing.assert_array_equal(one.per_document.log_likelihood, expected.per_document.log_likelihood)
    equal = document_completion([phi] * 5, X, prior)
    np.testing.assert_allclose(equal.per_document.log_likelihood, expected.per_document.log_likelihood, rtol=1e-13)
    turned = document_completion([phi, phi[::-1]], X, prior)  # labels mean nothing
    assert turned.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-6)


def test_the_mean_of_predictions_is_no_worse_than_the_mean_of_scores():
    phi, X = _make_corpus()
    prior = np.full(4, 0.2)
    draws = _make_draws(phi, 8)
    single = [document_completion(draw, X, prior).per_document.log_likelihood for draw in draws]
    together = document_completion(draws, X, prior)
    assert np.all(together.per_document.log_likelihood >= np.mean(single, axis=0))
    assert together.log_likelihood > np.mean([s.sum() for s in single]) / together.n_tokens + 0.01


def test_draws_in_every_form_chunk_and_number_of_threads_score_the_same(monkeypatch):
    phi, X = _make_corpus(n_rows=600)
    prior = np.full(4, 0.2)
    draws = _make_draws(phi, 3)
    expected = document_completion(draws, X, prior, n_jobs=1).per_document.log_likelihood
    monkeypatch.setattr("skmanifold.metrics._held_out._CHUNK_CELLS", 1)
    converted = [topic_word_from_array(draw) for draw in draws]
    for form in (list(draws), tuple(draws), draws.tolist(), converted, [converted[0], *draws[1:]]):
        other = document_completion(form, X, prior, n_jobs=2)
        np.testing.assert_array_equal(other.per_document.log_likelihood, expected)


def test_draws_may_differ_in_their_numbers_of_topics():
    phi, X = _make_corpus()
    unigram = X.sum(axis=0, keepdims=True) + 1.0
    score = document_completion([phi, unigram], X, [np.full(4, 0.2), [1.0]])
    alone = document_completion(unigram, X, [1.0])
    assert score.log_likelihood > alone.log_likelihood


def test_a_word_is_impossible_only_if_it_is_in_every_draw():
    X = [[2, 2, 0], [3, 3, 9]]
    closed, open_ = [[0.5, 0.5, 0.0]], [[0.4, 0.4, 0.2]]
    assert document_completion([closed, closed], X, [1.0]).log_likelihood == -np.inf
    score = document_completion([closed, open_], X, [1.0])
    assert score.per_document.log_likelihood[0] == pytest.approx(2 * np.log(0.45))
    assert np.isfinite(score.log_likelihood)


@pytest.mark.parametrize(
    ("topics", "prior", "message"),
    [
        ([np.ones((2, 3)), np.ones((2, 4))], [1.0, 1.0], "columns, the topics 4 words"),
        ([np.ones((2, 3)), np.ones((1, 3))], [1.0, 1.0], r"must have shape \(1,\)"),
        ([np.ones((2, 3))] * 2, [[1.0, 1.0]] * 3, "has 3 vectors, but there are 2 draws"),
        (np.ones((2, 3)), [[1.0, 1.0]], r"must have shape \(2,\)"),
        (np.ones((0, 2, 3)), [1.0, 1.0], "must be a dense, non-empty"),
        ([], [1.0, 1.0], "must be a dense, non-empty"),
    ],
)
def test_bad_draws_are_refused(topics, prior, message):
    with pytest.raises(ValueError, match=message):
        document_completion(topics, [[1, 2, 3]], prior)


@pytest.mark.parametrize(
    ("X", "prior", "message"),
    [
        ([[1, 0, 0], [0, 0, 0]], [1.0, 1.0], "No tokens can be held out"),
        ([[1, -1, 0]], [1.0, 1.0], "Negative values in data passed to document_completion"),
        ([[1, 2]], [1.0, 1.0], "X has 2 columns, but the topics have 3 words"),
        ([[1, np.nan, 3]], [1.0, 1.0], "contains NaN"),
        ([[1, 2, 3]], [1.0], r"must have shape \(2,\)"),
    ],
)
def test_bad_input_is_refused(X, prior, message):
    with pytest.raises(ValueError, match=message):
        document_completion(topic_word_from_array([[1, 1, 1], [1, 2, 3]]), X, prior)
