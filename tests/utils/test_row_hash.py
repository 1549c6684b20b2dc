"""Hashes of rows: of content and place, whatever the cut."""

import numpy as np
import pytest
import scipy.sparse as sp

from skmanifold.numerics import row_hash
from skmanifold.numerics.row_hash import hash_counts, hash_dense
from skmanifold.random._keys import fold_in

KEY = np.uint64(11)
RNG = np.random.default_rng(0)
COUNTS = sp.csr_array(RNG.poisson(0.7, (40, 9)).astype(np.int32))
COUNTS = sp.vstack([COUNTS[:20], COUNTS[:3] * 0, COUNTS[20:], COUNTS[:2] * 0], format="csr")  # rows of nothing too
COUNTS.eliminate_zeros()
REALS = RNG.normal(size=(40, 3))


def of_counts(rows, first_row=0, key=KEY):
    indptr = rows.indptr.astype(np.int64)
    return hash_counts(indptr, rows.indices.astype(np.int32), rows.data.astype(np.int32), key, first_row)


def test_hashes_are_sums_over_cells():
    cells, keys = COUNTS.tocoo(), [np.uint64(fold_in(KEY, row)) for row in range(COUNTS.shape[0])]
    content = [(int(column) << 32) | int(count) for column, count in zip(cells.col, cells.data, strict=True)]
    expected = [int(fold_in(keys[row], np.uint64(told))) for row, told in zip(cells.row, content, strict=True)]
    assert of_counts(COUNTS) == sum(expected) % 2**64
    bits = REALS.view(np.uint64)
    expected = [int(fold_in(np.uint64(fold_in(keys[i], j)), bits[i, j])) for i, j in np.ndindex(REALS.shape)]
    assert hash_dense(REALS, KEY, 0) == sum(expected) % 2**64


@pytest.mark.parametrize("cells", [1, 7, 50, 1 << 14])
@pytest.mark.parametrize("cut", [0, 1, 21, 22, 30, 45])
def test_ranges_add_up(cut, cells, monkeypatch):
    whole, dense = of_counts(COUNTS), hash_dense(REALS, KEY, 0)
    monkeypatch.setattr(row_hash, "_CELLS", cells)
    assert (of_counts(COUNTS[:cut]) + of_counts(COUNTS[cut:], cut)) % 2**64 == whole
    cut = min(cut, 40)
    assert (hash_dense(REALS[:cut], KEY, 0) + hash_dense(REALS[cut:], KEY, cut)) % 2**64 == dense


def test_every_cell_and_its_place_matter():
    hashes = {of_counts(COUNTS), of_counts(COUNTS, key=np.uint64(12)), of_counts(COUNTS[::-1])}
    hashes |= {of_counts(COUNTS, 1), of_counts(sp.csr_array(COUNTS[:, ::-1])), of_counts(COUNTS * 2)}
    swapped = REALS.copy()
    swapped[[3, 4], 1] = swapped[[4, 3], 1]
    hashes |= {hash_dense(rows, KEY, 0) for rows in (REALS, REALS[::-1], REALS[:, ::-1], swapped)}
    assert len(hashes) == 10


def test_one_nan_and_one_zero():
    first = np.array([[np.nan, 0.0, 1.0]])
    other = np.array([[-np.nan, -0.0, 1.0]])
    assert first.tobytes() != other.tobytes()
    assert hash_dense(first, KEY, 0) == hash_dense(other, KEY, 0)
