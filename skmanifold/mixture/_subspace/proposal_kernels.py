"""An independent proposal of one subspace given its rows, and its density relative to the posterior.

The proposal draws the dimension, the precision of the noise unless it is shared, the subspace, directions within it,
and ratios; the centre is integrated out. Rows enter through their mean, and a factor Y of the scatter about it.

The subspace is spanned by the first principal axes, each tilted by t-distributed amounts towards the other axes, and
the directions are tilted principal axes within it. They are proposed in an order, but a subspace is a set of d pairs of
directions and ratios. So the set is extended by an order: each place is given to one of the remaining directions, with
probability proportional to its density under the proposal of this place. The densities of the chosen ones then cancel,
and sums over the remaining ones are left.
"""

import math

import numpy as np

from ...distributions._gamma import draw_ratio
from ...numerics.block_sums import dot
from ...numerics.special import copy_to, log_unit_gamma
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import gamma_variate, normal
from ...utils._njit import njit
from .frame_kernels import dimension_levels, likeliest_noise, sum_of_squares
from .tilt_kernels import (
    MOST_AXES,
    draw_span,
    log_span,
    log_t,
    orthonormalise,
    scatter_along,
    spectrum,
    tilt_precisions,
    tilt_scale,
    with_axes,
)

_ORDER = np.int64(Purpose.ORDER)
_FRAMES = np.int64(Purpose.FRAMES)
_NOISE = np.int64(Purpose.NOISE_PRECISION)
_TILTS = np.int64(Purpose.DIRECTION)
_DIMENSION, _RATIO = np.int64(0), np.int64(1)
_FEW_ROWS = 2.0  # the dimension is proposed from the prior with probability 2 / (2 + n): approximations need rows


@njit(cache=True, nogil=True)
def summarise(rows):
    """Mean of rows; Y with Y'Y their scatter about it, of at most m rows if m is not large; and its `spectrum`."""
    n, m = rows.shape
    mean = np.zeros(m)
    for i in range(n):
        for a in range(m):
            mean[a] += rows[i, a] / n
    Y = rows - mean
    values, axes, rest = spectrum(Y, np.empty((0, m)))
    if n > m and m <= MOST_AXES:
        Y = np.sqrt(values).reshape((len(values), 1)) * axes
    return mean, Y, (values, axes, rest)


# Dimension and noise


@njit(cache=True, nogil=True)
def _dimension_and_noise(scatters, rest, n, m, noise, prior):
    """Log probabilities of the proposed dimensions, and shape and rate of the precision of the noise given each."""
    log_dimension, ratio_shape, _, noise_shape, noise_rate, is_shared = prior
    along, size = np.full(m, rest), len(log_dimension)
    copy_to(along, scatters)
    shapes, rates = likeliest_noise(along, n, size, noise_shape, noise_rate)
    precisions = np.full(size, noise) if is_shared else shapes / rates
    logs = dimension_levels(along, n, precisions, log_dimension, ratio_shape, noise_shape, noise_rate)
    shares, of_prior = np.exp(logs - logs.max()), _FEW_ROWS / (_FEW_ROWS + n)
    shares /= shares.sum()
    return np.log((1.0 - of_prior) * shares + of_prior * np.exp(log_dimension)), shapes, rates


# Directions within the subspace


@njit(cache=True, nogil=True)
def _falling_axes(scatter):
    """Eigenvalues of a scatter matrix, decreasing, and eigenvectors as rows."""
    values, vectors = np.linalg.eigh(scatter)
    return values[::-1].copy(), vectors.T[::-1].copy()


@njit(cache=True, nogil=True)
def _draw_directions(Y, span, n, noise, key):
    """Directions within a subspace, (d, m), each near the principal axis of what the earlier ones leave."""
    d, along = len(span), np.dot(Y, span.T)
    scatter = np.dot(along.T, along)
    frame, left = np.empty((d, d)), np.eye(d)
    for t in range(d):
        child = fold_in(key, t)
        values, axes = _falling_axes(np.dot(np.dot(left, scatter), left.T))
        precisions, dof = tilt_precisions(values[0], values[1:], 1, n, noise, False)
        scale = tilt_scale(dof, child)
        for j in range(1, d - t):
            step = scale * normal(child, j) / math.sqrt(precisions[j - 1])
            for a in range(d - t):
                axes[0, a] += step * axes[j, a]
        orthonormalise(axes, 0)
        left = np.dot(axes, left)
        copy_to(frame[t], left[0])
        left = left[1:].copy()
    return np.dot(frame, span)


