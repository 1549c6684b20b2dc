"""Gibbs sampling of the tokens' topics within documents, given the topics: kernels over arrays.

A token of word v in document m takes topic k with probability proportional to (D_mk + alpha_k) p(v | k), where D
does not count the token itself. Tokens are drawn one after the other. The sum is split in two: D p over the *blocks* of
sixteen topics that the document uses, multiplied and summed block by block, and alpha p, whose running sums over blocks
are tabulated for each word. One uniform and the inverse CDF select from both.

A draw depends on the previous draw in its document, and much of it is a chain of dependent operations. Documents do
not depend on each other: a few are sampled concurrently, one token of each in turn, so that their chains overlap. Each
of these documents has a *slot*: a record of numbers, and a part of each of these arrays::

    counts     | slot 0: block 0 of 16 topics | block 1 | ... | block n_blocks - 1 | slot 1: block 0 | ...
    listed     | slot 0: numbers of the n_listed blocks in use | room for the others | slot 1: ...
    is_listed  | slot 0: for each of n_blocks, whether it is in the list | slot 1: ...
    sums       | slot 0: 16 running sums after the first listed block | ... after the last | inf ... | slot 1: ...
    lanes      | slot 0: 16 sums across the lanes of the last of these | slot 1: ...

``sums`` has space for whole groups of blocks, which are searched together; the search stops before infinite sums.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...numerics.simd import LANES, prefetch
from ...random._keys import fold_in, uniform
from ...utils._njit import njit, njit_inlined, njit_part
from .block_scan import GROUP, find_in_block, find_in_blocks, scan_blocks

_N_SLOTS = 4  # documents sampled concurrently; 2 or 8 were not faster
_AHEAD = 2  # tokens between the prefetch of a word's scores and their use; 1 to 5 are equally fast
_SMALLEST, _LARGEST = 1e-150, 1e150  # bound of products of totals, so that one more factor fits into float64
_LANE_BITS, _LANE_MASK = 4, LANES - 1  # a topic's number is 16 times its block plus its lane
_index = np.uint64  # type of non-negative indices, which saves numba's test for negative ones

_SLOT = np.dtype(
    [
        ("first_cell", np.int64),  # start of the slot's part of `counts`, ...
        ("first_block", np.int64),  # ... of `listed` and `is_listed`, ...
        ("first_sum", np.int64),  # ... of `sums` ...
        ("first_lane", np.int64),  # ... and of `lanes`
        ("row", np.int64),
        ("start", np.int64),  # the document's first token, ...
        ("stop", np.int64),  # ... the end of its tokens ...
        ("cursor", np.int64),  # ... and the one to draw, counted from the task's first token
        ("sweep", np.int64),
        ("n_taken_out", np.int64),  # count of a token before it is drawn: 1, or 0 if it has no topic yet
        ("n_listed", np.int64),  # number of blocks in use
        ("stream", np.uint64),  # key of the sweep's uniforms
        ("constant", np.float64),  # part of the log likelihood that does not depend on the draws
        ("log_total", np.float64),  # of this sweep: sum of log totals, except for the factors of ...
        ("product", np.float64),  # ... this product of totals, which saves logarithms
        ("count_total", np.float64),  # for the token to draw: sum of counts times scores, ...
        ("value", np.float64),  # ... and the uniform times the sum of all weights
    ],
    align=True,
)


class DocumentPrior(NamedTuple):
    """Dirichlet parameters of the documents' proportions."""

    alpha: np.ndarray  # (16 n_blocks,) float64, zeros behind the last topic
    total: float


class Guards(NamedTuple):
    """A token of each topic that stays where it is, so that no topic loses its last token.

    The guard of a topic is its token of least random priority. A token moves only to topics whose guard has a smaller
    priority. Such moves do not change the guards, so that the same moves are possible before and after a sweep, which
    its balance needs.
    """

    least: np.ndarray  # (16 n_blocks,) float64: the least priority of each topic; (0,) if all moves are allowed
    key: np.uint64  # stream of the priorities, by token of the whole corpus
    first_token: int  # number of the first token of these documents in the whole corpus


class Sweeps(NamedTuple):
    """The sweeps of one call."""

    first: int
    first_kept: int  # first kept sweep
    stop: int
    fresh: bool  # whether tokens of the first sweep are drawn given only the previous ones


class _Arrays(NamedTuple):
    """The arrays of the slots, see the diagram above."""

    counts: np.ndarray  # int32
    listed: np.ndarray  # int32
    is_listed: np.ndarray  # uint8
    sums: np.ndarray  # float32
    lanes: np.ndarray  # float32


