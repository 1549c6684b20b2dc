"""Markov chain transitions of one subspace given its rows: plane rotations, flips of directions, births and deaths.

The rows of a component enter through a factor Y of their scatter about the centre, Y'Y = S. The number of rows of Y is
as small as possible. The scatter along direction u is R = |Yu|^2.
"""

from __future__ import annotations

import math

import numpy as np

from ...distributions._truncated_gamma import draw_ratio
from ...numerics.reductions import dot
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import normal, von_mises
from ...utils._njit import njit
from .birth_death_kernels import birth_death_step, log_gain, orthonormalise, resize_rows, scatter_along

# Numbers of one type, because numba compiles a kernel again for each literal integer.
_COMPLETION = np.int64(Purpose.COMPLETION)
_SWEEP = np.int64(Purpose.SWEEP)
_FLIPS = np.int64(Purpose.FLIPS)
_ROTATIONS = np.int64(Purpose.ROTATIONS)
_BIRTH_DEATH = np.int64(Purpose.BIRTH_DEATH)
_ORDER = np.int64(Purpose.ORDER)
_FLIP, _RATIO = np.int64(0), np.int64(1)
_LEAST_FRAME = 32  # directions of a frame, at least

# Frames


@njit(cache=True, nogil=True)
def complete_frame(basis, size, key):
    """Complete `basis` to (size, m) orthonormal rows by directions uniform in its orthogonal complement."""
    d, m = basis.shape
    frame = resize_rows(basis, size)
    for j in range(d, size):
        child = fold_in(key, j)
        for a in range(m):
            frame[j, a] = normal(child, a)
    orthonormalise(frame, d)
    return frame


# Plane rotations


@njit(cache=True, nogil=True)
def _rotate(i, j, cosine, sine, R, Q):
    """Rotate directions i and j: rows of Q, and rows and columns of R."""
    for a in range(len(R)):
        low, high = R[i, a], R[j, a]
        R[i, a] = cosine * low + sine * high
        R[j, a] = cosine * high - sine * low
    for a in range(len(R)):
        low, high = R[a, i], R[a, j]
        R[a, i] = cosine * low + sine * high
        R[a, j] = cosine * high - sine * low
        low, high = Q[i, a], Q[j, a]
        Q[i, a] = cosine * low + sine * high
        Q[j, a] = cosine * high - sine * low


@njit(cache=True, nogil=True)
def rotate_planes(R, Q, precisions, key):
    """Rotate every pair of directions of different precision in its plane, by an angle from its full conditional.

    The log density of the angle t is k1 cos 2t + k2 sin 2t, so that 2t has a von Mises distribution.
    """
    D = len(R)
    for i in range(D):
        for j in range(i + 1, D):
            gap = precisions[i] - precisions[j]
            if gap == 0.0:
                continue
            k1 = -0.25 * gap * (R[i, i] - R[j, j])
            k2 = -0.5 * gap * R[i, j]
            angle = 0.5 * (math.atan2(k2, k1) + von_mises(fold_in(key, i * D + j), math.hypot(k1, k2)))
            _rotate(i, j, math.cos(angle), math.sin(angle), R, Q)


# Flips


@njit(cache=True, nogil=True)
def flip_directions(R, inside, ratios, n, noise, log_dimension, shape, key):
    """Decide for each direction of the frame whether it belongs to the subspace, and draw its ratio if it does.

    The ratio is integrated out of the decision. Given their number, all subsets of the D directions are equally likely,
    so that the odds contain the factor (d + 1) / (D - d).
    """
    D = len(R)
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
            odds = log_gain(n, R[j, j], noise, shape) + log_dimension[others + 1] - log_dimension[others]
            odds += math.log((others + 1.0) / (D - others))
            enters = uniform(child, _FLIP) * (1.0 + math.exp(-odds)) < 1.0 if odds > -700.0 else False
        inside[j] = enters
        d = others + (1 if enters else 0)
        ratios[j] = draw_ratio(fold_in(child, _RATIO), shape + 0.5 * n, 0.5 * noise * R[j, j]) if enters else 1.0


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
def _random_permutation(n, key):
    """A uniformly distributed permutation."""
    order = np.empty(n, np.int64)
    for place in range(n):
        order[place] = place
    for last in range(n - 1, 0, -1):
        i = np.int64(uniform(key, last) * (last + 1))
        order[last], order[i] = order[i], order[last]
    return order


@njit(cache=True, nogil=True)
def move_frame(Y, basis, ratios, n, noise, log_dimension, shape, n_sweeps, key):
    """Update a subspace given n rows with scatter Y'Y; returns the new basis, its ratios, and the scatters along it.

    Flips are restricted to dimensions with the same frame size (see `frame_size`); only births and deaths leave this
    range. The directions are in random order: if those of the subspace came first, the scan would be biased.
    """
    d, m = basis.shape
    D, least, largest = frame_size(d, m)
    within = log_dimension.copy()
    for e in range(len(within)):
        if e < least or e > largest:
            within[e] = -np.inf
    order = _random_permutation(D, fold_in(key, _ORDER))
    whole, frame = complete_frame(basis, D, fold_in(key, _COMPLETION)), np.empty((D, m))
    inside, every, precisions = np.empty(D, np.bool_), np.empty(D), np.empty(D)
    Q = np.zeros((D, D))
    for j in range(D):
        inside[j] = order[j] < d
        every[j] = ratios[order[j]] if inside[j] else 1.0
        Q[j, j] = 1.0
        for a in range(m):
            frame[j, a] = whole[order[j], a]
    along = np.dot(Y, frame.T)
    R = np.dot(along.T, along)
    for sweep in range(n_sweeps):
        child = fold_in(fold_in(key, _SWEEP), sweep)
        for j in range(D):
            precisions[j] = noise * every[j]
        rotate_planes(R, Q, precisions, fold_in(child, _ROTATIONS))
        flip_directions(R, inside, every, n, noise, within, shape, fold_in(child, _FLIPS))
    d = 0
    for j in range(D):  # move the directions inside the subspace to the front
        if inside[j]:
            every[d] = every[j]
            for i in range(D):
                Q[d, i] = Q[j, i]
            d += 1
    moved = np.dot(Q[:d], frame)
    orthonormalise(moved, np.int64(0))  # against the drift of rounding
    moved, kept = birth_death_step(
        Y, moved, every[:d].copy(), n, noise, log_dimension, shape, fold_in(key, _BIRTH_DEATH)
    )
    scatters = np.empty(len(moved))
    for j in range(len(moved)):
        scatters[j] = scatter_along(Y, moved[j])
    return moved, kept, scatters


# Centres


@njit(cache=True, nogil=True)
def draw_centre(basis, ratios, noise, n, mean, location, variance, key):
    """Draw a centre from its normal full conditional, given n rows with this mean; `location` is the prior mean."""
    m = len(mean)
    across = n * noise * variance
    shrink = across / (1.0 + across)
    spread = math.sqrt(variance / (1.0 + across))
    z, gap, out = np.empty(m), np.empty(m), np.empty(m)
    for a in range(m):
        z[a] = normal(key, a)
        gap[a] = mean[a] - location[a]
        out[a] = location[a] + shrink * gap[a] + spread * z[a]
    for j in range(len(basis)):
        along = n * noise * ratios[j] * variance
        shift = (along / (1.0 + along) - shrink) * dot(basis[j], gap)
        shift += (math.sqrt(variance / (1.0 + along)) - spread) * dot(basis[j], z)
        for a in range(m):
            out[a] += shift * basis[j, a]
    return out
