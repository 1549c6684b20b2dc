"""The document step: its law by chi-square and by enumeration, its sums against numpy, the same bytes in every cut."""

import itertools

import numpy as np
import pytest
from numba import njit

from skmanifold.admixture._tokens import block_scan as kernels
from skmanifold.admixture._tokens import document_gibbs as module
from skmanifold.admixture._tokens.document_gibbs import all_documents, make_word_table, sample_documents, take_documents
from skmanifold.utils._threads import Workers

from ._documents import (
    dense_counts,
    fresh_law,
    make_counts,
    make_keys,
    make_table,
    random_setting,
    row_transition,
    sweep_log_likelihood,
    token_words,
)
from .test_esca_law import p_value

ALPHA = np.array([0.3, 0.6])
PHI = np.array([[0.5, 0.3, 0.2], [0.1, 0.5, 0.4]])
TINY = [[2, 1, 0], [0, 1, 2]]  # documents [0, 0, 1] and [1, 2, 2]
TINY_WORDS = np.array([[0, 0, 1], [1, 2, 2]])
STATES = np.array(list(itertools.product(range(2), repeat=3)))
PLACES = np.array([4, 2, 1])


def sample(documents, phi, alpha, *, seed=0, burn_in=0, kept=1, workers=None, topics=None):
    workers = workers or Workers(1)
    return sample_documents(
        documents,
        make_table(phi, alpha, workers),
        alpha,
        make_keys(len(documents.indptr) - 1, seed),
        n_burn_in=burn_in,
        n_kept=kept,
        workers=workers,
        token_topics=None if topics is None else topics.copy(),
    )


# The law


def tiny_transitions(alpha=ALPHA, **rule):
    """Of the two documents."""
    return [row_transition(STATES, PHI.T[words], alpha, **rule) for words in TINY_WORDS]


@pytest.fixture(scope="module")
def one_sweep():
    """Where one sweep leads: by document, start and end, 6,000 times each."""
    n_copies = 6_000
    documents = all_documents(make_counts(np.tile(TINY, (n_copies, 1))))
    observed = np.zeros((2, len(STATES), len(STATES)))
    for start, state in enumerate(STATES):
        topics = np.tile(state, 2 * n_copies).astype(np.uint16)
        ends = sample(documents, PHI, ALPHA, seed=start, topics=topics).token_topics.reshape(n_copies, 2, 3) @ PLACES
        for row in range(2):
            observed[row, start] = np.bincount(ends[:, row], minlength=len(STATES))
    return observed


def p_value_of(observed, transitions):
    return p_value(*zip(observed.reshape(-1, len(STATES)), np.concatenate(transitions), strict=True))


def test_one_sweep_has_the_law_of_the_sequential_scan(one_sweep):
    assert p_value_of(one_sweep, tiny_transitions()) > 1e-2


@pytest.mark.parametrize(
    "wrong",
    [{"exclude": False}, {"alpha": np.full(2, 1e-9)}, {"synchronous": True}],
    ids=["own token counted", "without alpha", "synchronous"],
)
def test_one_sweep_is_told_from_a_wrong_rule(one_sweep, wrong):
    assert p_value_of(one_sweep, tiny_transitions(**wrong)) < 1e-100


def test_a_fresh_document_is_drawn_token_by_token_and_then_swept():
    n_copies = 40_000
    documents = all_documents(make_counts(np.tile(TINY, (n_copies, 1))))
    result = sample(documents, PHI, ALPHA, burn_in=1)
    ends = result.token_topics.reshape(n_copies, 2, 3) @ PLACES
    observed = [np.bincount(ends[:, row], minlength=len(STATES)) for row in range(2)]
    fresh = [fresh_law(STATES, PHI.T[words], ALPHA) for words in TINY_WORDS]
    assert np.allclose(np.sum(fresh, axis=1), 1)
    laws = [law @ step for law, step in zip(fresh, tiny_transitions(), strict=True)]
    assert p_value(*zip(observed, laws, strict=True)) > 1e-2
    assert p_value(*zip(observed, fresh, strict=True)) < 1e-10  # the kept sweep comes after the fresh one
    uniform_start = [step.mean(axis=0) for step in tiny_transitions()]
    assert p_value(*zip(observed, uniform_start, strict=True)) < 1e-10
    np.testing.assert_array_equal(sample(documents, PHI, ALPHA, burn_in=0).token_topics, result.token_topics)


