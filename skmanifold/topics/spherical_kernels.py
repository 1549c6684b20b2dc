"""Kernels of topics on the sphere and of the proportions of single documents given the topics.

Topics have words as rows, (V, K), so that the entries of a word are adjacent in memory.

A document enters only by b_k = beta_k'v, and the topics by B_jk = beta_j'beta_k, so that the cost is at most
K^2. The likelihood (`document_densities.py`) does not depend on the length of theta, so coordinates need not normalise
theta. There are two coordinate systems, both with a density that includes the Jacobian:

- x on the unit sphere, theta_k = x_k^2, for Dirichlet parameters of 1/2 and more: prod |x_k|^(2 alpha_k - 1);
- y in R^K, theta_k = exp(y_k), exp(y_k) ~ Ga(alpha_k, 1) a priori: prod exp(alpha_k y_k - exp(y_k)), which has no
  attracting singularity where alpha_k is small.
"""

from __future__ import annotations

import math

import numpy as np

from ..distributions._bessel import compute_ratio
from ..manifolds._sphere import flow_point, project_point
from ..random._keys import Purpose, fold_in, uniform
from ..random._variates import normal
from ..utils._njit import njit, njit_part
from .document_densities import likelihood_terms

_TILE = 64  # words per tile, so that a tile of topics fits in the L1 cache
_PART = 256  # words for which gradients of all topics are computed before the next ones


@njit(cache=True, nogil=True)
def multiply_columns(start, stop, columns, out):
    """Inner products of the columns over the rows from `start` to `stop`: the lower triangle."""
    n = columns.shape[1]
    out[:] = 0.0
    whole = start + (stop - start) // 4 * 4
    for row in range(start, whole, 4):  # four rows at a time, so that the products are read and written less often
        r0, r1, r2, r3 = columns[row], columns[row + 1], columns[row + 2], columns[row + 3]
        for j in range(n):
            a, b, c, d = r0[j], r1[j], r2[j], r3[j]
            for k in range(j + 1):
                out[j, k] += (a * r0[k] + b * r1[k]) + (c * r2[k] + d * r3[k])
    for row in range(whole, stop):
        cells = columns[row]
        for j in range(n):
            for k in range(j + 1):
                out[j, k] += cells[j] * cells[k]


@njit(cache=True, nogil=True)
def combine_columns(start, stop, columns, coefficients, out):
    """Columns times `coefficients` for the rows from `start` to `stop`; returns the new columns' sums of squares."""
    n_out = coefficients.shape[1]
    squares = np.zeros(n_out)
    whole = columns.shape[1] // 4 * 4
    for row in range(start, stop):
        cells, sums = columns[row], out[row]
        sums[:] = 0.0
        for j in range(0, whole, 4):
            a, b, c, d = cells[j], cells[j + 1], cells[j + 2], cells[j + 3]
            c0, c1, c2, c3 = coefficients[j], coefficients[j + 1], coefficients[j + 2], coefficients[j + 3]
            for k in range(n_out):
                sums[k] += (a * c0[k] + b * c1[k]) + (c * c2[k] + d * c3[k])
        for j in range(whole, columns.shape[1]):
            for k in range(n_out):
                sums[k] += cells[j] * coefficients[j, k]
        for k in range(n_out):
            squares[k] += sums[k] * sums[k]
    return squares


@njit(cache=True, nogil=True)
def fill_document_gradients(start, stop, documents, weights, coupling, topics, out):
    """Write ``weights[n, k] * documents[n] - coupling[n, k] @ topics``, (n, K, V), for documents ``start:stop``."""
    n_topics, n_words = topics.shape
    whole = n_topics // 4 * 4
    for n in range(start, stop):
        for begin in range(0, n_words, _PART):
            words = slice(begin, min(begin + _PART, n_words))
            for k in range(n_topics):
                sums, cells, rates = out[n, k, words], documents[n, words], coupling[n, k]
                for v in range(len(sums)):
                    sums[v] = weights[n, k] * cells[v]
                for j in range(0, whole, 4):
                    a, b, c, d = rates[j], rates[j + 1], rates[j + 2], rates[j + 3]
                    t0, t1, t2, t3 = topics[j, words], topics[j + 1, words], topics[j + 2, words], topics[j + 3, words]
                    for v in range(len(sums)):
                        sums[v] -= (a * t0[v] + b * t1[v]) + (c * t2[v] + d * t3[v])
                for j in range(whole, n_topics):
                    for v in range(len(sums)):
                        sums[v] -= rates[j] * topics[j, begin + v]


@njit(cache=True, nogil=True)
def fill_word_major(position, radii, start, stop, out):
    """Write topics of length `radii`, (K, V), as unit vectors with words as rows."""
    for begin in range(start, stop, _TILE):
        end = min(begin + _TILE, stop)
        for k in range(position.shape[0]):
            scale = 1.0 / radii[k]
            for v in range(begin, end):
                out[v, k] = scale * position[k, v]


@njit(cache=True, nogil=True)
def finish_gradient(word_topic, prior, radii, start, stop, out):
    """Transpose a gradient to (K, V), add the common gradient of the prior, and scale it to spheres of `radii`."""
    for begin in range(start, stop, _TILE):
        end = min(begin + _TILE, stop)
        for k in range(out.shape[0]):
            scale = 1.0 / radii[k]
            for v in range(begin, end):
                out[k, v] = scale * (word_topic[v, k] + prior[v])


