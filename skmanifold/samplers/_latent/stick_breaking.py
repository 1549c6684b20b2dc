"""Stick-breaking weights of a Dirichlet process: draws given counts, additional sticks from the prior, reordering.

Stick j is the fraction v_j ~ Beta(1, concentration) of the remaining length; its weight is
v_j (1 - v_1) ... (1 - v_{j-1}). Logarithms of v and of 1 - v are computed from gammas, v = X / (X + Y), so that
log(1 - v) is accurate also if v rounds to one.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from ...random._keys import Purpose, fold_in, subkey
from ...random._variates import exponential, log_beta_variate, log_gamma_variate, open_uniform
from ...utils._conditions import Array
from ...utils._njit import njit
from ...utils._typing import ArrayLike

_STICKS, _RELABEL = Purpose.STICKS, Purpose.RELABEL


LEAST_CONCENTRATED = 1e-300  # minimum concentration: logarithms of it and quotients by it are finite
MOST_CONCENTRATED = 1e6  # maximum concentration; about as many sticks have a noticeable weight
_STICK = Array("float64", "n_clusters", low=-1e3, high=0)  # smaller logarithms would need millions of sticks


def check_concentration_prior(prior: ArrayLike, name: str) -> tuple[float, float]:
    """Shape and rate of the gamma prior of a concentration, from the estimator's parameter of this name.

    Raises a ValueError unless there are two positive, finite numbers with a mean that is not too small or too large.
    """
    values = np.asarray(prior)
    if values.shape != (2,) or values.dtype.kind not in "fiu" or not (np.isfinite(values).all() and values.min() > 0):
        raise ValueError(
            f"{name} must be two positive numbers, the shape and the rate of a gamma distribution; got {prior!r}."
        )
    shape, rate = float(values[0]), float(values[1])
    if not LEAST_CONCENTRATED <= shape / rate <= MOST_CONCENTRATED:
        raise ValueError(
            f"The mean of {name}, shape / rate, must be from {LEAST_CONCENTRATED:g} to {MOST_CONCENTRATED:g}; got "
            f"{prior!r}."
        )
    return shape, rate


def concentration_or_draw(rng: np.random.Generator, given: float | None, shape: float, rate: float) -> float:
    """The given concentration, or if it is None a draw from its gamma prior."""
    return float(max(rng.gamma(shape, 1.0 / rate), LEAST_CONCENTRATED) if given is None else given)


class Sticks(NamedTuple):
    """Sticks in stick-breaking order."""

    log_shares: Annotated[np.ndarray, _STICK]  # log v
    log_rests: Annotated[np.ndarray, _STICK]  # log(1 - v)

    def log_weights(self) -> tuple[np.ndarray, float]:
        """Logarithms of the weight of each stick, and of the total weight of all later sticks."""
        left = np.concatenate(([0.0], np.cumsum(self.log_rests)))
        return self.log_shares + left[:-1], float(left[-1])

    def weights(self) -> tuple[np.ndarray, float]:
        """The weight of each stick, and the total weight of all later sticks."""
        log_weights, log_left = self.log_weights()
        return np.exp(log_weights), math.exp(log_left)


def draw_sticks(sizes: np.ndarray, concentration: float, key: np.uint64) -> Sticks:
    """The first ``len(sizes)`` sticks given their numbers of rows: v_j ~ Beta(1 + m_j, concentration + m_{>j})."""
    out = np.empty((2, len(sizes)))
    _fill_sticks(subkey(key, _STICKS), sizes, concentration, out)
    return Sticks(*out)


def lengthen_sticks(sticks: Sticks, concentration: float, least: float, key: np.uint64) -> Sticks:
    """Add sticks from the prior until less than `least` is left, so that all later sticks have smaller weights.

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
    """Draw the concentration given the sticks: Ga(a + n, b - sum_j log(1 - v_j)), where n is their number.

    That of Escobar and West (1995), given the number of clusters, is for models without stick labels. A draw beyond the
    range of concentrations becomes its end.
    """
    shape, rate = prior
    log_gamma = log_gamma_variate(key, shape + len(sticks.log_rests))
    drawn = math.exp(log_gamma) / (rate - float(sticks.log_rests.sum()))
    return min(max(drawn, LEAST_CONCENTRATED), MOST_CONCENTRATED)


def order_above(weights: np.ndarray, least: float) -> np.ndarray:
    """The sticks with weights above `least`, in descending order of weight."""
    order = np.argsort(-weights, kind="stable")
    return order[weights[order] > least]


def redraw_order(sizes: np.ndarray, concentration: float, key: np.uint64) -> np.ndarray:
    """Draw new stick numbers for the components with rows, (n,) int32, given the partition; -1 for empty components.

    The order is a size-biased permutation of the weights, which are Dirichlet with parameters `sizes`, and
    `concentration` for all empty components together.
    """
    occupied = np.flatnonzero(sizes)
    places = np.full(len(sizes), -1, np.int32)
    places[occupied] = _size_biased_places(subkey(key, _RELABEL), sizes[occupied], concentration)
    return places


@njit(cache=True, nogil=True)
def _fill_sticks(key, sizes, concentration, out):
    beyond = 0
    for j in range(len(sizes) - 1, -1, -1):
        out[0, j], out[1, j] = log_beta_variate(fold_in(key, j), 1.0 + sizes[j], concentration + beyond)
        beyond += sizes[j]


@njit(cache=True, nogil=True)
def _fill_prior_sticks(key, first, log_left, concentration, log_least, out):
    """Write as many of the sticks as fit into `out`; returns their total number."""
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
    """The stick of each component, with the weights integrated out.

    The next stick is that of a component, in proportion to its rows, or empty, in proportion to the concentration; so
    on with fewer components.
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