@pytest.mark.parametrize("n_components", [3, 16, 40, 300])
def test_the_first_token_has_the_exact_law_in_both_parts_of_the_sum(n_components):
    """Copies of one document, its other tokens' topics fixed: (D_k + alpha_k) p(v | k)."""
    rng = np.random.default_rng(n_components)
    n_copies = 20_000
    phi = rng.dirichlet(np.full(4, 0.5), n_components)
    alpha = rng.uniform(0.2, 1.8, n_components) * 4 / n_components
    documents = all_documents(make_counts(np.tile([1, 3, 2, 0], (n_copies, 1))))
    start = rng.integers(n_components, size=6)
    drawn = sample(documents, phi, alpha, topics=np.tile(start, n_copies).astype(np.uint16)).token_topics[::6]
    observed = np.bincount(drawn, minlength=n_components).astype(float)
    by_document = np.bincount(start[1:], minlength=n_components) * phi[:, 0]
    by_prior = alpha * phi[:, 0]
    assert p_value((observed, by_document + by_prior)) > 1e-3
    for wrong in (0.5 * by_document + by_prior, by_document + 0.5 * by_prior):
        assert p_value((observed, wrong)) < 1e-12


def test_mean_counts_over_many_sweeps_are_the_posterior_ones():
    """Each copy of the tiny corpus has words of its own, so that its counts are seen apart."""
    n_copies, n_kept = 60, 400
    table = np.kron(np.eye(n_copies, dtype=int), TINY)
    result = sample(all_documents(make_counts(table)), np.tile(PHI, n_copies), ALPHA, burn_in=20, kept=n_kept)
    by_copy = dense_counts(result.counts).reshape(n_copies, 3, 2) / n_kept
    expected = np.zeros((3, 2))
    for words, transition in zip(TINY_WORDS, tiny_transitions(), strict=True):
        joint = np.prod(PHI[STATES, words], axis=1)
        for topic in range(2):
            count = (STATES[:, :, np.newaxis] == np.arange(2)).sum(axis=1)[:, topic]
            rising = np.array([1, ALPHA[topic], ALPHA[topic] * (ALPHA[topic] + 1), 0])
            rising[3] = rising[2] * (ALPHA[topic] + 2)
            joint *= rising[count]
        posterior = joint / joint.sum()
        np.testing.assert_allclose(posterior @ transition, posterior, atol=1e-12)
        for site, word in enumerate(words):
            expected[word] += [posterior @ (STATES[:, site] == topic) for topic in range(2)]
    standard_error = by_copy.std(axis=0, ddof=1) / np.sqrt(n_copies)
    assert np.abs((by_copy.mean(axis=0) - expected) / standard_error).max() < 3.5
    assert standard_error.max() < 0.01


def test_counts_beyond_sixteen_bits_have_the_exact_law():
    """A word that only topic 3 makes, 100,000 times; then one that topics 3 and 5 make alike: Polya's urn."""
    n, pseudo = 2_000, 1e5
    phi = np.zeros((20, 2))
    phi[3], phi[5, 1] = [0.5, 0.25], 0.25
    alpha = np.full(20, 0.1)
    alpha[5] = pseudo
    result = sample(all_documents(make_counts([[100_000, n]])), phi, alpha)
    dense = dense_counts(result.counts)
    assert dense[0, 3] == 100_000
    assert dense[1].sum() == dense[1, [3, 5]].sum() == n
    mean = 100_000.1 / (100_000.1 + pseudo)
    deviation = np.sqrt(n * mean * (1 - mean) * (1 + n / 2e5))
    assert abs(dense[1, 3] - n * mean) < 3.5 * deviation
    assert abs(dense[1, 3] - n * 34_464 / (34_464 + pseudo)) > 10 * deviation


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_weights_far_below_the_smallest_number_have_the_right_law(kind):
    rng = np.random.default_rng(5)
    n_copies, n_components = 20_000, 21
    log_weights = (rng.normal(size=(2, n_components)) - [[1e4], [9e3]]).astype(kind)
    log_normalisers = rng.normal(size=n_components) - 5e3
    alpha = np.full(n_components, 0.4)
    table = make_word_table(log_weights, log_normalisers, alpha, Workers(1))
    documents = all_documents(make_counts(np.ones((n_copies, 2))))
    start = np.tile(np.array([0, 7], np.uint16), n_copies)
    result = sample_documents(
        documents, table, alpha, make_keys(n_copies), n_burn_in=0, n_kept=1, workers=Workers(1), token_topics=start
    )
    law = np.exp(log_weights[0].astype(float) - log_normalisers + 5e3) * (alpha + (np.arange(n_components) == 7))
    observed = np.bincount(result.token_topics[::2], minlength=n_components).astype(float)
    assert p_value((observed, law)) > 1e-3
    assert p_value((observed, alpha + (np.arange(n_components) == 7))) < 1e-100
    assert -2.0e8 < result.log_likelihood < -1.7e8


