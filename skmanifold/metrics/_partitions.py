"""Summaries of draws of a partition: variation of information, a point estimate and co-clustering probabilities.

The values of labels have no meaning; it only matters which rows have the same label.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_scalar

from ..random._keys import Purpose, fold_in_each, root_key, subkey
from ..sparse.counts import index_columns
from ..utils._threads import Workers
from ..utils._typing import ArrayLike, RandomStateLike
from ._partition_kernels import (
    LEAST_GAIN,
    count_agreements,
    count_items,
    merge_clusters,
    name_by_first_row,
    sweep,
    variations,
)

_MAX_DENSE_BYTES = 4 << 30
_MAX_START_LABELS = 1 << 30  # labels compared to choose the draw from which the search starts
_N_ALLOCATIONS = 3  # searches that start without clusters
_N_TRIAL_SWEEPS = 6  # sweeps of each search, before only the best one is continued
_NEW_COLUMNS = 4  # minimum number of columns added to the tables when no empty one is left


class _Draws(NamedTuple):
    """Draws of a partition of items, each of which represents one or more rows."""

    codes: np.ndarray  # (n_items, n_draws), labels 0, 1, ... in the order of first rows
    weights: np.ndarray  # (n_items,) int64, number of rows of each item
    offsets: np.ndarray  # (n_draws + 1,) int64, numbers of the first clusters of the draws
    sizes: np.ndarray  # (n_clusters,) int64, numbers of rows of the clusters of all draws
    logs: np.ndarray  # (n_rows + 1,) logarithms of the integers; 0 in place of log 0, which is not used


class _SearchResult(NamedTuple):
    """The result of a search."""

    labels: np.ndarray  # (n_items,) int64, not necessarily consecutive
    variation: float  # expected variation of information
    converged: bool  # no item would move, and no two clusters would merge


def variation_of_information(labels_a: ArrayLike, labels_b: ArrayLike) -> float:
    r"""Variation of information between two partitions of the same rows, in nats.

    It is the sum of the conditional entropies of each partition given the other,

    .. math::
        VI(a, b) = H(a) + H(b) - 2 I(a, b)
                 = \sum_{kl} \frac{n_{kl}}{n} \Bigl(\log\frac{n_{k\cdot}}{n_{kl}} + \log\frac{n_{\cdot l}}{n_{kl}}\Bigr)

    where :math:`n_{kl}` is the number of rows in cluster k of a and cluster l of b. It is a metric on partitions
    (Meila, 2007), from 0 for equal partitions to at most log n. It is computed by the right-hand side, so that it is
    exactly 0 for equal partitions.

    Parameters
    ----------
    labels_a, labels_b : array-like of shape (n_rows,)
        Labels: non-negative integers, not necessarily consecutive.

    Returns
    -------
    float
        The distance in nats; divide by log 2 for bits.

    Raises
    ------
    ValueError
        If labels are not non-negative integers, are empty, or have different numbers of rows.

    References
    ----------
    Meila, M. (2007). Comparing clusterings: an information based distance. Journal of Multivariate Analysis 98.

    Examples
    --------
    >>> from skmanifold.metrics import variation_of_information
    >>> variation_of_information([0, 0, 1, 1], [7, 7, 3, 3])
    0.0
    >>> round(variation_of_information([0, 0, 1, 1], [0, 1, 0, 1]), 4)  # 2 log 2: the partitions are independent
    1.3863
    """
    labels_b = _check_labels(labels_b, "labels_b", "n_rows")
    return float(_variations(_check_labels(labels_a, "labels_a", "n_rows"), _encode(labels_b[np.newaxis]))[0])


def expected_variation_of_information(labels: ArrayLike, draws: ArrayLike) -> Any:
    r"""Mean over draws of the variation of information between a partition and each draw, in nats.

    .. math::
        \frac{1}{T} \sum_{t=1}^T VI(c, z_t)

    This is the Monte Carlo estimate of the posterior expected loss of the partition c, not the lower bound that Wade
    and Ghahramani (2018) minimise. The running time is proportional to draws times rows, for any number of clusters.

    Parameters
    ----------
    labels : array-like of shape (n_rows,) or (n_candidates, n_rows)
        One partition or several: non-negative integers.
    draws : array-like of shape (n_draws, n_rows)
        Draws of the partition: non-negative integers. A cluster need not have the same label in two draws.

    Returns
    -------
    float, or ndarray of shape (n_candidates,), float64
        The expected variation of information of each partition, in nats.

    Raises
    ------
    ValueError
        If labels are not non-negative integers, there are no draws or rows, or the numbers of rows differ.

    References
    ----------
    Wade, S. and Ghahramani, Z. (2018). Bayesian cluster analysis: point estimation and credible balls. Bayesian
    Analysis 13.

    Examples
    --------
    >>> from skmanifold.metrics import expected_variation_of_information
    >>> draws = [[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 1]]
    >>> expected_variation_of_information([[0, 0, 1, 1], [0, 0, 0, 0]], draws).round(4).tolist()
    [0.2747, 0.6495]
    """
    encoded = _encode(_check_labels(draws, "draws", "n_draws", "n_rows"))
    if np.ndim(labels) == 1:
        return float(_variations(_check_labels(labels, "labels", "n_rows"), encoded).mean())
    candidates = _check_labels(labels, "labels", "n_candidates", "n_rows")
    return np.array([_variations(candidate, encoded).mean() for candidate in candidates])


def point_partition(
    draws: ArrayLike,
    *,
    max_components: int | None = None,
    max_sweeps: int = 100,
    random_state: RandomStateLike = 0,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Point estimate of a partition: the least expected variation of information to the draws.

    .. math::
        \hat c = \arg\min_c \frac{1}{T} \sum_{t=1}^T VI(c, z_t)

    This is the Bayes estimate of a partition under this loss (Wade and Ghahramani, 2018). The search uses sweeps as in
    SALSO (Dahl, Johnson and Mueller, 2022): each row in turn moves to the cluster, possibly a new one, with the least
    expected variation given the others; after a sweep, clusters are merged if that lowers it. One search starts from
    the best draw, one from a single cluster, and three assign the rows one by one in random order. The best after a few
    sweeps is continued until no row moves and no two clusters merge: a local minimum, never worse than the best draw or
    a single cluster.

    If draws have little in common, a single cluster may be better than any partition that resembles them. A row that is
    alone in half of the draws forms a cluster, so that there may be more clusters than in any draw; `max_components`
    limits them. This is not an estimate of the number of clusters.

    The best draw is searched among all, or as many evenly spaced ones as need about 10^9 comparisons of labels.

    Parameters
    ----------
    draws : array-like of shape (n_draws, n_rows)
        Draws of the partition, such as the labels from a chain of a mixture: non-negative integers. A cluster need not
        have the same label in two draws.
    max_components : int, optional
        Maximum number of clusters. Draws with more clusters are not used as initial partitions. If all draws have more,
        the largest clusters of the best draw are kept, and the other rows are assigned to these one by one.
    max_sweeps : int, default=100
        Maximum number of sweeps of a search.
    random_state : None, int or RandomState, default=0
        Seed of the order of rows in the searches that start without clusters. Pass an int for reproducible results.
    n_jobs : int, optional
        Number of threads, as in joblib. The result does not depend on it.

    Returns
    -------
    ndarray of shape (n_rows,), int64
        Labels 0, 1, ... in the order of decreasing cluster size; clusters of equal size are in the order of their first
        rows.

    Raises
    ------
    ValueError
        If labels are not non-negative integers, there are no draws or rows, or the contingency tables of clusters and
        the clusters of all draws would take more than 4 GiB.

    References
    ----------
    Wade, S. and Ghahramani, Z. (2018). Bayesian cluster analysis: point estimation and credible balls. Bayesian
    Analysis 13.

    Dahl, D. B., Johnson, D. J. and Mueller, P. (2022). Search algorithms and loss functions for Bayesian clustering.
    Journal of Computational and Graphical Statistics 31.

    Examples
    --------
    >>> from skmanifold.metrics import point_partition
    >>> point_partition([[0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]]).tolist()
    [0, 0, 0, 1, 1]
    """
    draws = _check_labels(draws, "draws", "n_draws", "n_rows")
    if max_components is not None:
        check_scalar(max_components, "max_components", Integral, min_val=1)
    check_scalar(max_sweeps, "max_sweeps", Integral, min_val=1)
    key = subkey(root_key(random_state), Purpose.START)
    items, item_of_row = _group(_encode(draws))
    n_items = len(items.weights)
    limit = n_items if max_components is None else min(int(max_components), n_items)
    unassigned = np.full(n_items, -1, np.int64)
    with Workers(n_jobs) as workers:
        start = _best_draw(items, limit, workers)
        options = start.max() + 1, limit, min(max_sweeps, _N_TRIAL_SWEEPS)
        searches = [(items, labels, np.arange(n_items), *options) for labels in (start, np.zeros(n_items, np.int64))]
        for number in range(_N_ALLOCATIONS):
            order = np.argsort(fold_in_each(subkey(key, number), np.arange(n_items)))
            searches.append((items, unassigned, order, *options))
        results = workers.run(_search, searches)
    best = 0
    for number, result in enumerate(results):
        if result.variation < results[best].variation - LEAST_GAIN:
            best = number
    labels = results[best].labels
    if not results[best].converged and max_sweeps > _N_TRIAL_SWEEPS:
        order = searches[best][2]
        labels = _search(items, labels, order, labels.max() + 1, limit, max_sweeps - _N_TRIAL_SWEEPS).labels
    return compact_labels(labels[item_of_row])


