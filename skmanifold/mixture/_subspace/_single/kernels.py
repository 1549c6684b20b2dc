"""Markov chain transitions of a single subspace given all rows, in one call.

A state has a frame of m orthonormal directions, of which the first d span the subspace. Given the subspace, the other
directions are uniformly distributed. So the frame is not completed in each pass, and no direction is
proposed: its directions are those of large variance from the beginning, and rotations and flips update all of them.

The directions are rows of a matrix that also contains their products with a factor of the scatter. So a rotation
updates two contiguous rows, and the scatter along a direction, or between two, is an inner product.
"""

from __future__ import annotations

import math

import numpy as np

from ....numerics.reductions import dot
from ....random._keys import Purpose, fold_in, uniform
from ....random._variates import gamma_variate, half_angle_sine
from ....utils._njit import njit
from ..birth_death_kernels import log_gain
from ..frame_kernels import draw_centre, flip_directions

# Numbers of one type, because numba compiles a kernel again for each literal integer.
_CENTRES = np.int64(Purpose.CENTRES)
_NOISE = np.int64(Purpose.NOISE_PRECISION)
_SWEEP = np.int64(Purpose.SWEEP)
_FLIPS = np.int64(Purpose.FLIPS)
_ROTATIONS = np.int64(Purpose.ROTATIONS)


@njit(cache=True, nogil=True)
def _rows_of_frame(factor, frame, gap, n):
    """Directions with their products, (m, r + 1 + m): with each row of the factor, with sqrt(n) gap, and themselves.

    The inner product of the first r + 1 columns of two rows is the scatter about the centre between the directions.
    """
    r, m = factor.shape
    products = np.dot(frame, factor.T)
    rows = np.empty((m, r + 1 + m))
    root = math.sqrt(n)
    for j in range(m):
        for a in range(r):
            rows[j, a] = products[j, a]
        rows[j, r] = root * dot(frame[j], gap)
        for a in range(m):
            rows[j, r + 1 + a] = frame[j, a]
    return rows


