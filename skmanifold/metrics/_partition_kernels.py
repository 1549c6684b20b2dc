"""Kernels over partitions: labels made canonical, equal rows found, variation of information, and one sweep of moves.

Draws of a partition are `codes` of shape (n_rows, n_draws), a row's labels side by side and as narrow as they fit.
Cluster l of draw t has number ``offsets[t] + l`` among the clusters of all draws.
"""

from __future__ import annotations

import numpy as np

from ..random._keys import fold_in
from ..utils._njit import njit

LEAST_GAIN = 1e-12  # nats of expected variation of information; less is rounding


@njit(cache=True, nogil=True)
def name_by_first_row(labels, n_names, out):
    """Label clusters 0, 1, ... in the order in which they first occur; returns how many there are.

    `labels` are below `n_names`.
    """
    names = np.full(n_names, -1, np.int64)
    n_labels = 0
    for i in range(len(labels)):
        label = labels[i]
        if names[label] < 0:
            names[label] = n_labels
            n_labels += 1
        out[i] = names[label]
    return n_labels


@njit(cache=True, nogil=True)
def find_groups(codes, group_of, first):
    """Group the rows that are equal in every draw; returns the number of groups.

    A table of rows by the hash of their labels. Rows are compared label by label, so hashes may collide.

    Parameters
    ----------
    codes : (n_rows, n_draws)
    group_of : (n_rows,) int64
        Overwritten: each row's group. Groups are numbered in the order of their first rows.
    first : (n_rows,) int64
        Overwritten: the first row of each group.
    """
    n_rows, n_draws = codes.shape
    n_slots = 2
    while n_slots < 2 * n_rows:
        n_slots *= 2
    last_slot = np.uint64(n_slots - 1)
    slots = np.full(n_slots, -1, np.int64)
    n_groups = 0
    for i in range(n_rows):
        key = np.uint64(0)
        for t in range(n_draws):
            key = fold_in(key, codes[i, t])
        slot = np.int64(key & last_slot)
        while True:
            group = slots[slot]
            if group < 0:
                slots[slot] = n_groups
                first[n_groups] = i
                group_of[i] = n_groups
                n_groups += 1
                break
            other = first[group]
            t = 0
            while t < n_draws and codes[i, t] == codes[other, t]:
                t += 1
            if t == n_draws:
                group_of[i] = group
                break
            slot = (slot + 1) % n_slots
    return n_groups


@njit(cache=True, nogil=True)
def variations(labels, n_labels, weights, codes, offsets, draw_sizes, logs, out):
    """Variation of information between one partition and each draw.

    The sum over pairs of clusters is (1 / n) sum_kl n_kl (log(a_k / n_kl) + log(b_l / n_kl)). No term is negative, and
    all are exactly zero for equal partitions. One cluster of `labels` at a time meets all draws: never a whole
    contingency table, so that the time goes with rows times draws whatever the number of clusters.

    Parameters
    ----------
    labels : (n_items,) int64
        The partition, labels below `n_labels`.
    weights : (n_items,) int64
        How many rows each item stands for.
    codes, offsets
        Draws, and their first clusters, (n_draws + 1,).
    draw_sizes : (n_clusters,) int64
        Rows of the clusters of all draws.
    logs : (n_rows + 1,) float64
        Logarithms of whole numbers.
    out : (n_draws,) float64
        Overwritten, in nats.
    """
    n_items, n_draws = codes.shape
    starts = np.zeros(n_labels + 1, np.int64)
    sizes = np.zeros(n_labels, np.int64)
    n_rows = 0
    for i in range(n_items):
        starts[labels[i] + 1] += 1
        sizes[labels[i]] += weights[i]
        n_rows += weights[i]
    for k in range(n_labels):
        starts[k + 1] += starts[k]
    filled = np.zeros(n_labels, np.int64)
    members = np.empty(n_items, np.int64)
    for i in range(n_items):
        label = labels[i]
        members[starts[label] + filled[label]] = i
        filled[label] += 1
    joint = np.zeros(len(draw_sizes), np.int64)
    out[:] = 0.0
    for k in range(n_labels):
        log_size = logs[sizes[k]]
        for position in range(starts[k], starts[k + 1]):
            i = members[position]
            for t in range(n_draws):
                joint[offsets[t] + np.int64(codes[i, t])] += weights[i]
        if (starts[k + 1] - starts[k]) * n_draws < len(joint):  # whichever is shorter, its rows or all clusters
            for position in range(starts[k], starts[k + 1]):
                i = members[position]
                for t in range(n_draws):
                    cluster = offsets[t] + np.int64(codes[i, t])
                    count = joint[cluster]
                    if count > 0:
                        log_count = logs[count]
                        out[t] += count * ((log_size - log_count) + (logs[draw_sizes[cluster]] - log_count))
                        joint[cluster] = 0
        else:
            for t in range(n_draws):
                for cluster in range(offsets[t], offsets[t + 1]):
                    count = joint[cluster]
                    if count > 0:
                        log_count = logs[count]
                        out[t] += count * ((log_size - log_count) + (logs[draw_sizes[cluster]] - log_count))
                        joint[cluster] = 0
    for t in range(n_draws):
        out[t] /= n_rows


