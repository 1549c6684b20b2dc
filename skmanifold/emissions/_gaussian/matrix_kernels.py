"""Kernels of components with covariance matrices, one for each or one for all: posteriors, modes, draws, densities."""

from __future__ import annotations

import math

import numpy as np

from ...numerics.linalg import divide_by_lower, fill_cholesky, fill_square, fill_upper_root
from ...numerics.special import copy_to
from ...random._keys import fold_in
from ...random._variates import gamma_variate, normal
from ...utils._njit import by_type, njit, njit_part
from .base import LEAST_SHARE, LOG_2PI, IncompleteComponents, MatrixComponents
from .missing_kernels import HALF_LOG_2PI, fill_observed_squares

_LOG_PI = math.log(math.pi)


@by_type
def fill_posteriors(data, statistics, labels, first, stop, precisions, means, scatters, degrees):
    """Fill the posterior of the covariances `first` to `stop`, and of the means of their components.

    `labels`, (K,), beyond the capacity have no rows. Filled are `precisions`, (K,), of the means, in rows; `means`, (K,
    d), relative to the origin; `scatters`, (G, d, d), and `degrees`, (G,), of each label or of all together.
    """


@njit(cache=True, nogil=True)
def fill_modes(first, stop, data, statistics, labels, means, covariances, factors, offsets):
    """Fill the arrays of `GaussianParameters` with modes of precisions and, for natural parameters, these times means.

    Returns the first component whose covariance is singular, -1 if none.
    """
    (K, d), G = means.shape, len(covariances)
    degrees, log_roots = np.empty(G), np.empty(G)
    fill_posteriors(data, statistics, labels, first, stop, np.empty(K), means, covariances, degrees)
    for g in range(first, stop):
        freedom = degrees[g] - (d + 1.0) - K // G
        if not freedom > 0.0:
            return g
        for a in range(d):
            for b in range(d):
                covariances[g, a, b] /= freedom
    singular = factor_covariances(first, stop, covariances, LEAST_SHARE, factors, log_roots)
    _add_origin(first, stop, data, log_roots, means, offsets)
    return singular


@njit(cache=True, nogil=True)
def fill_draws(first, stop, data, statistics, labels, key, means, covariances, factors, offsets):
    """Draw the covariances, with the means integrated out, and then the means; parameters are those of `fill_modes`.

    With a Cholesky factor C of the scatter, and T lower triangular such that T'T is standard Wishart, the precision F'F
    with F = T C^-1 has the posterior distribution, and F^-1 = C T^-1 is the factor of the covariance. The draw depends
    only on the key and the component's index. Returns the first component that is singular, -1 if none is.
    """
    (K, d), G = means.shape, len(covariances)
    precisions, degrees, log_roots = np.empty(K), np.empty(G), np.empty(G)
    root, normals = np.empty((d, d)), np.empty(d)
    fill_posteriors(data, statistics, labels, first, stop, precisions, means, covariances, degrees)
    for g in range(first, stop):
        log_roots[g] = _draw_matrix(fold_in(key, g), degrees[g], covariances[g], root, factors[g])
        if np.isnan(log_roots[g]):
            return g
        fill_square(root, covariances[g])
        begin, end = (g, g + 1) if G == K else (0, K)
        for k in range(begin, end):
            of_normals, scale = fold_in(fold_in(key, k), 0), 1.0 / np.sqrt(precisions[k])
            for a in range(d):
                normals[a] = scale * normal(of_normals, d * d + a)
                for b in range(a + 1):
                    means[k, a] += root[a, b] * normals[b]
    _add_origin(first, stop, data, log_roots, means, offsets)
    return -1


@njit_part
def _add_origin(first, stop, data, log_roots, means, offsets):
    """Add the origin to the means of components, and fill the log densities at the means."""
    K, d = means.shape
    is_shared = len(log_roots) < K
    for k in range(0 if is_shared else first, K if is_shared else stop):
        offsets[k] = log_roots[0 if is_shared else k] - 0.5 * d * LOG_2PI
        for a in range(d):
            means[k, a] += data.origin[a]


