r"""Split-merge moves of the topics of a hierarchical Dirichlet process, given their weights.

With probability s a move proposes to split a random topic, of which two tokens are chosen, and otherwise to merge two
random topics, with one token chosen of each; the chosen tokens stay in different parts. The weight of the topic is
split in proportion u, which is uniform. The other tokens are proposed one after the other, each given u and the tokens
before it ([2]_). This merges topics with the same words, between which documents choose at random.

Or the proposal begins from a state that does not depend on the current one ([1]_), to split topics that occur in the
same documents: documents are put on the side whose words are like theirs, and some Gibbs scans over all tokens follow,
the first of them with larger :math:`\alpha`. Then u is beta distributed, with the numbers of documents that have tokens
of the two parts as parameters, and the proposal is the result of one more scan.

With weights b of the topics in use, the joint density of partition and weights is proportional to

.. math:: \gamma^K b_u^{\gamma - 1} \prod_k \frac{1}{b_k} \, f(W_k) \prod_m \frac{\Gamma(\alpha b_k + D_{mk})}
    {\Gamma(\alpha b_k)} = \gamma^K b_u^{\gamma - 1} \prod_k e^{L(k)},

with the Dirichlet-multinomial probability f of the words of a topic. A split of topic k is accepted with probability

.. math:: \min\left(1, \frac{\gamma \, e^{L(k_1) + L(k_2)} \, b_k \, c}{e^{L(k)} \, q(\text{partition}) \, q(u)}
    \right),

where b_k is the Jacobian of :math:`(b_k, u) \mapsto (u b_k, (1 - u) b_k)`, and a merge with the inverse ratio. The
factor c is the probability that the reverse move is made with the two tokens, over that of the split, for K topics
before the split and T tokens of the topic:

.. math:: c = \frac{1 - s}{(K + 1) K T_1 T_2} \Big/ \frac{s}{K T (T - 1)}.

Most merges are rejected without a scan, because q(partition) is at most 1.

In burn-in topics are also merged greedily (`merge_greedily`): chains that begin with too many topics need fewer passes.
Two parts of a topic, between which the documents were divided at random, last for many passes: a token stays with the
other tokens of its document and of its word. Moves would merge them, but seldom propose the split that undoes it. So
two topics with weight b together are merged if

.. math:: L(k_1 \cup k_2) - L(k_1) - L(k_2) - \log(\gamma b) - H > 0,

with the terms L of the joint density, and the sum H of the entropies of the topics of their tokens, each given all the
others. The sum of the joint density over all divisions of the tokens is about :math:`e^H` times its value at one of
them, so that this estimates the log of the ratio of the posterior probabilities of one topic and of two. H is too small
for tokens that move together. The posterior is not left unchanged, and the steps after burn-in split what was merged in
error.

References
----------
.. [1] S. Jain and R. M. Neal, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture
   model", JCGS 13, 2004.
.. [2] D. B. Dahl, "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture
   models", technical report, 2005.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...random._keys import fold_in, subkey, uniform
from ...random._variates import log_beta_variate, open_uniform
from ...utils._njit import njit
from .._tokens.topic_counts import TopicCounts
from .births import Hyperparameters, TopicWeights
from .two_sides import (
    Counted,
    Union,
    add_token,
    clear_sides,
    count_sides,
    log_gain_of_split,
    places_of,
    share_of_first,
    table_of_words,
)

_CHOICE, _SCANS, _PROPORTION, _ACCEPTANCE = range(4)
_KIND, _TOPIC, _OTHER, _FIRST, _SECOND, _N_SCANS = range(6)  # draws of a choice
_SMALLEST = 1e-200  # product of probabilities
_LEAST_SHARE = 1e-15  # of a weight that is split
_WIDE = 1.0  # least expected number of tokens of a side in a document, in the first scans
_SHARE_WIDE = 4 / 3  # number of scans over that of these
_SHARE_OF_SPLITS = 0.2  # of the proposals; merges take less time
_SCANS_BEFORE = (0, 0, 0, 0, 0, 5, 20, 80)  # possible numbers of scans before the proposal
_LARGEST = 8  # tokens of two topics, over the mean of one, so that a round takes the time of a few passes at most
_LEAST_WITH_ENTROPY = 1e-9  # of a token on a side; smaller ones have no entropy


class _Choice(NamedTuple):
    """What a move proposes."""

    is_split: bool
    topic: int
    other: int  # the same for a split
    first: int  # one of the tokens of the one topic
    second: int  # one of the tokens of the other


def split_and_merge(
    shards: Any,
    chain: int,
    n_tokens: np.ndarray,
    weights: TopicWeights,
    given: Hyperparameters,
    max_topics: int,
    n_moves: int,
    key: np.uint64,
) -> tuple[np.ndarray, np.ndarray]:
    """Make `n_moves` proposals, one after the other, which change the topics of the tokens of a chain.

    New topics have the numbers from K on; the larger part of a split, and the larger topic of a merge, keeps its
    number. None is split if there are `max_topics`. Returns the weights of the old topics, 0 for those that were
    merged, and of the new ones behind them, and the numbers of tokens of the same topics.
    """
    n_topics = n_in_use = len(weights.used)
    of_topics, n_tokens = (np.concatenate((array, np.zeros(n_moves, array.dtype))) for array in (weights[0], n_tokens))
    counted, of_word = Counted.none(shards.n_rows, shards.n_features), table_of_words(given)
    for move in range(n_moves):
        move_key = subkey(key, move)
        choice = _choose(n_tokens, n_in_use, max_topics, move_key)
        is_split, topic, other = choice[:3]
        if topic < 0:
            continue
        union = Union(shards, chain, topic, other)
        arguments = choice, of_topics[topic], of_topics[other], n_in_use, given, of_word, *counted, move_key
        is_accepted, share, sides = _propose(union.tokens, union.of_other, *arguments)
        if not is_accepted:
            continue
        if is_split:
            n_second, total = np.count_nonzero(sides), of_topics[topic]
            moved = 1 if 2 * n_second <= len(sides) else 0
            of_moved = share if moved == 0 else 1.0 - share
            of_topics[topic], of_topics[n_topics] = (1.0 - of_moved) * total, of_moved * total
            n_tokens[n_topics] = n_second if moved == 1 else len(sides) - n_second
            n_tokens[topic] -= n_tokens[n_topics]
            union.assign(sides == moved, n_topics)
            n_topics, n_in_use = n_topics + 1, n_in_use + 1
        else:
            kept, lost = (topic, other) if n_tokens[topic] >= n_tokens[other] else (other, topic)
            of_topics[kept], of_topics[lost] = of_topics[topic] + of_topics[other], 0.0
            union.assign(None, kept)
            n_tokens[kept], n_tokens[lost] = len(union.tokens.rows), 0
            n_in_use -= 1
    return of_topics[:n_topics], n_tokens[:n_topics]


@njit(cache=True, nogil=True)
def _choose(n_tokens, n_in_use, max_topics, move_key):
    """What a move proposes; topic -1 if it is impossible."""
    choice = fold_in(move_key, _CHOICE)
    is_split = uniform(choice, _KIND) < _SHARE_OF_SPLITS
    topic = _choose_topic(n_tokens, -1, n_in_use, uniform(choice, _TOPIC))
    n_first = n_tokens[topic]
    first = np.int64(min(uniform(choice, _FIRST) * n_first, n_first - 1))
    if is_split:
        if n_in_use >= max_topics or n_first < 2:
            return _Choice(is_split, -1, -1, 0, 0)
        other, n_second = topic, n_first - 1
    else:
        if n_in_use < 2:
            return _Choice(is_split, -1, -1, 0, 0)
        other = _choose_topic(n_tokens, topic, n_in_use - 1, uniform(choice, _OTHER))
        n_second = n_tokens[other]
    second = np.int64(min(uniform(choice, _SECOND) * n_second, n_second - 1))
    if is_split and second >= first:
        second += 1
    return _Choice(is_split, topic, other, first, second)  # type: ignore[arg-type]  # numba has one kind of integers


@njit(cache=True, nogil=True)
def _propose(union, target, choice, of_topic, of_other, n_in_use, given, of_word, in_row, in_word, move_key):
    """Propose the move of a choice; `target` has the sides of the tokens before a merge. The counts stay zero.

    Returns whether it is accepted, the share of the first part in the weight of both, and the sides, int8.
    """
    is_split = choice.is_split
    size = len(union.rows)
    sides, totals = np.empty(size, np.int8), np.zeros(2, np.int64)
    chosen = places_of(target, choice.first, choice.second)
    total = of_topic if is_split else of_topic + of_other
    log_u = math.log(open_uniform(fold_in(move_key, _ACCEPTANCE), 0))
    starts = _starts_of_documents(union.rows)
    log_ratio = math.log(given.gamma * total)  # of the split, without q
    share = of_topic / total  # of the first part in the weight of both; 1 before a split
    # The gain of the reverse split is known before any scan; many merges are rejected here.
    if not is_split:
        n_second = np.count_nonzero(target)
        count_sides(union, target, in_row, in_word)
        log_ratio += log_gain_of_split(union, total, share, given, of_word, in_row, in_word)
        log_ratio += _log_choices(size - n_second, n_second, n_in_use - 1)
        if log_u >= math.log(2.0 * len(starts)) - log_ratio:  # an upper bound, because q(partition) is at most 1
            return False, share, sides
    scan_key, share_key = fold_in(move_key, _SCANS), fold_in(move_key, _PROPORTION)
    arrays = given, in_row, in_word, totals
    # The launch state: the chosen tokens on their sides, all others by scans with equal weights of both sides.
    sides[:] = -1
    for side in range(2):
        _place(union, chosen[side], chosen[side] + 1, side, sides, in_row, in_word, totals)
    # Weights of at least `_WIDE` in the first three quarters of the scans let whole documents change sides.
    half = given.alpha * total / 2
    n_scans = _SCANS_BEFORE[np.int64(uniform(fold_in(move_key, _CHOICE), _N_SCANS) * len(_SCANS_BEFORE))]
    if n_scans > 0:
        _begin(union, starts, chosen, sides, *arrays)
    for scan in range(n_scans):
        at_first = half if _SHARE_WIDE * scan >= n_scans else max(half, _WIDE)
        _scan(union, chosen, sides, *arrays, (at_first, at_first), 1, target[:0], fold_in(scan_key, scan))
    # The share of the first part is proposed from Beta(a, b): uniform without scans, else by numbers of documents.
    a, b, n_before = 1.0, 1.0, 0
    if n_scans > 0:
        of_sides = _documents_of_sides(union.rows, in_row)
        a, b, n_before = float(of_sides[0]), float(of_sides[1]), 1
    if is_split:
        share = math.exp(log_beta_variate(share_key, a, b)[0])
        share = min(max(share, _LEAST_SHARE), 1.0 - _LEAST_SHARE)
    expected = given.alpha * total * share, given.alpha * total * (1.0 - share)
    # The last scan draws the sides of a split, or follows `target`, those before a merge.
    log_q = _log_beta_density(share, a, b)
    log_q += _scan(union, chosen, sides, *arrays, expected, n_before, target, fold_in(scan_key, n_scans))
    if is_split:
        n_second = np.count_nonzero(sides)
        log_ratio += log_gain_of_split(union, total, share, given, of_word, in_row, in_word)
        log_ratio += _log_choices(size - n_second, n_second, n_in_use)
    else:
        clear_sides(union, in_row, in_word)
    log_ratio -= log_q
    return log_u < (log_ratio if is_split else -log_ratio), share, sides


@njit(cache=True, nogil=True)
def _choose_topic(n_tokens, excluded, n_topics, share):
    """The topic in use, except for one, at this share of their number."""
    left = np.int64(min(share * n_topics, n_topics - 1))
    for topic in range(len(n_tokens)):
        if n_tokens[topic] > 0 and topic != excluded:
            if left == 0:
                return topic
            left -= 1
    return -1


@njit(cache=True, nogil=True)
def _log_choices(n_first, n_second, n_topics):
    """The log of c, for a split into parts of these sizes of one of `n_topics` topics."""
    size = n_first + n_second
    log_tokens = math.log(size * (size - 1.0)) - math.log(float(n_first)) - math.log(float(n_second))
    return log_tokens - math.log(n_topics + 1.0) + math.log(1 / _SHARE_OF_SPLITS - 1)


@njit(cache=True, nogil=True)
def _begin(union, starts, chosen, sides, given, in_row, in_word, totals):
    """The first state: each document as a whole, given those before it and those of the chosen tokens."""
    words = union.words
    for side in range(2):
        at = np.searchsorted(starts, chosen[side], side="right") - 1
        _place(union, starts[at], starts[at + 1], side, sides, in_row, in_word, totals)
    for at in range(len(starts) - 1):
        first, stop = starts[at], starts[at + 1]
        scale = (totals[1] + given.beta_total) / (totals[0] + given.beta_total)
        log_ratio, product = 0.0, 1.0
        for i in range(first, stop):
            in_both, beta = in_word[words[i]], given.beta[words[i] % len(given.beta)]
            product *= (in_both[0] + beta) / (in_both[1] + beta) * scale
            if product < _SMALLEST or product > 1 / _SMALLEST:
                log_ratio += math.log(product)
                product = 1.0
        side = 0 if log_ratio + math.log(product) > 0 else 1
        _place(union, first, stop, side, sides, in_row, in_word, totals)


@njit(cache=True, nogil=True)
def _starts_of_documents(rows):
    """The first token of each document, and the number of tokens."""
    starts = np.empty(len(rows) + 1, np.int64)
    n = 0
    for i in range(len(rows)):
        if i == 0 or rows[i] != rows[i - 1]:
            starts[n] = i
            n += 1
    starts[n] = len(rows)
    return starts[: n + 1]


@njit(cache=True, nogil=True)
def _place(union, first, stop, side, sides, in_row, in_word, totals):
    """Count the tokens of a range that have no side yet on this side."""
    for i in range(first, stop):
        if sides[i] < 0:
            sides[i] = side
            add_token(1, union.rows[i], union.words[i], side, in_row, in_word, totals)


@njit(cache=True, nogil=True)
def _scan(union, chosen, sides, given, in_row, in_word, totals, expected, n_before, target, key):
    """Draw the sides of the tokens in turn, or take those in `target`; returns the log of their probability.

    Each token is counted `n_before` times before: 1 in a Gibbs scan, 0 if tokens are added. The chosen tokens stay.
    """
    rows, words = union
    log_q, product = 0.0, 1.0
    for i in range(len(rows)):
        if i == chosen[0] or i == chosen[1]:
            continue
        add_token(-n_before, rows[i], words[i], sides[i], in_row, in_word, totals)
        share = share_of_first(rows[i], words[i], given, in_row, in_word, totals, expected)
        if len(target) > 0:
            sides[i] = target[i]
        else:
            sides[i] = 0 if uniform(key, i) < share else 1
        product *= share if sides[i] == 0 else 1.0 - share
        if product < _SMALLEST:  # fewer logarithms
            log_q += math.log(product)
            product = 1.0
        add_token(1, rows[i], words[i], sides[i], in_row, in_word, totals)
    return log_q + math.log(product)


@njit(cache=True, nogil=True)
def _documents_of_sides(rows, in_row):
    """How many documents have tokens of each side; `rows` is sorted."""
    n_first, n_second, last = 0, 0, -1
    for row in rows:
        if row != last:
            n_first += in_row[row, 0] > 0
            n_second += in_row[row, 1] > 0
        last = row
    return n_first, n_second


@njit(cache=True, nogil=True)
def _log_beta_density(share, a, b):
    log_density = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return log_density + (a - 1) * math.log(share) + (b - 1) * math.log1p(-share)


def merge_greedily(
    shards: Any, chain: int, counts: TopicCounts, weights: np.ndarray, given: Hyperparameters
) -> np.ndarray:
    """Merge each topic, smallest first, with the most similar larger one, if this is more probable; returns weights.

    Pairs with more than eight times the tokens of an average topic are left out. The topics of the tokens of the chain
    change; topics without tokens have the weight 0.
    """
    order = np.argsort(counts.totals, kind="stable")
    order = order[counts.totals[order] > 0]
    merged_with, weights = np.arange(len(weights)), weights.copy()
    counted, of_word = Counted.none(shards.n_rows, shards.n_features), table_of_words(given)
    for lost, kept in zip(order.tolist(), _most_similar_larger(counts, order).tolist(), strict=True):
        if kept < 0:
            continue
        while merged_with[kept] != kept:
            kept = merged_with[kept]
        union = Union(shards, chain, kept, lost)
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
        if _LEAST_WITH_ENTROPY < q < 1.0 - _LEAST_WITH_ENTROPY:
            gain += q * math.log(q) + (1.0 - q) * math.log1p(-q)
            if gain < 0.0:
                break
    clear_sides(union, in_row, in_word)
    return gain
