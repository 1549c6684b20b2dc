"""Proportions of single documents given the topics: densities, gradients and geodesic Monte Carlo transitions.

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

from ..manifolds._sphere import flow_point, project_point
from ..random._keys import Purpose, fold_in, uniform
from ..random._variates import normal
from ..utils._njit import njit_part
from .document_densities import likelihood_terms

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
def move_on_sphere(x, exponents, density, b, B, step, n_steps, key, work):
    """One geodesic Monte Carlo transition of x in place; returns the acceptance probability.

    `work` is scratch memory of shape (5, K), whose first row is theta of the new x.
    """
    n = len(x)
    theta, gradient, v, new = work[0], work[1], work[2], work[3]
    log_density = _gradient_on_sphere(x, exponents, density, b, B, theta, gradient)
    noise = fold_in(key, _NOISE)
    for i in range(n):
        v[i] = normal(noise, i)
        new[i] = x[i]
    project_point(new, v, 1.0)
    before = log_density
    for i in range(n):
        before -= 0.5 * v[i] * v[i]
    after = log_density
    for s in range(n_steps):
        for i in range(n):
            v[i] += (step if s > 0 else 0.5 * step) * gradient[i]
        project_point(new, v, 1.0)
        flow_point(new, v, step, 1.0)
        after = _gradient_on_sphere(new, exponents, density, b, B, theta, gradient)
    for i in range(n):
        v[i] += 0.5 * step * gradient[i]
    project_point(new, v, 1.0)
    for i in range(n):
        after -= 0.5 * v[i] * v[i]
    accepted = _finish(after - before, key)
    if accepted:
        length = 0.0
        for i in range(n):
            length += new[i] * new[i]
        length = math.sqrt(length)
        for i in range(n):
            x[i] = new[i] / length
    for i in range(n):
        theta[i] = x[i] * x[i]
    return math.exp(min(0.0, after - before)) if after - before > -np.inf else 0.0


@njit_part
def _finish(log_ratio, key):
    """Whether a move is accepted; a move whose ratio is NaN is rejected."""
    return log_ratio > math.log1p(-uniform(key, _ACCEPTANCE))


@njit_part
def move_in_logs(y, shapes, density, b, B, step, n_steps, key, work):
    """One Hamiltonian Monte Carlo transition of y in place, like `move_on_sphere`; theta sums to 1."""
    n = len(y)
    theta, gradient, v, new = work[0], work[1], work[2], work[3]
    log_density = _gradient_in_logs(y, shapes, density, b, B, theta, gradient)
    noise = fold_in(key, _NOISE)
    before = log_density
    for i in range(n):
        v[i] = normal(noise, i)
        new[i] = y[i]
        before -= 0.5 * v[i] * v[i]
    after = log_density
    for s in range(n_steps):
        for i in range(n):
            v[i] += (step if s > 0 else 0.5 * step) * gradient[i]
            new[i] += step * v[i]
        after = _gradient_in_logs(new, shapes, density, b, B, theta, gradient)
    for i in range(n):
        v[i] += 0.5 * step * gradient[i]
        after -= 0.5 * v[i] * v[i]
    if _finish(after - before, key):
        for i in range(n):
            y[i] = new[i]
    fill_softmax(y, theta)
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
