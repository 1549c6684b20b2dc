import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

from skmanifold.admixture._lda.collapsed_kernels import _init_assignments, _log_joint, _pick_topic, _sweep_collapsed
from skmanifold.admixture._tokens.topic_counts import NO_SEEDS
from skmanifold.random._keys import random_bits, subkey, uniform

from .. import _tiny_corpus as tiny

KEY = np.uint64(20040406)


def initial_state(corpus, n_topics, key=KEY):
    assignments = np.empty(corpus.n_tokens, np.uint16)
    word_topic = np.full((corpus.n_words, n_topics), -1, np.int32)
    topic_total = np.full(n_topics, -1, np.int64)
    unseeded = NO_SEEDS.topic_of_column(corpus.n_words)
    _init_assignments(*corpus[:4], 0, n_topics, unseeded, key, assignments, word_topic, topic_total)
    return assignments, word_topic, topic_total


def sweep(corpus, alpha, prior, key, state):
    _sweep_collapsed(*corpus[:4], alpha, prior.values, prior.word_stride, prior.topic_stride, prior.total, key, *state)


def state_log_joint(corpus, alpha, prior, state):
    return _log_joint(
        corpus.token_start, *state, alpha, prior.values, prior.word_stride, prior.topic_stride, prior.total
    )


def token_rows_words(corpus):
    pairs = list(corpus.pairs())
    counts = [count for *_, count in pairs]
    return np.repeat([row for row, *_ in pairs], counts), np.repeat([word for _, _, word, _ in pairs], counts)


def recount(corpus, assignments, n_topics):
    rows, words = token_rows_words(corpus)
    return tiny.count_topics(rows, words, assignments, len(corpus.indptr) - 1, corpus.n_words, n_topics)


def slow_sweep(corpus, alpha, beta, key, assignments):
    assignments = assignments.astype(int)
    doc_topic, topic_word, topic_total = recount(corpus, assignments, len(alpha))
    beta_total = beta.sum(axis=1)
    token = 0
    for row, _, word, count in corpus.pairs():
        cell_key = subkey(key, row, word)
        for occurrence in range(count):
            old = assignments[token]
            doc_topic[row, old] -= 1
            topic_word[old, word] -= 1
            topic_total[old] -= 1
            weights = (doc_topic[row] + alpha) * (topic_word[:, word] + beta[:, word]) / (topic_total + beta_total)
            ends = weights.cumsum()
            new = int(np.searchsorted(ends, uniform(cell_key, occurrence) * ends[-1], side="right"))
            doc_topic[row, new] += 1
            topic_word[new, word] += 1
            topic_total[new] += 1
            assignments[token] = new
            token += 1
    return assignments, topic_word, topic_total


# The exact chain on 64 states


def test_enumeration_gives_the_published_posterior():
    assert logsumexp(tiny.tiny_log_joints()) == pytest.approx(tiny.LOG_EVIDENCE, abs=1e-12)
    np.testing.assert_allclose(tiny.summary_row(tiny.tiny_posterior()), tiny.POSTERIOR_ROW, atol=1e-8, rtol=0)


def test_enumeration_gives_the_published_esca_law():
    transition = tiny.esca_transition()
    law = tiny.stationary(transition)
    np.testing.assert_allclose(tiny.summary_row(law), tiny.ESCA_ROW, atol=1e-8, rtol=0)
    assert 0.5 * np.abs(law - tiny.tiny_posterior()).sum() == pytest.approx(0.10921325, abs=1e-8)
    assert np.sort(np.abs(np.linalg.eigvals(transition)))[-2] == pytest.approx(0.95280548, abs=1e-8)


def test_only_the_right_conditional_leaves_the_posterior_invariant():
    posterior = tiny.tiny_posterior()
    assert np.abs(posterior @ tiny.gibbs_transition() - posterior).max() < 1e-15
    for wrong in ({"printed": True}, {"remove": False}):
        assert 0.5 * np.abs(tiny.stationary(tiny.gibbs_transition(**wrong)) - posterior).sum() > 0.05
    assert np.abs(posterior @ tiny.gibbs_transition(printed=True) - posterior).max() == pytest.approx(0.10, abs=0.005)


# The kernel's law


def tiny_prior():
    return tiny.Prior(
        np.array([tiny.BETA]), 0, 0, np.full(tiny.N_TOPICS, tiny.BETA * tiny.N_WORDS), np.full((2, 3), tiny.BETA)
    )


def tiny_state(index):
    topics = tiny.STATES[index]
    _, topic_word, topic_total = tiny.tiny_counts(topics)
    return topics.astype(np.uint16), np.ascontiguousarray(topic_word.T, np.int32), topic_total.astype(np.int64)


def chi_square(observed, law):
    """Pearson's statistic and its degrees of freedom, cells that expect fewer than 8 pooled."""
    expected = observed.sum() * law
    rare = expected < 8
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return ((observed - expected) ** 2 / expected).sum(), len(expected) - 1


