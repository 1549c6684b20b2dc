"""Dirichlet parameters of columns of categories that are unknown: each is one of finitely many values."""

from __future__ import annotations

import numpy as np

from ..numerics.special import log_rising
from ..utils._njit import njit
from ..utils._threads import Workers, split_range

MEDIAN = 0.5
VALUES = np.geomspace(0.01, 10.0, 41)  # adjacent values differ by a factor of 1.19
_LOG_WEIGHTS = -0.5 * np.log(VALUES / MEDIAN) ** 2
LOG_PRIOR = _LOG_WEIGHTS - np.log(np.exp(_LOG_WEIGHTS).sum())
_CELLS_OF_TASK = 5_000  # counts of categories by label, with each value: about a millisecond


def log_posterior(counts: np.ndarray, labels: np.ndarray, column_start: np.ndarray, workers: Workers) -> np.ndarray:
    """Log posterior probability of each value for each column up to a constant, (n_columns, n_values).

    `counts`, (n_categories, capacity), are those of rows by label; `labels` have rows.
    """
    n_columns = len(column_start) - 1
    out = np.tile(LOG_PRIOR, (n_columns, 1))
    cells_of_column = 1 + len(counts) * len(labels) // max(1, n_columns)
    tasks = split_range(n_columns, 1 + _CELLS_OF_TASK // cells_of_column)
    workers.run(_add_log_marginals, [(*task, column_start, counts, labels, VALUES, out) for task in tasks])
    return out


@njit(cache=True, nogil=True)
def _add_log_marginals(first, stop, column_start, counts, labels, values, out):
    """Add to `out` the log marginal probabilities of the columns `first` to `stop` given each value."""
    for column in range(first, stop):
        start, end = column_start[column], column_start[column + 1]
        for label in labels:
            total = np.int64(0)
            for category in range(start, end):
                count = counts[category, label]
                total += count
                if count > 0:
                    for i in range(len(values)):
                        out[column, i] += log_rising(values[i], count)
            if total > 0:
                for i in range(len(values)):
                    out[column, i] -= log_rising(values[i] * (end - start), total)
