"""Split-merge moves of a partition: kernels that choose anchors, accept, and keep clusters and their counts.

The rows of a cluster form a cycle in `next_row`, of which `a_row` is one by label. `sizes`, `categories` and `totals`
count rows, tokens and tokens by column of each label. How the rows of a move are dealt is in `_split_merge_kernels`.
"""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import fold_in, uniform
from ...random._variates import exponential
from ...utils._njit import njit
from .category_table import Table
from .cluster_counts import MixtureCounts
from .predictive_kernels import add_predictive
from .split_merge_kernels import deal, gain_of_labels, gain_of_two

# What a move's key is for: counters of its own draws, and children.
_FIRST_ANCHOR, _KIND, _SECOND_ANCHOR, _ACCEPTANCE, _CLUSTER, _PARTNER = np.arange(6)  # of one type for the compiler
_ORDER = 0  # scans count from 1

_SIDE_1 = np.array([1])


def split_merge(
    table: Table,
    labels: np.ndarray,
    counts: MixtureCounts,
    concentration: float,
    prior: float,
    n_moves: int,
    n_scans: int,
    key: np.uint64,
) -> tuple[int, int]:
    """Make Metropolis-Hastings moves that split a cluster in two or merge two of them.

    Components and weights are integrated out: a component has in each column a Dirichlet(prior, ..., prior)
    distribution over its categories. With probability 1/2 each, a move tries to

    - split: of a row i and another row j of its cluster, chosen at random, each gets a cluster of its own;
    - merge: a cluster chosen at random, small or large, with the cluster that a row i of it would most likely go to if
      it had to go, drawn in proportion to size times predictive probability; j is a row of that.

    The other rows are dealt to the sides of i and j one by one, each in proportion to the probability given the rows
    already there (Dahl, 2005), and with ``n_scans > 0`` by so many restricted Gibbs scans from there (Jain and Neal,
    2004). The time of a move grows with the entries of the rows in the one or two clusters concerned, times
    ``n_scans + 1``. Many merges are refused before that, since the ratio could not be large enough even if the reverse
    split were certain.

    Parameters
    ----------
    table : Table
        Rows of categories.
    labels : ndarray of shape (n_rows,), int32
        Cluster of each row, changed in place. A new cluster gets the smallest label that is free, and a merged one that
        of i's cluster, so that only the partition has a meaning.
    counts : MixtureCounts
        Those of the labels, changed in place; with room for labels below the number of clusters plus `n_moves`.
    concentration : float
        Concentration alpha of the Dirichlet process: a partition has prior probability proportional to
        alpha^K prod_k Gamma(m_k), where cluster k has m_k rows.
    prior : float
        Parameter of the symmetric Dirichlet distributions.
    n_moves : int
        Number of moves tried.
    n_scans : int
        Number of restricted Gibbs scans, 0 for none.
    key : uint64
        Key of the moves' draws, folded for each.

    Returns
    -------
    n_splits, n_merges : int
        Numbers of accepted moves.

    References
    ----------
    Jain and Neal (2004). "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model".
    Journal of Computational and Graphical Statistics 13.

    Dahl (2005). "Sequentially-allocated merge-split sampler for conjugate and nonconjugate Dirichlet process mixture
    models". Technical report, Texas A&M University.
    """
    settings = float(concentration), float(prior), n_moves, n_scans, np.uint64(key)
    n_splits, n_merges = _make_moves(*table, table.column_of(), *settings, labels, *counts)
    return int(n_splits), int(n_merges)


# Clusters


@njit(cache=True, nogil=True)
def _link_clusters(labels, out_next_row, out_last_row):
    """Make a cycle of the rows of each label, in their order; `out_last_row` holds -1 where there are none."""
    for row in range(len(labels)):
        last = out_last_row[labels[row]]
        if last < 0:
            out_next_row[row] = row
        else:
            out_next_row[row] = out_next_row[last]
            out_next_row[last] = row
        out_last_row[labels[row]] = row


@njit(cache=True, nogil=True)
def _list_clusters(sizes, out):
    """List the labels that have rows; returns how many."""
    n = 0
    for label in range(len(sizes)):
        if sizes[label] > 0:
            out[n] = label
            n += 1
    return n


@njit(cache=True, nogil=True)
def _find(clusters, label):
    """The place of a label that is among the clusters."""
    place = 0
    while clusters[place] != label:
        place += 1
    return place


@njit(cache=True, nogil=True)
def _gather(next_row, row, first, out_members):
    """Lay the cycle that begins at `row` out in the list of members, from place `first`; where it ends."""
    member = row
    while True:
        out_members[first] = member
        first += 1
        member = next_row[member]
        if member == row:
            return first


