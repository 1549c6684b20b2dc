"""Gibbs sampling of the tokens' topics within documents, given the topics: kernels over arrays.

A token of word v in document m takes topic k with probability proportional to (D_mk + alpha_k) p(v | k), D without the
token itself, one token after the other. The sum is split in two: D p over the *blocks* of sixteen topics that the
document has in use, multiplied and summed a block at a time, and alpha p, whose running sums over blocks are tabulated
for each word. Both are drawn from by inverse CDF with one uniform.

A draw waits for the draw before it in its document, and much of it is a chain of dependent operations. Documents do not
wait for each other: a few are sampled side by side, a token of each in turn, so that their chains overlap.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ...numerics.simd import (
    DOUBLES,
    F32,
    FLOATS,
    I32,
    I64,
    INTS,
    LANES,
    ZEROS,
    add_running,
    close_running,
    count_passed,
    lane_of,
    lane_of_reference,
    pointer_to,
    prefetch,
    sum_across,
    sum_across_reference,
    vector_at,
)
from ...random._keys import fold_in, uniform
from ...utils._njit import njit

_SLOTS = 4  # documents sampled side by side
_AHEAD = 2  # tokens between the prefetch of a word's scores and their use
_index = np.uint64  # of an index that is never negative: spares numba's test for it
_ROW, _START, _STOP, _CURSOR, _SWEEP, _KNOWN, _LISTED, _N_FIELDS = range(8)  # what a slot knows, in `state`
_GROUP = 8  # blocks searched at a time


# Sums over a document's blocks


@intrinsic
def _scan_blocks_vector(
    typing_context,
    counts,
    first_cell,
    listed,
    first_block,
    n_listed,
    scores,
    first_score,
    out_sums,
    first_sum,
    out_lanes,
    first_lane,
):
    int64 = types.int64
    signature = types.float32(counts, int64, listed, int64, int64, scores, int64, out_sums, int64, out_lanes, int64)

    def codegen(context, builder, signature, arguments):
        n_listed = arguments[4]
        starts = {i: arguments[i + 1] for i in (0, 2, 5, 7, 9)}
        counts, listed, scores, sums, lanes = (
            pointer_to(context, builder, signature.args[i], arguments[i], start) for i, start in starts.items()
        )
        total = cgutils.alloca_once(builder, FLOATS)
        builder.store(ZEROS, total)
        with cgutils.for_range(builder, n_listed) as loop:
            block = builder.zext(builder.load(builder.gep(listed, [loop.index])), I64)
            cell = builder.mul(block, I64(LANES))
            number = builder.sitofp(builder.load(vector_at(builder, counts, cell, INTS), align=4), FLOATS)
            score = builder.load(vector_at(builder, scores, cell, FLOATS), align=4)
            place = builder.mul(loop.index, I64(LANES))
            add_running(builder, total, builder.fmul(number, score), sums, place)
        return close_running(builder, total, lanes)

    return signature, codegen


@intrinsic
def _find_in_blocks_vector(typing_context, sums, first_sum, n_listed, lanes, first_lane, value):
    signature = types.int64(sums, types.int64, types.int64, lanes, types.int64, types.float32)

    def codegen(context, builder, signature, arguments):
        _, first_sum, n_listed, _, first_lane, value = arguments
        sums = pointer_to(context, builder, signature.args[0], arguments[0], first_sum)
        lanes = pointer_to(context, builder, signature.args[3], arguments[3], first_lane)
        across = builder.load(vector_at(builder, lanes, I64(0), FLOATS), align=4)
        lane, rest = lane_of(builder, across, lanes, value)
        # How many sums of the lane are passed, eight at a time; those behind the list do not count.
        column = builder.gep(sums, [lane])
        found = cgutils.alloca_once(builder, I64)
        builder.store(I64(0), found)
        n_groups = builder.lshr(builder.add(n_listed, I64(_GROUP - 1)), I64(3))
        with cgutils.for_range(builder, n_groups) as loop:
            begin = builder.mul(loop.index, I64(_GROUP))
            group = builder.gep(column, [builder.mul(begin, I64(LANES))])
            eight = ir.Constant(ir.VectorType(F32, _GROUP), ir.Undefined)
            for i in range(_GROUP):
                eight = builder.insert_element(eight, builder.load(builder.gep(group, [I64(i * LANES)])), I32(i))
            n_passed = count_passed(builder, eight, rest)
            builder.store(builder.add(builder.load(found), n_passed), found)
        return builder.add(builder.mul(builder.load(found), I64(LANES)), lane)

    return signature, codegen


@intrinsic
def _find_in_block_vector(typing_context, alpha, first_alpha, scores, first_score, value):
    signature = types.int64(alpha, types.int64, scores, types.int64, types.float64)

    def codegen(context, builder, signature, arguments):
        alpha, scores = (
            pointer_to(context, builder, signature.args[i], arguments[i], arguments[i + 1]) for i in (0, 2)
        )
        zero = I64(0)
        score = builder.fpext(builder.load(vector_at(builder, scores, zero, FLOATS), align=4), DOUBLES)
        weight = builder.fmul(builder.load(vector_at(builder, alpha, zero, DOUBLES), align=8), score)
        sums = sum_across(builder, weight)
        return count_passed(builder, sums, arguments[4])

    return signature, codegen


def _scan_blocks_reference(
    counts, first_cell, listed, first_block, n_listed, scores, first_score, out_sums, first_sum, out_lanes, first_lane
):
    """Running sums of counts times scores down the lanes of the listed blocks, then across; returns the total."""
    total = np.zeros(LANES, np.float32)
    for i in range(n_listed):
        cell = int(listed[first_block + i]) * LANES
        number = counts[first_cell + cell : first_cell + cell + LANES].astype(np.float32)
        total = total + number * scores[first_score + cell : first_score + cell + LANES]
        out_sums[first_sum + i * LANES : first_sum + (i + 1) * LANES] = total
    total = sum_across_reference(total)
    out_lanes[first_lane : first_lane + LANES] = total
    return total[-1]


def _find_in_blocks_reference(sums, first_sum, n_listed, lanes, first_lane, value):
    """Sixteen times the place in the list plus the lane where the running sums exceed `value`.

    Sums down a lane never fall, so that what is found has a positive weight. Where rounding lets none exceed it, the
    place is `n_listed`.
    """
    across = lanes[first_lane : first_lane + LANES]
    lane, rest = lane_of_reference(across, value)
    column = sums[first_sum + lane : first_sum + LANES * n_listed : LANES]
    return lane + LANES * int(np.count_nonzero(column <= rest))


def _find_in_block_reference(alpha, first_alpha, scores, first_score, value):
    """How many running sums of alpha times the scores, over sixteen topics, `value` has reached."""
    sums = alpha[first_alpha : first_alpha + LANES] * scores[first_score : first_score + LANES].astype(np.float64)
    return int(np.count_nonzero(sum_across_reference(sums) <= value))


_VECTORS = (_scan_blocks_vector, _find_in_blocks_vector, _find_in_block_vector)
_REFERENCES = (_scan_blocks_reference, _find_in_blocks_reference, _find_in_block_reference)
_scan_blocks: Any
_find_in_blocks: Any
_find_in_block: Any
_scan_blocks, _find_in_blocks, _find_in_block = _REFERENCES if config.DISABLE_JIT else _VECTORS

# Sampling


@njit(cache=True)
def _by_cache_line(array):
    """A view of an array of four-byte items that begins at a multiple of 64 bytes: no vector straddles two lines."""
    return array[-(array.ctypes.data // 4) % LANES :]


@njit(cache=True, nogil=True)
def _sample_rows(
    first_row,
    stop_row,
    indptr,
    pair_word,
    pair_count,
    token_start,
    alpha,
    alpha_total,
    scores,
    prior_sums,
    log_scale,
    row_keys,
    first_sweep,
    first_kept,
    stop_sweep,
    fresh,
    token_topics,
    out_history,
    out_log_likelihood,
):
    """Sweeps `first_sweep` to `stop_sweep` over each of a range of rows; those from `first_kept` on are kept.

    `fresh`: in the first sweep a token sees only those before it. ``out_history``: if not empty, the topics of the kept
    sweeps, token by token. A row's log likelihood is added to, once for each kept sweep. `scores` is flat.
    """
    width = len(alpha)
    n_blocks = width // LANES
    n_kept = stop_sweep - first_kept
    base = token_start[first_row]
    token_word = np.empty(token_start[stop_row] - base, np.int32)
    # The slots' documents: counts of topics, and the list of the blocks in which there are any
    counts = _by_cache_line(np.zeros(_SLOTS * width + LANES, np.int32))
    listed = np.zeros(_SLOTS * n_blocks, np.int32)
    is_listed = np.zeros(_SLOTS * n_blocks, np.uint8)
    depth = (n_blocks + _GROUP - 1) // _GROUP * _GROUP * LANES  # of a slot's sums; infinite behind the list
    sums = _by_cache_line(np.full(_SLOTS * depth + LANES, np.inf, np.float32))
    lanes = _by_cache_line(np.empty(_SLOTS * LANES + LANES, np.float32))
    state = np.zeros(_SLOTS * _N_FIELDS, np.int64)
    streams = np.empty(_SLOTS, np.uint64)
    live = np.arange(_SLOTS)
    products, logs, constants = np.ones(_SLOTS), np.zeros(_SLOTS), np.zeros(_SLOTS)
    row_totals, values = np.zeros(_SLOTS), np.zeros(_SLOTS)

    n_live = 0
    next_row = first_row
    while next_row < stop_row or n_live > 0:
        while n_live < _SLOTS and next_row < stop_row:
            row = next_row
            next_row += 1
            start, stop = token_start[row], token_start[row + 1]
            if start == stop:
                continue
            slot = live[n_live]
            n_live += 1
            constant = -(stop - start) * math.log(stop - start - 1 + alpha_total)
            token = start - base
            for pair in range(indptr[row], indptr[row + 1]):
                word = pair_word[pair]
                constant += pair_count[pair] * log_scale[word]
                for _ in range(pair_count[pair]):
                    token_word[token] = word
                    token += 1
            constants[slot] = constant
            field = slot * _N_FIELDS
            state[field + _ROW], state[field + _START], state[field + _STOP] = row, start, stop
            state[field + _CURSOR], state[field + _SWEEP] = start, first_sweep
            streams[slot] = fold_in(row_keys[row], first_sweep)
            state[field + _KNOWN] = 0 if fresh else 1
            n_listed = 0
            if not fresh:
                for token in range(start, stop):
                    topic = np.int64(token_topics[token])
                    counts[slot * width + topic] += 1
                    block = topic >> 4
                    if is_listed[slot * n_blocks + block] == 0:
                        is_listed[slot * n_blocks + block] = 1
                        listed[slot * n_blocks + n_listed] = block
                        n_listed += 1
                n_listed = _tidy_list(counts, slot * width, listed, is_listed, slot * n_blocks, n_listed)
                counts[slot * width + np.int64(token_topics[start])] -= 1
            state[field + _LISTED] = n_listed

        for i in range(n_live - 1, -1, -1):
            slot = live[_index(i)]
            field = slot * _N_FIELDS
            cursor = state[_index(field + _CURSOR)]
            word = np.int64(token_word[_index(cursor - base)])
            row_total = np.float64(
                _scan_blocks(
                    counts,
                    slot * width,
                    listed,
                    slot * n_blocks,
                    state[_index(field + _LISTED)],
                    scores,
                    word * width,
                    sums,
                    slot * depth,
                    lanes,
                    slot * LANES,
                )
            )
            total = row_total + prior_sums[_index((word + 1) * n_blocks - 1)]
            product = products[_index(slot)] * total
            if not 1e-150 < product < 1e150:
                logs[_index(slot)] += math.log(products[_index(slot)]) + math.log(total)
                product = 1.0
            products[_index(slot)] = product
            row_totals[_index(slot)] = row_total
            if cursor + 1 < state[_index(field + _STOP)]:
                topic = np.int64(token_topics[_index(cursor + 1)])
                counts[_index(slot * width + topic)] -= np.int32(state[_index(field + _KNOWN)])
            if state[_index(field + _SWEEP)] == first_sweep and cursor + _AHEAD < state[_index(field + _STOP)]:
                # The document's words are not in the cache before the first sweep.
                ahead = np.int64(token_word[_index(cursor - base + _AHEAD)])
                prefetch(prior_sums, (ahead + 1) * n_blocks - 1)
                for j in range(slot * n_blocks, slot * n_blocks + state[_index(field + _LISTED)]):
                    prefetch(scores, ahead * width + np.int64(listed[_index(j)]) * LANES)
            values[_index(slot)] = total * uniform(streams[_index(slot)], cursor - state[_index(field + _START)])

        for i in range(n_live - 1, -1, -1):
            slot = live[_index(i)]
            field = slot * _N_FIELDS
            token = state[_index(field + _CURSOR)]
            n_listed = state[_index(field + _LISTED)]
            value = values[_index(slot)]
            first_block = slot * n_blocks
            topic = np.int64(-1)
            rest = value - row_totals[_index(slot)]
            if rest < 0.0:
                place = _find_in_blocks(sums, slot * depth, n_listed, lanes, slot * LANES, np.float32(value))
                if (place >> 4) < n_listed:
                    topic = np.int64(listed[_index(first_block + (place >> 4))]) * LANES + (place & 15)
            else:
                word = np.int64(token_word[_index(token - base)])
                block = np.int64(0)
                for j in range(word * n_blocks, (word + 1) * n_blocks):
                    block += prior_sums[_index(j)] <= rest
                if block < n_blocks:
                    rest -= prior_sums[_index(word * n_blocks + block - 1)] if block > 0 else 0.0
                    cell = block * LANES
                    lane = _find_in_block(alpha, cell, scores, word * width + cell, rest)
                    if lane < LANES and scores[_index(word * width + cell + lane)] > 0.0:
                        topic = np.int64(cell + lane)
            if topic < 0:  # rounding put the value behind all topics, or on one of weight zero
                topic = np.int64(_any_topic(alpha, scores, np.int64(token_word[token - base]) * width))
            token_topics[_index(token)] = topic
            counts[_index(slot * width + topic)] += 1
            block = topic >> 4
            if is_listed[_index(first_block + block)] == 0:
                is_listed[_index(first_block + block)] = 1
                listed[_index(first_block + n_listed)] = block
                state[_index(field + _LISTED)] = n_listed + 1
            token += 1
            if token == state[_index(field + _STOP)]:
                token = state[field + _START]
                row, stop = state[field + _ROW], state[field + _STOP]
                kept = state[field + _SWEEP] - first_kept
                if kept >= 0:
                    out_log_likelihood[row] += constants[slot] + logs[slot] + math.log(products[slot])
                    if len(out_history) > 0:
                        for j in range(token, stop):
                            out_history[j * n_kept + kept] = token_topics[j]
                products[slot], logs[slot] = 1.0, 0.0
                state[field + _SWEEP] += 1
                state[field + _KNOWN] = 1
                ended = state[field + _SWEEP] == stop_sweep
                if ended:
                    for j in range(token, stop):
                        counts[slot * width + np.int64(token_topics[j])] = 0
                n_listed = state[field + _LISTED]
                n_left = _tidy_list(counts, slot * width, listed, is_listed, first_block, n_listed)
                for j in range(slot * depth + n_left * LANES, slot * depth + n_listed * LANES):
                    sums[j] = np.inf
                state[field + _LISTED] = n_left
                if ended:
                    n_live -= 1
                    live[i], live[n_live] = live[n_live], slot
                    continue
                streams[slot] = fold_in(row_keys[row], state[field + _SWEEP])
                counts[slot * width + np.int64(token_topics[token])] -= 1
            state[_index(field + _CURSOR)] = token


@njit(cache=True)
def _tidy_list(counts, first_cell, listed, is_listed, first_block, n_listed):
    """Take blocks out of use from a list and sort it: a sweep begins the same way however its start was come by."""
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


@njit(cache=True)
def _any_topic(alpha, scores, first_score):
    """The last topic that can make the word."""
    for topic in range(len(alpha) - 1, -1, -1):
        if alpha[topic] * np.float64(scores[first_score + topic]) > 0.0:
            return topic
    return 0
