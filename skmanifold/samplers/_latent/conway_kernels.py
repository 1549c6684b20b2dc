"""Kernels of the walk on the Conway sphere: moves of a subspace and its offset, and draws given a subspace.

The rows of a cluster enter by their number n, their mean and their scatter S about it. Points of the sphere are stored
as directions from its centre I/2, symmetric matrices of Frobenius norm one, so that an eigenvalue above 1/2 corresponds
to one above 0 here. The rows of a *frame* are the eigenvectors of a direction: those with positive eigenvalues span the
subspace, and the others are orthogonal to it.
"""

from __future__ import annotations

import math

import numpy as np

from ...distributions._truncated_gamma import draw_ratio
from ...numerics.vector_math import copy_to
from ...random._keys import Purpose, fold_in, uniform
from ...random._variates import exponential, normal
from ...utils._njit import njit

_ROTATIONS = Purpose.ROTATIONS
_OFFSETS = Purpose.OFFSETS
_PROPOSAL = Purpose.PROPOSAL
_ACCEPTANCE = Purpose.ACCEPTANCE

# Moves


@njit(cache=True, nogil=True)
def walk_subspaces(
    directions, offsets, counts, means, scatters, noise, log_ranks, variance, temperature, scales, n_moves, key, frames
):
    """Move the direction, its eigenvalues, and the offset of each cluster in turn, `n_moves` times.

    Parameters
    ----------
    directions : (K, m, m) float64
        Modified in place.
    offsets : (K, m) float64
        Modified in place. The affine subspace contains the part of the offset that is orthogonal to it.
    counts, means, scatters : (K,), (K, m), (K, m, m)
        Moments of the rows of the clusters.
    noise : (K,) float64
        Precisions: the loss of a row is its squared distance times the precision, plus the dimension.
    log_ranks : (K, max_dimension + 1) float64
        Log prior of each dimension minus the log of its probability under the surface area.
    variance : float
        Variance of the normal prior of offsets, about 0.
    temperature : float
        Factor of losses.
    scales : (K, 2) float64
        Step lengths of directions and of offsets.
    n_moves : int
        Number of moves.
    key : uint64
        Key of the random stream.
    frames : (K, m, m) float64
        Output: the frames of the final directions, by ascending eigenvalue; the last d rows span the subspace.

    Returns
    -------
    dims : (K,) int64
        Dimensions of the subspaces.
    acceptance : (K, 2) float64
        Acceptance rates of directions and of offsets.
    """
    K = len(counts)
    dims, acceptance = np.empty(K, np.int64), np.zeros((K, 2))
    for k in range(K):
        child, n = fold_in(key, k), counts[k]
        of_loss = n, means[k], noise[k], log_ranks[k], temperature
        direction, offset, scatter = directions[k], offsets[k], scatters[k]
        values, frame, spreads = _spectrum(direction, scatter)
        for move in range(n_moves):
            step = fold_in(child, move)
            proposed = _propose(direction, scales[k, 0], fold_in(step, _PROPOSAL))
            new_values, new_frame, new_spreads = _spectrum(proposed, scatter)
            log_ratio = _log_density(new_values, new_frame, new_spreads, offset, *of_loss)
            log_ratio -= _log_density(values, frame, spreads, offset, *of_loss)
            if log_ratio > -exponential(step, _ACCEPTANCE):
                copy_to(direction, proposed)
                values, frame, spreads = new_values, new_frame, new_spreads
                acceptance[k, 0] += 1.0 / n_moves
            if _rotate_eigenvalues(values, frame, spreads, offset, *of_loss, fold_in(step, _ROTATIONS)):
                copy_to(direction, np.dot(np.ascontiguousarray(frame.T) * values, frame))
            pull = 2.0 * temperature * noise[k] * n
            if _move_offset(offset, values, frame, means[k], pull, variance, scales[k, 1], fold_in(step, _OFFSETS)):
                acceptance[k, 1] += 1.0 / n_moves
        order = np.argsort(values)
        for j in range(len(order)):
            copy_to(frames[k, j], frame[order[j]])
        dims[k] = (values > 0.0).sum()
    return dims, acceptance


