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
_BLOCKS_AT_ONCE = 8  # whose sums have the precision of the rows
_CELLS_OF_BLOCK = 1 << 17  # of rows: half a megabyte of float32
MOST_ROWS = 256  # of a block


def _vector_type(context, dtype):
    return ir.VectorType(context.get_data_type(dtype), VECTOR_BYTES * 8 // dtype.bitwidth)


def _items(context, builder, array_type, array, start, row, step):
    """Pointers to the item ``start + row * step`` of an array, and to the vector that begins there."""
    item = pointer_to(context, builder, array_type, array, builder.add(start, builder.mul(row, step)))
    return item, vector_at(builder, item, I64(0), _vector_type(context, array_type.dtype))


@intrinsic
def _add_tile_in_registers(typing_context, left, first, of_row, last, right, start, of_vector, n, out, place, of_sum):
    """Add n products of six numbers with a vector; see the reference below. Later rows than `last` are that one."""
    signature = types.void(left, *[types.int64] * 3, right, *[types.int64] * 3, out, *[types.int64] * 2)

    def codegen(context, builder, signature, arguments):
        left, first, of_row, last, right, start, of_vector, n, out, place, of_sum = arguments
        (of_left, of_right, of_out), dtype = (signature.args[i] for i in (0, 4, 8)), signature.args[0].dtype
        vector, align = _vector_type(context, dtype), dtype.bitwidth // 8
        rows = [builder.select(builder.icmp_signed("<", I64(i), last), I64(i), last) for i in range(_TILE)]
        entries = [_items(context, builder, of_left, left, first, row, of_row)[0] for row in rows]
        targets = [_items(context, builder, of_out, out, place, row, of_sum)[1] for row in rows]
        sums = [cgutils.alloca_once(builder, vector) for _ in rows]
        for target, each in zip(targets, sums, strict=True):
            builder.store(builder.load(target, align=align), each)
        kind = ir.FunctionType(vector, [vector] * 3)
        fused = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{vector.count}f{dtype.bitwidth}")
        with cgutils.for_range(builder, n) as loop:
            _, term = _items(context, builder, of_right, right, start, loop.index, of_vector)
            lanes = builder.load(term, align=align)
            for entry, each in zip(entries, sums, strict=True):
                factor = splat(builder, builder.load(builder.gep(entry, [loop.index])), vector)
                builder.store(builder.call(fused, [factor, lanes, builder.load(each)]), each)
        for target, each in zip(targets, sums, strict=True):
            builder.store(builder.load(each), target, align=align)
        return context.get_dummy_value()

    return signature, codegen


def _add_tile_reference(left, first, of_row, last, right, start, of_vector, n, out, place, of_sum):
    entries, vectors, sums, n_lanes = (
        left.reshape(-1),
        right.reshape(-1),
        out.reshape(-1),
        VECTOR_BYTES // left.itemsize,
    )
    for i in range(last + 1):
        for t in range(n):  # rounded twice
            entry, vector = entries[first + i * of_row + t], vectors[start + t * of_vector :][:n_lanes]
            sums[place + i * of_sum :][:n_lanes] += entry * vector


@intrinsic
def _transpose_in_registers(typing_context, source, first, of_row, out, place, of_column):
    """Copy as many vectors as each has lanes, transposed; see the reference below."""
    signature = types.void(source, types.int64, types.int64, out, types.int64, types.int64)

    def codegen(context, builder, signature, arguments):
        source, first, of_row, out, place, of_column = arguments
        of_source, _, _, of_out, *_ = signature.args
        n, align = _vector_type(context, of_source.dtype).count, of_source.dtype.bitwidth // 8
        places = [_items(context, builder, of_source, source, first, I64(i), of_row)[1] for i in range(n)]
        lines = [builder.load(each, align=align) for each in places]
        for bit in (1 << b for b in range(n.bit_length() - 1)):  # exchange this bit of line and lane
            lanes = [[(lane & ~bit | i) + n * bool(lane & bit) for lane in range(n)] for i in (0, bit)]
            masks = [ir.Constant(ir.VectorType(I32, n), each) for each in lanes]
            lines = [builder.shuffle_vector(lines[i & ~bit], lines[i | bit], masks[bool(i & bit)]) for i in range(n)]
        for i, line in enumerate(lines):
            builder.store(line, _items(context, builder, of_out, out, place, I64(i), of_column)[1], align=align)
        return context.get_dummy_value()

    return signature, codegen


def _transpose_reference(source, first, of_row, out, place, of_column):
    entries, transposed, n_lanes = source.reshape(-1), out.reshape(-1), VECTOR_BYTES // source.itemsize
    for i in range(n_lanes):
        transposed[place + i : place + n_lanes * of_column : of_column] = entries[first + i * of_row :][:n_lanes]


_transpose: Any = _transpose_reference if config.DISABLE_JIT else _transpose_in_registers
_add_tile: Any = _add_tile_reference if config.DISABLE_JIT else _add_tile_in_registers


@njit_part
def transpose(n, source, out):
    """Fill the first n columns, or more, of `out` with rows of `source`; all lengths are multiples of n_lanes."""
    of_row, of_column, n_lanes = source.shape[1], out.shape[1], VECTOR_BYTES // source.itemsize
    for i in range(0, n, n_lanes):
        for k in range(0, of_row, n_lanes):
            _transpose(source, i * of_row + k, of_row, out, k * of_column + i, of_column)


@njit(cache=True, nogil=True)
def _add_products(left, first, n, right, start, of_panel, of_vector, n_terms, n_at_once, following, out):
    """Add products of n rows of `left` with n_terms vectors of each panel to `out`, (n or more, n_panels * n_lanes).

    Vector t of panel p begins at ``start + p * of_panel + t * of_vector`` in `right`. Rows of `left` before `following`
    are read into the cache meanwhile.
    """
    of_row, width, n_lanes = left.shape[1], out.shape[1], VECTOR_BYTES // left.itemsize
    place, end = (first + n) * of_row, following * of_row
    n_tiles = width // n_lanes * ((n + _TILE - 1) // _TILE)
    n_each = max(end - place, 0) // (n_tiles * n_lanes) * n_lanes + n_lanes
    for term in range(0, n_terms, n_at_once):
        n_now = min(n_at_once, n_terms - term)
        for p in range(width // n_lanes):
            vectors = start + p * of_panel + term * of_vector
            for i in range(0, n, _TILE):
                row, last, sums = (first + i) * of_row + term, min(_TILE, n - i) - 1, i * width + p * n_lanes
                _add_tile(left, row, of_row, last, right, vectors, of_vector, n_now, out, sums, width)
                for entry in range(place, min(place + n_each, end), n_lanes):
                    prefetch(left, entry)
                place += n_each


class RowProducts:
    """Products of blocks of at most `n_rows` rows with vectors, (m, n_vectors), and as many weighted sums of rows."""

    def __init__(self, vectors: np.ndarray, dtype: np.dtype) -> None:
        self._m, self._n_vectors = vectors.shape
        self.n_rows = min(MOST_ROWS, 1 << max(5, (_CELLS_OF_BLOCK // max(vectors.shape)).bit_length() - 1))
        self._n_lanes = VECTOR_BYTES // np.dtype(dtype).itemsize
        self._padded_m, width = (-(-n // self._n_lanes) * self._n_lanes for n in vectors.shape)
        padded = np.zeros((self._m, width), dtype)
        padded[:, : self._n_vectors] = vectors
        self._panels = np.ascontiguousarray(padded.reshape(self._m, -1, self._n_lanes).swapaxes(0, 1)).reshape(-1)
        self.products = np.zeros((self.n_rows, width), dtype)  # with the vectors
        self.weights = np.zeros((width, self.n_rows), dtype)  # of the rows, for each sum
        self._sums, self._n_added = np.zeros((self._n_vectors, self._padded_m), dtype), 0

    def multiply(self, rows: np.ndarray, first: int, stop: int) -> np.ndarray:
        """Products of some of the rows, (n_rows, at least n_vectors)."""
        n, panels = stop - first, (self._panels, 0, self._m * self._n_lanes, self._n_lanes)
        self.products[:n] = 0.0
        following = min(stop + n, len(rows))
        _add_products(rows, first, n, *panels, self._m, _TERMS_AT_ONCE, following, self.products)
        return self.products

    def add_sums(self, rows: np.ndarray, first: int, stop: int, out: np.ndarray) -> None:
        """Add sums of some of the rows times `weights` to `out`, (n_vectors, m) float64, not later than in `flush`."""
        if self._padded_m > self._m:
            copies = np.zeros((stop - first, self._padded_m), rows.dtype)
            copies[:, : self._m] = rows[first:stop]
            rows, first, stop = copies, 0, stop - first
        panels = rows.reshape(-1), first * self._padded_m, self._n_lanes, self._padded_m
        _add_products(self.weights, 0, self._n_vectors, *panels, stop - first, _ROWS_AT_ONCE, 0, self._sums)
        self._n_added += 1
        if self._n_added == _BLOCKS_AT_ONCE:
            self.flush(out)

    def flush(self, out: np.ndarray) -> None:
        """Add the sums that `out` lacks."""
        if self._n_added:
            out += self._sums[:, : self._m]
            self._sums[:], self._n_added = 0.0, 0
