"""Births and deaths of a subspace's directions, a new one proposed where rows spread across the subspace."""

from __future__ import annotations

import math

import numpy as np

from ...distributions._truncated_gamma import draw_ratio
from ...numerics.reductions import dot
from ...numerics.special import log_unit_gamma
from ...random._keys import fold_in, uniform
from ...random._variates import exponential, normal
from ...utils._njit import njit

# Counters of a birth's or death's draws, and keys of its variates
_CHOICE, _ACCEPTANCE, _LEAVING = np.int64(0), np.int64(1), np.int64(2)
_DIRECTION, _RATIO = np.int64(0), np.int64(1)


@njit(cache=True, nogil=True)
def log_gain(n, scatter, noise, shape):
    """Log marginal likelihood of a direction within the subspace, less that of the same across it.

    R is the rows' scatter along the direction, g the precision of the noise, and r, of prior Beta(a, 1), the ratio of
    the direction's precision to it. The marginal likelihood is a int_0^1 r^(a + n/2 - 1) exp(-g r R / 2) dr within the
    subspace, and exp(-g R / 2) across it.
    """
    rate = 0.5 * noise * scatter
    return math.log(shape) + log_unit_gamma(shape + 0.5 * n, rate) + rate


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
def with_room(rows, n):
    """The rows and room for others, (n, m)."""
    out = np.empty((n, rows.shape[1]))
    for j in range(len(rows)):
        for a in range(rows.shape[1]):
            out[j, a] = rows[j, a]
    return out


@njit(cache=True, nogil=True)
def _spectrum(Y, basis):
    """Of Y with the basis projected off: eigenvalues of its scatter that are positive, and their directions as rows."""
    left = Y.copy()
    if len(basis) > 0:
        within = np.dot(np.dot(Y, basis.T), basis)
        for i in range(len(left)):
            for a in range(left.shape[1]):
                left[i, a] -= within[i, a]
    few = len(left) <= left.shape[1]
    rising, vectors = np.linalg.eigh(np.dot(left, left.T) if few else np.dot(left.T, left))
    size, n = len(rising), 0
    least = 1e-12 * max(rising[size - 1], 0.0)
    while n < size and rising[size - 1 - n] > least:
        n += 1
    values, axes = np.empty(n), np.empty((n, size))
    for i in range(n):
        values[i] = rising[size - 1 - i]
        for a in range(size):
            axes[i, a] = vectors[a, size - 1 - i]
    if few:  # rows of unit length: eigenvectors of the small matrix, carried over
        axes = np.dot(axes, left)
        for i in range(n):
            for a in range(axes.shape[1]):
                axes[i, a] /= math.sqrt(values[i])
    return values, axes


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
    largest = values[0] if n_axes > 0 else 0.0
    strength = noise - n / largest if noise * largest > n else 0.0
    pulls, top = np.empty(n_axes), strength * largest
    for i in range(n_axes):
        pulls[i] = strength * values[i]
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
    d, m = basis.shape
    frame, z = with_room(basis, d + 1), np.empty(m)
    rest = 1.0 / math.sqrt(1.0 + top / b)
    for a in range(m):
        z[a] = normal(key, a)
        frame[d, a] = rest * z[a]
    for i in range(len(pulls)):
        inner = dot(axes[i], z)
        scale = 1.0 / math.sqrt(1.0 + (top - pulls[i]) / b) - rest
        for a in range(m):
            frame[d, a] += scale * inner * axes[i, a]
    orthonormalise(frame, d)
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
    if uniform(key, _CHOICE) < grows:
        pulls, axes, top, b, strength, q = _birth_law(Y, basis, n, noise)
        frame = _propose_direction(basis, pulls, axes, top, b, fold_in(key, _DIRECTION))
        scatter = scatter_along(Y, frame[d])
        log_accept = log_gain(n, scatter, noise, shape) + log_dimension[d + 1] - log_dimension[d]
        log_accept -= _log_birth(scatter, pulls, top, b, strength, q)
        log_accept += math.log((1.0 - _births_of(d + 1, log_dimension)) / grows)
        if -exponential(key, _ACCEPTANCE) >= log_accept:
            return unchanged
        larger = np.empty(d + 1)
        for j in range(d):
            larger[j] = ratios[j]
        larger[d] = draw_ratio(fold_in(key, _RATIO), shape + 0.5 * n, 0.5 * noise * scatter)
        return frame, larger
    if d == 0 or grows == 1.0 or log_dimension[d - 1] == -np.inf:
        return unchanged
    leaving = np.int64(uniform(key, _LEAVING) * d)
    smaller, kept = with_room(basis[: d - 1], d - 1), ratios[: d - 1].copy()
    for j in range(leaving, d - 1):
        kept[j] = ratios[j + 1]
        for a in range(basis.shape[1]):
            smaller[j, a] = basis[j + 1, a]
    pulls, axes, top, b, strength, q = _birth_law(Y, smaller, n, noise)
    scatter = scatter_along(Y, basis[leaving])
    log_accept = log_dimension[d - 1] - log_dimension[d] - log_gain(n, scatter, noise, shape)
    log_accept += _log_birth(scatter, pulls, top, b, strength, q)
    log_accept += math.log(_births_of(d - 1, log_dimension) / (1.0 - grows))
    if -exponential(key, _ACCEPTANCE) >= log_accept:
        return unchanged
    return smaller, kept
