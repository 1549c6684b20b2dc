"""The S step of ESCA without the library's kernels: with all weights of each token, and with alias tables.

Both go through the documents, and draw the topic of each token given the counts of the previous pass, which include
the token. The counts of words in topics are dense. They exist for comparisons; the library's kernels are those of
`LDAModel.sample_latents`.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numba
import numpy as np

from skmanifold.random._keys import fold_in, uniform


class DenseState(NamedTuple):
    """Topics of the tokens by document and word, and the counts of the topics."""

    topics: np.ndarray  # (n_tokens,) uint16
    word_topic: np.ndarray  # (V, K) int32
    totals: np.ndarray  # (K,) int64


def dense_state(model, latents) -> DenseState:
    """The state of a chain of ESCA, as these kernels need it."""
    layout, n_components = model.layout, model.n_components
    segment_block = np.repeat(np.arange(layout.n_blocks), np.diff(layout.block_segments))
    pair_segment = np.repeat(np.arange(len(layout.segment_word)), np.diff(layout.segment_pairs))
    rows = layout.block_rows[segment_block[pair_segment]] + layout.pair_row
    words = layout.segment_word[pair_segment].astype(np.int64)
    of_token = np.repeat(np.arange(len(rows)), layout.pair_count)
    of_cell = np.repeat(np.flatnonzero(layout.pair_count == 0), layout.cell_count)
    in_cells = np.repeat(np.tile(np.arange(n_components), layout.n_cells), latents.cell_topics.ravel())
    pairs = np.concatenate((of_token, of_cell))
    topics = np.concatenate((latents.token_topics, in_cells.astype(np.uint16)))
    order = np.lexsort((words[pairs], rows[pairs]))
    topics, words = topics[order], words[pairs][order]
    word_topic = np.zeros((model.counts.n_features, n_components), np.int32)
    np.add.at(word_topic, (words, topics), 1)
    return DenseState(topics, word_topic, word_topic.sum(axis=0, dtype=np.int64))


def step(kernel, model, state, beta, key) -> DenseState:
    """One S step; the topics of the tokens are overwritten."""
    counts = model.counts
    new = DenseState(state.topics, np.zeros_like(state.word_topic), np.zeros_like(state.totals))
    inverse = 1.0 / (state.totals + beta * counts.n_features)
    corpus = counts.indptr, counts.indices, counts.counts
    kernel(*corpus, state.word_topic, inverse, model.doc_topic_prior, beta, key, *new)
    return new


def seconds_of_tables(model, state, beta):
    """Processor time for the alias tables of a pass."""
    start = time.process_time()
    shape = state.word_topic.shape
    tables = np.empty(shape, np.float32), np.empty(shape, np.uint16), np.empty(shape[0])
    inverse = 1.0 / (state.totals + beta * shape[0])
    make_tables(state.word_topic, inverse, model.doc_topic_prior, beta, *tables)
    return time.process_time() - start


@numba.njit(cache=True)
def plain(indptr, indices, counts, word_topic, inverse, alpha, beta, key, topics, new_word_topic, new_totals):
    """All K weights of each token, and one inverse-CDF draw."""
    n_components = len(alpha)
    doc = np.empty(n_components)
    sums = np.empty(n_components)
    begin = 0
    for row in range(len(indptr) - 1):
        stream = fold_in(key, row)
        doc[:] = alpha
        end = begin
        for pair in range(indptr[row], indptr[row + 1]):
            for _ in range(counts[pair]):
                doc[topics[end]] += 1.0
                end += 1
        for k in range(n_components):
            doc[k] *= inverse[k]
        token = begin
        for pair in range(indptr[row], indptr[row + 1]):
            word = indices[pair]
            for _ in range(counts[pair]):
                total = 0.0
                for k in range(n_components):
                    total += doc[k] * (word_topic[word, k] + beta)
                    sums[k] = total
                value = uniform(stream, token - begin) * total
                chosen = min(np.searchsorted(sums, value, side="right"), n_components - 1)
                topics[token] = chosen
                new_word_topic[word, chosen] += 1
                new_totals[chosen] += 1
                token += 1
        begin = end


@numba.njit(cache=True)
def alias(indptr, indices, counts, word_topic, inverse, alpha, beta, key, topics, new_word_topic, new_totals):
    """The topics of the document by a sum over those that it has; the prior by an alias table of each word."""
    n_words, n_components = word_topic.shape
    shares = np.empty((n_words, n_components), np.float32)
    others = np.empty((n_words, n_components), np.uint16)
    prior_totals = np.empty(n_words)
    make_tables(word_topic, inverse, alpha, beta, shares, others, prior_totals)
    doc = np.zeros(n_components, np.int64)
    found = np.empty(n_components, np.int64)
    amounts = np.empty(n_components)
    sums = np.empty(n_components)
    begin = 0
    for row in range(len(indptr) - 1):
        stream = fold_in(key, row)
        end, n_found = begin, 0
        for pair in range(indptr[row], indptr[row + 1]):
            for _ in range(counts[pair]):
                topic = topics[end]
                if doc[topic] == 0:
                    found[n_found] = topic
                    n_found += 1
                doc[topic] += 1
                end += 1
        for i in range(n_found):
            amounts[i] = doc[found[i]] * inverse[found[i]]
            doc[found[i]] = 0
        token = begin
        for pair in range(indptr[row], indptr[row + 1]):
            word = indices[pair]
            total = 0.0
            for i in range(n_found):
                total += amounts[i] * (word_topic[word, found[i]] + beta)
                sums[i] = total
            for _ in range(counts[pair]):
                value = uniform(stream, 2 * (token - begin)) * (total + prior_totals[word])
                if value < total:
                    i = 0
                    while i < n_found - 1 and sums[i] <= value:
                        i += 1
                    chosen = found[i]
                else:
                    place = uniform(stream, 2 * (token - begin) + 1) * n_components
                    chosen = min(int(place), n_components - 1)
                    if place - chosen >= shares[word, chosen]:
                        chosen = np.int64(others[word, chosen])
                topics[token] = chosen
                new_word_topic[word, chosen] += 1
                new_totals[chosen] += 1
                token += 1
        begin = end


@numba.njit(cache=True)
def make_tables(word_topic, inverse, alpha, beta, shares, others, totals):
    """Vose's tables of alpha_k (W_kv + beta) / (T_k + V beta) for all words: entry k is topic k with its share."""
    n_words, n_components = word_topic.shape
    weights = np.empty(n_components)
    small = np.empty(n_components, np.int64)
    large = np.empty(n_components, np.int64)
    for word in range(n_words):
        total = 0.0
        for k in range(n_components):
            weights[k] = alpha[k] * (word_topic[word, k] + beta) * inverse[k]
            total += weights[k]
        totals[word] = total
        n_small = n_large = 0
        for k in range(n_components):
            weights[k] *= n_components / total
            if weights[k] <= 1.0:
                small[n_small] = k
                n_small += 1
            else:
                large[n_large] = k
                n_large += 1
        while n_small and n_large:
            n_small -= 1
            low, high = small[n_small], large[n_large - 1]
            shares[word, low] = weights[low]
            others[word, low] = high
            weights[high] -= 1.0 - weights[low]
            if weights[high] <= 1.0:
                n_large -= 1
                small[n_small] = high
                n_small += 1
        for i in range(n_small):  # whole entries, up to rounding
            shares[word, small[i]] = 1.0
            others[word, small[i]] = small[i]
        for i in range(n_large):
            shares[word, large[i]] = 1.0
            others[word, large[i]] = large[i]