@njit(cache=True, nogil=True)
def _log_directions(along, n, noise, has_order, key):
    """Sum over the places of the logs of the summed densities of the directions left for it.

    `along`, (D, d), are products of the directions and Y; their order is drawn unless they were proposed in it.
    """
    d = along.shape[1]
    scatter, terms, level = np.dot(along.T, along), np.empty(d), 0.0
    order = np.arange(d)
    for t in range(d - 1):
        rest = order[t:]
        size = d - t
        left = np.empty((size, size))
        for i in range(size):
            for j in range(size):
                left[i, j] = scatter[rest[i], rest[j]]
        values, axes = _falling_axes(left)
        precisions, dof = tilt_precisions(values[0], values[1:], 1, n, noise, False)
        log_det = np.log(precisions).sum()
        for i in range(size):
            first = axes[0, i] * axes[0, i] + 1e-300
            square = 0.0
            for j in range(1, size):
                square += precisions[j - 1] * axes[j, i] * axes[j, i]
            terms[i] = log_t(square / first, log_det, size - 1, dof) - log_t(1.0 / first - 1.0, 0.0, size - 1, 1.0)
        highest = terms[:size].max()
        total = np.exp(terms[:size] - highest).sum()
        level += highest + math.log(total)
        if not has_order:
            at, chosen = uniform(fold_in(key, _ORDER), t) * total, 0
            while chosen < size - 1 and at >= math.exp(terms[chosen] - highest):
                at -= math.exp(terms[chosen] - highest)
                chosen += 1
            order[t], order[t + chosen] = order[t + chosen], order[t]
    return level


# All of one subspace


@njit(cache=True, nogil=True)
def _gamma_shape(ratio_shape, n):
    """Shape of the proposal of a ratio: half a row is spent on the centre."""
    return ratio_shape + 0.5 * (n - 1.0)


@njit(cache=True, nogil=True)
def propose_subspace(summary, n, noise, prior, key):
    """Draw basis, ratios and precision of the noise given the summary of n rows; a shared `noise` is returned."""
    _, Y, near = summary
    m = Y.shape[1]
    logs, shapes, rates = _dimension_and_noise(near[0], near[2], n, m, noise, prior)
    at, d = uniform(key, _DIMENSION), 0
    while d < len(logs) - 1 and at >= math.exp(logs[d]):
        at -= math.exp(logs[d])
        d += 1
    if not prior[5]:
        noise = gamma_variate(fold_in(key, _NOISE), shapes[d]) / rates[d]
    span = draw_span(*with_axes(*near, np.empty((0, m)), d), d, n, noise, m, fold_in(key, _TILTS))
    basis, ratios = _draw_directions(Y, span, n, noise, fold_in(key, _FRAMES)), np.empty(d)
    for j in range(d):
        rate = 0.5 * noise * scatter_along(Y, basis[j])
        ratios[j] = draw_ratio(fold_in(fold_in(key, _RATIO), j), _gamma_shape(prior[1], n), rate)
    return basis, ratios, noise


@njit(cache=True, nogil=True)
def log_weight(summary, n, basis, ratios, noise, prior, has_order, key):
    """Log of the joint density of a subspace and its n rows, less the log density of the proposal.

    The order of the directions is drawn unless they were proposed in it.
    """
    log_dimension, ratio_shape, variance, noise_shape, noise_rate, is_shared = prior
    mean, Y, near = summary
    d, m = basis.shape
    logs, shapes, rates = _dimension_and_noise(near[0], near[2], n, m, noise, prior)
    level = log_dimension[d] - logs[d] + math.lgamma(d + 1.0) + 0.5 * n * m * math.log(noise / (2.0 * math.pi))
    if not is_shared:
        level += noise_shape * math.log(noise_rate) - math.lgamma(noise_shape) - shapes[d] * math.log(rates[d])
        level += math.lgamma(shapes[d]) + (noise_shape - shapes[d]) * math.log(noise) - (noise_rate - rates[d]) * noise
    # Rows, with the centre integrated out, and ratios
    level -= 0.5 * noise * sum_of_squares(Y, basis, ratios)
    left = dot(mean, mean)
    for j in range(d):
        along, precision = dot(mean, basis[j]), n * noise * ratios[j]
        level += math.log(ratio_shape) + 0.5 * math.log(ratios[j] / (1.0 + precision * variance))
        level -= 0.5 * precision * along * along / (1.0 + precision * variance)
        rate = 0.5 * noise * scatter_along(Y, basis[j])
        level += rate * ratios[j] + log_unit_gamma(_gamma_shape(ratio_shape, n), rate)
        left -= along * along
    level -= 0.5 * (m - d) * math.log1p(n * noise * variance)
    level -= 0.5 * n * noise * max(left, 0.0) / (1.0 + n * noise * variance)
    if d > 0:
        level -= log_span(basis, *with_axes(*near, np.empty((0, m)), d), n, noise, m)
        level -= _log_directions(np.dot(Y, basis.T), n, noise, has_order, key)
    return level
