"""Kernels of a split-merge move: assign rows to two sides, and compute the probability of the assignment.

The rows are those of a `Table`, passed as its arrays. In column b, which has s_b categories, a component has a
Dirichlet(a, ..., a) distribution, where a is `prior`. With the components integrated out, rows with counts n_f and
column totals N_b have the marginal probability prod_b Gamma(a s_b) / Gamma(a s_b + N_b) prod_f Gamma(a + n_f) /
Gamma(a), for their tokens in order. The prior probability of a partition is proportional to alpha^K prod_k Gamma(m_k),
where m_k is the size of cluster k.

A move concerns the rows of one or two clusters, `members`. The anchors i and j come first and stay on sides 0 and 1.
The other rows are assigned to the sides in random order. `sub_counts` (n_categories, 2) and `sub_totals` (n_columns, 2)
are the counts of the two sides, whole numbers stored as float64. Between moves they are all zero. `present` lists the
categories whose counts may be positive during a move.
"""

from __future__ import annotations

import math

import numpy as np

from ...numerics.special import log_rising
from ...random._keys import fold_in, uniform
from ...utils._njit import njit

FIRST_SCAN = 1  # the children of a move's key from this one on are the keys of its scans
_MANY_TOKENS = 8  # at most so many factors are multiplied before the size of the product is checked
_LARGE, _SMALL = 1e100, 1e-100
_ADD, _SUBTRACT = np.array([1, -1])  # of one type, so that the kernel is compiled once


# Marginals


@njit(cache=True, nogil=True)
def log_marginal_of_counts(counts, column_start, prior):
    """Log marginal probability of rows whose summed `counts` are (n_categories,)."""
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
def log_bayes_factor_of_sides(column_start, column_of, prior, present, n_present, out_sub_counts, out_sub_totals):
    """Log marginal of the two sides minus that of their union; resets the counts of both sides to zero."""
    log_bayes_factor = 0.0
    for place in range(n_present):
        category = present[place]
        log_bayes_factor += _log_bayes_factor_of_counts(prior, out_sub_counts[category, 0], out_sub_counts[category, 1])
        out_sub_counts[category] = 0.0
        column = column_of[category]
        column_prior = prior * (column_start[column + 1] - column_start[column])
        log_bayes_factor -= _log_bayes_factor_of_counts(
            column_prior, out_sub_totals[column, 0], out_sub_totals[column, 1]
        )
        out_sub_totals[column] = 0.0
    return log_bayes_factor


@njit(cache=True, nogil=True)
def log_bayes_factor_of_labels(column_start, prior, categories, totals, label_0, label_1):
    """Log marginal of two clusters minus that of their union."""
    log_bayes_factor = 0.0
    for category in range(len(categories)):
        log_bayes_factor += _log_bayes_factor_of_counts(
            prior, categories[category, label_0], categories[category, label_1]
        )
    for column in range(len(column_start) - 1):
        column_prior = prior * (column_start[column + 1] - column_start[column])
        log_bayes_factor -= _log_bayes_factor_of_counts(column_prior, totals[column, label_0], totals[column, label_1])
    return log_bayes_factor


@njit(cache=True, nogil=True)
def _log_bayes_factor_of_counts(prior, of_0, of_1):
    """Contribution of the counts of one category in two clusters (of a column total: minus this); 0 if one is zero."""
    if of_0 == 0 or of_1 == 0:
        return 0.0
    return log_rising(prior, np.int64(of_0)) - log_rising(prior + of_1, np.int64(of_0))


# One row and the counts of the two sides


@njit(cache=True, nogil=True)
def _add_row_to_side(indptr, indices, counts, column_of, row, side, sign, out_sub_counts, out_sub_totals):
    """Add the counts of a row to a side (`sign` is _ADD) or subtract them (_SUBTRACT)."""
    for e in range(indptr[row], indptr[row + 1]):
        category = indices[e]
        tokens = np.float64(sign * counts[e])
        out_sub_counts[category, side] += tokens
        out_sub_totals[column_of[category], side] += tokens


@njit(cache=True, nogil=True)
def _list_new_categories(indptr, indices, row, sub_counts, n_present, out_present):
    """Append to the list the categories of a row that no earlier row has; returns the length of the list."""
    for e in range(indptr[row], indptr[row + 1]):
        category = indices[e]
        if sub_counts[category, 0] + sub_counts[category, 1] == 0.0:
            out_present[n_present] = category
            n_present += 1
    return n_present


