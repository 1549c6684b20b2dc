"""Entries with the topic counts of documents: format, running sums of sixteen at a time, and search.

A document's topics are *entries* of 32 bits, padded with entries of count 0 to whole vectors of sixteen::

    bit 31 ........ 16 15 ......... 0
       |    count    |     topic    |

A count that exceeds 16 bits is stored in several entries of the same topic. ``scan_row`` multiplies each count by its
topic's score and sums lane by lane: it stores the running sums down the lanes after each vector, and at the end those
across the lanes. In this order, down the first lane, then down the second and so on, ``find_in_scan`` finds the entry
that an inverse-CDF draw picks. A sum across the lanes costs several shuffles; here a document needs one, not one for
each of its vectors.

The vectors are LLVM vectors (``<16 x float>``), which LLVM maps to the instructions of the processor. They use only
IEEE additions and multiplications in a fixed order, so results are identical on all processors. ``scan_row_reference``
implements that order in numpy; it is also used if numba's compiler is disabled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ...numerics.simd import (
    FLOATS,
    I32,
    I64,
    INTS,
    LANES,
    ZEROS,
    add_running,
    close_running,
    lane_of,
    lane_of_reference,
    pointer_to,
    sum_across_reference,
    vector_at,
)
from ...utils._njit import njit

TOPIC_BITS = np.uint32(16)
TOPIC_MASK = np.uint32((1 << 16) - 1)
MAX_ENTRY_COUNT = np.uint32((1 << 16) - 1)


@njit(cache=True)
def entry_topic(entry):
    """The topic of an entry, as an index."""
    return np.uint64(entry & TOPIC_MASK)


@njit(cache=True)
def entry_count(entry):
    """The count of an entry."""
    return entry >> TOPIC_BITS


@njit(cache=True)
def make_entry(count, topic):
    """An entry of a count and a topic, both uint32."""
    return (count << TOPIC_BITS) | topic


@intrinsic
def _scan_row_vector(typing_context, entries, start, n_vectors, scores, out_sums, out_lanes):
    signature = types.float32(entries, types.int64, types.int64, scores, out_sums, out_lanes)

    def codegen(context, builder, signature, arguments):
        kinds = signature.args
        entries, scores, sums, lanes = (pointer_to(context, builder, kinds[i], arguments[i]) for i in (0, 3, 4, 5))
        start, n_vectors = arguments[1], arguments[2]
        total = cgutils.alloca_once(builder, FLOATS)
        builder.store(ZEROS, total)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, I64(LANES))
            row = builder.gep(entries, [builder.add(start, offset)])
            # Scalar loads of the scores are faster than gather instructions, which some processors do not
            # there. Two topics come with each 64-bit load of entries; the lower half is the first (little endian).
            pairs = builder.bitcast(row, I64.as_pointer())
            gathered = ir.Constant(FLOATS, ir.Undefined)
            for lane in range(0, LANES, 2):
                two = builder.load(builder.gep(pairs, [I64(lane // 2)]), align=4)
                for half in (0, 1):
                    topic = builder.and_(builder.lshr(two, I64(32 * half)), I64(int(TOPIC_MASK)))
                    score = builder.load(builder.gep(scores, [topic]))
                    gathered = builder.insert_element(gathered, score, I32(lane + half))
            packed = builder.load(builder.bitcast(row, INTS.as_pointer()), align=4)
            counts = builder.uitofp(builder.lshr(packed, ir.Constant(INTS, [int(TOPIC_BITS)] * LANES)), FLOATS)
            add_running(builder, total, builder.fmul(counts, gathered), sums, offset)
        return close_running(builder, total, lanes)

    return signature, codegen


@intrinsic
def _find_in_scan_vector(typing_context, sums, lanes, n_vectors, value):
    signature = types.int64(sums, lanes, types.int64, types.float32)

    def codegen(context, builder, signature, arguments):
        sums, lanes = (pointer_to(context, builder, signature.args[i], arguments[i]) for i in (0, 1))
        n_vectors, value = arguments[2], arguments[3]
        across = builder.load(vector_at(builder, lanes, I64(0), FLOATS), align=4)
        lane, rest = lane_of(builder, across, lanes, value)
        found = cgutils.alloca_once(builder, I64)
        builder.store(lane, found)
        with cgutils.for_range(builder, builder.sub(n_vectors, I64(1))) as loop:
            offset = builder.add(builder.mul(loop.index, I64(LANES)), lane)
            passed = builder.fcmp_ordered("<=", builder.load(builder.gep(sums, [offset])), rest)
            step = builder.select(passed, I64(LANES), I64(0))
            builder.store(builder.add(builder.load(found), step), found)
        return builder.load(found)

    return signature, codegen


def scan_row_reference(entries, start, n_vectors, scores, out_sums, out_lanes):
    """The operations of ``scan_row`` in numpy."""
    total = np.zeros(LANES, np.float32)
    for vector in range(n_vectors):
        packed = entries[start + vector * LANES : start + (vector + 1) * LANES]
        total = total + (packed >> TOPIC_BITS).astype(np.float32) * scores[packed & TOPIC_MASK]
        out_sums[vector * LANES : (vector + 1) * LANES] = total
    out_lanes[:] = sum_across_reference(total)
    return out_lanes[-1]


def find_in_scan_reference(sums, lanes, n_vectors, value):
    """The operations of ``find_in_scan``, in numpy."""
    lane, rest = lane_of_reference(lanes, value)
    return lane + LANES * int(np.count_nonzero(sums[lane : LANES * (n_vectors - 1) : LANES] <= rest))


_VECTORS = (_scan_row_vector, _find_in_scan_vector)
_REFERENCES = (scan_row_reference, find_in_scan_reference)
scan_row: Any
find_in_scan: Any
scan_row, find_in_scan = _REFERENCES if config.DISABLE_JIT else _VECTORS
