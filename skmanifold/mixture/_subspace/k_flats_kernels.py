"""Kernels of K-flats: assign rows to affine subspaces, fit subspaces to their rows, and select dimensions."""

from __future__ import annotations

import math

import numpy as np

from ...utils._njit import njit

_MAX_NOISE_ROUNDS = 20
_LEAST_AXIS = 1e-12  # relative variance; with few rows, smaller ones are rounding errors


@njit(cache=True, nogil=True)
def centre_rows(rows, members, mean):
    """Some rows about their mean, which is written to `mean`."""
    n, width = len(members), rows.shape[1]
    centred = np.empty((n, width))
    for f in range(width):
        mean[f] = 0.0
    for i in members:
        for f in range(width):
            mean[f] += rows[i, f]
    for f in range(width):
        mean[f] /= n
    for place in range(n):
        for f in range(width):
            centred[place, f] = rows[members[place], f] - mean[f]
    return centred


@njit(cache=True, nogil=True)
def write_axes(centred, values, vectors, axes, spectrum):
    """Write the leading axes and decreasing spectrum of the scatter of centred rows, padded with zeros.

    `values` and `vectors` are the ascending eigenvalues and the eigenvectors of the smaller of the two products of the
    rows, which has all nonzero eigenvalues.
    """
    n, width = centred.shape
    size = len(values)
    for j in range(len(axes)):
        for f in range(width):
            axes[j, f] = 0.0
    for j in range(width):
        spectrum[j] = max(values[size - 1 - j], 0.0) / n if j < size else 0.0
    for j in range(min(len(axes), size)):
        if spectrum[j] <= _LEAST_AXIS * spectrum[0]:
            break
        if n < width:
            scale = 1.0 / math.sqrt(n * spectrum[j])
            for place in range(n):
                share = scale * vectors[place, size - 1 - j]
                for f in range(width):
                    axes[j, f] += share * centred[place, f]
        else:
            for f in range(width):
                axes[j, f] = vectors[f, size - 1 - j]


@njit(cache=True, nogil=True)
def pooled_noise(sizes, spectra, dimensions, least_noise):
    """Variance orthogonal to the subspaces: mean of the remaining eigenvalues, over all subspaces."""
    left, n_left = 0.0, 0.0
    width = spectra.shape[1]
    for k in range(len(sizes)):
        for j in range(dimensions[k], width):
            left += sizes[k] * spectra[k, j]
        n_left += sizes[k] * (width - dimensions[k])
    return max(left / n_left, least_noise) if n_left > 0.0 else least_noise


@njit(cache=True, nogil=True)
def spectra_loss(sizes, spectra, dimensions, noise, log_n):
    """Negative log-likelihood of the rows given their subspaces, up to a constant, plus log(n) / 2 per parameter."""
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
        # Parameters: a mean, d orthogonal axes and d variances.
        n_parameters = width + d * width - d * (d - 1) // 2
        total += 0.5 * (sizes[k] * fit + log_n * n_parameters)
    return total


@njit(cache=True, nogil=True)
def _choose_dimensions(sizes, spectra, max_dimension, noise, log_n, dimensions):
    """Select the best dimension of each subspace given the noise, in place; returns whether one has changed."""
    width = spectra.shape[1]
    moved = False
    for k in range(len(sizes)):
        before, gain, best = dimensions[k], 0.0, 0.0
        dimensions[k] = 0
        for j in range(min(max_dimension, width)):
            ratio = spectra[k, j] / noise
            if ratio <= 1.0:
                break
            gain += 0.5 * (sizes[k] * (ratio - 1.0 - math.log(ratio)) - log_n * (width - j))
            if gain > best:
                dimensions[k], best = j + 1, gain
        moved |= dimensions[k] != before
    return moved


@njit(cache=True, nogil=True)
def choose_dimensions_and_noise(sizes, spectra, max_dimension, least_noise, log_n, dimensions):
    """Select dimensions and the shared noise variance by alternating updates; returns the noise and the loss.

    There are several fixed points: with a small noise variance large dimensions are best, and with a large one small
    dimensions. Therefore several initial dimensions are tried, and the result with the smallest loss is kept.
    """
    n_subspaces = len(sizes)
    tried = np.empty(n_subspaces, np.int64)
    noise, loss = least_noise, math.inf
    first = np.int64(0)
    while first <= max_dimension:
        for k in range(n_subspaces):
            tried[k] = first
        for _ in range(_MAX_NOISE_ROUNDS):
            tried_noise = pooled_noise(sizes, spectra, tried, least_noise)
            if not _choose_dimensions(sizes, spectra, max_dimension, tried_noise, log_n, tried):
                break
        tried_noise = pooled_noise(sizes, spectra, tried, least_noise)
        tried_loss = spectra_loss(sizes, spectra, tried, tried_noise, log_n)
        if tried_loss < loss:
            noise, loss = tried_noise, tried_loss
            for k in range(n_subspaces):
                dimensions[k] = tried[k]
        first += 1 + first // 4
    return noise, loss


@njit(cache=True, nogil=True)
def _row_residual(rows, i, mean, axes, dimension, places):
    """Squared distance of a row from a subspace; writes its coordinates in the subspace to `places`."""
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
def assign_rows(rows, sizes, means, axes, spectra, dimensions, noise, labels, costs):
    """Assign each row to the subspace with the smallest cost, weight included; returns how many rows moved."""
    n, width = rows.shape
    n_subspaces = len(sizes)
    peaks = np.full(n_subspaces, math.inf)
    for k in range(n_subspaces):
        if sizes[k] > 0.0:
            peaks[k] = 0.5 * (width - dimensions[k]) * math.log(noise) - math.log(sizes[k] / n)
            for j in range(dimensions[k]):
                peaks[k] += 0.5 * math.log(max(spectra[k, j], noise))
    places = np.empty(axes.shape[1])
    n_moved = 0
    for i in range(n):
        best, least = labels[i], math.inf
        for k in range(n_subspaces):
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
def assign_nearer_rows(rows, mean, axes, k, labels, gaps):
    """Give label k to the rows whose squared distance to a subspace is less than `gaps`; updates `gaps`."""
    places = np.empty(len(axes))
    for i in range(len(rows)):
        gap = _row_residual(rows, i, mean, axes, len(axes), places)
        if gap < gaps[i]:
            labels[i], gaps[i] = k, gap


@njit(cache=True, nogil=True)
def nearest_rows(rows, i, n_near):
    """Indices of the rows nearest to row `i`, which comes first; ties are resolved in favour of lower indices."""
    near, gaps = np.empty(n_near, np.int64), np.full(n_near, math.inf)
    for other in range(len(rows)):
        gap = 0.0
        for f in range(rows.shape[1]):
            gap += (rows[other, f] - rows[i, f]) ** 2
        if other == i:
            gap = -1.0
        if gap >= gaps[n_near - 1]:
            continue
        place = n_near - 1
        while place > 0 and gap < gaps[place - 1]:
            near[place], gaps[place] = near[place - 1], gaps[place - 1]
            place -= 1
        near[place], gaps[place] = other, gap
    return near
