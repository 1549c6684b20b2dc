"""A proposal for the proportions of a document under spherical topics, fitted by expectation propagation.

Weights w >= 0 represent the proportions theta = w / sum(w). The likelihood depends only on the direction of beta w, so
its length s = |beta w| can be given any distribution. Here s^3 ~ Ga(k, k), which is nearly normal and close to 1. Then,
with b = beta'v and A = sum(alpha), w has the density

    prod_k w_k^(alpha_k - 1) exp(kappa b'w / s) s^(3 k) exp(-k s^3) sum(w)^-A

times Gamma(A) / prod Gamma(alpha_k) * 3 k^k / Gamma(k). All factors except the first product are close to a normal
density, because a von Mises-Fisher density over directions corresponds to a normal one over vectors. The approximation
has one normal factor for the likelihood and, for each topic, a normal factor that has the same effect on the moments as
w_k^(alpha_k - 1) (Minka, 2001). The proposal draws the topics in turn, given the previous ones, with the normal factors
of the remaining topics and the exact factor of the current one. This is a distribution of one variable, implemented in
`moments` and `draw`. So the proposal also covers weights close to 0, where it is far from normal. The importance
weights correct for the likelihood and the factors of the remaining topics, which are only approximately normal.
"""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import fold_in, uniform
from ..random._variates import gamma_variate, normal, open_uniform
from ..topics.document_densities import concentration_at, log_document
from ..utils._njit import njit_part
from ._spherical_importance import LEAST_SQUARE, add_draw, reset, sum_of

# It is the posterior of one variable with a gamma prior and a normal likelihood. As mu decreases it approaches a gamma
# distribution; as mu increases, a normal distribution. Its normaliser and mean are tabulated for each a on a grid of
# mu. For mu outside of the grid, and for large a, draws come from an approximating distribution with a known density.

_REACH = 12.0  # the grid of mu is [-12, 12]
_STEP = 1.0 / 16.0
_PARTS = 4  # integration steps per step of the grid
_LEAD = 96  # additional steps before the grid, in which the error of the approximate initial value decays
_ORIGIN = int(_REACH / _STEP)
N_NODES = 2 * _ORIGIN + 1
_MOST_MIXED = 6.0  # above it, the probability mass close to 0 is less than 1e-6 of that of a normal distribution
_LARGE = 20.0  # shapes above it need no table: a distribution with the same mode and curvature is accurate
_MAX_TERMS = 400


@njit_part
def _approximate_moments(a, mu):
    """Mean and variance outside of the grid: of the limiting gamma distribution, or from the curvature at the mode."""
    if mu < 0.0 and a < _LARGE:
        mean = 2.0 * a / (math.sqrt(mu * mu + 4.0 * (a + 1.0)) - mu)
        return mean, mean * mean / a
    mode = _find_mode(a, mu)
    variance = 1.0 / (1.0 + (a - 1.0) / (mode * mode))
    return 0.5 * (mu + math.sqrt(mu * mu + 4.0 * (a - variance))), variance


@njit_part
def _find_mode(a, mu):
    """The mode, which exists for a >= 1 or mu^2 > 4 (1 - a)."""
    root = math.sqrt(mu * mu + 4.0 * (a - 1.0))
    return 0.5 * (mu + root) if mu >= 0.0 else 2.0 * (a - 1.0) / (root - mu)


@njit_part
def _tabulate(a, table):
    """Fill rows (log normaliser, mean) of the grid: the mean R solves R' = a + mu R - R^2, and log Z has the slope R.

    The equation is integrated by classical Runge-Kutta steps; errors of the initial value decay as mu increases.
    """
    h = _STEP / _PARTS
    mu = -_REACH - _LEAD * _STEP
    mean, _ = _approximate_moments(a, mu)
    log_z = 0.0
    for step in range((N_NODES - 1 + _LEAD) * _PARTS + 1):
        node = step // _PARTS - _LEAD
        if node >= 0 and step % _PARTS == 0:
            table[node, 0] = log_z
            table[node, 1] = mean
        slope_1 = a + (mu - mean) * mean
        middle = mu + 0.5 * h
        mean_2 = mean + 0.5 * h * slope_1
        slope_2 = a + (middle - mean_2) * mean_2
        mean_3 = mean + 0.5 * h * slope_2
        slope_3 = a + (middle - mean_3) * mean_3
        mu = -_REACH - _LEAD * _STEP + (step + 1) * h
        mean_4 = mean + h * slope_3
        slope_4 = a + (mu - mean_4) * mean_4
        log_z += h / 6.0 * (mean + 2.0 * (mean_2 + mean_3) + mean_4)
        mean += h / 6.0 * (slope_1 + 2.0 * (slope_2 + slope_3) + slope_4)
    shift = (0.5 * a - 1.0) * math.log(2.0) + math.lgamma(0.5 * a) - table[_ORIGIN, 0]
    for node in range(N_NODES):
        table[node, 0] += shift


