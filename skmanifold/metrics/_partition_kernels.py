"""Kernels for partitions: canonical labels, variation of information, sweeps of moves, and merges.

Draws of a partition are `codes` of shape (n_rows, n_draws), in the smallest integer type that holds the labels, so that
the labels of a row are contiguous. Cluster l of draw t has number ``offsets[t] + l`` among the clusters of all draws.
"""

import numpy as np

from ..utils._njit import njit

LEAST_GAIN = 1e-12  # nats of expected variation of information; smaller differences are rounding errors


@njit(cache=True, nogil=True)
def name_by_first_row(labels, n_names, out):
    """Relabel clusters 0, 1, ... in the order of first occurrence; all `labels` are less than `n_names`."""
    names = np.full(n_names, -1, np.int64)
    n_labels = 0
    for i in range(len(labels)):
        label = labels[i]
        if names[label] < 0:
            names[label] = n_labels
            n_labels += 1
        out[i] = names[label]


@njit(cache=True, nogil=True)
def variations(members, starts, sizes, weights, codes, offsets, draw_sizes, logs, out):
    """Variation of information, in nats, between one partition and each draw, in `out`, (n_draws,).

    It is (1 / n) sum_kl n_kl (log(a_k / n_kl) + log(b_l / n_kl)): no term is negative, and all are exactly zero for
    equal partitions. No contingency table is complete, so that time is proportional to rows times draws for any number
    of clusters. Cluster k of the partition has the items ``members[starts[k]:starts[k + 1]]`` and `sizes[k]` rows.
    `weights` are rows of each item; `offsets`, (n_draws + 1,), first clusters of draws in `draw_sizes`; `logs` of
    integers.
    """
    n_draws = codes.shape[1]
    joint = np.zeros(len(draw_sizes), np.int64)
    out[:] = 0.0
    # One cluster after the other: its row of all contingency tables is counted, used and cleared.
    for k in range(len(sizes)):
        log_size = logs[sizes[k]]
        for position in range(starts[k], starts[k + 1]):
            i = members[position]
            for t in range(n_draws):
                joint[offsets[t] + np.int64(codes[i, t])] += weights[i]
        if (starts[k + 1] - starts[k]) * n_draws < len(joint):  # loop over its rows or over all clusters: the fewer
            for position in range(starts[k], starts[k + 1]):
                i = members[position]
                for t in range(n_draws):
                    cluster = offsets[t] + np.int64(codes[i, t])
                    out[t] += _use_count(joint, cluster, log_size, draw_sizes, logs)
        else:
            for t in range(n_draws):
                for cluster in range(offsets[t], offsets[t + 1]):
                    out[t] += _use_count(joint, cluster, log_size, draw_sizes, logs)
    for t in range(n_draws):
        out[t] /= len(logs) - 1


@njit(cache=True, nogil=True)
def _use_count(joint, cluster, log_size, draw_sizes, logs):
    """The term of a joint count, which becomes zero."""
    count = joint[cluster]
    if count == 0:
        return 0.0
    joint[cluster] = 0
    log_count = logs[count]
    return count * ((log_size - log_count) + (logs[draw_sizes[cluster]] - log_count))


@njit(cache=True, nogil=True)
def count_items(labels, weights, codes, offsets, xlogx, sizes, counts, gains):
    """Fill the tables of `sweep`, which must be zero, from labels; items with negative labels are ignored."""
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
    """Move items, one after the other, to the cluster of least expected variation of information given the others.

    With f(x) = x log x, n times the expected variation is sum_k f(a_k) - (2 / T) sum_tkl f(n_tkl) plus a term that does
    not depend on the partition. An item of weight w, first removed from its cluster, changes it in cluster k by

        f(a_k + w) - f(a_k) - (2 / T) sum_t [f(n_tkl + w) - f(n_tkl)],  l the cluster of the item in draw t.

    The item moves if the sum decreases by more than rounding errors. `labels` are negative for items without a cluster;
    items before `begin` in `order` are skipped. `sizes` are rows of each column; `counts`, int32, and `gains`, f(count
    + 1) - f(count), have a row for each cluster of the draws. Returns the position and the number of moves: it stops
    before the end only without empty columns if `may_grow` says that the caller can add some.
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
        # Without an empty column the item could not become a new cluster.
        if n_empty == 0 and may_grow:
            return position, n_moves
        i = order[position]
        w = weights[i]
        old = labels[i]
        # The last sums of the formula for all columns at once; those of single rows are tabulated.
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
        if old >= 0:  # the item is still counted in its current cluster
            score[old] = 0.0
            for t in range(n_draws):
                count = counts[offsets[t] + np.int64(codes[i, t]), old]
                score[old] += xlogx[count] - xlogx[count - w]
        # Another cluster has to be better than the present one by more than rounding errors.
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
        # Move the item: sizes, counts and tabulated increments of the two columns change.
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
    """Merge each cluster with the one that lowers the expected variation most, if one does; returns how many.

    Moves of single rows would first increase it. Arguments are those of `sweep`, whose time this needs at most: at most
    rows times draws counts are positive.
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
        # Only clusters of draws that share rows with both change the sum.
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
    """Fraction of draws in which two rows have the same label, (n_rows, n_rows) float64."""
    n_rows, n_draws = codes.shape
    for i in range(n_rows):
        out[i, i] = 1.0
        for j in range(i):
            n_equal = 0
            for t in range(n_draws):
                n_equal += codes[i, t] == codes[j, t]
            out[i, j] = out[j, i] = n_equal / n_draws
