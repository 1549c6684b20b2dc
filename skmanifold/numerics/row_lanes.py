"""Rows in SIMD lanes: batches with one row per lane, and squared lengths of linear maps of rows.

In batches the sums over features of each row are in order. Squared lengths keep four entries of sixteen maps in
registers while a row is read. A product and its sum are rounded once (fused multiply-add), as IEEE 754 prescribes, so
results are identical on all processors.
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
from .simd import I64, pointer_to, splat, vector_at

ENTRIES, LANES = 4, 16
_LANES = ir.VectorType(ir.DoubleType(), LANES)
_ZEROS = ir.Constant(_LANES, [0.0] * LANES)
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
        sums = [cgutils.alloca_once(builder, _LANES) for _ in rows]
        for each in sums:
            builder.store(_ZEROS, each)
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_LANES, [_LANES] * 3), f"llvm.fma.v{LANES}f64"
        )
        with cgutils.for_range(builder, n) as loop:
            place = vector_at(builder, inputs, builder.mul(loop.index, n_lanes), _LANES)
            of_lanes = builder.load(place, align=8)
            for row, each in zip(rows, sums, strict=True):
                entry = splat(builder, builder.load(builder.gep(row, [loop.index])), _LANES)
                builder.store(builder.call(fused, [entry, of_lanes, builder.load(each)]), each)
        squares = [builder.fmul(value, value) for value in map(builder.load, sums)]
        place = vector_at(builder, pointer_to(context, builder, of_total, total), lane, _LANES)
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
