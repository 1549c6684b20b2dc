"""Documents of a spherical admixture: their proportions' chains, and what topics learn from them.

The gradient of the log likelihood in topic k is

    kappa sum_d [ E(theta_dk / q_d) v_d - sum_j E(theta_dj theta_dk cos_d / q_d^2) beta_j ],

with q_d = |beta theta_d| and cos_d = v_d'beta theta_d / q_d. A document contributes through K numbers, its *pull*
theta / q, and a term of one K x K matrix, the *drag*, which is common to all: no step costs documents times words.
"""

from __future__ import annotations

import math

import numpy as np

from ...random._keys import fold_in
from ...topics.spherical_proportions import cosine_terms, fill_softmax, move_in_logs, move_on_sphere
from ...utils._njit import njit

_GAIN = 0.1  # of the logarithm of a step size, per unit of acceptance probability
_TARGET = 0.8  # acceptance probability


@njit(cache=True, nogil=True)
def _hear(theta, b, gram, weight, pull, drag, scratch):
    """Add a draw of one document's proportions to its pull and to the drag, times `weight`; returns the cosine."""
    cosine, root = cosine_terms(theta, b, gram, scratch)
    for k in range(len(theta)):
        scratch[k] = theta[k] / root
    for k in range(len(theta)):
        pull[k] += weight * scratch[k]
        share = weight * cosine * scratch[k]
        for j in range(len(theta)):
            drag[k, j] += share * scratch[j]
    return cosine


@njit(cache=True, nogil=True)
def move_proportions(
    rows,
    start,
    stop,
    products,
    gram,
    exponents,
    on_sphere,
    kappa,
    n_draws,
    n_steps,
    key,
    adapts,
    points,
    log_steps,
    out_pull,
    out_drag,
    out_cosine,
    out_draws,
):
    """Advance the chains of documents ``rows[start:stop]`` by `n_draws` transitions each; their mean contributes.

    `points` and `log_steps` are those of all documents, in place, and `exponents` those of the density of a point: on
    the sphere 2 alpha - 1, in logs alpha. `out_drag`, (K, K), gets the sum over these documents. The draws of theta go
    to `out_draws`, (n, n_draws, K), if it has room for them.
    """
    n = products.shape[1]
    work = np.empty((4, n))
    out_drag[:] = 0.0
    for i in range(start, stop):
        row = rows[i]
        b, x, theta = products[i], points[row], work[0]
        out_pull[i] = 0.0
        cosines = 0.0
        row_key = fold_in(key, row)
        for draw in range(n_draws):
            step = math.exp(log_steps[row])
            draw_key = fold_in(row_key, draw)
            if on_sphere:
                rate = move_on_sphere(x, exponents, kappa, b, gram, step, n_steps, draw_key, work)
            else:
                rate = move_in_logs(x, exponents, kappa, b, gram, step, n_steps, draw_key, work)
            if adapts:
                log_steps[row] += _GAIN * (rate - _TARGET)
            cosines += _hear(theta, b, gram, 1.0 / n_draws, out_pull[i], out_drag, work[1])
            if out_draws.shape[1] > 0:
                for k in range(n):
                    out_draws[i, draw, k] = theta[k]
        out_cosine[i] = cosines / n_draws


@njit(cache=True, nogil=True)
def hear_proportions(draws, start, stop, products, gram, out_pull, out_drag, out_cosine):
    """What documents ``start:stop`` say with the proportions `draws`, (n, n_draws, K); see `move_proportions`."""
    n_draws = draws.shape[1]
    scratch = np.empty(draws.shape[2])
    out_drag[:] = 0.0
    for i in range(start, stop):
        out_pull[i] = 0.0
        cosines = 0.0
        for draw in range(n_draws):
            cosines += _hear(draws[i, draw], products[i], gram, 1.0 / n_draws, out_pull[i], out_drag, scratch)
        out_cosine[i] = cosines / n_draws


@njit(cache=True, nogil=True)
def mean_proportions(points, rows, on_sphere):
    """Mean over documents `rows` of where their chains stand."""
    n = points.shape[1]
    total, theta = np.zeros(n), np.empty(n)
    for i in range(len(rows)):
        row = rows[i]
        if on_sphere:
            for k in range(n):
                theta[k] = points[row, k] * points[row, k]
        else:
            fill_softmax(points[row], theta)
        for k in range(n):
            total[k] += theta[k]
    for k in range(n):
        total[k] /= len(rows)
    return total