class _Task(NamedTuple):
    """Data common to all slots: the tokens of the task's rows, and the weights of the topics."""

    words: np.ndarray  # int32, of each token
    topics: np.ndarray  # uint16, of each token
    scores: np.ndarray  # as in a `WordTable`, flattened
    prior_sums: np.ndarray  # the same
    alpha: np.ndarray
    n_blocks: int
    guards: Guards
    first_token: int


@njit(cache=True, nogil=True)
def _sample_rows(
    first_row,
    stop_row,
    documents,
    table,
    prior,
    guards,
    row_keys,
    sweeps,
    token_topics,
    out_history,
    out_log_likelihood,
):
    """Make the sweeps over each of a range of rows, with a stream for each in `row_keys`.

    `token_topics`, uint16, is read and written. `out_history`, (n_tokens * n_kept,) unless it is empty, gets the topics
    of kept sweeps, token by token; each kept sweep adds the log likelihoods of rows to `out_log_likelihood`.
    """
    indptr, token_start = documents.indptr, documents.token_start
    pair_word, pair_count, log_scale = documents.pair_word, documents.pair_count, table.log_scale
    first_token, stop_token = token_start[first_row], token_start[stop_row]
    n_kept = sweeps.stop - sweeps.first_kept
    history = out_history[n_kept * first_token :]
    words, topics = np.empty(stop_token - first_token, np.int32), token_topics[first_token:stop_token]
    n_blocks = len(prior.alpha) // LANES
    scores, prior_sums = table.scores.reshape(-1), table.prior_sums.reshape(-1)
    task = _Task(words, topics, scores, prior_sums, prior.alpha, n_blocks, guards, first_token)
    slots, arrays = _make_slots(n_blocks)
    order = np.arange(_N_SLOTS)  # indices of the slots; the first n_filled have a document
    n_filled = 0
    next_row = first_row
    while next_row < stop_row or n_filled > 0:
        # Fill free slots with the next documents that have tokens.
        while n_filled < _N_SLOTS and next_row < stop_row:
            row = next_row
            next_row += 1
            n_tokens = token_start[row + 1] - token_start[row]
            if n_tokens == 0:
                continue
            slot = slots[order[n_filled]]
            n_filled += 1
            slot["row"], slot["sweep"] = row, sweeps.first
            slot["start"], slot["stop"] = token_start[row] - first_token, token_start[row + 1] - first_token
            # Each token's probabilities have the denominator n - 1 + sum alpha.
            slot["constant"] = -n_tokens * math.log(n_tokens - 1 + prior.total)
            slot["n_listed"], slot["n_taken_out"] = 0, 0
            _list_words(slot, task, indptr[row], indptr[row + 1], pair_word, pair_count, log_scale)
            if not sweeps.fresh:
                _count_topics(slot, arrays, task)
            _begin_sweep(slot, arrays, task, row_keys)

        # First weigh one token of each slot, then draw these tokens: operations of different slots do not wait for each
        # other. Backwards, because a finished slot changes places with the last one.
        for i in range(n_filled - 1, -1, -1):
            _weigh_topics(slots[_index(order[_index(i)])], arrays, task, sweeps.first)

        for i in range(n_filled - 1, -1, -1):
            slot = slots[_index(order[_index(i)])]
            _draw_topic(slot, arrays, task)
            if slot["cursor"] == slot["stop"]:
                _keep_sweep(slot, topics, slot["sweep"] - sweeps.first_kept, n_kept, history, out_log_likelihood)
                _end_sweep(slot, arrays, task, sweeps.stop)
                if slot["sweep"] == sweeps.stop:
                    n_filled -= 1
                    order[i], order[n_filled] = order[n_filled], order[i]
                else:
                    _begin_sweep(slot, arrays, task, row_keys)


@njit(cache=True)
def _make_slots(n_blocks):
    """Slots without documents, and their arrays."""
    depth = (n_blocks + GROUP - 1) // GROUP * GROUP  # number of blocks for which a slot's sums have space
    slots = np.zeros(_N_SLOTS, _SLOT)
    for number in range(_N_SLOTS):
        slot = slots[number]
        slot["first_cell"], slot["first_block"] = number * n_blocks * LANES, number * n_blocks
        slot["first_sum"], slot["first_lane"] = number * depth * LANES, number * LANES
    return slots, _Arrays(
        _by_cache_line(np.zeros((_N_SLOTS * n_blocks + 1) * LANES, np.int32)),
        np.zeros(_N_SLOTS * n_blocks, np.int32),
        np.zeros(_N_SLOTS * n_blocks, np.uint8),
        _by_cache_line(np.full((_N_SLOTS * depth + 1) * LANES, np.inf, np.float32)),
        _by_cache_line(np.empty((_N_SLOTS + 1) * LANES, np.float32)),
    )


