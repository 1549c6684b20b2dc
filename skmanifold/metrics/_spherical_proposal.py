"""A proposal for the proportions of a document under spherical topics, fitted by expectation propagation.

Weights w >= 0 represent the proportions theta = w / sum(w). The likelihood depends only on the direction of beta w, so
its length s = |beta w| can be given any distribution. Here s^3 ~ Ga(k, k), which is nearly normal and close to 1. Then,
with b = beta'v and A = sum(alpha), w has the density

    prod_k w_k^(alpha_k - 1) exp(kappa b'w / s) s^(3 k) exp(-k s^3) sum(w)^-A

times Gamma(A) / prod Gamma(alpha_k) * 3 k^k / Gamma(k). All factors except the first product are close to a normal
density, because a von Mises-Fisher density over directions corresponds to a normal one over vectors. The approximation
has one normal factor for the likelihood and, for each topic, a normal factor that has the same effect on the moments as
w_k^(alpha_k - 1) (Minka, 2001). The proposal draws the topics in turn, given the previous ones, with the normal factors
of the remaining topics and the exact factor of the current one. This is a distribution of one variable; `moments` has
its moments, and `quantile` maps normal variates to draws, from a distribution close to it. So the proposal also covers
weights close to 0, where it is far from normal. The importance weights correct for all approximations.

With a concentration for each topic, kappa(w) = sum_k kappa_k w_k / sum(w) has a gradient g. It adds to the gradient
and the Hessian of the log density, with the cosine c and the Bessel ratio A,

    (c - A) g   and   -A' g g' + g grad(c)' + grad(c) g' - (c - A) (g 1' + 1 g') / sum(w).

The terms after the first of the Hessian, the cross terms, are indefinite. Without them the tails of the proposal would
be too light if kappa(w) is uncertain.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, log_ndtr, pbdv

from ..random._keys import fold_in
from ..random._variates import normal
from ..topics.document_densities import concentration_terms, log_document
from ._spherical_importance import BATCH, LEAST_SQUARE, add_draw, fill_cosines, sum_of, unchecked_part

# It is the posterior of one variable with a gamma prior and a normal likelihood. As mu decreases it approaches a gamma
# distribution; as mu increases, a normal distribution. Its mean is tabulated for each a on a grid of mu, and so are the
# logarithms of its quantiles. For mu outside of the grid, and for large a, they are approximate.

_REACH = 12.0  # the grid of mu is [-12, 12]
_STEP = 1.0 / 16.0
N_NODES = 2 * int(_REACH / _STEP) + 1
_LARGE = 20.0  # shapes above it need no table: a distribution with the same mode and curvature is accurate
_Z_REACH, _Z_STEP = 14.0, 0.5  # their normal variates z; no variate is larger
_Z_NODES = np.arange(-_Z_REACH, _Z_REACH + _Z_STEP, _Z_STEP)
_N_PLACES = 400  # of the integration
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


@unchecked_part
def _approximate_moments(a, mu):
    """Mean and variance outside of the grid: of the limiting gamma distribution, or from the curvature at the mode."""
    if mu < 0.0 and a < _LARGE:
        mean = 2.0 * a / (math.sqrt(mu * mu + 4.0 * (a + 1.0)) - mu)
        return mean, mean * mean / a
    mode = _find_mode(a, mu)
    variance = 1.0 / (1.0 + (a - 1.0) / (mode * mode))
    return 0.5 * (mu + math.sqrt(mu * mu + 4.0 * (a - variance))), variance


@unchecked_part
def _find_mode(a, mu):
    """The mode, which exists for a >= 1 or mu^2 > 4 (1 - a)."""
    root = math.sqrt(mu * mu + 4.0 * (a - 1.0))
    return 0.5 * (mu + root) if mu >= 0.0 else 2.0 * (a - 1.0) / (root - mu)


class Tables(NamedTuple):
    """Tables of the distribution for each shape that occurs, and the table of each topic."""

    which: np.ndarray  # (K,)
    means: np.ndarray  # (n, N_NODES)
    quantiles: np.ndarray  # (n, nodes of mu, nodes of z and one more, 2)


def tabulate(shapes: np.ndarray) -> Tables:
    """Tables for each shape; equal shapes share one."""
    different, which = np.unique(shapes, return_inverse=True)
    means, quantiles = zip(*map(_tables_of, different.tolist()), strict=True)
    return Tables(which, np.array(means), np.array(quantiles))


@lru_cache(256)
def _tables_of(shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Means at the nodes of mu; log quantiles y and their slopes in z, and last dy/dmu twice."""
    mu = np.arange(N_NODES) * _STEP - _REACH
    with_slopes = np.empty((N_NODES, len(_Z_NODES) + 1, 2))
    if shape >= _LARGE:
        return mu, with_slopes
    # The normaliser is a parabolic cylinder function, and so is that for the next shape, the integral of x.
    of_shape, of_next = pbdv(-shape, -mu)[0], pbdv(-shape - 1.0, -mu)[0]
    means = shape * of_next / of_shape
    log_z = (gammaln(shape) + 0.25 * mu * mu + np.log(of_shape))[:, None]
    mu, mean, out = mu[:, None], means[:, None], with_slopes[:, :-1]
    with_slopes[:, -1] = shape / mean + mu - mean
    # Below the first place the density is x^(a - 1) / Z; there are no draws above the last.
    most = mean + 4.0 * np.sqrt(shape + (mu - mean) * mean) + np.sqrt(np.minimum(mu, 0.0) ** 2 + 90.0)
    low, high = np.log(1e-3 / (1.0 + abs(mu))), np.log(most + np.minimum(mu, 0.0))
    y = low + (high - low) * np.linspace(0.0, 1.0, _N_PLACES)

    def log_density(y):
        return shape * y + (mu - 0.5 * np.exp(y)) * np.exp(y) - log_z

    below = np.exp(shape * low - log_z) / shape
    parts = np.exp(log_density(y)) * (y[:, 1:2] - y[:, :1])
    parts = 0.5 * (parts[:, 1:] + parts[:, :-1])
    mass = np.hstack((below, below + parts.cumsum(axis=1)))
    above = np.hstack((parts[:, ::-1].cumsum(axis=1)[:, ::-1], np.full_like(below, 1e-300)))
    logit, of_nodes = np.log(mass / above), log_ndtr(_Z_NODES) - log_ndtr(-_Z_NODES)
    for row, *given in zip(out[..., 0], logit, y, strict=True):
        row[:] = np.interp(of_nodes, *given)
    lowest = (log_ndtr(_Z_NODES) - np.log(below)) / shape + low
    out[..., 0] = np.where(of_nodes < logit[:, :1], lowest, out[..., 0])
    out[..., 1] = np.exp(-0.5 * _Z_NODES**2 - _HALF_LOG_2_PI - log_density(out[..., 0]))
    # Cubic interpolation is increasing if no slope is more than three times that of a line to a neighbour.
    most = 3.0 / _Z_STEP * np.diff(out[..., 0], axis=1)
    out[:, 1:, 1] = np.minimum(out[:, 1:, 1], most)
    out[:, :-1, 1] = np.minimum(out[:, :-1, 1], most)
    return means, with_slopes