def tabulate(shapes: np.ndarray) -> np.ndarray:
    """Tables of the distribution for each shape, (n, N_NODES, 2); successive equal shapes are computed once."""
    tables = np.zeros((len(shapes), N_NODES, 2))
    for i, shape in enumerate(shapes):
        if i > 0 and shape == shapes[i - 1]:
            tables[i] = tables[i - 1]
        elif shape < _LARGE:
            _tabulate(shape, tables[i])
    return tables


@njit_part
def _look_up(a, mu, table):
    """Log normaliser and mean at a `mu` within the grid, by cubic Hermite interpolation."""
    place = (mu + _REACH) / _STEP
    node = min(int(place), N_NODES - 2)
    t = place - node
    low = -_REACH + node * _STEP
    log_0, mean_0 = table[node]
    log_1, mean_1 = table[node + 1]
    slope_0 = _STEP * (a + (low - mean_0) * mean_0)
    slope_1 = _STEP * (a + (low + _STEP - mean_1) * mean_1)
    rest = 1.0 - t
    of_0, of_1 = (1.0 + 2.0 * t) * rest * rest, t * t * (3.0 - 2.0 * t)
    of_slope_0, of_slope_1 = t * rest * rest, -t * t * rest
    log_z = of_0 * log_0 + of_1 * log_1 + _STEP * (of_slope_0 * mean_0 + of_slope_1 * mean_1)
    return log_z, of_0 * mean_0 + of_1 * mean_1 + of_slope_0 * slope_0 + of_slope_1 * slope_1


@njit_part
def moments(a, mu, table):
    """Mean and variance, approximate off the grid."""
    if abs(mu) >= _REACH or a >= _LARGE:
        return _approximate_moments(a, mu)
    _, mean = _look_up(a, mu, table)
    return mean, max(a + (mu - mean) * mean, 1e-6 * mean * mean)


@njit_part
def draw(a, mu, table, key):
    """A draw, and the log of its proposal density divided by x^(a - 1); infinity for a draw outside of the support."""
    if mu > _MOST_MIXED or (mu > 0.0 and a >= _LARGE):
        return _draw_normal(a, mu, key)
    if a >= _LARGE or mu <= -_REACH:
        return _draw_gamma(a, mu, key)
    log_z, _ = _look_up(a, mu, table)
    x = _draw_by_rejection(a, mu, key) if mu <= 0.0 else _draw_mixture(a, mu, log_z, table, key)
    return x, (mu - 0.5 * x) * x - log_z


@njit_part
def _draw_normal(a, mu, key):
    """Draw from the normal distribution with the same mode and curvature; the target has no density below 0."""
    mode = _find_mode(a, mu)
    precision = 1.0 + (a - 1.0) / (mode * mode)
    z = normal(key, 0)
    x = mode + z / math.sqrt(precision)
    if x <= 0.0:
        return mode, np.inf
    return x, 0.5 * (math.log(precision / (2.0 * math.pi)) - z * z) - (a - 1.0) * math.log(x)


@njit_part
def _draw_gamma(a, mu, key):
    """Draw from a gamma distribution of the same shape, tangent to the normal factor at its mean.

    For a large `a` it has the same mode and curvature instead, so a larger shape: accurate if almost no draws are near
    0.
    """
    shape = a
    if a < _LARGE:
        rate = 0.5 * (math.sqrt(mu * mu + 4.0 * a) - mu)
    else:
        mode = _find_mode(a, mu)
        shape = a + mode * mode
        rate = (shape - 1.0) / mode
    x = gamma_variate(key, shape) / rate
    log_density = shape * math.log(rate) - math.lgamma(shape) - rate * x
    if shape > a:
        log_density += (shape - a) * math.log(max(x, 1e-300))
    return x, log_density


