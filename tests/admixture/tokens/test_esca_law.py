"""The law of ESCA's draws, by chi-square against exact probabilities; wrong rules must fail the same tests."""

import numpy as np
import pytest
from scipy.stats import chi2

from skmanifold.admixture._tokens import layout
from skmanifold.admixture._tokens.model import TokenLatents
from skmanifold.admixture._tokens.topic_counts import counts_from_dense
from skmanifold.random._keys import subkey
from skmanifold.samplers import ESCA
from skmanifold.topics.topic_word import topic_word_from_array

from .. import _tiny_corpus as tiny
from ..lda._lda_arrays import (
    KEY,
    MOST,
    csr_order,
    dense_doc_topic,
    make_latents,
    make_model,
    pair_columns,
    tabulate,
    token_columns,
)


def p_value(*observed_and_laws):
    """Of Pearson's statistics of independent samples together; the rarest cells of each are pooled to expect 8."""
    statistic, freedom = 0.0, 0
    for observed, law in observed_and_laws:
        order = np.argsort(law)
        observed, expected = observed[order], observed.sum() * law[order] / law.sum()
        n_pooled = int(np.searchsorted(np.cumsum(expected), 8.0)) + 1
        observed = np.append(observed[n_pooled:], observed[:n_pooled].sum())
        expected = np.append(expected[n_pooled:], expected[:n_pooled].sum())
        statistic += ((observed - expected) ** 2 / expected).sum()
        freedom += len(expected) - 1
    return chi2.sf(statistic, freedom)


# One sweep of the tiny corpus: 64 states


def synchronous_transition(**rule):
    """Each token on its own, by the law of ``_tiny_corpus.site_law``."""
    transition = np.ones((len(tiny.STATES), len(tiny.STATES)))
    for i, state in enumerate(tiny.STATES):
        for site in range(len(tiny.TOKEN_ROW)):
            transition[i] *= tiny.site_law(state, site, **rule)[tiny.STATES[:, site]]
    return transition


def transition_without_alpha(monkeypatch):
    monkeypatch.setattr(tiny, "ALPHA", 1e-9)
    return tiny.esca_transition()


def counts_after_one_sweep(exclude_self):
    """Where one sweep leads, by start: 400 copies of the two documents, 40 keys, the topics frozen at one copy's."""
    n_copies, n_keys = 400, 40
    alpha = np.full(tiny.N_TOPICS, tiny.ALPHA)
    model = make_model(np.tile([[2, 1, 0], [0, 1, 2]], (n_copies, 1)), alpha, tiny.BETA)
    order = csr_order(model.layout)
    powers = tiny.N_TOPICS ** np.arange(5, -1, -1)
    result = np.zeros((len(tiny.STATES), len(tiny.STATES)))
    for start, state in enumerate(tiny.STATES):
        doc_topic, topic_word, topic_total = tiny.tiny_counts(state)
        position = model.mode(counts_from_dense(topic_word.T.astype(np.int32), topic_total))
        doc_topics = [{k: n for k, n in enumerate(row) if n} for row in doc_topic.tolist()] * n_copies
        fresh = make_latents(model, doc_topics)
        fresh.token_topics[order] = np.tile(state, n_copies)
        sample = model.sample_given_others if exclude_self else model.sample_latents
        for repetition in range(n_keys):
            latents = TokenLatents(*(array.copy() for array in fresh))
            latents, _, _ = sample(position, latents, subkey(KEY, start, repetition))
            ends = latents.token_topics[order].reshape(n_copies, 6) @ powers
            result[start] += np.bincount(ends, minlength=len(tiny.STATES))
    return result


