"""Kernels of ESCA for latent Dirichlet allocation: exact draws given the counts of the previous pass, and their counts.

A token of word v in document m takes topic k with probability proportional to (D_mk + alpha_k) p(v | k), where
p(v | k) = weights_vk + base_v inverse_k is ``TopicWord`` (Zaheer et al. 2016, (20)). Multiplied out, it is a sum of
four parts, each sampled by inverse CDF: D weights (sparse: a scan of the document's topics), alpha weights (one
running sum per word), base D inverse (one number per document) and base alpha inverse (one running sum in total).

If tokens are excluded from their own counts, only the weight of a token's previous topic is smaller. A draw of this
topic is then accepted with the ratio of the two weights as its probability, and otherwise repeated.
"""

import math

import numpy as np

from ...numerics.simd import LANES, prefetch
from ...random._discrete_variates import first_above
from ...random._keys import fold_in, random_bits, uniform
from ...utils._njit import njit
from .layout import MAX_ENTRY_COUNT, entry_count, entry_topic, find_in_scan, make_entry, scan_row
from .topic_counts import close_list

_WORD_BITS = np.uint64(32)
_JUST_BELOW = np.float32(1 - 2**-23)  # factor that reduces a float32 by at most two units in the last place
_SMALLEST, _LARGEST = 1e-150, 1e150  # bound of products of totals, so that one more factor fits into float64
_COUNTER_BITS = 32  # of a token's occurrence, above those the number of the draw
_ROUNDING = 1e-6  # relative, of a count that was stored in float32
_MOST_REPEATS = 8  # of a draw that is not accepted; then all weights are computed
_AHEAD_OF_COUNTS = 12  # ranges between the prefetch of the topics of their tokens and the counting of these
_AHEAD = 6  # pairs between the prefetch of a document's topics and their use; 1 to 20 are equally fast


@njit(cache=True)
def _pair_key(key, row, word):
    """The stream of one (document, word) pair; its counter is the occurrence."""
    return fold_in(key, (np.uint64(row) << _WORD_BITS) | np.uint64(word))


@njit(cache=True, nogil=True)
def _draw_uniform_topics(block, layout, latents, row_offset, seed_topics, key):
    """Topics at random, each equally likely, for the tokens of one block; a seed word has its own topic."""
    segment_word, segment_pairs, segment_tokens = layout.segment_word, layout.segment_pairs, layout.segment_tokens
    pair_row, pair_count, out = layout.pair_row, layout.pair_count, latents.token_topics
    n_components, first_row = np.uint64(latents.cell_topics.shape[1]), row_offset + layout.block_rows[block]
    first_segment, stop_segment = layout.block_segments[block], layout.block_segments[block + 1]
    token = segment_tokens[first_segment]
    for segment in range(first_segment, stop_segment):
        seed_topic = seed_topics[segment_word[segment]]
        if seed_topic >= 0:
            out[token : segment_tokens[segment + 1]] = seed_topic
            token = segment_tokens[segment + 1]
            continue
        for pair in range(segment_pairs[segment], segment_pairs[segment + 1]):
            stream = _pair_key(key, first_row + np.int64(pair_row[pair]), segment_word[segment])
            for occurrence in range(pair_count[pair]):
                high = random_bits(stream, occurrence) >> _WORD_BITS
                out[token] = (high * n_components) >> _WORD_BITS
                token += 1


