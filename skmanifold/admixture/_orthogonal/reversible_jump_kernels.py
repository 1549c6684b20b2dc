"""Share of an added or removed topic: a proposal fitted to each document, and the factor in the acceptance ratio.

The other topics keep their proportions relative to each other, theta, and the new one gets the share s. With
orthonormal topics the cosine of a document with its mixture is then rho cos(psi - psi_0), where
tan psi = s / ((1 - s) |theta|) and (rho, psi_0) are the polar coordinates of the point (b'theta / |theta|, f'v). As a
function of z = log tan psi, the log density of s,

    log Beta(s | alpha, K alpha) + log s (1 - s) + kappa (cosine - b'theta / |theta|),

is smooth. Its slope tends to alpha for z -> -inf and to -K alpha for z -> inf. The proposal is its linear interpolation
between nodes, with these slopes beyond the outermost nodes. Nodes are denser where the curvature or the mass is larger.
Draws are by inversion, the density is known exactly, and the importance weights are close to 1 for all alpha and kappa.
"""

import math

import numpy as np

from ...random._keys import fold_in
from ...random._variates import open_uniform
from ...utils._njit import njit

N_NODES = 256  # largest number of nodes
_N_EVEN = 17  # initial nodes, evenly spaced in z
_PEAK = np.array([-6.0, -3.0, -1.5, 0.0, 1.5, 3.0, 6.0])  # further ones about psi_0, in likelihood standard deviations
_MAX_ROUNDS = 16
_MAX_STARTS = _N_EVEN + len(_PEAK) + 2 * _MAX_ROUNDS
_CURVED = 0.5  # interpolation error next to the highest node that needs further nodes, in nats
_FLAT = 0.01  # largest change of the likelihood, or of the prior's curved part, beyond the nodes, in nats
_TOL = 1e-3  # error of the mass of an interval between nodes, as a fraction of the total mass
_MAX_DEPTH = 12  # of bisections
_FAR = 50.0  # limit of z beyond the nodes, where target and proposal have the same slope to rounding; z may be infinite
_LEAST_POSITIVE = 1e-300


@njit(cache=True, nogil=True)
def _log_target(z, log_length, alpha, mass, kappa, along, product):
    """Log density of z up to a constant: Beta(alpha, mass) prior, `along` is b'theta / |theta|, `product` is f'v."""
    log_odds = z + log_length
    if log_odds > 0.0:
        rest = math.log1p(math.exp(-log_odds))
        log_prior = -alpha * rest - mass * (log_odds + rest)
    else:
        rest = math.log1p(math.exp(log_odds))
        log_prior = alpha * (log_odds - rest) - mass * rest
    if z > 0.0:
        tangent = math.exp(-z)
        gain = (along * tangent + product) / math.sqrt(1.0 + tangent * tangent) - along
    else:
        tangent = math.exp(z)
        secant = math.sqrt(1.0 + tangent * tangent)
        gain = tangent * (product - along * tangent / (1.0 + secant)) / secant  # no difference of near numbers
    return log_prior + kappa * gain


@njit(cache=True, nogil=True)
def _insert(z, n, given, starts):
    """Insert z and its log density among `n` ascending nodes."""
    j = n
    while j > 0 and starts[0, j - 1] > z:
        starts[0, j], starts[1, j] = starts[0, j - 1], starts[1, j - 1]
        j -= 1
    starts[0, j] = z
    starts[1, j] = _log_target(z, *given)


