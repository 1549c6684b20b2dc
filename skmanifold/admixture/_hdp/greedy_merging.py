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
from typing import Any

import numpy as np

from ...utils._njit import njit
from .._tokens.topic_counts import TopicCounts
from .token_rows import Ranges
from .two_sides import (
    Union,
    add_token,
    clear_sides,
    count_sides,
    log_gain_of_split,
    share_of_first,
    table_of_words,
)
from .weights import Hyperparameters

_LARGEST = 8  # tokens of two topics, over the mean of one, so that a round takes the time of a few passes at most
_LEAST_SHARE = 1e-9  # of a token on a side; smaller ones have no entropy


def merge_greedily(
    ranges: Ranges, topics: Any, counts: TopicCounts, weights: np.ndarray, given: Hyperparameters
) -> np.ndarray:
    """Merge each topic, the smallest first, with the most similar larger one, if this is more probable.

    Pairs with more than eight times the tokens of an average topic are left out.

    Parameters
    ----------
    ranges : Ranges
        The corpus.
    topics : object
        Handle of the topics of all tokens, which are changed; the larger topic keeps its number.
    counts : TopicCounts
        Counts of the words of the topics.
    weights : ndarray of shape (n_topics,)
        Weights of the topics.
    given : Hyperparameters
        Concentrations, and the prior of the topics.

    Returns
    -------
    weights : ndarray of shape (n_topics,)
        After merging: 0 for topics without tokens.
    """
    order = np.argsort(counts.totals, kind="stable")
    order = order[counts.totals[order] > 0]
    merged_with, weights = np.arange(len(weights)), weights.copy()
    counted, of_word = ranges.no_counts(), table_of_words(given)
    for lost, kept in zip(order.tolist(), _most_similar_larger(counts, order).tolist(), strict=True):
        if kept < 0:
            continue
        while merged_with[kept] != kept:
            kept = merged_with[kept]
        union = Union(ranges, topics, kept, lost)
        if _is_merged(union.tokens, union.of_other, weights[kept], weights[lost], given, of_word, *counted):
            union.assign(None, kept)
            weights[kept], weights[lost] = weights[kept] + weights[lost], 0.0
            merged_with[lost] = kept
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
def _is_merged(union, sides, of_kept, of_lost, given, of_word, in_row, in_word):
    """Whether two topics with these weights are merged; the counts stay zero."""
    total = of_kept + of_lost
    share = of_kept / total
    count_sides(union, sides, in_row, in_word)
    gain = -math.log(given.gamma * total)
    gain -= log_gain_of_split(union, total, share, given, of_word, in_row, in_word)
    if gain > 0.0:
        n_lost = np.count_nonzero(sides)
        sizes = len(sides) - n_lost, n_lost
        gain = _less_entropy(gain, union, sides, sizes, total, share, given, in_row, in_word)
    return gain > 0.0


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
