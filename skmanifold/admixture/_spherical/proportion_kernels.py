"""Transitions of the documents' proportions in a spherical admixture, and the likelihood terms that they give.

The gradient of the log likelihood with respect to topic k is

    kappa sum_d [ E(theta_dk / q_d) v_d - sum_j E(theta_dj theta_dk cos_d / q_d^2) beta_j ],

with q_d = |beta theta_d| and cos_d = v_d'beta theta_d / q_d. The first expectation is the document's K *weights*. The
second is summed over documents to one K x K matrix, the *coupling*. With a concentration for each topic, kappa is that
of the document, kappa(theta_d), within the expectations; weights and coupling are relative to a reference. So the cost
of a step does not include the number of documents times the number of words.
"""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import fold_in
from ...random._variates import log_gamma_variate
from ...topics.document_densities import cosine_terms, relative_terms
from ...topics.spherical_kernels import fill_softmax, move_in_logs, move_on_sphere
from ...utils._njit import njit

_GAIN = 0.1  # change of the logarithm of a step size per unit of acceptance probability
_TARGET = 0.8  # target acceptance probability
_LEAST = 1e-300  # least proportion, so that its logarithm is finite


@njit(cache=True, nogil=True)
def _add_draw(density, theta, b, gram, share, weights, coupling, scratch):
    """Add `share` times the terms of a draw of one document's proportions.

    Returns the cosine, and the normaliser's part of the log density beyond that at the reference. With one
    concentration for each topic, terms and cosine are multiplied by the document's over the reference.
    """
    cosine, root = cosine_terms(theta, b, gram, scratch)
    relative, log_beyond = relative_terms(density, theta)
    share = relative * share
    for k in range(len(theta)):
        scratch[k] = theta[k] / root
    for k in range(len(theta)):
        weights[k] += share * scratch[k]
        factor = share * cosine * scratch[k]
        for j in range(len(theta)):
            coupling[k, j] += factor * scratch[j]
    return relative * cosine, log_beyond


@njit(cache=True, nogil=True)
def move_proportions(
    rows,
    start,
    stop,
    products,
    gram,
    exponents,
    on_sphere,
    density,
    n_draws,
    n_steps,
    key,
    adapts,
    points,
    log_steps,
    out_weights,
    out_coupling,
    out_cosine,
    out_beyond,
    out_draws,
):
    """Advance the chains of documents ``rows[start:stop]`` by `n_draws` transitions each and average their terms.

    `points` and `log_steps` have the chains of all documents and are updated. `exponents` are 2 alpha - 1 on the
    sphere, alpha in logarithms. `out_coupling`, (K, K), gets the sum over these documents; `out_draws` the thetas, (n,
    n_draws, K), unless its second axis has length 0.
    """
    n = products.shape[1]
    work = np.empty((4, n))
    out_coupling[:] = 0.0
    for i in range(start, stop):
        row = rows[i]
        b, x, theta = products[i], points[row], work[0]
        out_weights[i] = 0.0
        cosines, beyond = 0.0, 0.0
        # Draws depend on the document's row, not on the minibatch or the task that it is in.
        row_key = fold_in(key, row)
        for draw in range(n_draws):
            step = math.exp(log_steps[row])
            draw_key = fold_in(row_key, draw)
            if on_sphere:
                rate = move_on_sphere(x, exponents, density, b, gram, step, n_steps, draw_key, work)
            else:
                rate = move_in_logs(x, exponents, density, b, gram, step, n_steps, draw_key, work)
            if adapts:
                log_steps[row] += _GAIN * (rate - _TARGET)
            # `move_on_sphere` and `move_in_logs` leave theta in the first row of `work`.
            terms = _add_draw(density, theta, b, gram, 1.0 / n_draws, out_weights[i], out_coupling, work[1])
            cosines += terms[0]
            beyond += terms[1]
            if out_draws.shape[1] > 0:
                for k in range(n):
                    out_draws[i, draw, k] = theta[k]
        out_cosine[i], out_beyond[i] = cosines / n_draws, beyond / n_draws


@njit(cache=True, nogil=True)
def fill_terms_given_proportions(
    density, draws, start, stop, products, gram, weights, coupling, out_cosine, out_beyond
):
    """Write the terms of documents ``start:stop`` given draws of proportions, (n, n_draws, K)."""
    n_draws = draws.shape[1]
    scratch = np.empty(draws.shape[2])
    coupling[:] = 0.0
    for i in range(start, stop):
        weights[i] = 0.0
        cosines, beyond = 0.0, 0.0
        for draw in range(n_draws):
            terms = _add_draw(density, draws[i, draw], products[i], gram, 1.0 / n_draws, weights[i], coupling, scratch)
            cosines += terms[0]
            beyond += terms[1]
        out_cosine[i], out_beyond[i] = cosines / n_draws, beyond / n_draws


@njit(cache=True, nogil=True)
def _fill_proportions(point, on_sphere, theta):
    """Fill the proportions at a point of a chain."""
    if on_sphere:
        for k in range(len(theta)):
            theta[k] = point[k] * point[k]
    else:
        fill_softmax(point, theta)


@njit(cache=True, nogil=True)
def proportions_of_rows(points, rows, on_sphere):
    """Proportions of documents `rows` at the current points of their chains, (n, K)."""
    out = np.empty((len(rows), points.shape[1]))
    for i in range(len(rows)):
        _fill_proportions(points[rows[i]], on_sphere, out[i])
    return out


@njit(cache=True, nogil=True)
def mean_proportions(points, rows, on_sphere):
    """Mean over documents `rows` of the proportions at the current points of their chains."""
    n = points.shape[1]
    total, theta = np.zeros(n), np.empty(n)
    for i in range(len(rows)):
        _fill_proportions(points[rows[i]], on_sphere, theta)
        for k in range(n):
            total[k] += theta[k]
    for k in range(n):
        total[k] /= len(rows)
    return total


@njit(cache=True, nogil=True)
def place_proportions(proportions, rows, alpha, key, on_sphere, points):
    """Set the chains of documents `rows` to the given proportions, (n, K); `points` has the chains of all documents.

    In the coordinates of log gamma variates, their sum does not enter the likelihood and is drawn from its prior.
    """
    total = alpha.sum()
    for i in range(len(rows)):
        row = rows[i]
        if on_sphere:
            points[row] = np.sqrt(proportions[i])
        else:
            log_sum = log_gamma_variate(fold_in(key, row), total)
            for k in range(len(alpha)):
                points[row, k] = log_sum + math.log(max(proportions[i, k], _LEAST))