def test_a_topic_that_cannot_make_the_word_is_never_drawn():
    documents, phi, alpha, _ = random_setting(45)
    phi[phi < 0.02] = 0
    phi[:9] += 1e-3
    topics = sample(documents, phi, alpha * 1e-60, burn_in=10, kept=10).token_topics
    assert np.all(phi[topics, token_words(documents)] > 0)


# Sums against numpy


@pytest.mark.parametrize("n_components", [1, 5, 16, 37])
def test_counts_and_log_likelihood_are_those_of_the_kept_sweeps(n_components, monkeypatch):
    documents, phi, alpha, topics = random_setting(n_components)
    states = [topics] + [
        sample(documents, phi, alpha, burn_in=sweep, topics=topics).token_topics.copy() for sweep in range(5)
    ]
    expected = np.zeros((len(documents.words), n_components), int)
    log_likelihood = []
    for before, after in itertools.pairwise(states[2:]):
        np.add.at(expected, (token_words(documents), after), 1)
        log_likelihood.append(sweep_log_likelihood(documents, phi, alpha, before, after))
    result = sample(documents, phi, alpha, burn_in=2, kept=3, topics=topics)
    np.testing.assert_array_equal(result.token_topics, states[-1])
    np.testing.assert_array_equal(dense_counts(result.counts), expected)
    assert result.counts.counts.dtype == np.int32
    assert result.log_likelihood == pytest.approx(np.mean(log_likelihood), rel=1e-6)
    for at_once in (1, 2):  # sweeps whose topics are held at a time
        monkeypatch.setattr(module, "_MAX_HISTORY", at_once * len(topics))
        again = sample(documents, phi, alpha, burn_in=2, kept=3, topics=topics)
        np.testing.assert_array_equal(dense_counts(again.counts), expected)
        np.testing.assert_array_equal(again.token_topics, states[-1])
        assert again.log_likelihood == result.log_likelihood


def test_start_topics_are_overwritten():
    documents, phi, alpha, topics = random_setting(5)
    table, keys = make_table(phi, alpha), make_keys(len(documents.indptr) - 1)
    result = sample_documents(
        documents, table, alpha, keys, n_burn_in=0, n_kept=1, workers=Workers(1), token_topics=topics
    )
    assert result.token_topics is topics


@pytest.mark.parametrize("n_components", [1, 15, 16, 17, 300])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_word_table_is_that_of_numpy(n_components, kind):
    rng = np.random.default_rng(n_components)
    log_weights = (rng.normal(size=(9, n_components)) * 8).astype(kind)
    log_weights[3, 0] = -np.inf
    normalisers, alpha = rng.normal(size=n_components), rng.uniform(0.1, 1, n_components)
    table = make_word_table(log_weights, normalisers, alpha, Workers(1))
    exact = log_weights.astype(float) - normalisers
    largest = exact.max(axis=1, initial=-1e300)
    scores = np.exp(exact - largest[:, np.newaxis])
    np.testing.assert_array_equal(table.log_scale, largest)
    np.testing.assert_allclose(table.scores[:, :n_components], scores, rtol=3e-7, atol=1e-38)
    assert not table.scores[:, n_components:].any()
    assert table.scores.ctypes.data % 64 == 0
    sums = np.cumsum(table.scores[:, :n_components] * alpha, axis=1)
    ends = np.minimum(np.arange(16, n_components + 16, 16), n_components) - 1
    np.testing.assert_allclose(table.prior_sums, sums[:, ends], rtol=1e-12)


