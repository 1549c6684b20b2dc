"""Tokens of one or two topics, counted on two sides: for moves that split a topic or merge two."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...utils._njit import njit

_LARGEST_OF_WORD, _LARGEST_OF_ROW = 1024, 128  # counts whose gamma functions are tabulated


class TokensOfTopics(NamedTuple):
    """The tokens of a topic, or of two topics, in the order of the corpus."""

    rows: np.ndarray  # (n,) int32
    words: np.ndarray  # (n,) int32


class Counted(NamedTuple):
    """Counts of both sides, which are zero between moves."""

    in_row: np.ndarray  # (n_rows, 2) int32
    in_word: np.ndarray  # (n_features, 2) int32

    @classmethod
    def none(cls, n_rows: int, n_features: int) -> Counted:
        """No tokens are counted."""
        return cls(np.zeros((n_rows, 2), np.int32), np.zeros((n_features, 2), np.int32))


class Union:
    """The tokens of one topic of a chain, or of two different ones, in all shards."""

    def __init__(self, shards: Any, chain: int, topic: int, other: int):
        self._shards, self._chain = shards, chain
        gathered = shards.ask_latents("gather", chain, (topic, other))
        self._tokens, rows, words, of_other = zip(*gathered, strict=True)
        self.tokens = TokensOfTopics(np.concatenate(rows), np.concatenate(words))
        self.of_other: np.ndarray = np.concatenate(of_other)  # (n,) int8, whether of the other topic; (0,) if one

    def assign(self, is_moved: np.ndarray | None, topic: int) -> None:
        """Give some of these tokens, or all, another topic."""
        ends = np.cumsum([len(tokens) for tokens in self._tokens])[:-1]
        tokens = list(self._tokens)
        if is_moved is not None:
            tokens = [own[moved] for own, moved in zip(tokens, np.split(is_moved, ends), strict=True)]
        self._shards.ask_latents("assign", self._chain, *((own, topic) for own in tokens))


@njit(cache=True, nogil=True)
def gather_tokens(documents, token_topics, topic, other, size, first_row):
    """The `size` tokens of one or two topics, and their documents and words; for two, whether each is of the other."""
    indptr, token_start = documents.indptr, documents.token_start
    pair_word, pair_count = documents.pair_word, documents.pair_count
    first_topic, second_topic = np.uint16(topic), np.uint16(other)
    tokens, rows, words = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.int32)
    of_other = np.zeros(size if topic != other else 0, np.int8)
    n = 0
    for row in range(len(indptr) - 1):
        is_here = np.uint16(0)
        of_row = token_topics[token_start[row] : token_start[row + 1]]
        for i in range(len(of_row)):  # in 16 bits, so that the loop is vectorised
            is_here |= np.uint16((of_row[i] == first_topic) | (of_row[i] == second_topic))
        if is_here == 0:
            continue
        token = token_start[row]
        for pair in range(indptr[row], indptr[row + 1]):
            for _ in range(pair_count[pair]):
                here = token_topics[token]
                if here in (topic, other):
                    tokens[n], rows[n], words[n] = token, first_row + row, pair_word[pair]
                    if topic != other:
                        of_other[n] = here == other
                    n += 1
                token += 1
    return tokens, rows, words, of_other


@njit(cache=True, nogil=True)
def places_of(of_other, first, second):
    """Places of the `first`-th token of the one topic, and of the `second`-th of the other, if there are two."""
    if len(of_other) == 0:
        return first, second
    chosen_first, chosen_second, n_other = first, second, 0
    for i in range(len(of_other)):
        if of_other[i]:
            if n_other == second:
                chosen_second = i
            n_other += 1
        elif i - n_other == first:
            chosen_first = i
    return chosen_first, chosen_second


@njit(cache=True, nogil=True)
def count_sides(union, sides, in_row, in_word):
    """Add the tokens to the counts of their documents and words, (n_rows, 2) and (n_features, 2)."""
    for i in range(len(sides)):
        in_row[union.rows[i], sides[i]] += 1
        in_word[union.words[i], sides[i]] += 1


@njit(cache=True, nogil=True)
def clear_sides(union, in_row, in_word):
    """Set the counts of the documents and words of these tokens to zero."""
    for i in range(len(union.rows)):
        in_row[union.rows[i]] = 0
        in_word[union.words[i]] = 0


@njit(cache=True, nogil=True)
def add_token(change, row, word, side, in_row, in_word, totals):
    """Change the counts of a document, a word and a side by `change`."""
    in_row[row, side] += change
    in_word[word, side] += change
    totals[side] += change


@njit(cache=True, nogil=True)
def share_of_first(row, word, given, in_row, in_word, totals, expected):
    """The probability of the first side for a token that is not counted."""
    beta, beta_total = given.beta[word % len(given.beta)], given.beta_total
    first = (in_row[row, 0] + expected[0]) * (in_word[word, 0] + beta) * (totals[1] + beta_total)
    second = (in_row[row, 1] + expected[1]) * (in_word[word, 1] + beta) * (totals[0] + beta_total)
    return first / (first + second)


@njit(cache=True, nogil=True)
def table_of_words(given):
    """Logs of gamma functions for `log_gain_of_split`; empty if each word has a prior of its own."""
    return _log_rising(given.beta[0], _LARGEST_OF_WORD if len(given.beta) == 1 else 0)


@njit(cache=True, nogil=True)
def log_gain_of_split(union, total, share, given, of_word, in_row, in_word):
    """L of the two sides less L of their union, as defined in `split_merge.py`; clears the counts."""
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
