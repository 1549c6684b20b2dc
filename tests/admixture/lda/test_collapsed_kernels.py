"""Collapsed Gibbs sampling: the exact chain of a tiny corpus, and sweeps with the uniforms of a slow reference."""

import numpy as np
import pytest
from scipy.special import logsumexp

from skmanifold.admixture._lda.collapsed_kernels import _pick_topic
from skmanifold.random._keys import random_bits, subkey, uniform

from .. import _tiny_corpus as tiny
from ._lda_arrays import make_model

KEY = np.uint64(20040406)
TINY = [[2, 1, 0], [0, 1, 2]]


def beta_of(model):
    return np.broadcast_to(model.topic_prior.values, (model.n_components, model.counts.n_features))


def recount(model, topics):
    counts = model.counts
    rows = np.repeat(np.arange(counts.n_rows), counts.row_sums())
    words = np.repeat(counts.indices, counts.counts)
    return tiny.count_topics(rows, words, topics, counts.n_rows, counts.n_features, model.n_components)


def log_joint_of(model, topics):
    return tiny.log_joint(*recount(model, topics)[:2], model.doc_topic_prior, beta_of(model))


def slow_sweep(model, key, topics):
    topics, alpha, beta = topics.astype(int), model.doc_topic_prior, beta_of(model)
    doc_topic, topic_word, topic_total = recount(model, topics)
    beta_total = beta.sum(axis=1)
    token = 0
    for row, _, word, count in tiny.pairs(model.counts):
        cell_key = subkey(key, row, word)
        for occurrence in range(count):
            old = topics[token]
            doc_topic[row, old] -= 1
            topic_word[old, word] -= 1
            topic_total[old] -= 1
            weights = (doc_topic[row] + alpha) * (topic_word[:, word] + beta[:, word]) / (topic_total + beta_total)
            ends = weights.cumsum()
            new = int(np.searchsorted(ends, uniform(cell_key, occurrence) * ends[-1], side="right"))
            doc_topic[row, new] += 1
            topic_word[new, word] += 1
            topic_total[new] += 1
            topics[token] = new
            token += 1
    return topics, topic_word.T, topic_total


def assert_sweeps_repeat_the_slow_reference(model, n_sweeps):
    state = model.init_assignments(KEY)
    for i in range(n_sweeps):
        key = subkey(KEY, i)
        expected = slow_sweep(model, key, state.topics)
        log_joint = model.sweep_assignments(state, key)
        for part, other in zip(state, expected, strict=True):
            np.testing.assert_array_equal(part, other)
        assert log_joint == pytest.approx(log_joint_of(model, state.topics), rel=1e-11)
    return state


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


@pytest.mark.extended
def test_long_run_has_the_posterior_as_its_law():
    model = make_model(TINY, np.full(tiny.N_TOPICS, tiny.ALPHA), tiny.BETA)
    state = model.init_assignments(KEY)
    n_batches, batch_size = 50, 1000
    draws = np.empty((n_batches * batch_size, 6), np.uint16)
    for i in range(len(draws)):
        model.sweep_assignments(state, subkey(KEY, i))
        draws[i] = state.topics
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
    table, alpha = tiny.random_table(1), np.random.default_rng(2).uniform(0.05, 2.0, n_topics)
    model = make_model(table, alpha, tiny.make_prior(layout, n_topics, 9))
    state = assert_sweeps_repeat_the_slow_reference(model, 3)
    assert n_topics == 1 or np.any(state.topics != model.init_assignments(KEY).topics)


def test_cells_may_hold_more_tokens_than_16_bits_count():
    table = np.random.default_rng(3).poisson(1.0, (4, 5))
    table[1, 2], table[2, 2], table[3, 0] = 300, 66_000, 1000
    model = make_model(table, np.array([0.1, 0.7, 2.0]), tiny.make_prior("matrix", 3, 5))
    assert_sweeps_repeat_the_slow_reference(model, 1)


def test_topics_above_15_bits_survive_in_assignments():
    # All but nothing of the prior sits on the last topic.
    alpha = np.full(65_536, 1e-12)
    alpha[-1] = 1e6
    model = make_model([[3, 0], [1, 2]], alpha)
    state = model.init_assignments(KEY)
    model.sweep_assignments(state, KEY)
    assert np.all(state.topics == len(alpha) - 1)
    assert state.totals[-1] == model.n_tokens
    assert state.word_topic[:, -1].tolist() == [4, 2]


# Parts


def test_initial_topics_are_keyed_by_row_feature_and_occurrence():
    model = make_model(tiny.random_table(4), np.ones(7))
    state = model.init_assignments(KEY)
    expected = [
        (int(random_bits(subkey(KEY, row, word), occurrence)) >> 32) * 7 >> 32
        for row, _, word, count in tiny.pairs(model.counts)
        for occurrence in range(count)
    ]
    np.testing.assert_array_equal(state.topics, expected)
    _, topic_word, totals = recount(model, state.topics)
    np.testing.assert_array_equal(state.word_topic, topic_word.T)
    np.testing.assert_array_equal(state.totals, totals)


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
