"""Split-merge moves on the partition of a Dirichlet-process mixture of products of multinomials: kernels over arrays.

The rows are those of a `Table`, passed as its arrays. A component has in column b, of s_b categories, a
Dirichlet(a, ..., a) distribution, a = `prior`; integrated out, rows with counts n_f and column totals N_b have the
marginal probability prod_b Gamma(a s_b) / Gamma(a s_b + N_b) prod_f Gamma(a + n_f) / Gamma(a), of their tokens in
order. The partition has the prior alpha^K prod_k Gamma(m_k) up to a constant, m_k the size of cluster k.

A move looks at the rows of one or two clusters, in `members`: the anchors i and j come first and stay on sides 0 and 1,
the others are dealt to the sides in a random order. `sub_counts` (n_categories, 2) and `sub_totals` (n_columns, 2) are
the counts of the two sides, as whole float64, all zero between moves; `touched` lists the categories that may not be.
The rows of a cluster form a cycle in `next_row`, and `size_of` counts them by label.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..utils._random import fold_in, uniform
from ..utils._rising import log_rising
from ..utils._variates import exponential

# What a move's key is for: counters of its own draws, and children.
_FIRST_ANCHOR, _KIND, _SECOND_ANCHOR, _ACCEPTANCE = range(4)
_OTHER_ANCHOR, _ORDER, _SCAN = range(3)

_MANY_TOKENS = 8  # up to as many factors stand between two looks at the size of a product
_LARGE, _SMALL = 1e100, 1e-100


# Marginals


@njit(cache=True, nogil=True)
def log_marginal_of_counts(counts, column_start, prior):
    """Log of the marginal probability of rows with these `counts` (n_categories,) in all."""
    result = 0.0
    for column in range(len(column_start) - 1):
        start, stop = column_start[column], column_start[column + 1]
        total = np.int64(0)
        for category in range(start, stop):
            if counts[category] > 0:
                result += log_rising(prior, counts[category])
                total += counts[category]
        result -= log_rising(prior * (stop - start), total)
    return result


@njit(cache=True, nogil=True)
def _gain_of_two(column_start, column_of, prior, touched, n_touched, out_sub_counts, out_sub_totals):
    """Log marginal of the two sides less that of their union; sets the counts of both to zero."""
    gain = 0.0
    for place in range(n_touched):
        category = touched[place]
        of_0, of_1 = np.int64(out_sub_counts[category, 0]), np.int64(out_sub_counts[category, 1])
        out_sub_counts[category] = 0.0
        if of_0 > 0 and of_1 > 0:
            gain += log_rising(prior, of_0) - log_rising(prior + of_1, of_0)
        column = column_of[category]
        of_0, of_1 = np.int64(out_sub_totals[column, 0]), np.int64(out_sub_totals[column, 1])
        out_sub_totals[column] = 0.0
        if of_0 > 0 and of_1 > 0:
            column_prior = prior * (column_start[column + 1] - column_start[column])
            gain += log_rising(column_prior + of_1, of_0) - log_rising(column_prior, of_0)
    return gain


# One row and the counts of two sides


@njit(cache=True, nogil=True)
def _shift(indptr, indices, counts, column_of, row, side, sign, out_sub_counts, out_sub_totals):
    """Add a row to a side, or take it away where `sign` is -1."""
    for e in range(indptr[row], indptr[row + 1]):
        category = indices[e]
        tokens = np.float64(sign * counts[e])
        out_sub_counts[category, side] += tokens
        out_sub_totals[column_of[category], side] += tokens


@njit(cache=True, nogil=True)
def _touch(indptr, indices, row, sub_counts, n_touched, out_touched):
    """List a row's categories that no row before it had; the length of the list after it."""
    for e in range(indptr[row], indptr[row + 1]):
        category = indices[e]
        if sub_counts[category, 0] + sub_counts[category, 1] == 0.0:
            out_touched[n_touched] = category
            n_touched += 1
    return n_touched