@njit(cache=True)
def _by_cache_line(array):
    """A view of an array of four-byte items aligned to 64 bytes, so that vectors do not cross cache lines."""
    return array[-(array.ctypes.data // 4) % LANES :]


@njit_part
def _list_words(slot, task, first_pair, stop_pair, pair_word, pair_count, log_scale):
    """Write the words of a document's tokens; add the logs of the divisors of their scores to its constant."""
    token, constant = slot["start"], slot["constant"]
    for pair in range(first_pair, stop_pair):
        word = pair_word[pair]
        constant += pair_count[pair] * log_scale[word]
        for _ in range(pair_count[pair]):
            task.words[token] = word
            token += 1
    slot["constant"] = constant


@njit_part
def _count_topics(slot, arrays, task):
    """Count the topics of the tokens of a document, and list their blocks."""
    first_cell, first_block = slot["first_cell"], slot["first_block"]
    n_listed = 0
    for token in range(slot["start"], slot["stop"]):
        topic = np.int64(task.topics[token])
        arrays.counts[first_cell + topic] += 1
        block = topic >> _LANE_BITS
        if arrays.is_listed[first_block + block] == 0:
            arrays.is_listed[first_block + block] = 1
            arrays.listed[first_block + n_listed] = block
            n_listed += 1
    slot["n_listed"] = _tidy_list(slot, arrays, n_listed)
    slot["n_taken_out"] = 1


@njit_part
def _begin_sweep(slot, arrays, task, row_keys):
    """Go to the first token of a document and remove it from the counts."""
    slot["cursor"] = slot["start"]
    slot["log_total"], slot["product"] = 0.0, 1.0
    slot["stream"] = fold_in(row_keys[slot["row"]], slot["sweep"])
    arrays.counts[slot["first_cell"] + np.int64(task.topics[slot["start"]])] -= np.int32(slot["n_taken_out"])


@njit_inlined
def _weigh_topics(slot, arrays, task, first_sweep):
    """Sum the weights of all topics for one token, draw its uniform, and remove the next token from the counts."""
    counts, listed, sums, lanes = arrays.counts, arrays.listed, arrays.sums, arrays.lanes
    words, scores, prior_sums, n_blocks = task.words, task.scores, task.prior_sums, task.n_blocks
    first_cell, first_block, first_sum, first_lane = _places(slot)
    cursor, stop, n_listed = slot["cursor"], slot["stop"], slot["n_listed"]
    word = np.int64(words[_index(cursor)])
    score = word * n_blocks * LANES
    count_total = np.float64(
        scan_blocks(
            counts, first_cell, listed, first_block, n_listed, scores, score, sums, first_sum, lanes, first_lane
        )
    )
    total = count_total + prior_sums[_index((word + 1) * n_blocks - 1)]
    # The sum of log totals, with few logarithms.
    product = slot["product"] * total
    if not _SMALLEST < product < _LARGEST:
        slot["log_total"] += math.log(slot["product"]) + math.log(total)
        product = 1.0
    slot["product"] = product
    slot["count_total"] = count_total
    # Early, so that the next sum need not wait for it. The counts for this token are already in the sums.
    if cursor + 1 < stop:
        topic = np.int64(task.topics[_index(cursor + 1)])
        counts[_index(first_cell + topic)] -= np.int32(slot["n_taken_out"])
    if slot["sweep"] == first_sweep and cursor + _AHEAD < stop:
        # The document's words are not in the cache before the first sweep.
        ahead = np.int64(words[_index(cursor + _AHEAD)])
        prefetch(prior_sums, (ahead + 1) * n_blocks - 1)
        for j in range(first_block, first_block + n_listed):
            prefetch(scores, (ahead * n_blocks + np.int64(listed[_index(j)])) * LANES)
    slot["value"] = total * uniform(slot["stream"], cursor - slot["start"])


@njit_inlined
def _draw_topic(slot, arrays, task):
    """Draw the topic of one token from its summed weights, count it, and go to the next token."""
    words, scores, prior_sums, alpha, n_blocks = task.words, task.scores, task.prior_sums, task.alpha, task.n_blocks
    first_cell, first_block, first_sum, first_lane = _places(slot)
    cursor, n_listed, value = slot["cursor"], slot["n_listed"], slot["value"]
    topic = np.int64(-1)
    rest = value - slot["count_total"]
    # The part D p: search the running sums over the listed blocks.
    if rest < 0.0:
        place = find_in_blocks(arrays.sums, first_sum, n_listed, arrays.lanes, first_lane, np.float32(value))
        if (place >> _LANE_BITS) < n_listed:
            block = np.int64(arrays.listed[_index(first_block + (place >> _LANE_BITS))])
            topic = block * LANES + (place & _LANE_MASK)
    else:
        # The part alpha p: the word's tabulated running sums over blocks, then the topics of the block.
        word = np.int64(words[_index(cursor)])
        block = np.int64(0)
        for j in range(word * n_blocks, (word + 1) * n_blocks):
            block += prior_sums[_index(j)] <= rest
        if block < n_blocks:
            rest -= prior_sums[_index(word * n_blocks + block - 1)] if block > 0 else 0.0
            first_topic, score = block * LANES, (word * n_blocks + block) * LANES
            lane = find_in_block(alpha, first_topic, scores, score, rest)
            if lane < LANES and scores[_index(score + lane)] > 0.0:
                topic = np.int64(first_topic + lane)
    if topic < 0:  # because of rounding, the value is after all topics or at one of weight zero
        topic = np.int64(_any_topic(alpha, scores, np.int64(words[cursor]) * n_blocks * LANES))
    # A guard stays, and no token moves to a topic whose guard has a larger priority, see `Guards`.
    if len(task.guards.least) > 0:
        least, previous = task.guards.least, np.int64(task.topics[_index(cursor)])
        priority = uniform(task.guards.key, task.guards.first_token + task.first_token + cursor)
        if priority <= least[_index(previous)] or priority < least[_index(topic)]:
            topic = previous
    task.topics[_index(cursor)] = topic
    arrays.counts[_index(first_cell + topic)] += 1
    # A topic in a block that the document did not use adds the block to its list.
    block = topic >> _LANE_BITS
    if arrays.is_listed[_index(first_block + block)] == 0:
        arrays.is_listed[_index(first_block + block)] = 1
        arrays.listed[_index(first_block + n_listed)] = block
        slot["n_listed"] = n_listed + 1
    slot["cursor"] = cursor + 1


@njit_inlined
def _places(slot):
    """Start of a slot's parts of `counts`, of the lists, of `sums` and of `lanes`."""
    return slot["first_cell"], slot["first_block"], slot["first_sum"], slot["first_lane"]


@njit(cache=True)
def _any_topic(alpha, scores, first_score):
    """The last topic in which the word has positive probability."""
    for topic in range(len(alpha) - 1, -1, -1):
        if alpha[topic] * np.float64(scores[first_score + topic]) > 0.0:
            return topic
    return 0


@njit_part
def _keep_sweep(slot, topics, kept, n_kept, out_history, out_log_likelihood):
    """Add a row's log likelihood, and keep its topics, if this is a kept sweep: number `kept` of `n_kept`."""
    if kept < 0:
        return
    out_log_likelihood[slot["row"]] += slot["constant"] + slot["log_total"] + math.log(slot["product"])
    if len(out_history) > 0:
        for token in range(slot["start"], slot["stop"]):
            out_history[token * n_kept + kept] = topics[token]


@njit_part
def _end_sweep(slot, arrays, task, stop_sweep):
    """Clean up a document's list of blocks after a sweep; after the last sweep clear its counts and its list."""
    first_cell, first_sum, n_listed = slot["first_cell"], slot["first_sum"], slot["n_listed"]
    slot["sweep"] += 1
    slot["n_taken_out"] = 1
    if slot["sweep"] == stop_sweep:
        for token in range(slot["start"], slot["stop"]):
            arrays.counts[first_cell + np.int64(task.topics[token])] = 0
    n_left = _tidy_list(slot, arrays, n_listed)
    for j in range(first_sum + n_left * LANES, first_sum + n_listed * LANES):
        arrays.sums[j] = np.inf
    slot["n_listed"] = n_left


@njit_part
def _tidy_list(slot, arrays, n_listed):
    """Remove blocks without counts from a list and sort it, so that a sweep depends on the counts alone.

    Returns the new length.
    """
    counts, listed, is_listed = arrays.counts, arrays.listed, arrays.is_listed
    first_cell, first_block = slot["first_cell"], slot["first_block"]
    n_left = 0
    for i in range(first_block, first_block + n_listed):
        block = listed[i]
        in_use = 0
        for cell in range(first_cell + block * LANES, first_cell + (block + 1) * LANES):
            in_use |= counts[cell]
        is_listed[first_block + block] = in_use != 0
        if in_use:
            place = first_block + n_left
            while place > first_block and listed[place - 1] > block:
                listed[place] = listed[place - 1]
                place -= 1
            listed[place] = block
            n_left += 1
    return n_left
