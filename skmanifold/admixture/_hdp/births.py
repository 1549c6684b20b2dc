r"""Topics that begin and end in a random part of the documents.

A topic whose tokens are all in these documents is *local*. Its distribution over words is integrated out, and so are
those of topics that are not in use. With the weights b and the unused weight b_u, a token of word v in document m takes

.. math:: \text{a topic that others use: } & (D_{mk} + \alpha b_k) \, \phi_{kv} \\
    \text{a local topic: } & (D_{mk} + \alpha b_k) \, \frac{W_{kv} + \beta_v}{T_k + \sum_u \beta_u} \\
    \text{a new topic: } & \alpha b_u \, \frac{\beta_v}{\sum_u \beta_u}

with these probabilities, up to a factor. The counts do not contain the token. The weight of a new topic is
:math:`\nu b_u` with :math:`\nu \sim \mathrm{Beta}(1, \gamma)`, and b_u decreases by it. A local topic that loses its
last token is deleted before the token is drawn, and its weight is added to b_u (Teh et al. 2006, section 5.3). Topics
that other documents use cannot lose their last token here. The tokens are drawn one after the other.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...random._keys import fold_in, uniform
from ...random._variates import log_beta_variate
from ...utils._njit import njit
from .._tokens.document_gibbs import Documents, WordTable
from .weights import TopicWeights

_ROOM = 8  # topics that may begin before arrays grow


class Born(NamedTuple):
    """Weights after a step: of the old topics, 0 for deleted ones, and of the new ones behind them."""

    weights: np.ndarray
    log_unused: float


def sample_with_births(
    documents: Documents,
    rows: np.ndarray,
    token_topics: np.ndarray,
    n_tokens: np.ndarray,
    table: WordTable,
    weights: TopicWeights,
    concentrations: tuple[float, float],
    prior: np.ndarray,
    prior_total: float,
    key: np.uint64,
) -> Born:
    """Draw the topics of the tokens of some documents, in place, among the topics in use and new ones.

    Parameters
    ----------
    documents : Documents
        The corpus.
    rows : ndarray of int64
        The documents, each once.
    token_topics : ndarray of shape (n_tokens,), uint16
        Topics of all tokens; new topics have the numbers from K on.
    n_tokens : ndarray of shape (K,)
        Number of tokens of each topic in the whole corpus, positive.
    table : WordTable
        Distributions of the topics over words.
    weights : TopicWeights
        Current weights.
    concentrations : tuple of float
        alpha of the documents, and gamma of the topics.
    prior : ndarray of shape (n_features,) or (1,)
        Dirichlet parameters beta of the topics, one for each word or for all.
    prior_total : float
        Sum of the parameters over words.
    key : uint64
        Key of the draw.
    """
    words = np.unique(np.concatenate([_words_of(documents, row) for row in rows])) if len(rows) else np.empty(0, int)
    n_within = np.zeros(len(n_tokens), np.int64)
    for row in rows:
        start, stop = documents.token_start[row], documents.token_start[row + 1]
        n_within += np.bincount(token_topics[start:stop], minlength=len(n_tokens))
    is_local = n_within == n_tokens
    place = np.zeros(len(documents.words), np.int64)
    place[words] = np.arange(len(words))
    arrays = documents.indptr, documents.pair_word, documents.pair_count, documents.token_start
    topics = table.scores, table.log_scale, *weights, *concentrations, prior, prior_total
    return Born(*_sample_rows(rows, *arrays, token_topics, is_local, place, len(words), *topics, key))


def _words_of(documents, row):
    return documents.pair_word[documents.indptr[row] : documents.indptr[row + 1]]


@njit(cache=True, nogil=True)
def _sample_rows(
    rows,
    indptr,
    pair_word,
    pair_count,
    token_start,
    token_topics,
    is_local,
    place,
    n_words,
    scores,
    log_scale,
    used,
    log_unused,
    alpha,
    gamma,
    prior,
    prior_total,
    key,
):
    """The step of `sample_with_births`; returns the weights by topic, and the log of the unused weight.

    `place` is the column of each word in `word_counts`, of which the rows of local and new topics are used.
    """
    n_old = len(used)
    expected = np.zeros(n_old + _ROOM)  # alpha times the weight
    expected[:n_old] = alpha * used
    totals = np.zeros(n_old + _ROOM, np.int64)  # tokens of local and new topics
    word_counts = np.zeros((n_old + _ROOM, n_words), np.int32)
    in_use = np.zeros(n_old + _ROOM, np.bool_)
    in_use[:n_old] = True
    n_topics = n_old
    for row in rows:
        token = token_start[row]
        for pair in range(indptr[row], indptr[row + 1]):
            for _ in range(pair_count[pair]):
                topic = np.int64(token_topics[token])
                if is_local[topic]:
                    totals[topic] += 1
                    word_counts[topic, place[pair_word[pair]]] += 1
                token += 1
    in_row = np.zeros(n_old + _ROOM, np.int64)
    sums = np.empty(n_old + _ROOM)
    for row in rows:
        row_key = fold_in(key, row)
        in_row[:] = 0
        for token in range(token_start[row], token_start[row + 1]):
            in_row[np.int64(token_topics[token])] += 1
        token = token_start[row]
        for pair in range(indptr[row], indptr[row + 1]):
            word = pair_word[pair]
            column = place[word]
            beta = prior[word % len(prior)]
            scale = math.exp(log_scale[word])
            for _ in range(pair_count[pair]):
                topic = np.int64(token_topics[token])
                in_row[topic] -= 1
                if topic >= n_old or is_local[topic]:
                    word_counts[topic, column] -= 1
                    totals[topic] -= 1
                    if totals[topic] == 0:
                        log_unused = math.log(math.exp(log_unused) + expected[topic] / alpha)
                        expected[topic] = 0.0
                        in_use[topic] = False
                total = 0.0
                for k in range(n_topics):
                    if k < n_old and not is_local[k]:
                        total += (in_row[k] + expected[k]) * np.float64(scores[word, k]) * scale
                    elif in_use[k]:
                        share = (word_counts[k, column] + beta) / (totals[k] + prior_total)
                        total += (in_row[k] + expected[k]) * share
                    sums[k] = total
                of_new = alpha * math.exp(log_unused) * beta / prior_total
                value = uniform(row_key, token - token_start[row]) * (total + of_new)
                chosen = n_topics
                for k in range(n_topics):
                    if value < sums[k]:
                        chosen = k
                        break
                if chosen == n_topics:
                    # A number that is free, so that arrays stay short.
                    for k in range(n_topics):
                        if not in_use[k]:
                            chosen = k
                            break
                    if chosen == len(expected):
                        size = 2 * len(expected)
                        expected = _longer(expected, size)
                        totals = _longer(totals, size)
                        in_use = _longer(in_use, size)
                        in_row = _longer(in_row, size)
                        sums = _longer(sums, size)
                        wider = np.zeros((size, n_words), np.int32)
                        wider[: len(word_counts)] = word_counts
                        word_counts = wider
                    n_topics = max(n_topics, chosen + 1)
                    in_use[chosen] = True
                    log_part, log_rest = log_beta_variate(fold_in(row_key, token - token_start[row]), 1.0, gamma)
                    expected[chosen] = alpha * math.exp(log_unused + log_part)
                    log_unused += log_rest
                token_topics[token] = chosen
                in_row[chosen] += 1
                if chosen >= n_old or is_local[chosen]:
                    word_counts[chosen, column] += 1
                    totals[chosen] += 1
                token += 1
    return expected[:n_topics] / alpha, log_unused


@njit(cache=True)
def _longer(array, size):
    out = np.zeros(size, array.dtype)
    out[: len(array)] = array
    return out
