"""Births and deaths of a subspace's directions, a new one proposed where rows spread across the subspace."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..distributions._truncated_gamma import draw_ratio
from ..utils._dot import dot
from ..utils._random import fold_in, uniform
from ..utils._variates import exponential, normal
from ._subspace_variates import log_gain


@njit(cache=True, nogil=True)
def orthonormalise(frame, first):
    """Make rows of `frame` from `first` on orthonormal to each other and to those before; twice, against rounding."""
    for j in range(first, len(frame)):
        for _ in range(2):
            for i in range(j):
                inner = dot(frame[i], frame[j])
                for a in range(frame.shape[1]):
                    frame[j, a] -= inner * frame[i, a]
        length = math.sqrt(dot(frame[j], frame[j]))
        for a in range(frame.shape[1]):
            frame[j, a] /= length


@njit(cache=True, nogil=True)
def _spectrum(Y, basis):
    """Of Y with the basis projected off: eigenvalues of its scatter that are positive, and their directions as rows."""
    left = Y - np.dot(np.dot(Y, basis.T), basis) if len(basis) else Y.copy()
    if len(left) <= left.shape[1]:
        values, vectors = np.linalg.eigh(np.dot(left, left.T))
        values, least = values[::-1], 1e-12 * max(values[-1], 0.0)
        n = 0
        while n < len(values) and values[n] > least:
            n += 1
        # rows of unit length: eigenvectors of the small matrix, carried over
        axes = np.dot(np.ascontiguousarray(vectors[:, ::-1][:, :n].T), left)
        for i in range(n):
            axes[i] /= math.sqrt(values[i])
        return values[:n].copy(), axes
    values, vectors = np.linalg.eigh(np.dot(left.T, left))
    n, least = 0, 1e-12 * max(values[-1], 0.0)
    while n < len(values) and values[len(values) - 1 - n] > least:
        n += 1
    return values[::-1][:n].copy(), np.ascontiguousarray(vectors[:, ::-1][:, :n].T)


@njit(cache=True, nogil=True)
def _bound(pulls, n_zero, top):
    """The b with sum 1 / (b + 2 a_l) = 1, over 2 a_l = top - pulls_l, and `n_zero` times top; at least 1."""
    low, high = 1.0, float(len(pulls) + n_zero)
    for _ in range(60):
        b = 0.5 * (low + high)
        total = n_zero / (b + top)
        for pull in pulls:
            total += 1.0 / (b + (top - pull))
        if total > 1.0:
            low = b
        else:
            high = b
    return high


@njit(cache=True, nogil=True)
def _birth_law(Y, basis, n, noise):
    """The angular central Gaussian law from which a new direction is proposed.

    Given its likeliest ratio, a direction across `basis` has a Bingham law; this is the law of least bound on it (Kent,
    Ganeiber and Mardia, 2018), of inverse covariance I + (top I - pull) / b. Returns the positive pulls, their axes,
    top, b, what scatters are multiplied with to give pulls, and the number of dimensions.
    """
    values, axes = _spectrum(Y, basis)
    q = Y.shape[1] - len(basis)
    n_axes = min(len(values), q)
    values, axes = values[:n_axes], axes[:n_axes]
    largest = values[0] if n_axes > 0 else 0.0
    strength = noise - n / largest if noise * largest > n else 0.0
    pulls, top = strength * values, strength * largest
    return pulls, axes, top, _bound(pulls, q - n_axes, top), strength, q


@njit(cache=True, nogil=True)
def _log_birth(scatter, pulls, top, b, strength, q):
    """Log density of a proposed direction with this scatter along it, relative to the uniform law."""
    log_det = (q - len(pulls)) * math.log1p(top / b)
    for pull in pulls:
        log_det += math.log1p((top - pull) / b)
    return 0.5 * (log_det - q * math.log1p(max(top - strength * scatter, 0.0) / b))


@njit(cache=True, nogil=True)
def _propose_direction(basis, pulls, axes, top, b, key):
    """A unit vector across `basis` from the law of births."""
    m = axes.shape[1]
    z = np.empty(m)
    for a in range(m):
        z[a] = normal(key, a)
    rest = 1.0 / math.sqrt(1.0 + top / b)
    out = rest * z
    for i in range(len(pulls)):
        inner = dot(axes[i], z)
        scale = 1.0 / math.sqrt(1.0 + (top - pulls[i]) / b) - rest
        for a in range(m):
            out[a] += scale * inner * axes[i, a]
    frame = np.empty((len(basis) + 1, m))
    frame[: len(basis)] = basis
    frame[len(basis)] = out
    orthonormalise(frame, len(basis))
    return frame


@njit(cache=True, nogil=True)
def scatter_along(Y, direction):
    along = np.dot(Y, direction)
    return np.dot(along, along)


@njit(cache=True, nogil=True)
def _births_of(d, log_dimension):
    """Probability that a birth is tried, and not a death, at dimension d."""
    can_grow = d + 1 < len(log_dimension) and log_dimension[d + 1] > -np.inf
    can_shrink = d > 0 and log_dimension[d - 1] > -np.inf
    if can_grow and can_shrink:
        return 0.5
    return 1.0 if can_grow else 0.0


@njit(cache=True, nogil=True)
def give_birth_or_take(Y, basis, ratios, n, noise, log_dimension, shape, key):
    """Propose one direction more, along which rows spread, or one less; returns the basis and ratios after it.

    A Metropolis-Hastings step with the ratio integrated out. Bases are ordered: a new direction comes last, and any
    may leave; 1 / (d + 1) of either cancels.
    """
    d = len(basis)
    grows = _births_of(d, log_dimension)
    unchanged = basis, ratios
    if uniform(key, 0) < grows:
        pulls, axes, top, b, strength, q = _birth_law(Y, basis, n, noise)
        frame = _propose_direction(basis, pulls, axes, top, b, fold_in(key, 0))
        scatter = scatter_along(Y, frame[d])
        log_accept = log_gain(n, scatter, noise, shape) + log_dimension[d + 1] - log_dimension[d]
        log_accept -= _log_birth(scatter, pulls, top, b, strength, q)
        log_accept += math.log((1.0 - _births_of(d + 1, log_dimension)) / grows)
        if -exponential(key, 1) >= log_accept:
            return unchanged
        larger = np.empty(d + 1)
        larger[:d] = ratios
        larger[d] = draw_ratio(fold_in(key, 1), shape + 0.5 * n, 0.5 * noise * scatter)
        return frame, larger
    if d == 0 or grows == 1.0 or log_dimension[d - 1] == -np.inf:
        return unchanged
    leaving = np.int64(uniform(key, 2) * d)
    smaller = np.empty((d - 1, basis.shape[1]))
    kept = np.empty(d - 1)
    for j in range(d - 1):
        smaller[j] = basis[j + (j >= leaving)]
        kept[j] = ratios[j + (j >= leaving)]
    pulls, axes, top, b, strength, q = _birth_law(Y, smaller, n, noise)
    scatter = scatter_along(Y, basis[leaving])
    log_accept = log_dimension[d - 1] - log_dimension[d] - log_gain(n, scatter, noise, shape)
    log_accept += _log_birth(scatter, pulls, top, b, strength, q)
    log_accept += math.log(_births_of(d - 1, log_dimension) / (1.0 - grows))
    if -exponential(key, 1) >= log_accept:
        return unchanged
    return smaller, kept
