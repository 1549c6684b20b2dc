"""Batches of rows for kernels: one row per SIMD lane, so that the sums over features of each row are in order."""

from __future__ import annotations

from ..utils._njit import njit

# Rows at a time, so that sums need no reassociation. Loops of 32 lanes are slower: LLVM unrolls them before it looks
# for vectors, and then uses none.
ROW_LANES = 64


@njit(cache=True, nogil=True)
def load_rows(X, start, stop, out):
    """Rows of X as columns of `out`, (m, ROW_LANES); lanes beyond them repeat the last."""
    for lane in range(ROW_LANES):
        row = min(start + lane, stop - 1)
        for a in range(X.shape[1]):
            out[a, lane] = X[row, a]
