import numpy as np
import pytest
from scipy.stats import chi2

from skmanifold.admixture import _lda_layout, _lda_model
from skmanifold.admixture._lda_esca_kernels import _first_above
from skmanifold.admixture._lda_model import LDAModel, TokenLatents
from skmanifold.admixture._topic_counts import TopicPrior, counts_from_dense
from skmanifold.models._topic_word import topic_word_from_array
from skmanifold.samplers import ESCA
from skmanifold.utils._csr import canonical_csr, whole_counts
from skmanifold.utils._random import random_bits, subkey, uniform
from skmanifold.utils._threads import Workers

from . import _tiny_corpus as tiny

KEY = np.uint64(20160509)
MOST = 65_535  # what one entry can count


# Helpers: the model's arrays in numpy's words


def make_model(table, alpha, prior=0.1, *, workers=None, block_tokens=None):
    counts = whole_counts(canonical_csr(np.asarray(table, float)), KEY, by_content=False)
    alpha = np.asarray(alpha, float)
    return LDAModel(
        counts, alpha, TopicPrior(prior, len(alpha), counts.n_features), workers or Workers(1), block_tokens
    )


def token_columns(layout):
    """Row, word and occurrence of each token, in the order of the latents."""
    segment_block = np.repeat(np.arange(layout.n_blocks), np.diff(layout.block_segments))
    pair_segment = np.repeat(np.arange(len(layout.segment_word)), np.diff(layout.segment_pairs))
    pair_row = layout.block_rows[segment_block[pair_segment]] + layout.pair_row
    pair = np.repeat(np.arange(len(pair_row)), layout.pair_count)
    first = np.cumsum(layout.pair_count, dtype=np.int64) - layout.pair_count
    return pair_row[pair], layout.segment_word[pair_segment[pair]].astype(np.int64), np.arange(len(pair)) - first[pair]


def csr_order(layout):
    """Where the tokens in order of row, word and occurrence stand among the latents."""
    row, word, occurrence = token_columns(layout)
    return np.lexsort((occurrence, word, row))