@njit(cache=True, nogil=True)
def _times_rising(x, y, n, factor_x, factor_y, log_odds):
    """Multiply the two factors by the rising factorials (x)_n and (y)_n, in logarithms where these are long.

    The odds are factor_x / factor_y exp(log_odds). Both factors keep between 1e-100 and 1e100, whatever is multiplied
    into them, so that a logarithm is taken only where their quotient leaves that range.
    """
    if n > _MANY_TOKENS:
        log_odds += log_rising(x, n) - log_rising(y, n)
        return factor_x, factor_y, log_odds
    for t in range(n):
        factor_x *= x + t
        factor_y *= y + t
    if not (_SMALL < factor_x < _LARGE and _SMALL < factor_y < _LARGE):
        larger = max(factor_x, factor_y)
        factor_x /= larger
        factor_y /= larger
        if min(factor_x, factor_y) < _SMALL:
            log_odds += math.log(factor_x) - math.log(factor_y)
            factor_x = factor_y = 1.0
    return factor_x, factor_y, log_odds


@njit(cache=True, nogil=True)
def _compare(indptr, indices, counts, column_start, column_of, prior, row, sub_counts, sub_totals):
    """A row's predictive probability given side 1 over that given side 0: two factors and log odds, see above."""
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column = column_of[indices[e]]
        column_stop = column_start[column + 1]
        row_tokens = np.int64(0)
        while e < stop and indices[e] < column_stop:
            category, tokens = indices[e], np.int64(counts[e])
            factor_1, factor_0, log_odds = _times_rising(
                sub_counts[category, 1] + prior, sub_counts[category, 0] + prior, tokens, factor_1, factor_0, log_odds
            )
            row_tokens += tokens
            e += 1
        column_prior = prior * (column_stop - column_start[column])
        of_0, of_1 = sub_totals[column, 0] + column_prior, sub_totals[column, 1] + column_prior
        factor_1, factor_0, log_odds = _times_rising(of_0, of_1, row_tokens, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


@njit(cache=True, nogil=True)
def _log_share(log_odds):
    """Log of the probability that has these log odds."""
    if log_odds > 0.0:
        return -math.log1p(math.exp(-log_odds))
    return log_odds - math.log1p(math.exp(log_odds))


# Proposals


@njit(cache=True, nogil=True)
def _scan(
    indptr,
    indices,
    counts,
    column_start,
    column_of,
    prior,
    members,
    n_members,
    first,
    n_touched,
    floor,
    follow,
    wanted,
    key,
    out_side,
    out_sub_counts,
    out_sub_totals,
    out_touched,
):
    """Deal each member but the anchors to a side, given the members on both: log of the probability, `n_touched`.

    A side has probability proportional to its number of members times the row's predictive probability given them. In
    the `first` scan the sides are empty: the anchors are set, and the others join them one by one (Dahl, 2005). Later
    each is taken out before it is dealt anew: a Gibbs scan restricted to two clusters. Sides are drawn, or those of
    `wanted` if `follow`. The probability falls with each row: below `floor`, in logarithms, nobody asks for the rest,
    and -inf is returned.
    """
    in_0, in_1 = 1, 1
    if first:
        for anchor in range(2):
            row = members[anchor]
            out_side[anchor] = anchor
            n_touched = _touch(indptr, indices, row, out_sub_counts, n_touched, out_touched)
            _shift(indptr, indices, counts, column_of, row, anchor, 1, out_sub_counts, out_sub_totals)
    else:
        for place in range(2, n_members):
            in_1 += out_side[place]
        in_0 = n_members - in_1

    log_probability, product = 0.0, 1.0
    lowest = math.exp(min(floor, 0.0))
    for place in range(2, n_members):
        row = members[place]
        if first:
            n_touched = _touch(indptr, indices, row, out_sub_counts, n_touched, out_touched)
        else:
            side = int(out_side[place])
            _shift(indptr, indices, counts, column_of, row, side, -1, out_sub_counts, out_sub_totals)
            in_0 -= 1 - side
            in_1 -= side

        factor_1, factor_0, log_odds = _compare(
            indptr, indices, counts, column_start, column_of, prior, row, out_sub_counts, out_sub_totals
        )
        factor_1 *= in_1
        factor_0 *= in_0
        if log_odds == 0.0:
            share = factor_1 / (factor_1 + factor_0)
            side = int(wanted[place]) if follow else int(uniform(key, place) < share)
            product *= share if side == 1 else factor_0 / (factor_1 + factor_0)
        else:
            log_odds += math.log(factor_1 / factor_0)
            side = int(wanted[place]) if follow else int(uniform(key, place) < math.exp(_log_share(log_odds)))
            log_probability += _log_share(log_odds if side == 1 else -log_odds)
            lowest = math.exp(min(floor - log_probability, 0.0))
        out_side[place] = side
        _shift(indptr, indices, counts, column_of, row, side, 1, out_sub_counts, out_sub_totals)
        in_0 += 1 - side
        in_1 += side

        if product < lowest or log_probability < floor:
            return -np.inf, n_touched
        if product < _SMALL:
            log_probability += math.log(product)
            product = 1.0
            lowest = math.exp(min(floor - log_probability, 0.0))
    return log_probability + math.log(product), n_touched


@njit(cache=True, nogil=True)
def _deal(
    indptr,
    indices,
    counts,
    column_start,
    column_of,
    prior,
    members,
    n_members,
    n_scans,
    floor,
    follow,
    wanted,
    key,
    out_side,
    out_sub_counts,
    out_sub_totals,
    out_touched,
):
    """Deal all members to two sides: log of the probability of the last scan, and the number of touched categories.

    The scans before the last draw, whether or not the last is to `follow` the sides `wanted`: what they lead to is a
    random launch state, of the same law in a split and in the merge that undoes it (Jain and Neal, 2004).
    """
    n_touched, log_probability = 0, 0.0
    for scan in range(n_scans + 1):
        last = scan == n_scans
        log_probability, n_touched = _scan(
            indptr,
            indices,
            counts,
            column_start,
            column_of,
            prior,
            members,
            n_members,
            scan == 0,
            n_touched,
            floor if last else -np.inf,
            follow and last,
            wanted,
            fold_in(key, _SCAN + scan),
            out_side,
            out_sub_counts,
            out_sub_totals,
            out_touched,
        )
    return log_probability, n_touched


# Clusters as cycles of rows


@njit(cache=True, nogil=True)
def _link_clusters(labels, out_next_row, out_size_of):
    """Make a cycle of the rows of each label, in their order, and count them; sizes must be zero."""
    last = np.empty(len(out_size_of), np.int64)
    for row in range(len(labels)):
        label = labels[row]
        if out_size_of[label] == 0:
            out_next_row[row] = row
        else:
            out_next_row[row] = out_next_row[last[label]]
            out_next_row[last[label]] = row
        last[label] = row
        out_size_of[label] += 1


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
def _part(members, n_members, side, new_label, out_labels, out_next_row, out_size_of):
    """Give the members on side 1 a label and a cycle of their own."""
    old_label = out_labels[members[0]]
    last_0, last_1 = members[0], members[1]
    for place in range(1, n_members):
        row = members[place]
        if side[place] == 0:
            out_next_row[last_0] = row
            last_0 = row
        else:
            out_next_row[last_1] = row
            last_1 = row
            out_labels[row] = new_label
            out_size_of[new_label] += 1
            out_size_of[old_label] -= 1
    out_next_row[last_0] = members[0]
    out_next_row[last_1] = members[1]


@njit(cache=True, nogil=True)
def _join(members, n_members, out_labels, out_next_row, out_size_of):
    """Give all members the first anchor's label, and the anchors' two cycles one another's ends."""
    i, j = members[0], members[1]
    out_size_of[out_labels[j]] = 0
    out_size_of[out_labels[i]] = n_members
    out_next_row[i], out_next_row[j] = out_next_row[j], out_next_row[i]
    for place in range(n_members):
        out_labels[members[place]] = out_labels[i]


# Moves


@njit(cache=True, nogil=True)
def _log_ratio_of_split(n_rows, size_0, size_1, log_concentration, gain):
    """Log of the ratio in which a split is accepted, times the probability of how its members were dealt.

    What is compared is p(partition) p(rows | partition) P(move), after and before. A split chooses the second anchor
    among the m - 1 other rows of the first one's cluster, the merge that undoes it among the n - m_0 rows outside of
    its part: both anchors are the same in both moves, and whatever else is equally likely in both cancels.
    """
    size = size_0 + size_1
    log_prior = log_concentration + math.lgamma(size_0) + math.lgamma(size_1) - math.lgamma(size)
    return log_prior + gain + math.log((size - 1) / (n_rows - size_0))


@njit(cache=True, nogil=True)
def make_moves(
    indptr, indices, counts, column_start, column_of, concentration, prior, n_moves, n_scans, key, out_labels
):
    """Make `n_moves` moves of the partition that `out_labels` stands for: numbers of accepted splits and merges."""
    n_rows = len(out_labels)
    log_concentration = math.log(concentration)
    next_row = np.empty(n_rows, np.int64)
    size_of = np.zeros(max(n_rows, out_labels.max() + 1), np.int64)
    _link_clusters(out_labels, next_row, size_of)
    members = np.empty(n_rows, np.int64)
    side = np.empty(n_rows, np.int8)
    wanted = np.empty(n_rows, np.int8)
    sub_counts = np.zeros((len(column_of), 2))
    sub_totals = np.zeros((len(column_start) - 1, 2))
    touched = np.empty(len(column_of), np.int64)
    n_splits = n_merges = 0

    for move in range(n_moves):
        move_key = fold_in(key, move)
        i = np.int64(uniform(move_key, _FIRST_ANCHOR) * n_rows)
        label = out_labels[i]
        log_u = -exponential(move_key, _ACCEPTANCE)
        is_split = uniform(move_key, _KIND) < 0.5
        if size_of[label] == (1 if is_split else n_rows):
            continue
        n_members = _gather(next_row, i, 0, members)
        log_ratio = 0.0
        if is_split:
            place = 1 + np.int64(uniform(move_key, _SECOND_ANCHOR) * (n_members - 1))
        else:
            j = i
            draw = 0
            while out_labels[j] == label:
                j = np.int64(uniform(fold_in(move_key, _OTHER_ANCHOR), draw) * n_rows)
                draw += 1
            place = n_members
            n_members = _gather(next_row, j, n_members, members)
            n_touched = 0
            for member in range(n_members):
                row = members[member]
                n_touched = _touch(indptr, indices, row, sub_counts, n_touched, touched)
                _shift(indptr, indices, counts, column_of, row, np.int64(member >= place), 1, sub_counts, sub_totals)
            gain = _gain_of_two(column_start, column_of, prior, touched, n_touched, sub_counts, sub_totals)
            log_ratio = -_log_ratio_of_split(n_rows, place, n_members - place, log_concentration, gain)
            if log_u >= log_ratio:  # whatever the probability of the split that undoes it
                continue
        members[1], members[place] = members[place], members[1]
        _shuffle(n_members, fold_in(move_key, _ORDER), members)
        if not is_split:
            for member in range(n_members):
                wanted[member] = out_labels[members[member]] != label

        log_q, n_touched = _deal(
            indptr,
            indices,
            counts,
            column_start,
            column_of,
            prior,
            members,
            n_members,
            n_scans,
            -np.inf if is_split else log_u - log_ratio,
            not is_split,
            wanted,
            move_key,
            side,
            sub_counts,
            sub_totals,
            touched,
        )
        gain = _gain_of_two(column_start, column_of, prior, touched, n_touched, sub_counts, sub_totals)
        if is_split:
            size_1 = side[:n_members].sum()
            log_ratio = _log_ratio_of_split(n_rows, n_members - size_1, size_1, log_concentration, gain)
            if log_u < log_ratio - log_q:
                new_label = 0
                while size_of[new_label] > 0:
                    new_label += 1
                _part(members, n_members, side, new_label, out_labels, next_row, size_of)
                n_splits += 1
        elif log_u < log_ratio + log_q:
            _join(members, n_members, out_labels, next_row, size_of)
            n_merges += 1
    return n_splits, n_merges