@njit(cache=True, nogil=True)
def _multiply_rising(x, y, n, factor_x, factor_y, log_odds):
    """Multiply the odds by the rising factorials (x)_n / (y)_n; long factorials are added as logarithms.

    The odds are factor_x / factor_y * exp(log_odds). Both factors are kept between 1e-100 and 1e100, so that a
    logarithm is needed only if their quotient leaves that range.
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
def _predictive_odds(indptr, indices, counts, column_start, column_of, prior, row, sub_counts, sub_totals):
    """Ratio of a row's predictive probabilities given sides 1 and 0, as the factors and log odds described above."""
    factor_1, factor_0, log_odds = 1.0, 1.0, 0.0
    e, stop = indptr[row], indptr[row + 1]
    while e < stop:
        column = column_of[indices[e]]
        column_stop = column_start[column + 1]
        row_tokens = np.int64(0)
        while e < stop and indices[e] < column_stop:
            category, tokens = indices[e], np.int64(counts[e])
            factor_1, factor_0, log_odds = _multiply_rising(
                sub_counts[category, 1] + prior, sub_counts[category, 0] + prior, tokens, factor_1, factor_0, log_odds
            )
            row_tokens += tokens
            e += 1
        column_prior = prior * (column_stop - column_start[column])
        of_0, of_1 = sub_totals[column, 0] + column_prior, sub_totals[column, 1] + column_prior
        factor_1, factor_0, log_odds = _multiply_rising(of_0, of_1, row_tokens, factor_1, factor_0, log_odds)
    return factor_1, factor_0, log_odds


@njit(cache=True, nogil=True)
def _log_sigmoid(log_odds):
    """Log of the logistic function: the log of the probability with these log odds."""
    if log_odds > 0.0:
        return -math.log1p(math.exp(-log_odds))
    return log_odds - math.log1p(math.exp(log_odds))


# Proposals


@njit(cache=True, nogil=True)
def _scan_members(
    indptr,
    indices,
    counts,
    column_start,
    column_of,
    prior,
    members,
    n_members,
    first,
    n_present,
    floor,
    sides_given,
    given_sides,
    key,
    out_side,
    out_sub_counts,
    out_sub_totals,
    out_present,
):
    """Assign each member except the anchors to a side; returns the log probability of the sides and `n_present`.

    The probability of a side is proportional to its number of members times the row's predictive probability given
    them. In the `first` scan only the anchors are on the sides, and the other rows are added one by one (Dahl, 2005).
    In a later scan each row is removed before it is assigned again: a Gibbs scan restricted to two clusters. The sides
    are drawn, or are those of `given_sides` if `sides_given` is true. The probability decreases with each row. If its
    log falls below `floor`, the scan stops and returns -inf.
    """
    in_0, in_1 = 1, 1
    if first:
        for anchor in range(2):
            row = members[anchor]
            out_side[anchor] = anchor
            n_present = _list_new_categories(indptr, indices, row, out_sub_counts, n_present, out_present)
            _add_row_to_side(indptr, indices, counts, column_of, row, anchor, _ADD, out_sub_counts, out_sub_totals)
    else:
        for place in range(2, n_members):
            in_1 += out_side[place]
        in_0 = n_members - in_1

    log_probability, product = 0.0, 1.0
    lowest = math.exp(min(floor, 0.0))
    for place in range(2, n_members):
        row = members[place]
        if first:
            n_present = _list_new_categories(indptr, indices, row, out_sub_counts, n_present, out_present)
        else:
            side = int(out_side[place])
            _add_row_to_side(indptr, indices, counts, column_of, row, side, _SUBTRACT, out_sub_counts, out_sub_totals)
            in_0 -= 1 - side
            in_1 -= side

        factor_1, factor_0, log_odds = _predictive_odds(
            indptr, indices, counts, column_start, column_of, prior, row, out_sub_counts, out_sub_totals
        )
        factor_1 *= in_1
        factor_0 *= in_0
        if log_odds == 0.0:
            share = factor_1 / (factor_1 + factor_0)
            side = int(given_sides[place] if sides_given else uniform(key, place) < share)
            product *= share if side == 1 else factor_0 / (factor_1 + factor_0)
        else:
            log_odds += math.log(factor_1 / factor_0)
            side = int(given_sides[place] if sides_given else uniform(key, place) < math.exp(_log_sigmoid(log_odds)))
            log_probability += _log_sigmoid(log_odds if side == 1 else -log_odds)
            lowest = math.exp(min(floor - log_probability, 0.0))
        out_side[place] = side
        _add_row_to_side(indptr, indices, counts, column_of, row, side, _ADD, out_sub_counts, out_sub_totals)
        in_0 += 1 - side
        in_1 += side

        if product < lowest or log_probability < floor:
            return -np.inf, n_present
        if product < _SMALL:
            log_probability += math.log(product)
            product = 1.0
            lowest = math.exp(min(floor - log_probability, 0.0))
    return log_probability + math.log(product), n_present


@njit(cache=True, nogil=True)
def propose_sides(
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
    sides_given,
    given_sides,
    key,
    out_side,
    out_sub_counts,
    out_sub_totals,
    out_present,
):
    """Assign all members to two sides; returns the log probability of the last scan and `n_present`.

    The scans before the last always draw the sides, even if the last uses `given_sides`. They lead to a random launch
    state, which has the same distribution in a split and in the merge that reverses it (Jain and Neal, 2004).
    """
    data = indptr, indices, counts, column_start, column_of, prior
    out = out_side, out_sub_counts, out_sub_totals, out_present
    n_present, log_probability = 0, 0.0
    for scan in range(n_scans + 1):
        last = scan == n_scans
        settings = scan == 0, n_present, floor if last else -np.inf, sides_given and last, given_sides
        child = fold_in(key, FIRST_SCAN + scan)
        log_probability, n_present = _scan_members(*data, members, n_members, *settings, child, *out)
    return log_probability, n_present
