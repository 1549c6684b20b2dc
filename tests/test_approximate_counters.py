"""The counters of the benchmark of Zaheer et al. (2016): unbiased, and incremented for the topics that a pass draws."""

import numpy as np
import pytest
from samplers._evidence import assert_agrees, assert_disagrees, summarize

from benchmarks.papers import __main__ as papers
from skmanifold.datasets import make_lda_corpus
from skmanifold.sparse.counts import canonical_csr, whole_counts

pytestmark = [
    pytest.mark.extended,
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),  # interpreted 64-bit keys
]

counters = papers.module_of("zaheer2016_counters")
LARGEST = 300  # number of tokens of the most common word
APPROXIMATE = [version for version in counters.VERSIONS if version != counters.EXACT]
by_version = pytest.mark.parametrize("version", counters.VERSIONS)
by_approximation = pytest.mark.parametrize("version", APPROXIMATE)


def moments(values, chances, n_increments):
    """Mean and variance of the number after some increments, from the distribution of the register."""
    probabilities = np.zeros(len(values))
    probabilities[0] = 1.0
    for _ in range(n_increments):
        moved = probabilities * chances
        probabilities = probabilities - moved
        probabilities[1:] += moved[:-1]
    mean = probabilities @ values
    return mean, probabilities @ (values - mean) ** 2


def small_corpus():
    X = make_lda_corpus(40, 12, 4, mean_length=25, random_state=0).data
    return whole_counts(canonical_csr(X), np.uint64(0))


def count_often(counter, n_increments, n_words=80, n_topics=25, chances=None, values=None):
    """The numbers of many registers after the same number of increments, in random order."""
    words, topics = np.divmod(np.repeat(np.arange(n_words * n_topics), n_increments), n_topics)
    order = np.random.default_rng(0).permutation(len(words))
    counts = counter.zeros(n_words, n_topics)
    chances = counters.chances_of(counter.values) if chances is None else chances
    counters.kernels_of(counter.n_bits, False, False)[1](words[order], topics[order], counts, chances, np.uint64(1))
    return counter._replace(values=counter.values if values is None else values).decode(counts, n_topics).ravel()


@pytest.mark.parametrize("n_increments", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("base", [1.2, 2.0])
def test_the_mean_of_morris_counters_is_the_number_of_increments(base, n_increments):
    values = counters.morris_values(base, n_bits=6)
    c = np.arange(64)
    np.testing.assert_allclose(values, (base**c - 1) / (base - 1), rtol=1e-12)
    np.testing.assert_allclose(counters.chances_of(values)[:-1], base ** -c[:-1].astype(float), rtol=1e-9)
    mean, variance = moments(values, counters.chances_of(values), n_increments)
    assert mean == pytest.approx(n_increments, rel=1e-9)
    assert variance == pytest.approx((base - 1) * n_increments * (n_increments - 1) / 2, rel=1e-6, abs=1e-9)


@by_approximation
def test_a_version_represents_the_numbers_that_it_should(version):
    values = counters.make_counter(version, LARGEST).values
    assert len(values) == (256 if version == counters.BYTES else 16)
    if version == counters.SMALL:
        assert values[-1] == pytest.approx(386, abs=1)
    else:
        assert values[-1] >= LARGEST - 1e-6
    assert values[-1] == pytest.approx(LARGEST) or version != counters.NIBBLES
    assert counters.base_for(15) == pytest.approx(1.0)


@by_approximation
@pytest.mark.parametrize("n_increments", [1, 3, 40])
def test_counters_are_unbiased_with_the_variance_of_their_registers(version, n_increments):
    counter = counters.make_counter(version, 100 * LARGEST)
    found = count_often(counter, n_increments)
    mean, variance = moments(counter.values, counters.chances_of(counter.values), n_increments)
    assert mean == pytest.approx(n_increments, rel=1e-3)  # a counter of 4 bits may have reached its largest register
    assert_agrees(summarize(found), mean)
    assert_agrees(summarize((found - mean) ** 2), variance)
    if variance > 0:
        assert_disagrees(summarize((found - mean) ** 2), 1.5 * variance)


@by_approximation
def test_wrong_probabilities_and_wrong_estimates_are_detected(version):
    counter = counters.make_counter(version, 100 * LARGEST)
    chances = counters.chances_of(counter.values)
    late = np.append(chances[1:], 0.0)  # those of the next register
    assert_disagrees(summarize(count_often(counter, 40, chances=late)), 40)
    assert_disagrees(summarize(count_often(counter, 3, values=counter.values + 1)), 3)
    assert_disagrees(summarize(count_often(counter, 40, values=np.arange(len(chances)))), 40)


@pytest.mark.short_cases("4 bits")
@by_version
def test_a_pass_counts_the_topics_that_it_draws(version):
    chain = counters.Chain(version, small_corpus(), 5, seed=0)
    n_changed = [chain.step() for _ in range(3)]
    exact, found = chain.recounted(), chain.decoded()
    assert exact.sum() == chain.totals.sum() == len(chain.words)
    np.testing.assert_array_equal(chain.totals, exact.sum(axis=0))
    if version == counters.EXACT:
        np.testing.assert_array_equal(found, exact)
        assert n_changed == [len(chain.words)] * 3
        return
    of = [moments(chain.counter.values, chain.chances, n) for n in range(exact.max() + 1)]
    mean, variance = (sum(each[part] for each in np.array(of)[exact.ravel()]) for part in (0, 1))
    assert abs(found.sum() - mean) <= 4.5 * np.sqrt(variance)
    assert (found.sum() == exact.sum()) == (variance == 0)
    assert n_changed[-1] == len(chain.words) or variance > 0


@by_version
def test_a_pass_draws_from_update_20_given_the_numbers_of_the_registers(version):
    counts = small_corpus()
    chain = counters.Chain(version, counts, 4, seed=0)
    rows = np.repeat(np.repeat(np.arange(counts.n_rows), np.diff(counts.indptr)), counts.counts)
    doc_topic = np.zeros((counts.n_rows, 4))
    np.add.at(doc_topic, (rows, chain.topics), 1.0)
    topics = (chain.decoded() + counters.BETA) / (chain.totals + 12 * counters.BETA)
    probabilities = (doc_topic + chain.alpha)[rows] * topics[chain.words]
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    expected, variance = np.zeros((12, 4)), np.full((12, 4), 1e-9)
    np.add.at(expected, chain.words, probabilities)
    np.add.at(variance, chain.words, probabilities * (1.0 - probabilities))
    before, total, n_draws = chain.topics.copy(), 0.0, 400
    for chain.n_passes in range(n_draws):
        chain.topics[:] = before
        chain.make_pass()
        total = total + chain.recounted()
    assert np.abs((total / n_draws - expected) / np.sqrt(variance / n_draws)).max() < 4.5
