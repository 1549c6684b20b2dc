"""Markov chain transitions of one subspace given its rows: plane rotations, flips of directions, births and deaths.

The rows of a component enter through a factor Y of their scatter about the centre, Y'Y = S. The number of rows of Y is
as small as possible. The scatter along direction u is R = |Yu|^2.
"""

import math

import numpy as np

from ...distributions._gamma import draw_ratio
from ...numerics.block_sums import dot
from ...numerics.special import copy_to, log_unit_gamma
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import exponential, fill_permutation, half_angle_sine, normal
from ...utils._njit import njit
from .tilt_kernels import (
    complete_frame,
    draw_span,
    log_span,
    orthonormalise,
    resize_rows,
    scatter_along,
    spectrum,
    with_axes,
)

# Numbers of one type, because numba compiles a kernel again for each literal integer.
_COMPLETION = np.int64(Purpose.COMPLETION)
_SWEEP = np.int64(Purpose.SWEEP)
_FLIPS = np.int64(Purpose.FLIPS)
_ROTATIONS = np.int64(Purpose.ROTATIONS)
_BIRTH_DEATH = np.int64(Purpose.BIRTH_DEATH)
_ORDER = np.int64(Purpose.ORDER)
_FLIP, _RATIO = np.int64(0), np.int64(1)
# Counters of the draws of a birth or death under its key, and the child key of the direction
_CHOICE, _ACCEPTANCE, _REMOVED = np.int64(0), np.int64(1), np.int64(2)
_DIRECTION = np.int64(0)
_LEAST_FRAME = 32  # directions of a frame, at least

# Frames


@njit(cache=True, nogil=True)
def log_gain(n, scatter, noise, shape):
    """Log marginal likelihood of a direction within the subspace, less that of the same across it.

    With scatter R along it, noise precision g and prior Beta(a, 1) of the ratio r: a int_0^1 r^(a + n/2 - 1)
    exp(-g r R / 2) dr within the subspace, exp(-g R / 2) across it.
    """
    rate = 0.5 * noise * scatter
    return math.log(shape) + log_unit_gamma(shape + 0.5 * n, rate) + rate


# Plane rotations


@njit(cache=True, nogil=True)
def _rotation(key, k1, k2):
    """Cosine and sine of an angle t of log density k1 cos 2t + k2 sin 2t, without trigonometric functions.

    2t is the sum of atan2(k2, k1) and of a von Mises angle.
    """
    concentration = math.hypot(k1, k2)
    if concentration < 1e-16:  # the density is constant to the last bit
        angle = math.pi * uniform(key, 0)
        return math.cos(angle), math.sin(angle)
    cosine = math.sqrt(0.5 + 0.5 * (abs(k1) / concentration))
    sine = 0.5 * (abs(k2) / concentration) / cosine
    if k1 < 0.0:
        cosine, sine = sine, cosine
    if k2 < 0.0:
        sine = -sine
    drawn_sine = half_angle_sine(key, concentration)
    drawn_cosine = math.sqrt(1.0 - drawn_sine * drawn_sine)
    return cosine * drawn_cosine - sine * drawn_sine, sine * drawn_cosine + cosine * drawn_sine


@njit(cache=True, nogil=True)
def rotate_planes(rows, size, scatters, precisions, key):
    """Rotate every pair of directions of different precision by an angle t of log density k1 cos 2t + k2 sin 2t.

    The first `size` columns of `rows`, (D, width), are products of directions and rows of Y, so that scatters are inner
    products; the others are coordinates, which rotate too. `scatters`, (D,), are those along the directions.
    """
    D, width = rows.shape
    for i in range(D):
        first = rows[i]
        for j in range(i + 1, D):
            gap = precisions[i] - precisions[j]
            if gap == 0.0:
                continue
            second = rows[j]
            between = dot(first[:size], second[:size])
            cosine, sine = _rotation(
                fold_in(key, i * D + j), -0.25 * gap * (scatters[i] - scatters[j]), -0.5 * gap * between
            )
            for a in range(width):
                low, high = first[a], second[a]
                first[a] = cosine * low + sine * high
                second[a] = cosine * high - sine * low
            change = sine * (sine * (scatters[j] - scatters[i]) + 2.0 * cosine * between)
            scatters[i] += change
            scatters[j] -= change
    for j in range(D):  # without the rounding errors of their changes
        scatters[j] = dot(rows[j, :size], rows[j, :size])


