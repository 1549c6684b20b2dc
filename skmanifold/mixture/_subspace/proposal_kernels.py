"""An independent proposal of one subspace given its rows, and the ratio of its posterior density to that of the proposal.

The proposal draws the dimension, the precision of the noise unless it is shared, directions one after the other, and
ratios; the centre is integrated out. Rows enter through their mean, and a factor Y of the scatter about it.

A subspace is a set of d pairs of directions and ratios, but directions are proposed in an order. So the set is extended
by an order: each place is given to one of the remaining directions, with probability proportional to its density under
the proposal of this place. The densities of the chosen ones then cancel, and sums over the remaining ones are left.
"""

import math

import numpy as np

from ...distributions._gamma import draw_ratio
from ...numerics.block_sums import dot
from ...numerics.special import copy_to, log_unit_gamma
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import gamma_variate
from ...utils._njit import njit
from .frame_kernels import (
    dimension_levels,
    fit_proposal,
    likeliest_noise,
    log_proposal_density,
    propose_direction,
    scatter_along,
    spectrum,
    sum_of_squares,
)

_ORDER = np.int64(Purpose.ORDER)
_FRAMES = np.int64(Purpose.FRAMES)
_NOISE = np.int64(Purpose.NOISE_PRECISION)
_DIMENSION = np.int64(0)
_RATIO = np.int64(1)
_OF_PRIOR = 0.1  # share of the prior in the proposal of the dimension, which is an approximation


@njit(cache=True, nogil=True)
def centred_factor(rows):
    """Mean of rows, and Y, of at most m rows, with Y'Y their scatter about it."""
    n, m = rows.shape
    mean = np.zeros(m)
    for i in range(n):
        for a in range(m):
            mean[a] += rows[i, a] / n
    Y = rows - mean
    if n <= m:
        return mean, Y
    values, axes = spectrum(Y, np.empty((0, m)))
    return mean, np.sqrt(values).reshape((len(values), 1)) * axes


@njit(cache=True, nogil=True)
def _dimension_and_noise(Y, n, noise, prior):
    """Log probabilities of the proposed dimensions, and shape and rate of the precision of the noise given each."""
    log_dimension, ratio_shape, _, noise_shape, noise_rate, is_shared = prior
    m, size = Y.shape[1], len(log_dimension)
    scatters, values = np.zeros(m), spectrum(Y, np.empty((0, m)))[0]
    copy_to(scatters, values[:m])
    shapes, rates = likeliest_noise(scatters, n, size, noise_shape, noise_rate)
    precisions = np.full(size, noise) if is_shared else shapes / rates
    logs = dimension_levels(scatters, n, precisions, log_dimension, ratio_shape, noise_shape, noise_rate)
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    return np.log((1.0 - _OF_PRIOR) * shares + _OF_PRIOR * np.exp(log_dimension)), shapes, rates


@njit(cache=True, nogil=True)
def propose_subspace(Y, n, noise, prior, key):
    """Draw basis, ratios and precision of the noise given n rows with scatter Y'Y; a shared `noise` is returned."""
    logs, shapes, rates = _dimension_and_noise(Y, n, noise, prior)
    at, d = uniform(key, _DIMENSION), 0
    while d < len(logs) - 1 and at >= math.exp(logs[d]):
        at -= math.exp(logs[d])
        d += 1
    if not prior[5]:
        noise = gamma_variate(fold_in(key, _NOISE), shapes[d]) / rates[d]
    basis, ratios = np.empty((0, Y.shape[1])), np.empty(d)
    for j in range(d):
        child = fold_in(fold_in(key, _FRAMES), j)
        eigenvalues, axes, top_eigenvalue, b, _, _ = fit_proposal(Y, basis, n, noise)
        basis = propose_direction(basis, eigenvalues, axes, top_eigenvalue, b, child)
        rate = 0.5 * noise * scatter_along(Y, basis[j])
        ratios[j] = draw_ratio(fold_in(child, _RATIO), prior[1] + 0.5 * (n - 1.0), rate)
    return basis, ratios, noise


@njit(cache=True, nogil=True)
def log_weight(Y, mean, n, basis, ratios, noise, prior, has_order, key):
    """Log of the joint density of a subspace and its n rows, less the log density of the proposal.

    The order of the directions is drawn, unless they were proposed in it.
    """
    log_dimension, ratio_shape, variance, noise_shape, noise_rate, is_shared = prior
    d, m = basis.shape
    logs, shapes, rates = _dimension_and_noise(Y, n, noise, prior)
    level = log_dimension[d] - logs[d] + math.lgamma(d + 1.0) + 0.5 * n * m * math.log(noise / (2.0 * math.pi))
    if not is_shared:
        level += noise_shape * math.log(noise_rate) - math.lgamma(noise_shape) - shapes[d] * math.log(rates[d])
        level += math.lgamma(shapes[d]) + (noise_shape - shapes[d]) * math.log(noise) - (noise_rate - rates[d]) * noise
    # Rows and centre, of which the proposal of ratios knows only half a row
    level -= 0.5 * noise * sum_of_squares(Y, basis, ratios)
    scatters, left = np.empty(d), dot(mean, mean)
    for j in range(d):
        scatters[j], along = scatter_along(Y, basis[j]), dot(mean, basis[j])
        precision = n * noise * ratios[j]
        level += math.log(ratio_shape) + 0.5 * math.log(ratios[j] / (1.0 + precision * variance))
        level -= 0.5 * precision * along * along / (1.0 + precision * variance)
        rate = 0.5 * noise * scatters[j]
        level += rate * ratios[j] + log_unit_gamma(ratio_shape + 0.5 * (n - 1.0), rate)
        left -= along * along
    level -= 0.5 * (m - d) * math.log1p(n * noise * variance)
    level -= 0.5 * n * noise * max(left, 0.0) / (1.0 + n * noise * variance)
    # Directions
    frame, terms = basis.copy(), np.empty(d)
    for j in range(d):
        _, _, top_eigenvalue, b, per_scatter, q = of_place = fit_proposal(Y, frame[:j], n, noise)
        for i in range(j, d):
            terms[i] = log_proposal_density(scatters[i], of_place[0], top_eigenvalue, b, per_scatter, q)
        highest = terms[j:].max()
        total = np.exp(terms[j:] - highest).sum()
        level -= highest + math.log(total)
        if not has_order:
            at, chosen = uniform(fold_in(key, _ORDER), j) * total, j
            while chosen < d - 1 and at >= math.exp(terms[chosen] - highest):
                at -= math.exp(terms[chosen] - highest)
                chosen += 1
            first = frame[j].copy()
            copy_to(frame[j], frame[chosen])
            copy_to(frame[chosen], first)
            scatters[j], scatters[chosen] = scatters[chosen], scatters[j]
    return level
