"""Weights of topics and concentrations, and topics that begin and end in a random part of the documents."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from ...numerics.special import copy_to
from ...random._keys import fold_in, subkey, uniform
from ...random._variates import fill_log_gammas, log_beta_variate, log_gamma_variate
from ...sparse.counts import Counts
from ...utils._conditions import Array, Real
from ...utils._njit import njit
from ...utils._threads import Workers, split_by_task
from .._tokens.document_gibbs import WordTable

# A document draws its n tokens from a Dirichlet process with concentration alpha, whose base has the weights b of the
# topics. Its D_k tokens of topic k sit at tables, of which each is one draw from the base ([1]_). Given the weights,
#
# .. math:: m_k = \sum_{i < D_k} \mathrm{Bernoulli}\left(\frac{\alpha b_k}{\alpha b_k + i}\right),
#
# and given the tables of all documents, the weights of the K topics in use and of all other topics together are
# Dirichlet distributed: :math:`(b_1, \dots, b_K, b_u) \sim \mathrm{Dir}(m_1, \dots, m_K, \gamma)`.
#
# References ---------- .. [1] Y. W. Teh, M. I. Jordan, M. J. Beal and D. M. Blei, "Hierarchical Dirichlet processes",
# JASA 101, 2006.

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
    token_start: np.ndarray, topics: np.ndarray, expected: np.ndarray, first_row: int, key: np.uint64, workers: Workers
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


# A topic whose tokens are all in these documents is *local*. Its distribution over words is integrated out, and so are
# those of topics that are not in use. With the weights b and the unused weight b_u, a token of word v in document m
# takes
#
# .. math:: \text{a topic that others use: } & (D_{mk} + \alpha b_k) \, \phi_{kv} \\     \text{a local topic: } &
# (D_{mk} + \alpha b_k) \, \frac{W_{kv} + \beta_v}{T_k + \sum_u \beta_u} \\     \text{a new topic: } & \alpha b_u \,
# \frac{\beta_v}{\sum_u \beta_u}
#
# with these probabilities, up to a factor. The counts do not contain the token. The weight of a new topic is :math:`\nu
# b_u` with :math:`\nu \sim \mathrm{Beta}(1, \gamma)`, and b_u decreases by it. A local topic that loses its last token
# is deleted before the token is drawn, and its weight is added to b_u (Teh et al. 2006, section 5.3). Topics that other
# documents use cannot lose their last token here. The tokens are drawn one after the other.

_ROOM = 8  # topics that may begin before arrays grow


def sample_with_births(
    documents: Counts,
    rows: np.ndarray,
    token_topics: np.ndarray,
    n_tokens: np.ndarray,
    table: WordTable,
    weights: TopicWeights,
    given: Hyperparameters,
    max_topics: int,
    key: np.uint64,
) -> TopicWeights:
    """Draw the topics of the tokens, (n_tokens,) uint16, of some documents in place, among topics in use and new ones.

    New topics have the numbers from K on; none begins if there are `max_topics`. `rows` are indices of the documents in
    the corpus, on which their streams depend; `n_tokens`, (K,), positive, are of the whole corpus. Returns the weights
    of the old topics, 0 for deleted ones, and of the new ones behind them.
    """
    is_local = count_tokens(token_topics, len(n_tokens)) == n_tokens
    occurs = np.zeros(documents.n_features, bool)
    occurs[documents.indices] = True
    column = np.cumsum(occurs, dtype=np.int32) - 1
    given_topics = is_local, table, weights, given, max_topics
    return TopicWeights(
        *_sample_rows(rows, documents, documents.token_start(), token_topics, column, *given_topics, key)
    )


@njit(cache=True, nogil=True)
def _sample_rows(rows, documents, token_start, token_topics, column, is_local, table, weights, given, max_topics, key):
    """The step of `sample_with_births`; returns the weights by topic, and the log of the unused weight.

    Words of local and new topics, the *open* ones, are counted: topic k in row ``place[k]`` of `word_counts`, word v in
    column ``column[v]``. Places of topics that end are used again.
    """
    indptr, pair_word, pair_count = documents.indptr, documents.indices, documents.counts
    scores, log_scale, used, log_unused = table.scores, table.log_scale, weights.used, weights.log_unused
    alpha, beta, beta_total, n_old = given.alpha, given.beta, given.beta_total, len(used)
    n_words = column[-1] + 1
    n_open = int(np.count_nonzero(is_local))
    size = n_open + _ROOM
    topic_at = np.zeros(size, np.int64)  # the topic of each place
    copy_to(topic_at, np.flatnonzero(is_local))
    totals = np.zeros(size, np.int64)  # its tokens; 0 if the place is free
    word_counts = np.zeros((size, n_words), np.int32)
    sums = np.empty(size)
    place = np.full(n_old + size, -1, np.int64)
    for i in range(n_open):
        place[topic_at[i]] = i
    expected = np.zeros(n_old + size)  # alpha times the weight
    copy_to(expected, alpha * used)
    of_others = expected[:n_old].copy()  # the same, 0 for open topics
    of_others[topic_at[:n_open]] = 0.0
    in_row = np.zeros(n_old + size, np.int64)
    running = np.empty(n_old)
    n_topics, n_in_use = n_old, n_old
    # A local topic has all of its tokens in these documents: its words can be counted here.
    for row in range(len(rows)):
        token = token_start[row]
        for pair in range(indptr[row], indptr[row + 1]):
            for _ in range(pair_count[pair]):
                at = place[np.int64(token_topics[token])]
                if at >= 0:
                    totals[at] += 1
                    word_counts[at, column[pair_word[pair]]] += 1
                token += 1
    # `in_row` has the topics of one document at a time, and is zero between documents.
    for row in range(len(rows)):
        row_key = fold_in(key, rows[row])
        for token in range(token_start[row], token_start[row + 1]):
            in_row[np.int64(token_topics[token])] += 1
        token = token_start[row]
        for pair in range(indptr[row], indptr[row + 1]):
            word = pair_word[pair]
            beta_of_word = beta[word % len(beta)]
            scale = math.exp(log_scale[word])
            for _ in range(pair_count[pair]):
                topic = np.int64(token_topics[token])
                # Take the token out. An open topic without tokens ends, and its weight returns to the unused weight.
                in_row[topic] -= 1
                if place[topic] >= 0:
                    at = place[topic]
                    word_counts[at, column[word]] -= 1
                    totals[at] -= 1
                    if totals[at] == 0:
                        log_unused = math.log(math.exp(log_unused) + expected[topic] / alpha)
                        expected[topic] = 0.0
                        place[topic] = -1
                        n_in_use -= 1
                # Topics with tokens elsewhere: their distributions are given; scores are relative to `scale`.
                total = 0.0
                for k in range(n_old):
                    here = of_others[k] + in_row[k] if of_others[k] > 0 else 0.0
                    total += here * np.float64(scores[word, k])
                    running[k] = total
                of_others_total = total * scale
                # Open topics, with their distributions integrated out: the share of the word in the topic's tokens.
                total = of_others_total
                for at in range(n_open):
                    if totals[at] > 0:
                        k = topic_at[at]
                        share = (word_counts[at, column[word]] + beta_of_word) / (totals[at] + beta_total)
                        total += (in_row[k] + expected[k]) * share
                    sums[at] = total
                # A new topic has the unused weight, and the mean of the prior as its distribution.
                of_new = alpha * math.exp(log_unused) * beta_of_word / beta_total if n_in_use < max_topics else 0.0
                # One uniform selects the part and, by inversion of its running sums, the topic.
                number = token - token_start[row]
                value = uniform(row_key, number) * (total + of_new)
                if value < of_others_total:
                    value /= scale
                    chosen = min(np.searchsorted(running, value, side="right"), n_old - 1)
                    while of_others[chosen] == 0.0:  # by rounding
                        chosen -= 1
                elif value < total:
                    chosen = topic_at[np.searchsorted(sums[:n_open], value, side="right")]
                else:
                    # A new topic is counted in the first free place; without one, the tables are doubled.
                    at = 0
                    while at < n_open and totals[at] > 0:
                        at += 1
                    if at == len(totals):
                        size = 2 * len(totals)
                        topic_at = _longer(topic_at, size)
                        totals = _longer(totals, size)
                        sums = _longer(sums, size)
                        wider = np.zeros((size, n_words), np.int32)
                        copy_to(wider, word_counts)
                        word_counts = wider
                    chosen = topic_at[at]  # a new topic that has ended, so that numbers stay small
                    if chosen < n_old:
                        chosen = n_topics
                        n_topics += 1
                    if n_topics > len(expected):
                        size = 2 * len(expected)
                        expected = _longer(expected, size)
                        in_row = _longer(in_row, size)
                        place = _longer(place, size)
                        place[chosen:] = -1
                    # Its weight is broken off the unused weight: a stick of Beta(1, gamma).
                    n_in_use += 1
                    n_open = max(n_open, at + 1)
                    topic_at[at], place[chosen] = chosen, at
                    log_part, log_rest = log_beta_variate(fold_in(row_key, number), 1.0, given.gamma)
                    expected[chosen] = alpha * math.exp(log_unused + log_part)
                    log_unused += log_rest
                token_topics[token] = chosen
                in_row[chosen] += 1
                if place[chosen] >= 0:
                    word_counts[place[chosen], column[word]] += 1
                    totals[place[chosen]] += 1
                token += 1
        for token in range(token_start[row], token_start[row + 1]):
            in_row[np.int64(token_topics[token])] = 0
    return expected[:n_topics] / alpha, log_unused


@njit(cache=True)
def _longer(array, size):
    out = np.zeros(size, array.dtype)
    copy_to(out, array)
    return out
