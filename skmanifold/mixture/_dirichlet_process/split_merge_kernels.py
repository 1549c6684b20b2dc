"""Kernels of a split-merge move: assign rows to two sides, and compute the probability of the assignment.

The prior probability of a partition is proportional to alpha^K prod_k Gamma(m_k), where m_k is the size of cluster k. A
move concerns the rows of one or two clusters, `members`. The anchors i and j come first and stay on sides 0 and 1. The
other rows are assigned to the sides in random order. Between moves the sides have no rows.
"""

from __future__ import annotations

import math

import numpy as np

from ...emissions.kernels import odds_of_sides, update_posterior
from ...random._keys import fold_in, uniform
from ...utils._njit import njit

FIRST_SCAN = 1  # the children of a move's key from this one on are the keys of its scans
_SMALL = 1e-100


@njit(cache=True, nogil=True)
def _log_sigmoid(log_odds):
    """Log of the logistic function: the log of the probability with these log odds."""
    if log_odds > 0.0:
        return -math.log1p(math.exp(-log_odds))
    return log_odds - math.log1p(math.exp(log_odds))


@njit(cache=True, nogil=True)
def _scan_members(
    data,
    sides,
    members,
    n_members,
    first,
    floor,
    sides_given,
    given_sides,
    key,
    out_side,
):
    """Assign each member but the anchors to a side, drawn or given; returns the log probability of the sides.

    It is proportional to the number of members times the predictive probability. The `first` scan starts with the
    anchors only (Dahl, 2005); a later one is a Gibbs scan restricted to two clusters. The sum of logs only decreases:
    the scan stops and returns -inf once it is below `floor`.
    """
    statistics, posterior = sides
    in_0, in_1 = np.int64(1), np.int64(1)
    if first:
        for anchor in range(2):
            row = members[anchor]
            out_side[anchor] = anchor
            update_posterior(data, statistics, posterior, row, anchor, 1)
    else:
        for place in range(2, n_members):
            in_1 += np.int64(out_side[place])
        in_0 = n_members - in_1

    log_probability, product, scratch = 0.0, 1.0, np.empty(2)
    lowest = math.exp(min(floor, 0.0))
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
            side = np.int64(given_sides[place] if sides_given else uniform(key, place) < share)
            product *= share if side == 1 else factor_0 / (factor_1 + factor_0)
        else:
            log_odds += math.log(factor_1 / factor_0)
            share = math.exp(_log_sigmoid(log_odds))
            side = np.int64(given_sides[place] if sides_given else uniform(key, place) < share)
            log_probability += _log_sigmoid(log_odds if side == 1 else -log_odds)
            lowest = math.exp(min(floor - log_probability, 0.0))
        out_side[place] = side
        update_posterior(data, statistics, posterior, row, side, 1)
        in_0 += 1 - side
        in_1 += side

        # `lowest` is exp(floor - log_probability), so that this needs no logarithm of the product.
        if product < lowest or log_probability < floor:
            return -np.inf
        # Before the product underflows it moves to the sum of logs.
        if product < _SMALL:
            log_probability += math.log(product)
            product = 1.0
            lowest = math.exp(min(floor - log_probability, 0.0))
    return log_probability + math.log(product)


@njit(cache=True, nogil=True)
def propose_sides(
    data,
    sides,
    members,
    n_members,
    n_scans,
    floor,
    sides_given,
    given_sides,
    key,
    out_side,
):
    """Assign all members to two sides; returns the log probability of the last scan.

    Earlier scans always draw the sides, also if the last uses `given_sides`: they lead to a random launch state of the
    same distribution in a split and in the merge that reverses it (Jain and Neal, 2004).
    """
    log_probability = 0.0
    for scan in range(n_scans + 1):
        last = scan == n_scans
        log_probability = _scan_members(
            data,
            sides,
            members,
            n_members,
            scan == 0,
            floor if last else -np.inf,
            sides_given and last,
            given_sides,
            fold_in(key, FIRST_SCAN + scan),
            out_side,
        )
    return log_probability
