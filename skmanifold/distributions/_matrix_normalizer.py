r"""The normalising constant of the matrix von Mises-Fisher distribution, from the singular values of its parameter.

.. math:: E \exp(\mathrm{tr}(F' X)) = {}_0F_1(V / 2; F' F / 4), \quad X \text{ uniform on the Stiefel manifold.}

It depends on the singular values :math:`d_j` of F alone. For one column it is a Bessel function, and for two columns a
series of such functions ([1]_). For more columns let Y be a matrix of independent normal variables, tilted by
:math:`\exp(\mathrm{tr}(F' Y))`. The density of :math:`Y' Y` at the identity is approximated by a saddle point with the
next term of the expansion ([2]_), and divided by the same approximation for F = 0.

References
----------
.. [1] R. J. Muirhead, "Aspects of multivariate statistical theory", Wiley, 1982.
.. [2] A. Kume, S. P. Preston and A. T. A. Wood, "Saddlepoint approximations for the normalizing constant of
   Fisher-Bingham distributions on products of spheres and Stiefel manifolds", Biometrika 100, 2013.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
from scipy.special import gammaln, logsumexp

from ._bessel import log_vmf_normalizer

_TERMS = 512  # of a series that are computed at a time
_NEGLIGIBLE = 45.0  # difference of logarithms


def log_hypergeometric(n_rows: int, singular_values: np.ndarray) -> float:
    """Log of the expectation of exp(tr(F'X)) for uniform X, (n_rows, n_columns), with these singular values of F."""
    if len(singular_values) == 1:
        return float(_log_bessel(float(n_rows), singular_values[0]))
    if len(singular_values) == 2:
        return _log_of_two(n_rows, singular_values)
    values = np.asarray(singular_values, dtype=np.float64)
    return _saddle_point(n_rows, values) - _saddle_point(n_rows, np.zeros(len(values)))


def _log_bessel(dim, concentration):
    """Log of the expectation of exp(concentration x_1) on a sphere, which may have a fractional dimension."""
    return log_vmf_normalizer(dim, 0.0 * dim) - log_vmf_normalizer(dim, concentration)


def _log_of_two(n_rows: int, d: np.ndarray) -> float:
    r"""Sum over k of :math:`(x y)^k {}_0F_1(c + 2 k; x + y) / ((c - 1/2)_k (c)_{2 k} k!)`; c is half of `n_rows`."""
    c, length = 0.5 * n_rows, float(np.hypot(*d))
    if min(d) == 0.0:
        return float(_log_bessel(2.0 * c, length))
    log_product, logs = 2.0 * (np.log(d[0]) + np.log(d[1])) - np.log(16.0), np.empty(0)
    while not len(logs) or logs[-1] > logs.max() - _NEGLIGIBLE:
        k = np.arange(len(logs), len(logs) + _TERMS, dtype=np.float64)
        terms = k * log_product - gammaln(k + 1.0) - gammaln(c + 2.0 * k) - gammaln(c - 0.5 + k)
        logs = np.append(logs, terms + _log_bessel(2.0 * (c + 2.0 * k), np.full(len(k), length)))
    return float(logsumexp(logs) + gammaln(c) + gammaln(c - 0.5))


def _saddle_point(n: int, d: np.ndarray) -> float:
    r"""Log of the approximate density of Y'Y at the identity, but for terms that do not depend on `d`.

    The cumulant generating function is :math:`K = -\frac{n}{2} \log |T| + \frac12 \mathrm{tr}(D^2 T^{-1})` with
    :math:`T = I - 2 \theta`. At the saddle point T is diagonal, with :math:`n / t_j + d_j^2 / t_j^2 = 1`, and so are
    the second derivatives in the coordinates of a symmetric matrix.
    """
    t = 0.5 * (n + np.sqrt(n * n + 4.0 * d * d))
    pulls, p = d * d / t, len(d)
    steps = np.zeros((p * (p + 1) // 2, p, p))  # -dT / d theta for each coordinate
    for step, (j, k) in zip(steps, zip(*np.tril_indices(p), strict=True), strict=True):
        step[j, k] += 1.0
        step[k, j] += 1.0
    first = steps / t[:, None]
    second = np.einsum("iab,jbc->ijac", first, first)
    squares = np.einsum("iiac->iac", second)
    hessian = 0.5 * n * np.einsum("iaa->i", squares) + np.einsum("a,iaa->i", pulls, squares)

    of_three = np.einsum("ijac,kca,a->ijk", second, first, pulls)
    third = n * np.einsum("ijac,kca->ijk", second, first)
    third += 0.5 * sum(np.transpose(of_three, order) for order in permutations(range(3)))
    fourth = n * (2.0 * np.einsum("iac,jca->ij", squares, squares) + np.einsum("ijac,ijca->ij", second, second))
    for pattern, left, right in (
        ("iac,jca,a->ij", squares, squares),
        ("ijac,ijca,a->ij", second, second),
        ("ijac,jica,a->ij", second, second),
    ):
        of_four = np.einsum(pattern, left, right, pulls)
        fourth += 2.0 * (of_four + of_four.T)
    scale = 1.0 / hessian
    correction = np.einsum("ij,i,j->", fourth, scale, scale) / 8.0
    correction -= np.sum(np.einsum("iij,i->j", third, scale) ** 2 * scale) / 8.0
    correction -= np.einsum("ijk,i,j,k->", third**2, scale, scale, scale) / 12.0
    level = 0.5 * float(np.sum(pulls - n * np.log(t) + t))
    return level - 0.5 * float(np.log(hessian).sum()) + float(correction)