@pytest.fixture(scope="module")
def one_step_counts():
    """Where one sweep leads from a few states: {start: counts over the 64 states}."""
    corpus, prior, alpha = tiny.tiny_corpus(), tiny_prior(), np.full(tiny.N_TOPICS, tiny.ALPHA)
    powers = tiny.N_TOPICS ** np.arange(5, -1, -1)
    result = {}
    for start in (0, 11, 26, 45):
        fresh = tiny_state(start)
        state = tuple(array.copy() for array in fresh)
        ends = np.empty(15_000, dtype=int)
        for repetition in range(len(ends)):
            for array, value in zip(state, fresh, strict=True):
                array[:] = value
            sweep(corpus, alpha, prior, subkey(KEY, start, repetition), state)
            ends[repetition] = state[0] @ powers
        result[start] = np.bincount(ends, minlength=len(tiny.STATES))
    return result


def total_p_value(counts, transition):
    statistics = [chi_square(observed, transition[start]) for start, observed in counts.items()]
    return chi2.sf(*np.sum(statistics, axis=0))


@pytest.mark.extended
def test_one_sweep_has_the_exact_transition_law(one_step_counts):
    transition = tiny.gibbs_transition()
    for start, observed in one_step_counts.items():
        assert chi2.sf(*chi_square(observed, transition[start])) > 1e-3
    assert total_p_value(one_step_counts, transition) > 1e-2


@pytest.mark.parametrize("wrong", [{"printed": True}, {"remove": False}], ids=["printed (13)", "token not removed"])
def test_one_sweep_is_told_from_a_wrong_rule(one_step_counts, wrong):
    assert total_p_value(one_step_counts, tiny.gibbs_transition(**wrong)) < 1e-50


def test_one_sweep_is_told_from_a_synchronous_one(one_step_counts):
    assert total_p_value(one_step_counts, tiny.esca_transition()) < 1e-50


@pytest.mark.extended
def test_long_run_has_the_posterior_as_its_law():
    corpus, prior, alpha = tiny.tiny_corpus(), tiny_prior(), np.full(tiny.N_TOPICS, tiny.ALPHA)
    state = initial_state(corpus, tiny.N_TOPICS)
    n_batches, batch_size = 50, 1000
    draws = np.empty((n_batches * batch_size, 6), np.uint16)
    for i in range(len(draws)):
        sweep(corpus, alpha, prior, subkey(KEY, i), state)
        draws[i] = state[0]
    log_joints = tiny.tiny_log_joints()[draws @ (2 ** np.arange(5, -1, -1))]
    values = np.column_stack([draws[:, i] == draws[:, j] for i, j in tiny.PAIRS] + [log_joints])
    batch_means = values.reshape(n_batches, batch_size, -1).mean(axis=1)
    standard_error = batch_means.std(axis=0, ddof=1) / np.sqrt(n_batches)
    z = (batch_means.mean(axis=0) - tiny.POSTERIOR_ROW) / standard_error
    assert np.abs(z).max() < 3.5, z
    # Precise enough to tell the posterior from the law of the synchronous sweep.
    assert (np.abs(np.subtract(tiny.ESCA_ROW, tiny.POSTERIOR_ROW)) / standard_error).max() > 10


# The kernel against a slow one with the same uniforms


@pytest.mark.parametrize("layout", tiny.PRIOR_LAYOUTS)
@pytest.mark.parametrize("n_topics", [1, 3, 8, 21])
def test_sweeps_repeat_the_slow_reference(layout, n_topics):
    corpus = tiny.random_corpus(1)
    alpha = np.random.default_rng(2).uniform(0.05, 2.0, n_topics)
    prior = tiny.make_prior(layout, n_topics, corpus.n_words)
    state = initial_state(corpus, n_topics)
    start = state[0].copy()
    for i in range(3):
        key = subkey(KEY, i)
        assignments, topic_word, topic_total = slow_sweep(corpus, alpha, prior.table, key, state[0])
        sweep(corpus, alpha, prior, key, state)
        np.testing.assert_array_equal(state[0], assignments)
        np.testing.assert_array_equal(state[1], topic_word.T)
        np.testing.assert_array_equal(state[2], topic_total)
    assert n_topics == 1 or np.any(state[0] != start)


def test_cells_may_hold_more_tokens_than_16_bits_count():
    table = np.random.default_rng(3).poisson(1.0, (4, 5))
    table[1, 2], table[2, 2], table[3, 0] = 300, 66_000, 1000
    corpus = tiny.corpus_from_dense(table)
    alpha, prior = np.array([0.1, 0.7, 2.0]), tiny.make_prior("full by topic", 3, 5)
    state = initial_state(corpus, 3)
    assignments, topic_word, topic_total = slow_sweep(corpus, alpha, prior.table, KEY, state[0])
    sweep(corpus, alpha, prior, KEY, state)
    np.testing.assert_array_equal(state[0], assignments)
    np.testing.assert_array_equal(state[1], topic_word.T)
    np.testing.assert_array_equal(state[2], topic_total)
    doc_topic, topic_word, _ = recount(corpus, assignments, 3)
    expected = tiny.log_joint(doc_topic, topic_word, alpha, prior.table)
    assert state_log_joint(corpus, alpha, prior, state) == pytest.approx(expected, rel=1e-11)


