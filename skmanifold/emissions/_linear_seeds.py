"""Initial labels of rows of a linear family: k-means++ with log densities in place of squared distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..random._keys import subkey, uniform

_N_ROUNDS = 5  # of hard assignments after the seeds


def seed_labels(family: Any, rows: Any, key: np.uint64) -> np.ndarray:
    """Labels by the likeliest of K seeds, which are rows smoothed by the mean of all, and rounds of hard assignments.

    Seeds are chosen as in k-means++ (Arthur and Vassilvitskii, 2007). In place of the squared distance stands what a
    row's log density given the best seed lacks of the highest that the family could give it, less the median of that:
    most rows are far from any seed, in many features, and what counts is who is farther than others. Of a few
    candidates the one that adds most to the log densities is taken.

    Parameters
    ----------
    family : LinearFamily
        With ``highest_log_densities``.
    rows : LinearRows
        Rows of the family.
    key : uint64
        Of the random choices.

    Returns
    -------
    labels : ndarray of shape (n_rows,), int32
        Components.
    """
    mean = rows.overall(family.n_statistics) / rows.n_rows
    highest = family.highest_log_densities(rows)
    n_candidates = 2 + int(math.log(family.n_components))
    chosen = [int(uniform(key, 0) * rows.n_rows)]
    best = _log_densities(family, rows, _seeds(family, rows, chosen, mean))[:, 0]
    for i in range(1, family.n_components):
        lacks = highest - best
        running = np.cumsum(np.maximum(lacks - np.median(lacks), 0.0))
        of_seed = subkey(key, i)
        places = np.array([uniform(of_seed, c) for c in range(n_candidates)])
        if running[-1] > 0.0:
            candidates = np.searchsorted(running, places * running[-1], side="right")
        else:  # all rows are alike
            candidates = (places * rows.n_rows).astype(np.int64)
        candidates = np.minimum(candidates, rows.n_rows - 1)
        with_each = np.maximum(best[:, None], _log_densities(family, rows, _seeds(family, rows, candidates, mean)))
        winner = int(np.argmax(with_each.sum(axis=0)))
        chosen.append(int(candidates[winner]))
        best = with_each[:, winner].copy()
    labels = _likeliest(family, rows, _seeds(family, rows, chosen, mean))
    for _ in range(_N_ROUNDS):
        before = labels
        labels = _likeliest(family, rows, family.mode(family.sum_labels(rows, 0, rows.n_rows, 0, labels).total()))
        if np.array_equal(labels, before):
            break
    return labels


def _seeds(family: Any, rows: Any, chosen: Any, mean: np.ndarray) -> Any:
    """Components that have seen one of the chosen rows each, and one mean row."""
    totals = np.repeat(mean[:, None], len(chosen), axis=1)
    for k, row in enumerate(chosen):
        cells = slice(rows.indptr[row], rows.indptr[row + 1])
        totals[rows.indices[cells], k] += rows.counts[cells]
    return family.mode((np.full(len(chosen), 2.0), totals))


def _log_densities(family: Any, rows: Any, parameters: Any) -> np.ndarray:
    out = np.zeros((rows.n_rows, len(parameters.offsets)))
    family.add_log_densities(rows, 0, rows.n_rows, parameters, out)
    return out


def _likeliest(family: Any, rows: Any, parameters: Any) -> np.ndarray:
    return _log_densities(family, rows, parameters).argmax(axis=1).astype(np.int32)
