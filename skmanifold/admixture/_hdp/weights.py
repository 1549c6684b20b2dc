r"""Weights of the topics of a hierarchical Dirichlet process and its concentrations, given the topics of the tokens.

A document draws its n tokens from a Dirichlet process with concentration alpha, whose base has the weights b of the
topics. Its D_k tokens of topic k sit at tables, of which each is one draw from the base ([1]_). Given the weights,

.. math:: m_k = \sum_{i < D_k} \mathrm{Bernoulli}\left(\frac{\alpha b_k}{\alpha b_k + i}\right),

and given the tables of all documents, the weights of the K topics in use and of all other topics together are Dirichlet
distributed: :math:`(b_1, \dots, b_K, b_u) \sim \mathrm{Dir}(m_1, \dots, m_K, \gamma)`.

References
----------
.. [1] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei, "Hierarchical Dirichlet processes", JASA 101, 2006.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from ...random._keys import fold_in, subkey, uniform
from ...random._variates import fill_log_gammas, log_beta_variate, log_gamma_variate
from ...utils._conditions import Array, Real
from ...utils._njit import njit
from ...utils._threads import Workers, split_by_task

_TASK_TOKENS = 1 << 17
_LENGTHS, _INDICATORS, _GAMMA = range(3)


class Hyperparameters(NamedTuple):
    """Concentrations of the two Dirichlet processes, and the Dirichlet parameters of the topics."""

    alpha: float  # of the documents
    gamma: float  # of the topics
    beta: np.ndarray  # (n_features,) or (1,): for each word or for all
    beta_total: float  # sum over the words


class TopicWeights(NamedTuple):
    """Weights of the topics in use, and of all others together; their sum is 1."""

    used: Annotated[np.ndarray, Array("float64", "n_components", above=0, high=1)]
    log_unused: Annotated[float, Real(high=0)]


@njit(cache=True, nogil=True)
def count_tokens(token_topics, n_topics):
    """The number of tokens of each topic, (n_topics,) int64."""
    n_tokens = np.zeros(n_topics, np.int64)
    for topic in token_topics:
        n_tokens[np.uint64(topic)] += 1
    return n_tokens


def draw_tables(
    token_start: np.ndarray,
    topics: np.ndarray,
    expected: np.ndarray,
    first_row: int,
    key: np.uint64,
    workers: Workers,
) -> np.ndarray:
    """Draw the number of tables of each topic, (K,) int64, summed over documents.

    `topics`, (n_tokens,), are of tokens, `expected` is alpha b_k, positive. Streams depend on documents from
    `first_row` on.
    """
    tasks = split_by_task(token_start[:-1] // _TASK_TOKENS)
    arrays = token_start, topics, expected, first_row, key
    return np.sum(workers.run(_count_tables, [(*rows, *arrays) for rows in tasks]), axis=0)


@njit(cache=True, nogil=True)
def _count_tables(first, stop, token_start, topics, expected, first_row, key):
    """The tables of the documents from `first` to `stop`: the first token of a topic always has a new one."""
    n_tables = np.zeros(len(expected), np.int64)
    counts = np.zeros(len(expected), np.int64)
    for row in range(first, stop):
        row_key = fold_in(key, first_row + row)
        for token in range(token_start[row], token_start[row + 1]):
            topic = np.uint64(topics[token])
            n_before = counts[topic]
            counts[topic] += 1
            # The draw for the i-th token of a topic does not depend on the order of the topics.
            value = uniform(fold_in(row_key, topic), n_before) if n_before > 0 else 0.0
            n_tables[topic] += value * (expected[topic] + n_before) < expected[topic]
        for token in range(token_start[row], token_start[row + 1]):
            counts[np.uint64(topics[token])] = 0
    return n_tables


def draw_weights(n_tables: np.ndarray, concentration: float, key: np.uint64) -> TopicWeights:
    """Draw the weights given the tables of each topic, (K,), all positive, and the concentration gamma."""
    logs = np.empty(len(n_tables) + 1)
    fill_log_gammas(key, np.append(n_tables, concentration), logs)
    logs -= np.logaddexp.reduce(logs)
    return TopicWeights(np.exp(logs[:-1]), float(logs[-1]))


def draw_topic_concentration(weights: TopicWeights, prior: tuple[float, float], key: np.uint64) -> float:
    r"""Draw gamma given the weights: :math:`\mathrm{Ga}(a + K, b - \log b_u)`, for the prior Ga(a, rate b).

    Weights of topics in use are sticks in the order in which a draw of tables finds them, so that their density depends
    on gamma by :math:`\gamma^K b_u^{\gamma - 1}`.
    """
    shape, rate = prior
    return math.exp(log_gamma_variate(key, shape + len(weights.used))) / (rate - weights.log_unused)


def draw_document_concentration(
    concentration: float, lengths: np.ndarray, n_tables: int, prior: tuple[float, float], key: np.uint64
) -> float:
    r"""Draw alpha given the tables, by auxiliary variables of the documents ([1]_, appendix A).

    For the prior Ga(a, rate b), with :math:`w_m \sim \mathrm{Beta}(\alpha + 1, n_m)` and :math:`s_m \sim
    \mathrm{Bernoulli}(n_m / (n_m + \alpha))`, alpha is drawn from :math:`\mathrm{Ga}(a + \sum_k m_k - \sum_m s_m, b -
    \sum_m \log w_m)`.
    """
    shape, rate = prior
    lengths = lengths[lengths > 0]
    log_sum, n_ones = _sum_auxiliary(concentration, lengths, subkey(key, _LENGTHS), subkey(key, _INDICATORS))
    return math.exp(log_gamma_variate(subkey(key, _GAMMA), shape + n_tables - n_ones)) / (rate - log_sum)


@njit(cache=True)
def _sum_auxiliary(concentration, lengths, beta_key, indicator_key):
    """The sums of log w and of s."""
    log_sum, n_ones = 0.0, 0
    for row in range(len(lengths)):
        log_sum += log_beta_variate(fold_in(beta_key, row), concentration + 1.0, float(lengths[row]))[0]
        n_ones += uniform(indicator_key, row) * (lengths[row] + concentration) < lengths[row]
    return log_sum, n_ones