def test_topics_above_15_bits_survive_in_assignments():
    n_topics = 65_536
    corpus = tiny.corpus_from_dense([[3, 0], [1, 2]])
    prior = tiny.make_prior("scalar", n_topics, 2)
    # All but nothing of the prior sits on the last topic.
    alpha = np.full(n_topics, 1e-12)
    alpha[-1] = 1e6
    state = initial_state(corpus, n_topics)
    sweep(corpus, alpha, prior, KEY, state)
    assert np.all(state[0] == n_topics - 1)
    assert state[2][-1] == corpus.n_tokens
    assert state[1][:, -1].tolist() == [4, 2]


# Parts


def test_initial_topics_are_keyed_by_row_feature_and_occurrence():
    corpus, n_topics = tiny.random_corpus(4), 7
    assignments, word_topic, topic_total = initial_state(corpus, n_topics)
    expected = [
        (int(random_bits(subkey(KEY, row, word), occurrence)) >> 32) * n_topics >> 32
        for row, _, word, count in corpus.pairs()
        for occurrence in range(count)
    ]
    np.testing.assert_array_equal(assignments, expected)
    _, topic_word, totals = recount(corpus, assignments, n_topics)
    np.testing.assert_array_equal(word_topic, topic_word.T)
    np.testing.assert_array_equal(topic_total, totals)


def test_initial_topics_are_uniform():
    corpus, n_topics = tiny.corpus_from_dense(np.full((40, 50), 20)), 13
    _, word_topic, topic_total = initial_state(corpus, n_topics)
    assert chi2.sf(*chi_square(topic_total, np.full(n_topics, 1 / n_topics))) > 1e-3
    # Within words too: the draws of one word in different rows are not the same.
    statistics = [chi_square(row, np.full(n_topics, 1 / n_topics)) for row in word_topic]
    assert chi2.sf(*np.sum(statistics, axis=0)) > 1e-3


def pick(weights, u):
    padded = np.zeros(-(-len(weights) // 8) * 8)
    padded[: len(weights)] = weights
    return _pick_topic(padded, len(weights), u, np.empty(len(padded) // 8))


@pytest.mark.parametrize("n_topics", [1, 2, 7, 8, 9, 16, 40])
def test_pick_inverts_the_distribution_function_and_skips_zeros(n_topics):
    rng = np.random.default_rng(n_topics)
    for _ in range(50):
        weights = rng.exponential(size=n_topics) * (rng.random(n_topics) < 0.5)
        weights[rng.integers(n_topics)] = 1.0
        ends = weights.cumsum()
        for u in rng.random(20):
            assert pick(weights, u) == np.searchsorted(ends, u * ends[-1], side="right")
        assert pick(weights, 0.0) == np.flatnonzero(weights)[0]
        assert pick(weights, 1 - 2.0**-53) == np.flatnonzero(weights)[-1]


def test_pick_stays_inside_when_the_sums_round_apart():
    # Added one by one the small ones vanish; added in pairs they do not, so the target lies beyond the running sum.
    weights = np.array([1.0] + [2.0**-53] * 5)
    assert weights.cumsum()[-1] == 1.0
    assert pick(weights, 1 - 2.0**-53) == 5
    assert pick(np.append(weights, [0.0, 0.0]), 1 - 2.0**-53) == 5


def test_log_joint_of_the_tiny_corpus():
    corpus, prior, alpha = tiny.tiny_corpus(), tiny_prior(), np.full(tiny.N_TOPICS, tiny.ALPHA)
    values = [state_log_joint(corpus, alpha, prior, tiny_state(i)) for i in range(len(tiny.STATES))]
    np.testing.assert_allclose(values, tiny.tiny_log_joints(), rtol=1e-13)
    assert logsumexp(values) == pytest.approx(tiny.LOG_EVIDENCE, abs=1e-12)


@pytest.mark.parametrize("layout", tiny.PRIOR_LAYOUTS)
def test_log_joint_with_any_prior(layout):
    corpus, n_topics = tiny.random_corpus(5, mean=4.0), 4
    alpha = np.array([0.01, 0.3, 5.0, 80.0])
    prior = tiny.make_prior(layout, n_topics, corpus.n_words)
    state = initial_state(corpus, n_topics)
    doc_topic, topic_word, _ = recount(corpus, state[0], n_topics)
    expected = tiny.log_joint(doc_topic, topic_word, alpha, prior.table)
    assert state_log_joint(corpus, alpha, prior, state) == pytest.approx(expected, rel=1e-12)
