"""Importance sampling of the proportions of a document under spherical topics: weighted sums, and draws of the prior.

A weight is the density of the document given its proportions, divided by c_V(kappa) exp(kappa), times the ratio of the
prior density to the proposal density. Draws of the prior are computed in batches, with one draw per column, so that the
inner loops run over draws.
"""

from __future__ import annotations

import math

import numpy as np

from ..random._keys import fold_in
from ..random._variates import log_gamma_variate
from ..topics.document_densities import log_document
from ..utils._njit import njit_part

_BATCH = 64
LEAST_SQUARE = 1e-16  # minimum of theta'B theta, which is 0, or negative by rounding, if topics cancel each other


@njit_part
def log_dirichlet_constant(alpha):
    """Log of Gamma(sum alpha) / prod Gamma(alpha)."""
    total = 0.0
    constant = 0.0
    for i in range(len(alpha)):
        total += alpha[i]
        constant -= math.lgamma(alpha[i])
    return constant + math.lgamma(total)


@njit_part
def reset(tally):
    """Initialise the tally: the largest log weight, and relative to it the sums of w, of w^2 and of w theta."""
    tally[0] = -np.inf
    for i in range(1, len(tally)):
        tally[i] = 0.0


@njit_part
def add_draw(log_weight, theta, tally):
    """Add a draw to the tally; a weight of NaN counts as 0."""
    if log_weight > tally[0]:
        shrink = math.exp(tally[0] - log_weight)
        tally[0] = log_weight
        for i in range(1, len(tally)):
            tally[i] *= shrink
        tally[2] *= shrink
    if not log_weight > -np.inf:
        return
    weight = math.exp(log_weight - tally[0])
    tally[1] += weight
    tally[2] += weight * weight
    for i in range(len(tally) - 3):
        tally[3 + i] += weight * theta[i]


@njit_part
def effective_fraction(tally, n_draws):
    """Effective sample size as a fraction of the number of draws; 0 if all weights are 0."""
    if not tally[2] > 0.0:
        return 0.0
    return tally[1] * tally[1] / tally[2] / n_draws


@njit_part
def _normalise_batch(alpha, n_draws, y, log_prior, row):
    """Replace columns y by theta = softmax(y); fill `log_prior` with sum_k alpha_k log theta_k; `row` is scratch."""
    for s in range(n_draws):
        row[s] = y[0, s]
        log_prior[s] = 0.0
    for i in range(1, len(alpha)):
        for s in range(n_draws):
            row[s] = max(row[s], y[i, s])
    mass = 0.0
    for i in range(len(alpha)):
        mass += alpha[i]
        for s in range(n_draws):
            y[i, s] -= row[s]
            log_prior[s] += alpha[i] * y[i, s]
    for s in range(n_draws):
        row[s] = 0.0
    for i in range(len(alpha)):
        for s in range(n_draws):
            y[i, s] = math.exp(y[i, s])
            row[s] += y[i, s]
    for s in range(n_draws):
        log_prior[s] -= mass * math.log(row[s])
        row[s] = 1.0 / row[s]
    for i in range(len(alpha)):
        for s in range(n_draws):
            y[i, s] *= row[s]


@njit_part
def _fill_cosines(b, B, n_draws, theta, out, row, squared):
    """Fill `out` with the cosines between the document and beta theta, for columns theta; two rows are scratch."""
    for s in range(n_draws):
        out[s] = 0.0
        squared[s] = 0.0
    for i in range(len(b)):
        for s in range(n_draws):
            row[s] = 0.5 * B[i, i] * theta[i, s]
        for j in range(i):
            weight = B[i, j]
            for s in range(n_draws):
                row[s] += weight * theta[j, s]
        for s in range(n_draws):
            squared[s] += 2.0 * row[s] * theta[i, s]
            out[s] += b[i] * theta[i, s]
    for s in range(n_draws):
        out[s] = min(1.0, max(-1.0, out[s] / math.sqrt(max(squared[s], LEAST_SQUARE))))


def prior_scratch_shape(n_components: int) -> tuple[int, int]:
    """Shape of scratch memory of `draw_from_prior`: columns of weights, three rows of a batch, and one theta."""
    return n_components + 4, max(n_components, _BATCH)


@njit_part
def draw_from_prior(alpha, density, b, B, key, n_draws, tally, scratch):
    """Add draws of the Dirichlet prior to the tally; `scratch` has the shape `prior_scratch_shape`."""
    n = len(alpha)
    cosines, squared, row, theta = scratch[n], scratch[n + 1], scratch[n + 2], scratch[n + 3]
    reset(tally)
    for first in range(0, n_draws, _BATCH):
        width = min(_BATCH, n_draws - first)
        for s in range(width):
            draw_key = fold_in(key, first + s)
            for i in range(n):
                scratch[i, s] = log_gamma_variate(fold_in(draw_key, i), alpha[i])
        _normalise_batch(alpha, width, scratch, squared, row)
        _fill_cosines(b, B, width, scratch, cosines, row, squared)
        for s in range(width):
            for i in range(n):
                theta[i] = scratch[i, s]
            add_draw(log_document(density, theta, cosines[s]), theta, tally)