@njit(cache=True, nogil=True)
def _fill_starts(given, starts):
    """Write initial nodes: evenly between the flat ends, near the likelihood's peak, and near the highest node.

    The rows of `starts` are z, ascending, and log densities. Returns the number of nodes and the index of the highest.
    """
    log_length, _, _, kappa, along, product = given
    # Beyond low and high the likelihood and the curved part of the prior change by less than `_FLAT`.
    bend = kappa * abs(along) / _FLAT
    slope = kappa * abs(product) / _FLAT
    length = math.exp(log_length)
    low = -math.log(slope + math.sqrt(bend) + length / _FLAT)
    high = math.log(bend + math.sqrt(slope) + 1.0 / (length * _FLAT))
    for n in range(_N_EVEN):
        _insert(low + (high - low) * n / (_N_EVEN - 1), n, given, starts)
    n = _N_EVEN
    # The likelihood is kappa times a cosine of the angle about its peak, which gives its width.
    peak = math.atan2(product, along)
    width = 1.0 / math.sqrt(kappa * math.hypot(along, product) + 1.0)
    for i in range(len(_PEAK)):
        angle = peak + _PEAK[i] * width
        if 0.0 < angle < 0.5 * math.pi:
            z = math.log(math.tan(angle))
            if low < z < high:
                _insert(z, n, given, starts)
                n += 1
    # Refine around the highest node until the log density is nearly linear between nodes.
    best = np.argmax(starts[1, :n])
    for _ in range(_MAX_ROUNDS):
        curved = False
        for side in (best + 1, best):  # bisect the intervals to its right and left
            if not 0 < side < n:
                continue
            straight = 0.5 * (starts[1, side - 1] + starts[1, side])
            _insert(0.5 * (starts[0, side - 1] + starts[0, side]), n, given, starts)
            n += 1
            curved = curved or abs(starts[1, side] - straight) > _CURVED
        best = np.argmax(starts[1, :n])
        if not curved:
            break
    return n, best


@njit(cache=True, nogil=True)
def _area(low, high, width):
    """Integral over an interval of length `width` of the exponential of a linear function from `low` to `high`."""
    top, fall = max(low, high), abs(high - low)
    return math.exp(top) * width * (-math.expm1(-fall) / fall if fall > 1e-8 else 1.0 - 0.5 * fall)


@njit(cache=True, nogil=True)
def fit_share(log_length, alpha, mass, kappa, along, product, nodes, heights, areas, starts, pending):
    """Fit the interpolation; returns the number of nodes n. `heights` are relative to the largest initial one.

    ``areas[:n + 1]`` are the masses to the left of each node and of the right tail; ``areas[n + 1]`` is their sum.
    `starts`, (2, _MAX_STARTS), and `pending`, (_MAX_DEPTH + 1, 2), are scratch.
    """
    given = (log_length, alpha, mass, kappa, along, product)
    n_starts, best = _fill_starts(given, starts)
    top = starts[1, best]
    total = math.exp(starts[1, 0] - top) / alpha + math.exp(starts[1, n_starts - 1] - top) / mass
    for i in range(n_starts):
        starts[1, i] -= top
        if i > 0:
            total += _area(starts[1, i - 1], starts[1, i], starts[0, i] - starts[0, i - 1])
    # Between initial nodes, intervals are halved as long as linear interpolation errs by too much of the total area.
    # `pending` is a stack of right ends: the leftmost interval is treated first, so that nodes are ascending.
    nodes[0], heights[0] = starts[0, 0], starts[1, 0]
    n = 1
    for i in range(1, n_starts):
        pending[0, 0], pending[0, 1] = starts[0, i], starts[1, i]
        n_pending = 1
        while n_pending > 0:
            right, at_right = pending[n_pending - 1, 0], pending[n_pending - 1, 1]
            left, at_left = nodes[n - 1], heights[n - 1]
            halves = False
            middle, at_middle = 0.0, 0.0
            if n_pending <= _MAX_DEPTH and n + n_starts + _MAX_DEPTH < len(nodes):
                middle = 0.5 * (left + right)
                at_middle = _log_target(middle, *given) - top
                error = abs(at_middle - 0.5 * (at_left + at_right))
                size = (right - left) * math.exp(max(at_left, at_middle, at_right))
                halves = error * size > _TOL * total
            if halves:
                pending[n_pending, 0], pending[n_pending, 1] = middle, at_middle
                n_pending += 1
            else:
                nodes[n], heights[n] = right, at_right
                n += 1
                n_pending -= 1
    # Beyond the nodes the density is exp(alpha z) to the left and exp(-mass z) to the right, up to factors.
    areas[0] = math.exp(heights[0]) / alpha
    for i in range(1, n):
        areas[i] = _area(heights[i - 1], heights[i], nodes[i] - nodes[i - 1])
    areas[n] = math.exp(heights[n - 1]) / mass
    areas[n + 1] = 0.0
    for i in range(n + 1):
        areas[n + 1] += areas[i]
    return n


