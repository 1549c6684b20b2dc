"""Products of dense rows with vectors, and weighted sums of rows, which are the same bytes on all processors.

Each number is a sum in order, in which a product and its sum are rounded once (fused multiply-add), and so does not
depend on other rows. The speed is that of BLAS: six sums with a vector of 64 bytes each stay in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..utils._njit import njit, njit_part
from .simd import I32, I64, pointer_to, prefetch, splat, vector_at

VECTOR_BYTES = 64
_TILE = 6  # vectors of sums: twice as many registers of AVX2, which has sixteen
_TERMS_AT_ONCE = 512  # of products, so that the vectors stay in the first cache
_ROWS_AT_ONCE = 64  # of sums: more vectors at equal distances would not stay in the first cache
_CELLS_OF_BLOCK = 1 << 17  # of rows: half a megabyte of float32
MOST_ROWS = 256  # of a block


@intrinsic
def _add_tile_in_registers(typing_context, left, first, of_row, last, right, start, of_vector, n, out, place, of_sum):
    """Add n products of six numbers with a vector; see the reference below. Later rows than `last` are that one."""
    signature = types.void(left, *[types.int64] * 3, right, *[types.int64] * 3, out, *[types.int64] * 2)

    def codegen(context, builder, signature, arguments):
        left, first, of_row, last, right, start, of_vector, n, out, place, of_sum = arguments
        type_of_left, type_of_right, type_of_out = (signature.args[i] for i in (0, 4, 8))
        n_bytes = type_of_left.dtype.bitwidth // 8
        n_lanes = VECTOR_BYTES // n_bytes
        vector = ir.VectorType(context.get_data_type(type_of_left.dtype), n_lanes)

        def pointer(array_type, array, at, row, step):
            return pointer_to(context, builder, array_type, array, builder.add(at, builder.mul(row, step)))

        rows = [builder.select(builder.icmp_signed("<", I64(i), last), I64(i), last) for i in range(_TILE)]
        entries = [pointer(type_of_left, left, first, row, of_row) for row in rows]
        targets = [vector_at(builder, pointer(type_of_out, out, place, row, of_sum), I64(0), vector) for row in rows]
        sums = [cgutils.alloca_once(builder, vector) for _ in rows]
        for target, each in zip(targets, sums, strict=True):
            builder.store(builder.load(target, align=n_bytes), each)
        fused = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{n_lanes}f{8 * n_bytes}"
        )
        with cgutils.for_range(builder, n) as loop:
            term = pointer(type_of_right, right, start, loop.index, of_vector)
            lanes = builder.load(vector_at(builder, term, I64(0), vector), align=n_bytes)
            for of_left, each in zip(entries, sums, strict=True):
                entry = builder.load(builder.gep(of_left, [loop.index]))
                builder.store(builder.call(fused, [splat(builder, entry, vector), lanes, builder.load(each)]), each)
        for target, each in zip(targets, sums, strict=True):
            builder.store(builder.load(each), target, align=n_bytes)
        return context.get_dummy_value()

    return signature, codegen


def _add_tile_reference(left, first, of_row, last, right, start, of_vector, n, out, place, of_sum):
    entries, vectors, sums = left.reshape(-1), right.reshape(-1), out.reshape(-1)
    n_lanes = VECTOR_BYTES // left.itemsize
    for i in range(last + 1):
        at = place + i * of_sum
        for t in range(n):  # rounded twice
            vector = vectors[start + t * of_vector :][:n_lanes]
            sums[at : at + n_lanes] += entries[first + i * of_row + t] * vector


@intrinsic
def _transpose_in_registers(typing_context, source, first, of_row, out, place, of_column):
    """Copy as many vectors of 64 bytes as each has lanes, transposed; see the reference below."""
    signature = types.void(source, types.int64, types.int64, out, types.int64, types.int64)

    def codegen(context, builder, signature, arguments):
        source, first, of_row, out, place, of_column = arguments
        of_source, _, _, of_out, *_ = signature.args
        n_bytes = of_source.dtype.bitwidth // 8
        n_lanes = VECTOR_BYTES // n_bytes
        vector = ir.VectorType(context.get_data_type(of_source.dtype), n_lanes)

        def line(array_type, array, at, i, step):
            start = builder.add(at, builder.mul(I64(i), step))
            return vector_at(builder, pointer_to(context, builder, array_type, array, start), I64(0), vector)

        lines = [builder.load(line(of_source, source, first, i, of_row), align=n_bytes) for i in range(n_lanes)]
        for bit in (1 << b for b in range(n_lanes.bit_length() - 1)):  # exchange this bit of line and lane
            lines = [
                builder.shuffle_vector(
                    lines[i & ~bit],
                    lines[i | bit],
                    ir.Constant(
                        ir.VectorType(I32, n_lanes),
                        [(lane & ~bit | i & bit) + n_lanes * bool(lane & bit) for lane in range(n_lanes)],
                    ),
                )
                for i in range(n_lanes)
            ]
        for i, value in enumerate(lines):
            builder.store(value, line(of_out, out, place, i, of_column), align=n_bytes)
        return context.get_dummy_value()

    return signature, codegen


def _transpose_reference(source, first, of_row, out, place, of_column):
    entries, transposed, n_lanes = source.reshape(-1), out.reshape(-1), VECTOR_BYTES // source.itemsize
    for i in range(n_lanes):
        transposed[place + i : place + n_lanes * of_column : of_column] = entries[first + i * of_row :][:n_lanes]


_transpose: Any = _transpose_reference if config.DISABLE_JIT else _transpose_in_registers
_add_tile: Any = _add_tile_reference if config.DISABLE_JIT else _add_tile_in_registers


@njit_part
def rows_of_block(n_features: int, n_vectors: int) -> int:
    """Number of rows, a divisor of MOST_ROWS, whose entries and products stay in the second cache."""
    n_rows = MOST_ROWS
    while n_rows > 32 and n_rows * max(n_features, n_vectors) > _CELLS_OF_BLOCK:
        n_rows //= 2
    return n_rows


def panels_of(vectors: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Vectors, the columns of (m, n_vectors), as (n_panels, m, n_lanes), with zeros beyond the last vector."""
    m, n_vectors = vectors.shape
    n_lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
    padded = np.zeros((m, -(-n_vectors // n_lanes) * n_lanes), dtype)
    padded[:, :n_vectors] = vectors
    return np.ascontiguousarray(padded.reshape(m, -1, n_lanes).swapaxes(0, 1))


@njit(cache=True, nogil=True)
def fill_products(rows, panels, following, out):
    """Fill `out`, (n, n_panels * n_lanes), with products of rows, (n, m), with the vectors of panels.

    The rows `following`, those of the next call, are read into the cache meanwhile.
    """
    (n, m), width, n_lanes, place = rows.shape, out.shape[1], panels.shape[2], 0
    n_each = following.size // (len(panels) * ((n + _TILE - 1) // _TILE)) // n_lanes * n_lanes + n_lanes
    out[:] = 0.0
    for first in range(0, m, _TERMS_AT_ONCE):
        n_terms = min(_TERMS_AT_ONCE, m - first)
        for p in range(len(panels)):
            panel = panels[p]
            for i in range(0, n, _TILE):
                of_rows, sums = (i * m + first, m, min(_TILE, n - i) - 1), (i * width + p * n_lanes, width)
                _add_tile(rows, *of_rows, panel, first * n_lanes, n_lanes, n_terms, out, *sums)
                for entry in range(place, min(place + n_each, following.size), n_lanes):
                    prefetch(following, entry)
                place += n_each


@njit(cache=True, nogil=True)
def transpose(n, source, out):
    """Fill the first n columns, or more, of `out` with rows of `source`; all lengths are multiples of n_lanes."""
    of_row, of_column, n_lanes = source.shape[1], out.shape[1], VECTOR_BYTES // source.itemsize
    for i in range(0, n, n_lanes):
        for k in range(0, of_row, n_lanes):
            _transpose(source, i * of_row + k, of_row, out, k * of_column + i, of_column)


@njit(cache=True, nogil=True)
def add_weighted_rows(rows, weights, out):
    """Add sums of rows, (n, m), times weights, (n_sums or more, n or more), to `out`, (n_sums, m) float64."""
    (n, m), n_sums, n_most, n_lanes = rows.shape, len(out), weights.shape[1], VECTOR_BYTES // rows.itemsize
    whole, width = m // n_lanes * n_lanes, (m + n_lanes - 1) // n_lanes * n_lanes
    tail, sums = np.zeros((n, n_lanes), rows.dtype), np.zeros((n_sums, width), rows.dtype)
    for i in range(n):
        for lane in range(m - whole):
            tail[i, lane] = rows[i, whole + lane]
    for first in range(0, n, _ROWS_AT_ONCE):
        n_rows = min(_ROWS_AT_ONCE, n - first)
        for j in range(0, m, n_lanes):
            vectors, start, of_vector = (rows, first * m + j, m) if j < whole else (tail, first * n_lanes, n_lanes)
            for k in range(0, n_sums, _TILE):
                of_weights, place = (k * n_most + first, n_most, min(_TILE, n_sums - k) - 1), k * width + j
                _add_tile(weights, *of_weights, vectors, start, of_vector, n_rows, sums, place, width)
    for k in range(n_sums):
        for j in range(m):
            out[k, j] += sums[k, j]
