r"""Distributions of a document about the direction of its mixture of topics, given its proportions.

A density is a named tuple, by whose type numba chooses the kernels. With one concentration kappa, the log density is
kappa cos up to a constant. With one for each topic, kappa(theta) = sum_k theta_k kappa_k for proportions theta, and

    L(theta) = log c(kappa(theta)) + kappa(theta) cos(theta),
    dL / dtheta_i = kappa(theta) dcos / dtheta_i + (cos - A(kappa(theta))) (kappa_i - kappa(theta)) / sum(theta),

where c is the normaliser relative to that of the uniform distribution, A = -(log c)' the Bessel ratio, and theta need
not be normalised.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..distributions._bessel import compute_derivative, compute_log_peak, compute_ratio
from ..utils._njit import by_type, njit_part

_LEAST_SUM = 1e-300  # of proportions that have underflowed


class OneConcentration(NamedTuple):
    """One concentration for all documents."""

    reference: float


class TopicConcentrations(NamedTuple):
    """A concentration for each topic; that of a document is their mean, weighted by its proportions."""

    reference: float  # mean of the concentrations of the topics, the unit of weights
    concentrations: np.ndarray  # (K,)
    order: float  # half the number of features, minus 1
    scale: float  # of all concentrations; below 1 in annealing


DocumentDensity = OneConcentration | TopicConcentrations


def density_of(concentration: float | np.ndarray, n_features: int) -> DocumentDensity:
    """The density with this concentration, or with these of the topics."""
    if np.ndim(concentration) == 0:
        return OneConcentration(float(concentration))
    given = np.array(concentration, dtype=np.float64)
    return TopicConcentrations(float(given.mean()), given, 0.5 * n_features - 1.0, 1.0)


def relative_concentrations(density: DocumentDensity, proportions: np.ndarray) -> np.ndarray:
    """Concentrations of documents with these proportions, (..., K), over the reference."""
    if isinstance(density, OneConcentration):
        return np.ones(proportions.shape[:-1])
    return proportions @ density.concentrations / (proportions.sum(axis=-1) * density.reference)


@njit_part
def cosine_terms(theta, b, B, out):
    """Fill `out` with the gradient of the cosine b'theta / sqrt(theta'B theta) in theta; returns it and the root."""
    n = len(theta)
    along = 0.0
    squared = 0.0
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += B[i, j] * theta[j]
        out[i] = total
        squared += theta[i] * total
        along += theta[i] * b[i]
    root = math.sqrt(squared)
    ratio = along / squared
    for i in range(n):
        out[i] = (b[i] - ratio * out[i]) / root
    return along / root, root


@by_type
def likelihood_terms(density, theta, b, B, out):
    """The log density up to a constant, and a factor: times it, `out` is filled with the gradient in theta."""


@by_type
def log_document(density, theta, cosine):
    """The log density of a document with this cosine, divided by that at its mode if there is one concentration."""


@by_type
def concentration_at(density, theta):
    """The concentration of a document with these proportions."""


@by_type
def concentration_terms(density, theta, total, cosine, out):
    """The concentration, the derivative of the log density in it, and the Fisher information about it.

    They are 0s if the concentration is constant. If not, `out` is filled with its gradient in theta; `total` is the sum
    of theta.
    """


@by_type
def relative_terms(density, theta):
    """The concentration over the reference, and log c(kappa(theta)) minus that at the reference."""


@by_type
def at_share(density, share):
    """The density of a step of annealing, from the uniform distribution to the density itself."""


@by_type
def log_gain(density, before, theta, cosine):
    """`log_document` of a density minus that of an earlier step of annealing."""


@likelihood_terms.of(OneConcentration)
@njit_part
def _likelihood_terms(density, theta, b, B, out):
    cosine, _ = cosine_terms(theta, b, B, out)
    return density.reference * cosine, density.reference


@log_document.of(OneConcentration)
@njit_part
def _log_document(density, theta, cosine):
    return density.reference * (cosine - 1.0)


@concentration_at.of(OneConcentration)
@njit_part
def _concentration_at(density, theta):
    return density.reference


@concentration_terms.of(OneConcentration)
@njit_part
def _concentration_terms(density, theta, total, cosine, out):
    return density.reference, 0.0, 0.0


@relative_terms.of(OneConcentration)
@njit_part
def _relative_terms(density, theta):
    return 1.0, 0.0


@at_share.of(OneConcentration)
@njit_part
def _at_share(density, share):
    return OneConcentration(density.reference if share == 1.0 else math.expm1(share * math.log1p(density.reference)))


@log_gain.of(OneConcentration)
@njit_part
def _log_gain(density, before, theta, cosine):
    return (density.reference - before.reference) * (cosine - 1.0)


@concentration_at.of(TopicConcentrations)
@njit_part
def _concentration_at_topics(density, theta):
    total, weighted = 0.0, 0.0
    for k in range(len(density.concentrations)):  # scratch memory may be longer
        total += theta[k]
        weighted += theta[k] * density.concentrations[k]
    return density.scale * weighted / max(total, _LEAST_SUM)


@concentration_terms.of(TopicConcentrations)
@njit_part
def _concentration_terms_of_topics(density, theta, total, cosine, out):
    concentration, order, largest = _concentration_at_topics(density, theta), density.order, 0.0
    for k in range(len(out)):
        out[k] = (density.scale * density.concentrations[k] - concentration) / total
        largest = max(largest, abs(out[k]) * total)
    if largest <= 1e-9 * concentration:  # equal apart from rounding
        return concentration, 0.0, 0.0
    ratio = compute_ratio(order, concentration)
    return concentration, cosine - ratio, compute_derivative(order, concentration, ratio)


@log_document.of(TopicConcentrations)
@njit_part
def _log_document_of_topics(density, theta, cosine):
    concentration = _concentration_at_topics(density, theta)
    return compute_log_peak(density.order, concentration) + concentration * (cosine - 1.0)


@likelihood_terms.of(TopicConcentrations)
@njit_part
def _likelihood_terms_of_topics(density, theta, b, B, out):
    cosine, _ = cosine_terms(theta, b, B, out)
    concentration, total = _concentration_at_topics(density, theta), 0.0
    for k in range(len(theta)):
        total += theta[k]
    gap = (cosine - compute_ratio(density.order, concentration)) / max(total, _LEAST_SUM)
    for k in range(len(theta)):
        out[k] = concentration * out[k] + gap * (density.scale * density.concentrations[k] - concentration)
    return compute_log_peak(density.order, concentration) + concentration * (cosine - 1.0), 1.0


@relative_terms.of(TopicConcentrations)
@njit_part
def _relative_terms_of_topics(density, theta):
    concentration, order = _concentration_at_topics(density, theta), density.order
    beyond = compute_log_peak(order, concentration) - compute_log_peak(order, density.reference)
    return concentration / density.reference, beyond - (concentration - density.reference)


@log_gain.of(TopicConcentrations)
@njit_part
def _log_gain_of_topics(density, before, theta, cosine):
    return _log_document_of_topics(density, theta, cosine) - _log_document_of_topics(before, theta, cosine)


@at_share.of(TopicConcentrations)
@njit_part
def _topics_at_share(density, share):
    scale = 1.0 if share == 1.0 else math.expm1(share * math.log1p(density.reference)) / density.reference
    return TopicConcentrations(scale * density.reference, density.concentrations, density.order, scale)


def ratio_slope(order, x):
    """An approximation psi of the derivative of the Bessel ratio, and its first two derivatives."""
    half = order + 0.5
    radius = np.sqrt(half * half + x * x)
    square, cosine = radius * (radius + half), half / radius
    first = x * (2.0 + cosine)
    second = 2.0 + cosine**3
    value = half / square
    return value, -value * first / square, value * (2.0 * first * first / square - second) / square


ratio_slope_terms = njit_part(ratio_slope)
