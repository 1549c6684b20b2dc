"""Where chains of views begin: what each column is like by itself, and columns that depend on each other."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import chdtrc, xlogy

from ...emissions._bound_rows import StartEffort
from ...random._keys import Purpose, subkey
from ...random._variates import some_rows
from ...utils._threads import ONE, Workers
from .._dirichlet_process.starts import find_clusters, labels_of_all
from .proposals import Launch

_N_SEEDS, _EFFORT = 8, StartEffort(fewer_seeds=(1,), n_rounds=2)  # to find clusters of a column by itself
_MOST_ROWS = 5000  # in which dependences of columns are sought
_MOST_LEVELS, _ROWS_OF_CELL = 5, 5  # of a column, and rows for each pair of ranges, which a test needs
_LEAST_LOG = -300.0  # log of a p-value
_SIGNIFICANCE = 0.01  # of all pairs together: groups that are joined by chance stay so for many passes


def learn_columns(
    clusters: Any, searched: np.ndarray | None, free: tuple[str, ...], key: np.uint64, workers: Workers
) -> tuple[Any, list[np.ndarray]]:
    """The family with the prior that is learned for each column by itself, and a partition of the rows for each."""

    def learned(j: int) -> tuple[Any, np.ndarray]:
        column = clusters.of_columns(np.array([j]))
        found = find_clusters(column, searched, _N_SEEDS, free, subkey(key, Purpose.START, j), ONE, _EFFORT)
        if searched is None:
            return found.clusters, found.labels
        return found.clusters, labels_of_all(column.with_prior_of(found.clusters), found, ONE)

    families, labels = zip(*workers.run(learned, [(j,) for j in range(clusters.n_features)]), strict=True)
    return clusters.with_priors_of(list(families)), list(labels)


def launches_of(clusters: Any, labels: list[np.ndarray]) -> list[Launch]:
    """The launch of each column from its partition."""
    return [Launch.of_labels(clusters.of_columns(np.array([j])), own) for j, own in enumerate(labels)]


class StartOfViews(NamedTuple):
    """Initial views of columns as a function of the key of a chain: given labels, or dependent columns of cells."""

    cells: np.ndarray | None
    labels: np.ndarray | None

    def __call__(self, key: np.uint64) -> np.ndarray:
        if self.labels is not None:
            return self.labels
        assert self.cells is not None
        return dependent_columns(self.cells, key)


def dependent_columns(cells: np.ndarray, key: np.uint64) -> np.ndarray:
    """Labels of columns, (n_columns,): groups whose columns depend on each other, in a random half of the rows.

    The dependence of two columns is the p-value of a likelihood-ratio test of their independence, of numbers divided
    into ranges with about equally many rows. Groups are joined by their closest columns: a
    column leaves a view easily, but seldom joins many others at once.
    """
    n_rows, n_columns = cells.shape
    if n_columns == 1:
        return np.zeros(1, np.int64)
    n_chosen = min(max(2, n_rows // 2), n_rows, _MOST_ROWS)
    X = cells[some_rows(key, Purpose.SUBSAMPLE, n_rows, n_chosen)]
    indicators, columns = [], []
    n_ranges = int(np.clip(np.sqrt(n_chosen / _ROWS_OF_CELL), 2, _MOST_LEVELS))
    for j, column in enumerate(X.T):
        codes, n = _levels(column, n_ranges)
        indicators.append((codes[:, np.newaxis] == np.arange(n)).astype(float))
        columns += [j] * n
    Z, starts = np.hstack(indicators), np.flatnonzero(np.diff(columns, prepend=-1))
    counts = Z.T @ Z  # exact, of whole numbers
    n_levels = np.diff(np.append(starts, len(columns)))

    def by_pair(of_cells: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(of_cells, starts, axis=0), starts, axis=1)

    # Margins of a pair are those of the rows that have both cells
    totals = by_pair(counts)
    margins = np.add.reduceat(counts, starts, axis=1)  # of a level of one column, by the other column
    of_margins = np.add.reduceat(xlogy(margins, margins), starts, axis=0)
    deviance = 2.0 * (by_pair(xlogy(counts, counts)) - of_margins - of_margins.T + xlogy(totals, totals))
    freedom = np.maximum(np.outer(n_levels - 1, n_levels - 1), 1)
    with np.errstate(divide="ignore"):
        log_p = np.maximum(np.log(chdtrc(freedom, np.maximum(deviance, 0.0))), _LEAST_LOG)
    log_p = np.minimum(log_p, log_p.T)
    np.fill_diagonal(log_p, _LEAST_LOG)
    bound = np.log(_SIGNIFICANCE / max(1, n_columns * (n_columns - 1) // 2))
    distances = squareform(log_p - _LEAST_LOG, checks=False)
    labels = fcluster(linkage(distances, "single"), bound - _LEAST_LOG, "distance")
    _, compact = np.unique(labels, return_inverse=True)
    sizes = np.bincount(compact)
    # Columns without a partner begin together
    alone = sizes[compact] == 1
    compact[alone] = len(sizes)
    return np.unique(compact, return_inverse=True)[1]


def _levels(column: np.ndarray, n_ranges: int) -> tuple[np.ndarray, int]:
    """Ranges of a column with about equally many rows, or its values if they are few; -1 where missing."""
    seen = ~np.isnan(column)
    values = np.unique(column[seen])
    if len(values) <= _MOST_LEVELS:
        codes = np.searchsorted(values, np.where(seen, column, np.inf))
        return np.where(seen, codes, -1), max(1, len(values))
    ends = np.unique(np.quantile(column[seen], np.linspace(0.0, 1.0, n_ranges + 1)[1:-1]))
    codes = np.searchsorted(ends, np.where(seen, column, 0.0))
    return np.where(seen, codes, -1), len(ends) + 1
