"""Vectors of sixteen and prefetches as LLVM instructions, which loops in numba cannot express; rows in SIMD lanes.

LLVM maps them to the instructions of the processor. They use only IEEE operations in a fixed order, so results are
identical on all processors; a reference in numpy describes each operation.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..utils._njit import njit

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


# Batches with one row per lane, and squared lengths of linear maps of rows. In batches the sums over features of each
# row are in order. Squared lengths keep four entries of sixteen maps in registers while a row is read. A product and
# its sum are rounded once (fused multiply-add), as IEEE 754 prescribes.

ENTRIES = 4
_NO_SQUARES = ir.Constant(DOUBLES, [0.0] * LANES)
# Rows at a time, so that sums need no reassociation. Loops of 32 lanes are slower: LLVM unrolls them before it looks
# for vectors, and then uses none.
ROW_LANES = 64


@intrinsic
def _add_squares_in_registers(typing_context, factor, columns, first, n, lane, total):
    """Add to sixteen numbers of `total`; each sum has the order of the reference below."""
    signature = types.void(factor, columns, types.int64, types.int64, types.int64, total)

    def codegen(context, builder, signature, arguments):
        factor, columns, first, n, lane, total = arguments
        of_factor, of_columns, *_, of_total = signature.args
        n_inputs, n_lanes = (
            builder.extract_value(context.make_array(of_array)(context, builder, array).shape, 1)
            for of_array, array in ((of_factor, factor), (of_columns, columns))
        )
        rows = [
            pointer_to(context, builder, of_factor, factor, builder.mul(builder.add(first, I64(i)), n_inputs))
            for i in range(ENTRIES)
        ]
        inputs = pointer_to(context, builder, of_columns, columns, lane)
        sums = [cgutils.alloca_once(builder, DOUBLES) for _ in rows]
        for each in sums:
            builder.store(_NO_SQUARES, each)
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(DOUBLES, [DOUBLES] * 3), f"llvm.fma.v{LANES}f64"
        )
        with cgutils.for_range(builder, n) as loop:
            place = vector_at(builder, inputs, builder.mul(loop.index, n_lanes), DOUBLES)
            of_lanes = builder.load(place, align=8)
            for row, each in zip(rows, sums, strict=True):
                entry = splat(builder, builder.load(builder.gep(row, [loop.index])), DOUBLES)
                builder.store(builder.call(fused, [entry, of_lanes, builder.load(each)]), each)
        squares = [builder.fmul(value, value) for value in map(builder.load, sums)]
        place = vector_at(builder, pointer_to(context, builder, of_total, total), lane, DOUBLES)
        with_two = builder.fadd(builder.load(place, align=8), builder.fadd(*squares[:2]))
        builder.store(builder.fadd(with_two, builder.fadd(*squares[2:])), place, align=8)
        return context.get_dummy_value()

    return signature, codegen


def _multiply_add(x, y, z):
    """Return x y + z, rounded once; `math.fma` exists from Python 3.13 on."""
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        return x * y + z
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def _add_squares_reference(factor, columns, first, n, lane, total):
    y = np.zeros((ENTRIES, LANES))
    for a in range(n):
        terms = np.broadcast_arrays(factor[first : first + ENTRIES, a, None], columns[a, lane : lane + LANES], y)
        y = np.reshape([_multiply_add(*map(float, each)) for each in zip(*map(np.ravel, terms), strict=True)], y.shape)
    y *= y
    total[lane : lane + LANES] += y[0] + y[1]
    total[lane : lane + LANES] += y[2] + y[3]


# add_squares(factor, columns, first, n, lane, total): with y = factor @ columns, the squares of four rows of y, from
# `first` on, are added to `total` at sixteen lanes, from `lane` on. Only the first n columns of these rows are read.
add_squares: Any = _add_squares_reference if config.DISABLE_JIT else _add_squares_in_registers


@njit(cache=True, nogil=True)
def load_rows(X, start, stop, out):
    """Rows of X as columns of `out`, (m, ROW_LANES); lanes beyond them repeat the last."""
    for lane in range(ROW_LANES):
        row = min(start + lane, stop - 1)
        for a in range(X.shape[1]):
            out[a, lane] = X[row, a]