@unchecked_part
def moments(a, mu, table):
    """Mean and variance, approximate off the grid."""
    if abs(mu) >= _REACH or a >= _LARGE:
        return _approximate_moments(a, mu)
    place = (mu + _REACH) / _STEP
    node = min(int(place), N_NODES - 2)
    t = place - node
    low = -_REACH + node * _STEP
    mean_0, mean_1 = table[node], table[node + 1]
    slope_0 = _STEP * (a + (low - mean_0) * mean_0)
    slope_1 = _STEP * (a + (low + _STEP - mean_1) * mean_1)
    mean = _interpolate(t, mean_0, mean_1, slope_0, slope_1)
    return mean, max(a + (mu - mean) * mean, 1e-6 * mean * mean)


@unchecked_part
def _interpolate(t, value_0, value_1, slope_0, slope_1):
    """Cubic Hermite interpolation at t from 0 to 1."""
    rest = 1.0 - t
    of_0, of_1 = (1.0 + 2.0 * t) * rest * rest, t * t * (3.0 - 2.0 * t)
    return of_0 * value_0 + of_1 * value_1 + t * rest * (rest * slope_0 - t * slope_1)


@unchecked_part
def quantile(a, mu, z, table):
    """The logarithm y of a draw x from a normal variate z, and dy/dz, positive: they define the proposal.

    Its density is the normal density at z over x dy/dz.
    """
    if a >= _LARGE or mu > _REACH:
        # y has the curvature and the third derivative of its log density at the mode.
        root = math.sqrt(mu * mu + 4.0 * a)
        mode = 0.5 * (mu + root) if mu >= 0.0 else 2.0 * a / (root - mu)
        square = mode * mode
        scale = 1.0 / math.sqrt(square + a)
        skewness = -(3.0 * square + a) * scale * scale * scale
        return math.log(mode) + scale * (z + skewness / 6.0 * (z * z + 2.0)), scale * max(
            1.0 + skewness / 3.0 * z, 1e-300
        )
    if mu < -_REACH:  # about gamma distributions, of the same shape
        row = table[0]
        shift = math.log((math.sqrt(_REACH * _REACH + 4.0 * a) + _REACH) / (math.sqrt(mu * mu + 4.0 * a) - mu))
    else:
        node = int((mu + _REACH) / _STEP + 0.5)
        row = table[node]
        shift = (mu + _REACH - node * _STEP) * row[len(row) - 1, 0]
    t = (z + _Z_REACH) / _Z_STEP
    node = int(t)
    t -= node
    y_0, y_1, slope_0, slope_1 = row[node, 0], row[node + 1, 0], row[node, 1], row[node + 1, 1]
    y = _interpolate(t, y_0, y_1, _Z_STEP * slope_0, _Z_STEP * slope_1)
    rest = 1.0 - t
    middle = 6.0 * t * rest * (y_1 - y_0) / _Z_STEP
    return y + shift, max(middle + rest * (1.0 - 3.0 * t) * slope_0 + t * (3.0 * t - 2.0) * slope_1, 1e-300)