# Flips


@njit(cache=True, nogil=True)
def flip_directions(scatters, inside, ratios, n, noise, log_dimension, shape, key):
    """Decide, with ratios integrated out, which directions are in the subspace, and draw the ratios of those.

    Given their number, all subsets of the D directions are equally likely: the odds contain the factor (d + 1) / (D -
    d).
    """
    D = len(scatters)
    d = 0
    for j in range(D):
        d += inside[j]
    for j in range(D):
        child = fold_in(key, j)
        others = d - inside[j]
        if others + 1 >= len(log_dimension) or log_dimension[others + 1] == -np.inf:
            enters = False
        elif log_dimension[others] == -np.inf:
            enters = True
        else:
            odds = log_gain(n, scatters[j], noise, shape) + log_dimension[others + 1] - log_dimension[others]
            odds += math.log((others + 1.0) / (D - others))
            enters = uniform(child, _FLIP) * (1.0 + math.exp(-odds)) < 1.0 if odds > -700.0 else False
        inside[j] = enters
        d = others + (1 if enters else 0)
        ratios[j] = draw_ratio(fold_in(child, _RATIO), shape + 0.5 * n, 0.5 * noise * scatters[j]) if enters else 1.0


# Births and deaths: a new direction is proposed near the axis along which the rows vary most


@njit(cache=True, nogil=True)
def _birth_probability(d, log_dimension):
    """Probability that the move at dimension d is a birth, and not a death."""
    can_grow = d + 1 < len(log_dimension) and log_dimension[d + 1] > -np.inf
    can_shrink = d > 0 and log_dimension[d - 1] > -np.inf
    if can_grow and can_shrink:
        return 0.5
    return 1.0 if can_grow else 0.0


@njit(cache=True, nogil=True)
def birth_death_step(Y, basis, ratios, n, noise, log_dimension, shape, key):
    """Propose to add a direction along which the rows vary, or to remove one; returns the new basis and ratios.

    Metropolis-Hastings, with the ratio of the direction integrated out. A new direction is placed last, and any may be
    removed; the factors 1 / (d + 1) of the order and of the choice cancel.
    """
    d, m = basis.shape
    p_birth = _birth_probability(d, log_dimension)
    unchanged = basis, ratios
    # Birth: the direction is proposed near the axes of largest scatter, and its ratio drawn if it is accepted.
    if uniform(key, _CHOICE) < p_birth:
        near = with_axes(*spectrum(Y, basis), basis, 1)
        frame = resize_rows(basis, d + 1)
        copy_to(frame[d], draw_span(*near, 1, n, noise, m - d, fold_in(key, _DIRECTION))[0])
        orthonormalise(frame, d)
        scatter = scatter_along(Y, frame[d])
        log_accept = log_gain(n, scatter, noise, shape) + log_dimension[d + 1] - log_dimension[d]
        log_accept -= log_span(frame[d:], *near, n, noise, m - d)
        log_accept += math.log((1.0 - _birth_probability(d + 1, log_dimension)) / p_birth)
        if -exponential(key, _ACCEPTANCE) >= log_accept:
            return unchanged
        longer = np.empty(d + 1)
        copy_to(longer, ratios)
        longer[d] = draw_ratio(fold_in(key, _RATIO), shape + 0.5 * n, 0.5 * noise * scatter)
        return frame, longer
    if d == 0 or p_birth == 1.0 or log_dimension[d - 1] == -np.inf:
        return unchanged
    # Death: the same ratio inverted, with the proposal that would have led back to the removed direction.
    removed = np.int64(uniform(key, _REMOVED) * d)
    smaller, kept = basis[:-1].copy(), ratios[:-1].copy()
    copy_to(smaller[removed:], basis[removed + 1 :])
    copy_to(kept[removed:], ratios[removed + 1 :])
    near = with_axes(*spectrum(Y, smaller), smaller, 1)
    scatter = scatter_along(Y, basis[removed])
    log_accept = log_dimension[d - 1] - log_dimension[d] - log_gain(n, scatter, noise, shape)
    log_accept += log_span(basis[removed : removed + 1], *near, n, noise, m - d + 1)
    log_accept += math.log(_birth_probability(d - 1, log_dimension) / (1.0 - p_birth))
    if -exponential(key, _ACCEPTANCE) >= log_accept:
        return unchanged
    return smaller, kept


