"""Tables, weights and concentrations of the hierarchical Dirichlet process against their exact distributions."""

import numpy as np
import pytest
from samplers._evidence import Estimate, assert_agrees, assert_disagrees, summarize
from scipy.integrate import quad
from scipy.special import gammaln

from skmanifold.admixture._hdp.births import (
    TopicWeights,
    _count_tables,
    draw_document_concentration,
    draw_tables,
    draw_topic_concentration,
    draw_weights,
)
from skmanifold.random._keys import root_key, subkey
from skmanifold.utils._threads import Workers

KEY = root_key(3)
COUNTS = (1, 4, 9)  # tokens of three topics in a document
EXPECTED = np.array([0.2, 0.7, 3.0])
PRIOR = (2.0, 1.5)  # shape and rate


def documents(n):
    """Equal documents, with the tokens of the topics in mixed order."""
    topics = np.random.default_rng(0).permutation(np.repeat(np.arange(3), COUNTS)).astype(np.uint16)
    return np.arange(n + 1) * len(topics), np.tile(topics, n)


def law_of_tables(n_tokens, expected):
    """P(m) for m = 1, ..., n: unsigned Stirling numbers of the first kind, times powers."""
    row = np.array([1.0])
    for i in range(n_tokens):
        row = np.append(0.0, row) + i * np.append(row, 0.0)
    log_rising = gammaln(expected + n_tokens) - gammaln(expected)
    return (row * expected ** np.arange(n_tokens + 1) / np.exp(log_rising))[1:]


def test_tables_have_the_law_of_a_chinese_restaurant():
    token_start, topics = documents(20_000)
    tables = np.array([_count_tables(i, i + 1, token_start, topics, EXPECTED, 0, KEY) for i in range(20_000)])
    for topic, n_tokens in enumerate(COUNTS):
        law = law_of_tables(n_tokens, EXPECTED[topic])
        assert law.sum() == pytest.approx(1)
        frequencies = np.bincount(tables[:, topic], minlength=n_tokens + 1)[1:] / 20_000
        error = np.sqrt(np.maximum(law * (1 - law), 1e-3) / 20_000)
        assert_agrees(Estimate(frequencies, error), law)
        if n_tokens > 1:
            assert_disagrees(Estimate(frequencies, error), law_of_tables(n_tokens, 1.2 * EXPECTED[topic]))


def test_tables_do_not_depend_on_threads_or_shards():
    token_start, topics = documents(30_000)
    whole = draw_tables(token_start, topics, EXPECTED, 0, KEY, Workers(1))
    with Workers(2) as workers:
        np.testing.assert_array_equal(draw_tables(token_start, topics, EXPECTED, 0, KEY, workers), whole)
    cut = 11_111
    first = draw_tables(token_start[: cut + 1], topics[: token_start[cut]], EXPECTED, 0, KEY, Workers(1))
    rest = token_start[cut:] - token_start[cut]
    second = draw_tables(rest, topics[token_start[cut] :], EXPECTED, cut, KEY, Workers(1))
    np.testing.assert_array_equal(first + second, whole)


def test_weights_are_dirichlet_distributed():
    n_tables, concentration = np.array([1, 5, 30]), 0.4
    draws = [draw_weights(n_tables, concentration, subkey(KEY, i)) for i in range(20_000)]
    values = np.array([[*draw.used, np.exp(draw.log_unused)] for draw in draws])
    np.testing.assert_allclose(values.sum(axis=1), 1)
    shapes = np.append(n_tables, concentration)
    mean = shapes / shapes.sum()
    assert_agrees(summarize(values), mean)
    assert_agrees(summarize(values**2), mean * (shapes + 1) / (shapes.sum() + 1))


def moments(log_density):
    """The mean and the second moment under a density on (0, 40)."""
    grid = np.linspace(0.01, 40, 4000)
    top = max(map(log_density, grid))

    def integral(power):
        return quad(lambda x: x**power * np.exp(log_density(x) - top), 0, 40, limit=200)[0]

    return np.array([integral(1), integral(2)]) / integral(0)


def log_prior(x):
    return (PRIOR[0] - 1) * np.log(x) - PRIOR[1] * x


def chain_moments(step, n_chains=600, n_steps=40):
    """The mean and the second moment over chains, after the first ten steps."""
    found = np.empty((n_chains, 2))
    for chain in range(n_chains):
        value, values = 1.0, []
        for i in range(n_steps):
            value = step(value, subkey(KEY, chain, i))
            values.append(value)
        kept = np.array(values[10:])
        found[chain] = kept.mean(), (kept**2).mean()
    return summarize(found)


@pytest.mark.extended
def test_topic_concentration_given_tables():
    n_tables = np.array([3, 1, 6, 2])

    def step(concentration, key):
        return draw_topic_concentration(draw_weights(n_tables, concentration, subkey(key, 0)), PRIOR, subkey(key, 1))

    def forgets_topics(concentration, key):
        weights = draw_weights(n_tables, concentration, subkey(key, 0))
        return draw_topic_concentration(TopicWeights(weights.used[1:], weights.log_unused), PRIOR, subkey(key, 1))

    def log_density(x):
        return log_prior(x) + 4 * np.log(x) + gammaln(x) - gammaln(x + n_tables.sum())

    assert_agrees(chain_moments(step), moments(log_density))
    assert_disagrees(chain_moments(forgets_topics), moments(log_density))


@pytest.mark.extended
def test_document_concentration_given_tables():
    lengths, n_tables = np.array([5, 0, 12, 3, 30]), 14

    def step(concentration, key):
        return draw_document_concentration(concentration, lengths, n_tables, PRIOR, key)

    def counts_empty_documents(concentration, key):
        return draw_document_concentration(concentration, np.maximum(lengths, 1), n_tables, PRIOR, key)

    def log_density(x):
        return log_prior(x) + n_tables * np.log(x) + np.sum(gammaln(x) - gammaln(x + lengths))

    assert_agrees(chain_moments(step), moments(log_density))
    assert_disagrees(chain_moments(counts_empty_documents, n_chains=2500), moments(log_density))
