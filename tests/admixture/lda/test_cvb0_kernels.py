"""CVB0: sweeps against the formula, written slowly in numpy."""

import numpy as np
import pytest

from skmanifold.admixture._lda import collapsed_kernels
from skmanifold.admixture._lda import model as lda_model
from skmanifold.random._keys import subkey, uniform
from skmanifold.utils._threads import Workers

from .. import _tiny_corpus as tiny
from ._lda_arrays import make_model

KEY = np.uint64(20090618)


def slow_sweep(model, gamma, *, remove=True, fresh=True):
    """(14) with one token removed, D summed anew for every pair (at the start of the sweep only unless `fresh`)."""
    counts, alpha = model.counts, model.doc_topic_prior
    beta = np.broadcast_to(model.topic_prior.values, (len(alpha), counts.n_features))
    topic_word = topic_words(counts, gamma)
    topic_total, beta_total = topic_word.sum(axis=1), beta.sum(axis=1)
    gamma = gamma.astype(np.float64)
    result = gamma.copy()
    for row, j, word, _ in tiny.pairs(counts):
        cells = slice(counts.indptr[row], counts.indptr[row + 1])
        doc_topic = counts.counts[cells] @ (result if fresh else gamma)[cells]
        own = gamma[j] if remove else 0.0
        weights = (topic_word[:, word] - own + beta[:, word]) / (topic_total - own + beta_total)
        weights = weights * (doc_topic - own + alpha)
        result[j] = weights / weights.sum()
    return result


def topic_words(counts, gamma):
    """Expected counts of words in topics."""
    out = np.zeros((gamma.shape[1], counts.n_features))
    for _, j, word, count in tiny.pairs(counts):
        out[:, word] += count * gamma[j].astype(np.float64)
    return out


def random_model(layout="matrix", n_topics=5, workers=None):
    table = tiny.random_table(1, n_rows=20, n_words=11, mean=0.9)
    alpha = np.random.default_rng(2).uniform(0.05, 2.0, n_topics)
    return make_model(table, alpha, tiny.make_prior(layout, n_topics, 11), workers=workers)


def sweep(model, state):
    """The next state; the kernel overwrites gamma."""
    return model.update_responsibilities(state._replace(gamma=state.gamma.copy()))[0]


@pytest.mark.parametrize("layout", tiny.PRIOR_LAYOUTS)
@pytest.mark.parametrize("n_topics", [1, 5, 8, 19])
def test_sweeps_follow_the_formula(layout, n_topics):
    model = random_model(layout, n_topics)
    state = model.init_responsibilities(KEY)
    for _ in range(4):
        expected = slow_sweep(model, state.gamma)
        state = sweep(model, state)
        np.testing.assert_allclose(state.gamma, expected, rtol=2e-6)
        np.testing.assert_allclose(state.gamma.sum(axis=1, dtype=np.float64), 1.0, rtol=0, atol=1e-6)
        np.testing.assert_allclose(state.word_topic, topic_words(model.counts, state.gamma).T, rtol=1e-14)
        np.testing.assert_allclose(state.totals, state.word_topic.sum(axis=0), rtol=1e-14)
    assert np.all(state.word_topic[4] == 0.0)  # the word that no document has


@pytest.mark.parametrize("wrong", [{"remove": False}, {"fresh": False}], ids=["token not removed", "stale documents"])
def test_a_wrong_formula_is_told_apart(wrong):
    model = random_model()
    state = model.init_responsibilities(KEY)
    assert np.abs(sweep(model, state).gamma - slow_sweep(model, state.gamma, **wrong)).max() > 1e-2


def test_counts_beyond_16_bits():
    table = np.random.default_rng(3).poisson(1.0, (4, 5))
    table[1, 2], table[2, 2], table[3, 0] = 300, 70_000, 1000
    model = make_model(table, np.array([0.1, 0.7, 2.0]), tiny.make_prior("matrix", 3, 5))
    state = model.init_responsibilities(KEY)
    after = sweep(model, state)
    np.testing.assert_allclose(after.gamma, slow_sweep(model, state.gamma), rtol=2e-6)
    assert after.totals.sum() == pytest.approx(table.sum(), rel=1e-7)


def test_a_single_token_gets_the_prior_whatever_it_had():
    alpha, prior = np.array([0.3, 1.0, 0.2, 4.0]), tiny.make_prior("matrix", 4, 3)
    model = make_model([[0, 0, 1]], alpha, prior)
    expected = alpha * prior[:, 2] / prior.sum(axis=1)
    gamma = sweep(model, model.init_responsibilities(KEY)).gamma
    np.testing.assert_allclose(gamma[0], expected / expected.sum(), rtol=1e-6)


def test_rounding_may_not_make_a_count_negative():
    gamma = np.array([[0.25, 0.75]], np.float32)
    low = gamma[0].astype(np.float64) - 1e-9
    prior, weights = np.full(2, 1e-12), np.empty(2)
    collapsed_kernels._weigh_topics_softly(low.reshape(1, 2), 0, low, np.ones(2), low, prior, prior, gamma, 0, weights)
    np.testing.assert_allclose(weights, 1e-24, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 3])
def test_the_cut_into_tasks_and_threads_leaves_no_trace(monkeypatch, size):
    whole = random_model(n_topics=13)
    expected = whole.init_responsibilities(KEY)
    monkeypatch.setattr(lda_model, "_ROW_BLOCK_PAIRS", 5 * size)
    monkeypatch.setattr(lda_model, "_TASK_WORDS", size)
    with Workers(3) as workers:
        model = random_model(n_topics=13, workers=workers)
        state = model.init_responsibilities(KEY)
        assert len(model._row_blocks) > 3
        for _ in range(3):
            state, expected = sweep(model, state), sweep(whole, expected)
    for part, other in zip(state, expected, strict=True):
        assert part.tobytes() == other.tobytes()


def test_sweeps_end_in_a_fixed_point_of_the_formula():
    model = random_model(n_topics=3)
    first = state = model.init_responsibilities(KEY)
    for _ in range(400):
        state = sweep(model, state)
    assert np.abs(state.gamma - first.gamma).max() > 0.1
    assert np.abs(slow_sweep(model, state.gamma) - state.gamma).max() < 1e-5


def test_initial_gamma_is_keyed_by_row_feature_and_topic():
    model = random_model(n_topics=7)
    gamma = model.init_responsibilities(KEY).gamma
    for row, j, word, _ in tiny.pairs(model.counts):
        expected = np.array([1.0 - uniform(subkey(KEY, row, word), k) for k in range(7)])
        np.testing.assert_allclose(gamma[j], expected / expected.sum(), rtol=1e-6)