@njit(cache=True, nogil=True)
def _sample_block(
    block, layout, latents, position, prior, prior_sums, row_offset, key, excludes_self, out_log_likelihood
):
    """Draw the topic of every token of one block, given topics of the type `TopicWord`.

    `prior_sums` are running sums of alpha_k inverse_k. A row's log likelihood sums log sum_k (D_k + alpha_k) p(v | k)
    over its tokens. With `excludes_self` the counts for a token exclude it, and the topics of the tokens must be those
    of the counts.
    """
    segment_word, segment_pairs, segment_tokens = layout.segment_word, layout.segment_pairs, layout.segment_tokens
    pair_row, pair_count = layout.pair_row, layout.pair_count
    word_start, topics, weights, base, inverse = position
    first_segment, stop_segment = layout.block_segments[block], layout.block_segments[block + 1]
    first, stop = layout.block_rows[block], layout.block_rows[block + 1]
    first_row, row_start = row_offset + first, layout.row_start[first:stop]
    row_vectors, entries, out_topics = latents.row_vectors[first:stop], latents.entries, latents.token_topics
    out_log_likelihood = out_log_likelihood[first:stop]
    n_rows, n_components = len(row_vectors), len(inverse)
    scores = np.zeros(n_components, np.float32)
    sums = np.empty(max(1, row_vectors.max()) * LANES, np.float32)
    lanes = np.empty(LANES, np.float32)
    word_sums = np.empty(n_components + 1, np.float64)
    weights_of_all = np.empty(n_components, np.float64)
    lengths = 1.0 / inverse
    row_inverse = np.empty(n_rows, np.float64)
    products = np.ones(n_rows, np.float64)
    # The part base D inverse: sum_k D_k inverse_k of a document serves all of its words.
    for row in range(n_rows):
        total = 0.0
        for j in range(row_start[row], row_start[row] + row_vectors[row] * LANES):
            total += np.float64(entry_count(entries[j])) * inverse[entry_topic(entries[j])]
        row_inverse[row] = total
        out_log_likelihood[row] = 0.0
    prior_total = prior_sums[n_components - 1]
    token = segment_tokens[first_segment]
    last_pair = segment_pairs[stop_segment] - 1

    for segment in range(first_segment, stop_segment):
        # A dense copy of the word's weights, for the scans of the documents, and running sums of alpha weights.
        word = segment_word[segment]
        begin, end = word_start[word], word_start[word + 1]
        word_total = 0.0
        for j in range(begin, end):
            topic = np.uint64(topics[j])
            scores[topic] = weights[j]
            word_total += np.float64(weights[j]) * prior[topic]
            word_sums[j - begin] = word_total
        word_base = base[word]

        for pair in range(segment_pairs[segment], segment_pairs[segment + 1]):
            doc = np.uint64(pair_row[pair])
            # The entries of a later document are fetched from memory while this one is drawn.
            prefetch(entries, row_start[np.uint64(pair_row[min(pair + _AHEAD, last_pair)])])
            row_begin, n_vectors = row_start[doc], row_vectors[doc]
            # Running totals of the four parts: D weights, alpha weights, base D inverse, base alpha inverse.
            row_total = np.float64(scan_row(entries, row_begin, n_vectors, scores, sums, lanes))
            upto_word = row_total + word_total
            upto_row_base = upto_word + word_base * row_inverse[doc]
            total = upto_row_base + word_base * prior_total
            stream = _pair_key(key, first_row + np.int64(doc), word)
            product = products[doc]
            for occurrence in range(pair_count[pair]):
                # The log likelihood sums logs of totals; a product in the range of float64 saves most of them.
                product *= total
                if not _SMALLEST < product < _LARGEST:
                    out_log_likelihood[doc] += math.log(product)
                    product = 1.0
                # One uniform selects the part, and what is left of it the topic within the part.
                value = uniform(stream, occurrence) * total
                previous = np.uint64(out_topics[token])
                in_entry, n_draws = np.uint32(0), 0
                while True:
                    if value < row_total:
                        # The value rounded to 32 bits may equal the last sum: keep it smaller.
                        target = min(np.float32(value), np.float32(row_total) * _JUST_BELOW)
                        entry = entries[row_begin + find_in_scan(sums, lanes, n_vectors, target)]
                        chosen, in_entry = entry_topic(entry), entry_count(entry)
                    elif value < upto_word:
                        chosen = np.uint64(topics[begin + first_above(word_sums, end - begin, value - row_total)])
                    elif value < upto_row_base:
                        # Rarely drawn if beta is small: a plain scan of the document's topics suffices.
                        rest = (value - upto_word) / word_base
                        chosen = np.uint64(0)
                        for j in range(row_begin, row_begin + n_vectors * LANES):
                            if entry_count(entries[j]) > 0:
                                chosen = entry_topic(entries[j])
                                rest -= np.float64(entry_count(entries[j])) * inverse[chosen]
                                if rest < 0.0:
                                    break
                    else:
                        chosen = np.uint64(first_above(prior_sums, n_components, (value - upto_row_base) / word_base))
                    # Without the token only the weight of its previous topic is smaller: another topic stands.
                    if not excludes_self or chosen != previous:
                        break
                    # The previous topic is accepted with the ratio of its weights without and with the token.
                    if n_draws == 0:
                        if not 0 < in_entry < MAX_ENTRY_COUNT:  # of a topic with several entries, or not known
                            in_entry = row_count(entries, row_begin, n_vectors, previous)
                        in_row = np.float64(in_entry) + prior[previous]
                        in_word = np.float64(scores[previous]) * lengths[previous]
                    n_draws += 1
                    # Below this number, the ratio of the weights need not be computed: it is larger.
                    height = uniform(stream, (2 * n_draws << _COUNTER_BITS) + occurrence)
                    if height * in_row * in_word < in_row * in_word - in_row - in_word:
                        break
                    kept = share_without_one(in_row, in_word, word_base, inverse[previous])
                    if height < kept:
                        break
                    again = uniform(stream, (2 * n_draws + 1 << _COUNTER_BITS) + occurrence)
                    value = again * total
                    # This topic has nearly all of the weight: draw once more, from all weights with the reduced one.
                    if n_draws == _MOST_REPEATS:
                        for k in range(n_components):
                            weights_of_all[k] = prior[k] * (np.float64(scores[k]) + word_base * inverse[k])
                        for j in range(row_begin, row_begin + n_vectors * LANES):
                            topic = entry_topic(entries[j])
                            probability = np.float64(scores[topic]) + word_base * inverse[topic]
                            weights_of_all[topic] += np.float64(entry_count(entries[j])) * probability
                        weights_of_all[previous] *= kept
                        chosen = _draw_in_proportion(weights_of_all, again, previous)
                        break
                out_topics[token] = chosen
                token += 1
            products[doc] = product
        # Clear the entries of this word only: the next word may have few topics of many.
        for j in range(begin, end):
            scores[np.uint64(topics[j])] = np.float32(0)
    for row in range(n_rows):
        out_log_likelihood[row] += math.log(products[row])


