r"""Split-merge moves of the topics of a hierarchical Dirichlet process, given their weights.

Two random tokens are chosen. If they have the same topic, a move proposes to split it, and otherwise to merge their
topics. The proposed split is that of a Gibbs scan over the tokens of the two parts, from a state that does not depend
on the current one (Jain and Neal, 2004); the two chosen tokens stay in different parts.

With weights b of the topics in use, the joint density of partition and weights is proportional to

.. math:: \gamma^K b_u^{\gamma - 1} \prod_k \frac{1}{b_k} \, f(W_k) \prod_m \frac{\Gamma(\alpha b_k + D_{mk})}
    {\Gamma(\alpha b_k)} = \gamma^K b_u^{\gamma - 1} \prod_k e^{L(k)},

with the Dirichlet-multinomial probability f of the words of a topic. A split of topic k with the proportion u, which is
drawn from a beta distribution whose parameters are the numbers of documents that have tokens of the two parts, is
accepted with probability

.. math:: \min\left(1, \frac{\gamma \, e^{L(k_1) + L(k_2)} \, b_k}{e^{L(k)} \, q(\text{partition}) \, q(u)}\right),

where b_k is the Jacobian of :math:`(b_k, u) \mapsto (u b_k, (1 - u) b_k)`, and a merge with the inverse ratio.

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
from .weights import TopicWeights

_CHOICE, _SCANS, _PROPORTION, _ACCEPTANCE = range(4)


class Moves(NamedTuple):
    """Result of some moves."""

    weights: np.ndarray  # of the old topics, 0 for those that were merged, and of the new ones behind them
    n_splits: int
    n_merges: int


def split_and_merge(
    documents: Documents,
    token_topics: np.ndarray,
    weights: TopicWeights,
    concentrations: tuple[float, float],
    prior: np.ndarray,
    prior_total: float,
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
        Topics of all tokens, changed in place; new topics have the numbers from K on.
    weights : TopicWeights
        Current weights.
    concentrations : tuple of float
        alpha of the documents, and gamma of the topics.
    prior : ndarray of shape (n_features,) or (1,)
        Dirichlet parameters beta of the topics, one for each word or for all.
    prior_total : float
        Sum of the parameters over words.
    n_moves : int
        Number of proposals.
    n_scans : int
        Number of scans before the one that is proposed.
    key : uint64
        Key of the moves.
    """
    n_rows = len(documents.token_start) - 1
    token_row = np.repeat(np.arange(n_rows), np.diff(documents.token_start))
    token_word = np.repeat(documents.pair_word, documents.pair_count)
    of_topics = np.zeros(len(weights.used) + n_moves)
    of_topics[: len(weights.used)] = weights.used
    tokens = token_row, token_word, token_topics
    sizes = n_rows, len(documents.words)
    n_topics, n_splits, n_merges = _make_moves(
        *tokens, of_topics, len(weights.used), *concentrations, prior, prior_total, *sizes, n_moves, n_scans, key
    )
    return Moves(of_topics[:n_topics], n_splits, n_merges)


@njit(cache=True, nogil=True)
def _make_moves(
    token_row,
    token_word,
    token_topics,
    weights,
    n_topics,
    alpha,
    gamma,
    prior,
    prior_total,
    n_rows,
    n_words,
    n_moves,
    n_scans,
    key,
):
    """Propose `n_moves` moves; returns the number of topics, including empty ones, of splits and of merges."""
    in_row, in_word = np.zeros((n_rows, 2), np.int64), np.zeros((n_words, 2), np.int64)
    n_tokens = len(token_topics)
    n_splits, n_merges = 0, 0
    for move in range(n_moves):
        move_key = fold_in(key, move)
        choice = fold_in(move_key, _CHOICE)
        first = np.int64(min(uniform(choice, 0) * n_tokens, n_tokens - 1))
        second = np.int64(min(uniform(choice, 1) * n_tokens, n_tokens - 1))
        if first == second:
            continue
        topic, other = np.int64(token_topics[first]), np.int64(token_topics[second])
        is_split = topic == other
        tokens = np.flatnonzero((token_topics == topic) | (token_topics == other))
        total = weights[topic] if is_split else weights[topic] + weights[other]
        sides = np.zeros(len(tokens), np.int8)
        chosen = np.searchsorted(tokens, first), np.searchsorted(tokens, second)
        sides[chosen[1]] = 1
        target = np.zeros(0 if is_split else len(tokens), np.int8)
        for i in range(len(target)):
            target[i] = token_topics[tokens[i]] == other
        scan_key = fold_in(move_key, _SCANS)
        given = (tokens, chosen, token_row, token_word, sides, alpha * total / 2, prior, prior_total, in_row, in_word)
        _begin(*given, fold_in(scan_key, 0))
        for scan in range(n_scans):
            _scan(*given, target[:0], fold_in(scan_key, scan + 1))
        log_q = _scan(*given, target, fold_in(scan_key, n_scans + 1))
        n_first, n_second = _documents_of_sides(tokens, token_row, in_row)
        if is_split:
            share = math.exp(log_beta_variate(fold_in(move_key, _PROPORTION), float(n_first), float(n_second))[0])
        else:
            share = weights[topic] / total
        log_q += _log_beta_density(share, n_first, n_second)
        log_ratio = math.log(gamma * total) - log_q
        log_ratio += _log_gain(tokens, token_row, token_word, alpha, total, share, prior, prior_total, in_row, in_word)
        if not is_split:
            log_ratio = -log_ratio
        if not math.log(open_uniform(fold_in(move_key, _ACCEPTANCE), 0)) < log_ratio:
            continue
        if is_split:
            for i in range(len(tokens)):
                if sides[i] == 1:
                    token_topics[tokens[i]] = n_topics
            weights[topic], weights[n_topics] = share * total, (1.0 - share) * total
            n_topics += 1
            n_splits += 1
        else:
            for i in range(len(tokens)):
                token_topics[tokens[i]] = topic
            weights[topic], weights[other] = total, 0.0
            n_merges += 1
    return n_topics, n_splits, n_merges


