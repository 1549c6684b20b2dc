"""Kernels of clusters of directions: sums of rows, scores, and split-merge moves.

With a given concentration, or one that all clusters share and that is drawn before split-merge moves, predictive
densities are those given it. Otherwise predictive densities use an estimate of the concentration from the rows of the
cluster: they propose sides and partners, and any function of the cluster is right for this. Marginal densities are
exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.fft import dct

from ...distributions._bessel import compute_log_peak
from ...utils._by_type import by_type
from ...utils._njit import njit, njit_part
from .. import kernels
from .._linear_kernels import merge_labels
from .concentrations import tabulate
from .rows import fill_row_scores

_FAST: dict = {"fastmath": {"reassoc", "contract", "nsz"}}  # sums of products by vector instructions
_MAX_RATIO = 1.0 - 1e-9
_DEGREE = 64
_POINTS = np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)


class DenseDirectionData(NamedTuple):
    """Dense rows, whose products with their factors are unit vectors, and the prior of the concentrations."""

    values: np.ndarray  # (n_rows, d) float32 or float64
    factors: np.ndarray  # (n_rows,)
    n_features: int
    prior: tuple[float, float, float]  # rows, rows times one minus the mean cosine, and log normaliser


class SparseDirectionData(NamedTuple):
    """Unit vectors in CSR format, and the prior of the concentrations."""

    indptr: np.ndarray  # (n_rows + 1,)
    indices: np.ndarray
    values: np.ndarray
    n_features: int
    prior: tuple[float, float, float]


class DirectionPosterior(NamedTuple):
    """Lengths of the sums of each label."""

    lengths: np.ndarray  # (capacity,)
    concentration: float  # of all clusters; 0 if each has its own


# Rows


@by_type
def add_row(data, row, sign, out):
    """Add `sign` times a unit vector to `out`, (d,)."""


@by_type
def product_with(data, row, vector):
    """Product of a unit vector with a vector, (d,)."""


@add_row.of(DenseDirectionData)
@njit_part
def _add_dense_row(data, row, sign, out):
    factor = sign * data.factors[row]
    for j in range(len(out)):
        out[j] += factor * data.values[row, j]


@add_row.of(SparseDirectionData)
@njit_part
def _add_sparse_row(data, row, sign, out):
    for e in range(data.indptr[row], data.indptr[row + 1]):
        out[data.indices[e]] += sign * data.values[e]


@product_with.of(DenseDirectionData)
@njit(cache=True, nogil=True, _nrt=False, **_FAST)
def _dense_product(data, row, vector):
    total = 0.0
    for j in range(len(vector)):
        total += data.values[row, j] * vector[j]
    return total * data.factors[row]


@product_with.of(SparseDirectionData)
@njit_part
def _sparse_product(data, row, vector):
    total = 0.0
    for e in range(data.indptr[row], data.indptr[row + 1]):
        total += data.values[e] * vector[data.indices[e]]
    return total


# Statistics


@kernels.count_row.of(DenseDirectionData, SparseDirectionData)
@njit_part
def _count_row(data, statistics, row, label, sign):
    statistics.sizes[label] += sign
    if statistics.sizes[label] == 0:
        statistics.sums[label, :] = 0.0
    else:
        add_row(data, row, sign, statistics.sums[label])


kernels.merge_labels.of(DenseDirectionData, SparseDirectionData)(merge_labels)


# Scores


@njit(cache=True, nogil=True, _nrt=False, **_FAST)
def _fill_eight(x, y, a, b, c, d, out):
    """Products of two rows with four directions, (2, 4), by the same operations for each product."""
    xa = xb = xc = xd = ya = yb = yc = yd = x[0] - x[0]  # zeros of the dtype of the rows
    for j in range(len(x)):
        xa += x[j] * a[j]
        xb += x[j] * b[j]
        xc += x[j] * c[j]
        xd += x[j] * d[j]
        ya += y[j] * a[j]
        yb += y[j] * b[j]
        yc += y[j] * c[j]
        yd += y[j] * d[j]
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = xa, xb, xc, xd
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = ya, yb, yc, yd


@kernels.fill_scores.of(DenseDirectionData)
@njit(cache=True, nogil=True)
def _fill_dense_scores(data, statistics, rows, n_above, current, components, scores):
    directions, concentrations, log_peaks = components.directions.T, components.concentrations, components.log_peaks
    last, n, products = len(directions) - 1, len(rows), np.empty((2, 4), directions.dtype)
    for i in range(0, n, 2):
        other = min(i + 1, n - 1)
        n_most = max(n_above[i], n_above[other])
        if n_most <= 1:
            continue
        x, y = data.values[rows[i]], data.values[rows[other]]
        for k in range(0, n_most, 4):
            a, b = directions[k], directions[min(k + 1, last)]
            c, d = directions[min(k + 2, last)], directions[min(k + 3, last)]
            _fill_eight(x, y, a, b, c, d, products)
            for r in range(other - i + 1):
                factor = data.factors[rows[i + r]]
                for place in range(min(4, last + 1 - k)):
                    gap = products[r, place] * factor - 1.0
                    scores[i + r, k + place] = log_peaks[k + place] + concentrations[k + place] * gap


@kernels.fill_scores.of(SparseDirectionData)
@njit(cache=True, nogil=True)
def _fill_sparse_scores(data, statistics, rows, n_above, current, components, scores):
    csr = data.indptr, data.indices, data.values
    parameters = components.directions, components.concentrations, components.log_peaks
    for i in range(len(rows)):
        if n_above[i] > 1:
            fill_row_scores(csr, rows[i], parameters, scores[i, : n_above[i]])


# Posteriors


@njit(cache=True, nogil=True)
def _length(total):
    """Length of a vector."""
    square = 0.0
    for j in range(len(total)):
        square += total[j] * total[j]
    return math.sqrt(square)


@njit(cache=True, nogil=True)
def _log_marginal(n_features, prior, concentration, n, length):
    """Log density of n rows whose sum has this length; the uniform density is 1, and concentration 0 is integrated out.

    `prior` is that of `DenseDirectionData`.
    """
    order, length = 0.5 * n_features - 1.0, min(length, float(n))
    if concentration > 0.0:
        peaks = n * compute_log_peak(order, concentration) - compute_log_peak(order, concentration * length)
        return peaks - concentration * (n - length)
    rows, gap, log_normalizer = prior
    return tabulate(order, n + rows, n - length + gap, np.full(1, length))[2] - log_normalizer


@njit(cache=True, nogil=True)
def log_marginals(n_features, prior, concentration, sizes, lengths):
    """The same for each cluster, (K,)."""
    out = np.empty(len(sizes))
    for k in range(len(sizes)):
        out[k] = _log_marginal(n_features, prior, concentration, sizes[k], lengths[k])
    return out


@njit(cache=True, nogil=True)
def _log_predictive_given(order, concentration, length, product):
    """Log predictive density of a row given the concentration, and a sum with a length and a product with the row."""
    after = math.sqrt(max(length * length + 2.0 * product + 1.0, 0.0))
    peaks = compute_log_peak(order, concentration) + compute_log_peak(order, concentration * length)
    return peaks - compute_log_peak(order, concentration * after) - concentration * (1.0 + length - after)


@njit(cache=True, nogil=True)
def _log_predictive(data, concentration, n, length, product):
    """The same for n rows with this sum; the concentration 0 is replaced by an estimate."""
    if concentration == 0.0:
        (rows, gap, _), d = data.prior, float(data.n_features)
        ratio = min((length + rows - gap) / (n + rows), _MAX_RATIO)
        concentration = ratio * (d - ratio * ratio) / (1.0 - ratio * ratio)
    return _log_predictive_given(0.5 * data.n_features - 1.0, concentration, length, product)


@kernels.refresh_posterior.of(DenseDirectionData, SparseDirectionData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    posterior.lengths[label] = _length(statistics.sums[label])


@kernels.add_predictive.of(DenseDirectionData, SparseDirectionData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    for c in range(n_labels):
        label = labels[c]
        product = product_with(data, row, statistics.sums[label])
        n, length = statistics.sizes[label], posterior.lengths[label]
        out[c] += _log_predictive(data, posterior.concentration, n, length, product)


@kernels.log_bayes_factor.of(DenseDirectionData, SparseDirectionData)
@njit(cache=True, nogil=True)
def _log_bayes_factor(data, statistics, posterior, label_0, label_1):
    n_0, n_1 = statistics.sizes[label_0], statistics.sizes[label_1]
    length = _length(statistics.sums[label_0] + statistics.sums[label_1])
    n_features, prior, concentration = data.n_features, data.prior, posterior.concentration
    apart = _log_marginal(n_features, prior, concentration, n_0, posterior.lengths[label_0])
    apart += _log_marginal(n_features, prior, concentration, n_1, posterior.lengths[label_1])
    return apart - _log_marginal(n_features, prior, concentration, n_0 + n_1, length)


# Predictive densities with the concentration integrated out, as functions of the cosine with the mean direction


def coefficients_of(order: float, tables: list[tuple[np.ndarray, np.ndarray]], lengths: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients of log predictive densities as functions of the cosine, (K, degree + 1).

    Densities are relative to the uniform one. `tables` has log concentrations and their log probabilities for each
    cluster; `order` is d / 2 - 1.
    """
    values = np.empty((len(lengths), len(_POINTS)))
    for (nodes, logs), length, own in zip(tables, lengths, values, strict=True):
        _fill_predictive(order, nodes, logs, length, _POINTS, own)
    coefficients = dct(values, type=1, axis=1) / _DEGREE
    coefficients[:, [0, -1]] *= 0.5
    return coefficients


@njit(cache=True, nogil=True)
def _fill_predictive(order, nodes, logs, length, cosines, out):
    terms = np.empty(len(nodes))
    for i in range(len(cosines)):
        for q in range(len(nodes)):
            terms[q] = logs[q] + _log_predictive_given(order, math.exp(nodes[q]), length, length * cosines[i])
        largest = terms.max()
        out[i] = largest + math.log(np.exp(terms - largest).sum())


@njit(cache=True, nogil=True)
def add_interpolated(cosines, coefficients, out):
    """Add Chebyshev series of the cosines, (n, K), to `out`, by Clenshaw's recurrence."""
    n_terms = coefficients.shape[1]
    for i in range(len(out)):
        for k in range(out.shape[1]):
            x, one, two = min(max(cosines[i, k], -1.0), 1.0), 0.0, 0.0
            for c in range(n_terms - 1, 0, -1):
                one, two = 2.0 * x * one - two + coefficients[k, c], one
            out[i, k] += x * one - two + coefficients[k, 0]