def test_a_word_that_no_topic_makes_has_scores_of_zero():
    table = make_word_table(np.full((1, 20), -np.inf), np.zeros(20), np.ones(20), Workers(1))
    assert not table.scores.any()
    assert not table.prior_sums.any()


# Cuts, shapes


@pytest.mark.parametrize("n_components", [1, 12, 100])
@pytest.mark.parametrize("fresh", [True, False])
def test_same_bytes_for_any_workers_and_any_cut(n_components, fresh, monkeypatch):
    documents, phi, alpha, topics = random_setting(n_components, n_rows=60)
    start = None if fresh else topics
    expected = sample(documents, phi, alpha, burn_in=1, kept=4, topics=start)
    for n_workers, size in ((1, 1), (2, 1), (3, 1), (2, 40), (3, 700)):
        for name in ("_TASK_CELLS", "_TASK_DRAWS", "_TASK_COUNTS"):
            monkeypatch.setattr(module, name, size)
        with Workers(n_workers) as workers:
            result = sample(documents, phi, alpha, burn_in=1, kept=4, topics=start, workers=workers)
        assert result.token_topics.tobytes() == expected.token_topics.tobytes()
        assert [part.tobytes() for part in result.counts] == [part.tobytes() for part in expected.counts]
        assert result.log_likelihood == expected.log_likelihood


def test_a_document_does_not_depend_on_its_company():
    _, phi, alpha, _ = random_setting(50)
    counts = make_counts(np.random.default_rng(0).poisson(0.7, (40, 30)))
    table, keys = make_table(phi, alpha), make_keys(40)
    whole = all_documents(counts)

    def topics(documents, keys):
        few = table._replace(
            scores=np.ascontiguousarray(table.scores[documents.words]),
            prior_sums=table.prior_sums[documents.words],
            log_scale=table.log_scale[documents.words],
        )
        return sample_documents(documents, few, alpha, keys, n_burn_in=3, n_kept=2, workers=Workers(1)).token_topics

    together = topics(whole, keys)
    for row in (0, 11, 39):
        alone = topics(take_documents(counts, np.array([row])), keys[[row]])
        np.testing.assert_array_equal(alone, together[whole.token_start[row] : whole.token_start[row + 1]])


def test_taken_documents_are_those_of_the_sliced_corpus():
    table = np.random.default_rng(3).poisson(0.3, (50, 70))
    table[[4, 20]] = 0
    counts = make_counts(table)
    for rows in ([7], [30, 4, 11, 20, 2], [9, 9], [4], range(50), []):
        rows = np.array(rows, np.int64)
        taken = take_documents(counts, rows)
        used = np.flatnonzero(table[rows].any(axis=0))
        np.testing.assert_array_equal(taken.words, used)
        expected = all_documents(make_counts(table[rows][:, used].reshape(len(rows), len(used))))
        for name in set(taken._fields) - {"words"}:
            left, right = getattr(taken, name), getattr(expected, name)
            assert left.dtype == right.dtype, name
            np.testing.assert_array_equal(left, right, err_msg=name)


@pytest.mark.parametrize("table", [np.zeros((3, 4)), np.zeros((0, 4))], ids=["empty rows", "no rows"])
@pytest.mark.parametrize("kept", [1, 3])
def test_nothing_to_sample(table, kept):
    phi = np.full((5, 4), 0.25)
    result = sample(all_documents(make_counts(table)), phi, np.ones(5), kept=kept)
    assert len(result.token_topics) == 0
    assert result.log_likelihood == 0
    np.testing.assert_array_equal(dense_counts(result.counts), np.zeros((4, 5)))


def test_one_topic():
    documents, phi, alpha, _ = random_setting(1)
    result = sample(documents, phi, alpha, kept=2)
    assert not result.token_topics.any()
    words = token_words(documents)
    np.testing.assert_array_equal(dense_counts(result.counts)[:, 0], 2 * np.bincount(words, minlength=30))
    assert result.log_likelihood == pytest.approx(np.log(phi[0, words]).sum(), rel=1e-6)