@njit(cache=True, nogil=True)
def draw_share(alpha, mass, n, nodes, heights, areas, key):
    """Draw z from the fitted distribution."""
    rest = open_uniform(key, 0) * areas[n + 1]
    cell = 0
    while cell < n and rest > areas[cell]:
        rest -= areas[cell]
        cell += 1
    share = min(max(rest / areas[cell], _LEAST_POSITIVE), 1.0)
    if cell == 0:
        return nodes[0] + math.log(share) / alpha
    if cell == n:
        return nodes[n - 1] - math.log(share) / mass
    low, high, width = heights[cell - 1], heights[cell], nodes[cell] - nodes[cell - 1]
    rise = high - low
    if abs(rise) < 1e-8:
        return nodes[cell - 1] + share * width
    if rise > 0.0:
        return nodes[cell] + width / rise * math.log(share + (1.0 - share) * math.exp(-rise))
    return nodes[cell - 1] + width / rise * math.log1p(share * math.expm1(rise))


@njit(cache=True, nogil=True)
def log_share_density(z, alpha, mass, n, nodes, heights, areas):
    """Log density of the fitted distribution at z."""
    if z <= nodes[0]:
        height = heights[0] - alpha * (nodes[0] - z)
    elif z >= nodes[n - 1]:
        height = heights[n - 1] - mass * (z - nodes[n - 1])
    else:
        cell = np.searchsorted(nodes[:n], z)
        share = (z - nodes[cell - 1]) / (nodes[cell] - nodes[cell - 1])
        height = heights[cell - 1] + share * (heights[cell] - heights[cell - 1])
    return height - math.log(areas[n + 1])


@njit(cache=True, nogil=True)
def birth_death_factors(is_birth, start, stop, theta, products, new_products, alpha, kappa, key, log_odds, out):
    """Write the log of each document's factor in the acceptance ratio of a birth or death, for ``start:stop``.

    It is the density with the new topic and its prior over that without it and the density of the proposed share, whose
    `log_odds` are written for a birth and read for a death.
    """
    n_topics = theta.shape[1]
    mass = n_topics * alpha
    log_beta = math.lgamma(alpha) + math.lgamma(mass) - math.lgamma(alpha + mass)
    nodes, heights, areas = np.empty(N_NODES), np.empty(N_NODES), np.empty(N_NODES + 2)
    starts, pending = np.empty((2, _MAX_STARTS)), np.empty((_MAX_DEPTH + 1, 2))
    for i in range(start, stop):
        squared = 0.0
        along = 0.0
        for k in range(n_topics):
            squared += theta[i, k] * theta[i, k]
            along += theta[i, k] * products[i, k]
        length = math.sqrt(squared)
        along /= length
        given = (math.log(length), alpha, mass, kappa, along, new_products[i])
        n = fit_share(*given, nodes, heights, areas, starts, pending)
        if is_birth:
            z = draw_share(alpha, mass, n, nodes, heights, areas, fold_in(key, i))
            log_odds[i] = z + given[0]
        z = log_odds[i] - given[0]
        z = min(max(z, nodes[0] - _FAR), nodes[n - 1] + _FAR)
        out[i] = _log_target(z, *given) - log_beta - log_share_density(z, alpha, mass, n, nodes, heights, areas)