def partly_excluded(document, topics):
    """The wrong rules that exclude a token only from the counts of its document, or only from those of the topics."""
    transition = np.ones((len(tiny.STATES), len(tiny.STATES)))
    for i, state in enumerate(tiny.STATES):
        for site, (row, word) in enumerate(zip(tiny.TOKEN_ROW, tiny.TOKEN_WORD, strict=True)):
            doc_topic, topic_word, totals = (table.astype(float) for table in tiny.tiny_counts(state))
            own = np.arange(tiny.N_TOPICS) == state[site]
            in_doc, in_word = doc_topic[row] - document * own, topic_word[:, word] - topics * own
            law = (in_doc + tiny.ALPHA) * (in_word + tiny.BETA) / (totals - topics * own + tiny.N_WORDS * tiny.BETA)
            transition[i] *= law[tiny.STATES[:, site]] / law.sum()
    return transition


@pytest.fixture(scope="module")
def one_step_counts():
    return counts_after_one_sweep(exclude_self=False)


@pytest.fixture(scope="module")
def counts_given_others():
    return counts_after_one_sweep(exclude_self=True)


@pytest.mark.extended
def test_one_sweep_has_the_exact_transition_law(one_step_counts):
    transition = tiny.esca_transition()
    assert np.all(one_step_counts.sum(axis=1) == 16_000)
    p_values = [p_value(pair) for pair in zip(one_step_counts, transition, strict=True)]
    assert min(p_values) > 1e-3 / len(p_values)
    assert p_value(*zip(one_step_counts, transition, strict=True)) > 1e-2


@pytest.mark.parametrize("wrong", [{"remove": True}, {"remove": False, "printed": True}], ids=["excluded", "(13)"])
def test_one_sweep_is_told_from_a_wrong_rule(one_step_counts, wrong):
    """The token excluded from its own counts; equation (13) as printed, its parentheses astray."""
    assert p_value(*zip(one_step_counts, synchronous_transition(**wrong), strict=True)) < 1e-100


def test_one_sweep_is_told_from_one_that_forgets_alpha(one_step_counts, monkeypatch):
    assert p_value(*zip(one_step_counts, transition_without_alpha(monkeypatch), strict=True)) < 1e-100


def test_one_sweep_is_told_from_a_sequential_one(one_step_counts):
    assert p_value(*zip(one_step_counts, tiny.gibbs_transition(), strict=True)) < 1e-100


@pytest.mark.extended
def test_one_sweep_given_the_others_has_the_exact_transition_law(counts_given_others):
    transition = synchronous_transition(remove=True)
    p_values = [p_value(pair) for pair in zip(counts_given_others, transition, strict=True)]
    assert min(p_values) > 1e-3 / len(p_values)
    assert p_value(*zip(counts_given_others, transition, strict=True)) > 1e-2


def test_one_sweep_given_the_others_is_told_from_wrong_rules(counts_given_others):
    np.testing.assert_allclose(partly_excluded(True, True), synchronous_transition(remove=True))
    np.testing.assert_allclose(partly_excluded(False, False), tiny.esca_transition())
    wrong = tiny.esca_transition(), tiny.gibbs_transition(), partly_excluded(True, False), partly_excluded(False, True)
    for transition in wrong:
        assert p_value(*zip(counts_given_others, transition, strict=True)) < 1e-100


@pytest.mark.extended
def test_long_run_has_the_law_of_the_automaton():
    model = make_model([[2, 1, 0], [0, 1, 2]], np.full(tiny.N_TOPICS, tiny.ALPHA), tiny.BETA)
    order = csr_order(model.layout)
    sampler = ESCA()
    state = sampler.init(model, KEY)
    n_batches, batch_size = 50, 900
    draws = np.empty((n_batches * batch_size, 6), np.uint16)
    for i in range(len(draws)):
        state = sampler.step(model, state)
        draws[i] = state.latents.token_topics[order]
    log_joints = tiny.tiny_log_joints()[draws @ (2 ** np.arange(5, -1, -1))]
    values = np.column_stack([draws[:, i] == draws[:, j] for i, j in tiny.PAIRS] + [log_joints])
    batch_means = values.reshape(n_batches, batch_size, -1).mean(axis=1)
    standard_error = batch_means.std(axis=0, ddof=1) / np.sqrt(n_batches)
    z = (batch_means.mean(axis=0) - tiny.ESCA_ROW) / standard_error
    assert np.abs(z).max() < 3.5, z
    # Precise enough to tell it from the posterior.
    assert (np.abs(batch_means.mean(axis=0) - tiny.POSTERIOR_ROW) / standard_error).max() > 5


