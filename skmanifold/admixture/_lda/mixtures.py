"""Documents as mixtures over topics: expected counts of topics, for EM and mean-field inference.

The topics of the tokens of a pair (document m, word v) have the probabilities r_mvk = a_mk b_vk / sum_l a_ml b_vl with
weights a of topics in documents and b of topics in words. With the ratios c_mv / sum_l a_ml b_vl, the expected counts
are D_mk = a_mk sum_v ratio_mv b_vk and W_vk = b_vk sum_m ratio_mv a_mk. So memory is one number per pair, not K.

Each output cell is summed by one task in the order of the corpus, so that no result depends on the ranges of the tasks.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ...numerics.reductions import dot
from ...numerics.vector_math import fill_log
from ...random._keys import Purpose, fold_in_each
from ...random._variates import fill_normal
from ...utils._njit import njit
from ...utils._threads import Workers, split_by_task, split_range
from .._tokens.document_gibbs import Documents
from .cvb0_kernels import _merge_partials, _sum_words

_TASK_CELLS = 1 << 19  # topics of pairs that one task weighs, a millisecond or more
_WORD_BLOCK = 1 << 10  # words of one partial sum
_NOISE = 0.1  # standard deviation of the logarithms of initial counts
_LEAST = 1e-300  # in place of a sum that underflows


class Mixtures:
    """The documents, and the division of work between tasks: `row_blocks` are the documents of each."""

    def __init__(self, documents: Documents, n_components: int, workers: Workers):
        self.documents = documents
        self.n_components = n_components
        self.workers = workers
        rows = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(documents.indptr))
        self._word_rows = rows[documents.word_pairs]
        self.row_blocks = self._blocks(documents.indptr)
        self._word_tasks = self._blocks(documents.word_indptr)

    @property
    def n_rows(self) -> int:
        """Number of documents."""
        return len(self.documents.indptr) - 1

    @cached_property
    def word_totals(self) -> np.ndarray:
        """Number of tokens of each word, (n_words,)."""
        documents = self.documents
        return np.bincount(documents.pair_word, documents.pair_count, len(documents.words))

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each document, (n_rows,) float64."""
        return np.diff(self.documents.token_start).astype(np.float64)

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Start of each document's pairs, and word and count of each pair."""
        return self.documents[:3]

    def _blocks(self, indptr: np.ndarray) -> list[tuple[int, int]]:
        return split_by_task(indptr[:-1] * self.n_components // _TASK_CELLS)

    def draw_counts(self, key: np.uint64) -> tuple[np.ndarray, np.ndarray]:
        """Initial counts of topics in words, (n_words, K), and in documents, (n_rows, K).

        All topics have the frequencies of the corpus, with noise, and all documents equal shares, so that they differ
        by their words alone. This separates topics better than random topics of tokens, and than noise alone, where one
        topic that learns the frequencies explains all documents.
        """
        word_topic = np.empty((len(self.word_totals), self.n_components))
        fill_normal(fold_in_each(key, self.documents.words), Purpose.NOISE, word_topic)
        np.exp(_NOISE * word_topic, out=word_topic)
        word_topic *= self.word_totals[:, np.newaxis] / self.n_components
        return word_topic, self.equal_shares()

    def equal_shares(self) -> np.ndarray:
        """Counts of topics in documents, (n_rows, K), the same for all topics."""
        return np.repeat(self.lengths[:, np.newaxis] / self.n_components, self.n_components, axis=1)

    def count_words(
        self, ratios: np.ndarray, doc_weights: np.ndarray, word_weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected counts of words in topics, (n_words, K), and their sums over words, (K,)."""
        documents = self.documents
        word_topic = np.empty((len(documents.words), self.n_components))
        shared = documents.word_indptr, documents.word_pairs, self._word_rows, ratios, doc_weights, word_weights
        self.workers.run(count_words, [(*words, *shared, word_topic) for words in self._word_tasks])
        return word_topic, self.sum_words(word_topic)

    def sum_words(self, word_topic: np.ndarray) -> np.ndarray:
        """Sums over words, (K,), in fixed blocks."""
        blocks = split_range(len(word_topic), _WORD_BLOCK)
        partials, totals = np.empty((len(blocks), self.n_components)), np.empty(self.n_components)
        tasks = [(*words, word_topic, partial) for words, partial in zip(blocks, partials, strict=True)]
        self.workers.run(_sum_words, tasks)
        _merge_partials(partials, totals)
        return totals


@njit(cache=True, nogil=True)
def weigh_row(start, stop, pair_word, pair_count, doc_weights, word_weights, out_ratios, out_doc_topic):
    """Ratios and D of the document with the pairs from `start` to `stop`; return sum_v c_v log sum_k a_k b_vk."""
    out_doc_topic[:] = 0.0
    value = 0.0
    for j in range(start, stop):
        weights = word_weights[pair_word[j]]
        mixed = max(dot(doc_weights, weights), _LEAST)
        ratio = pair_count[j] / mixed
        out_ratios[j] = ratio
        value += pair_count[j] * math.log(mixed)
        for k in range(len(out_doc_topic)):
            out_doc_topic[k] += ratio * weights[k]
    for k in range(len(out_doc_topic)):
        out_doc_topic[k] *= doc_weights[k]
    return value


@njit(cache=True, nogil=True)
def weigh_rows(
    start, stop, indptr, pair_word, pair_count, doc_weights, word_weights, out_ratios, out_doc_topic, out_values
):
    """The same for the documents from `start` to `stop`."""
    for row in range(start, stop):
        out_values[row] = weigh_row(
            indptr[row],
            indptr[row + 1],
            pair_word,
            pair_count,
            doc_weights[row],
            word_weights,
            out_ratios,
            out_doc_topic[row],
        )


@njit(cache=True, nogil=True)
def count_words(start, stop, word_indptr, word_pairs, word_rows, ratios, doc_weights, word_weights, out_word_topic):
    """W for the words from `start` to `stop`; `word_rows` are the documents of the pairs in `word_pairs`."""
    for word in range(start, stop):
        out = out_word_topic[word]
        out[:] = 0.0
        for i in range(word_indptr[word], word_indptr[word + 1]):
            ratio = ratios[word_pairs[i]]
            weights = doc_weights[word_rows[i]]
            for k in range(len(out)):
                out[k] += ratio * weights[k]
        for k in range(len(out)):
            out[k] *= word_weights[word, k]


@njit(cache=True, nogil=True)
def sum_logs(start, stop, counts, prior, row_stride, column_stride, probabilities):
    """Sum of (count + prior) log(probability) over the cells of the rows from `start` to `stop`."""
    n = counts.shape[1]
    powers, fractions, logs = np.empty(n), np.empty(n), np.empty(n)
    value = 0.0
    for row in range(start, stop):
        fill_log(n, probabilities[row], powers, fractions, logs)
        of_row = 0.0
        for k in range(n):
            of_row += (counts[row, k] + prior[row * row_stride + k * column_stride]) * logs[k]
        value += of_row
    return value