@njit(cache=True, nogil=True)
def count_items(labels, weights, codes, offsets, xlogx, sizes, counts, gains):
    """Fill the tables of `sweep`, all zero before, from labels of which those below zero are left out."""
    n_items, n_draws = codes.shape
    for i in range(n_items):
        k = labels[i]
        if k >= 0:
            sizes[k] += weights[i]
            for t in range(n_draws):
                counts[offsets[t] + np.int64(codes[i, t]), k] += weights[i]
    for cluster in range(len(counts)):
        for k in range(len(sizes)):
            count = counts[cluster, k]
            gains[cluster, k] = xlogx[count + 1] - xlogx[count]


@njit(cache=True, nogil=True)
def sweep(order, begin, labels, weights, codes, offsets, xlogx, may_grow, sizes, counts, gains):
    """Move items, one after the other, to the cluster with the least expected variation of information given the rest.

    With f(x) = x log x, n times the expected variation is sum_k f(a_k) - (2 / T) sum_tkl f(n_tkl) plus what the draws
    alone decide. An item of weight w adds to cluster k, from which it is taken out first,

        f(a_k + w) - f(a_k) - (2 / T) sum_t [f(n_tkl + w) - f(n_tkl)],  l its own cluster in draw t,

    and to an empty one, which is the same formula, -f(w). It moves if the sum falls by more than rounding.

    Parameters
    ----------
    order : (n_items,) int64
        The items in the order of their visits; the first `begin` are passed over.
    labels : (n_items,) int64
        Each item's cluster, below zero for one that has none yet; overwritten.
    weights, codes, offsets
        As in `variations`.
    xlogx : float64
        f of 0, 1, ..., up to the number of rows plus the largest weight.
    may_grow : bool
        Whether the tables may get more columns.
    sizes : (n_columns,) int64
        The rows of each cluster.
    counts : (n_clusters, n_columns) int32
        Rows by cluster of the draws and of the partition: one item's clusters are side by side.
    gains : (n_clusters, n_columns) float64
        f(count + 1) - f(count): what most items, which are one row, would add, so that their scores are sums of rows.

    Returns
    -------
    position, n_moves : int
        Where in `order` the sweep stopped, before the end only where no empty column is left and more may be had.
    """
    n_items, n_draws = codes.shape
    n_columns = len(sizes)
    score = np.empty(n_columns)
    share = 2.0 / n_draws
    n_rows = 0
    for i in range(n_items):
        n_rows += weights[i]
    least_gain = LEAST_GAIN * n_rows
    n_empty = 0
    for k in range(n_columns):
        n_empty += sizes[k] == 0
    n_moves = 0
    for position in range(begin, n_items):
        if n_empty == 0 and may_grow:
            return position, n_moves
        i = order[position]
        w = weights[i]
        old = labels[i]
        score[:] = 0.0
        if w == 1:
            for t in range(n_draws):
                row = gains[offsets[t] + np.int64(codes[i, t])]
                for k in range(n_columns):
                    score[k] += row[k]
        else:
            for t in range(n_draws):
                tally = counts[offsets[t] + np.int64(codes[i, t])]
                for k in range(n_columns):
                    score[k] += xlogx[tally[k] + w] - xlogx[tally[k]]
        if old >= 0:  # of its own cluster it is a part
            score[old] = 0.0
            for t in range(n_draws):
                count = counts[offsets[t] + np.int64(codes[i, t]), old]
                score[old] += xlogx[count] - xlogx[count - w]
        best = -1
        least = np.inf
        if old >= 0:
            best = old
            least = xlogx[sizes[old]] - xlogx[sizes[old] - w] - share * score[old] - least_gain
        for k in range(n_columns):
            if k != old:
                rise = xlogx[sizes[k] + w] - xlogx[sizes[k]] - share * score[k]
                if rise < least:
                    best, least = k, rise
        if best == old:
            continue
        n_moves += 1
        n_empty -= sizes[best] == 0
        sizes[best] += w
        if old >= 0:
            sizes[old] -= w
            n_empty += sizes[old] == 0
        for t in range(n_draws):
            cluster = offsets[t] + np.int64(codes[i, t])
            count = counts[cluster, best] + w
            counts[cluster, best] = count
            gains[cluster, best] = xlogx[count + 1] - xlogx[count]
            if old >= 0:
                count = counts[cluster, old] - w
                counts[cluster, old] = count
                gains[cluster, old] = xlogx[count + 1] - xlogx[count]
        labels[i] = best
    return n_items, n_moves


