"""Sweeps in which no topic loses its last token, against the exact law of the topics given that all are in use."""

import itertools

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from skmanifold.admixture._hdp.token_rows import DocumentTokens, Prepared
from skmanifold.admixture._tokens.document_gibbs import sample_documents
from skmanifold.admixture._tokens.log_topic_word import LogTopics
from skmanifold.random._keys import subkey
from skmanifold.utils._threads import Workers

from ..tokens._documents import KEY, make_counts, make_keys, make_table, token_words

K = 3
ALPHA = np.array([0.4, 0.9, 1.6])
PHI = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.1, 0.7, 0.2]])
MODEL = DocumentTokens(make_counts([[2, 1, 0], [0, 1, 1], [1, 0, 1]]), np.empty(0), Workers(1))
DOCUMENTS = MODEL._documents
ROWS = np.repeat(np.arange(3), np.diff(DOCUMENTS.token_start))
STATES = np.array(list(itertools.product(range(K), repeat=len(ROWS))))
ALL_USED = np.array([len(set(state)) == K for state in STATES])


def law():
    """Probabilities of the states in which all topics are in use."""
    words = token_words(DOCUMENTS)
    out = np.empty(len(STATES))
    for i, state in enumerate(STATES):
        counts = np.zeros((3, K))
        probability = 1.0
        for row, word, topic in zip(ROWS, words, state, strict=True):
            probability *= (counts[row, topic] + ALPHA[topic]) * PHI[topic, word]
            counts[row, topic] += 1
        out[i] = probability
    out *= ALL_USED
    return out / out.sum()


def functions(states):
    """Topics of the tokens, which tokens have the same topic, and which topics have one token only."""
    of_topics = [states == topic for topic in range(K)]
    pairs = [states[:, i] == states[:, j] for i, j in itertools.combinations(range(len(ROWS)), 2)]
    single = [of_topic.sum(axis=1) == 1 for of_topic in of_topics]
    return np.column_stack([*of_topics, *pairs, *single]).astype(float)


def after_a_sweep(n_runs, guard):
    """States after one sweep that begins with exact draws."""
    prepared = Prepared(LogTopics(np.log(PHI.T), np.zeros(K)), ALPHA)
    begin = STATES[np.random.default_rng(0).choice(len(STATES), n_runs, p=law())].astype(np.uint16)
    for run, state in enumerate(begin):
        key = guard(run, state)
        MODEL.sweep(state, prepared, MODEL.find_least(state, K, 0, key), 0, KEY + np.uint64(run), key)
    return begin


@pytest.mark.extended
def test_guarded_sweeps_leave_the_law_unchanged():
    exact = law() @ functions(STATES)
    states = after_a_sweep(8_000, lambda run, state: subkey(KEY, run))
    assert all(len(set(state)) == K for state in states)
    assert_agrees(summarize(functions(states)), exact)


@pytest.mark.extended
def test_priorities_must_not_depend_on_the_topics():
    def largest_first_guard(run, state):
        """Of eight keys, the one whose guard of the first topic has the largest priority."""
        keys = [subkey(KEY, run, i) for i in range(8)]
        return max(keys, key=lambda key: MODEL.find_least(state, K, 0, key)[0])

    states = after_a_sweep(5_000, largest_first_guard)
    assert_disagrees(summarize(functions(states)), law() @ functions(STATES))


def test_without_guards_topics_lose_their_tokens():
    table, states = make_table(PHI, ALPHA), STATES[ALL_USED].astype(np.uint16)
    for run, state in enumerate(states):
        sample_documents(
            DOCUMENTS,
            table,
            ALPHA,
            make_keys(3, run),
            n_burn_in=0,
            n_kept=1,
            workers=Workers(1),
            token_topics=state,
        )
    assert not all(len(set(state)) == K for state in states)


def test_least_priorities_do_not_depend_on_threads():
    topics = np.random.default_rng(1).integers(5, size=200_000).astype(np.uint16)
    alone = MODEL.find_least(topics, 6, 0, KEY)
    assert alone[5] == 1
    assert 0 < alone[:5].max() < 1e-3
    with Workers(2) as workers:
        model = DocumentTokens(MODEL.counts, np.empty(0), workers)
        np.testing.assert_array_equal(model.find_least(topics, 6, 0, KEY), alone)
        parts = [model.find_least(topics[a:b], 6, a, KEY) for a, b in ((0, 150_000), (150_000, 200_000))]
    np.testing.assert_array_equal(np.min(parts, axis=0), alone)
