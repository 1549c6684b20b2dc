"""Products of dense rows with a few vectors, by BLAS, in which the result of a row does not depend on other rows.

BLAS may round the same row otherwise at another place of a matrix: some of its kernels compute the first and last rows
of a block in another order. So all blocks have the same shape, unused places hold zeros, and rows are only put at
places that give the same bytes for the same row. Which places these are is found by a trial for each shape. Results are
the same bytes on one machine with one version of BLAS, in one thread (`limit_threads`).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_BLOCK_ROWS = 256  # half a megabyte with 500 columns of float32; larger blocks are hardly faster
_N_TRIALS = 3  # random rows


class RowProducts:
    """Products, (n_vectors, 256), of blocks of rows, (256, n_features), with the same vectors; for one thread.

    A block takes `n_rows` rows, from place `first` on, and has zeros elsewhere.
    """

    def __init__(self, vectors: np.ndarray, dtype: np.dtype) -> None:
        self.vectors = np.ascontiguousarray(vectors, dtype)
        n_vectors, n_features = self.vectors.shape
        self.first, stop = _equal_places(n_features, n_vectors, np.dtype(dtype).char)
        self.n_rows = stop - self.first
        self.block = np.zeros((_BLOCK_ROWS, n_features), dtype)
        self.products = np.empty((n_vectors, _BLOCK_ROWS), dtype)

    def rows(self, n: int) -> np.ndarray:
        """Space for the next n rows, (n, n_features), a view of the block; other places are set to zero."""
        self.block[self.first + n : self.first + self.n_rows] = 0.0
        return self.block[self.first : self.first + n]

    def multiply(self) -> np.ndarray:
        """Products of the block with the vectors, (n_vectors, 256); those of the first row are in column `first`."""
        np.matmul(self.vectors, self.block.T, out=self.products)
        return self.products

    def sums(self, shares: np.ndarray) -> np.ndarray:
        """Sums of the rows of the block times shares, (n, n_vectors), as (n_vectors, n_features)."""
        of_places = np.zeros(self.products.shape, self.products.dtype)
        of_places[:, self.first : self.first + len(shares)] = shares.T
        return np.matmul(of_places, self.block)


@lru_cache(maxsize=64)
def _equal_places(n_features: int, n_vectors: int, char: str) -> tuple[int, int]:
    """The longest range of places of a block at which all trial rows have the same products."""
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((n_vectors, n_features)).astype(char)
    same = np.ones(_BLOCK_ROWS - 1, bool)  # whether a place and the next agree
    for _ in range(_N_TRIALS):
        row = generator.standard_normal(n_features).astype(char)
        products = np.matmul(vectors, np.tile(row, (_BLOCK_ROWS, 1)).T)
        same &= (products[:, 1:] == products[:, :-1]).all(axis=0)
    ends = np.concatenate(([-1], np.flatnonzero(~same), [_BLOCK_ROWS - 1])) + 1
    longest = int(np.diff(ends).argmax())
    return int(ends[longest]), int(ends[longest + 1])
