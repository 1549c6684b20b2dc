"""Equal-tailed credible intervals from draws, and the level that a number of draws can reach."""

from __future__ import annotations

import math
import warnings
from numbers import Real

import numpy as np

from ..utils._threads import split_range

_CHUNK_CELLS = 1 << 20  # number of values sorted at a time


def equal_tailed_intervals(draws: np.ndarray, level: float = 0.9) -> np.ndarray:
    """Ends, (2, n_rows, n_columns) float32, of equal-tailed credible intervals of each entry, from one chain's draws.

    They are Weibull's quantiles (1 - level) / 2 and (1 + level) / 2: the j-th of n sorted draws is the quantile j / (n
    + 1), and a new independent draw is between them with probability `level`; with numpy's default with less (81%
    instead of 90% for 20 draws). With fewer than `draws_needed` it is the range, of probability `reached_level`.
    """
    if np.ndim(draws) != 3 or len(draws) == 0:
        raise ValueError("draws must be those of one chain, of shape (n_draws, n_rows, n_columns), and not empty.")
    check_level(level)
    n_draws, n_rows, n_columns = draws.shape
    place = max(0.0, (1 - level) / 2 * (n_draws + 1) - 1)  # index of the lower end among the sorted draws, from 0
    below = min(int(place), n_draws - 1)
    above = min(below + 1, n_draws - 1)
    share = place - below
    out = np.empty((2, n_rows, n_columns), dtype=np.float32)
    for start, stop in split_range(n_columns, max(1, _CHUNK_CELLS // (n_draws * n_rows))):
        cells = np.moveaxis(draws[:, :, start:stop], 0, -1).copy()  # sorting is fastest along a contiguous axis
        cells.sort(axis=-1)
        for end, (near, far) in enumerate(((below, above), (n_draws - 1 - below, n_draws - 1 - above))):
            low = cells[..., near].astype(np.float64)
            out[end, :, start:stop] = low + share * (cells[..., far] - low)
    return out


def check_level(level: float) -> None:
    """Raise an error unless `level` is a probability between 0 and 1."""
    if not isinstance(level, Real):
        raise TypeError(f"level must be a number between 0 and 1; got a {type(level).__name__}.")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1; got {level}.")


def draws_needed(level: float) -> int:
    """The smallest number of draws whose intervals reach `level`: 19 for 90%."""
    return max(1, math.ceil((1 + level) / (1 - level) - 1e-9))  # 1e-9 guards against rounding errors


def reached_level(level: float, n_draws: int) -> float:
    """The level of intervals from n independent draws: `level`, or that of their range, (n - 1) / (n + 1)."""
    return level if n_draws >= draws_needed(level) else max(0.0, (n_draws - 1) / (n_draws + 1))


def warn_of_level(level: float, n_draws: int, ess: np.ndarray) -> None:
    """Warn of too few draws for `level`, or too small an ESS, (n_topics,), NaN if unknown, for half of the topics."""
    needed = draws_needed(level)
    slow = ess[ess < needed]
    if n_draws < needed:
        reached = reached_level(level, n_draws)
        said = (
            f"Intervals from {n_draws} draw{'s' * (n_draws != 1)} have level {100 * reached:.3g}% and not "
            f"{100 * level:g}%, which needs {needed} draws: increase max_iter or max_draws_bytes, decrease thin or "
            "burn_in, or continue the stream."
        )
    elif 0 < len(ess) <= 2 * len(slow):
        said = (
            f"Intervals of {len(slow)} of {len(ess)} topics have a level below {100 * level:g}%, because the smallest "
            f"effective sample size of {n_draws} draws is {slow.min():.0f} and {needed} is needed: increase max_iter, "
            "together with thin or max_draws_bytes."
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=3)
