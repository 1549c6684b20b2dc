import numpy as np
import pytest

from skmanifold.admixture._lda.collapsed_kernels import (
    _accumulate_words,
    _init_gamma,
    _merge_partials,
    _sum_words,
    _update_rows,
    _weigh_topics_softly,
)
from skmanifold.admixture._tokens.topic_counts import NO_SEEDS
from skmanifold.random._keys import subkey, uniform
from skmanifold.sparse.counts import index_columns
from skmanifold.utils._threads import Workers, split_range

from .. import _tiny_corpus as tiny

KEY = np.uint64(20090618)


def unseeded(corpus):
    return NO_SEEDS.topic_of_column(corpus.n_words)


class Fit:
    """The state of one run, and its steps over any cut of the rows and the words."""

    def __init__(self, corpus, alpha, prior):
        self.corpus, self.alpha, self.prior = corpus, alpha, prior
        self.n_rows = len(corpus.indptr) - 1
        self.gamma = np.full((len(corpus.indices), len(alpha)), np.nan, np.float32)
        self.word_topic = np.full((corpus.n_words, len(alpha)), np.nan)
        self.topic_total = np.full(len(alpha), np.nan)
        self.word_indptr = np.full(corpus.n_words + 1, -1, np.int64)
        self.word_pairs = np.full(len(corpus.indices), -1, np.int64)
        index_columns(corpus.indices, self.word_indptr, self.word_pairs)
        _init_gamma(0, self.n_rows, corpus.indptr, corpus.indices, unseeded(corpus), KEY, self.gamma)
        self.count()

    def update(self, start, stop):
        _update_rows(
            start,
            stop,
            unseeded(self.corpus),
            *self.corpus[:3],
            self.alpha,
            self.prior.values,
            self.prior.word_stride,
            self.prior.topic_stride,
            self.prior.total,
            self.word_topic,
            self.topic_total,
            self.gamma,
        )

    def accumulate(self, start, stop):
        _accumulate_words(
            start, stop, self.word_indptr, self.word_pairs, self.corpus.counts, self.gamma, self.word_topic
        )

    def count(self, word_cut=None):
        for start, stop in word_cut or [(0, self.corpus.n_words)]:
            self.accumulate(start, stop)
        blocks = split_range(self.corpus.n_words, 4)
        partials = np.full((len(blocks), len(self.alpha)), np.nan)
        for (start, stop), partial in zip(blocks, partials, strict=True):
            _sum_words(start, stop, self.word_topic, partial)
        _merge_partials(partials, self.topic_total)

    def sweep(self, row_cut=None, word_cut=None):
        """One sweep; how far a token's topic probabilities moved on average, sum_k |new - old|: between 0 and 2."""
        old = self.gamma.astype(np.float64)
        for start, stop in row_cut or [(0, self.n_rows)]:
            self.update(start, stop)
        self.count(word_cut)
        return self.corpus.counts @ np.abs(self.gamma - old).sum(axis=1) / self.corpus.n_tokens


def slow_sweep(corpus, alpha, beta, gamma, *, remove=True, fresh=True):
    """(14) with one token removed, D summed anew for every pair (at the start of the sweep only unless `fresh`)."""
    gamma = gamma.astype(np.float64)
    topic_word = np.zeros_like(beta)
    for _, j, word, count in corpus.pairs():
        topic_word[:, word] += count * gamma[j]
    topic_total, beta_total = topic_word.sum(axis=1), beta.sum(axis=1)
    result = gamma.copy()
    for row, j, word, _ in corpus.pairs():
        cells = slice(corpus.indptr[row], corpus.indptr[row + 1])
        doc_topic = corpus.counts[cells] @ (result if fresh else gamma)[cells]
        own = gamma[j] if remove else 0.0
        weights = (topic_word[:, word] - own + beta[:, word]) / (topic_total - own + beta_total)
        weights = weights * (doc_topic - own + alpha)
        result[j] = weights / weights.sum()
    return result


def make_fit(layout="full by topic", n_topics=5, seed=1):
    corpus = tiny.random_corpus(seed, n_rows=20, n_words=11, mean=0.9)
    alpha = np.random.default_rng(2).uniform(0.05, 2.0, n_topics)
    return Fit(corpus, alpha, tiny.make_prior(layout, n_topics, corpus.n_words))