@njit(cache=True, nogil=True)
def _shuffle(n_members, key, out_members):
    """Put the members but the anchors in random order (Fisher and Yates)."""
    for place in range(n_members - 1, 2, -1):
        other = 2 + np.int64(uniform(key, place) * (place - 1))
        out_members[place], out_members[other] = out_members[other], out_members[place]


@njit(cache=True, nogil=True)
def _part(indptr, indices, counts, members, n_members, side, new_label, labels, next_row, a_row, sizes, categories):
    """Give the members on side 1 a label, a cycle and counts of their own."""
    old_label = labels[members[0]]
    last_0, last_1 = members[0], members[1]
    for place in range(1, n_members):
        row = members[place]
        if side[place] == 0:
            next_row[last_0] = row
            last_0 = row
            continue
        next_row[last_1] = row
        last_1 = row
        labels[row] = new_label
        sizes[new_label] += 1
        sizes[old_label] -= 1
        for e in range(indptr[row], indptr[row + 1]):
            categories[indices[e], old_label] -= counts[e]
            categories[indices[e], new_label] += counts[e]
    next_row[last_0] = a_row[old_label] = members[0]
    next_row[last_1] = a_row[new_label] = members[1]


@njit(cache=True, nogil=True)
def _join(members, n_members, labels, next_row, a_row, sizes, categories):
    """Give all members the first anchor's label and its cluster their counts, and the two cycles one another's ends."""
    i, j = members[0], members[1]
    kept, gone = labels[i], labels[j]
    sizes[kept] += sizes[gone]
    sizes[gone] = 0
    for category in range(len(categories)):
        categories[category, kept] += categories[category, gone]
        categories[category, gone] = 0
    a_row[kept], a_row[gone] = i, -1
    next_row[i], next_row[j] = next_row[j], next_row[i]
    for place in range(n_members):
        labels[members[place]] = kept


# Anchors


@njit(cache=True, nogil=True)
def _add_up_columns(column_start, categories, label, out_totals):
    for column in range(len(column_start) - 1):
        total = 0
        for category in range(column_start[column], column_start[column + 1]):
            total += categories[category, label]
        out_totals[column, label] = total


@njit(cache=True, nogil=True)
def _fill_log_partners(data, prior, row, clusters, n_clusters, sizes, categories, totals, out):
    """Log of size times predictive probability of the row, for each of the clusters as if it were not in any."""
    for c in range(n_clusters):
        out[c] = math.log(sizes[clusters[c]])
    add_predictive(*data, prior, row, clusters, n_clusters, categories, totals, out)


@njit(cache=True, nogil=True)
def _log_sum_with(log_weights, n, place, other):
    """Log of the sum of the weights where the one at `place` is exp(other) instead."""
    largest, total = other, 0.0
    for c in range(n):
        if c != place:
            largest = max(largest, log_weights[c])
    for c in range(n):
        total += math.exp((other if c == place else log_weights[c]) - largest)
    return largest + math.log(total)


@njit(cache=True, nogil=True)
def _draw_but(log_weights, n, left_out, log_total, u):
    """One of the weights but one, in proportion to them."""
    chosen = -1
    for c in range(n):
        if c != left_out:
            chosen = c
            u -= math.exp(log_weights[c] - log_total)
            if u < 0.0:
                break
    return chosen


# Moves


@njit(cache=True, nogil=True)
def _log_ratio_of_split(n_rows, n_clusters, size_0, size_1, log_partner, log_concentration, gain):
    """Log of the ratio in which a split is accepted, times the probability of how its members were dealt.

    What is compared is p(partition) p(rows | partition) P(move), after and before. A split chooses the first anchor
    among all rows and the second among the m - 1 others of its cluster. The merge that undoes it chooses one of the
    `n_clusters` clusters that there are then, a row of it, a partner for that row with probability
    exp(log_partner), and a row of that.
    """
    size = size_0 + size_1
    log_prior = log_concentration + math.lgamma(size_0) + math.lgamma(size_1) - math.lgamma(size)
    log_split = -math.log(n_rows) - math.log(size - 1)
    log_merge = log_partner - math.log(n_clusters) - math.log(size_0) - math.log(size_1)
    return log_prior + gain + log_merge - log_split


