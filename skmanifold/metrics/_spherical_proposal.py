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
`_spherical_power_normal`. So the proposal also covers weights close to 0, where it is far from normal. The importance
weights correct for the likelihood and the factors of the remaining topics, which are only approximately normal.
"""

from __future__ import annotations

import math

from ..random._keys import fold_in
from ..topics.document_densities import concentration_at, log_document
from ..utils._njit import njit_part
from ._spherical_importance import LEAST_SQUARE, add_draw, log_dirichlet_constant, reset
from ._spherical_power_normal import draw, moments

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
    for i in range(n):
        out[i] = 0.0
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
    mass = 0.0
    for i in range(n):
        mass += alpha[i]
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
def _fill_likelihood(mass, kappa, cosine, k, b, B, means, spread, squared, precision, shift):
    """The normal factor of the likelihood, and of all factors that are not of a single topic, about the means.

    kappa cos = kappa b'w / s becomes kappa b'w - kappa cosine s, accurate for s near 1 or cos near `cosine`. The log
    density depends on w through a linear term, q = s^2 and sum(w), and is expanded to second order.
    """
    n = len(b)
    root = math.sqrt(squared)
    pull = kappa * cosine
    first = -0.5 * pull / root + 1.5 * k * (1.0 / squared - root)
    second = (0.25 * pull / squared - 0.75 * k) / root - 1.5 * k / (squared * squared)
    total = 0.0
    at_means = 0.0
    for i in range(n):
        total += means[i]
        at_means += spread[i] * means[i]
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
    mass = 0.0
    for i in range(n):
        mass += alpha[i]
    cosine = _fill_start(alpha, kappa, b, B, means, precisions, shifts, spread, shift)
    _, squared, _ = _combine(means, b, B, spread)
    settled = False
    for iteration in range(_MAX_ITER):
        k = max((kappa * cosine + mass) / 9.0, _LEAST_K)  # as precise as the normal factor is along w
        _fill_likelihood(mass, kappa, cosine, k, b, B, means, spread, squared, precision, shift)
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
        along, squared, _ = _combine(means, b, B, spread)
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
    mass = 0.0
    constant = math.log(3.0) + k * math.log(k) - math.lgamma(k) + log_dirichlet_constant(alpha)
    for i in range(n):
        mass += alpha[i]
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