@njit(cache=True)
def row_count(entries, start, n_vectors, topic):
    """How many tokens of a row have a topic."""
    total = np.uint32(0)
    for j in range(start, start + n_vectors * LANES):
        total += entry_count(entries[j]) if entry_topic(entries[j]) == topic else np.uint32(0)
    return np.uint32(total)


@njit(cache=True)
def share_without_one(in_row, in_word, base, inverse):
    """The weight of a topic without one of its tokens, divided by that with it: a number from 0 to 1.

    `in_row` is D + alpha, `in_word` W plus the part of beta beyond `base`, in float32, `inverse` 1 / (T + sum beta).
    """
    whole = np.rint(in_word)
    if abs(in_word - whole) < _ROUNDING * whole:  # otherwise the error could exceed a tiny beta
        in_word = whole
    without = max(in_row - 1.0, 0.0) * (max(in_word - 1.0, 0.0) + base) / (1.0 - inverse)
    return min(without / (in_row * (in_word + base)), 1.0)


@njit(cache=True)
def _draw_in_proportion(weights, value, otherwise):
    """The index that an inverse-CDF draw with a value in [0, 1) picks; `otherwise` if all weights are zero."""
    total = 0.0
    for k in range(len(weights)):
        total += weights[k]
    chosen = otherwise
    rest = value * total
    for k in range(len(weights)):
        if weights[k] > 0.0:
            chosen = np.uint64(k)
            rest -= weights[k]
            if rest < 0.0:
                break
    return chosen


