"""Grids to which columns of numbers were rounded."""

from __future__ import annotations

import numpy as np

_ROWS_READ = 20_000  # of a column, to find its grid
_MOST_RATIO = 50.0  # of the median gap between the numbers of a column and the width of its cells
_NOISE = {True: 2.0**-22, False: 2.0**-36}  # relative to the largest number, by whether it was a float32


def cell_width(column: np.ndarray) -> float:
    """Distance of neighbouring numbers to which a column was rounded; 0 if no two are equal, or there is no grid.

    A grid is that of offset + k width for whole numbers k, as also columns have that were standardised after rounding.
    """
    column = column[:: max(1, len(column) // _ROWS_READ)]
    numbers = np.sort(column[~np.isnan(column)])
    if len(numbers) < 2:
        return 0.0
    with np.errstate(over="ignore"):
        is_single = bool((numbers.astype(np.float32) == numbers).all())
    noise = _NOISE[is_single] * float(np.abs(numbers[[0, -1]]).max())
    gaps = np.diff(numbers)
    has_ties, gaps = bool((gaps <= noise).any()), gaps[gaps > noise]
    if not has_ties or not len(gaps):
        return 0.0
    width, least = float(gaps.min()), float(np.median(gaps)) / _MOST_RATIO
    while width >= least:  # Euclid's algorithm: remainders of the gaps until there are none
        multiples = np.rint(gaps / width)
        rests = np.abs(gaps - multiples * width)
        wrong = rests > noise * multiples
        if not wrong.any():
            return float(gaps.sum() / multiples.sum())
        width = max(float(rests[wrong].min()), noise)
    return 0.0


def within_cells(values: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Numbers that are spread over the cells, with these widths, of rounded ones, (n, d)."""
    return values + widths * (np.random.default_rng(0).random(values.shape) - 0.5)