@njit(cache=True, nogil=True)
def _spectrum(direction, scatter):
    """Eigenvalues, eigenvectors as rows, and the scatter along each."""
    values, vectors = np.linalg.eigh(direction)
    frame = np.ascontiguousarray(vectors.T)
    return values, frame, spreads_along(frame, scatter)


@njit(cache=True, nogil=True)
def spreads_along(frame, scatter):
    """The scatter along each row of a frame."""
    turned = np.dot(frame, scatter)
    out = np.zeros(len(frame))
    for j in range(len(frame)):
        for a in range(frame.shape[1]):
            out[j] += turned[j, a] * frame[j, a]
        out[j] = max(out[j], 0.0)
    return out


@njit(cache=True, nogil=True)
def _log_density(values, frame, spreads, offset, n, mean, noise, log_ranks, temperature):
    """Log density of a direction with respect to the surface area, up to a constant."""
    d, squares = 0, 0.0
    gaps = np.dot(frame, mean - offset)
    for j in range(len(values)):
        if values[j] > 0.0:
            d += 1
        else:
            squares += spreads[j] + n * gaps[j] * gaps[j]
    if d >= len(log_ranks):
        return -np.inf
    return log_ranks[d] - temperature * (noise * squares + n * d)


@njit(cache=True, nogil=True)
def _propose(direction, scale, key):
    """The direction plus a Gaussian symmetric matrix of expected squared norm scale^2, normalised to the sphere.

    The density of the proposal depends only on the angle between the two directions, so it is symmetric.
    """
    m = len(direction)
    out = np.empty((m, m))
    step = scale / math.sqrt(0.5 * m * (m + 1))
    counter, squares = 0, 0.0
    for a in range(m):
        for b in range(a):
            out[a, b] = direction[a, b] + step * math.sqrt(0.5) * normal(key, counter)
            squares += 2.0 * out[a, b] * out[a, b]
            counter += 1
        out[a, a] = direction[a, a] + step * normal(key, counter)
        squares += out[a, a] * out[a, a]
        counter += 1
    length = math.sqrt(squares)
    for a in range(m):
        out[a, a] /= length
        for b in range(a):
            out[a, b] /= length
            out[b, a] = out[a, b]
    return out


@njit(cache=True, nogil=True)
def _rotate_eigenvalues(values, frame, spreads, offset, n, mean, noise, log_ranks, temperature, key):
    """Metropolis moves that rotate pairs of eigenvalues by uniform angles, in place; returns whether one was accepted.

    The frame and the sum of squared eigenvalues do not change. Given the frame, the density of eigenvalues under the
    surface area is proportional to the product of all distances between eigenvalues.
    """
    m = len(values)
    if m == 1:
        return False
    d = (values > 0.0).sum()
    gaps = np.dot(frame, mean - offset)
    moved = False
    for t in range(m):
        i = np.int64(m * uniform(key, 4 * t))
        j = (i + 1 + np.int64((m - 1) * uniform(key, 4 * t + 1))) % m
        angle = 2.0 * math.pi * uniform(key, 4 * t + 2)
        old_i, old_j = values[i], values[j]
        new_i = math.cos(angle) * old_i - math.sin(angle) * old_j
        new_j = math.sin(angle) * old_i + math.cos(angle) * old_j
        gain_i, gain_j = int(new_i > 0.0) - int(old_i > 0.0), int(new_j > 0.0) - int(old_j > 0.0)
        new_d = d + gain_i + gain_j
        if new_d >= len(log_ranks) or log_ranks[new_d] == -np.inf:
            continue
        saved = gain_i * (spreads[i] + n * gaps[i] * gaps[i]) + gain_j * (spreads[j] + n * gaps[j] * gaps[j])
        log_ratio = log_ranks[new_d] - log_ranks[d] + temperature * (noise * saved - n * (new_d - d))
        log_ratio += _log_product(new_i, new_j, i, j, values) - _log_product(old_i, old_j, i, j, values)
        if log_ratio > -exponential(key, 4 * t + 3):
            values[i], values[j] = new_i, new_j
            d = new_d
            moved = True
    return moved