@njit(cache=True, nogil=True)
def _make_moves(
    indptr,
    indices,
    counts,
    column_start,
    column_of,
    concentration,
    prior,
    n_moves,
    n_scans,
    key,
    labels,
    sizes,
    categories,
):
    """Make `n_moves` moves of the partition that `labels` stands for: numbers of accepted splits and merges.

    The labels, and what is counted by them, have room for one more cluster after every move.
    """
    data = indptr, indices, counts, column_start, column_of
    n_rows, capacity = len(labels), len(sizes)
    log_concentration = math.log(concentration)
    next_row, a_row = np.empty(n_rows, np.int64), np.full(capacity, -1, np.int64)
    _link_clusters(labels, next_row, a_row)
    totals = np.empty((len(column_start) - 1, capacity))
    for label in range(capacity):
        _add_up_columns(column_start, categories, label, totals)
    members = np.empty(n_rows, np.int64)
    side, wanted = np.empty(n_rows, np.int8), np.empty(n_rows, np.int8)
    sub_counts = np.zeros((len(column_of), 2))
    sub_totals = np.zeros((len(column_start) - 1, 2))
    touched = np.empty(len(column_of), np.int64)
    clusters, log_partners = np.empty(capacity, np.int64), np.empty(capacity)
    side_sizes = np.empty(2, np.int64)
    n_splits = n_merges = 0

    for move in range(n_moves):
        move_key = fold_in(key, move)
        log_u = -exponential(move_key, _ACCEPTANCE)
        is_split = uniform(move_key, _KIND) < 0.5
        n_clusters = _list_clusters(sizes, clusters)
        if is_split:
            i = np.int64(uniform(move_key, _FIRST_ANCHOR) * n_rows)
            label = labels[i]
            if sizes[label] == 1:
                continue
            own = _find(clusters, label)
            n_members = _gather(next_row, i, 0, members)
            place = 1 + np.int64(uniform(move_key, _SECOND_ANCHOR) * (n_members - 1))
            log_ratio = log_partner = 0.0
            other_label = -1
        else:
            if n_clusters == 1:
                continue
            own = np.int64(uniform(move_key, _CLUSTER) * n_clusters)
            label = clusters[own]
            n_members = _gather(next_row, a_row[label], 0, members)
            i = members[np.int64(uniform(move_key, _FIRST_ANCHOR) * n_members)]
            _fill_log_partners(data, prior, i, clusters, n_clusters, sizes, categories, totals, log_partners)
            log_total = _log_sum_with(log_partners, n_clusters, own, -np.inf)
            other = _draw_but(log_partners, n_clusters, own, log_total, uniform(move_key, _PARTNER))
            log_partner, other_label = log_partners[other] - log_total, clusters[other]
            place = _gather(next_row, i, 0, members)
            n_members = _gather(next_row, a_row[other_label], place, members)
            second = place + np.int64(uniform(move_key, _SECOND_ANCHOR) * (n_members - place))
            members[place], members[second] = members[second], members[place]
            gain = gain_of_labels(column_start, prior, categories, totals, label, other_label)
            log_ratio = -_log_ratio_of_split(
                n_rows, n_clusters, place, n_members - place, log_partner, log_concentration, gain
            )
            if log_u >= log_ratio:  # whatever the probability of the split that undoes it
                continue
        members[1], members[place] = members[place], members[1]
        _shuffle(n_members, fold_in(move_key, _ORDER), members)
        if not is_split:
            for member in range(n_members):
                wanted[member] = labels[members[member]] != label

        floor = -np.inf if is_split else log_u - log_ratio
        task = prior, members, n_members, n_scans, floor, not is_split, wanted, move_key
        log_q, n_touched = deal(*data, *task, side, sub_counts, sub_totals, touched)
        if is_split:
            side_sizes[:] = 0
            for member in range(n_members):
                side_sizes[side[member]] += 1
            _fill_log_partners(data, prior, i, _SIDE_1, 1, side_sizes, sub_counts, sub_totals, log_partners)
            of_side = log_partners[0]
            _fill_log_partners(data, prior, i, clusters, n_clusters, sizes, categories, totals, log_partners)
            log_partner = of_side - _log_sum_with(log_partners, n_clusters, own, of_side)
        gain = gain_of_two(column_start, column_of, prior, touched, n_touched, sub_counts, sub_totals)
        if is_split:
            log_ratio = _log_ratio_of_split(
                n_rows, n_clusters + 1, side_sizes[0], side_sizes[1], log_partner, log_concentration, gain
            )
            if log_u >= log_ratio - log_q:
                continue
            other_label = 0
            while sizes[other_label] > 0:
                other_label += 1
            _part(*data[:3], members, n_members, side, other_label, labels, next_row, a_row, sizes, categories)
            n_splits += 1
        else:
            if log_u >= log_ratio + log_q:
                continue
            _join(members, n_members, labels, next_row, a_row, sizes, categories)
            n_merges += 1
        _add_up_columns(column_start, categories, label, totals)
        _add_up_columns(column_start, categories, other_label, totals)
    return n_splits, n_merges