_N_SWEEPS = 12
_MAX_ITER = 24
_MAX_RIDGES = 20
_DAMPING = 0.7
_TOL = 0.1  # largest change of a mean, in standard deviations
_LEAST_SUM = 1e-300
_LEAST_K = 2.0  # for smaller values s may be close to 0, where the normal approximation fails
_MOST_OFF = 4.0  # largest factor between the mean of s^2 and 1; beyond it the fit has diverged
_N_FIRST = 3  # first iterations, without terms of the concentration that are accurate only near the solution
_MOST_CHANGE = 0.5  # largest relative change of the concentration that the slope in these iterations aims at
_LEAST_CROSS = 0.3  # share of the cross terms below which no other is tried
_INFORMATION = 0.8  # share of A' that is used, because the posterior of the concentration has heavier tails
_LEAST_SHARE = 1e-4  # minimum precision left after a factor is removed, as a fraction of the total precision


def starts_of(alpha: np.ndarray, kappa: float, b: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Initial means of documents with products `b`, (n, K), and matching factors: (n, 3, K).

    Means are between those of the prior and the maximum likelihood, non-negative least squares by cyclic coordinate
    descent. No operation combines documents.
    """

    def length_of(weights, combined):
        return np.sqrt(np.maximum((weights * combined).sum(axis=1), LEAST_SQUARE))[:, None]

    best, rest = np.zeros(b.shape), b.copy()
    for _ in range(_N_SWEEPS):
        for i, row in enumerate(B):
            change = np.maximum(rest[:, i] / row[i], -best[:, i])
            best[:, i] += change
            rest -= change[:, None] * row
    length = length_of(best, b - rest)
    cosines = np.maximum((best * b).sum(axis=1)[:, None] / length, 0.0)
    mass, combined = alpha.sum(), alpha @ B
    share = kappa * cosines / (kappa * cosines + mass)
    best *= share / length
    weight = (1.0 - share) / np.sqrt(max(alpha @ combined, LEAST_SQUARE))
    means = best + weight * alpha
    combined = (b - rest) * (share / length) + weight * combined
    length = length_of(means, combined)
    # A small w_i has approximately a gamma distribution, whose rate is minus the slope of the other factors.
    rates = np.maximum(kappa * (cosines * combined / length - b), 0.0) + mass * length / means.sum(axis=1)[:, None]
    means = np.maximum(np.where(share > 0.5, best, means) / length, alpha / rates)
    return np.stack((means, alpha / (means * means), 2.0 * alpha / means), axis=1)


@unchecked_part
def _combine(w, b, B, spread):
    """Fill `spread` with B w; return b'w, w'B w and the sum of w."""
    n = len(w)
    along = 0.0
    squared = 0.0
    total = 0.0
    spread[:] = 0.0
    for j in range(n):
        weight = w[j]
        for i in range(n):
            spread[i] += weight * B[j, i]
    for i in range(n):
        squared += spread[i] * w[i]
        along += b[i] * w[i]
        total += w[i]
    return along, max(squared, LEAST_SQUARE), max(total, _LEAST_SUM)


@unchecked_part
def _factor(matrix, diagonal):
    """Replace a matrix, given by its upper triangle, by its upper Cholesky factor; False if not positive definite."""
    n = len(matrix)
    for i in range(n):
        diagonal[i] = matrix[i, i]
    for k in range(n):
        if not matrix[k, k] > 1e-13 * abs(diagonal[k]):
            return False
        scale = 1.0 / math.sqrt(matrix[k, k])
        for j in range(k, n):
            matrix[k, j] *= scale
        for i in range(k + 1, n):
            factor = matrix[k, i]
            for j in range(i, n):
                matrix[i, j] -= factor * matrix[k, j]
    return True


@unchecked_part
def _fill_moments(upper, inverse, precisions, shifts, shift, spread, second, last, means, variances):
    """Means and variances of the normal approximation; returns the trace of its covariance times `first` times B.

    The precision times the covariance has the trace n, and the precision is this matrix with terms of rank 1 and of
    topics (`fit_proposal`). `inverse` is filled with the inverse of the lower factor.
    """
    n = len(means)
    trace = float(n)
    means[:] = 0.0
    variances[:] = 0.0
    for i in range(n):
        row = inverse[i]
        row[:] = 0.0
        for k in range(i):
            factor = upper[k, i]
            for j in range(k + 1):
                row[j] -= factor * inverse[k, j]
        row[i] = 1.0
        scale = 1.0 / upper[i, i]
        of_shift, of_spread, of_ones = 0.0, 0.0, 0.0
        for j in range(i + 1):
            row[j] *= scale
            of_shift += row[j] * (shift[j] + shifts[j])
            of_spread += row[j] * spread[j]
            of_ones += row[j]
        trace += second * of_spread * of_spread + last * of_ones * of_ones
        for j in range(i + 1):
            means[j] += row[j] * of_shift
            variances[j] += row[j] * row[j]
    for i in range(n):
        trace -= precisions[i] * variances[i]
    return trace


@unchecked_part
def _match_moments(alpha, tables, variances, means, precisions, shifts):
    """Damped moment matching of the normal factors of the topics; returns the largest change of a mean."""
    change = 0.0
    for i in range(len(alpha)):
        variance = variances[i]
        precision = max(1.0 / variance - precisions[i], _LEAST_SHARE / variance)
        shift = means[i] / variance - shifts[i]
        scale = math.sqrt(precision)
        mean, spread = moments(alpha[i], shift / scale, tables.means[tables.which[i]])
        mean /= scale
        spread /= precision
        change = max(change, abs(mean - means[i]) / math.sqrt(variance))
        precisions[i] += _DAMPING * (1.0 / spread - precision - precisions[i])
        shifts[i] += _DAMPING * (mean / spread - shift - shifts[i])
        means[i] = mean
    return change


@unchecked_part
def fit_proposal(alpha, density, b, B, tables, start, sites, upper, work):
    """Fit the normal factors of the topics; returns k, or 0 if the fit fails.

    Fills `sites`, (3, K), with means, precisions and shifts of the factors, starting at `start`, and the upper triangle
    `upper` with the Cholesky factor of the precision; `work`, (K + 6, K), is scratch.
    """
    n = len(alpha)
    means, precisions, shifts = sites[0], sites[1], sites[2]
    spread, shift, variances, diagonal, inverse = work[0], work[1], work[2], work[3], work[6:]
    rise, other = work[4], work[5]
    for i in range(3):
        for j in range(n):
            sites[i, j] = start[i, j]
    mass = sum_of(alpha)
    along, at_means, total = _combine(means, b, B, spread)
    squared = at_means
    settled = False
    for iteration in range(_MAX_ITER):
        cosine = along / math.sqrt(squared)
        kappa, gap, information = concentration_terms(density, means, total, cosine, rise)
        kappa, cosine = max(kappa, 1e-3 * density.reference), max(cosine, 0.0)
        k = max((kappa * cosine + mass) / 9.0, _LEAST_K)  # as precise as the normal factor is along w
        # The normal factor of the likelihood, and of all factors that are not of a single topic, about the means.
        # kappa cos = kappa b'w / s becomes kappa b'w - kappa cosine s, accurate for s near 1 or cos near `cosine`. The
        # log density depends on w through a linear term, q = s^2 and sum(w), and is expanded to second order.
        root, pull = math.sqrt(squared), kappa * cosine
        first = pull / root - 3.0 * k * (1.0 / squared - root)
        second = (pull / squared - 3.0 * k) / root - 6.0 * k / (squared * squared)
        last = mass / (total * total)
        for i in range(n):
            shift[i] = kappa * b[i] - second * at_means * spread[i] - 2.0 * last * total
        is_early = information > 0.0 and iteration < _N_FIRST
        is_trial = information > 0.0 and not is_early
        cross = 2.0 if is_trial else 0.0
        if is_early:
            most = _MOST_CHANGE * kappa * information
            gap = min(max(gap, -most), most)
        for _ in range(_MAX_RIDGES + 1):
            for i in range(n):
                for j in range(i, n):
                    upper[i, j] = first * B[i, j] - second * spread[i] * spread[j] - last
                upper[i, i] += precisions[i]
            if information > 0.0:  # its terms are g other' + other g'
                for i in range(n):
                    other[i] = 0.5 * _INFORMATION * information * rise[i]
                    other[i] += cross * (gap / total - (b[i] - along / at_means * spread[i]) / math.sqrt(at_means))
                for i in range(n):
                    for j in range(i, n):
                        upper[i, j] += rise[i] * other[j] + other[i] * rise[j]
            is_positive = _factor(upper, diagonal)
            if is_trial:
                # The share is half of one for which the precision is positive definite: at least half of it is left.
                is_trial, cross = not is_positive and cross > _LEAST_CROSS, 0.5 * cross
                continue
            if is_positive:
                break
            # If the precision is not positive definite, its diagonal is raised; shifts keep the means where they are.
            for i in range(n):
                extra = 0.2 * abs(diagonal[i])
                precisions[i] += extra
                shifts[i] += extra * means[i]
        if not is_positive:
            return 0.0
        if information > 0.0:
            for i in range(n):
                gap += other[i] * means[i]
            for i in range(n):
                shift[i] += gap * rise[i]
        trace = _fill_moments(upper, inverse, precisions, shifts, shift, spread, second, last, means, variances)
        if information > 0.0:
            for i in range(n):
                of_rise, of_other = 0.0, 0.0
                for j in range(i + 1):
                    of_rise += inverse[i, j] * rise[j]
                    of_other += inverse[i, j] * other[j]
                trace -= 2.0 * of_rise * of_other
        # One last update of the means after convergence, so that means and factors belong together.
        if settled or iteration + 1 == _MAX_ITER:
            return k
        settled = _match_moments(alpha, tables, variances, means, precisions, shifts) < _TOL and not is_early
        along, at_means, total = _combine(means, b, B, spread)
        squared = at_means + trace / max(first, 1e-300)  # expected, with the variances of the weights
        if not 1.0 / _MOST_OFF < squared < _MOST_OFF:
            return 0.0
    return 0.0


@unchecked_part
def draw_from_proposal(alpha, density, k, b, B, tables, sites, upper, key, n_draws, spread, log_scale, tally, columns):
    """Add draws of the proposal to the tally, with weights divided by their number and multiplied by a scale.

    `sites` and `upper` are those that `fit_proposal` fills, perhaps for other topics; `columns`, of the shape
    `scratch_shape`, are scratch. Normal variates are multiplied by `spread`: with 0 a draw is at the centre, without a
    random error, and not a draw of the proposal.
    """
    n = len(alpha)
    means, precisions, shifts = sites[0], sites[1], sites[2]
    cosines, squared, row, theta, log_weights = (
        columns[n],
        columns[n + 1],
        columns[n + 2],
        columns[n + 3],
        columns[n + 4],
    )
    mass = sum_of(alpha)
    constant = math.log(3.0) + k * math.log(k) - math.lgamma(k) + n * _HALF_LOG_2_PI + log_scale
    constant += math.lgamma(mass) - math.log(n_draws)
    for i in range(n):
        constant -= math.lgamma(alpha[i])
    for first in range(0, n_draws, BATCH):
        width = min(BATCH, n_draws - first)
        log_weights[:width] = constant
        for i in range(n - 1, -1, -1):
            whole = upper[i, i] * upper[i, i]
            scale = math.sqrt(max(whole - precisions[i], _LEAST_SHARE * whole))
            log_unit = math.log(scale)
            row[:width] = means[i]
            for j in range(i + 1, n):
                weight, mean = upper[i, j] / upper[i, i], means[j]
                for s in range(width):
                    row[s] += weight * (mean - columns[j, s])
            table = tables.quantiles[tables.which[i]]
            for s in range(width):
                z = spread * normal(fold_in(key, first + s), i)
                y, slope = quantile(alpha[i], (whole * row[s] - shifts[i]) / scale, z, table)
                columns[i, s] = math.exp(y - log_unit)
                log_weights[s] += 0.5 * z * z + math.log(slope) + alpha[i] * (y - log_unit)
        fill_cosines(b, B, width, columns, cosines, row, squared)
        for s in range(width):
            total = _LEAST_SUM
            for i in range(n):
                total += columns[i, s]
            for i in range(n):
                theta[i] = columns[i, s] / total
            square = max(squared[s], LEAST_SQUARE)
            root = math.sqrt(square)
            log_weight = log_weights[s] + log_document(density, theta, cosines[s])
            log_weight += k * (3.0 * math.log(root) - square * root) - mass * math.log(total)
            add_draw(log_weight, theta, tally)
