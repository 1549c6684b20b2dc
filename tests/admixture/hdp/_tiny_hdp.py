"""Exact posterior of a hierarchical Dirichlet process on a tiny corpus: all partitions of seven tokens.

For each partition of the tokens among topics, p(partition, tables) is a product of Stirling numbers, the probability of
the partition of the tables (a Chinese restaurant process with concentration gamma) and Dirichlet-multinomial
probabilities of the words. Its sum over the numbers of tables is the probability of the partition.
"""

import itertools
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from skmanifold.admixture._hdp.token_rows import DocumentTokens
from skmanifold.inference._distributed_fits.shards import Shards
from skmanifold.utils._threads import Workers

from ..tokens._documents import make_counts

TABLE = np.array([[2, 1, 0], [0, 1, 1], [1, 0, 1]])  # documents and words
ROWS = np.repeat(np.arange(3), TABLE.sum(axis=1))
WORDS = np.concatenate([np.repeat(np.arange(3), counts) for counts in TABLE])
N = len(ROWS)
ALPHA, GAMMA, BETA = 1.3, 0.9, 0.4
_STIRLING = {1: [1], 2: [1, 1], 3: [2, 3, 1]}  # of the first kind, unsigned: a document has at most three tokens


class OneShard(Shards):
    """Documents of a table in one shard; a chain is the array of its topics."""

    def __init__(self, table):
        counts = make_counts(table)
        self._rows = DocumentTokens(counts, np.empty(0), Workers(1))
        self.n_rows, self.n_features = counts.n_rows, counts.n_features

    def _on_all(self, method, *arguments):
        if method == "model_attribute":
            return [getattr(self._rows, *arguments[0])]
        asked, topics, *rest = arguments[0]
        return [getattr(self._rows, asked)(topics, *rest)]


class State(NamedTuple):
    """A partition, in which topics have the order of their first tokens, and its seatings."""

    topics: np.ndarray
    tables: list  # of vectors: numbers of tables of each topic, summed over documents
    law: np.ndarray  # of these, given the partition


def partitions(n):
    """All partitions of n items as restricted growth sequences."""

    def grow(topics):
        if len(topics) == n:
            yield topics
            return
        for topic in range(max(topics, default=-1) + 2):
            yield from grow((*topics, topic))

    return list(grow(()))


def _seatings(topics):
    """Numbers of tables of each topic, and the log of p(partition, tables)."""
    n_topics = topics.max() + 1
    counts = np.zeros((3, n_topics), int)
    np.add.at(counts, (ROWS, topics), 1)
    words = np.zeros((n_topics, 3))
    np.add.at(words, (topics, WORDS), 1)
    log_words = np.sum(gammaln(BETA + words) - gammaln(BETA)) + np.sum(
        gammaln(3 * BETA) - gammaln(3 * BETA + words.sum(axis=1))
    )
    log_words -= np.sum(gammaln(ALPHA + TABLE.sum(axis=1)) - gammaln(ALPHA))
    cells = list(zip(*np.nonzero(counts), strict=True))
    for numbers in itertools.product(*(range(1, counts[cell] + 1) for cell in cells)):
        tables = np.zeros(n_topics, int)
        log_p = log_words
        for cell, number in zip(cells, numbers, strict=True):
            tables[cell[1]] += number
            log_p += np.log(_STIRLING[counts[cell]][number - 1])
        n_tables = tables.sum()
        log_p += n_tables * np.log(ALPHA) + n_topics * np.log(GAMMA) + gammaln(tables).sum()
        yield tables, log_p + gammaln(GAMMA) - gammaln(GAMMA + n_tables)


@lru_cache
def posterior():
    """The states and their probabilities."""
    states, log_p = [], []
    for topics in map(np.array, partitions(N)):
        tables, logs = zip(*_seatings(topics), strict=True)
        weights = np.exp(np.array(logs) - max(logs))
        log_p.append(max(logs) + np.log(weights.sum()))
        states.append(State(topics, list(tables), weights / weights.sum()))
    law = np.exp(np.array(log_p) - max(log_p))
    return states, law / law.sum()


def functions(topics):
    """Functions of partitions that do not depend on the numbers of topics, for an array of partitions (n, 7)."""
    pairs = [topics[:, i] == topics[:, j] for i, j in itertools.combinations(range(N), 2)]
    n_topics = np.array([len(set(each)) for each in topics])
    return np.column_stack([*pairs, *(n_topics == k for k in range(1, N))]).astype(float)


def exact_functions():
    states, law = posterior()
    return law @ functions(np.array([state.topics for state in states]))


def draw_start(rng):
    """An exact draw of the topics and, given them, of the numbers of tables."""
    states, law = posterior()
    state = states[rng.choice(len(states), p=law)]
    return state.topics.astype(np.uint16), state.tables[rng.choice(len(state.tables), p=state.law)]
