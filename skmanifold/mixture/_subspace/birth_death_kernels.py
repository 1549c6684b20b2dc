"""Birth and death moves for the directions of a subspace; a new direction is proposed where the rows vary most."""

from __future__ import annotations

import math

import numpy as np

from ...distributions._truncated_gamma import draw_ratio
from ...numerics.reductions import dot
from ...numerics.special import log_unit_gamma
from ...random._keys import fold_in, uniform
from ...random._variates import exponential, normal
from ...utils._njit import njit

# Counters of the draws of a move under its key, and child keys of its variates
_CHOICE, _ACCEPTANCE, _REMOVED = np.int64(0), np.int64(1), np.int64(2)
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
    """Orthonormalise the rows of `frame` from `first` on (Gram-Schmidt, each projection twice against rounding)."""
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
def resize_rows(rows, n):
    """Copy the rows to a new array of shape (n, m); additional rows are not initialised."""
    out = np.empty((n, rows.shape[1]))
    out[: len(rows)] = rows
    return out


@njit(cache=True, nogil=True)
def _spectrum(Y, basis):
    """Positive eigenvalues, decreasing, and eigenvectors (as rows) of the scatter of Y orthogonal to the basis."""
    left = Y - np.dot(np.dot(Y, basis.T), basis)
    few = len(left) <= left.shape[1]
    ascending, vectors = np.linalg.eigh(np.dot(left, left.T) if few else np.dot(left.T, left))
    size, n = len(ascending), 0
    least = 1e-12 * max(ascending[size - 1], 0.0)
    while n < size and ascending[size - 1 - n] > least:
        n += 1
    values, axes = ascending[::-1][:n].copy(), vectors.T[::-1][:n].copy()
    if few:  # unit eigenvectors of the large matrix from those of the small one
        axes = np.dot(axes, left) / np.sqrt(values).reshape((n, 1))
    return values, axes


@njit(cache=True, nogil=True)
def _bound(eigenvalues, n_zero, top_eigenvalue):
    """Solve sum_l 1 / (b + top_eigenvalue - eigenvalue_l) = 1 for b >= 1; `n_zero` more eigenvalues are zero."""
    low, high = 1.0, float(len(eigenvalues) + n_zero)
    for _ in range(60):
        b = 0.5 * (low + high)
        total = n_zero / (b + top_eigenvalue)
        for eigenvalue in eigenvalues:
            total += 1.0 / (b + (top_eigenvalue - eigenvalue))
        if total > 1.0:
            low = b
        else:
            high = b
    return high


@njit(cache=True, nogil=True)
def _fit_proposal(Y, basis, n, noise):
    """Fit the angular central Gaussian distribution from which a new direction is proposed.

    Given its most likely ratio, a direction orthogonal to `basis` has a Bingham distribution. The proposal is the
    angular central Gaussian distribution with the smallest bound on it (Kent, Ganeiber and Mardia, 2018). Its inverse
    covariance is I + (top_eigenvalue I - A) / b, where A is the matrix of the Bingham distribution. Returns the
    positive eigenvalues of A, their eigenvectors, the largest eigenvalue, b, the factor from scatters to eigenvalues,
    and the dimension of the space.
    """
    values, axes = _spectrum(Y, basis)
    q = Y.shape[1] - len(basis)
    n_axes = min(len(values), q)
    largest_scatter = values[0] if n_axes > 0 else 0.0
    per_scatter = noise - n / largest_scatter if noise * largest_scatter > n else 0.0
    eigenvalues, top_eigenvalue = per_scatter * values[:n_axes], per_scatter * largest_scatter
    return eigenvalues, axes, top_eigenvalue, _bound(eigenvalues, q - n_axes, top_eigenvalue), per_scatter, q


@njit(cache=True, nogil=True)
def _log_proposal_density(scatter, eigenvalues, top_eigenvalue, b, per_scatter, q):
    """Log density of a proposed direction with this scatter along it, relative to the uniform distribution."""
    log_det = (q - len(eigenvalues)) * math.log1p(top_eigenvalue / b)
    for eigenvalue in eigenvalues:
        log_det += math.log1p((top_eigenvalue - eigenvalue) / b)
    return 0.5 * (log_det - q * math.log1p(max(top_eigenvalue - per_scatter * scatter, 0.0) / b))


@njit(cache=True, nogil=True)
def _propose_direction(basis, eigenvalues, axes, top_eigenvalue, b, key):
    """Append to `basis` a direction drawn from the proposal distribution; returns the larger basis."""
    d, m = basis.shape
    frame, z = resize_rows(basis, d + 1), np.empty(m)
    rest = 1.0 / math.sqrt(1.0 + top_eigenvalue / b)
    for a in range(m):
        z[a] = normal(key, a)
        frame[d, a] = rest * z[a]
    for i in range(len(eigenvalues)):
        inner = dot(axes[i], z)
        scale = 1.0 / math.sqrt(1.0 + (top_eigenvalue - eigenvalues[i]) / b) - rest
        for a in range(m):
            frame[d, a] += scale * inner * axes[i, a]
    orthonormalise(frame, d)
    return frame


@njit(cache=True, nogil=True)
def scatter_along(Y, direction):
    """Scatter of the rows along a unit vector, |Y u|^2."""
    along = np.dot(Y, direction)
    return np.dot(along, along)


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

    This is a Metropolis-Hastings step with the ratio of the direction integrated out. Bases are ordered: a new
    direction is placed last, and any direction may be removed. The factors 1 / (d + 1) of the order and of the choice
    cancel.
    """
    d = len(basis)
    p_birth = _birth_probability(d, log_dimension)
    unchanged = basis, ratios
    if uniform(key, _CHOICE) < p_birth:
        eigenvalues, axes, top_eigenvalue, b, per_scatter, q = _fit_proposal(Y, basis, n, noise)
        frame = _propose_direction(basis, eigenvalues, axes, top_eigenvalue, b, fold_in(key, _DIRECTION))
        scatter = scatter_along(Y, frame[d])
        log_accept = log_gain(n, scatter, noise, shape) + log_dimension[d + 1] - log_dimension[d]
        log_accept -= _log_proposal_density(scatter, eigenvalues, top_eigenvalue, b, per_scatter, q)
        log_accept += math.log((1.0 - _birth_probability(d + 1, log_dimension)) / p_birth)
        if -exponential(key, _ACCEPTANCE) >= log_accept:
            return unchanged
        ratio = draw_ratio(fold_in(key, _RATIO), shape + 0.5 * n, 0.5 * noise * scatter)
        return frame, np.append(ratios, ratio)
    if d == 0 or p_birth == 1.0 or log_dimension[d - 1] == -np.inf:
        return unchanged
    removed = np.int64(uniform(key, _REMOVED) * d)
    smaller, kept = basis[:-1].copy(), ratios[:-1].copy()
    smaller[removed:], kept[removed:] = basis[removed + 1 :], ratios[removed + 1 :]
    eigenvalues, axes, top_eigenvalue, b, per_scatter, q = _fit_proposal(Y, smaller, n, noise)
    scatter = scatter_along(Y, basis[removed])
    log_accept = log_dimension[d - 1] - log_dimension[d] - log_gain(n, scatter, noise, shape)
    log_accept += _log_proposal_density(scatter, eigenvalues, top_eigenvalue, b, per_scatter, q)
    log_accept += math.log(_birth_probability(d - 1, log_dimension) / (1.0 - p_birth))
    if -exponential(key, _ACCEPTANCE) >= log_accept:
        return unchanged
    return smaller, kept
