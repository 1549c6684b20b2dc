r"""Merge topics greedily in burn-in: chains that begin with too many topics need fewer passes.

Two parts of a topic, between which the documents were divided at random, last for many passes: a token stays with the
other tokens of its document and of its word. The moves of `split_merge.py` would merge them, but seldom propose the
split that undoes it. Here two topics with weight b together are merged if

.. math:: L(k_1 \cup k_2) - L(k_1) - L(k_2) - \log(\gamma b) - H > 0,

with the terms L of the joint density, and the sum H of the entropies of the topics of their tokens, each given all the
others. The sum of the joint density over all divisions of the tokens is about :math:`e^H` times its value at one of
them, so that this estimates the log of the ratio of the posterior probabilities of one topic and of two. H is too small
for tokens that move together. The posterior is not left unchanged, and the steps after burn-in split what was merged in
error.
"""

from __future__ import annotations

import math

import numpy as np

from ...utils._njit import njit
from ...utils._threads import Workers
from .._tokens.document_gibbs import Documents, count_topics
from .._tokens.topic_counts import TopicCounts
from .two_sides import (
    add_token,
    clear_sides,
    count_sides,
    gather_tokens,
    log_gain_of_split,
    no_tokens,
    share_of_first,
    table_of_words,
)
from .weights import Hyperparameters

_LARGEST = 8  # tokens of two topics, over the mean of one, so that a round takes the time of a few passes at most
_LEAST_SHARE = 1e-9  # of a token on a side; smaller ones have no entropy


def merge_greedily(
    documents: Documents, token_topics: np.ndarray, weights: np.ndarray, given: Hyperparameters, workers: Workers
) -> np.ndarray:
    """Merge each topic, the smallest first, with the most similar larger one, if this is more probable.

    Pairs with more than eight times the tokens of an average topic are left out.

    Parameters
    ----------
    documents : Documents
        The corpus.
    token_topics : ndarray of shape (n_tokens,), uint16
        Topics of all tokens, changed in place; the larger topic keeps its number.
    weights : ndarray of shape (n_topics,)
        Weights of the topics.
    given : Hyperparameters
        Concentrations, and the prior of the topics.
    workers : Workers
        Who counts the words of the topics.

    Returns
    -------
    weights : ndarray of shape (n_topics,)
        After merging: 0 for topics without tokens.
    """
    counts = count_topics(documents, token_topics, 1, len(weights), workers)
    order = np.argsort(counts.totals, kind="stable")
    order = order[counts.totals[order] > 0]
    merged_with, weights = np.arange(len(weights)), weights.copy()
    pairs = order, _most_similar_larger(counts, order)
    _merge_greedily(documents, token_topics, weights, counts.totals, *pairs, given, merged_with)
    return weights


def _most_similar_larger(counts: TopicCounts, order: np.ndarray) -> np.ndarray:
    """The most similar topic of those behind each in the order, (len(order),); -1 if none is small enough.

    Similar topics have a large sum over words of the square root of the product of their probabilities.
    """
    table = counts.tocsr()[:, order].astype(np.float32).sqrt()
    similarities = (table.T @ table).toarray()
    similarities /= np.sqrt(similarities.diagonal())  # that of the row does not matter
    sizes = counts.totals[order]
    similarities[sizes[:, np.newaxis] + sizes > _LARGEST * sizes.mean()] = -1.0
    similarities[np.tri(len(order), dtype=bool)] = -1.0
    return np.where(similarities.max(axis=1) >= 0, order[similarities.argmax(axis=1)], -1)


@njit(cache=True, nogil=True)
def _merge_greedily(
    documents,
    token_topics,
    weights,
    n_tokens,
    order,
    partners,
    given,
    merged_with,
):
    """Change topics and weights; `merged_with` holds the topic into which each was merged, or itself."""
    in_row, in_word = no_tokens(documents)
    of_word = table_of_words(given)
    for i in range(len(order)):
        lost, kept = order[i], partners[i]
        if kept < 0:
            continue
        while merged_with[kept] != kept:
            kept = merged_with[kept]
        size = n_tokens[lost] + n_tokens[kept]
        union, sides, _ = gather_tokens(documents, token_topics, kept, lost, size, 0, 0)
        total = weights[kept] + weights[lost]
        share = weights[kept] / total
        count_sides(union, sides, in_row, in_word)
        gain = -math.log(given.gamma * total)
        gain -= log_gain_of_split(union, total, share, given, of_word, in_row, in_word)
        if gain > 0.0:
            gain = _less_entropy(
                gain, union, sides, (n_tokens[kept], n_tokens[lost]), total, share, given, in_row, in_word
            )
        if gain > 0.0:
            for token in union.tokens:
                token_topics[token] = kept
            weights[kept], weights[lost] = total, 0.0
            n_tokens[kept], n_tokens[lost] = size, 0
            merged_with[lost] = kept


@njit(cache=True, nogil=True)
def _less_entropy(gain, union, sides, sizes, total, share, given, in_row, in_word):
    """The gain less the entropy of the sides of the tokens; stops when it is negative, and clears the counts."""
    expected = given.alpha * total * share, given.alpha * total * (1.0 - share)
    totals = np.array(sizes)
    count_sides(union, sides, in_row, in_word)
    for i in range(len(sides)):
        row, word, side = union.rows[i], union.words[i], sides[i]
        add_token(-1, row, word, side, in_row, in_word, totals)
        q = share_of_first(row, word, given, in_row, in_word, totals, expected)
        add_token(1, row, word, side, in_row, in_word, totals)
        if _LEAST_SHARE < q < 1.0 - _LEAST_SHARE:
            gain += q * math.log(q) + (1.0 - q) * math.log1p(-q)
            if gain < 0.0:
                break
    clear_sides(union, in_row, in_word)
    return gain
