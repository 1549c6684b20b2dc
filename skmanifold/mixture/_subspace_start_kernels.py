"""Kernels of K-flats: rows dealt out to affine flats, flats fitted to their rows, and flats to begin with."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..utils._random import uniform

_MAX_RESEEDED_ROUNDS = 10  # after these a cluster that lost its rows stays empty
_MAX_NOISE_ROUNDS = 20
_LEAST_AXIS = 1e-12  # relative variance: below, a direction of few rows is rounding


@njit(cache=True, nogil=True)
def _fit_axes(rows, members, max_dimension, mean, axes, spectrum):
    """Mean, leading axes and spectrum (largest first, zeros after) of the scatter of some rows; returns their trace."""
    n, width = len(members), rows.shape[1]
    mean[:] = 0.0
    for i in members:
        for f in range(width):
            mean[f] += rows[i, f]
    for f in range(width):
        mean[f] /= n
    centred = np.empty((n, width))
    for place in range(n):
        for f in range(width):
            centred[place, f] = rows[members[place], f] - mean[f]
    # The smaller of the two products has all eigenvalues that are not zero.
    wide = n < width
    product = np.dot(centred, centred.T) if wide else np.dot(centred.T, centred)
    values, vectors = np.linalg.eigh(product)
    size = len(values)
    spectrum[:] = 0.0
    trace = 0.0
    for j in range(size):
        spectrum[j] = max(values[size - 1 - j], 0.0) / n
        trace += spectrum[j]
    axes[:] = 0.0
    for j in range(min(max_dimension, size)):
        if spectrum[j] <= _LEAST_AXIS * spectrum[0]:
            break
        if wide:
            scale = 1.0 / math.sqrt(n * spectrum[j])
            for place in range(n):
                share = scale * vectors[place, size - 1 - j]
                for f in range(width):
                    axes[j, f] += share * centred[place, f]
        else:
            for f in range(width):
                axes[j, f] = vectors[f, size - 1 - j]
    return trace


@njit(cache=True, nogil=True)
def _pooled_noise(sizes, spectra, dimensions, least_noise):
    """The variance across all flats: what is left of the spectra, for each direction that is left."""
    left, n_left = 0.0, 0.0
    width = spectra.shape[1]
    for k in range(len(sizes)):
        for j in range(dimensions[k], width):
            left += sizes[k] * spectra[k, j]
        n_left += sizes[k] * (width - dimensions[k])
    return max(left / n_left, least_noise) if n_left > 0.0 else least_noise


@njit(cache=True, nogil=True)
def _spectra_loss(sizes, spectra, dimensions, noise, log_n):
    """Minus the log-likelihood of the rows within their flats, but for a constant, plus log(n)/2 a parameter."""
    total = 0.0
    width = spectra.shape[1]
    for k in range(len(sizes)):
        if sizes[k] == 0.0:
            continue
        d = dimensions[k]
        fit = (width - d) * math.log(noise)
        for j in range(width):
            variance = max(spectra[k, j], noise) if j < d else noise
            fit += spectra[k, j] / variance
            if j < d:
                fit += math.log(variance)
        # A mean; d axes, each orthogonal to those before; and d variances.
        n_parameters = width + d * width - d * (d - 1) // 2
        total += 0.5 * (sizes[k] * fit + log_n * n_parameters)
    return total


@njit(cache=True, nogil=True)
def _choose_dimensions(sizes, spectra, max_dimension, noise, log_n, dimensions):
    """The best dimension of each flat, given the noise."""
    width = spectra.shape[1]
    for k in range(len(sizes)):
        gain, best = 0.0, 0.0
        dimensions[k] = 0
        for j in range(min(max_dimension, width)):
            ratio = spectra[k, j] / noise
            if ratio <= 1.0:
                break
            gain += 0.5 * (sizes[k] * (ratio - 1.0 - math.log(ratio)) - log_n * (width - j))
            if gain > best:
                dimensions[k], best = j + 1, gain


@njit(cache=True, nogil=True)
def settle_dimensions(sizes, spectra, max_dimension, least_noise, log_n, dimensions):
    """Dimensions of flats and their common noise, alternating from several beginnings; returns noise and loss.

    Little noise makes every direction a flat's own, and much noise none: which of the fixed points is best, only
    their losses tell.
    """
    n_flats = len(sizes)
    tried = np.empty(n_flats, np.int64)
    before = np.empty(n_flats, np.int64)
    noise, loss = least_noise, math.inf
    first = np.int64(0)
    while first <= max_dimension:
        tried[:] = first
        for _ in range(_MAX_NOISE_ROUNDS):
            before[:] = tried
            tried_noise = _pooled_noise(sizes, spectra, tried, least_noise)
            _choose_dimensions(sizes, spectra, max_dimension, tried_noise, log_n, tried)
            if np.array_equal(tried, before):
                break
        tried_noise = _pooled_noise(sizes, spectra, tried, least_noise)
        tried_loss = _spectra_loss(sizes, spectra, tried, tried_noise, log_n)
        if tried_loss < loss:
            noise, loss = tried_noise, tried_loss
            dimensions[:] = tried
        first += 1 + first // 4
    return noise, loss


@njit(cache=True, nogil=True)
def _row_residual(rows, i, mean, axes, dimension, places):
    """Squared distance of a row from a flat; `places` becomes its coordinates within."""
    width = rows.shape[1]
    left = 0.0
    for f in range(width):
        left += (rows[i, f] - mean[f]) ** 2
    for j in range(dimension):
        place = 0.0
        for f in range(width):
            place += (rows[i, f] - mean[f]) * axes[j, f]
        places[j] = place
        left -= place * place
    return max(left, 0.0)


@njit(cache=True, nogil=True)
def _deal_out(rows, sizes, means, axes, spectra, dimensions, noise, labels, costs):
    """Each row to the flat of least cost, weight included; returns how many rows moved."""
    n, width = rows.shape
    n_flats = len(sizes)
    peaks = np.full(n_flats, math.inf)
    for k in range(n_flats):
        if sizes[k] > 0.0:
            peaks[k] = 0.5 * (width - dimensions[k]) * math.log(noise) - math.log(sizes[k] / n)
            for j in range(dimensions[k]):
                peaks[k] += 0.5 * math.log(max(spectra[k, j], noise))
    places = np.empty(axes.shape[1])
    n_moved = 0
    for i in range(n):
        best, least = labels[i], math.inf
        for k in range(n_flats):
            if sizes[k] == 0.0:
                continue
            cost = peaks[k] + 0.5 * _row_residual(rows, i, means[k], axes[k], dimensions[k], places) / noise
            for j in range(dimensions[k]):
                cost += 0.5 * places[j] * places[j] / max(spectra[k, j], noise)
            if cost < least:
                best, least = k, cost
        n_moved += best != labels[i]
        labels[i] = best
        costs[i] = least
    return n_moved


@njit(cache=True, nogil=True)
def nearest_rows(rows, i, n_near):
    """The rows nearest to row `i`, itself first; the earlier of two at one distance."""
    gaps = np.empty(len(rows))
    for other in range(len(rows)):
        gap = 0.0
        for f in range(rows.shape[1]):
            gap += (rows[other, f] - rows[i, f]) ** 2
        gaps[other] = gap
    gaps[i] = -1.0
    return np.argsort(gaps, kind="mergesort")[:n_near]


@njit(cache=True, nogil=True)
def _fill_empty(rows, dimensions, labels, costs):
    """Give each flat without rows the worst explained row and its neighbours; returns whether there was one."""
    n_flats = len(dimensions)
    counts = np.bincount(labels, minlength=n_flats)
    any_empty = False
    for k in range(n_flats):
        if counts[k] > 0:
            continue
        worst = np.argmax(costs)
        if costs[worst] == -math.inf:  # all have been given away
            break
        any_empty = True
        for i in nearest_rows(rows, worst, max(1, min(2 * dimensions[k] + 1, len(rows) // n_flats))):
            labels[i] = k
            costs[i] = -math.inf
    return any_empty


@njit(cache=True, nogil=True)
def refine_flats(rows, labels, dimensions, inferred, max_dimension, least_noise, n_iter):
    """Lloyd's iterations from the partition `labels`, which they change; returns the loss of the last one.

    Where dimensions are `inferred`, they are settled at every refit, else `dimensions` are kept.
    """
    n, width = rows.shape
    n_flats = len(dimensions)
    log_n = math.log(n)
    sizes = np.empty(n_flats)
    means = np.zeros((n_flats, width))
    axes = np.zeros((n_flats, max_dimension, width))
    spectra = np.zeros((n_flats, width))
    costs = np.empty(n)
    loss = math.inf
    for iteration in range(n_iter + 1):
        loss = 0.0
        for k in range(n_flats):
            members = np.flatnonzero(labels == k)
            sizes[k] = len(members)
            if len(members) == 0:
                spectra[k] = 0.0
                continue
            _fit_axes(rows, members, max_dimension, means[k], axes[k], spectra[k])
            loss -= sizes[k] * math.log(sizes[k] / n)
        if inferred:
            noise, of_spectra = settle_dimensions(sizes, spectra, max_dimension, least_noise, log_n, dimensions)
        else:
            noise = _pooled_noise(sizes, spectra, dimensions, least_noise)
            of_spectra = _spectra_loss(sizes, spectra, dimensions, noise, log_n)
        loss += of_spectra
        if iteration == n_iter:
            break
        n_moved = _deal_out(rows, sizes, means, axes, spectra, dimensions, noise, labels, costs)
        filled = iteration < _MAX_RESEEDED_ROUNDS and _fill_empty(rows, dimensions, labels, costs)
        if n_moved == 0 and not filled:
            break
    return loss


@njit(cache=True, nogil=True)
def seed_flats(rows, key, dimensions, labels):
    """Deal rows out to flats through single rows and their neighbours; each next row is one far from those before."""
    n, width = rows.shape
    max_dimension = max(dimensions)
    mean = np.empty(width)
    axes = np.empty((max_dimension, width))
    spectrum = np.empty(width)
    places = np.empty(max_dimension)
    gaps = np.full(n, math.inf)
    chosen = np.int64(uniform(key, 0) * n)
    for k in range(len(dimensions)):
        if k > 0:
            rising = np.cumsum(gaps)
            if rising[-1] > 0.0:
                chosen = min(np.searchsorted(rising, uniform(key, k) * rising[-1], side="right"), n - 1)
            else:
                chosen = np.int64(uniform(key, k) * n)
        members = nearest_rows(rows, chosen, min(2 * dimensions[k] + 1, n))
        _fit_axes(rows, members, dimensions[k], mean, axes, spectrum)
        for i in range(n):
            gap = _row_residual(rows, i, mean, axes, dimensions[k], places)
            if gap < gaps[i]:
                labels[i], gaps[i] = k, gap