def make_latents(layout, doc_topics, token_topics=None):
    """Latents whose documents have the counts `doc_topics`: one dict {topic: count} a row, in the entries' order."""
    latents = TokenLatents(
        np.zeros(layout.n_tokens, np.uint16) if token_topics is None else token_topics.astype(np.uint16),
        np.zeros(len(layout.row_tokens), np.int64),
        np.zeros(layout.row_start[-1], np.uint32),
    )
    for row, topics in enumerate(doc_topics):
        entries = []
        for topic, count in topics.items():
            whole, rest = divmod(int(count), MOST)
            entries += [MOST << 16 | topic] * whole + [rest << 16 | topic] * (rest > 0)
        start, stop = layout.row_start[row : row + 2]
        assert len(entries) <= stop - start
        latents.entries[start:stop] = 0
        latents.entries[start : start + len(entries)] = entries
        latents.row_vectors[row] = -(-len(entries) // 16)
    return latents


def read_latents(layout, latents):
    """What ``make_latents`` was given: {topic: count} a row, in the entries' order."""
    doc_topics = []
    for row, n_vectors in enumerate(latents.row_vectors):
        start = layout.row_start[row]
        topics = {}
        for entry in latents.entries[start : start + 16 * n_vectors].tolist():
            if entry >> 16:
                topics[entry & 0xFFFF] = topics.get(entry & 0xFFFF, 0) + (entry >> 16)
        doc_topics.append(topics)
    return doc_topics


def dense_doc_topic(doc_topics, n_topics):
    dense = np.zeros((len(doc_topics), n_topics))
    for row, topics in enumerate(doc_topics):
        dense[row, list(topics)] = list(topics.values())
    return dense


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


@pytest.fixture(scope="module")
def one_step_counts():
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
        fresh = make_latents(model.layout, doc_topics)
        for repetition in range(n_keys):
            latents = TokenLatents(*(array.copy() for array in fresh))
            latents, _, _ = model.sample_latents(position, latents, subkey(KEY, start, repetition))
            ends = latents.token_topics[order].reshape(n_copies, 6) @ powers
            result[start] += np.bincount(ends, minlength=len(tiny.STATES))
    return result


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


# Many topics: the exact probabilities, all four parts of the sum


def random_setting(n_topics, prior_shape, seed=0):
    """Three long documents and one short, of four words, with frozen counts that do not come from their tokens."""
    rng = np.random.default_rng([n_topics, seed])
    table = np.full((4, 4), 30_000)
    table[1, 2], table[2] = 0, [150_000, 500, 1, 20_000]
    table[3] = [0, 3, 0, 1]
    alpha = rng.uniform(0.2, 1.8, n_topics)
    prior = rng.uniform(0.2, 1.8, prior_shape)
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


def tabulate(model, token_topics, n_topics):
    """Draws by (row, word, topic)."""
    row, word, _ = token_columns(model.layout)
    table = np.zeros((model.counts.n_rows, model.counts.n_features, n_topics))
    np.add.at(table, (row, word, token_topics), 1)
    return table


def pairs_of(observed, law):
    """The samples of the long documents' words, for ``p_value``."""
    laws = law.reshape(-1, law.shape[-1])
    return [(o, p) for o, p in zip(observed.reshape(laws.shape), laws, strict=True) if o.sum() >= 500]


@pytest.mark.parametrize("n_topics", [3, 17, 40, 300])
@pytest.mark.parametrize("kind", ["word", "topic", "full"])
def test_draws_have_the_exact_law_in_all_parts(n_topics, kind):
    shape = {"word": (4,), "topic": (n_topics, 1), "full": (n_topics, 4)}[kind]
    model, alpha, beta, word_topic, doc_topics = random_setting(n_topics, shape)
    position = model.mode(counts_from_dense(word_topic.astype(np.int32), word_topic.sum(axis=0)))
    latents, _, _ = model.sample_latents(position, make_latents(model.layout, doc_topics), KEY)
    parts = parts_of_law(alpha, beta, word_topic, dense_doc_topic(doc_topics, n_topics))
    law = sum(parts)
    observed = tabulate(model, latents.token_topics, n_topics)
    assert p_value(*pairs_of(observed, law)) > 1e-3
    for part in parts:
        share = part.sum(axis=2) / law.sum(axis=2)
        assert share[:3].max() > 0.02
        # A part that were missing, or twice there, would be seen.
        assert p_value(*pairs_of(observed, law - 0.999 * part)) < 1e-12
        assert p_value(*pairs_of(observed, law + part)) < 1e-12


def test_counts_beyond_one_entry_have_the_exact_law():
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
    latents, _, _ = model.sample_latents(position, make_latents(model.layout, doc_topics), KEY)
    observed = tabulate(model, latents.token_topics, 5)

    def pairs(doc_topic):
        law = sum(parts_of_law(alpha, np.tile(beta, (5, 1)), word_topic, doc_topic))
        return list(zip(observed.reshape(9, 5), law.reshape(9, 5), strict=True))

    doc_topic = dense_doc_topic(doc_topics, 5)
    assert p_value(*pairs(doc_topic)) > 1e-3
    for wrong in (np.minimum(doc_topic, MOST), doc_topic % (MOST + 1), doc_topic - MOST * (doc_topic > MOST)):
        assert p_value(*pairs(wrong)) < 1e-100


def test_first_sweep_over_an_unknown_document_follows_prior_and_topics():
    """Without entries: p(k) in proportion to alpha_k p(v | k)."""
    alpha = np.array([0.5, 2.0, 1.0, 0.1])
    word_topic = np.random.default_rng(2).poisson(4.0, (3, 4))
    model = make_model(np.full((2, 3), 20_000), alpha, [0.5, 1.0, 4.0])
    position = model.mode(counts_from_dense(word_topic, word_topic.sum(axis=0)))
    latents, _, _ = model.sample_latents(position, make_latents(model.layout, [{}, {}]), KEY)
    law = np.tile(alpha * position.toarray(np.float64).T, (2, 1))
    observed = tabulate(model, latents.token_topics, 4).reshape(6, 4)
    assert p_value(*zip(observed, law, strict=True)) > 1e-3
    assert p_value(*zip(observed, law / alpha, strict=True)) < 1e-100


def test_topics_without_a_smoothing_part_draw_only_what_can_make_the_word():
    phi = np.array([[0.5, 0.5, 0, 0], [0, 0.25, 0.75, 0], [0, 0, 0.1, 0.9]])
    alpha = np.array([0.3, 2.0, 1.0])
    model = make_model(np.full((2, 4), 10_000), alpha)
    doc_topics = [{0: 2, 1: 1, 2: 1}, {2: 3}]
    latents, _, _ = model.sample_latents(topic_word_from_array(phi), make_latents(model.layout, doc_topics), KEY)
    observed = tabulate(model, latents.token_topics, 3)
    law = (dense_doc_topic(doc_topics, 3) + alpha)[:, np.newaxis] * phi.T
    assert not observed[law == 0].any()
    several = (law > 0).sum(axis=2) > 1
    assert p_value(*[(o[p > 0], p[p > 0]) for o, p in zip(observed[several], law[several], strict=True)]) > 1e-3


# The kernel against a slow one with the same uniforms


def pair_key(key, row, word):
    return subkey(key, int(row) << 32 | int(word))


def slow_sweep(model, position, latents, key):
    """Topics by inverse CDF in float64, and which of them are away from the CDF's steps; the log likelihood of each.

    In order: the document's entries with the word's weights, the word's list, the document's entries with the base
    part, all topics with the base part.
    """
    layout, alpha = model.layout, model.doc_topic_prior
    rows, words, occurrences = token_columns(layout)
    doc_topics = read_latents(layout, latents)
    n_topics = len(alpha)
    topics, clear = np.empty(len(rows), int), np.empty(len(rows), bool)
    log_likelihood = np.empty(len(rows))
    for first in np.flatnonzero(occurrences == 0):
        row, word = rows[first], words[first]
        listed = slice(position.indptr[word], position.indptr[word + 1])
        word_topics, word_weights = position.topics[listed].astype(int), position.weights[listed].astype(float)
        weights = np.zeros(n_topics)
        weights[word_topics] = word_weights
        base = position.base[word] * position.inverse
        in_doc, counts = np.array(list(doc_topics[row]), int), np.array(list(doc_topics[row].values()), float)
        labels = np.concatenate([in_doc, word_topics, in_doc, np.arange(n_topics)])
        ends = np.cumsum(
            np.concatenate(
                [counts * weights[in_doc], alpha[word_topics] * word_weights, counts * base[in_doc], alpha * base]
            )
        )
        stream = pair_key(key, row, word)
        stop = first + int(np.sum((rows == row) & (words == word)))
        value = ends[-1] * np.array([uniform(stream, i) for i in range(stop - first)])
        place = np.searchsorted(ends, value, side="right")
        topics[first:stop] = labels[place]
        below = np.concatenate(([-np.inf], ends))[place]
        clear[first:stop] = np.minimum(ends[place] - value, value - below) > 1e-6 * ends[-1]
        log_likelihood[first:stop] = np.log(ends[-1] / (counts.sum() + alpha.sum()))
    return topics, clear, log_likelihood.sum()


def random_table(seed=0, n_rows=40, n_words=30):
    table = np.random.default_rng(seed).poisson(0.5, (n_rows, n_words))
    table[[0, 7, 8, n_rows - 1]] = 0  # empty rows
    table[:, [0, 4]] = 0  # words that nobody uses
    table[13, [2, 3, 9]] = 300, 20, 7
    return table


@pytest.mark.parametrize("kind", ["number", "word", "topic", "full"])
@pytest.mark.parametrize("n_topics", [1, 2, 5, 16, 33, 200])
def test_sweeps_repeat_the_slow_reference(n_topics, kind):
    rng = np.random.default_rng(n_topics)
    shape = {"number": (), "word": (30,), "topic": (n_topics, 1), "full": (n_topics, 30)}[kind]
    alpha = rng.uniform(0.02, 1.0, n_topics)
    model = make_model(random_table(), alpha, rng.uniform(0.02, 1.0, shape), block_tokens=150)
    latents, statistics = model.init_latents(KEY)
    before = latents.token_topics.copy()
    for sweep in range(2):
        key, position = subkey(KEY, sweep), model.mode(statistics)
        topics, clear, expected = slow_sweep(model, position, latents, key)
        latents, statistics, log_likelihood = model.sample_latents(position, latents, key)
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(latents.token_topics[clear], topics[clear])
        assert log_likelihood == pytest.approx(expected, rel=1e-6)
    assert n_topics == 1 or np.any(latents.token_topics != before)


def test_split_entries_repeat_the_slow_reference():
    table = np.array([[150_000, 3, 0], [2, 4000, 1], [300, 300, 300]])
    model = make_model(table, [0.4, 3.0], [[0.1], [2.0]])
    latents, statistics = model.init_latents(KEY)
    assert sorted(read_latents(model.layout, latents)[0]) == [0, 1]
    assert np.count_nonzero(latents.entries[:16]) > 2
    for sweep in range(2):
        key, position = subkey(KEY, sweep), model.mode(statistics)
        topics, clear, expected = slow_sweep(model, position, latents, key)
        latents, statistics, log_likelihood = model.sample_latents(position, latents, key)
        np.testing.assert_array_equal(latents.token_topics[clear], topics[clear])
        assert log_likelihood == pytest.approx(expected, rel=1e-6)


def test_initial_topics_are_keyed_by_row_word_and_occurrence():
    for n_topics in (1, 7, 65_535):
        model = make_model(random_table(), np.ones(n_topics), block_tokens=60)
        latents, statistics = model.init_latents(KEY)
        expected = [
            (int(random_bits(pair_key(KEY, row, word), occurrence)) >> 32) * n_topics >> 32
            for row, word, occurrence in zip(*token_columns(model.layout), strict=True)
        ]
        np.testing.assert_array_equal(latents.token_topics, expected)
        check_counts(model, latents, statistics)


def test_initial_topics_are_uniform():
    model = make_model(np.full((40, 50), 20), np.ones(13))
    latents, _ = model.init_latents(KEY)
    observed = tabulate(model, latents.token_topics, 13)
    flat = np.ones(13)
    assert p_value((observed.sum(axis=(0, 1)), flat)) > 1e-3
    assert p_value(*[(cell, flat) for cell in observed.sum(axis=0)]) > 1e-3
    assert p_value(*[(cell, flat) for cell in observed.sum(axis=1)]) > 1e-3


# Counts of the draws


def check_counts(model, latents, statistics):
    """Documents' and words' counts are those of the tokens, in whole numbers, each topic once in a word's list."""
    layout, n_topics = model.layout, model.n_components
    rows, words, _ = token_columns(layout)
    for row, topics in enumerate(read_latents(layout, latents)):
        expected = np.bincount(latents.token_topics[rows == row], minlength=n_topics)
        assert topics == {int(k): int(expected[k]) for k in np.flatnonzero(expected)}
        stop = layout.row_start[row] + 16 * latents.row_vectors[row]
        n_entries = (-(-expected // MOST)).sum()
        assert latents.row_vectors[row] == -(-n_entries // 16)
        assert np.count_nonzero(latents.entries[layout.row_start[row] : stop] >> 16) == n_entries
    assert statistics.counts.dtype == np.int32
    assert statistics.totals.dtype == np.int64
    np.testing.assert_array_equal(statistics.totals, np.bincount(latents.token_topics, minlength=n_topics))
    assert len(statistics.indptr) == model.counts.n_features + 1
    for word in range(model.counts.n_features):
        entries = slice(statistics.indptr[word], statistics.indptr[word + 1])
        expected = np.bincount(latents.token_topics[words == word], minlength=n_topics)
        assert len(np.unique(statistics.topics[entries])) == statistics.indptr[word + 1] - statistics.indptr[word]
        np.testing.assert_array_equal(np.sort(statistics.topics[entries]), np.flatnonzero(expected))
        np.testing.assert_array_equal(statistics.counts[entries], expected[statistics.topics[entries]])


@pytest.mark.parametrize(("n_topics", "range_tokens"), [(1, 10), (3, 10), (50, 10), (50, 1 << 17), (65_535, 1 << 17)])
def test_counts_are_those_of_the_tokens(n_topics, range_tokens, monkeypatch):
    monkeypatch.setattr(_lda_model, "_WORD_RANGE_TOKENS", range_tokens)
    table = random_table()
    table[20, 11] = 140_000  # one topic takes three entries where there is one
    model = make_model(table, np.full(n_topics, 0.3), block_tokens=200)
    assert (len(model._word_ranges) > 5) == (range_tokens == 10)
    latents, statistics = model.init_latents(KEY)
    for sweep in range(2):
        latents, statistics, _ = model.sample_latents(model.mode(statistics), latents, subkey(KEY, sweep))
        check_counts(model, latents, statistics)


def test_stale_entries_of_a_longer_list_are_forgotten():
    """A document that loses topics: what lies behind its new entries does not count."""
    model = make_model(np.append(np.full(40, 5), 0)[np.newaxis], np.ones(60))
    latents, _ = model.init_latents(KEY)
    assert latents.row_vectors[0] > 2
    phi = np.zeros((60, 41))
    phi[:59, 40] = 1  # the document's words are made by the last topic alone
    phi[59, :40] = 1
    position = topic_word_from_array(phi)
    for sweep in range(3):
        latents, statistics, _ = model.sample_latents(position, latents, subkey(KEY, sweep))
        check_counts(model, latents, statistics)
    assert latents.row_vectors[0] == 1


def test_the_last_of_65535_topics_can_be_drawn():
    alpha = np.full(65_535, 1e-12)
    alpha[-1] = 1e6  # all but nothing of the prior
    model = make_model([[3, 0], [1, 2]], alpha)
    latents, statistics = model.init_latents(KEY)
    latents, statistics, _ = model.sample_latents(model.mode(statistics), latents, KEY)
    assert np.all(latents.token_topics == 65_534)
    assert statistics.topics.tolist() == [65_534, 65_534]
    assert statistics.counts.tolist() == [4, 2]


# Blocks and workers


def run_passes(block_tokens, workers):
    """Tokens in CSR order, statistics and log likelihood of three passes."""
    rng = np.random.default_rng(5)
    model = make_model(
        random_table(3, n_rows=80),
        rng.uniform(0.05, 1, 12),
        rng.uniform(0.05, 1, (12, 30)),
        workers=workers,
        block_tokens=block_tokens,
    )
    order = csr_order(model.layout)
    latents, statistics = model.init_latents(KEY)
    yield [latents.token_topics[order], *statistics]
    for sweep in range(3):
        latents, statistics, log_likelihood = model.sample_latents(model.mode(statistics), latents, subkey(KEY, sweep))
        yield [latents.token_topics[order], *statistics, np.array(log_likelihood)]


@pytest.fixture(scope="module")
def passes():
    return list(run_passes(None, Workers(1)))


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("block_tokens", [1, 7, 60, 500, 10**6])
def test_blocks_and_workers_do_not_change_a_byte(passes, block_tokens, n_workers, monkeypatch):
    monkeypatch.setattr(_lda_model, "_WORD_RANGE_TOKENS", 100)
    with Workers(n_workers) as workers:
        for ours, expected in zip(run_passes(block_tokens, workers), passes, strict=True):
            for a, b in zip(ours, expected, strict=True):
                assert a.dtype == b.dtype
                assert a.tobytes() == b.tobytes()


def test_blocks_cut_by_rows_do_not_change_a_byte(passes, monkeypatch):
    monkeypatch.setattr(_lda_layout, "_MAX_BLOCK_ROWS", 3)
    for ours, expected in zip(run_passes(10**6, Workers(1)), passes, strict=True):
        for a, b in zip(ours, expected, strict=True):
            assert a.tobytes() == b.tobytes()


# Log likelihood


def log_likelihood_of(table, alpha, phi, doc_topic):
    """Sum over tokens of log sum_k theta_mk phi_kv, theta the counts with prior, normalised."""
    theta = doc_topic + alpha
    theta /= theta.sum(axis=1, keepdims=True)
    used = table > 0
    return (table[used] * np.log((theta @ phi)[used])).sum()


def long_documents():
    """Documents whose product of sums would leave the range of float64: above, below, and one of one word."""
    table = np.zeros((5, 6000), int)
    table[0, :3] = 20_000, 5000, 1
    table[1] = np.random.default_rng(6).random(6000) < 0.5
    table[2, 5999] = 40_000
    table[4, 7] = 1
    return table


@pytest.mark.parametrize("table", [random_table(), long_documents()], ids=["short", "long"])
@pytest.mark.parametrize("scale", [0.01, 30.0])
def test_log_likelihood_is_the_formula(table, scale):
    alpha = scale * np.array([0.1, 0.6, 0.3, 1.0])
    model = make_model(table, alpha, 0.05 * scale, block_tokens=1000)
    latents, statistics = model.init_latents(KEY)
    for sweep in range(3):
        position = model.mode(statistics)
        doc_topic = dense_doc_topic(read_latents(model.layout, latents), 4)
        latents, statistics, log_likelihood = model.sample_latents(position, latents, subkey(KEY, sweep))
        expected = log_likelihood_of(table, alpha, position.toarray(np.float64), doc_topic)
        assert log_likelihood == pytest.approx(expected, rel=1e-7)


# M step, minibatches


@pytest.mark.parametrize("shape", [(), (30,), (5, 1), (5, 30)])
def test_mode_is_the_smoothed_counts(shape):
    """Equation (20): (W_kv + beta_kv) / (T_k + sum_v beta_kv), the topics' posterior mean given the tokens' topics."""
    beta = np.random.default_rng(7).uniform(0.05, 1.0, shape)
    model = make_model(random_table(), np.ones(5), beta)
    latents, statistics = model.init_latents(KEY)
    _, words, _ = token_columns(model.layout)
    pseudo = np.broadcast_to(beta, (5, 30)).copy()
    np.add.at(pseudo, (latents.token_topics, words), 1)
    expected = pseudo / pseudo.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.mode(statistics).toarray(np.float64), expected, rtol=2e-7)


@pytest.mark.parametrize("n_sweeps", [1, 2, 4])
def test_rows_are_imputed_from_nothing_and_then_from_their_own_counts(n_sweeps):
    model = make_model(random_table(), np.linspace(0.1, 1, 6), block_tokens=100)
    position = model.mode(model.init_latents(KEY)[1])
    frozen = [array.copy() for array in position]
    rows, _, _ = token_columns(model.layout)
    doc_topics = [{}] * model.counts.n_rows
    for sweep in range(n_sweeps):
        latents, expected, _ = model.sample_latents(
            position, make_latents(model.layout, doc_topics), subkey(KEY, sweep)
        )
        doc_topics = []
        for row in range(model.counts.n_rows):
            topics, first, counts = np.unique(latents.token_topics[rows == row], return_index=True, return_counts=True)
            doc_topics.append({int(topics[i]): int(counts[i]) for i in np.argsort(first)})
    statistics = model.impute_rows(position, n_sweeps, KEY)
    for a, b in zip(statistics, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    for array, before in zip(position, frozen, strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_blend_is_the_formula(rate):
    model = make_model(random_table(), np.ones(5))
    old, new = model.init_latents(KEY)[1], model.init_latents(subkey(KEY, 1))[1]
    old = old._replace(counts=old.counts * 2.5, totals=old.totals * 2.5)
    blended = model.blend(old, new, rate, 40.0)
    assert blended.counts.dtype == blended.totals.dtype == np.float64
    np.testing.assert_allclose(blended.totals, (1 - rate) * old.totals + rate * 40.0 * new.totals, rtol=1e-14)
    blended, old, new = (counts.tocsr().toarray() for counts in (blended, old, new))
    np.testing.assert_allclose(blended, (1 - rate) * old + rate * 40.0 * new, rtol=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 40])
def test_search_finds_the_first_sum_above(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        sums = np.cumsum(rng.exponential(size=n) * (rng.random(n) < 0.7))
        for value in [-1.0, 0.0, *sums, *(rng.random(10) * sums[-1]), sums[-1] + 1]:
            expected = min(int(np.searchsorted(sums, value, side="right")), n - 1)
            assert _first_above(np.append(sums, -np.ones(5)), n, value) == expected
