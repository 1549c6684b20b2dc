"""Greedy merges of topics in burn-in."""

import numpy as np
import pytest
from scipy.special import entr, gammaln

from skmanifold.admixture._hdp import split_merge
from skmanifold.admixture._hdp.births import Hyperparameters
from skmanifold.admixture._hdp.split_merge import merge_greedily

from ._tiny_hdp import OneShard

ALPHA, GAMMA = 2.0, 1.5


def corpus_of(topics, n_documents, rng):
    """Documents of 30 tokens from one or two topics; also the topics, documents and words of the tokens."""
    rows = np.repeat(np.arange(n_documents), 30)
    pairs = np.array([rng.choice(len(topics), 2, replace=False) for _ in range(n_documents)])
    z = pairs[rows, (rng.random(len(rows)) < rng.beta(0.4, 0.4, n_documents)[rows]).astype(int)]
    words = np.array([rng.choice(topics.shape[1], p=topics[k]) for k in z])
    order = np.lexsort((words, rows))  # the order of the tokens in the corpus
    rows, words, z = rows[order], words[order], z[order]
    table = np.zeros((n_documents, topics.shape[1]), int)
    np.add.at(table, (rows, words), 1)
    return table, z.astype(np.uint16), rows, words


def merged(table, z, weights, beta):
    given = Hyperparameters(ALPHA, GAMMA, beta, float(np.broadcast_to(beta, table.shape[1]).sum()))
    after, shards = z.copy(), OneShard(table)
    (counts,) = shards.ask_latents("count_words", after, (len(weights),))
    of_topics = merge_greedily(shards, after, counts, weights, given)
    assert of_topics.sum() == pytest.approx(weights.sum())
    np.testing.assert_array_equal(of_topics > 0, np.bincount(after, minlength=len(weights)) > 0)
    return after


def gain_of_merge(z, rows, words, weights, beta):
    """The estimate of the module for topics 0 and 1 of a corpus without others, by the definitions."""
    in_row, in_word = np.zeros((rows.max() + 1, 2)), np.zeros((len(beta), 2))
    np.add.at(in_row, (rows, z), 1)
    np.add.at(in_word, (words, z), 1)

    def term(b, of_row, of_word):
        total = gammaln(beta.sum()) - gammaln(beta.sum() + of_word.sum())
        of_words = np.sum(gammaln(beta + of_word) - gammaln(beta)) + total
        return of_words + np.sum(gammaln(ALPHA * b + of_row) - gammaln(ALPHA * b)) - np.log(b)

    entropy = 0.0
    for row, word, side in zip(rows, words, z, strict=True):
        own = np.arange(2) == side
        shares = (in_row[row] - own + ALPHA * weights) * (in_word[word] - own + beta[word])
        shares /= in_word.sum(axis=0) - own + beta.sum()
        entropy += entr(shares / shares.sum()).sum()
    both = term(weights.sum(), in_row.sum(axis=1), in_word.sum(axis=1))
    parts = term(weights[0], in_row[:, 0], in_word[:, 0]) + term(weights[1], in_row[:, 1], in_word[:, 1])
    return both - parts - np.log(GAMMA * weights.sum()) - entropy


@pytest.mark.extended
@pytest.mark.parametrize("is_constant", [True, False])
def test_topics_are_merged_if_the_estimate_says_so(is_constant):
    rng = np.random.default_rng(5)
    beta = np.full(12, 0.4) if is_constant else rng.uniform(0.1, 0.7, 12)
    decisions = []
    for mixed in np.linspace(0, 1, 25):
        topics = rng.dirichlet(np.full(12, 0.1), 2)
        topics[1] = mixed * topics[0] + (1 - mixed) * topics[1]
        table, z, rows, words = corpus_of(topics, 15, rng)
        weights = rng.dirichlet([3, 3, 1])[:2]
        gain = gain_of_merge(z, rows, words, weights, beta)
        after = merged(table, z, weights, beta[:1] if is_constant else beta)
        assert (len(np.unique(after)) == 1) == (gain > 0)
        decisions.append(gain > 0)
    assert 3 < sum(decisions) < 22


def test_parts_of_a_topic_are_merged_and_other_topics_stay():
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(200, 0.1), 4)
    table, truth, rows, _ = corpus_of(topics, 300, rng)
    moved = rng.random(300) < 0.3  # documents whose tokens of topic 2 are in a part of their own
    divided = np.where((truth == 2) & moved[rows], 4, truth).astype(np.uint16)
    shares = np.bincount(divided, minlength=6) / len(truth)  # there are no tokens of topic 5
    np.testing.assert_array_equal(merged(table, divided, 0.9 * shares, np.array([0.1])), truth)


def test_large_topics_are_not_merged(monkeypatch):
    rng = np.random.default_rng(2)
    table, truth, _, _ = corpus_of(rng.dirichlet(np.full(50, 0.1), 2), 100, rng)
    divided = rng.integers(2, size=len(truth)).astype(np.uint16) * 2 + truth
    weights = np.bincount(divided, minlength=4) / len(truth)
    assert len(np.unique(merged(table, divided, weights, np.array([0.1])))) < 4
    monkeypatch.setattr(split_merge, "_LARGEST", 1)
    np.testing.assert_array_equal(merged(table, divided, weights, np.array([0.1])), divided)


def test_topics_without_common_words_and_a_single_topic_stay():
    table, z, _, _ = corpus_of(np.eye(3), 20, np.random.default_rng(0))
    np.testing.assert_array_equal(merged(table, z, np.full(3, 0.3), np.array([0.1])), z)
    one = np.full(len(z), 1, np.uint16)
    np.testing.assert_array_equal(merged(table, one, np.array([0.0, 0.8]), np.array([0.1])), one)
