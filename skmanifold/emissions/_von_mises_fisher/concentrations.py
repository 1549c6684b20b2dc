"""Concentrations: their conjugate prior, and their posterior with the mean directions integrated out.

For n rows in clusters whose sums have the lengths R_k, and the prior of `VonMisesFisher`, the density of kappa is
proportional to

    c(kappa)^(n + a) exp(b kappa) / prod_k c(kappa R_k),

where c is the von Mises-Fisher normaliser relative to that of the uniform distribution. Since log c(kappa) =
peak(kappa) - kappa, its logarithm is

    f(kappa) = (n + a) peak(kappa) - sum_k peak(kappa R_k) - gap kappa,   gap = n - sum_k R_k + a - b,

without differences of large numbers. The density of u = log kappa is tabulated at equal steps around its mode. Sums
over the table are integrals, since the trapezoidal rule is very accurate for smooth densities, and draws use the table
as an envelope.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np

from ...distributions._bessel import compute_log_scaled, compute_ratio, log_density_at_mode
from ...random._keys import fold_in, uniform
from ...random._variates import exponential
from ...utils._conditions import MOST_COUNTED, Real
from ...utils._njit import njit

Concentration = float | Literal["shared", "per_component"]

_MOST_NODES = 4096
_STEP = 0.35  # between nodes, in standard deviations at the mode
_DROP = 45.0  # nats below the mode at which the table ends: the rest has a share of about 1e-19
_EXCESS = 0.15  # of second differences: 1/8 bounds the log density minus its linear interpolation, if they are constant
_N_HALVINGS = 60


class ConcentrationPrior(NamedTuple):
    """Prior equivalent to `rows` rows whose mean cosine with the mean direction is `cosine`."""

    rows: Annotated[float, Real(above=0, high=MOST_COUNTED)]
    cosine: Annotated[float, Real(low=0, high=1)]

    @property
    def gap(self) -> float:
        """Rows minus the sum of their cosines: a - b."""
        return self.rows * (1.0 - self.cosine)

    @lru_cache(maxsize=64)  # noqa: B019, it holds numbers only
    def log_normalizer(self, d: int) -> float:
        """Log of the integral of the exponential of the log prior density, rows peak(kappa) - gap kappa."""
        return tabulate(0.5 * d - 1.0, self.rows, self.gap, np.empty(0))[2]


def log_peak(d: int, concentrations) -> np.ndarray:
    """Log density at the mean direction relative to the uniform distribution."""
    return log_density_at_mode(d, concentrations) - log_density_at_mode(d, 0.0)


@njit(cache=True, nogil=True)
def _log_density(order, n, gap, lengths, u):
    """f(kappa) + u at kappa = exp(u), where `n` includes the prior."""
    concentration, of_uniform = math.exp(u), compute_log_scaled(order, 0.0)
    total = n * (of_uniform - compute_log_scaled(order, concentration)) - gap * concentration
    for length in lengths:
        total -= of_uniform - compute_log_scaled(order, concentration * length)
    return total + u


@njit(cache=True, nogil=True)
def _slope(order, n, gap, lengths, u):
    """Derivative of `_log_density`."""
    concentration = math.exp(u)
    total = n * (1.0 - compute_ratio(order, concentration)) - gap
    for length in lengths:
        total -= length * (1.0 - compute_ratio(order, concentration * length))
    return concentration * total + 1.0


@njit(cache=True, nogil=True)
def _mode(order, n, gap, lengths):
    """The mode of u."""
    high = math.log((n * (order + 1.0) + 1.0) / gap)  # the slope is negative there: kappa (1 - A) < order + 1 / 2
    step = 1.0
    low = high - step
    while _slope(order, n, gap, lengths, low) < 0.0:
        high, step = low, 1.5 * step
        low -= step
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        if _slope(order, n, gap, lengths, middle) < 0.0:
            high = middle
        else:
            low = middle
        if high - low < 1e-6:
            break
    return 0.5 * (low + high)


@njit(cache=True, nogil=True)
def _edge(order, n, gap, lengths, mode, least, step):
    """A point on one side of the mode where the log density is below `least`."""
    u = mode + step
    while _log_density(order, n, gap, lengths, u) > least:
        step *= 1.5
        u += step
    return u


@njit(cache=True, nogil=True)
def tabulate(order, n, gap, lengths):
    """Tabulate the posterior of a concentration: nodes u, logs of their probabilities, and of the integral over kappa.

    `order` is d / 2 - 1, `n` the number of rows plus a, `gap` this number minus the sum of the lengths of sums, (K,),
    plus a - b, positive.
    """
    mode = _mode(order, n, gap, lengths)
    top, small = _log_density(order, n, gap, lengths, mode), 1e-4
    curvature = _slope(order, n, gap, lengths, mode - small) - _slope(order, n, gap, lengths, mode + small)
    deviation = 1.0 / math.sqrt(max(0.5 * curvature / small, 1e-2))
    left = _edge(order, n, gap, lengths, mode, top - _DROP, -9.7 * deviation)
    right = _edge(order, n, gap, lengths, mode, top - _DROP, 9.7 * deviation)
    n_nodes = min(_MOST_NODES, 2 + int((right - left) / (_STEP * deviation)))
    step, total = (right - left) / (n_nodes - 1), 0.0
    nodes, logs = np.empty(n_nodes), np.empty(n_nodes)
    for i in range(n_nodes):
        nodes[i] = left + step * i
        logs[i] = _log_density(order, n, gap, lengths, nodes[i]) - top
        total += math.exp(logs[i])
    log_sum = math.log(total)
    logs -= log_sum
    return nodes, logs, top + log_sum + math.log(step)


@njit(cache=True, nogil=True)
def draw_concentration(key, order, n, gap, lengths):
    """Draw a concentration from its posterior, exactly; parameters as of `tabulate`.

    The logs of the table are interpolated linearly and raised in each interval by a bound of the difference to the
    density. A draw from this envelope is accepted with the ratio of the densities.
    """
    nodes, logs, _ = tabulate(order, n, gap, lengths)
    n_nodes, total = len(nodes), 0.0
    masses, bounds = np.empty(n_nodes - 1), np.empty(n_nodes - 1)
    for i in range(n_nodes - 1):
        bounds[i] = _EXCESS * max(_bend(logs, i), _bend(logs, i + 1), 1e-3)
        low, rise = logs[i], logs[i + 1] - logs[i]
        total += math.exp(low + bounds[i]) * (math.expm1(rise) / rise if abs(rise) > 1e-9 else 1.0 + 0.5 * rise)
        masses[i] = total
    offset = _log_density(order, n, gap, lengths, nodes[n_nodes // 2]) - logs[n_nodes // 2]
    attempt = 0
    while True:
        of_attempt = fold_in(key, attempt)
        attempt += 1
        place = min(int(np.searchsorted(masses, uniform(of_attempt, 0) * total)), n_nodes - 2)
        rise, v = logs[place + 1] - logs[place], uniform(of_attempt, 1)
        share = math.log1p(v * math.expm1(rise)) / rise if abs(rise) > 1e-9 else v
        u = nodes[place] + share * (nodes[place + 1] - nodes[place])
        log_ratio = _log_density(order, n, gap, lengths, u) - offset - (logs[place] + share * rise)
        if -exponential(of_attempt, 2) <= log_ratio - bounds[place]:
            return math.exp(u)


@njit(cache=True, nogil=True)
def _bend(logs, i):
    """Minus the second difference of the logs at a node, or at the inner node next to an end."""
    inner = min(max(i, 1), len(logs) - 2)
    return 2.0 * logs[inner] - logs[inner - 1] - logs[inner + 1]
