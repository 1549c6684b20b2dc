"""The distribution of the rank to which a uniform point of the Conway sphere rounds, exact also far in the tails."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from ._validation import check_count


@cache
def log_rank_probabilities(m: int) -> np.ndarray:
    r"""Logarithms of the probabilities that a uniform point of ``ConwaySphere(m)`` rounds to a rank.

    Minus its centre, a uniform point is a scaled symmetric Gaussian matrix of the orthogonal ensemble. The point
    rounds to rank d if that matrix has d positive eigenvalues. Let P(d) be the probability that this function
    returns. An explicit prior p(d) of the rank, uniform over the projections of each rank, therefore has the density
    p(d) / P(d) with respect to the surface area. P is symmetric about m / 2, and P(0) decreases like
    :math:`\exp(-m^2 (\ln 3) / 4)` ([2]_).

    The generating function of the number of positive eigenvalues is a ratio of Pfaffians of skew matrices, which
    contain moments over the half lines ([1]_). It is evaluated with hundreds of digits at as many points as it has
    unknown coefficients. The running time grows like the sixth power of m: it is a second for m = 40.

    Parameters
    ----------
    m : int
        Dimension of the space that the projections act on.

    Returns
    -------
    log_probabilities : ndarray of shape (m + 1,)
        For ranks 0 to m. The array is cached for the next call and is read-only.

    Raises
    ------
    TypeError, ValueError
        If `m` is not a positive integer.

    References
    ----------
    .. [1] N. G. de Bruijn, "On some multiple integrals involving determinants", Journal of the Indian Mathematical
       Society 19, 1955.
    .. [2] D. S. Dean and S. N. Majumdar, "Extreme value statistics of eigenvalues of Gaussian random matrices",
       Physical Review E 77, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from skmanifold.manifolds import log_rank_probabilities
    >>> np.exp(log_rank_probabilities(2)).round(4).tolist()
    [0.1464, 0.7071, 0.1464]
    """
    check_count("The parameter m of log_rank_probabilities", m)
    # Digits for the smallest probability, the condition number of the moments, and that of the Vandermonde matrix.
    out = _log_probabilities(m, digits=40 + 3 * m + m * m // 10)
    out.flags.writeable = False
    return out


def _log_probabilities(m: int, digits: int) -> np.ndarray:
    with localcontext() as context:
        context.prec = digits
        points = ranks = range(m // 2 + 1)  # P(m - d) = P(d)
        powers = [[Decimal(x**d + (x ** (m - d) if 2 * d < m else 0)) for d in ranks] for x in points]
        half = _solve(np.array(powers, object), _generating_function(m, points))
        total = 2 * sum(half) - (half[-1] if m % 2 == 0 else 0)
        logs = [float((p / total).ln()) for p in half]
    return np.array([logs[min(d, m - d)] for d in range(m + 1)])


def _generating_function(m: int, points: Iterable[int]) -> np.ndarray:
    """Sum over d of P(d) x^d at the points x, up to a constant: the Pfaffian of the weight x on the positive half line.

    Entry j, k of the matrix is int int sign(v - u) u^j v^k f(u) f(v) exp(-(u^2 + v^2) / 2) du dv, where f is x on the
    positive half line and 1 on the negative one. The part with both variables on the same half line is `within`, up
    to a sign; the part with the variables on different half lines is a product.
    """
    half, within = _half_line_moments(m)
    signs = np.array([(-1) ** j for j in range(m)], object)
    below = -np.outer(signs, signs) * within
    across = np.subtract.outer(signs, signs) * np.outer(half, half)
    out = []
    for x in points:
        matrix = below + x * across + x * x * within
        if m % 2:
            border = half * (signs + x)
            matrix = np.block([[matrix, border[:, None]], [-border[None], np.zeros((1, 1), int)]])
        out.append(_pfaffian(matrix))
    return np.array(out, object)


def _half_line_moments(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Moments of exp(-x^2 / 2) over x > 0, (m,), and of sign(y - x) exp(-(x^2 + y^2) / 2) over x, y > 0, (m, m).

    Integration by parts: let w(x) = exp(-x^2 / 2), and let D_j(y) be the integral of x^j w(x) over x < y minus that
    over x > y. Then D_j = (j - 1) D_{j-2} - 2 y^{j-1} w(y), and D_1 = 1 - 2 w(y). The square of w is exp(-y^2), whose
    moments are `narrow`.
    """
    root_pi = _pi().sqrt()
    half = [root_pi / Decimal(2).sqrt(), Decimal(1)]
    narrow = [root_pi / 2, Decimal(1) / 2]
    for j in range(2, 2 * m):
        half.append((j - 1) * half[j - 2])
        narrow.append(Decimal(j - 1) / 2 * narrow[j - 2])
    within = np.full((m, m), Decimal(0), object)
    for k in range(m):
        for j in range(1, m):
            before = half[k] if j == 1 else (j - 1) * within[j - 2, k]
            within[j, k] = before - 2 * narrow[j + k - 1]
        if k == 0:  # the matrix is skew
            within[0] = -within[:, 0]
    return np.array(half[:m], object), within


def _pi() -> Decimal:
    """Pi in the precision of the decimal context, by Machin's formula."""
    with localcontext() as context:
        context.prec += 10
        pi = 4 * (4 * _inverse_tangent(5) - _inverse_tangent(239))
    return +pi


def _inverse_tangent(n: int) -> Decimal:
    """Arc tangent of 1 / n by its series, until terms no longer change the sum."""
    power = total = Decimal(1) / n
    previous, i = Decimal(0), 1
    while total != previous:
        power /= -n * n
        i += 2
        previous, total = total, total + power / i
    return total


def _pfaffian(matrix: np.ndarray) -> Decimal:
    """Pfaffian of a skew matrix of even size, by congruences to two-by-two blocks; overwrites the matrix."""
    out = Decimal(1)
    for k in range(0, len(matrix), 2):
        pivot = k + 1 + int(np.argmax(np.abs(matrix[k, k + 1 :])))
        if pivot != k + 1:
            matrix[[k + 1, pivot]] = matrix[[pivot, k + 1]]
            matrix[:, [k + 1, pivot]] = matrix[:, [pivot, k + 1]]
            out = -out
        out *= matrix[k, k + 1]
        product = np.outer(matrix[k, k + 2 :] / matrix[k, k + 1], matrix[k + 2 :, k + 1])
        matrix[k + 2 :, k + 2 :] += product - product.T
    return out


def _solve(matrix: np.ndarray, values: np.ndarray) -> list:
    """Solve linear equations by Gaussian elimination with row pivots; overwrites both arguments."""
    n = len(matrix)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(matrix[k:, k])))
        matrix[[k, pivot]], values[[k, pivot]] = matrix[[pivot, k]], values[[pivot, k]]
        factors = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :, k:] -= np.outer(factors, matrix[k, k:])
        values[k + 1 :] -= factors * values[k]
    for k in reversed(range(n)):
        values[k] = (values[k] - (matrix[k, k + 1 :] * values[k + 1 :]).sum()) / matrix[k, k]
    return list(values)
