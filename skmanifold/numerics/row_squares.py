"""Squared lengths of linear maps of rows: four entries of eight maps are kept in registers while a row is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from .simd import I64, pointer_to, splat, vector_at

ENTRIES, LANES = 4, 8
_LANES = ir.VectorType(ir.DoubleType(), LANES)
_ZEROS = ir.Constant(_LANES, [0.0] * LANES)


@intrinsic
def _add_squares_in_registers(typing_context, factor, columns, first, n, lane, total):
    """Add to eight numbers of `total`; each sum has the order of the reference below."""
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
        with cgutils.for_range(builder, n) as loop:
            place = vector_at(builder, inputs, builder.mul(loop.index, n_lanes), _LANES)
            of_lanes = builder.load(place, align=8)
            for row, each in zip(rows, sums, strict=True):
                entry = splat(builder, builder.load(builder.gep(row, [loop.index])), _LANES)
                builder.store(builder.fadd(builder.load(each), builder.fmul(entry, of_lanes)), each)
        squares = [builder.fmul(value, value) for value in map(builder.load, sums)]
        place = vector_at(builder, pointer_to(context, builder, of_total, total), lane, _LANES)
        with_two = builder.fadd(builder.load(place, align=8), builder.fadd(*squares[:2]))
        builder.store(builder.fadd(with_two, builder.fadd(*squares[2:])), place, align=8)
        return context.get_dummy_value()

    return signature, codegen


def _add_squares_reference(factor, columns, first, n, lane, total):
    y = np.zeros((ENTRIES, LANES))
    for a in range(n):
        y += factor[first : first + ENTRIES, a, None] * columns[a, lane : lane + LANES]
    y *= y
    total[lane : lane + LANES] += y[0] + y[1]
    total[lane : lane + LANES] += y[2] + y[3]


# add_squares(factor, columns, first, n, lane, total): with y = factor @ columns, the squares of four rows of y, from
# `first` on, are added to `total` at eight lanes, from `lane` on. Only the first n columns of these rows are read.
add_squares: Any = _add_squares_reference if config.DISABLE_JIT else _add_squares_in_registers