@njit_part
def _draw_by_rejection(a, mu, key):
    """For mu <= 0: rejection from the gamma distribution tangent at its mean m, accepted with exp(-(x - m)^2 / 2)."""
    rate = 0.5 * (math.sqrt(mu * mu + 4.0 * a) - mu)
    mean = a / rate
    attempt = 0
    while True:
        x = gamma_variate(fold_in(key, attempt), a) / rate
        excess = x - mean
        if math.log(open_uniform(key, attempt)) < -0.5 * excess * excess or math.isnan(excess):
            return x
        attempt += 1


@njit_part
def _draw_mixture(a, mu, log_z, table, key):
    """For mu > 0: the series of exp(mu x) makes it a mixture, over j >= 0, of x^2 / 2 ~ Ga((a + j) / 2, 1)."""
    left = uniform(key, 0) * math.exp(log_z - table[_ORIGIN, 0])  # weights are relative to the first
    even, odd = 1.0, mu * table[_ORIGIN, 1]
    square = mu * mu
    j = 0
    while j < _MAX_TERMS:
        left -= even
        if left < 0.0:
            break
        left -= odd
        if left < 0.0:
            j += 1
            break
        even *= square * (a + j) / ((j + 1.0) * (j + 2.0))
        odd *= square * (a + j + 1.0) / ((j + 2.0) * (j + 3.0))
        j += 2
    return math.sqrt(2.0 * gamma_variate(fold_in(key, 1), 0.5 * (a + j)))


_MAX_SWEEPS = 40
_MAX_ITER = 24
_MAX_RIDGES = 20
_DAMPING = 0.7
_TOL = 0.01  # largest change of a mean, in standard deviations
_LEAST_SUM = 1e-300
_LEAST_K = 2.0  # for smaller values s may be close to 0, where the normal approximation fails
_MOST_OFF = 4.0  # largest factor between the mean of s^2 and 1; beyond it the fit has diverged
_LEAST_SHARE = 1e-4  # minimum precision left after a factor is removed, as a fraction of the total precision


@njit_part
def _fill_cone_point(b, B, out):
    """Non-negative least squares of the document on the topics, by cyclic coordinate descent."""
    n = len(b)
    out[:] = 0.0
    for _ in range(_MAX_SWEEPS):
        change = 0.0
        for i in range(n):
            total = b[i]
            for j in range(n):
                total -= B[i, j] * out[j]
            new = max(0.0, out[i] + total / B[i, i])
            change = max(change, abs(new - out[i]))
            out[i] = new
        if change < 1e-4:
            break


@njit_part
def _combine(w, b, B, spread):
    """Fill `spread` with B w; return b'w, w'B w and the sum of w."""
    n = len(w)
    along = 0.0
    squared = 0.0
    total = 0.0
    for i in range(n):
        product = 0.0
        for j in range(n):
            product += B[i, j] * w[j]
        spread[i] = product
        squared += product * w[i]
        along += b[i] * w[i]
        total += w[i]
    return along, max(squared, LEAST_SQUARE), max(total, _LEAST_SUM)


@njit_part
def _fill_start(alpha, kappa, b, B, means, precisions, shifts, spread, best):
    """Initial means, between those of the prior and the maximum likelihood, and matching factors; return the cosine."""
    n = len(alpha)
    mass = sum_of(alpha)
    _fill_cone_point(b, B, best)
    along, squared, _ = _combine(best, b, B, spread)
    length = math.sqrt(squared)
    cosine = max(along / length, 0.0)
    share = kappa * cosine / (kappa * cosine + mass)
    _, squared, _ = _combine(alpha, b, B, spread)
    for i in range(n):
        best[i] *= share / length
        means[i] = best[i] + (1.0 - share) * alpha[i] / math.sqrt(squared)
    _, squared, total = _combine(means, b, B, spread)
    length = math.sqrt(squared)
    for i in range(n):
        # A small w_i has approximately a gamma distribution, whose rate is minus the slope of the other factors.
        rate = max(kappa * (cosine * spread[i] / length - b[i]), 0.0) + mass * length / total
        means[i] = max((best[i] if share > 0.5 else means[i]) / length, alpha[i] / rate)
        precisions[i] = alpha[i] / (means[i] * means[i])
        shifts[i] = 2.0 * alpha[i] / means[i]
    return cosine


