"""Running sums over a document's topics, sixteen at a time, and the search in them.

A document's topics are *entries* of 32 bits, count in the high half and topic in the low half, padded with entries of
count 0 to whole vectors of sixteen. ``scan_row`` multiplies each count by its topic's score and stores the running
sums; ``find_in_scan`` counts the running sums at or below a value, which is the entry that an inverse-CDF draw picks.

The vectors are written as LLVM's own (``<16 x float>``), which LLVM maps to whatever the processor has, and use only
IEEE additions and multiplications in a stated order: the same bytes everywhere. ``scan_row_reference`` spells that
order out in numpy; it also stands in where numba's compiler is switched off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16

_I16, _I32, _I64, _F32 = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS, _INTS = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)
_ZEROS = ir.Constant(_FLOATS, [0.0] * LANES)


def _data(context, builder, array_type, array):
    return context.make_array(array_type)(context, builder, array).data


def _vector_at(builder, pointer, offset, vector_type):
    return builder.bitcast(builder.gep(pointer, [offset]), vector_type.as_pointer())


def _running_sum(builder, vector):
    """Inclusive sums over the lanes in four steps: add the vector shifted by 1, 2, 4, 8 lanes."""
    for shift in (1, 2, 4, 8):
        lanes = [lane - shift if lane >= shift else LANES for lane in range(LANES)]
        vector = builder.fadd(vector, builder.shuffle_vector(vector, _ZEROS, ir.Constant(_INTS, lanes)))
    return vector


@intrinsic
def _scan_row_vector(typing_context, entries, start, n_vectors, scores, out):
    signature = types.float32(entries, types.int64, types.int64, scores, out)

    def codegen(context, builder, signature, arguments):
        entries, scores, out = (_data(context, builder, signature.args[i], arguments[i]) for i in (0, 3, 4))
        start, n_vectors = arguments[1], arguments[2]
        carry = cgutils.alloca_once(builder, _FLOATS)
        builder.store(_ZEROS, carry)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, _I64(LANES))
            row = builder.gep(entries, [builder.add(start, offset)])
            # Sixteen scalar loads: faster than the hardware's gather where there is one, and it need not be there.
            halves = builder.bitcast(row, _I16.as_pointer())
            gathered = ir.Constant(_FLOATS, ir.Undefined)
            for lane in range(LANES):
                topic = builder.zext(builder.load(builder.gep(halves, [_I64(2 * lane)])), _I64)
                gathered = builder.insert_element(gathered, builder.load(builder.gep(scores, [topic])), _I32(lane))
            packed = builder.load(builder.bitcast(row, _INTS.as_pointer()), align=4)
            counts = builder.uitofp(builder.lshr(packed, ir.Constant(_INTS, [16] * LANES)), _FLOATS)
            sums = _running_sum(builder, builder.fmul(counts, gathered))
            sums = builder.fadd(sums, builder.load(carry))
            builder.store(sums, _vector_at(builder, out, offset, _FLOATS), align=4)
            builder.store(builder.shuffle_vector(sums, sums, ir.Constant(_INTS, [LANES - 1] * LANES)), carry)
        return builder.extract_element(builder.load(carry), _I32(0))

    return signature, codegen


@intrinsic
def _find_in_scan_vector(typing_context, sums, n_vectors, value):
    signature = types.int64(sums, types.int64, types.float32)

    def codegen(context, builder, signature, arguments):
        sums = _data(context, builder, signature.args[0], arguments[0])
        undefined = ir.Constant(_FLOATS, ir.Undefined)
        value = builder.shuffle_vector(
            builder.insert_element(undefined, arguments[2], _I32(0)), undefined, ir.Constant(_INTS, [0] * LANES)
        )
        found = cgutils.alloca_once(builder, _I64)
        builder.store(_I64(0), found)
        count_bits = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I16, [_I16]), "llvm.ctpop.i16")
        with cgutils.for_range(builder, arguments[1]) as loop:
            offset = builder.mul(loop.index, _I64(LANES))
            vector = builder.load(_vector_at(builder, sums, offset, _FLOATS), align=4)
            mask = builder.bitcast(builder.fcmp_ordered("<=", vector, value), _I16)
            builder.store(builder.add(builder.load(found), builder.zext(builder.call(count_bits, [mask]), _I64)), found)
        return builder.load(found)

    return signature, codegen


@intrinsic
def _prefetch_vector(typing_context, array, offset):
    signature = types.void(array, types.int64)

    def codegen(context, builder, signature, arguments):
        pointer = builder.gep(_data(context, builder, signature.args[0], arguments[0]), [arguments[1]])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(prefetch, [builder.bitcast(pointer, byte), _I32(0), _I32(3), _I32(1)])
        return context.get_dummy_value()

    return signature, codegen


def scan_row_reference(entries, start, n_vectors, scores, out):
    """The operations of ``scan_row``, one after the other, in numpy."""
    carry = np.float32(0)
    for vector in range(n_vectors):
        packed = entries[start + vector * LANES : start + (vector + 1) * LANES]
        sums = (packed >> np.uint32(16)).astype(np.float32) * scores[packed & np.uint32(0xFFFF)]
        for shift in (1, 2, 4, 8):
            sums = sums + np.concatenate((np.zeros(shift, np.float32), sums[:-shift]))
        sums = sums + carry
        out[vector * LANES : (vector + 1) * LANES] = sums
        carry = sums[-1]
    return carry


def find_in_scan_reference(sums, n_vectors, value):
    """The operations of ``find_in_scan``, in numpy."""
    return int(np.count_nonzero(sums[: n_vectors * LANES] <= value))


def _prefetch_nothing(array, offset):
    pass


_VECTORS = (_scan_row_vector, _find_in_scan_vector, _prefetch_vector)
_REFERENCES = (scan_row_reference, find_in_scan_reference, _prefetch_nothing)
scan_row: Any
find_in_scan: Any
prefetch: Any
scan_row, find_in_scan, prefetch = _REFERENCES if config.DISABLE_JIT else _VECTORS
