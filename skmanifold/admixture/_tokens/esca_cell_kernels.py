"""ESCA's draws of large cells: how many of the tokens of one word in one document take each topic, all at once.

Given the topics and the document's counts of the previous pass, these tokens are independent and have the same
probabilities, so that the counts are multinomial: K binomial variates for any number of tokens.
"""

import math

import numpy as np

from ...numerics.simd import LANES
from ...random._discrete_variates import multinomial
from ...random._keys import fold_in
from ...utils._njit import njit
from .esca_kernels import _pair_key, share_without_one
from .layout import entry_count, entry_topic


@njit(cache=True, nogil=True)
def _draw_uniform_cells(block, layout, latents, row_offset, seed_topics, key):
    """Topics at random, each equally likely, for the large cells of one block; a seed word has its own topic."""
    segment_word, segment_cells = layout.segment_word, layout.segment_cells
    cell_row, cell_count, out_cell_topics = layout.cell_row, layout.cell_count, latents.cell_topics
    n_components, first_row = out_cell_topics.shape[1], row_offset + layout.block_rows[block]
    weights, tails = np.ones(n_components), np.empty(n_components)
    for segment in range(layout.block_segments[block], layout.block_segments[block + 1]):
        seed_topic = seed_topics[segment_word[segment]]
        for cell in range(segment_cells[segment], segment_cells[segment + 1]):
            if seed_topic >= 0:
                out_cell_topics[cell] = 0
                out_cell_topics[cell, seed_topic] = cell_count[cell]
                continue
            stream = _pair_key(key, first_row + np.int64(cell_row[cell]), segment_word[segment])
            multinomial(stream, cell_count[cell], weights, tails, out_cell_topics[cell])


@njit(cache=True, nogil=True)
def _sample_cells(block, layout, latents, position, prior, row_offset, key, excludes_self, out_log_likelihood):
    """Draw the topics of the large cells of one block, and add to log likelihoods; arguments as of ``_sample_block``.

    With `excludes_self` the tokens of a cell that have the same previous topic are drawn at once.
    """
    segment_word, segment_cells = layout.segment_word, layout.segment_cells
    cell_row, cell_count, entries = layout.cell_row, layout.cell_count, latents.entries
    out_cell_topics = latents.cell_topics
    word_start, topics, weights, base, inverse = position
    first_segment, stop_segment = layout.block_segments[block], layout.block_segments[block + 1]
    if segment_cells[first_segment] == segment_cells[stop_segment]:
        return
    first, stop = layout.block_rows[block], layout.block_rows[block + 1]
    first_row, row_start = row_offset + first, layout.row_start[first:stop]
    row_vectors, out_log_likelihood = latents.row_vectors[first:stop], out_log_likelihood[first:stop]
    n_components = len(inverse)
    scores, chances, tails = np.empty(n_components), np.empty(n_components), np.empty(n_components)
    previous, some = np.empty(n_components, np.int32), np.empty(n_components, np.int32)
    for segment in range(first_segment, stop_segment):
        if segment_cells[segment] == segment_cells[segment + 1]:
            continue
        word = segment_word[segment]
        # p(v | k) of all topics: the smooth part, then the weights of the topics that the word has.
        for k in range(n_components):
            scores[k] = base[word] * inverse[k]
        for j in range(word_start[word], word_start[word + 1]):
            scores[np.uint64(topics[j])] += weights[j]
        for cell in range(segment_cells[segment], segment_cells[segment + 1]):
            row = np.int64(cell_row[cell])
            # Times D_k + alpha_k: the probabilities, up to a factor, of the topics of each token of the cell.
            for k in range(n_components):
                chances[k] = prior[k] * scores[k]
            for j in range(row_start[row], row_start[row] + row_vectors[row] * LANES):
                topic = entry_topic(entries[j])
                chances[topic] += np.float64(entry_count(entries[j])) * scores[topic]
            stream = _pair_key(key, first_row + row, word)
            drawn = out_cell_topics[cell]
            if excludes_self:
                for k in range(n_components):
                    previous[k] = drawn[k]
                drawn[:] = 0
                total = 0.0
                # In the order in which `multinomial` sums, so that both forms have the same log likelihood.
                for k in range(n_components - 1, -1, -1):
                    total += chances[k]
                for topic in range(n_components):
                    if previous[topic] > 0:
                        chance = chances[topic]
                        in_word = scores[topic] / inverse[topic] - base[word]
                        chances[topic] *= share_without_one(chance / scores[topic], in_word, base[word], inverse[topic])
                        multinomial(fold_in(stream, topic), previous[topic], chances, tails, some)
                        chances[topic] = chance
                        for k in range(n_components):
                            drawn[k] += some[k]
            else:
                multinomial(stream, cell_count[cell], chances, tails, drawn)
                total = tails[0]
            out_log_likelihood[row] += cell_count[cell] * math.log(total)