@njit_part
def _fill_likelihood(mass, kappa, cosine, k, b, B, spread, at_means, total, squared, precision, shift):
    """The normal factor of the likelihood, and of all factors that are not of a single topic, about the means.

    `at_means` and `total` are s^2 and sum(w) of the means, `spread` is B w; `squared` is the expected s^2.
    kappa cos = kappa b'w / s becomes kappa b'w - kappa cosine s, accurate for s near 1 or cos near `cosine`. The log
    density depends on w through a linear term, q = s^2 and sum(w), and is expanded to second order.
    """
    n = len(b)
    root = math.sqrt(squared)
    pull = kappa * cosine
    first = -0.5 * pull / root + 1.5 * k * (1.0 / squared - root)
    second = (0.25 * pull / squared - 0.75 * k) / root - 1.5 * k / (squared * squared)
    for i in range(n):
        shift[i] = kappa * b[i] - 4.0 * second * at_means * spread[i] - 2.0 * mass / total
        for j in range(n):
            precision[i, j] = -2.0 * first * B[i, j] - 4.0 * second * spread[i] * spread[j] - mass / (total * total)


@njit_part
def _factor(matrix, diagonal, out):
    """Lower Cholesky factor of `matrix` + diag(`diagonal`); returns False if the matrix is not positive definite."""
    n = len(matrix)
    for i in range(n):
        for j in range(i):
            entry = matrix[i, j]
            for k in range(j):
                entry -= out[i, k] * out[j, k]
            out[i, j] = entry / out[j, j]
        pivot = matrix[i, i] + diagonal[i]
        least = 1e-13 * abs(pivot)
        for k in range(i):
            pivot -= out[i, k] * out[i, k]
        if not pivot > least:
            return False
        out[i, i] = math.sqrt(pivot)
    return True


@njit_part
def _invert(lower, inverse, out):
    """Fill `out` with (lower lower')^-1; `inverse` is scratch memory of the same shape."""
    n = len(lower)
    for j in range(n):
        inverse[j, j] = 1.0 / lower[j, j]
        for i in range(j + 1, n):
            entry = 0.0
            for k in range(j, i):
                entry -= lower[i, k] * inverse[j, k]
            inverse[j, i] = entry / lower[i, i]
    for i in range(n):
        for j in range(i + 1):
            entry = 0.0
            for k in range(i, n):
                entry += inverse[i, k] * inverse[j, k]
            out[i, j] = entry
            out[j, i] = entry


@njit_part
def _match_moments(alpha, tables, covariance, means, precisions, shifts):
    """Damped moment matching of the normal factors of the topics; returns the largest change of a mean."""
    change = 0.0
    for i in range(len(alpha)):
        variance = covariance[i, i]
        precision = max(1.0 / variance - precisions[i], _LEAST_SHARE / variance)
        shift = means[i] / variance - shifts[i]
        scale = math.sqrt(precision)
        mean, spread = moments(alpha[i], shift / scale, tables[i])
        mean /= scale
        spread /= precision
        change = max(change, abs(mean - means[i]) / math.sqrt(variance))
        precisions[i] += _DAMPING * (1.0 / spread - precision - precisions[i])
        shifts[i] += _DAMPING * (mean / spread - shift - shifts[i])
        means[i] = mean
    return change