def test_as_many_topics_as_sixteen_bits_number():
    n_components = 65_535
    phi = np.full((n_components, 2), 1e-9)
    phi[-1], phi[40_000] = [0.9, 0.1], [0.1, 0.9]
    result = sample(all_documents(make_counts([[30, 0], [0, 30]])), phi, np.full(n_components, 1e-4), burn_in=5)
    dense = dense_counts(result.counts)
    assert dense[0, -1] > 25
    assert dense[1, 40_000] > 25


# Vectors against their references


@njit(cache=True)
def _scan(counts, cell, listed, block, n_listed, scores, score, sums, first_sum, lanes, lane):
    return kernels.scan_blocks(counts, cell, listed, block, n_listed, scores, score, sums, first_sum, lanes, lane)


@njit(cache=True)
def _find(sums, first_sum, n_listed, lanes, lane, value):
    return kernels.find_in_blocks(sums, first_sum, n_listed, lanes, lane, value)


@njit(cache=True)
def _find_one(alpha, first_alpha, scores, first_score, value):
    return kernels.find_in_block(alpha, first_alpha, scores, first_score, value)


@pytest.mark.parametrize("n_listed", [0, 1, 7, 8, 9, 21])
def test_vectors_do_the_operations_of_their_references(n_listed):
    rng = np.random.default_rng(n_listed)
    n_blocks = 24
    counts = rng.integers(100_000, size=(n_blocks + 1) * 16).astype(np.int32)
    scores = rng.random((n_blocks + 2) * 16).astype(np.float32)
    counts[rng.random(len(counts)) < 0.6] = 0
    listed = rng.permutation(n_blocks).astype(np.int32)
    places = [(np.full(32 * 16, np.inf, np.float32), np.full(48, np.nan, np.float32)) for _ in range(2)]
    arguments = (counts, 16, listed, 2, n_listed, scores, 7)
    totals = [
        scan(*arguments, sums, 32, lanes, 16)
        for scan, (sums, lanes) in zip((_scan, kernels.scan_blocks_reference), places, strict=True)
    ]
    assert totals[0] == totals[1]
    for left, right in zip(*places, strict=True):
        np.testing.assert_array_equal(left, right)
    sums, lanes = places[0]
    for value in (rng.random(300) * 1.01 * totals[0]).astype(np.float32):
        found = _find(sums, 32, n_listed, lanes, 16, value)
        assert found == kernels.find_in_blocks_reference(sums, 32, n_listed, lanes, 16, value)
        if found >> 4 < n_listed:
            topic = listed[2 + (found >> 4)] * 16 + (found & 15)
            assert counts[16 + topic] > 0
        else:
            assert value >= 0.9999 * totals[0]
    alpha = rng.random(64)
    for value in rng.random(300) * 5:
        assert _find_one(alpha, 5, scores, 9, value) == kernels.find_in_block_reference(alpha, 5, scores, 9, value)


def test_rounding_never_draws_a_topic_without_weight():
    """The sums across lanes are added in different orders and may fall: every value beside one of them is tried."""
    rng = np.random.default_rng(3)
    falls = 0
    for _ in range(400):
        counts = rng.integers(1, 1000, size=16).astype(np.int32)
        counts[10:] = 0  # ten topics of sixteen
        counts[rng.random(16) < 0.3] = 0
        scores = (rng.random(16) ** 3).astype(np.float32)
        sums, lanes = np.full(8 * 16, np.inf, np.float32), np.empty(16, np.float32)
        _scan(counts, 0, np.zeros(1, np.int32), 0, 1, scores, 0, sums, 0, lanes, 0)
        falls += np.any(np.diff(lanes) < 0)
        for edge in lanes:
            for value in (np.nextafter(edge, np.float32(0)), edge, np.nextafter(edge, np.float32(np.inf))):
                found = _find(sums, 0, 1, lanes, 0, value)
                assert found >> 4 >= 1 or counts[found & 15] > 0
                assert found == kernels.find_in_blocks_reference(sums, 0, 1, lanes, 0, value)
    assert falls > 20