def co_clustering(draws: ArrayLike, rows: ArrayLike | None = None) -> np.ndarray:
    r"""Posterior similarity matrix: the fraction of draws in which two rows are in the same cluster.

    .. math::
        \hat\pi_{ij} = \frac{1}{T} \sum_{t=1}^T 1(z_{ti} = z_{tj})

    Parameters
    ----------
    draws : array-like of shape (n_draws, n_rows)
        Draws of the partition: non-negative integers. A cluster need not have the same label in two draws.
    rows : array-like of shape (n_selected,), optional
        Indices of rows, or a mask, as for numpy arrays; None uses all rows.

    Returns
    -------
    ndarray of shape (n_selected, n_selected), float64
        Symmetric matrix of probabilities, with ones on the diagonal.

    Raises
    ------
    ValueError
        If labels are not non-negative integers, there are no draws or rows, or the matrix would take more than 4 GiB.

    Examples
    --------
    >>> from skmanifold.metrics import co_clustering
    >>> co_clustering([[0, 0, 1], [2, 2, 2]]).tolist()
    [[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]]
    """
    draws = _check_labels(draws, "draws", "n_draws", "n_rows")
    if rows is not None:
        chosen: Any = rows
        draws = _check_labels(draws[:, chosen], "draws[:, rows]", "n_draws", "n_selected")
    n_rows = draws.shape[1]
    if 8 * n_rows**2 > _MAX_DENSE_BYTES:
        raise ValueError(
            f"Co-clustering of {n_rows} rows would take {8 * n_rows**2 / 2**30:.1f} GiB, more than "
            f"{_MAX_DENSE_BYTES / 2**30:.1f}: select fewer rows."
        )
    out = np.empty((n_rows, n_rows))
    count_agreements(_encode(draws).codes, out)
    return out