@njit(cache=True, nogil=True)
def factor_covariances(first, stop, covariances, least_share, factors, log_roots):
    """Fill `factors`, (K, d, d), with the inverses of the Cholesky factors of the covariances `first` to `stop`.

    Lower triangles are read. `log_roots`, (K,), get log determinants. Returns the first component with a pivot below
    `least_share` of its diagonal entry, -1 if none.
    """
    d = covariances.shape[1]
    root = np.empty((d, d))
    for k in range(first, stop):
        if not fill_cholesky(covariances[k], least_share, root):
            return k
        factor = factors[k]
        factor[:] = 0.0
        log_roots[k] = 0.0
        for a in range(d):
            factor[a, a] = 1.0
        divide_by_lower(factor, root)
        for a in range(d):
            log_roots[k] += np.log(factor[a, a])
    return -1


@njit(cache=True, nogil=True)
def total_log_marginal(data, sizes, scatters, degrees):
    """Log density of all rows given their labels, from `sizes`, (K,), and posteriors; NaN if a scatter is singular."""
    d, total = data.values.shape[1], 0.0
    root = np.empty((d, d))
    for k in range(len(sizes)):
        total -= 0.5 * d * math.log1p(sizes[k] / data.mean_precision)
    for g in range(len(degrees)):
        log_det, n_rows = fill_upper_root(scatters[g], root), degrees[g] - data.degrees
        total += 0.5 * (data.degrees * data.log_det - degrees[g] * log_det - n_rows * d * _LOG_PI)
        for j in range(d):
            total += math.lgamma(0.5 * (degrees[g] - j)) - math.lgamma(0.5 * (data.degrees - j))
    return total


@njit(cache=True, nogil=True)
def _draw_matrix(key, degrees, scatter, root, factor):
    """Draw a covariance as F, with F^-1 in `root`; returns log |F|, NaN if it is singular."""
    d = len(scatter)
    of_scatter = np.empty((d, d))
    if not fill_cholesky(scatter, LEAST_SHARE, of_scatter):
        return np.nan
    fill_wishart_root(fold_in(key, 0), fold_in(key, 1), degrees, factor)
    for a in range(d):
        if factor[a, a] == 0.0:  # a variate of a tiny shape has underflowed
            return np.nan
    copy_to(root, of_scatter)
    divide_by_lower(root, factor)
    divide_by_lower(factor, of_scatter)
    log_root = 0.0
    for a in range(d):
        variance = 0.0
        for b in range(a + 1):
            variance += root[a, b] * root[a, b]
        if not root[a, a] * root[a, a] > LEAST_SHARE * variance:
            return np.nan
        log_root += np.log(factor[a, a])
    return log_root


@njit(cache=True, nogil=True)
def fill_wishart_root(of_normals, of_gammas, degrees, out):
    """Draw a lower triangular T such that T'T has a standard Wishart distribution with these degrees of freedom.

    It is Bartlett's decomposition in reverse order: squares on the diagonal are chi-squared, with `degrees` in the last
    row and one less in each before it.
    """
    d = len(out)
    for a in range(d):
        for b in range(a):
            out[a, b] = normal(of_normals, a * d + b)
        out[a, a] = np.sqrt(2.0 * gamma_variate(fold_in(of_gammas, a), 0.5 * (degrees - (d - 1 - a))))
        for b in range(a + 1, d):
            out[a, b] = 0.0


# Scores of rows with missing cells


@by_type
def fill_observed_scores(components, data, rows, n_above, scores):
    """Fill the scores of rows with missing cells: log densities of their observed cells.

    Rows with the same missing cells, next to each other, share factorizations. Returns `n_above` with zeros for them.
    """


@fill_observed_scores.of(MatrixComponents)
@njit(cache=True, nogil=True)
def _fill_no_scores(components, data, rows, n_above, scores):
    return n_above


@fill_observed_scores.of(IncompleteComponents)
@njit(cache=True, nogil=True)
def _fill_observed_scores(components, data, rows, n_above, scores):
    (means, _, _, offsets), _, columns, precisions = components
    n_left, log_roots, d = n_above.copy(), np.empty(scores.shape), means.shape[1]
    fill_observed_squares(data.values, rows, data.patterns, n_above, means, columns, precisions, scores, log_roots)
    for i in range(len(rows)):
        if data.place[rows[i]] < 0 or n_above[i] <= 1:
            continue
        n_left[i], n_missing = 0, 0
        for a in range(d):
            n_missing += np.isnan(data.values[rows[i], a])
        for k in range(n_above[i]):
            score = offsets[k] + n_missing * HALF_LOG_2PI - log_roots[i, k] - 0.5 * scores[i, k]
            scores[i, k] = score if n_missing < d else 0.0
    return n_left
