"""Stick-breaking weights of a Dirichlet process: drawn given counts, lengthened from the prior, put in a new order.

Stick j is the share v_j of what the sticks before it left, v_j ~ Beta(1, concentration); it weighs
v_j (1 - v_1) ... (1 - v_{j-1}). Logarithms of v and of 1 - v come from gammas, v = X / (X + Y): where v rounds to one,
log(1 - v) still has all its digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...random._keys import Purpose, fold_in, subkey
from ...random._variates import exponential, log_gamma_variate, open_uniform
from ...utils._conditions import Array
from ...utils._declared import holds
from ...utils._njit import njit

_STICKS, _RELABEL = Purpose.STICKS, Purpose.RELABEL


MOST_CONCENTRATED = 1e6  # as many sticks weigh anything
_STICK = Array("float64", ("n_clusters",), low=-1e3, high=0)  # longer logarithms would take millions of sticks


@holds(log_shares=_STICK, log_rests=_STICK)
class Sticks(NamedTuple):
    """Sticks in the order in which they are broken."""

    log_shares: np.ndarray  # (n,): log v
    log_rests: np.ndarray  # (n,): log(1 - v)

    def log_weights(self) -> tuple[np.ndarray, float]:
        """Logarithms of the weight of each stick, and of all that come after."""
        left = np.concatenate(([0.0], np.cumsum(self.log_rests)))
        return self.log_shares + left[:-1], float(left[-1])

    def weights(self) -> tuple[np.ndarray, float]:
        """The weight of each stick, and of all that come after."""
        log_weights, log_left = self.log_weights()
        return np.exp(log_weights), math.exp(log_left)


def draw_sticks(sizes: np.ndarray, concentration: float, key: np.uint64) -> Sticks:
    """The first ``len(sizes)`` sticks given how many rows each has: v_j ~ Beta(1 + m_j, concentration + m_{>j})."""
    out = np.empty((2, len(sizes)))
    _fill_sticks(subkey(key, _STICKS), sizes, concentration, out)
    return Sticks(*out)


def lengthen_sticks(sticks: Sticks, concentration: float, least: float, key: np.uint64) -> Sticks:
    """Break sticks off the prior until less than `least` is left: none that comes later weighs as much.

    Stick j is a function of the key and j.
    """
    n_old = len(sticks.log_rests)
    asked = subkey(key, _STICKS), n_old, sticks.log_rests.sum(), concentration, math.log(least)
    more = np.empty((2, 16))
    n_more = _fill_prior_sticks(*asked, more)
    if n_more > more.shape[1]:
        more = np.empty((2, n_more))
        _fill_prior_sticks(*asked, more)
    more = more[:, :n_more]
    return Sticks(np.concatenate((sticks.log_shares, more[0])), np.concatenate((sticks.log_rests, more[1])))


def draw_concentration(sticks: Sticks, prior: tuple[float, float], key: np.uint64) -> float:
    r"""The concentration given the sticks: Ga(a + n, b - sum_j log(1 - v_j)), n their number.

    Given labels of sticks this is its conditional, and not that given the number of clusters (Escobar and West, 1995),
    which holds where labels are forgotten.
    """
    shape, rate = prior
    return math.exp(log_gamma_variate(key, shape + len(sticks.log_rests))) / (rate - float(sticks.log_rests.sum()))


def order_above(weights: np.ndarray, least: float) -> np.ndarray:
    """The sticks that weigh more than `least`, from the heaviest down."""
    order = np.argsort(-weights, kind="stable")
    return order[weights[order] > least]


def redraw_order(sizes: np.ndarray, concentration: float, key: np.uint64) -> np.ndarray:
    """New stick numbers for the components with rows, (n,) int32, given the partition alone; -1 where there are none.

    The order of the sticks is a size-biased permutation of the weights, whatever the data; given the partition these
    are Dirichlet with parameters `sizes` and, for all without rows together, `concentration`.
    """
    occupied = np.flatnonzero(sizes)
    places = np.full(len(sizes), -1, np.int32)
    places[occupied] = _size_biased_places(subkey(key, _RELABEL), sizes[occupied], concentration)
    return places


@njit(cache=True, nogil=True)
def _log_sum(x, y):
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@njit(cache=True, nogil=True)
def _fill_sticks(key, sizes, concentration, out):
    beyond = 0
    for j in range(len(sizes) - 1, -1, -1):
        child = fold_in(key, j)
        share = log_gamma_variate(fold_in(child, 0), 1.0 + sizes[j])
        rest = log_gamma_variate(fold_in(child, 1), concentration + beyond)
        total = _log_sum(share, rest)
        out[0, j], out[1, j] = share - total, rest - total
        beyond += sizes[j]


@njit(cache=True, nogil=True)
def _fill_prior_sticks(key, first, log_left, concentration, log_least, out):
    """Fill in as many of the sticks as `out` has room for; returns how many there are."""
    n = 0
    while log_left >= log_least:
        rest = -exponential(fold_in(key, first + n), 0) / concentration  # 1 - v is uniform to this power
        if n < out.shape[1]:
            out[0, n], out[1, n] = math.log(-math.expm1(rest)), rest
        log_left += rest
        n += 1
    return n


@njit(cache=True, nogil=True)
def _size_biased_places(key, sizes, concentration):
    """Each component's stick, with the weights integrated out.

    The next stick belongs to a component with probability proportional to its rows, and is one without rows with
    probability proportional to the concentration; what remains then has the same law as before, with fewer components.
    """
    n = len(sizes)
    places = np.full(n, -1, np.int32)
    left = place = 0
    for k in range(n):
        left += sizes[k]
    for placed in range(n):
        log_empty = math.log(concentration) - math.log(concentration + left)
        place += int(math.log(open_uniform(key, 2 * placed)) / log_empty)  # the run of sticks without rows: geometric
        at, chosen = open_uniform(key, 2 * placed + 1) * left, -1
        for k in range(n):
            if places[k] < 0:
                chosen = k
                at -= sizes[k]
                if at < 0.0:
                    break
        places[chosen] = place
        place += 1
        left -= sizes[chosen]
    return places
