"""Posteriors of concentrations, and kernels of clusters of directions: sums of rows, scores, and moves."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from scipy.fft import dct

from ...distributions._bessel import compute_log_peak, compute_log_scaled, compute_ratio
from ...random._keys import fold_in, uniform
from ...random._variates import exponential
from ...utils._conditions import MOST_COUNTED, Real
from ...utils._njit import by_type, njit, njit_part
from .. import kernels
from .._linear_kernels import merge_labels
from .rows import fill_row_scores

# For n rows in clusters whose sums have the lengths R_k, and the prior of `VonMisesFisher`, the density of kappa is
# proportional to
#
#     c(kappa)^(n + a) exp(b kappa) / prod_k c(kappa R_k),
#
# where c is the von Mises-Fisher normaliser relative to that of the uniform distribution. Since log c(kappa) =
# peak(kappa) - kappa, its logarithm is
#
#     f(kappa) = (n + a) peak(kappa) - sum_k peak(kappa R_k) - gap kappa,   gap = n - sum_k R_k + a - b,
#
# without differences of large numbers. The density of u = log kappa is tabulated at equal steps around its mode. Sums
# over the table are integrals, since the trapezoidal rule is very accurate for smooth densities, and draws use the
# table as an envelope.

Concentration = float | Literal["shared", "per_component"]

_MOST_NODES = 4096
_STEP = 0.35  # between nodes, in standard deviations at the mode
_DROP = 45.0  # nats below the mode at which the table ends: the rest has a share of about 1e-19
_EXCESS = 0.15  # of second differences: 1/8 bounds the log density minus its linear interpolation, if they are constant
_N_HALVINGS = 60


class ConcentrationPrior(NamedTuple):
    """Prior equivalent to `rows` rows whose mean cosine with the mean direction is `cosine`."""

    rows: Annotated[float, Real(above=0, high=MOST_COUNTED)]
    cosine: Annotated[float, Real(low=0, high=1)]

    @property
    def gap(self) -> float:
        """Rows minus the sum of their cosines: a - b."""
        return self.rows * (1.0 - self.cosine)

    @lru_cache(maxsize=64)  # noqa: B019, it holds numbers only
    def log_normalizer(self, d: int) -> float:
        """Log of the integral of the exponential of the log prior density, rows peak(kappa) - gap kappa."""
        return tabulate(0.5 * d - 1.0, self.rows, self.gap, np.empty(0))[2]


@njit(cache=True, nogil=True)
def _log_density(order, n, gap, lengths, u):
    """f(kappa) + u at kappa = exp(u), where `n` includes the prior."""
    concentration, of_uniform = math.exp(u), compute_log_scaled(order, 0.0)
    total = n * (of_uniform - compute_log_scaled(order, concentration)) - gap * concentration
    for length in lengths:
        total -= of_uniform - compute_log_scaled(order, concentration * length)
    return total + u


@njit(cache=True, nogil=True)
def _slope(order, n, gap, lengths, u):
    """Derivative of `_log_density`."""
    concentration = math.exp(u)
    total = n * (1.0 - compute_ratio(order, concentration)) - gap
    for length in lengths:
        total -= length * (1.0 - compute_ratio(order, concentration * length))
    return concentration * total + 1.0


@njit(cache=True, nogil=True)
def _mode(order, n, gap, lengths):
    """The mode of u."""
    high = math.log((n * (order + 1.0) + 1.0) / gap)  # the slope is negative there: kappa (1 - A) < order + 1 / 2
    step = 1.0
    low = high - step
    while _slope(order, n, gap, lengths, low) < 0.0:
        high, step = low, 1.5 * step
        low -= step
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (low + high)
        if _slope(order, n, gap, lengths, middle) < 0.0:
            high = middle
        else:
            low = middle
        if high - low < 1e-6:
            break
    return 0.5 * (low + high)


@njit(cache=True, nogil=True)
def _edge(order, n, gap, lengths, mode, least, step):
    """A point on one side of the mode where the log density is below `least`."""
    u = mode + step
    while _log_density(order, n, gap, lengths, u) > least:
        step *= 1.5
        u += step
    return u


@njit(cache=True, nogil=True)
def tabulate(order, n, gap, lengths):
    """Tabulate the posterior of a concentration: nodes u, logs of their probabilities, and of the integral over kappa.

    `order` is d / 2 - 1, `n` the number of rows plus a, `gap` this number minus the sum of the lengths of sums, (K,),
    plus a - b, positive.
    """
    mode = _mode(order, n, gap, lengths)
    top, small = _log_density(order, n, gap, lengths, mode), 1e-4
    curvature = _slope(order, n, gap, lengths, mode - small) - _slope(order, n, gap, lengths, mode + small)
    deviation = 1.0 / math.sqrt(max(0.5 * curvature / small, 1e-2))
    left = _edge(order, n, gap, lengths, mode, top - _DROP, -9.7 * deviation)
    right = _edge(order, n, gap, lengths, mode, top - _DROP, 9.7 * deviation)
    n_nodes = min(_MOST_NODES, 2 + int((right - left) / (_STEP * deviation)))
    step, total = (right - left) / (n_nodes - 1), 0.0
    nodes, logs = np.empty(n_nodes), np.empty(n_nodes)
    for i in range(n_nodes):
        nodes[i] = left + step * i
        logs[i] = _log_density(order, n, gap, lengths, nodes[i]) - top
        total += math.exp(logs[i])
    log_sum = math.log(total)
    logs -= log_sum
    return nodes, logs, top + log_sum + math.log(step)


@njit(cache=True, nogil=True)
def draw_concentration(key, order, n, gap, lengths):
    """Draw a concentration from its posterior, exactly; parameters as of `tabulate`.

    The logs of the table are interpolated linearly and raised in each interval by a bound of the difference to the
    density. A draw from this envelope is accepted with the ratio of the densities.
    """
    nodes, logs, _ = tabulate(order, n, gap, lengths)
    n_nodes, total = len(nodes), 0.0
    masses, bounds = np.empty(n_nodes - 1), np.empty(n_nodes - 1)
    for i in range(n_nodes - 1):
        bounds[i] = _EXCESS * max(_bend(logs, i), _bend(logs, i + 1), 1e-3)
        low, rise = logs[i], logs[i + 1] - logs[i]
        total += math.exp(low + bounds[i]) * (math.expm1(rise) / rise if abs(rise) > 1e-9 else 1.0 + 0.5 * rise)
        masses[i] = total
    offset = _log_density(order, n, gap, lengths, nodes[n_nodes // 2]) - logs[n_nodes // 2]
    attempt = 0
    while True:
        of_attempt = fold_in(key, attempt)
        attempt += 1
        place = min(int(np.searchsorted(masses, uniform(of_attempt, 0) * total)), n_nodes - 2)
        rise, v = logs[place + 1] - logs[place], uniform(of_attempt, 1)
        share = math.log1p(v * math.expm1(rise)) / rise if abs(rise) > 1e-9 else v
        u = nodes[place] + share * (nodes[place + 1] - nodes[place])
        log_ratio = _log_density(order, n, gap, lengths, u) - offset - (logs[place] + share * rise)
        if -exponential(of_attempt, 2) <= log_ratio - bounds[place]:
            return math.exp(u)


@njit(cache=True, nogil=True)
def _bend(logs, i):
    """Minus the second difference of the logs at a node, or at the inner node next to an end."""
    inner = min(max(i, 1), len(logs) - 2)
    return 2.0 * logs[inner] - logs[inner - 1] - logs[inner + 1]


# With a given concentration, or one that all clusters share and that is drawn before split-merge moves, predictive
# densities are those given it. Otherwise predictive densities use an estimate of the concentration from the rows of the
# cluster: they propose sides and partners, and any function of the cluster is right for this. Marginal densities are
# exact.

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


@kernels.refresh_posterior.of(DenseDirectionData, SparseDirectionData)
@njit_part
def _refresh_posterior(data, statistics, posterior, label):
    posterior.lengths[label] = _length(statistics.sums[label])


@kernels.add_predictive.of(DenseDirectionData, SparseDirectionData)
@njit_part
def _add_predictive(data, statistics, posterior, row, labels, n_labels, out):
    (rows, gap, _), d = data.prior, float(data.n_features)
    for c in range(n_labels):
        label, concentration = labels[c], posterior.concentration
        product = product_with(data, row, statistics.sums[label])
        length = posterior.lengths[label]
        if concentration == 0.0:  # each cluster has its own, of which this is an estimate
            ratio = min((length + rows - gap) / (statistics.sizes[label] + rows), _MAX_RATIO)
            concentration = ratio * (d - ratio * ratio) / (1.0 - ratio * ratio)
        out[c] += _log_predictive_given(0.5 * data.n_features - 1.0, concentration, length, product)


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
