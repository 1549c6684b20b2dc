"""How the rows of a split-merge move are dealt to two sides, and with which probability: kernels over arrays.

The rows are those of a `Table`, passed as its arrays. A component has in column b, of s_b categories, a
Dirichlet(a, ..., a) distribution, a = `prior`; integrated out, rows with counts n_f and column totals N_b have the
marginal probability prod_b Gamma(a s_b) / Gamma(a s_b + N_b) prod_f Gamma(a + n_f) / Gamma(a), of their tokens in
order. The partition has the prior alpha^K prod_k Gamma(m_k) up to a constant, m_k the size of cluster k.

A move looks at the rows of one or two clusters, in `members`: the anchors i and j come first and stay on sides 0 and 1,
the others are dealt to the sides in a random order. `sub_counts` (n_categories, 2) and `sub_totals` (n_columns, 2) are
the counts of the two sides, as whole float64, all zero between moves; `touched` lists the categories that may not be.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.special import log_rising
from ...random._keys import fold_in, uniform
from ...utils._njit import njit

FIRST_SCAN = 1  # children of a move's key are for its scans, from this one on
_MANY_TOKENS = 8  # up to as many factors stand between two looks at the size of a product
_LARGE, _SMALL = 1e100, 1e-100
_ADD, _TAKE_AWAY = np.array([1, -1])  # of one type for the compiler


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
def gain_of_two(column_start, column_of, prior, touched, n_touched, out_sub_counts, out_sub_totals):
    """Log marginal of the two sides less that of their union; sets the counts of both to zero."""
    gain = 0.0
    for place in range(n_touched):
        category = touched[place]
        gain += _gain(prior, out_sub_counts[category, 0], out_sub_counts[category, 1])
        out_sub_counts[category] = 0.0
        column = column_of[category]
        column_prior = prior * (column_start[column + 1] - column_start[column])
        gain -= _gain(column_prior, out_sub_totals[column, 0], out_sub_totals[column, 1])
        out_sub_totals[column] = 0.0
    return gain


@njit(cache=True, nogil=True)
def gain_of_labels(column_start, prior, categories, totals, label_0, label_1):
    """Log marginal of two clusters less that of their union."""
    gain = 0.0
    for category in range(len(categories)):
        gain += _gain(prior, categories[category, label_0], categories[category, label_1])
    for column in range(len(column_start) - 1):
        column_prior = prior * (column_start[column + 1] - column_start[column])
        gain -= _gain(column_prior, totals[column, label_0], totals[column, label_1])
    return gain


@njit(cache=True, nogil=True)
def _gain(prior, of_0, of_1):
    """What counts of one category (or, negative, a column) in two clusters contribute; nothing where one has none."""
    if of_0 == 0 or of_1 == 0:
        return 0.0
    return log_rising(prior, np.int64(of_0)) - log_rising(prior + of_1, np.int64(of_0))


# One row and the counts of two sides


@njit(cache=True, nogil=True)
def _shift(indptr, indices, counts, column_of, row, side, sign, out_sub_counts, out_sub_totals):
    """Add a row to a side (`sign` is _ADD), or take it away."""
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
            _shift(indptr, indices, counts, column_of, row, anchor, _ADD, out_sub_counts, out_sub_totals)
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
            _shift(indptr, indices, counts, column_of, row, side, _TAKE_AWAY, out_sub_counts, out_sub_totals)
            in_0 -= 1 - side
            in_1 -= side

        factor_1, factor_0, log_odds = _compare(
            indptr, indices, counts, column_start, column_of, prior, row, out_sub_counts, out_sub_totals
        )
        factor_1 *= in_1
        factor_0 *= in_0
        if log_odds == 0.0:
            share = factor_1 / (factor_1 + factor_0)
            side = int(wanted[place] if follow else uniform(key, place) < share)
            product *= share if side == 1 else factor_0 / (factor_1 + factor_0)
        else:
            log_odds += math.log(factor_1 / factor_0)
            side = int(wanted[place] if follow else uniform(key, place) < math.exp(_log_share(log_odds)))
            log_probability += _log_share(log_odds if side == 1 else -log_odds)
            lowest = math.exp(min(floor - log_probability, 0.0))
        out_side[place] = side
        _shift(indptr, indices, counts, column_of, row, side, _ADD, out_sub_counts, out_sub_totals)
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
def deal(
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
    data = indptr, indices, counts, column_start, column_of, prior
    out = out_side, out_sub_counts, out_sub_totals, out_touched
    n_touched, log_probability = 0, 0.0
    for scan in range(n_scans + 1):
        last = scan == n_scans
        dealt = scan == 0, n_touched, floor if last else -np.inf, follow and last, wanted
        child = fold_in(key, FIRST_SCAN + scan)
        log_probability, n_touched = _scan(*data, members, n_members, *dealt, child, *out)
    return log_probability, n_touched
