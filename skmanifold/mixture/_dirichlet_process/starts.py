"""Initial labels of a Dirichlet process mixture, with clusters merged or dissolved, and learned hyperparameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import entr, softmax

from ...emissions._abilities import LearnsPrior
from ...emissions._bound_rows import StartEffort
from ...emissions._columns.rows import ColumnRows
from ...emissions._dense_rows import DenseRows
from ...emissions._family import Family
from ...emissions._rounding import cell_width
from ...emissions._statistics import by_size, occupied, selected
from ...metrics._partitions import compact_labels
from ...random._keys import Purpose, fold_in_each, root_key, subkey
from ...samplers import Slice
from ...utils._threads import ONE, Workers, split_range
from .._merge_kernels import LEAST_SHARE, merge_pairs
from .model import DPModel, Start, initial_labels

_CELLS_AT_ONCE = 1 << 20  # scores of so many rows and clusters are stored


def label_scores(clusters: Family, statistics: Any, workers: Workers) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a block of rows, a slice, and the log of size times predictive density in each cluster, (n_rows, K)."""
    log_sizes = np.log(statistics.sizes)
    for start, stop in split_range(clusters.n_rows, max(1, _CELLS_AT_ONCE // len(log_sizes))):
        scores = np.repeat(log_sizes[np.newaxis], stop - start, axis=0)
        clusters.part(start, stop).add_log_predictive(statistics, scores, workers)
        yield slice(start, stop), scores


def merge_greedily(
    clusters: Family, labels: np.ndarray, statistics: Any, concentration: float, key: np.uint64, workers: Workers
) -> tuple[np.ndarray, np.ndarray]:
    """Merge, in each step, the two clusters whose union increases the evidence most; returns labels and shares of rows.

    The evidence of a set of clusters sums over all partitions that have about these parameters: the log joint density
    of one of them plus the entropy of the labels given the parameters. Without the entropy overlapping clusters would
    be merged although their parameters differ. `statistics` become those of the new labels.
    """
    present = occupied(statistics)
    shares = np.empty((clusters.n_rows, len(present)))
    for rows, scores in label_scores(clusters, selected(statistics, present), workers):
        shares[rows] = softmax(scores, axis=1)
    posterior, _ = clusters.split_merge_space(statistics, subkey(key))
    merged_with = np.arange(len(statistics.sizes), dtype=np.int32)
    merge_pairs(
        clusters.data, statistics, posterior, present, shares, merged_with, math.log(concentration), 1.0, 0.0, 1
    )
    of_labels = np.zeros((clusters.n_rows, len(statistics.sizes)))
    of_labels[:, present] = shares
    return merged_with[labels], of_labels


def dissolve_small(
    model: DPModel, labels: np.ndarray, statistics: Any, shares: np.ndarray, concentration: float
) -> float:
    """Move all rows of a cluster to the others that suit each best, if the evidence increases; returns the evidence.

    Rows between large clusters may form a small one that no merge removes, since it belongs to several. Clusters
    smaller than the average are tried, smallest first. Labels, statistics and shares, (n_rows, capacity), are
    overwritten.
    """
    shares[shares <= LEAST_SHARE] = 0.0
    entropy = _entropy(shares)
    evidence = model.log_joint(statistics, concentration) + entropy
    present = by_size(statistics)[::-1]
    for label in present[statistics.sizes[present] < model.n_rows / len(present)]:
        concerned = np.flatnonzero(shares[:, label])
        others = shares[concerned]
        others[:, label] = 0.0
        totals = others.sum(axis=1, keepdims=True)
        rows = np.flatnonzero(labels == label)
        targets = shares[rows]
        targets[:, label] = 0.0
        if not (totals.all() and targets.any(axis=1).all()):
            continue
        others /= totals
        new_labels = targets.argmax(axis=1).astype(labels.dtype)
        model.move(rows, new_labels, labels, statistics)
        new_entropy = entropy + _entropy(others) - _entropy(shares[concerned])
        new_evidence = model.log_joint(statistics, concentration) + new_entropy
        if new_evidence > evidence:
            shares[concerned] = others
            entropy, evidence = new_entropy, new_evidence
        else:
            model.move(rows, np.full(len(rows), label, labels.dtype), labels, statistics)
    return evidence


def _entropy(shares: np.ndarray) -> float:
    """Entropy of the label of each row, summed over rows, in nats."""
    return float(entr(shares).sum())


_N_PASSES = 3  # of each round
_CONCENTRATION = 1.0


def searched_rows(emission: Any, clusters: Family, rows: Any, key: np.uint64) -> np.ndarray | None:
    """Indices of the rows in which clusters are sought; None: all. `rows` are as the emission read them.

    Of many rows a random sample, without repetitions if there are many: the density of a cluster of equal rows is
    unbounded, so that a prior that is learned from such clusters suits no others.
    """
    n_sampled, searched = clusters.start_effort().most_rows, None
    if clusters.n_rows > n_sampled:
        order = fold_in_each(subkey(key, Purpose.SUBSAMPLE), np.arange(clusters.n_rows))
        searched = np.sort(np.argsort(order, kind="stable")[:n_sampled])
    distinct = distinct_rows(emission, rows, searched)
    if distinct is None:
        return searched
    n_rows = clusters.n_rows if searched is None else n_sampled
    warnings.warn(
        f"{n_rows - len(distinct)} of {n_rows} rows of X repeat other rows exactly, and equal rows of numbers can form "
        "clusters of their own: remove repeated rows that are not separate observations.",
        UserWarning,
        stacklevel=8,
    )
    return distinct if searched is None else searched[distinct]


def spread_start(init: Any, clusters: Family, searched: np.ndarray | None) -> Start:
    """Initial labels from many seeds, from one cluster, or those that the user passed, renumbered without gaps."""
    start = initial_labels(init, clusters.n_rows)
    if isinstance(start, np.ndarray):
        return start
    return np.zeros(clusters.n_rows, np.int32) if start == 1 else partial(_labels_from_seeds, clusters, searched, start)


def find_clusters(
    clusters: Family,
    searched: np.ndarray | None,
    n_clusters: int,
    free: tuple[str, ...],
    key: np.uint64,
    workers: Workers,
    effort: StartEffort | None = None,
) -> Found:
    """The `Found` clusters of highest evidence from up to `n_clusters` seeds, and the values of `free` hyperparameters.

    The effort is that of the family, unless it is given.

    They are numbered by their sizes: if several starts find the same partition, rounding errors choose one of them,
    and the fit should not depend on that.
    """
    clusters = clusters if searched is None else clusters.subset(searched)
    effort, most = effort or clusters.start_effort(), min(n_clusters, clusters.n_rows)
    found = []
    for n in (most, *(n for n in effort.fewer_seeds if n < most)):
        labels = clusters.spread_labels(n, subkey(key, Purpose.CENTRES, n))
        found.append(_improved(clusters, labels, free, effort.n_rounds, subkey(key, Purpose.WARM_UP, n), workers))
    best = _best(found)
    if effort.least_size > 0.0:
        fewer, last = _without_small(best, effort.least_size, workers), subkey(key, Purpose.WARM_UP)
        starts = [best.labels] if np.array_equal(fewer, best.labels) else [best.labels, fewer]
        best = _best([_improved(clusters, labels, free, 1, last, workers) for labels in starts])
    return best._replace(labels=compact_labels(best.labels).astype(np.int32))


def labels_of_all(clusters: Family, found: Found, workers: Workers) -> np.ndarray:
    """Labels of all rows, given the clusters that were found in them or in a sample of them, with the same prior."""
    if len(found.labels) == clusters.n_rows:
        return found.labels
    statistics = selected(found.statistics, by_size(found.statistics))
    labels = np.empty(clusters.n_rows, np.int32)
    for rows, scores in label_scores(clusters, statistics, workers):
        labels[rows] = scores.argmax(axis=1)
    return labels


def _labels_from_seeds(clusters: Family, searched: np.ndarray | None, n_clusters: int, key: np.uint64) -> np.ndarray:
    """Labels from seeds that are spread over the rows, improved by a few passes on a sample and merged greedily.

    A chain would merge superfluous large clusters slowly. The clusters of the sample then receive the other rows.
    """
    found = find_clusters(clusters, searched, n_clusters, (), key, ONE)  # chains may run in parallel
    return labels_of_all(clusters, found, ONE)


class Found(NamedTuple):
    """Clusters that were found from seeds."""

    evidence: float  # logarithm, see `merge_greedily`
    labels: np.ndarray
    statistics: Any
    clusters: Family


def _best(found: list[Found]) -> Found:
    return max(found, key=lambda each: each.evidence)


def _improved(
    clusters: Family, labels: np.ndarray, free: tuple[str, ...], n_rounds: int, key: np.uint64, workers: Workers
) -> Found:
    """Clusters after rounds of passes and greedy merges, with a prior that is learned before each."""
    adapted, sampler = clusters, cast(Any, Slice(n_split_merge=0))
    statistics = clusters.no_statistics(int(labels.max()) + 1)
    clusters.given(statistics).count(labels, statistics, workers)
    for n_round in range(n_rounds):
        if free:
            if n_round or n_rounds == 1:  # seeds alone do not show the shapes of clusters
                clusters, statistics = clusters.with_learned_transform(labels, statistics, free, workers)
            adapted = clusters.with_learned_prior(statistics, free)
        model = DPModel(adapted, _CONCENTRATION, (1.0, 1.0), init=labels, batch_size=None, workers=workers)
        state = sampler.init(model, subkey(key, n_round))
        for _ in range(_N_PASSES):
            state = sampler.step(model, state)
        statistics = state.statistics
        labels, shares = merge_greedily(adapted, state.latents, statistics, _CONCENTRATION, key, workers)
        evidence = dissolve_small(model, labels, statistics, shares, _CONCENTRATION)
    evidence += adapted.given(statistics).entropy_of_missing(labels, statistics)
    if free:
        adapted = clusters.with_learned_prior(statistics, free)
    return Found(evidence, labels, statistics, adapted)


def _without_small(found: Found, least_size: float, workers: Workers) -> np.ndarray:
    """Labels where the rows of clusters smaller than this multiple of the average have the best of the others.

    Many small clusters may remain between large ones. Each alone suits its rows, but without all of them the partition
    may be more probable after another round.
    """
    present, sizes = by_size(found.statistics), found.statistics.sizes
    large = present[sizes[present] >= least_size * found.clusters.n_rows / len(present)]
    labels = found.labels.copy()
    rows = np.flatnonzero(~np.isin(labels, large))
    for some, scores in label_scores(found.clusters.subset(rows), selected(found.statistics, large), workers):
        labels[rows[some]] = large[scores.argmax(axis=1)]
    return labels


# Rows that repeat others: the marginal density of clusters of equal rows has no bound as a function of the prior.
# Priors are therefore learned from distinct rows.

_LEAST_REPEATED = 0.1  # of rows that repeat others, from which on they are left out
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
        if n_rows - len(used) < _LEAST_REPEATED * n_rows:
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