@njit(cache=True, nogil=True)
def _count_rows(block, layout, latents):
    """Rebuild the entries of one block's rows from the topics of its tokens and large cells.

    Topics are in order of first occurrence in the row's words, ascending, those of large cells last, for any blocks.
    """
    segment_pairs, segment_cells = layout.segment_pairs, layout.segment_cells
    pair_row, pair_count, cell_row, cell_count = layout.pair_row, layout.pair_count, layout.cell_row, layout.cell_count
    token_topics, cell_topics, out_entries = latents.token_topics, latents.cell_topics, latents.entries
    first_segment, stop_segment = layout.block_segments[block], layout.block_segments[block + 1]
    first, stop = layout.block_rows[block], layout.block_rows[block + 1]
    row_tokens, row_start = layout.row_tokens[first:stop], layout.row_start[first:stop]
    out_row_vectors, n_components = latents.row_vectors[first:stop], cell_topics.shape[1]
    n_rows = len(row_tokens)
    first_cell, stop_cell = segment_cells[first_segment], segment_cells[stop_segment]
    n_single = row_tokens.copy()
    row_cell = np.full(n_rows, -1, np.int64)  # head of each row's linked list
    next_cell = np.empty(stop_cell - first_cell, np.int64)
    # From the last cell to the first, so that each list is in ascending order.
    for cell in range(stop_cell - 1, first_cell - 1, -1):
        of_row = np.int64(cell_row[cell])
        n_single[of_row] -= cell_count[cell]
        next_cell[cell - first_cell] = row_cell[of_row]
        row_cell[of_row] = cell
    # Tokens are in the order of words: a counting sort brings their topics into the order of rows.
    cursor = np.empty(n_rows, np.int64)
    place = 0
    for row in range(n_rows):
        cursor[row] = place
        place += n_single[row]
    by_row = np.empty(place, np.uint16)
    token = layout.segment_tokens[first_segment]
    for pair in range(segment_pairs[first_segment], segment_pairs[stop_segment]):
        doc = np.uint64(pair_row[pair])
        place = cursor[doc]
        for _ in range(pair_count[pair]):
            by_row[place] = token_topics[token]
            place += 1
            token += 1
        cursor[doc] = place
    # Count each row's topics in the order in which they occur.
    counts = np.zeros(n_components, np.uint32)
    found = np.empty(n_components + 1, np.uint16)
    place = 0
    for row in range(n_rows):
        n_found = _add_topics(place, place + n_single[row], by_row, counts, found, 0)
        place += n_single[row]
        cell = row_cell[row]
        while cell >= 0:
            n_found = _add_cell(cell_topics[cell], counts, found, n_found)
            cell = next_cell[cell - first_cell]
        end = row_start[row]
        for i in range(n_found):
            label = np.uint32(found[i])
            count = counts[np.uint64(label)]
            counts[np.uint64(label)] = 0
            # An entry has few bits for its count: larger counts take several entries of the same topic.
            while count > MAX_ENTRY_COUNT:
                out_entries[end] = make_entry(MAX_ENTRY_COUNT, label)
                end += 1
                count -= MAX_ENTRY_COUNT
            out_entries[end] = make_entry(count, label)
            end += 1
        n_vectors = (end - row_start[row] + LANES - 1) // LANES
        for j in range(end, row_start[row] + n_vectors * LANES):
            out_entries[j] = entry_topic(out_entries[end - 1])  # count 0; if rounding selects it, it is the last topic
        out_row_vectors[row] = n_vectors


