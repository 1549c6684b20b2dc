"""Split-merge moves of a partition: choose two rows, propose, accept or reject, and update clusters and counts.

The rows of a cluster form a cyclic linked list in `next_row`; `row_of_label` is one row of each cluster. What
depends on the family of the rows is in `emissions/kernels.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...emissions._family import Family
from ...emissions.kernels import (
    add_predictive,
    clear_sides,
    count_row,
    log_bayes_factor,
    merge_labels,
    odds_of_sides,
    refresh_posterior,
    update_posterior,
)
from ...random._keys import fold_in, subkey, uniform
from ...random._variates import exponential
from ...utils._njit import njit

# The prior probability of a partition is proportional to alpha^K prod_k Gamma(m_k), where m_k is the size of cluster k.
# A move concerns the rows of one or two clusters, `members`. The anchors i and j come first and stay on sides 0 and 1.
# The other rows are assigned to the sides in random order. Between moves the sides have no rows.

FIRST_SCAN = 1  # the children of a move's key from this one on are the keys of its scans
_SMALL = 1e-100


@njit(cache=True, nogil=True)
def _log_sigmoid(log_odds):
    """Log of the logistic function: the log of the probability with these log odds."""
    if log_odds > 0.0:
        return -math.log1p(math.exp(-log_odds))
    return log_odds - math.log1p(math.exp(log_odds))


@njit(cache=True, nogil=True)
def propose_sides(data, sides, members, n_members, n_scans, floor, sides_given, given_sides, key, out_side):
    """Assign all members but the anchors to two sides; returns the log probability of the last scan.

    A row joins a side with probability proportional to the number of members times the predictive probability. The
    first scan starts with the anchors only (Dahl, 2005); later ones are Gibbs scans restricted to two clusters. All but
    the last draw the sides, also if that one uses `given_sides`: they lead to a random launch state of the same
    distribution in a split and in the merge that reverses it (Jain and Neal, 2004). The sum of logs only decreases: the
    last scan stops and returns -inf once it is below `floor`.
    """
    statistics, posterior = sides
    in_1, log_probability, scratch = np.int64(1), 0.0, np.empty(2)
    for anchor in range(2):
        out_side[anchor] = anchor
        update_posterior(data, statistics, posterior, members[anchor], anchor, 1)
    for scan in range(n_scans + 1):
        first, last = scan == 0, scan == n_scans
        is_given, least, scan_key = sides_given and last, floor if last else -np.inf, fold_in(key, FIRST_SCAN + scan)
        in_0 = np.int64(1) if first else n_members - in_1
        log_probability, product = 0.0, 1.0
        lowest = math.exp(min(least, 0.0))
        for place in range(2, n_members):
            row = members[place]
            if not first:
                side = np.int64(out_side[place])
                update_posterior(data, statistics, posterior, row, side, -1)
                in_0 -= 1 - side
                in_1 -= side

            # The odds are factor_1 / factor_0 times exp(log_odds); without the latter no logarithm is needed.
            factor_1, factor_0, log_odds = odds_of_sides(data, statistics, posterior, row, scratch)
            factor_1 *= in_1
            factor_0 *= in_0
            if log_odds == 0.0:
                share = factor_1 / (factor_1 + factor_0)
                side = np.int64(given_sides[place] if is_given else uniform(scan_key, place) < share)
                product *= share if side == 1 else factor_0 / (factor_1 + factor_0)
            else:
                log_odds += math.log(factor_1 / factor_0)
                share = math.exp(_log_sigmoid(log_odds))
                side = np.int64(given_sides[place] if is_given else uniform(scan_key, place) < share)
                log_probability += _log_sigmoid(log_odds if side == 1 else -log_odds)
                lowest = math.exp(min(least - log_probability, 0.0))
            out_side[place] = side
            update_posterior(data, statistics, posterior, row, side, 1)
            in_0 += 1 - side
            in_1 += side

            # `lowest` is exp(least - log_probability), so that this needs no logarithm of the product.
            if product < lowest or log_probability < least:
                return -np.inf
            # Before the product underflows it moves to the sum of logs.
            if product < _SMALL:
                log_probability += math.log(product)
                product = 1.0
                lowest = math.exp(min(least - log_probability, 0.0))
        log_probability += math.log(product)
    return log_probability


# Counters of the draws of a move under its key, and the key's child for the order of the members.
_FIRST_ANCHOR, _MOVE_TYPE, _SECOND_ANCHOR, _ACCEPTANCE, _CLUSTER, _PARTNER = np.arange(6)  # of one type
_SIDE_1 = np.array([1])
_SHARED = 2**32  # child of the key beyond those of all moves, for a draw of parameters that all clusters share
_ORDER = 0  # the keys of the scans are counted from FIRST_SCAN = 1


def split_merge(
    clusters: Family,
    labels: np.ndarray,
    statistics: Any,
    concentration: float,
    n_moves: int,
    n_scans: int,
    key: np.uint64,
) -> tuple[int, int]:
    """Make moves that split a cluster in two or merge two of them; returns the numbers of accepted splits and merges.

    Components and weights are integrated out. Each move tries one of the following, with probability 1/2 each:

    - split: choose a row i and another row j of its cluster, and divide the cluster into one with i and one with j;
    - merge: choose a cluster uniformly and a row i of it, and merge it with a second cluster, drawn with probability
      proportional to its size times the predictive probability of row i; j is a row of the second cluster.

    The other rows are assigned to the sides of i and j one by one, with probabilities given the rows already assigned
    (Dahl, 2005, Technical report, Texas A&M University). `n_scans` restricted Gibbs scans follow (Jain and Neal, 2004,
    JCGS 13). Many merges are rejected before this work, because the ratio would be too small even if the reverse split
    had probability 1. A partition has prior probability proportional to alpha^K prod_k Gamma(m_k).

    Labels, (n_rows,) int32, and statistics change in place; a new cluster gets the smallest free label, a merged one
    that of i. The capacity of the statistics must be at least the number of clusters plus `n_moves`.
    """
    settings = float(concentration), n_moves, n_scans, np.uint64(key)
    space = clusters.split_merge_space(statistics, subkey(key, _SHARED))
    n_splits, n_merges = _make_moves(clusters.data, *settings, labels, statistics, *space)
    return int(n_splits), int(n_merges)


# Clusters


@njit(cache=True, nogil=True)
def _link_clusters(labels, out_next_row, out_last_row):
    """Link the rows of each label in a cycle, in their order; `out_last_row` stays -1 for labels without rows."""
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
    """List the labels that have rows; returns their number."""
    n = 0
    for label in range(len(sizes)):
        if sizes[label] > 0:
            out[n] = label
            n += 1
    return n


@njit(cache=True, nogil=True)
def _index_of(clusters, label):
    """Index of a label in the list of clusters, which contains it."""
    place = 0
    while clusters[place] != label:
        place += 1
    return place


@njit(cache=True, nogil=True)
def _list_members(next_row, row, first, out_members):
    """Write the cycle that begins at `row` to the list of members, from index `first`; returns the index after it."""
    member = row
    while True:
        out_members[first] = member
        first += 1
        member = next_row[member]
        if member == row:
            return first


@njit(cache=True, nogil=True)
def _shuffle(n_members, key, out_members):
    """Put the members except the anchors in random order (Fisher and Yates)."""
    for place in range(n_members - 1, 2, -1):
        other = 2 + np.int64(uniform(key, place) * (place - 1))
        out_members[place], out_members[other] = out_members[other], out_members[place]


@njit(cache=True, nogil=True)
def _apply_split(data, members, n_members, side, new_label, labels, next_row, row_of_label, statistics):
    """Move the members on side 1 to a new label, with its own cycle and statistics."""
    old_label = np.int64(labels[members[0]])  # kernels are compiled for one type of labels
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
        count_row(data, statistics, row, old_label, -1)
        count_row(data, statistics, row, new_label, 1)
    next_row[last_0] = row_of_label[old_label] = members[0]
    next_row[last_1] = row_of_label[new_label] = members[1]


@njit(cache=True, nogil=True)
def _apply_merge(data, members, n_members, labels, next_row, row_of_label, statistics):
    """Give all members the label of the first anchor, add the statistics, and join the two cycles."""
    i, j = members[0], members[1]
    kept, gone = np.int64(labels[i]), np.int64(labels[j])
    merge_labels(data, statistics, kept, gone)
    row_of_label[kept], row_of_label[gone] = i, -1
    next_row[i], next_row[j] = next_row[j], next_row[i]
    for place in range(n_members):
        labels[members[place]] = kept


# Anchors


@njit(cache=True, nogil=True)
def _fill_log_partner_weights(data, statistics, posterior, row, clusters, n_clusters, out):
    """Log of size times predictive density of the row, for each cluster, as if the row were in none of them."""
    for c in range(n_clusters):
        out[c] = math.log(statistics.sizes[clusters[c]])
    add_predictive(data, statistics, posterior, row, clusters, n_clusters, out)


@njit(cache=True, nogil=True)
def _log_sum_replacing(log_weights, n, place, other):
    """Log of the sum of the weights, where the weight at `place` is replaced by exp(other)."""
    largest, total = other, 0.0
    for c in range(n):
        if c != place:
            largest = max(largest, log_weights[c])
    for c in range(n):
        total += math.exp((other if c == place else log_weights[c]) - largest)
    return largest + math.log(total)


@njit(cache=True, nogil=True)
def _draw_excluding(log_weights, n, left_out, log_total, u):
    """Draw an index other than `left_out` with probability proportional to its weight."""
    chosen = -1
    for c in range(n):
        if c != left_out:
            chosen = c
            u -= math.exp(log_weights[c] - log_total)
            if u < 0.0:
                break
    return chosen


# Moves
#
# What does not depend on the family is in functions whose types are inferred once for all families.


@njit(cache=True, nogil=True)
def _choose_row_of_cluster(move_key, clusters, n_clusters, next_row, row_of_label, out_members):
    """Draw a cluster and a row of it; returns the index of the cluster and the row."""
    place = np.int64(uniform(move_key, _CLUSTER) * n_clusters)
    n_members = _list_members(next_row, row_of_label[clusters[place]], 0, out_members)
    return place, out_members[np.int64(uniform(move_key, _FIRST_ANCHOR) * n_members)]


@njit(cache=True, nogil=True)
def _choose_partner(move_key, log_weights, n_clusters, own_place):
    """Draw another cluster in proportion to its weight; returns its index and the log of its probability."""
    log_total = _log_sum_replacing(log_weights, n_clusters, own_place, -np.inf)
    other = _draw_excluding(log_weights, n_clusters, own_place, log_total, uniform(move_key, _PARTNER))
    return other, log_weights[other] - log_total


@njit(cache=True, nogil=True)
def _list_two_clusters(move_key, next_row, row, other_row, out_members):
    """List the members of the cluster of `row`, and then those of the other cluster, a random one of them first.

    Returns the index of that one and the number of members.
    """
    place = _list_members(next_row, row, 0, out_members)
    n_members = _list_members(next_row, other_row, place, out_members)
    second = place + np.int64(uniform(move_key, _SECOND_ANCHOR) * (n_members - place))
    out_members[place], out_members[second] = out_members[second], out_members[place]
    return place, n_members


@njit(cache=True, nogil=True)
def _order_members(n_members, place, move_key, labels, label, out_members, out_sides):
    """Put the second anchor, at `place`, second and the others in random order; and fill their sides before a merge."""
    out_members[1], out_members[place] = out_members[place], out_members[1]
    _shuffle(n_members, fold_in(move_key, _ORDER), out_members)
    for member in range(n_members):
        out_sides[member] = labels[out_members[member]] != label


@njit(cache=True, nogil=True)
def _log_ratio_of_split(n_rows, n_clusters, size_0, size_1, log_partner, log_concentration, log_factor):
    """Log acceptance ratio of a split, plus the log probability of the assignment of its members to the sides.

    A split chooses the first anchor among all rows, the second among the m - 1 others of its cluster. The reverse merge
    chooses one of the `n_clusters` clusters after the split, a row of it, a partner cluster with probability
    exp(log_partner), and a row of the partner.
    """
    size = size_0 + size_1
    log_prior = log_concentration + math.lgamma(size_0) + math.lgamma(size_1) - math.lgamma(size)
    log_split = -math.log(n_rows) - math.log(size - 1)
    log_merge = log_partner - math.log(n_clusters) - math.log(size_0) - math.log(size_1)
    return log_prior + log_factor + log_merge - log_split


@njit(cache=True, nogil=True)
def _make_moves(data, concentration, n_moves, n_scans, key, labels, statistics, posterior, sides):
    """Make `n_moves` moves of the partition given by `labels`; returns the numbers of accepted splits and merges.

    The arrays indexed by label must have capacity for one more cluster per move.
    """
    of_sides, posterior_of_sides = sides
    sizes = statistics.sizes
    n_rows, capacity = len(labels), len(sizes)
    log_concentration = math.log(concentration)
    # Rows of a label are linked in a cycle, so that a move takes time for the rows of its clusters only.
    next_row, row_of_label = np.empty(n_rows, np.int64), np.full(capacity, -1, np.int64)
    _link_clusters(labels, next_row, row_of_label)
    for label in range(capacity):
        if sizes[label] > 0:
            refresh_posterior(data, statistics, posterior, label)
    members = np.empty(n_rows, np.int64)
    side, given_sides = np.empty(n_rows, np.int8), np.empty(n_rows, np.int8)
    clusters, log_partner_weights, log_weight_of_side = np.empty(capacity, np.int64), np.empty(capacity), np.empty(1)
    n_splits = n_merges = 0

    for move in range(n_moves):
        move_key = fold_in(key, move)
        # The acceptance variable is drawn first, so that hopeless proposals stop early.
        log_u = -exponential(move_key, _ACCEPTANCE)
        is_split = uniform(move_key, _MOVE_TYPE) < 0.5
        n_clusters = _list_clusters(sizes, clusters)
        if is_split:
            i = np.int64(uniform(move_key, _FIRST_ANCHOR) * n_rows)
            label = labels[i]
            if sizes[label] == 1:
                continue
            own_place = _index_of(clusters, label)
            n_members = _list_members(next_row, i, 0, members)
            place = 1 + np.int64(uniform(move_key, _SECOND_ANCHOR) * (n_members - 1))
            log_ratio = log_partner = 0.0
            other_label = -1
        else:
            if n_clusters == 1:
                continue
            own_place, i = _choose_row_of_cluster(move_key, clusters, n_clusters, next_row, row_of_label, members)
            label = clusters[own_place]
            _fill_log_partner_weights(data, statistics, posterior, i, clusters, n_clusters, log_partner_weights)
            other, log_partner = _choose_partner(move_key, log_partner_weights, n_clusters, own_place)
            other_label = clusters[other]
            place, n_members = _list_two_clusters(move_key, next_row, i, row_of_label[other_label], members)
            # All of the merge's ratio but the probability of the sides in the reverse split is known before the scans.
            log_factor = log_bayes_factor(data, statistics, posterior, label, other_label)
            log_ratio = -_log_ratio_of_split(
                n_rows, n_clusters, place, n_members - place, log_partner, log_concentration, log_factor
            )
            if log_u >= log_ratio:  # even if the reverse split has probability 1
                continue
        _order_members(n_members, place, move_key, labels, label, members, given_sides)

        # A merge is lost once the log probability of the sides as they are falls below `floor`.
        floor = -np.inf if is_split else log_u - log_ratio
        proposal = members, n_members, n_scans, floor, not is_split, given_sides, move_key
        log_q = propose_sides(data, sides, *proposal, side)
        if is_split:
            # The reverse merge chooses side 1 as partner of row i among all other clusters and side 1.
            size_1 = np.int64(side[:n_members].sum())
            log_weight_of_side[0] = math.log(size_1)
            add_predictive(data, of_sides, posterior_of_sides, i, _SIDE_1, 1, log_weight_of_side)
            _fill_log_partner_weights(data, statistics, posterior, i, clusters, n_clusters, log_partner_weights)
            log_partner = log_weight_of_side[0] - _log_sum_replacing(
                log_partner_weights, n_clusters, own_place, log_weight_of_side[0]
            )
            log_factor = log_bayes_factor(data, of_sides, posterior_of_sides, 0, 1)
            log_ratio = _log_ratio_of_split(
                n_rows, n_clusters + 1, n_members - size_1, size_1, log_partner, log_concentration, log_factor
            )
        # Sides have no rows between moves.
        clear_sides(data, of_sides, posterior_of_sides)
        if is_split:
            if log_u >= log_ratio - log_q:
                continue
            # The new cluster has the smallest free label.
            other_label = 0
            while sizes[other_label] > 0:
                other_label += 1
            _apply_split(data, members, n_members, side, other_label, labels, next_row, row_of_label, statistics)
            n_splits += 1
        else:
            if log_u >= log_ratio + log_q:
                continue
            _apply_merge(data, members, n_members, labels, next_row, row_of_label, statistics)
            n_merges += 1
        refresh_posterior(data, statistics, posterior, label)
        refresh_posterior(data, statistics, posterior, other_label)
    return n_splits, n_merges
