"""Vectors of sixteen and prefetches as LLVM instructions, which loops in numba cannot express.

LLVM maps them to the instructions of the processor. They use only IEEE operations in a fixed order, so results are
identical on all processors; a reference in numpy describes each operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
FLOATS, INTS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)
DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
ZEROS = ir.Constant(FLOATS, [0.0] * LANES)


def pointer_to(context, builder, array_type, array, offset=None):
    """Pointer to the data of an array, or to its item `offset`."""
    data = context.make_array(array_type)(context, builder, array).data
    return data if offset is None else builder.gep(data, [offset])


def vector_at(builder, pointer, offset, vector_type):
    """Pointer to a vector that starts this number of items later."""
    return builder.bitcast(builder.gep(pointer, [offset]), vector_type.as_pointer())


def splat(builder, value, vector_type):
    """The vector with `value` in all lanes."""
    undefined = ir.Constant(vector_type, ir.Undefined)
    first = builder.insert_element(undefined, value, I32(0))
    lanes = ir.Constant(ir.VectorType(I32, vector_type.count), [0] * vector_type.count)
    return builder.shuffle_vector(first, undefined, lanes)


def sum_across(builder, vector):
    """Inclusive sums over sixteen lanes in four steps: add the vector shifted by 1, 2, 4, 8 lanes."""
    zeros = ir.Constant(vector.type, [0.0] * LANES)
    for shift in (1, 2, 4, 8):
        source = [lane - shift if lane >= shift else LANES for lane in range(LANES)]
        vector = builder.fadd(vector, builder.shuffle_vector(vector, zeros, ir.Constant(INTS, source)))
    return vector


def add_running(builder, total, product, sums, offset):
    """Add a vector to the running sums down the lanes at `total`, and store them in `sums` at an offset."""
    running = builder.fadd(builder.load(total), product)
    builder.store(running, vector_at(builder, sums, offset, FLOATS), align=4)
    builder.store(running, total)


def close_running(builder, total, lanes):
    """Store the sums across the lanes of the running sums at `total`; the last of them, the sum of all."""
    across = sum_across(builder, builder.load(total))
    builder.store(across, vector_at(builder, lanes, I64(0), FLOATS), align=4)
    return builder.extract_element(across, I32(LANES - 1))


def count_passed(builder, sums, value):
    """Number of a vector's sums that are at most `value`."""
    passed = builder.fcmp_ordered("<=", sums, splat(builder, value, sums.type))
    mask = builder.zext(builder.bitcast(passed, ir.IntType(sums.type.count)), I64)
    count_bits = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I64, [I64]), "llvm.ctpop.i64")
    return builder.call(count_bits, [mask])


def lane_of(builder, across, lanes, value):
    """The lane whose running sum, of those `across`, first exceeds `value` (else the last), and the rest of `value`.

    The sums are added in different orders, so that by rounding one may be less than the previous one. Hence the first
    sum that exceeds the value, not the number of those that do not; the rest is never negative.
    """
    above = builder.fcmp_ordered(">", across, splat(builder, value, across.type))
    mask = builder.zext(builder.bitcast(above, ir.IntType(LANES)), I64)
    stopped = builder.or_(mask, I64(1 << (LANES - 1)))
    flag = ir.IntType(1)
    first_bit = cgutils.get_or_insert_function(builder.module, ir.FunctionType(I64, [I64, flag]), "llvm.cttz.i64")
    lane = builder.call(first_bit, [stopped, flag(1)])
    first = builder.icmp_unsigned("==", lane, I64(0))
    before = builder.load(builder.gep(lanes, [builder.select(first, I64(0), builder.sub(lane, I64(1)))]))
    return lane, builder.fsub(value, builder.select(first, F32(0.0), before))


def sum_across_reference(vector):
    """The operations of ``sum_across``, in numpy."""
    for shift in (1, 2, 4, 8):
        vector = vector + np.concatenate((np.zeros(shift, vector.dtype), vector[:-shift]))
    return vector


def lane_of_reference(across, value):
    """The operations of ``lane_of``, in numpy."""
    above = across > value
    lane = int(np.argmax(above)) if above.any() else LANES - 1
    return lane, value - (across[lane - 1] if lane else np.float32(0))


def zeros_by_cache_line(n: int, dtype) -> np.ndarray:
    """Zeros of a type of four bytes aligned to 64 bytes, so that vectors of sixteen do not cross cache lines."""
    raw = np.zeros(n + LANES, dtype)
    offset = -raw.ctypes.data % 64 // 4
    return raw[offset : offset + n]


# Prefetches, for kernels that read their data in random order


@intrinsic
def _prefetch_item(typing_context, array, offset):
    """Prefetch an item."""
    signature = types.void(array, types.int64)

    def codegen(context, builder, signature, arguments):
        pointer = pointer_to(context, builder, signature.args[0], arguments[0], arguments[1])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.bitcast(pointer, byte), I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return signature, codegen


def _prefetch_nothing(array, offset):
    pass


prefetch: Any = _prefetch_nothing if config.DISABLE_JIT else _prefetch_item