@njit(cache=True, nogil=True)
def _rotation(key, k1, k2):
    """Cosine and sine of an angle t of log density k1 cos 2t + k2 sin 2t.

    2t is the sum of atan2(k2, k1) and of a von Mises angle. The cosines and sines of their halves need no
    trigonometric functions.
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
def _rotate_pairs(rows, size, scatters, precisions, key):
    """Rotate every pair of directions of different precision, as `rotate_planes`; `scatters` are those along them."""
    m, width = rows.shape
    for i in range(m):
        first, products = rows[i], rows[i, :size]
        for j in range(i + 1, m):
            gap = precisions[i] - precisions[j]
            if gap == 0.0:
                continue
            second = rows[j]
            between = dot(products, second[:size])
            cosine, sine = _rotation(
                fold_in(key, i * m + j), -0.25 * gap * (scatters[i] - scatters[j]), -0.5 * gap * between
            )
            for a in range(width):
                low, high = first[a], second[a]
                first[a] = cosine * low + sine * high
                second[a] = cosine * high - sine * low
            change = sine * (sine * (scatters[j] - scatters[i]) + 2.0 * cosine * between)
            scatters[i] += change
            scatters[j] -= change
    for j in range(m):  # without the rounding errors of their changes
        scatters[j] = dot(rows[j, :size], rows[j, :size])


@njit(cache=True, nogil=True)
def move_subspace(
    factor,
    mean,
    n,
    frame,
    d,
    ratios,
    noise,
    log_dimension,
    ratio_shape,
    centre_variance,
    noise_shape,
    noise_rate,
    n_sweeps,
    key,
):
    """Update centre, frame, dimension, ratios and noise of a subspace given its n rows.

    Parameters
    ----------
    factor : (r, m)
        Y'Y is the scatter of the rows about their mean.
    mean : (m,)
    n : int
    frame : (m, m)
        Orthonormal rows; the first `d` span the subspace.
    d : int
    ratios : (at least d,)
    noise : float
    log_dimension : (max_dimension + 1,)
    ratio_shape, centre_variance, noise_shape, noise_rate : float
        Priors, where the mean of the centre is 0.
    n_sweeps : int
        Number of scans of rotations and flips.
    key : uint64

    Returns
    -------
    frame : (m, m)
    d : int
    ratios : (m,)
        1 for directions that are not of the subspace.
    centre : (m,)
    noise : float
    """
    r, m = factor.shape
    centre = draw_centre(frame[:d], ratios[:d], noise, n, mean, np.zeros(m), centre_variance, fold_in(key, _CENTRES))
    rows = _rows_of_frame(factor, frame, mean - centre, n)
    size = r + 1
    inside, every = np.zeros(m, np.bool_), np.ones(m)
    scatters, precisions, along = np.empty(m), np.empty(m), np.zeros((m, m))
    for j in range(m):
        scatters[j] = dot(rows[j, :size], rows[j, :size])
        if j < d:
            inside[j] = True
            every[j] = ratios[j]
    for sweep in range(n_sweeps):
        child = fold_in(fold_in(key, _SWEEP), sweep)
        for j in range(m):
            precisions[j] = noise * every[j]
        _rotate_pairs(rows, size, scatters, precisions, fold_in(child, _ROTATIONS))
        for j in range(m):
            along[j, j] = scatters[j]
        flip_directions(along, inside, every, n, noise, log_dimension, ratio_shape, fold_in(child, _FLIPS))
    squares, moved, kept = 0.0, np.empty((m, m)), np.ones(m)
    place = 0
    for wanted in (True, False):
        for j in range(m):
            if inside[j] == wanted:
                squares += every[j] * scatters[j]
                kept[place] = every[j]
                for a in range(m):
                    moved[place, a] = rows[j, size + a]
                place += 1
        if wanted:
            d = place
    drawn = gamma_variate(fold_in(key, _NOISE), noise_shape + 0.5 * n * m) / (noise_rate + 0.5 * squares)
    return moved, d, kept, centre, max(drawn, 1e-300)


@njit(cache=True, nogil=True)
def sum_of_squares(factor, mean, n, basis, ratios, centre):
    """Sum of squares of the rows about the centre, where squares along the basis are multiplied by the ratios."""
    gap = mean - centre
    total = n * dot(gap, gap)
    for i in range(len(factor)):
        total += dot(factor[i], factor[i])
    products = np.dot(basis, factor.T)
    for j in range(len(basis)):
        across = dot(basis[j], gap)
        total -= (1.0 - ratios[j]) * (dot(products[j], products[j]) + n * across * across)
    return total


@njit(cache=True, nogil=True)
def _log_frames(scatters, noise, ratios, d):
    """Log of the share of all bases that are near the principal axes, by Laplace's approximation.

    The log density at angle t between two axes is c (cos 2t - 1), which integrates to about pi / sqrt(1 + 2 pi c). The
    axes may be in any order, with any signs; the volume of all bases is a product of the areas of spheres.
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
def best_dimension(scatters, n, log_dimension, ratio_shape, noise_shape, noise_rate):
    """The most probable dimension, with bases integrated out approximately, and its noise.

    The dimension is at most half of the number of rows, if that is possible: with fewer rows the approximation fails.

    Parameters
    ----------
    scatters : (m,)
        Scatters of the n rows along their principal axes, decreasing.
    n : int
    log_dimension, ratio_shape, noise_shape, noise_rate
        Priors.

    Returns
    -------
    d : int
    noise : float
        The precision at which the density is highest if each ratio has its most likely value.
    """
    m = len(scatters)
    best, d_best, noise_best = -np.inf, np.int64(0), 1.0
    total, ratios = 0.0, np.empty(m)
    for j in range(m):
        total += scatters[j]
    across = total
    for d in range(len(log_dimension)):
        if d > 0:
            across = max(across - scatters[d - 1], 0.0)
        if log_dimension[d] == -np.inf or (2 * d > n and best > -np.inf):
            continue
        noise = (noise_shape + 0.5 * n * (m - d)) / (noise_rate + 0.5 * across)
        level = (noise_shape + 0.5 * n * m) * math.log(noise) - noise * (noise_rate + 0.5 * total) + log_dimension[d]
        for j in range(m):
            ratios[j] = min(1.0, n / (noise * max(scatters[j], 1e-300))) if j < d else 1.0
            level += log_gain(n, scatters[j], noise, ratio_shape) if j < d else 0.0
        level += _log_frames(scatters, noise, ratios, d)
        if level > best:
            best, d_best, noise_best = level, np.int64(d), noise
    return d_best, noise_best
