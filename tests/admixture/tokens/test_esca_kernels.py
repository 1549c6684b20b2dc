"""ESCA's kernels against slow references: the same bytes, the same counts, for every cut into blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.admixture._tokens import layout as layout_module
from skmanifold.admixture._tokens import model as model_module
from skmanifold.numerics.simd import LANES
from skmanifold.random._discrete_variates import first_above
from skmanifold.random._keys import random_bits, subkey, uniform
from skmanifold.topics.topic_word import topic_word_from_array
from skmanifold.utils._threads import Workers

from ..lda._lda_arrays import (
    KEY,
    MOST,
    csr_order,
    dense_doc_topic,
    make_latents,
    make_model,
    random_table,
    read_latents,
    tabulate,
    token_columns,
)

# The kernel against a slow one with the same uniforms


def pair_key(key, row, word):
    return subkey(key, int(row) << 32 | int(word))


def slow_sweep(model, position, latents, key):
    """Topics by inverse CDF in float64, and which of them are away from the CDF's steps; the log likelihood of each.

    In order: the document's entries with the word's weights (lane by lane of sixteen), the word's list, the document's
    entries with the base part, all topics with the base part.
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
        scan = np.argsort(np.arange(len(in_doc)) % LANES, kind="stable")
        labels = np.concatenate([in_doc[scan], word_topics, in_doc, np.arange(n_topics)])
        of_doc = (counts * weights[in_doc])[scan]
        ends = np.cumsum(
            np.concatenate([of_doc, alpha[word_topics] * word_weights, counts * base[in_doc], alpha * base])
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


@pytest.mark.covering
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


def test_split_entries_repeat_the_slow_reference(monkeypatch):
    monkeypatch.setattr(layout_module, "_MIN_CELL_TOKENS", 150_000)
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


@pytest.mark.extended
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


# Counts of the draws


def as_table(counts):
    return sp.csr_array((counts.counts, counts.indices, counts.indptr), (counts.n_rows, counts.n_features)).toarray()


def check_counts(model, latents, statistics):
    """Documents' and words' counts are those of the tokens, in whole numbers, each topic once in a word's list."""
    layout, table = model.layout, tabulate(model, latents)
    assert np.all(table.sum(axis=2) == as_table(model.counts))
    for row, topics in enumerate(read_latents(layout, latents)):
        expected = table[row].sum(axis=0)
        assert topics == {int(k): int(expected[k]) for k in np.flatnonzero(expected)}
        stop = layout.row_start[row] + 16 * latents.row_vectors[row]
        n_entries = (-(-expected // MOST)).sum()
        assert latents.row_vectors[row] == -(-n_entries // 16)
        assert np.count_nonzero(latents.entries[layout.row_start[row] : stop] >> 16) == n_entries
    assert statistics.counts.dtype == np.int32
    assert statistics.totals.dtype == np.int64
    np.testing.assert_array_equal(statistics.totals, table.sum(axis=(0, 1)))
    assert len(statistics.indptr) == model.counts.n_features + 1
    for word in range(model.counts.n_features):
        entries = slice(statistics.indptr[word], statistics.indptr[word + 1])
        expected = table[:, word].sum(axis=0)
        assert len(np.unique(statistics.topics[entries])) == statistics.indptr[word + 1] - statistics.indptr[word]
        np.testing.assert_array_equal(np.sort(statistics.topics[entries]), np.flatnonzero(expected))
        np.testing.assert_array_equal(statistics.counts[entries], expected[statistics.topics[entries]])


@pytest.mark.short_cases("1-10", "3-10", "50-10", "50-131072")
@pytest.mark.parametrize(("n_topics", "range_tokens"), [(1, 10), (3, 10), (50, 10), (50, 1 << 17), (65_535, 1 << 17)])
def test_counts_are_those_of_the_tokens(n_topics, range_tokens, monkeypatch):
    monkeypatch.setattr(model_module, "_WORD_RANGE_TOKENS", range_tokens)
    table = random_table()
    table[20, 11] = 140_000  # one topic takes three entries where there is one
    model = make_model(table, np.full(n_topics, 0.3), block_tokens=200)
    assert (len(model._word_ranges) > 5) == (range_tokens == 10)
    assert model.layout.n_cells == (n_topics < 40_000)
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
    """Tokens in CSR order, all tokens, statistics and log likelihood of three passes; some cells are large."""
    rng, table = np.random.default_rng(5), random_table(3, n_rows=80)
    table[[5, 20, 21, 60], [6, 11, 11, 3]] = 1500, 200_000, 1024, 3_000_000
    model = make_model(
        table,
        rng.uniform(0.05, 1, 12),
        rng.uniform(0.05, 1, (12, 30)),
        workers=workers,
        block_tokens=block_tokens,
    )
    order = csr_order(model.layout)
    latents, statistics = model.init_latents(KEY)
    yield [latents.token_topics[order], tabulate(model, latents), *statistics]
    for sweep in range(3):
        sample = model.sample_given_others if sweep == 1 else model.sample_latents
        latents, statistics, log_likelihood = sample(model.mode(statistics), latents, subkey(KEY, sweep))
        yield [latents.token_topics[order], tabulate(model, latents), *statistics, np.array(log_likelihood)]


@pytest.fixture(scope="module")
def passes():
    return list(run_passes(None, Workers(1)))


@pytest.mark.parametrize("n_workers", [1, 2, 3])
@pytest.mark.parametrize("block_tokens", [1, 7, 60, 500, 10**6])
def test_blocks_and_workers_do_not_change_a_byte(passes, block_tokens, n_workers, monkeypatch):
    monkeypatch.setattr(model_module, "_WORD_RANGE_TOKENS", 100)
    with Workers(n_workers) as workers:
        for ours, expected in zip(run_passes(block_tokens, workers), passes, strict=True):
            for a, b in zip(ours, expected, strict=True):
                assert a.dtype == b.dtype
                assert a.tobytes() == b.tobytes()


def test_blocks_cut_by_rows_do_not_change_a_byte(passes, monkeypatch):
    monkeypatch.setattr(layout_module, "_MAX_BLOCK_ROWS", 3)
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
        latents, expected, _ = model.sample_latents(position, make_latents(model, doc_topics), subkey(KEY, sweep))
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
            assert first_above(np.append(sums, -np.ones(5)), n, value) == expected