def compact_labels(labels: ArrayLike) -> np.ndarray:
    """Relabel clusters 0, 1, ... by decreasing size, equal ones by their first rows; (n_rows,) int64."""
    names = _name(_check_labels(labels, "labels", "n_rows"))
    return _ranks(np.bincount(names))[names]  # names are in the order of first rows


def _ranks(sizes: np.ndarray) -> np.ndarray:
    """0 for the largest size, and so on; equal ones in their order."""
    rank = np.empty(len(sizes), np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank


def _check_labels(labels: ArrayLike, name: str, *axes: str) -> np.ndarray:
    """`labels` as a nonempty array of non-negative integers with the given axes."""
    labels = np.asarray(labels)
    if labels.ndim != len(axes) or labels.size == 0:
        shape = f"({axes[0]},)" if len(axes) == 1 else f"({', '.join(axes)})"
        raise ValueError(f"{name} must be of shape {shape} and not empty; got shape {labels.shape}.")
    if labels.dtype.kind not in "iu":
        advice = f": convert them with np.asarray({name}, int)" if labels.dtype.kind == "f" else ""
        raise ValueError(f"{name} must be integers; got dtype {labels.dtype}{advice}.")
    if labels.min() < 0:
        raise ValueError(f"{name} must not be negative; got {labels.min()}.")
    return labels


def _name(labels):
    """Labels 0, 1, ... in the order of first rows, int64."""
    n_names = int(labels.max()) + 1
    if n_names > 4 * len(labels) + 1024:  # avoids a large table in which most labels do not occur
        uniques, labels = np.unique(labels, return_inverse=True)
        n_names = len(uniques)
    names = np.empty(len(labels), np.int64)
    name_by_first_row(labels.astype(np.int64, copy=False), n_names, names)
    return names


def _encode(draws) -> _Draws:
    n_draws, n_rows = draws.shape
    codes = np.empty((n_draws, n_rows), np.min_scalar_type(min(int(draws.max()), n_rows - 1)))
    sizes = []
    for t in range(n_draws):
        names = _name(draws[t])
        codes[t] = names
        sizes.append(np.bincount(names))
    offsets = np.zeros(n_draws + 1, np.int64)
    np.cumsum([len(each) for each in sizes], out=offsets[1:])
    logs = np.log(np.maximum(np.arange(n_rows + 1), 1))
    return _Draws(np.ascontiguousarray(codes.T), np.ones(n_rows, np.int64), offsets, np.concatenate(sizes), logs)


def _variations(labels, draws):
    """Variation of information between `labels` and each draw, (n_draws,)."""
    if len(labels) != len(draws.codes):
        raise ValueError(f"The partitions have different numbers of rows, {len(labels)} and {len(draws.codes)}.")
    names = _name(labels)
    members, starts = np.empty(len(names), np.int64), np.empty(names.max() + 2, np.int64)
    index_columns(names, starts, members)
    sizes = np.add.reduceat(draws.weights[members], starts[:-1])
    out = np.empty(draws.codes.shape[1])
    variations(members, starts, sizes, draws.weights, draws.codes, draws.offsets, draws.sizes, draws.logs, out)
    return out


def _group(draws):
    """Items, each of which represents rows that are together in every draw, and the item of each row.

    Such rows are together in every optimum too. If x of an item's w rows are in one cluster and the others in another,
    n times the expected variation has the second derivative 1 / (a + x) + 1 / (b + w - x) - (2 / T) sum_t [1 / (n_at +
    x) + 1 / (n_bt + w - x)], negative because n_at <= a and n_bt <= b: the minimum is at x = 0 or x = w.
    """
    contents = draws.codes.view(np.dtype((np.void, draws.codes[0].nbytes)))[:, 0].tolist()
    items: dict[bytes, int] = {}  # numbered by first rows
    item_of_row = np.array([items.setdefault(content, len(items)) for content in contents])
    _, first = np.unique(item_of_row, return_index=True)
    return draws._replace(codes=draws.codes[first], weights=np.bincount(item_of_row)), item_of_row


def _best_draw(items, limit, workers):
    """Labels of the initial draw, by decreasing size; -1 for rows outside of its `limit` largest clusters."""
    n_items, n_draws = items.codes.shape
    n_labels = np.diff(items.offsets)
    candidates = np.flatnonzero(n_labels <= limit)
    if not len(candidates):
        candidates = np.arange(n_draws)
    n_candidates = min(len(candidates), max(1, _MAX_START_LABELS // (n_items * n_draws)))
    candidates = candidates[np.arange(n_candidates) * len(candidates) // n_candidates]
    each = workers.run(lambda t: _variations(items.codes[:, t], items).mean(), [(t,) for t in candidates])
    best = candidates[np.argmin(each)]
    rank = _ranks(items.sizes[items.offsets[best] : items.offsets[best + 1]])
    return np.where(rank < limit, rank, -1)[items.codes[:, best]]


def _search(items, labels, order, n_columns, limit, max_sweeps) -> _SearchResult:
    """Sweep from `labels`, and merge clusters, until neither lowers the expected variation.

    The first sweep uses at most `n_columns` clusters: otherwise far too many would arise, because two single rows are
    joined only if they are together in most draws.
    """
    n_rows = len(items.logs) - 1
    whole = np.arange(n_rows + items.weights.max() + 1, dtype=np.float64)
    xlogx = whole * np.log(np.maximum(whole, 1))
    labels, given = labels.copy(), (items.weights, items.codes, items.offsets, xlogx)
    tables = _fill_tables(items, labels, xlogx, min(n_columns, limit))
    converged = False
    for number in range(max_sweeps):
        moved, position = False, 0
        while position < len(order):
            may_grow = number > 0 and n_columns < limit
            position, n_moves = sweep(order, position, labels, *given, may_grow, *tables)
            moved |= n_moves > 0
            if position < len(order):
                n_columns += n_columns // 4 + _NEW_COLUMNS
                tables = _fill_tables(items, labels, xlogx, min(n_columns, limit))
        if number > 0:
            n_merges = merge_clusters(labels, xlogx, items.codes.shape[1], *tables)
            converged = not moved and n_merges == 0
            if converged:
                break
    return _SearchResult(labels, _variations(labels, items).mean(), converged)


def _fill_tables(items, labels, xlogx, n_columns):
    """The tables of `sweep`: sizes, counts and gains."""
    shape = len(items.sizes), int(n_columns)
    n_bytes = 12 * shape[0] * shape[1]
    if n_bytes > _MAX_DENSE_BYTES:
        raise ValueError(
            f"Tables of {shape[1]} clusters by the {shape[0]} clusters of all draws would take {n_bytes / 2**30:.1f} "
            f"GiB, more than {_MAX_DENSE_BYTES / 2**30:.1f}: pass fewer draws or a smaller max_components."
        )
    sizes, counts, gains = np.zeros(n_columns, np.int64), np.zeros(shape, np.int32), np.empty(shape)
    count_items(labels, items.weights, items.codes, items.offsets, xlogx, sizes, counts, gains)
    return sizes, counts, gains