@njit(cache=True, nogil=True)
def merge_clusters(labels, xlogx, n_draws, sizes, counts, gains):
    """Merge each cluster in turn with the one that lowers the expected variation of information most; if any does.

    Rows that are moved one at a time do not find this: the way leads uphill. The time is at most that of a sweep, as
    there are no more counts above zero than rows times draws. Arguments are those of `sweep`; returns the number of
    merges.
    """
    n_columns = len(sizes)
    score = np.empty(n_columns)
    names = np.arange(n_columns)
    share = 2.0 / n_draws
    n_merges = 0
    for old in range(n_columns):
        if sizes[old] == 0:
            continue
        score[:] = 0.0
        for cluster in range(len(counts)):
            count = counts[cluster, old]
            if count > 0:
                for k in range(n_columns):
                    other = counts[cluster, k]
                    if other > 0 and k != old:
                        score[k] += xlogx[count + other] - xlogx[count] - xlogx[other]
        best = -1
        least = -LEAST_GAIN * (len(xlogx) - 1)
        for k in range(n_columns):
            if sizes[k] > 0 and k != old:
                rise = xlogx[sizes[old] + sizes[k]] - xlogx[sizes[old]] - xlogx[sizes[k]] - share * score[k]
                if rise < least:
                    best, least = k, rise
        if best < 0:
            continue
        n_merges += 1
        sizes[best] += sizes[old]
        sizes[old] = 0
        for cluster in range(len(counts)):
            if counts[cluster, old] > 0:
                count = counts[cluster, best] + counts[cluster, old]
                counts[cluster, best], counts[cluster, old] = count, 0
                gains[cluster, best], gains[cluster, old] = xlogx[count + 1] - xlogx[count], 0.0
        for k in range(n_columns):
            if names[k] == old:
                names[k] = best
    if n_merges > 0:
        for i in range(len(labels)):
            labels[i] = names[labels[i]]
    return n_merges


@njit(cache=True, nogil=True)
def count_agreements(codes, out):
    """In how many draws two rows have the same label, divided by the number of draws, (n_rows, n_rows) float64."""
    n_rows, n_draws = codes.shape
    for i in range(n_rows):
        out[i, i] = 1.0
        for j in range(i):
            n_equal = 0
            for t in range(n_draws):
                n_equal += codes[i, t] == codes[j, t]
            out[i, j] = out[j, i] = n_equal / n_draws