@njit(cache=True, nogil=True)
def _log_product(x, y, i, j, values):
    """Log of the product of distances of x and y, at indices i and j, to each other and to all other eigenvalues."""
    total, product = 0.0, max(abs(x - y), 1e-150)
    for other in range(len(values)):
        if other != i and other != j:
            product *= max(abs((x - values[other]) * (y - values[other])), 1e-150)
            if product < 1e-150:  # all distances are below 2
                total += math.log(product)
                product = 1.0
    return total + math.log(product)


@njit(cache=True, nogil=True)
def _move_offset(offset, values, frame, mean, pull, variance, scale, key):
    """One Metropolis step of the offset, in place; returns whether it was accepted.

    The covariance of the step is proportional to that of the offset given the subspace, so steps orthogonal to it are
    shorter for more rows. It depends only on the subspace, so the proposal is symmetric.
    """
    m = len(offset)
    place = np.dot(frame, offset)
    middle = np.dot(frame, mean)
    proposed = np.empty(m)
    log_ratio = 0.0
    for j in range(m):
        of_rows = 0.0 if values[j] > 0.0 else pull
        proposed[j] = place[j] + scale * normal(key, j) / math.sqrt(m * (of_rows + 1.0 / variance))
        change = proposed[j] - place[j]
        both = proposed[j] + place[j]
        log_ratio -= 0.5 * change * (of_rows * (both - 2.0 * middle[j]) + both / variance)
    if log_ratio > -exponential(key, m):
        copy_to(offset, np.dot(proposed, frame))
        return True
    return False


# Given subspaces


@njit(cache=True, nogil=True)
def draw_within(
    frames, dims, offsets, counts, means, scatters, noise, shape, variance, key, bases, ratios, centres, squares
):
    """Draw ratios of precisions and centres of clusters along their subspaces, each given the other.

    Parameters
    ----------
    frames, dims, offsets, counts, means, scatters, noise
        As in `walk_subspaces`.
    shape : float
        Parameter of the prior of the ratios, Beta(shape, 1).
    variance : float
        Variance of the normal prior of the centres, about 0.
    key : uint64
        Key of the random stream.
    bases : (K, max_dimension, m) float64
        Output: the principal axes of the rows within the subspace.
    ratios : (K, max_dimension) float64
        Output: the ratios.
    centres : (K, m) float64
        Modified in place; initially those of the previous step, from which the ratios are drawn.
    squares : (K,) float64
        Output: sums over rows of squares about the centre; those along the subspace are multiplied by their ratios.
    """
    m = offsets.shape[1]
    for k in range(len(dims)):
        n, d = counts[k], dims[k]
        q = m - d
        child = fold_in(key, k)
        before = centres[k].copy()
        # The part of the offset orthogonal to the current subspace.
        copy_to(centres[k], np.dot(np.dot(frames[k], offsets[k])[:q], frames[k][:q]))
        squares[k] = (spreads_along(frames[k], scatters[k])[:q]).sum()
        squares[k] += n * np.square(np.dot(frames[k], means[k] - centres[k])[:q]).sum()
        if d == 0:
            continue
        within = frames[k][q:]
        _, axes = np.linalg.eigh(np.dot(np.dot(within, scatters[k]), np.ascontiguousarray(within.T)))
        copy_to(bases[k, :d], np.dot(np.ascontiguousarray(axes.T), within)[::-1])
        for j in range(d):
            axis, draw = bases[k, j], fold_in(child, j)
            middle = np.dot(axis, means[k])
            spread = max(np.dot(np.dot(scatters[k], axis), axis), 0.0)
            scatter = spread + n * (middle - np.dot(axis, before)) ** 2
            ratio = draw_ratio(fold_in(draw, 0), shape + 0.5 * n, 0.5 * noise[k] * scatter)
            of_rows = n * ratio * noise[k]
            precision = of_rows + 1.0 / variance
            place = of_rows * middle / precision + normal(fold_in(draw, 1), 0) / math.sqrt(precision)
            centres[k] += place * axis
            ratios[k, j] = ratio
            squares[k] += ratio * (spread + n * (middle - place) ** 2)