@njit(cache=True)
def _add_cell(counts_of_cell, counts, found, end):
    """Add the topic counts of a large cell to `counts`, and append new topics to the list from `end` on."""
    for topic in range(len(counts_of_cell)):
        if counts_of_cell[topic] > 0:
            found[end] = topic  # overwritten unless new
            end += counts[topic] == 0
            counts[topic] += counts.dtype.type(counts_of_cell[topic])
    return end


@njit(cache=True, nogil=True)
def count_words(first_word, stop_word, word_start, word_ranges, range_start, topics_of_tokens, n_kept, cells, scratch):
    """Topics of the tokens of some words: lengths of the words' lists, topics, counts, and totals of the topics.

    The tokens of a word are those from ``range_start[r]`` to ``range_start[r + 1]`` for each of its ranges r, and each
    token has `n_kept` topics. `cells` is a layout with its `cell_topics`, or None without large cells. `scratch` has a
    zero for each topic, of the counts' type. The topics of a word are in order of first occurrence.
    """
    n_components = len(scratch)
    # A word has at most as many topics as tokens; each of its large cells may have all.
    capacity = 0
    for word in range(first_word, stop_word):
        n = 0
        if cells is not None:
            n += n_components * cells[0].word_cells[word]
        for i in range(word_start[word], word_start[word + 1]):
            n += (range_start[word_ranges[i] + 1] - range_start[word_ranges[i]]) * n_kept
        capacity += min(n, n_components)
    topics = np.empty(capacity + 1, np.uint16)
    counts = np.empty(capacity, scratch.dtype)
    n_topics = np.empty(stop_word - first_word, np.int64)
    totals = np.zeros(n_components, np.int64)
    last = len(word_ranges) - 1
    end = 0
    for word in range(first_word, stop_word):
        begin, stop = end, word_start[word + 1]
        if cells is not None:  # noqa: SIM102 - numba leaves out a branch of this form for None
            if cells[0].word_cells[word] > 0:
                end = _count_with_cells(word, *cells, topics_of_tokens, scratch, topics, end)
                stop = word_start[word]
        for i in range(word_start[word], stop):
            prefetch(range_start, word_ranges[min(i + 2 * _AHEAD_OF_COUNTS, last)])
            prefetch(topics_of_tokens, n_kept * range_start[word_ranges[min(i + _AHEAD_OF_COUNTS, last)]])
            first_topic, stop_topic = range_start[word_ranges[i]] * n_kept, range_start[word_ranges[i] + 1] * n_kept
            end = _add_topics(first_topic, stop_topic, topics_of_tokens, scratch, topics, end)
        close_list(begin, end, topics, scratch, counts, totals)
        n_topics[word - first_word] = end - begin
    return n_topics, topics[:end].copy(), counts[:end].copy(), totals


@njit(cache=True)
def _add_topics(first, stop, topics_of_tokens, counts, found, end):
    """Add the topics of tokens to `counts`, and append new topics to the list from `end` on."""
    for token in range(first, stop):
        topic = np.uint64(topics_of_tokens[token])
        found[end] = topic  # overwritten unless new, without a branch
        end += counts[topic] == 0
        counts[topic] += counts.dtype.type(1)
    return end


@njit(cache=True)
def _count_with_cells(word, layout, cell_topics, token_topics, counts, found, end):
    """The same for all tokens of a word in ESCA's order; a pair without tokens stands for a large cell."""
    for segment in layout.word_segments[layout.word_start[word] : layout.word_start[word + 1]]:
        token, cell = layout.segment_tokens[segment], layout.segment_cells[segment]
        for pair in range(layout.segment_pairs[segment], layout.segment_pairs[segment + 1]):
            if layout.pair_count[pair] == 0:
                end = _add_cell(cell_topics[cell], counts, found, end)
                cell += 1
            end = _add_topics(token, token + layout.pair_count[pair], token_topics, counts, found, end)
            token += layout.pair_count[pair]
    return end