@pytest.mark.parametrize("layout", tiny.PRIOR_LAYOUTS)
@pytest.mark.parametrize("n_topics", [1, 5, 8, 19])
def test_sweeps_follow_the_formula(layout, n_topics):
    fit = make_fit(layout, n_topics)
    for _ in range(4):
        old = fit.gamma.copy()
        expected = slow_sweep(fit.corpus, fit.alpha, fit.prior.table, old)
        mean_change = fit.sweep()
        np.testing.assert_allclose(fit.gamma, expected, rtol=2e-6)
        change = fit.corpus.counts @ np.abs(expected - old).sum(axis=1) / fit.corpus.n_tokens
        assert mean_change == pytest.approx(change, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("wrong", [{"remove": False}, {"fresh": False}], ids=["token not removed", "stale documents"])
def test_a_wrong_formula_is_told_apart(wrong):
    fit = make_fit()
    other = slow_sweep(fit.corpus, fit.alpha, fit.prior.table, fit.gamma, **wrong)
    fit.sweep()
    assert np.abs(fit.gamma - other).max() > 1e-2


def test_counts_beyond_16_bits():
    table = np.random.default_rng(3).poisson(1.0, (4, 5))
    table[1, 2], table[2, 2], table[3, 0] = 300, 70_000, 1000
    corpus = tiny.corpus_from_dense(table)
    fit = Fit(corpus, np.array([0.1, 0.7, 2.0]), tiny.make_prior("full by word", 3, 5))
    expected = slow_sweep(corpus, fit.alpha, fit.prior.table, fit.gamma)
    fit.sweep()
    np.testing.assert_allclose(fit.gamma, expected, rtol=2e-6)
    assert fit.topic_total.sum() == pytest.approx(corpus.n_tokens, rel=1e-7)


def test_a_single_token_gets_the_prior_whatever_it_had():
    corpus = tiny.corpus_from_dense([[0, 0, 1]])
    fit = Fit(corpus, np.array([0.3, 1.0, 0.2, 4.0]), tiny.make_prior("full by topic", 4, 3))
    fit.sweep()
    expected = fit.alpha * fit.prior.table[:, 2] / fit.prior.total
    np.testing.assert_allclose(fit.gamma[0], expected / expected.sum(), rtol=1e-6)


def test_rounding_may_not_make_a_count_negative():
    gamma = np.array([[0.25, 0.75]], np.float32)
    low = gamma[0].astype(np.float64) - 1e-9
    tiny_prior, weights = np.full(2, 1e-12), np.empty(2)
    _weigh_topics_softly(low.reshape(1, 2), 0, low, np.ones(2), low, tiny_prior, tiny_prior, gamma, 0, weights)
    np.testing.assert_allclose(weights, 1e-24, rtol=1e-12)


@pytest.mark.parametrize("n_topics", [1, 5, 16])
def test_totals_are_kept(n_topics):
    fit = make_fit(n_topics=n_topics)
    for _ in range(3):
        fit.sweep()
        np.testing.assert_allclose(fit.gamma.sum(axis=1, dtype=np.float64), 1.0, rtol=0, atol=1e-6)
        topic_word = np.zeros_like(fit.prior.table)
        for _, j, word, count in fit.corpus.pairs():
            topic_word[:, word] += count * fit.gamma[j].astype(np.float64)
        np.testing.assert_allclose(fit.word_topic, topic_word.T, rtol=1e-14)
        np.testing.assert_allclose(fit.topic_total, fit.word_topic.sum(axis=0), rtol=1e-14)
        assert fit.topic_total.sum() == pytest.approx(fit.corpus.n_tokens, rel=1e-6)
    assert np.all(fit.word_topic[4] == 0.0)  # the word that nobody uses


def test_the_cut_into_tasks_leaves_no_trace():
    whole = make_fit(n_topics=13)
    changes = [whole.sweep() for _ in range(3)]
    for size in (1, 3, 7):
        fit = make_fit(n_topics=13)
        # Backwards: the order of the tasks may not matter either.
        cuts = split_range(fit.n_rows, size)[::-1], split_range(fit.corpus.n_words, size)[::-1]
        assert [fit.sweep(*cuts) for _ in range(3)] == changes
        for name in ("gamma", "word_topic", "topic_total"):
            assert getattr(fit, name).tobytes() == getattr(whole, name).tobytes()


def test_the_number_of_threads_leaves_no_trace():
    whole, fit = make_fit(n_topics=13), make_fit(n_topics=13)
    with Workers(4) as workers:
        for _ in range(3):
            whole.sweep()
            workers.run(fit.update, split_range(fit.n_rows, 2))
            workers.run(fit.accumulate, split_range(fit.corpus.n_words, 2))
            fit.count([(0, 0)])
    for name in ("gamma", "word_topic", "topic_total"):
        assert getattr(fit, name).tobytes() == getattr(whole, name).tobytes()


def test_sweeps_end_in_a_fixed_point_of_the_formula():
    fit = make_fit(n_topics=3)
    changes = [fit.sweep() for _ in range(400)]
    assert changes[0] > 0.1
    assert changes[-1] < 1e-5
    residual = slow_sweep(fit.corpus, fit.alpha, fit.prior.table, fit.gamma) - fit.gamma
    assert np.abs(residual).max() < 1e-5


def test_two_vocabularies_become_two_topics():
    rng = np.random.default_rng(5)
    table = np.zeros((30, 12), dtype=int)
    table[:15, :6] = rng.poisson(3.0, (15, 6))
    table[15:, 6:] = rng.poisson(3.0, (15, 6))
    corpus = tiny.corpus_from_dense(table)
    fit = Fit(corpus, np.full(2, 0.1), tiny.make_prior("scalar", 2, 12))
    for _ in range(100):
        fit.sweep()
    share = fit.word_topic / fit.word_topic.sum(axis=1, keepdims=True)
    first = int(share[0].argmax())
    assert share[:6, first].min() > 0.97
    assert share[6:, 1 - first].min() > 0.97


def test_initial_gamma_is_keyed_by_row_feature_and_topic():
    corpus, n_topics = tiny.random_corpus(4), 7
    gamma = np.full((len(corpus.indices), n_topics), np.nan, np.float32)
    for start, stop in split_range(len(corpus.indptr) - 1, 5):
        _init_gamma(start, stop, corpus.indptr, corpus.indices, unseeded(corpus), KEY, gamma)
    for row, j, word, _ in corpus.pairs():
        expected = np.array([1.0 - uniform(subkey(KEY, row, word), k) for k in range(n_topics)])
        np.testing.assert_allclose(gamma[j], expected / expected.sum(), rtol=1e-6)


def test_words_list_their_pairs_in_the_order_of_the_rows():
    fit = make_fit()
    for word in range(fit.corpus.n_words):
        listed = fit.word_pairs[fit.word_indptr[word] : fit.word_indptr[word + 1]]
        assert listed.tolist() == [j for _, j, other, _ in fit.corpus.pairs() if other == word]