@njit(cache=True, nogil=True)
def _begin(tokens, chosen, token_row, token_word, sides, expected, prior, prior_total, in_row, in_word, key):
    """The first state: each token given those before it and the chosen ones."""
    for side in range(2):
        in_row[token_row[tokens[chosen[side]]], side] += 1
        in_word[token_word[tokens[chosen[side]]], side] += 1
    totals = np.ones(2, np.int64)
    for i in range(len(tokens)):
        if i == chosen[0] or i == chosen[1]:
            continue
        row, word = token_row[tokens[i]], token_word[tokens[i]]
        beta = prior[word % len(prior)]
        share = _share(in_row[row], in_word[word], totals, expected, beta, prior_total)
        side = 0 if uniform(key, i) < share else 1
        sides[i] = side
        in_row[row, side] += 1
        in_word[word, side] += 1
        totals[side] += 1


@njit(cache=True, nogil=True)
def _scan(tokens, chosen, token_row, token_word, sides, expected, prior, prior_total, in_row, in_word, target, key):
    """A Gibbs scan, or the one that leads to `target` if it is not empty; returns the log of its probability."""
    totals = np.zeros(2, np.int64)
    for i in range(len(tokens)):
        totals[sides[i]] += 1
    log_q = 0.0
    for i in range(len(tokens)):
        if i == chosen[0] or i == chosen[1]:
            continue
        row, word = token_row[tokens[i]], token_word[tokens[i]]
        side = sides[i]
        in_row[row, side] -= 1
        in_word[word, side] -= 1
        totals[side] -= 1
        beta = prior[word % len(prior)]
        share = _share(in_row[row], in_word[word], totals, expected, beta, prior_total)
        if len(target) > 0:
            side = target[i]
        else:
            side = np.int8(0 if uniform(key, i) < share else 1)
        log_q += math.log(share if side == 0 else 1.0 - share)
        sides[i] = side
        in_row[row, side] += 1
        in_word[word, side] += 1
        totals[side] += 1
    return log_q


@njit(cache=True, nogil=True)
def _share(in_row, in_word, totals, expected, beta, prior_total):
    """The probability of the first side."""
    first = (in_row[0] + expected) * (in_word[0] + beta) * (totals[1] + prior_total)
    second = (in_row[1] + expected) * (in_word[1] + beta) * (totals[0] + prior_total)
    return first / (first + second)


@njit(cache=True, nogil=True)
def _documents_of_sides(tokens, token_row, in_row):
    """How many documents have tokens of each side; tokens are in the order of the corpus."""
    n_first, n_second, last = 0, 0, -1
    for token in tokens:
        row = token_row[token]
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
def _log_gain(tokens, token_row, token_word, alpha, total, share, prior, prior_total, in_row, in_word):
    """L of the two sides less L of their union; clears the counts."""
    weights = share * total, (1.0 - share) * total
    gain = math.log(total) - math.log(weights[0]) - math.log(weights[1])
    sizes = np.zeros(2, np.int64)
    both = alpha * total
    of_both, of_first, of_second = math.lgamma(both), math.lgamma(alpha * weights[0]), math.lgamma(alpha * weights[1])
    for i in range(len(tokens)):
        row, word = token_row[tokens[i]], token_word[tokens[i]]
        first, second = in_row[row]
        if first + second > 0:
            gain -= math.lgamma(both + first + second) - of_both
            gain += math.lgamma(alpha * weights[0] + first) - of_first
            gain += math.lgamma(alpha * weights[1] + second) - of_second
            in_row[row] = 0
        first, second = in_word[word]
        if first + second > 0:
            beta = prior[word % len(prior)]
            gain += math.lgamma(beta + first) + math.lgamma(beta + second)
            gain -= math.lgamma(beta + first + second) + math.lgamma(beta)
            sizes[0] += first
            sizes[1] += second
            in_word[word] = 0
    gain += math.lgamma(prior_total) + math.lgamma(prior_total + sizes[0] + sizes[1])
    return gain - math.lgamma(prior_total + sizes[0]) - math.lgamma(prior_total + sizes[1])
