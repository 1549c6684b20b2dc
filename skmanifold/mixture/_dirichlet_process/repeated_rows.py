"""Rows that repeat others: the marginal density of clusters of equal rows has no bound as a function of the prior.

Priors are therefore learned from distinct rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...emissions._abilities import LearnsPrior
from ...emissions._columns.rows import ColumnRows
from ...emissions._dense_rows import DenseRows
from ...emissions._rounding import cell_width
from ...random._keys import root_key, subkey

_LEAST_SHARE = 0.1  # of rows that repeat others, from which on they are left out
_MOST_PAIRS = 2.0  # equal pairs for each pair that differs by one cell in one column; 0.5 for a smooth density


def distinct_rows(emission: Any, rows: Any, sample: np.ndarray | None) -> np.ndarray | None:
    """Indices in the sample of the first of each set of equal rows; None if rounding explains that rows are equal.

    If a smooth density was rounded, twice as many pairs of rows differ by one cell in a given column as are equal.
    Rows without numbers or directions may repeat.
    """
    emissions, blocks = map(list, zip(*_single_blocks(emission, rows), strict=True))
    numbers = list(map(_are_numbers, emissions, blocks))
    if not any(numbers) and not hasattr(rows, "hashes"):
        return None
    if sample is not None:
        blocks = [block.take(sample) for block in blocks]
    n_rows, steps = blocks[0].n_rows, []
    missing = [np.isnan(blocks[i].values).all(axis=1) for i in np.flatnonzero(numbers)]
    may_repeat = any(numbers) & np.all(missing, axis=0)  # rows without numbers, or only with spikes
    contents = np.random.default_rng(0).integers(2**64, size=n_rows, dtype=np.uint64) * may_repeat
    for i in np.argsort(np.logical_not(numbers), kind="stable"):  # numbers first, which seldom repeat
        if numbers[i]:
            steps += _add_contents(blocks[i].values, int(i), contents)
        else:
            contents += _hashes(blocks[i], subkey(root_key(0), int(i)))
        used, first, counts = np.unique(contents, return_index=True, return_counts=True)
        if n_rows - len(used) < _LEAST_SHARE * n_rows:
            return None
    counts = counts.astype(float)
    neighbours = max((_n_shifted(used, counts, step) for step in steps), default=0.0)
    n_equal = 0.5 * float(counts @ (counts - 1.0))
    return np.sort(first) if n_equal > _MOST_PAIRS * neighbours else None


def _single_blocks(emission: Any, rows: Any) -> list[tuple[Any, Any]]:
    """Emission and rows of each block, also of blocks of blocks."""
    if not isinstance(rows, ColumnRows):
        return [(emission, rows)]
    pairs = zip(emission.blocks, rows.blocks, strict=True)
    return [each for (_, own, _), block in pairs for each in _single_blocks(own, block)]


def _add_contents(values: np.ndarray, block: int, contents: np.ndarray) -> list[np.uint64]:
    """Add a hash of the cells of each row, and return by how much a step of one cell changes it, for each grid."""
    steps, rng = [], np.random.default_rng([block, values.shape[1]])
    for column in values.T:
        width, factor = cell_width(column), rng.integers(2**64, dtype=np.uint64)
        contents += factor * _codes(column, width)
        steps += [factor] if width else []
    return steps


def _codes(column: np.ndarray, width: float) -> np.ndarray:
    """Whole numbers of cells; without a grid, of different numbers. The same for all missing cells."""
    if not width:
        return np.unique(column, return_inverse=True)[1].astype(np.uint64)
    codes = np.rint((column - np.fmin.reduce(column)) / width)
    return np.where(np.isnan(codes), -2.0, codes).astype(np.int64).astype(np.uint64)


def _hashes(rows: Any, key: np.uint64) -> np.ndarray:
    if hasattr(rows, "hashes"):
        return rows.hashes()
    each = (rows.part(i, i + 1).hash_rows(key, 0) for i in range(rows.n_rows))
    return np.fromiter(each, np.uint64, rows.n_rows)


def _n_shifted(used: np.ndarray, counts: np.ndarray, step: np.uint64) -> float:
    """Number of pairs of rows the contents of which differ by `step`."""
    places = np.minimum(np.searchsorted(used, used + step), len(used) - 1)
    found = used[places] == used + step
    return float(counts[found] @ counts[places[found]])


def _are_numbers(emission: Any, rows: Any) -> bool:
    """Whether rows are of numbers with a density whose prior is learned; dense rows may also be of counts."""
    return isinstance(emission, LearnsPrior) and isinstance(rows, DenseRows)