@njit(cache=True, nogil=True)
def collapsed_mean_prior(word_topic, direction, mean_concentration, topic_concentration, out):
    """Write the gradient of the log prior of the topics, the same for all topics, to `out`, (V,).

    Returns the length of kappa_0 m + sigma sum_k beta_k, and the mean cosines of topics with E(mu) and of that with m.
    """
    squares = 0.0
    with_topics = 0.0
    with_direction = 0.0
    for v in range(len(out)):
        total = 0.0
        for k in range(word_topic.shape[1]):
            total += word_topic[v, k]
        natural = mean_concentration * direction[v] + topic_concentration * total
        out[v] = natural
        squares += natural * natural
        with_topics += natural * total
        with_direction += natural * direction[v]
    length = math.sqrt(squares)
    if length > 0.0:
        gain = compute_ratio(0.5 * len(out) - 1.0, length) / length
    else:
        gain = 0.0
    for v in range(len(out)):
        out[v] *= topic_concentration * gain
    return length, gain * with_topics / word_topic.shape[1], gain * with_direction


def whole_gram(parts: np.ndarray) -> np.ndarray:
    """The matrix of inner products from lower triangles of its parts, (n_parts, K, K), which are summed in order."""
    lower = np.tril(np.add.reduce(parts, axis=0))
    return lower + np.tril(lower, -1).T


_NOISE = Purpose.NOISE
_ACCEPTANCE = Purpose.ACCEPTANCE
_LEAST = 1e-150  # of |x_k|: its square and inverse are finite


@njit_part
def _gradient_on_sphere(x, exponents, density, b, B, theta, out):
    """Log density at x and its Euclidean gradient; `exponents` are 2 alpha - 1, `theta` is overwritten by x^2."""
    log_prior = 0.0
    for i in range(len(x)):
        theta[i] = x[i] * x[i]
        if exponents[i] > 0.0:
            log_prior += exponents[i] * math.log(max(abs(x[i]), _LEAST))
    log_likelihood, factor = likelihood_terms(density, theta, b, B, out)
    for i in range(len(x)):
        out[i] *= 2.0 * factor * x[i]
        if exponents[i] > 0.0:
            out[i] += exponents[i] / math.copysign(max(abs(x[i]), _LEAST), x[i])
    return log_prior + log_likelihood


@njit_part
def _gradient_in_logs(y, shapes, density, b, B, theta, out):
    """Log density at y and its gradient; `theta` is overwritten by exp(y), scaled to a largest entry of 1."""
    top = y[0]
    for i in range(1, len(y)):
        top = max(top, y[i])
    for i in range(len(y)):
        theta[i] = math.exp(y[i] - top)
    log_likelihood, factor = likelihood_terms(density, theta, b, B, out)
    log_prior = 0.0
    for i in range(len(y)):
        mass = math.exp(y[i])
        log_prior += shapes[i] * y[i] - mass
        out[i] = factor * theta[i] * out[i] + shapes[i] - mass
    return log_prior + log_likelihood


@njit_part
def _fill_gradient(x, exponents, on_sphere, density, b, B, theta, out):
    if on_sphere:
        return _gradient_on_sphere(x, exponents, density, b, B, theta, out)
    return _gradient_in_logs(x, exponents, density, b, B, theta, out)


@njit_part
def move_point(x, exponents, on_sphere, density, b, B, step, n_steps, key, work):
    """One Hamiltonian Monte Carlo transition of x in place, geodesic on the sphere; returns the acceptance probability.

    `exponents` are 2 alpha - 1 on the sphere, where theta is x^2, else alpha; then theta is proportional to exp(x).
    `work` is scratch memory of shape (5, K), whose first row is theta of the new x, which sums to 1.
    """
    n = len(x)
    theta, gradient, v, new = work[0], work[1], work[2], work[3]
    given = exponents, on_sphere, density, b, B, theta, gradient
    before = _fill_gradient(x, *given)
    after = before
    noise = fold_in(key, _NOISE)
    for i in range(n):
        v[i] = normal(noise, i)
        new[i] = x[i]
    if on_sphere:
        project_point(new, v, 1.0)
    for i in range(n):
        before -= 0.5 * v[i] * v[i]
    for s in range(n_steps):
        for i in range(n):
            v[i] += (step if s > 0 else 0.5 * step) * gradient[i]
        if on_sphere:
            project_point(new, v, 1.0)
            flow_point(new, v, step, 1.0)
        else:
            for i in range(n):
                new[i] += step * v[i]
        after = _fill_gradient(new, *given)
    for i in range(n):
        v[i] += 0.5 * step * gradient[i]
    if on_sphere:
        project_point(new, v, 1.0)
    for i in range(n):
        after -= 0.5 * v[i] * v[i]
    if after - before > math.log1p(-uniform(key, _ACCEPTANCE)):  # not if it is NaN
        length = 0.0
        for i in range(n):
            length += new[i] * new[i]
        length = math.sqrt(length) if on_sphere else 1.0
        for i in range(n):
            x[i] = new[i] / length
    if on_sphere:
        for i in range(n):
            theta[i] = x[i] * x[i]
    else:
        fill_softmax(x, theta)
    return math.exp(min(0.0, after - before)) if after - before > -np.inf else 0.0


@njit_part
def fill_softmax(y, out):
    """Fill `out` with exp(y) / sum(exp(y))."""
    top = y[0]
    for i in range(1, len(y)):
        top = max(top, y[i])
    total = 0.0
    for i in range(len(y)):
        out[i] = math.exp(y[i] - top)
        total += out[i]
    for i in range(len(y)):
        out[i] /= total