# All of one subspace


@njit(cache=True, nogil=True)
def frame_size(d, m):
    """Number of directions in the frame of a d-dimensional subspace, and the range of d that has the same number.

    If m is large, the frame contains the directions of the subspace and random others, at least twice as many as d.
    """
    least, size = 0, _LEAST_FRAME
    while size < m:
        if d <= size // 2:
            return size, least, size // 2
        least, size = size // 2 + 1, 2 * size
    return m, least, m


@njit(cache=True, nogil=True)
def move_directions(Y, frame, d, ratios, n, noise, log_dimension, shape, n_sweeps, key):
    """Rotate and flip the directions of a frame, (D, m), the first `d` of which span the subspace.

    Returns frame, d and ratios, (D,), 1 for other directions. Scans are in random order: with the directions of the
    subspace first, the order would depend on the state, and the dimension would be biased.
    """
    D, size = len(frame), len(Y)
    order = np.empty(D, np.int64)
    fill_permutation(fold_in(key, _ORDER), order)
    along = np.dot(frame, Y.T)
    rows, scatters = np.zeros((D, size + D)), np.empty(D)
    inside, every = np.empty(D, np.bool_), np.empty(D)
    for j in range(D):
        inside[j] = order[j] < d
        every[j] = ratios[order[j]] if inside[j] else 1.0
        copy_to(rows[j], along[order[j]])
        rows[j, size + order[j]] = 1.0
        scatters[j] = dot(rows[j, :size], rows[j, :size])
    for sweep in range(n_sweeps):
        child = fold_in(fold_in(key, _SWEEP), sweep)
        rotate_planes(rows, size, scatters, noise * every, fold_in(child, _ROTATIONS))
        flip_directions(scatters, inside, every, n, noise, log_dimension, shape, fold_in(child, _FLIPS))
    coordinates, kept = np.empty((D, D)), np.ones(D)
    d, last = 0, D - 1
    for j in range(D):
        place = d if inside[j] else last
        kept[place] = every[j]
        copy_to(coordinates[place], rows[j, size:])
        if inside[j]:
            d += 1
        else:
            last -= 1
    return np.dot(coordinates, frame), d, kept


@njit(cache=True, nogil=True)
def move_frame(Y, basis, ratios, n, noise, log_dimension, shape, n_sweeps, key):
    """Update a subspace given n rows with scatter Y'Y; returns the new basis, its ratios, and the `sum_of_squares`.

    Flips keep the dimension in the range with the same `frame_size`; only births and deaths leave it.
    """
    d, m = basis.shape
    D, least, largest = frame_size(d, m)
    within = log_dimension.copy()
    within[:least], within[largest + 1 :] = -np.inf, -np.inf
    frame = complete_frame(basis, D, fold_in(key, _COMPLETION))
    frame, d, kept = move_directions(Y, frame, d, ratios, n, noise, within, shape, n_sweeps, key)
    moved = frame[:d].copy()
    orthonormalise(moved, np.int64(0))  # against the drift of rounding
    at = moved, kept[:d].copy()
    basis, ratios = birth_death_step(Y, *at, n, noise, log_dimension, shape, fold_in(key, _BIRTH_DEATH))
    return basis, ratios, sum_of_squares(Y, basis, ratios)


@njit(cache=True, nogil=True)
def sum_of_squares(Y, basis, ratios):
    """Sum of squares of rows with scatter Y'Y, where squares along the basis are multiplied by the ratios.

    The difference of two sums of squares would be inaccurate for rows near the subspace.
    """
    along = np.dot(Y, basis.T)
    left = Y - np.dot(along, basis)
    total = 0.0
    for i in range(len(Y)):
        total += dot(left[i], left[i])
        for j in range(len(ratios)):
            total += ratios[j] * along[i, j] * along[i, j]
    return total