@njit_part
def fit_proposal(alpha, kappa, b, B, tables, vectors, matrices):
    """Fit the normal factors of the topics; returns k, or 0 if the fit fails.

    `vectors`, (5, K), begin with means, precisions and shifts of the factors, `matrices`, (4, K, K), with the Cholesky
    factor of the precision; the rest is scratch. `tables` are `tabulate(alpha)`.
    """
    n = len(alpha)
    means, precisions, shifts, spread, shift = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    lower, precision, inverse, covariance = matrices[0], matrices[1], matrices[2], matrices[3]
    mass = sum_of(alpha)
    cosine = _fill_start(alpha, kappa, b, B, means, precisions, shifts, spread, shift)
    _, at_means, total = _combine(means, b, B, spread)
    squared = at_means
    settled = False
    for iteration in range(_MAX_ITER):
        k = max((kappa * cosine + mass) / 9.0, _LEAST_K)  # as precise as the normal factor is along w
        _fill_likelihood(mass, kappa, cosine, k, b, B, spread, at_means, total, squared, precision, shift)
        ridges = 0
        # If the precision is not positive definite, its diagonal is raised; shifts keep the means where they are.
        while not _factor(precision, precisions, lower):
            ridges += 1
            if ridges > _MAX_RIDGES:
                return 0.0
            for i in range(n):
                extra = 0.2 * abs(precision[i, i] + precisions[i])
                precisions[i] += extra
                shifts[i] += extra * means[i]
        _invert(lower, inverse, covariance)
        for i in range(n):
            means[i] = 0.0
            for j in range(n):
                means[i] += covariance[i, j] * (shift[j] + shifts[j])
        # One last update of the means after convergence, so that means and factors belong together.
        if settled or iteration + 1 == _MAX_ITER:
            return k
        settled = _match_moments(alpha, tables, covariance, means, precisions, shifts) < _TOL
        # The expected squared length of the mixture includes the variances of the weights.
        along, at_means, total = _combine(means, b, B, spread)
        squared = at_means
        for i in range(n):
            for j in range(n):
                squared += B[i, j] * covariance[i, j]
        if not 1.0 / _MOST_OFF < squared < _MOST_OFF:
            return 0.0
        cosine = max(along / math.sqrt(squared), 0.0)
    return 0.0


@njit_part
def fit_proposal_of(alpha, density, b, B, tables, vectors, matrices):
    """`fit_proposal` at the concentration of a document at the means of a first fit; with one, a single fit."""
    k = fit_proposal(alpha, density.reference, b, B, tables, vectors, matrices)
    if k == 0.0:
        return k
    concentration = concentration_at(density, vectors[0])
    if concentration == density.reference:
        return k
    return fit_proposal(alpha, max(concentration, 1e-3 * density.reference), b, B, tables, vectors, matrices)


@njit_part
def draw_from_proposal(alpha, density, k, b, B, tables, vectors, matrices, key, n_draws, tally):
    """Add draws of the proposal to the tally; `vectors` and `matrices` are those that `fit_proposal` has filled."""
    n = len(alpha)
    means, precisions, shifts, w, spread = vectors[0], vectors[1], vectors[2], vectors[3], vectors[4]
    lower = matrices[0]
    mass = sum_of(alpha)
    log_prior = 0.0  # of the constant Gamma(mass) / prod Gamma(alpha)
    for i in range(n):
        log_prior -= math.lgamma(alpha[i])
    constant = math.log(3.0) + k * math.log(k) - math.lgamma(k) + (log_prior + math.lgamma(mass))
    reset(tally)
    for s in range(n_draws):
        draw_key = fold_in(key, s)
        log_weight = constant
        for i in range(n - 1, -1, -1):
            mean = 0.0
            for j in range(i + 1, n):
                mean += lower[j, i] * (means[j] - w[j])
            mean = means[i] + mean / lower[i, i]
            whole = lower[i, i] * lower[i, i]
            precision = max(whole - precisions[i], _LEAST_SHARE * whole)
            scale = math.sqrt(precision)
            x, log_density = draw(alpha[i], (whole * mean - shifts[i]) / scale, tables[i], fold_in(draw_key, i))
            w[i] = x / scale
            log_weight -= log_density + alpha[i] * math.log(scale)
        along, squared, total = _combine(w, b, B, spread)
        root = math.sqrt(squared)
        cosine = min(1.0, max(-1.0, along / root))
        log_weight += (
            log_document(density, w, cosine) + k * (3.0 * math.log(root) - squared * root) - mass * math.log(total)
        )
        for i in range(n):
            w[i] /= total
        add_draw(log_weight, w, tally)
