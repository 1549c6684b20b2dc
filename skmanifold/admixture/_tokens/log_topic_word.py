"""Topics by the logarithms of their words' weights, for posterior draws without underflow."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from ...numerics.special import fill_exp
from ...random._keys import fold_in
from ...random._log_gamma_ziggurat import draw_log_gammas, log_gamma_table
from ...random._variates import log_gamma_variate
from ...utils._conditions import Array
from ...utils._njit import njit
from ...utils._threads import Workers, split_range
from .topic_counts import TopicCounts

_BLOCK_ROWS = 1 << 10  # words of one task; sums over words are merged by these blocks, in order
_TILE = 64
_MAX_BYTES = 8 << 30


class LogTopics(NamedTuple):
    """Topics word by word: p(v | k) = exp(log_weights[v, k] - log_normalisers[k])."""

    log_weights: Annotated[np.ndarray, Array("float32 float64", "n_features n_components")]  # or float64
    log_normalisers: Annotated[np.ndarray, Array("float64", "n_components")]

    def toarray(self, dtype=np.float32) -> np.ndarray:
        """The dense matrix, of shape (n_components, n_features); its rows sum to 1."""
        out = np.empty(self.log_weights.shape[::-1], dtype)
        _exponentiate(self.log_weights, self.log_normalisers, out)
        return out


def normalize_topics(log_weights: np.ndarray, workers: Workers) -> LogTopics:
    """Topics of unnormalised log weights, ``(V, K)``: normalisers are logs of sums over words, in a fixed order."""
    blocks = split_range(len(log_weights), _BLOCK_ROWS)
    largest, sums = np.empty((2, len(blocks), log_weights.shape[1]))
    workers.run(_sum_block, [(start, stop, log_weights, largest[i], sums[i]) for i, (start, stop) in enumerate(blocks)])
    top = largest.max(axis=0)
    total = np.zeros_like(top)
    for block_top, block_sum in zip(largest, sums, strict=True):
        total += np.exp(block_top - top) * block_sum
    return LogTopics(log_weights, top + np.log(total))


def draw_topics(prior: tuple[np.ndarray, int, int], counts: TopicCounts, key: np.uint64, workers: Workers) -> LogTopics:
    """Topics from their Dirichlet posterior given counts: gammas of shape prior + count, normalised.

    `prior` is that of `TopicPrior.strides`. Each gamma depends on (key, word, topic), and its logarithm is drawn.
    """
    shape = len(counts.indptr) - 1, len(counts.totals)
    check_dense(shape[1], shape[0])
    log_weights = np.empty(shape, np.float32)
    blocks = split_range(shape[0], _BLOCK_ROWS)
    if (prior[0] == prior[0][0]).all():
        arrays = prior[0][0], log_gamma_table(float(prior[0][0])), *counts[:3], key, log_weights
        workers.run(_draw_rows_of_one_prior, [(*block, *arrays) for block in blocks])
    else:
        workers.run(_draw_rows, [(*block, *prior, *counts[:3], key, log_weights) for block in blocks])
    return normalize_topics(log_weights, workers)


def check_dense(n_components: int, n_features: int) -> None:
    """Raise a ValueError if a dense array of topics and words needs too much memory."""
    n_bytes = 4 * n_components * n_features
    if n_bytes > _MAX_BYTES:
        raise ValueError(
            f"A draw of {n_components} topics over {n_features} words would take {n_bytes / 2**30:.1f} GiB, more than "
            f"{_MAX_BYTES / 2**30:.0f}: use fewer topics or words, or the sampler 'esca', whose counts are sparse."
        )


@njit(cache=True, nogil=True)
def _draw_rows_of_one_prior(first, last, prior, table, indptr, topics, counts, key, out):
    """As `_draw_rows`, for the same prior in all cells; most cells have no counts, so that their shapes are equal."""
    number = np.empty(out.shape[1])
    bits = number.view(np.int64)
    for word in range(first, last):
        word_key = fold_in(key, word)
        draw_log_gammas(table, word_key, number, bits, out[word])
        for j in range(indptr[word], indptr[word + 1]):
            k = np.uint64(topics[j])
            out[word, k] = log_gamma_variate(fold_in(word_key, k), prior + counts[j])


@njit(cache=True, nogil=True)
def _draw_rows(first, last, prior, word_step, topic_step, indptr, topics, counts, key, out):
    shapes = np.empty(out.shape[1])
    for word in range(first, last):
        word_key = fold_in(key, word)
        for k in range(out.shape[1]):
            shapes[k] = prior[word * word_step + k * topic_step]
        for j in range(indptr[word], indptr[word + 1]):
            shapes[np.uint64(topics[j])] += counts[j]
        for k in range(out.shape[1]):
            out[word, k] = log_gamma_variate(fold_in(word_key, k), shapes[k])


@njit(cache=True, nogil=True)
def _sum_block(first, last, log_weights, out_largest, out_sums):
    """Largest log weight of each topic among the block's words, and the sum of the weights divided by it."""
    out_largest[:] = -np.inf
    out_sums[:] = 0.0
    for word in range(first, last):
        for k in range(log_weights.shape[1]):
            out_largest[k] = max(out_largest[k], np.float64(log_weights[word, k]))
    n_topics = log_weights.shape[1]
    below, powers, weights = np.empty(n_topics), np.empty(n_topics), np.empty(n_topics)
    for word in range(first, last):
        for k in range(n_topics):
            below[k] = np.float64(log_weights[word, k]) - out_largest[k]
        fill_exp(n_topics, below, powers, weights)
        for k in range(n_topics):
            out_sums[k] += weights[k]


@njit(cache=True, nogil=True)
def _exponentiate(log_weights, log_normalisers, out):
    """Exponentiate and transpose by tiles, which fit in the cache."""
    n_words, n_components = log_weights.shape
    for begin in range(0, n_words, _TILE):
        end = min(begin + _TILE, n_words)
        for k in range(n_components):
            for word in range(begin, end):
                out[k, word] = np.exp(np.float64(log_weights[word, k]) - log_normalisers[k])