# Centres


@njit(cache=True, nogil=True)
def draw_centre(basis, ratios, noise, n, mean, variance, key):
    """Draw a centre from its normal full conditional, given n rows with this mean; that of the prior is zero."""
    m = len(mean)
    across = n * noise * variance
    shrink = across / (1.0 + across)
    spread = math.sqrt(variance / (1.0 + across))
    z, out = np.empty(m), np.empty(m)
    for a in range(m):
        z[a] = normal(key, a)
        out[a] = shrink * mean[a] + spread * z[a]
    for j in range(len(basis)):
        along = n * noise * ratios[j] * variance
        shift = (along / (1.0 + along) - shrink) * dot(basis[j], mean)
        shift += (math.sqrt(variance / (1.0 + along)) - spread) * dot(basis[j], z)
        for a in range(m):
            out[a] += shift * basis[j, a]
    return out


# Initial dimensions


@njit(cache=True, nogil=True)
def _log_frames(scatters, noise, ratios, d):
    """Log of the share of all bases near the principal axes, in any order and signs, by Laplace's approximation.

    The log density at angle t between two axes is c (cos 2t - 1), which integrates to about pi / sqrt(1 + 2 pi c).
    """
    m, total, product = len(scatters), 0.0, 1.0
    for i in range(d):
        for j in range(i + 1, m):
            gap = (ratios[j] - ratios[i]) * (scatters[i] - scatters[j])
            product *= 1.0 + 0.5 * math.pi * noise * gap
            if product > 1e100:
                total -= 0.5 * math.log(product)
                product = 1.0
        half = 0.5 * (m - i)
        total += (m - 1 - i) * math.log(math.pi) + math.log(i + 1.0) - half * math.log(math.pi) + math.lgamma(half)
    return total - 0.5 * math.log(product)


@njit(cache=True, nogil=True)
def likeliest_noise(scatters, n, size, noise_shape, noise_rate):
    """Shapes and rates of the precision of the noise, given the dimensions 0 to size - 1 along the principal axes."""
    m, across = len(scatters), 0.0
    shapes, rates = np.empty(size), np.empty(size)
    for j in range(m):
        across += scatters[j]
    for d in range(size):
        if d > 0:
            across = max(across - scatters[d - 1], 0.0)
        shapes[d], rates[d] = noise_shape + 0.5 * n * (m - d), noise_rate + 0.5 * across
    return shapes, rates


@njit(cache=True, nogil=True)
def dimension_levels(scatters, n, precisions, log_dimension, ratio_shape, noise_shape, noise_rate):
    """Log probability of each dimension and its precision of the noise, with bases integrated out approximately.

    `scatters`, (m,), are those of n rows along their principal axes, decreasing. The dimension is at most n / 2 if
    possible: with fewer rows per direction the approximation fails.
    """
    m, is_first = len(scatters), True
    levels, total, ratios = np.full(len(log_dimension), -np.inf), 0.0, np.empty(m)
    for j in range(m):
        total += scatters[j]
    for d in range(len(log_dimension)):
        if log_dimension[d] == -np.inf or (2 * d > n and not is_first):
            continue
        noise, is_first = precisions[d], False
        level = (noise_shape + 0.5 * n * m) * math.log(noise) - noise * (noise_rate + 0.5 * total) + log_dimension[d]
        for j in range(m):
            ratios[j] = min(1.0, n / (noise * max(scatters[j], 1e-300))) if j < d else 1.0
            level += log_gain(n, scatters[j], noise, ratio_shape) if j < d else 0.0
        levels[d] = level + _log_frames(scatters, noise, ratios, d)
    return levels


@njit(cache=True, nogil=True)
def best_dimension(scatters, n, log_dimension, ratio_shape, noise_shape, noise_rate):
    """The most probable dimension, as in `dimension_levels`, and the likeliest precision of its noise."""
    shapes, rates = likeliest_noise(scatters, n, len(log_dimension), noise_shape, noise_rate)
    precisions = shapes / rates
    d = dimension_levels(scatters, n, precisions, log_dimension, ratio_shape, noise_shape, noise_rate).argmax()
    return d, precisions[d]
