r"""Split-merge moves of the topics of a hierarchical Dirichlet process, given their weights.

Two tokens of the same word are chosen: the first is a random one of all tokens, or of a random topic. If they have the
same topic, a move proposes to split it, and otherwise to merge their topics. The proposed split is that of a Gibbs scan
over the tokens of the two parts, from a state that does not depend on the current one (Jain and Neal, 2004): documents
are put on the side whose words are like theirs, and some scans follow, the first of them with larger
:math:`\alpha`. The two chosen tokens stay in different parts. Tokens of the same word are chosen because topics without
common words are never merged.

With weights b of the topics in use, the joint density of partition and weights is proportional to

.. math:: \gamma^K b_u^{\gamma - 1} \prod_k \frac{1}{b_k} \, f(W_k) \prod_m \frac{\Gamma(\alpha b_k + D_{mk})}
    {\Gamma(\alpha b_k)} = \gamma^K b_u^{\gamma - 1} \prod_k e^{L(k)},

with the Dirichlet-multinomial probability f of the words of a topic. A split of topic k with the proportion u, which is
drawn from a beta distribution whose parameters are the numbers of documents that have tokens of the two parts, is
accepted with probability

.. math:: \min\left(1, \frac{\gamma \, e^{L(k_1) + L(k_2)} \, b_k \, c}{e^{L(k)} \, q(\text{partition}) \, q(u)}
    \right),

where b_k is the Jacobian of :math:`(b_k, u) \mapsto (u b_k, (1 - u) b_k)`, and a merge with the inverse ratio. The
factor c is the probability that the reverse move chooses the two tokens and is made, over that of the split. Splits
take longer and are made with probability s only, merges always, so that c = 1 / s; if the first token is of a random
topic,

.. math:: c = \frac{1}{s} \, \frac{1}{K + 1} \left(\frac{1}{T_1} + \frac{1}{T_2}\right) \Big/ \frac{2}{K T},

with the numbers of tokens T of the topic and its parts. Most merges are rejected without a scan, because q(partition)
is at most 1.

References
----------
S. Jain and R. M. Neal, "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model",
JCGS 13, 2004.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...random._keys import fold_in, uniform
from ...random._variates import log_beta_variate, open_uniform
from ...utils._njit import njit
from .._tokens.document_gibbs import Documents
from .weights import Hyperparameters, TopicWeights

_CHOICE, _SCANS, _PROPORTION, _ACCEPTANCE = range(4)
_KIND, _TOPIC, _FIRST, _SECOND, _IS_MADE = range(5)  # draws of a choice
_SMALLEST = 1e-200  # product of probabilities
_WIDE = 1.0  # least expected number of tokens of a side in a document, in the first scans
_SHARE_WIDE = 4 / 3  # number of scans over that of these
_SHARE_OF_SPLITS = 0.1  # of the splits that could be proposed
_LARGEST_OF_WORD, _LARGEST_OF_ROW = 1024, 128  # counts whose gamma functions are tabulated


class Moves(NamedTuple):
    """Result of some moves."""

    weights: np.ndarray  # of the old topics, 0 for those that were merged, and of the new ones behind them
    n_splits: int
    n_merges: int


class _Index(NamedTuple):
    """The tokens topic by topic, and those of a topic in the order of the corpus."""

    start: np.ndarray  # (n_topics,) int64
    stop: np.ndarray  # (n_topics,) int64
    tokens: np.ndarray  # (n_tokens,) int64
    rows: np.ndarray  # (n_tokens,) int32
    words: np.ndarray  # (n_tokens,) int32


class _Union(NamedTuple):
    """The tokens of a topic, or of two topics, in the order of the corpus."""

    tokens: np.ndarray  # (n,) int64
    rows: np.ndarray  # (n,) int32
    words: np.ndarray  # (n,) int32


def split_and_merge(
    documents: Documents,
    token_topics: np.ndarray,
    weights: TopicWeights,
    given: Hyperparameters,
    max_topics: int,
    n_moves: int,
    n_scans: int,
    key: np.uint64,
) -> Moves:
    """Make some moves, one after the other.

    Parameters
    ----------
    documents : Documents
        The corpus.
    token_topics : ndarray of shape (n_tokens,), uint16
        Topics of all tokens, changed in place; new topics have the numbers from K on. If a topic is split, the larger
        part keeps its number, and if topics are merged, the larger one.
    weights : TopicWeights
        Current weights.
    given : Hyperparameters
        Concentrations, and the prior of the topics.
    max_topics : int
        Largest number of topics; if there are so many, none is split.
    n_moves : int
        Number of proposals.
    n_scans : int
        Number of scans before the one that is proposed.
    key : uint64
        Key of the moves.
    """
    n_topics = len(weights.used)
    of_topics = np.zeros(n_topics + n_moves)
    of_topics[:n_topics] = weights.used
    arrays = documents.indptr, documents.pair_word, documents.pair_count, documents.token_start
    by_word = documents.word_indptr, documents.word_pairs, documents.pair_start
    n_numbers, n_splits, n_merges = _make_moves(
        *arrays, *by_word, token_topics, of_topics, n_topics, given, max_topics, n_moves, n_scans, key
    )
    return Moves(of_topics[:n_numbers], n_splits, n_merges)


@njit(cache=True, nogil=True)
def _make_moves(
    indptr,
    pair_word,
    pair_count,
    token_start,
    word_indptr,
    word_pairs,
    pair_start,
    token_topics,
    weights,
    n_topics,
    given,
    max_topics,
    n_moves,
    n_scans,
    key,
):
    """Propose `n_moves` moves; returns how many numbers of topics were used, and the numbers of splits and merges."""
    n_words = len(word_indptr) - 1
    in_row, in_word = np.zeros((len(token_start) - 1, 2), np.int32), np.zeros((n_words, 2), np.int32)
    n_in_use, n_splits, n_merges = n_topics, 0, 0
    of_word = _log_rising(given.beta[0], _LARGEST_OF_WORD if len(given.beta) == 1 else 0)
    alpha, gamma = given.alpha, given.gamma
    index = _sort_tokens(indptr, pair_word, pair_count, token_topics, len(weights))
    for move in range(n_moves):
        move_key = fold_in(key, move)
        choice = fold_in(move_key, _CHOICE)
        by_topic = uniform(choice, _KIND) < 0.5
        at = _choose_token(index, n_topics, n_in_use, by_topic, choice)
        first, word = index.tokens[at], index.words[at]
        pairs = word_pairs[word_indptr[word] : word_indptr[word + 1]]
        second = _token_of_word(uniform(choice, _SECOND), pairs, pair_start)
        if first == second:
            continue
        topic, other = np.int64(token_topics[first]), np.int64(token_topics[second])
        is_split = topic == other
        if is_split and (n_in_use >= max_topics or uniform(choice, _IS_MADE) >= _SHARE_OF_SPLITS):
            continue
        total = weights[topic] if is_split else weights[topic] + weights[other]
        union, target = _unite(index, topic, other)
        chosen = np.searchsorted(union.tokens, first), np.searchsorted(union.tokens, second)
        log_u = math.log(open_uniform(fold_in(move_key, _ACCEPTANCE), 0))
        log_ratio = 0.0  # of the split, without q(partition)
        if not is_split:
            share = weights[topic] / total
            _count(union, target, in_row, in_word)
            log_ratio -= _log_beta_density(share, *_documents_of_sides(union.rows, in_row))
            log_ratio += _log_gain(union, total, share, given, of_word, in_row, in_word) + math.log(gamma * total)
            log_ratio += _log_choices(target, n_in_use - 1, by_topic)
            if log_u >= -log_ratio:  # because q is at most 1
                continue
        sides = np.empty(len(union.tokens), np.int8)
        scan_key = fold_in(move_key, _SCANS)
        arrays = union, chosen, sides, given, in_row, in_word
        _begin(*arrays)
        expected = alpha * total / 2
        for scan in range(n_scans):
            at_first = expected if _SHARE_WIDE * scan >= n_scans else max(expected, _WIDE)
            _scan(*arrays, at_first, target[:0], fold_in(scan_key, scan))
        log_q = _scan(*arrays, expected, target, fold_in(scan_key, n_scans))
        if is_split:
            of_sides = _documents_of_sides(union.rows, in_row)
            a, b = float(of_sides[0]), float(of_sides[1])
            share = math.exp(log_beta_variate(fold_in(move_key, _PROPORTION), a, b)[0])
            log_ratio -= _log_beta_density(share, *of_sides)
            log_ratio += _log_gain(union, total, share, given, of_word, in_row, in_word) + math.log(gamma * total)
            log_ratio += _log_choices(sides, n_in_use, by_topic)
        else:
            _clear(union, in_row, in_word)
        log_ratio -= log_q
        if not log_u < (log_ratio if is_split else -log_ratio):
            continue
        if is_split:
            n_second = np.count_nonzero(sides)
            moved = 1 if 2 * n_second <= len(sides) else 0
            of_moved = share if moved == 0 else 1.0 - share
            weights[topic], weights[n_topics] = (1.0 - of_moved) * total, of_moved * total
            _divide(index, topic, n_topics, union, sides == moved)
            for i in range(len(sides)):
                if sides[i] == moved:
                    token_topics[union.tokens[i]] = n_topics
            n_topics += 1
            n_in_use += 1
            n_splits += 1
        else:
            kept, lost = topic, other
            if index.stop[other] - index.start[other] > index.stop[topic] - index.start[topic]:
                kept, lost = other, topic
            weights[kept], weights[lost] = total, 0.0
            for token in union.tokens:
                token_topics[token] = kept
            index = _sort_tokens(indptr, pair_word, pair_count, token_topics, len(weights))
            n_in_use -= 1
            n_merges += 1
    return n_topics, n_splits, n_merges


@njit(cache=True, nogil=True)
def _choose_token(index, n_topics, n_in_use, by_topic, choice):
    """The place in the index of a random token, of all or of a random topic."""
    if not by_topic:
        n = len(index.tokens)
        return np.int64(min(uniform(choice, _FIRST) * n, n - 1))
    left = np.int64(min(uniform(choice, _TOPIC) * n_in_use, n_in_use - 1))
    for topic in range(n_topics):
        n = index.stop[topic] - index.start[topic]
        if n > 0:
            if left == 0:
                return index.start[topic] + np.int64(min(uniform(choice, _FIRST) * n, n - 1))
            left -= 1
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _log_choices(sides, n_topics, by_topic):
    """The log of c, for a split with these sides of one of `n_topics` topics."""
    log_c = -math.log(_SHARE_OF_SPLITS)
    if by_topic:
        n = len(sides)
        n_second = np.count_nonzero(sides)
        log_c += math.log(1 / (n - n_second) + 1 / n_second) - math.log(n_topics + 1.0) - math.log(2 / (n_topics * n))
    return log_c


@njit(cache=True, nogil=True)
def _sort_tokens(indptr, pair_word, pair_count, token_topics, n_topics):
    """Sort the tokens by topic."""
    stop, n = np.zeros(n_topics, np.int64), len(token_topics)
    for token in range(n):
        stop[np.int64(token_topics[token])] += 1
    start = np.cumsum(stop) - stop
    stop[:] = start
    tokens, rows, words = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32)
    token = 0
    for row in range(len(indptr) - 1):
        for pair in range(indptr[row], indptr[row + 1]):
            for _ in range(pair_count[pair]):
                topic = np.int64(token_topics[token])
                at = stop[topic]
                stop[topic] += 1
                tokens[at], rows[at], words[at] = token, row, pair_word[pair]
                token += 1
    return _Index(start, stop, tokens, rows, words)


@njit(cache=True, nogil=True)
def _token_of_word(share, pairs, pair_start):
    """The token of a word, whose pairs are given, at this share of its tokens."""
    n = 0
    for pair in pairs:
        n += pair_start[pair + 1] - pair_start[pair]
    left = np.int64(min(share * n, n - 1))
    for pair in pairs:
        count = pair_start[pair + 1] - pair_start[pair]
        if left < count:
            return pair_start[pair] + left
        left -= count
    return np.int64(-1)


@njit(cache=True, nogil=True)
def _unite(index, topic, other):
    """The tokens of one or two topics, and, for two, whether each token is of the other topic."""
    i, i_stop = index.start[topic], index.stop[topic]
    if topic == other:
        here = slice(i, i_stop)
        return _Union(index.tokens[here].copy(), index.rows[here].copy(), index.words[here].copy()), np.zeros(
            0, np.int8
        )
    j, j_stop = index.start[other], index.stop[other]
    n = i_stop - i + j_stop - j
    tokens, rows, words = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int32)
    of_other = np.zeros(n, np.int8)
    for at in range(n):
        of_other[at] = i == i_stop or (j < j_stop and index.tokens[j] < index.tokens[i])
        source = j if of_other[at] else i
        tokens[at], rows[at], words[at] = index.tokens[source], index.rows[source], index.words[source]
        if of_other[at]:
            j += 1
        else:
            i += 1
    return _Union(tokens, rows, words), of_other


@njit(cache=True, nogil=True)
def _divide(index, topic, new, union, moves):
    """Give the tokens of a topic that move to a new one."""
    begin, n_stay = index.start[topic], len(moves) - np.count_nonzero(moves)
    i, j = begin, begin + n_stay
    index.start[new], index.stop[new], index.stop[topic] = j, index.stop[topic], j
    for k in range(len(moves)):
        at = j if moves[k] else i
        index.tokens[at], index.rows[at], index.words[at] = union.tokens[k], union.rows[k], union.words[k]
        if moves[k]:
            j += 1
        else:
            i += 1


@njit(cache=True, nogil=True)
def _count(union, sides, in_row, in_word):
    for i in range(len(sides)):
        in_row[union.rows[i], sides[i]] += 1
        in_word[union.words[i], sides[i]] += 1


@njit(cache=True, nogil=True)
def _clear(union, in_row, in_word):
    for i in range(len(union.rows)):
        in_row[union.rows[i]] = 0
        in_word[union.words[i]] = 0


@njit(cache=True, nogil=True)
def _begin(union, chosen, sides, given, in_row, in_word):
    """The first state: each document as a whole, given those before it and those of the chosen tokens."""
    _, rows, words = union
    starts = _starts_of_documents(rows)
    totals = np.zeros(2, np.int64)
    sides[:] = -1
    _place(union, chosen[0], chosen[0] + 1, 0, sides, totals, in_row, in_word)
    _place(union, chosen[1], chosen[1] + 1, 1, sides, totals, in_row, in_word)
    for side in range(2):
        at = np.searchsorted(starts, chosen[side], side="right") - 1
        _place(union, starts[at], starts[at + 1], side, sides, totals, in_row, in_word)
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
        _place(union, first, stop, side, sides, totals, in_row, in_word)


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
def _place(union, first, stop, side, sides, totals, in_row, in_word):
    """Count the tokens of a range that have no side yet on this side."""
    for i in range(first, stop):
        if sides[i] < 0:
            sides[i] = side
            totals[side] += 1
            in_row[union.rows[i], side] += 1
            in_word[union.words[i], side] += 1


@njit(cache=True, nogil=True)
def _scan(union, chosen, sides, given, in_row, in_word, expected, target, key):
    """A Gibbs scan, or the one that leads to `target` if it is not empty; returns the log of its probability."""
    _, rows, words = union
    n_second = np.int64(np.count_nonzero(sides))
    totals = np.array([len(sides) - n_second, n_second])
    log_q, product = 0.0, 1.0
    for i in range(len(rows)):
        if i == chosen[0] or i == chosen[1]:
            continue
        row, word, side = rows[i], words[i], sides[i]
        in_row[row, side] -= 1
        in_word[word, side] -= 1
        totals[side] -= 1
        share = _share(
            in_row[row], in_word[word], totals, expected, given.beta[word % len(given.beta)], given.beta_total
        )
        if len(target) > 0:
            side = target[i]
        else:
            side = np.int8(0 if uniform(key, i) < share else 1)
        product *= share if side == 0 else 1.0 - share
        if product < _SMALLEST:  # fewer logarithms
            log_q += math.log(product)
            product = 1.0
        sides[i] = side
        in_row[row, side] += 1
        in_word[word, side] += 1
        totals[side] += 1
    return log_q + math.log(product)


@njit(cache=True, nogil=True)
def _share(in_row, in_word, totals, expected, beta, beta_total):
    """The probability of the first side."""
    first = (in_row[0] + expected) * (in_word[0] + beta) * (totals[1] + beta_total)
    second = (in_row[1] + expected) * (in_word[1] + beta) * (totals[0] + beta_total)
    return first / (first + second)


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


@njit(cache=True, nogil=True)
def _log_gain(union, total, share, given, of_word, in_row, in_word):
    """L of the two sides less L of their union; clears the counts."""
    weights = share * total, (1.0 - share) * total
    gain = math.log(total) - math.log(weights[0]) - math.log(weights[1])
    sizes = np.zeros(2, np.int64)
    expected = given.alpha * total, given.alpha * weights[0], given.alpha * weights[1]
    of_both = _log_rising(expected[0], _LARGEST_OF_ROW)
    of_first, of_second = _log_rising(expected[1], _LARGEST_OF_ROW), _log_rising(expected[2], _LARGEST_OF_ROW)
    for i in range(len(union.rows)):
        row, word = union.rows[i], union.words[i]
        first, second = in_row[row]
        if first + second > 0:
            gain -= _look_up(of_both, expected[0], first + second)
            gain += _look_up(of_first, expected[1], first) + _look_up(of_second, expected[2], second)
            in_row[row] = 0
        first, second = in_word[word]
        if first + second > 0:
            beta = given.beta[word % len(given.beta)]
            gain += _look_up(of_word, beta, first) + _look_up(of_word, beta, second)
            gain -= _look_up(of_word, beta, first + second)
            sizes[0] += first
            sizes[1] += second
            in_word[word] = 0
    gain += _look_up(of_word[:0], given.beta_total, sizes[0] + sizes[1])
    return gain - _look_up(of_word[:0], given.beta_total, sizes[0]) - _look_up(of_word[:0], given.beta_total, sizes[1])


@njit(cache=True, nogil=True)
def _log_rising(x, n):
    """The logs of Gamma(x + i) / Gamma(x) for i < n."""
    table = np.zeros(n)
    for i in range(1, n):
        table[i] = table[i - 1] + math.log(x + i - 1)
    return table


@njit(cache=True, nogil=True)
def _look_up(table, x, n):
    """The log of Gamma(x + n) / Gamma(x), from a table if it is long enough."""
    if n == 0:
        return 0.0
    return table[n] if n < len(table) else math.lgamma(x + n) - math.lgamma(x)
