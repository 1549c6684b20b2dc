"""Tokens as mixtures over topics: kernels that EM and mean-field inference share.

The topics of the tokens of a pair (document m, word v) have the probabilities r_mvk = a_mk b_vk / sum_l a_ml b_vl with
weights a of topics in documents and b of topics in words. With the ratios c_mv / sum_l a_ml b_vl, the expected counts
are D_mk = a_mk sum_v ratio_mv b_vk and W_vk = b_vk sum_m ratio_mv a_mk. So memory is one number per pair, not K.

Each output cell is summed by one task in the order of the corpus, so that no result depends on the ranges of the tasks.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.reductions import dot
from ...numerics.vector_math import fill_log
from ...utils._njit import njit

_LEAST = 1e-300  # in place of a sum that underflows


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
