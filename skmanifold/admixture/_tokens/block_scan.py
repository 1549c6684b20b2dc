"""Running sums of counts times scores over the blocks of sixteen topics that a document uses, and searches in them.

``scan_blocks`` visits the listed blocks in their order and adds their products lane by lane: it stores the running sums
down the lanes after each block, and at the end the sums across the lanes. ``find_in_blocks`` finds the topic that an
inverse-CDF draw picks in the order down the first lane, then down the second and so on. ``find_in_block`` does the same
within one block, for the prior's part. The ``..._reference`` functions are the same operations in numpy; they are also
used if numba's compiler is disabled.
"""

from __future__ import annotations

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
    sum_across,
    sum_across_reference,
    vector_at,
)

_LOG2_GROUP = 3
GROUP = 1 << _LOG2_GROUP  # blocks searched at a time: sixteen sums in eight-lane comparisons need no branch


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
        # The number of sums of the lane that `value` exceeds, eight at a time; those after the list are not counted.
        column = builder.gep(sums, [lane])
        found = cgutils.alloca_once(builder, I64)
        builder.store(I64(0), found)
        n_groups = builder.lshr(builder.add(n_listed, I64(GROUP - 1)), I64(_LOG2_GROUP))
        with cgutils.for_range(builder, n_groups) as loop:
            begin = builder.mul(loop.index, I64(GROUP))
            group = builder.gep(column, [builder.mul(begin, I64(LANES))])
            eight = ir.Constant(ir.VectorType(F32, GROUP), ir.Undefined)
            for i in range(GROUP):
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


def scan_blocks_reference(
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


def find_in_blocks_reference(sums, first_sum, n_listed, lanes, first_lane, value):
    """Sixteen times the place in the list plus the lane where the running sums exceed `value`.

    Sums down a lane do not decrease, so that the weight is positive. The place is `n_listed` if by rounding none does.
    """
    across = lanes[first_lane : first_lane + LANES]
    lane, rest = lane_of_reference(across, value)
    column = sums[first_sum + lane : first_sum + LANES * n_listed : LANES]
    return lane + LANES * int(np.count_nonzero(column <= rest))


def find_in_block_reference(alpha, first_alpha, scores, first_score, value):
    """Number of running sums of alpha times the scores, over sixteen topics, that are at most `value`."""
    sums = alpha[first_alpha : first_alpha + LANES] * scores[first_score : first_score + LANES].astype(np.float64)
    return int(np.count_nonzero(sum_across_reference(sums) <= value))


scan_blocks: Any = scan_blocks_reference if config.DISABLE_JIT else _scan_blocks_vector
find_in_blocks: Any = find_in_blocks_reference if config.DISABLE_JIT else _find_in_blocks_vector
find_in_block: Any = find_in_block_reference if config.DISABLE_JIT else _find_in_block_vector
