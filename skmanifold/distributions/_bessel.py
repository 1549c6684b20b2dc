"""The logarithm of the modified Bessel function, Bessel ratios and the von Mises-Fisher normaliser.

Other kernels may call the kernels of a single order and argument. Two methods cover all orders nu >= 0 and arguments
x >= 0. With r = sqrt(nu^2 + x^2):

- r < 50: the power series (DLMF 10.25.2) of positive terms, and Gauss' continued fraction (10.33.1) for the ratio;
- r >= 50: the uniform expansions (DLMF 10.41.3 and 10.41.5) to U_11. Their terms decrease like r^-k for every nu; at
  nu = 0 they are the expansions for large arguments (DLMF 10.40.1). At r = 50 the first omitted term is about 1e-17.

So nothing underflows or overflows, and the number of iterations is bounded.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np

from ..utils._njit import njit
from ..utils._typing import ArrayLike

_LOG_2PI = math.log(2.0 * math.pi)


@overload
def log_iv(order: float, x: float) -> float: ...
@overload
def log_iv(order: ArrayLike, x: ArrayLike) -> Any: ...
def log_iv(order: ArrayLike, x: ArrayLike) -> Any:
    r"""Logarithm of the modified Bessel function of the first kind, :math:`\log I_\nu(x)`.

    Parameters
    ----------
    order : array-like
        Orders :math:`\nu \ge 0`, not necessarily integer; broadcast against `x`.
    x : array-like
        Arguments, at least 0.

    Returns
    -------
    float or ndarray
        The logarithms; minus infinity at x = 0 for a positive order. The error is a few units in the last place of the
        largest of 1, :math:`x`, :math:`\nu \log \nu` and :math:`\nu |\log x|`.

    Raises
    ------
    ValueError
        If an order or argument is negative or not finite.

    References
    ----------
    .. [1] NIST Digital Library of Mathematical Functions, 10.25.2, 10.40.1 and 10.41.3.
    """
    return _evaluate(_fill_log_iv, _checked(order, "order"), _checked(x, "x"))


@overload
def bessel_ratio(dim: float, concentration: float) -> float: ...
@overload
def bessel_ratio(dim: ArrayLike, concentration: ArrayLike) -> Any: ...
def bessel_ratio(dim: ArrayLike, concentration: ArrayLike) -> Any:
    r"""Mean resultant length of a von Mises-Fisher distribution.

    It is the ratio :math:`A_V(\kappa) = I_{V/2}(\kappa) / I_{V/2-1}(\kappa)`. The computation uses Gauss' continued
    fraction (DLMF 10.33.1), evaluated backwards. For large arguments it uses the ratio of the uniform expansions of
    :math:`I_\nu'` and :math:`I_\nu`, written without a difference of large numbers.

    Parameters
    ----------
    dim : array-like
        Dimensions V of the surrounding space, at least 2; broadcast against `concentration`.
    concentration : array-like
        Concentrations :math:`\kappa \ge 0`.

    Returns
    -------
    float or ndarray
        The ratios, in [0, 1], accurate to about one unit in the last place.

    Raises
    ------
    ValueError
        If a dimension is less than 2, or a concentration is negative or not finite.
    """
    return _evaluate(_fill_ratio, _checked(dim, "dim", 2), _checked(concentration, "concentration"))


@overload
def bessel_ratio_derivative(dim: float, concentration: float) -> float: ...
@overload
def bessel_ratio_derivative(dim: ArrayLike, concentration: ArrayLike) -> Any: ...
def bessel_ratio_derivative(dim: ArrayLike, concentration: ArrayLike) -> Any:
    r"""Derivative of the Bessel ratio, :math:`A_V'(\kappa) = 1 - A^2 - (V - 1) A / \kappa`.

    That difference loses all digits if :math:`\kappa` or V is large; the derivative of the uniform expansion replaces
    it there. At :math:`\kappa = 0` the derivative is 1 / V.

    Parameters
    ----------
    dim : array-like
        Dimensions V, at least 2; broadcast against `concentration`.
    concentration : array-like
        Concentrations :math:`\kappa \ge 0`.

    Returns
    -------
    float or ndarray
        The derivatives, with a relative error of about 1e-12.

    Raises
    ------
    ValueError
        If a dimension is less than 2, or a concentration is negative or not finite.
    """
    return _evaluate(_fill_derivative, _checked(dim, "dim", 2), _checked(concentration, "concentration"))


@overload
def inverse_bessel_ratio(dim: float, ratio: float) -> float: ...
@overload
def inverse_bessel_ratio(dim: ArrayLike, ratio: ArrayLike) -> Any: ...
def inverse_bessel_ratio(dim: ArrayLike, ratio: ArrayLike) -> Any:
    r"""The concentration :math:`\kappa` at which :math:`A_V(\kappa)` equals `ratio`.

    Newton's method is restricted to the interval between the inverses of these bounds ([1]_, [2]_), where
    a = (V - 1) / 2:

    .. math:: \frac{\kappa}{a + \sqrt{\kappa^2 + (a + 1)^2}} \le A_V(\kappa) \le
        \frac{\kappa}{a + \sqrt{\kappa^2 + a^2}}.

    Parameters
    ----------
    dim : array-like
        Dimensions V, at least 2; broadcast against `ratio`.
    ratio : array-like
        Mean resultant lengths in [0, 1).

    Returns
    -------
    float or ndarray
        The concentrations, as accurate as the distance of `ratio` from 1 allows.

    Raises
    ------
    ValueError
        If a dimension is less than 2, or a ratio is outside [0, 1).

    References
    ----------
    .. [1] Amos, D. (1974). Computation of modified Bessel functions and their ratios. Mathematics of Computation 28,
       239-251.
    .. [2] Hornik, K. and Gruen, B. (2014). On maximum likelihood estimation of the concentration parameter of von
       Mises-Fisher distributions. Computational Statistics 29, 945-957.
    """
    ratio = _checked(ratio, "ratio")
    if np.any(ratio >= 1.0):
        raise ValueError(f"ratio must be below 1; got {ratio.max()}.")
    return _evaluate(_fill_inverse, _checked(dim, "dim", 2), ratio)


@overload
def log_vmf_normalizer(dim: float, concentration: float) -> float: ...
@overload
def log_vmf_normalizer(dim: ArrayLike, concentration: ArrayLike) -> Any: ...
def log_vmf_normalizer(dim: ArrayLike, concentration: ArrayLike) -> Any:
    r"""Log of the von Mises-Fisher normaliser, :math:`c_V(\kappa) = \kappa^{V/2-1} / ((2\pi)^{V/2} I_{V/2-1}(\kappa))`.

    The density of the distribution on the unit sphere of :math:`\mathbb{R}^V` with respect to the surface measure is
    :math:`c_V(\kappa) \exp(\kappa \mu' x)`. At :math:`\kappa = 0` the normaliser is one over the area of the sphere.

    Parameters
    ----------
    dim : array-like
        Dimensions V, at least 2; broadcast against `concentration`.
    concentration : array-like
        Concentrations :math:`\kappa \ge 0`.

    Returns
    -------
    float or ndarray
        The logarithms.

    Raises
    ------
    ValueError
        If a dimension is less than 2, or a concentration is negative or not finite.
    """
    return log_density_at_mode(dim, concentration) - np.asarray(concentration, dtype=np.float64)


def log_density_at_mode(dim: ArrayLike, concentration: ArrayLike) -> Any:
    r"""The log density :math:`\log c_V(\kappa) + \kappa` at the mean direction, accurate also for a large kappa."""
    return _evaluate(_fill_log_mode, _checked(dim, "dim", 2), _checked(concentration, "concentration"))


def log_peak(dim: int, concentration: Any) -> Any:
    """Log density at the mean direction relative to the uniform distribution; in one dimension that on two points."""
    if dim == 1:
        return np.log(2.0) - np.logaddexp(0.0, -2.0 * concentration)
    return log_density_at_mode(dim, concentration) - log_density_at_mode(dim, 0.0)


def _checked(values: ArrayLike, name: str, least: float = 0) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    wrong = ~((values >= least) & (values < np.inf))
    if np.any(wrong):
        raise ValueError(f"{name} must be finite and at least {least}; got {values[wrong][0]}.")
    return values


def _evaluate(fill, first, second):
    """Broadcast, fill elementwise, and return scalars for scalars."""
    shape = np.broadcast_shapes(first.shape, second.shape)
    out = np.empty(shape)
    fill(np.broadcast_to(first, shape).flatten(), np.broadcast_to(second, shape).flatten(), out.reshape(-1))
    return out[()]


@njit(cache=True, nogil=True)
def _fill_log_iv(order, x, out):
    for i in range(len(out)):
        if x[i] > 0.0:
            out[i] = compute_log_scaled(order[i], x[i]) + (x[i] + order[i] * math.log(x[i]))
        else:
            out[i] = 0.0 if order[i] == 0.0 else -np.inf


@njit(cache=True, nogil=True)
def _fill_log_mode(dim, x, out):
    for i in range(len(out)):
        out[i] = -compute_log_scaled(0.5 * dim[i] - 1.0, x[i]) - 0.5 * dim[i] * _LOG_2PI


@njit(cache=True, nogil=True)
def _fill_ratio(dim, x, out):
    for i in range(len(out)):
        out[i] = compute_ratio(0.5 * dim[i] - 1.0, x[i])


@njit(cache=True, nogil=True)
def _fill_derivative(dim, x, out):
    for i in range(len(out)):
        order = 0.5 * dim[i] - 1.0
        out[i] = compute_derivative(order, x[i], compute_ratio(order, x[i]))


@njit(cache=True, nogil=True)
def _fill_inverse(dim, ratio, out):
    for i in range(len(out)):
        out[i] = compute_inverse(dim[i], ratio[i])


_N_TERMS = 12
_LARGE_RADIUS = 50.0


def _expansion_coefficients() -> np.ndarray:
    """Entry [k, j]: the coefficient of p^(k + 2 j) in U_k(p), by DLMF 10.41.9. No two summands differ in sign."""
    table = np.zeros((_N_TERMS, _N_TERMS))
    table[0, 0] = 1.0
    for k in range(_N_TERMS - 1):
        for j in range(k + 1):
            power = k + 2 * j
            table[k + 1, j] += table[k, j] * (0.5 * power + 0.125 / (power + 1))
            table[k + 1, j + 1] -= table[k, j] * (0.5 * power + 0.625 / (power + 3))
    return table


_COEFFICIENTS = _expansion_coefficients()


@njit(cache=True, nogil=True)
def compute_log_scaled(order, x):
    """Log of exp(-x) I_order(x) / x^order, which is finite at x = 0 and has no term of the size of a large x."""
    radius = math.hypot(order, x)
    if radius >= _LARGE_RADIUS:
        total = _sum_expansion(order, radius)[0]
        log_scale = order * order / (radius + x) - order * math.log(order + radius)  # radius - x, without cancelling
        return log_scale - 0.5 * (_LOG_2PI + math.log(radius)) + math.log(total)
    quarter = 0.25 * x * x
    total = 1.0
    term = 1.0
    m = 0
    while term > 1e-18 * total:
        m += 1
        term *= quarter / (m * (order + m))
        total += term
    return math.log(total) - x - order * math.log(2.0) - math.lgamma(order + 1.0)


@njit(cache=True, nogil=True)
def compute_ratio(order, x):
    """I_(order + 1)(x) / I_order(x)."""
    radius = math.hypot(order, x)
    if radius >= _LARGE_RADIUS:
        total, slope, _ = _sum_expansion(order, radius)
        return x / (radius + order) - x / (radius * radius) * (0.5 + slope / total)
    if x == 0.0:
        return 0.0
    # Each level multiplies the error of the initial value by the square of its ratio: about exp(-n^2 / x) in total.
    n_levels = 12 + int(6.0 * math.sqrt(x))
    last = order + n_levels
    ratio = x / (last + 0.5 + math.hypot(x, last + 1.0))
    for m in range(n_levels, 0, -1):
        ratio = x / (2.0 * (order + m) + x * ratio)
    return ratio


@njit(cache=True, nogil=True)
def compute_derivative(order, x, ratio):
    """Derivative of compute_ratio at x, where `ratio` is compute_ratio(order, x)."""
    radius = math.hypot(order, x)
    if radius >= _LARGE_RADIUS:
        total, slope, curvature = _sum_expansion(order, radius)
        mean = slope / total
        squared = 1.0 / (radius * radius)
        cosine = x * x * squared
        spread = cosine * squared * (curvature / total - mean * mean)
        return order / (radius * (radius + order)) + squared * (2.0 * cosine - 1.0) * (0.5 + mean) + spread
    if x < 1e-8:  # the next term of the series has relative size x^2
        return 0.5 / (order + 1.0)
    return 1.0 - ratio * ratio - (2.0 * order + 1.0) * ratio / x


@njit(cache=True, nogil=True)
def compute_inverse(dim, ratio):
    """The x at which compute_ratio(dim / 2 - 1, x) is `ratio`."""
    if ratio == 0.0:
        return 0.0
    half = 0.5 * (dim - 1.0)
    gap = (1.0 - ratio) * (1.0 + ratio)
    low = 2.0 * half * ratio / gap
    high = ratio * (half + math.sqrt(half * half + gap * dim)) / gap
    x = 0.5 * (low + high)
    for _ in range(60):
        value = compute_ratio(0.5 * dim - 1.0, x)
        if value < ratio:
            low = x
        else:
            high = x
        step = x - (value - ratio) / compute_derivative(0.5 * dim - 1.0, x, value)
        if not low <= step <= high:
            step = 0.5 * (low + high)
        done = abs(step - x) <= 4e-16 * x
        x = step
        if done:
            break
    return x


@njit(cache=True, nogil=True)
def compute_log_peak(order, concentration):
    """Log von Mises-Fisher density at the mode relative to the uniform distribution, for the order d / 2 - 1."""
    return compute_log_scaled(order, 0.0) - compute_log_scaled(order, concentration)


@njit(cache=True, nogil=True)
def _sum_expansion(order, radius):
    """The sum of U_k(p) / order^k at p = order / radius, and the operator p d/dp applied to it once and twice."""
    squared = (order / radius) ** 2
    total = 0.0
    first = 0.0
    second = 0.0
    scale = 1.0
    for k in range(_N_TERMS):
        value = 0.0
        slope = 0.0
        curvature = 0.0
        for j in range(k, -1, -1):
            coefficient = _COEFFICIENTS[k, j]
            power = k + 2 * j
            value = value * squared + coefficient
            slope = slope * squared + coefficient * power
            curvature = curvature * squared + coefficient * power * power
        total += scale * value
        first += scale * slope
        second += scale * curvature
        scale /= radius
        if scale < 1e-20:
            break
    return total, first, second
