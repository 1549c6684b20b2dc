"""Predictive densities of directions as functions of the cosine with the mean direction of a cluster.

The density of a row given a cluster depends only on that cosine. With the concentration integrated out it is a sum over
a table of concentrations. It is computed at Chebyshev points and interpolated.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import dct

from ...distributions._bessel_kernels import compute_log_peak
from ...utils._njit import njit

_DEGREE = 64
_POINTS = np.cos(np.pi * np.arange(_DEGREE + 1) / _DEGREE)


def coefficients_of(order: float, tables: list[tuple[np.ndarray, np.ndarray]], lengths: np.ndarray) -> np.ndarray:
    """Chebyshev coefficients of the log predictive density of a row given each cluster, (K, degree + 1).

    Parameters
    ----------
    order : float
        d / 2 - 1.
    tables : list of (ndarray, ndarray)
        For each cluster, values of the logarithm of the concentration, and logs of their probabilities.
    lengths : ndarray of shape (K,)
        Lengths of the sums of the clusters.

    Returns
    -------
    coefficients : ndarray of shape (K, degree + 1)
        Of densities relative to the uniform distribution.
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
        after = math.sqrt(max(length * length + 2.0 * length * cosines[i] + 1.0, 0.0))
        for q in range(len(nodes)):
            concentration = math.exp(nodes[q])
            peaks = compute_log_peak(order, concentration) + compute_log_peak(order, concentration * length)
            peaks -= compute_log_peak(order, concentration * after)
            terms[q] = logs[q] + peaks - concentration * (1.0 + length - after)
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