# Many topics: the exact probabilities, all four parts of the sum; drawn one by one and at once


@pytest.fixture(params=["tokens", "cells"])
def way(request, monkeypatch):
    """Every pair drawn token by token, or every pair as a multinomial."""
    monkeypatch.setattr(layout, "most_single_tokens", lambda n: 2**31 if request.param == "tokens" else 0)


def random_setting(n_topics, prior_shape, seed=0, scale=1.0):
    """Three long documents and one short, of four words, with frozen counts that do not come from their tokens."""
    rng = np.random.default_rng([n_topics, seed])
    table = np.full((4, 4), 30_000)
    table[1, 2], table[2] = 0, [150_000, 500, 1, 20_000]
    table[3] = [0, 3, 0, 1]
    alpha = scale * rng.uniform(0.2, 1.8, n_topics)
    prior = scale * rng.uniform(0.2, 1.8, prior_shape)
    model = make_model(table, alpha, prior)
    word_topic = rng.poisson(3.0, (4, n_topics)) * (rng.random((4, n_topics)) < 0.6)
    word_topic[0, : min(n_topics, 2)] = 5
    doc_topics = []
    for row in range(4):
        used = rng.permutation(n_topics)[: max(1, min(n_topics * 6 // 10, int(table[row].sum())))]
        doc_topics.append({int(k): int(rng.integers(1, 5)) for k in used})
    return model, alpha, np.broadcast_to(prior, (n_topics, 4)), word_topic, doc_topics


def parts_of_law(alpha, beta, word_topic, doc_topic):
    """The four parts of (D_k + alpha_k)(W_vk + beta_kv) / (T_k + sum_v beta_kv), each of shape (row, word, topic).

    Which share of beta_kv counts as the word's base is the kernel's choice: the least of the topics'.
    """
    inverse = 1 / (word_topic.sum(axis=0) + beta.sum(axis=1))
    base = np.multiply.outer(beta.min(axis=0), inverse)
    weights = (word_topic + beta.T) * inverse - base
    return [
        doc_topic[:, np.newaxis] * weights,
        np.broadcast_to(alpha * weights, (len(doc_topic), *weights.shape)),
        doc_topic[:, np.newaxis] * base,
        np.broadcast_to(alpha * base, (len(doc_topic), *weights.shape)),
    ]


def pairs_of(observed, law):
    """The samples of the long documents' words, for ``p_value``."""
    laws = law.reshape(-1, law.shape[-1])
    return [(o, p) for o, p in zip(observed.reshape(laws.shape), laws, strict=True) if o.sum() >= 500]


@pytest.mark.covering
@pytest.mark.parametrize("n_topics", [3, 17, 40, 300])
@pytest.mark.parametrize("kind", ["word", "topic", "full"])
def test_draws_have_the_exact_law_in_all_parts(n_topics, kind, way):
    shape = {"word": (4,), "topic": (n_topics, 1), "full": (n_topics, 4)}[kind]
    model, alpha, beta, word_topic, doc_topics = random_setting(n_topics, shape)
    position = model.mode(counts_from_dense(word_topic.astype(np.int32), word_topic.sum(axis=0)))
    latents, _, _ = model.sample_latents(position, make_latents(model, doc_topics), KEY)
    parts = parts_of_law(alpha, beta, word_topic, dense_doc_topic(doc_topics, n_topics))
    law = sum(parts)
    observed = tabulate(model, latents)
    assert p_value(*pairs_of(observed, law)) > 1e-3
    for part in parts:
        share = part.sum(axis=2) / law.sum(axis=2)
        assert share[:3].max() > 0.02
        # A part that were missing, or twice there, would be seen.
        assert p_value(*pairs_of(observed, law - 0.999 * part)) < 1e-12
        assert p_value(*pairs_of(observed, law + part)) < 1e-12


@pytest.mark.covering
@pytest.mark.parametrize("n_topics", [3, 17, 40, 300])
@pytest.mark.parametrize("kind", ["word", "topic", "full"])
@pytest.mark.parametrize("sticky", [False, True])
def test_draws_given_others_have_the_exact_law(n_topics, kind, sticky, way):
    """All tokens of a word in a row have the same previous topic; if sticky, repeated draws would rarely leave it."""
    shape = {"word": (4,), "topic": (n_topics, 1), "full": (n_topics, 4)}[kind]
    model, alpha, beta, word_topic, doc_topics = random_setting(n_topics, shape, scale=1e-3 if sticky else 1.0)
    if sticky:
        doc_topics, word_topic = [{0: 1, 1: 1, 2: 2}] * 4, np.zeros_like(word_topic)
    previous = np.zeros((4, 4), int)
    for row, word in np.ndindex(4, 4):
        previous[row, word] = next(iter(doc_topics[row]))
        word_topic[word, previous[row, word]] = 1 if sticky else word_topic[word, previous[row, word]] + 1
    position = model.mode(counts_from_dense(word_topic.astype(np.int32), word_topic.sum(axis=0)))
    latents, layout = make_latents(model, doc_topics), model.layout
    row, word, _ = token_columns(layout)
    latents.token_topics[:] = previous[row, word]
    row, word = (column[layout.pair_count == 0] for column in pair_columns(layout))
    latents.cell_topics[np.arange(layout.n_cells), previous[row, word]] = layout.cell_count
    latents, _, _ = model.sample_given_others(position, latents, KEY)
    doc_topic = dense_doc_topic(doc_topics, n_topics)
    own = previous[:, :, np.newaxis] == np.arange(n_topics)

    def law(in_doc=1.0, in_word=1.0):
        return (
            (doc_topic[:, np.newaxis] + alpha - in_doc * own)
            * (word_topic + beta.T - in_word * own)
            / (word_topic.sum(axis=0) + beta.sum(axis=1) - own)
        )

    observed = tabulate(model, latents)
    assert p_value(*pairs_of(observed, law())) > 1e-3
    if sticky:
        assert p_value(*pairs_of(observed, law(in_doc=0.0, in_word=0.0))) < 1e-100
    elif n_topics < 100:  # among more topics the previous one has a small share
        assert p_value(*pairs_of(observed, law(in_doc=0.0))) < 1e-12
        assert p_value(*pairs_of(observed, law(in_word=0.0))) < 1e-12


def test_only_token_of_a_word_leaves_its_topic_under_a_tiny_prior():
    """Its topic has the weight of the others without it; the rounding error of its count, 1e-7, exceeds the prior."""
    n_topics, n_words = 7, 400
    model = make_model(np.ones((1, n_words)), np.full(n_topics, 10.0), 1e-12)
    previous = np.arange(n_words) % n_topics
    word_topic = np.zeros((n_words, n_topics), np.int32)
    word_topic[np.arange(n_words), previous] = 1
    position = model.mode(counts_from_dense(word_topic, word_topic.sum(axis=0)))
    in_row = dict(enumerate(np.bincount(previous).tolist()))
    moved = np.zeros((n_topics, n_topics))
    for repetition in range(50):
        latents = make_latents(model, [in_row])
        latents.token_topics[csr_order(model.layout)] = previous
        latents, _, _ = model.sample_given_others(position, latents, subkey(KEY, repetition))
        np.add.at(moved, (previous, latents.token_topics[csr_order(model.layout)]), 1)
    totals = np.array(list(in_row.values()), float)
    own = np.eye(n_topics)
    law = (totals + 10.0 - own) / (totals + n_words * 1e-12 - own)
    assert p_value(*zip(moved, law, strict=True)) > 1e-3


def test_counts_beyond_one_entry_have_the_exact_law(way):
    doc_topics = [
        {3: 131_070, 0: 300, 2: 200_000, 1: 65_535},
        {0: 255, 1: 256, 4: 70_000, 2: 9},
        {4: 1, 2: 65_536, 1: 40_000},
    ]
    alpha = np.array([4e4, 1e4, 3e4, 2e4, 6e4])
    beta = np.array([2e4, 9e4, 4e4])
    word_topic = np.random.default_rng(1).integers(10_000, 200_000, (3, 5))
    word_topic[0, 2] = word_topic[1, [3, 4]] = 0
    model = make_model(np.full((3, 3), 60_000), alpha, beta)
    position = model.mode(counts_from_dense(word_topic.astype(np.int32), word_topic.sum(axis=0)))
    latents, _, _ = model.sample_latents(position, make_latents(model, doc_topics), KEY)
    observed = tabulate(model, latents)

    def pairs(doc_topic):
        law = sum(parts_of_law(alpha, np.tile(beta, (5, 1)), word_topic, doc_topic))
        return list(zip(observed.reshape(9, 5), law.reshape(9, 5), strict=True))

    doc_topic = dense_doc_topic(doc_topics, 5)
    assert p_value(*pairs(doc_topic)) > 1e-3
    for wrong in (np.minimum(doc_topic, MOST), doc_topic % (MOST + 1), doc_topic - MOST * (doc_topic > MOST)):
        assert p_value(*pairs(wrong)) < 1e-100


def test_first_sweep_over_an_unknown_document_follows_prior_and_topics(way):
    """Without entries: p(k) in proportion to alpha_k p(v | k)."""
    alpha = np.array([0.5, 2.0, 1.0, 0.1])
    word_topic = np.random.default_rng(2).poisson(4.0, (3, 4))
    model = make_model(np.full((2, 3), 20_000), alpha, [0.5, 1.0, 4.0])
    position = model.mode(counts_from_dense(word_topic, word_topic.sum(axis=0)))
    latents, _, _ = model.sample_latents(position, make_latents(model, [{}, {}]), KEY)
    law = np.tile(alpha * position.toarray(np.float64).T, (2, 1))
    observed = tabulate(model, latents).reshape(6, 4)
    assert p_value(*zip(observed, law, strict=True)) > 1e-3
    assert p_value(*zip(observed, law / alpha, strict=True)) < 1e-100


def test_topics_without_a_smoothing_part_draw_only_what_can_make_the_word(way):
    phi = np.array([[0.5, 0.5, 0, 0], [0, 0.25, 0.75, 0], [0, 0, 0.1, 0.9]])
    alpha = np.array([0.3, 2.0, 1.0])
    model = make_model(np.full((2, 4), 10_000), alpha)
    doc_topics = [{0: 2, 1: 1, 2: 1}, {2: 3}]
    latents, _, _ = model.sample_latents(topic_word_from_array(phi), make_latents(model, doc_topics), KEY)
    observed = tabulate(model, latents)
    law = (dense_doc_topic(doc_topics, 3) + alpha)[:, np.newaxis] * phi.T
    assert not observed[law == 0].any()
    several = (law > 0).sum(axis=2) > 1
    assert p_value(*[(o[p > 0], p[p > 0]) for o, p in zip(observed[several], law[several], strict=True)]) > 1e-3


def test_initial_topics_are_uniform(way):
    model = make_model(np.full((40, 50), 20), np.ones(13))
    latents, _ = model.init_latents(KEY)
    observed = tabulate(model, latents)
    flat = np.ones(13)
    assert p_value((observed.sum(axis=(0, 1)), flat)) > 1e-3
    assert p_value(*[(cell, flat) for cell in observed.sum(axis=0)]) > 1e-3
    assert p_value(*[(cell, flat) for cell in observed.sum(axis=1)]) > 1e-3
