"""Logarithms of gamma and Dirichlet draws, and the distance of draws from a Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betainc, betaln, logsumexp

from ..utils._typing import ArrayLike
from ._generator import GeneratorLike, SizeLike, as_generator, as_shape
from ._truncated_gamma import broadcast_to_size, check_gamma_shape


def sample_log_gamma(shape: ArrayLike, size: SizeLike = None, random_state: GeneratorLike = None) -> Any:
    r"""Logarithms of Ga(shape, 1) draws, for shapes so small that the draws themselves would all be zero.

    :math:`\log G_a = \log G_{a+1} + \log(U) / a`, with U uniform (Marsaglia and Tsang [1]_).

    Parameters
    ----------
    shape : array-like
        Shapes a, from 1e-300 to 1e100.
    size : None, int or tuple of ints, default=None
        Shape of the draws, to which `shape` is broadcast; None for the shape of `shape`.
    random_state : None, int, RandomState or Generator
        Source of randomness.

    Returns
    -------
    float or ndarray
        The logarithms, all finite.

    Raises
    ------
    ValueError
        If a shape is out of its range or does not broadcast to `size`.

    References
    ----------
    .. [1] Marsaglia, G. and Tsang, W. (2000). A simple method for generating gamma variables. ACM Transactions on
       Mathematical Software 26, 363-372.
    """
    shape = np.asarray(shape, dtype=np.float64)
    check_gamma_shape(shape)
    if size is not None:
        shape = broadcast_to_size(shape, size)
    rng = as_generator(random_state)
    log_draws = np.log(rng.standard_gamma(shape + 1.0))
    return (log_draws - rng.standard_exponential(shape.shape) / shape)[()]


def sample_log_dirichlet(
    concentration: ArrayLike, size: SizeLike = None, random_state: GeneratorLike = None
) -> np.ndarray:
    r"""Logarithms of Dirichlet draws: log-gamma draws minus their log-sum-exp.

    No draw consists of zeros only, however small the concentrations are, and entries far below the smallest float
    are accurate.

    Parameters
    ----------
    concentration : array-like of shape (n_components,)
        Parameters, from 1e-300 to 1e100.
    size : None, int or tuple of ints, default=None
        Number, or shape, of the draws; None for a single one.
    random_state : None, int, RandomState or Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (*size, n_components)
        Logarithms of the proportions.

    Raises
    ------
    ValueError
        If the concentration is not a vector of numbers in this range.
    """
    concentration = _checked_concentration(concentration, 1)
    log_draws = sample_log_gamma(concentration, (*as_shape(size), len(concentration)), random_state)
    return log_draws - logsumexp(log_draws, axis=-1, keepdims=True)


def dirichlet_rosenblatt(draws: ArrayLike, concentration: ArrayLike, *, log: bool = False) -> np.ndarray:
    r"""Rosenblatt transform: independent uniforms, if the draws are from the Dirichlet distribution.

    The uniforms are the distribution functions of

    .. math:: \omega_j / \textstyle\sum_{l \ge j} \omega_l \sim \mathrm{Beta}(a_j, \textstyle\sum_{l > j} a_l),
        \quad j = 1, ..., d - 1.

    Sums run from the last component backwards. A fraction above one half is computed from its complement, because one
    minus a cumulative sum would lose digits.

    Parameters
    ----------
    draws : array-like of shape (..., n_components)
        Non-negative vectors: proportions, or any multiples of them.
    concentration : array-like of shape (n_components,)
        Parameters a of the Dirichlet distribution.
    log : bool, default=False
        Whether `draws` are logarithms. Use it if entries are below the smallest float.

    Returns
    -------
    ndarray of shape (..., n_components - 1)
        Numbers in [0, 1].

    Raises
    ------
    ValueError
        If the draws are not such vectors, or if the last two entries of one are zero, so that a fraction is undefined.

    References
    ----------
    .. [1] Rosenblatt, M. (1952). Remarks on a multivariate transformation. Annals of Mathematical Statistics 23,
       470-472.
    """
    concentration = _checked_concentration(concentration, 2)
    draws = np.asarray(draws, dtype=np.float64)
    if draws.ndim == 0 or draws.shape[-1] != len(concentration):
        raise ValueError(f"draws must have {len(concentration)} entries per vector, one for each concentration.")
    if not np.all(draws < np.inf) or not (log or np.all(draws >= 0.0)):
        raise ValueError("draws must be finite and, unless they are logarithms, not negative.")
    logs = draws if log else np.log(draws, out=np.full_like(draws, -np.inf), where=draws > 0.0)
    tails = np.logaddexp.accumulate(logs[..., ::-1], axis=-1)[..., ::-1]
    if np.any(np.isneginf(tails[..., -2])):
        raise ValueError("The last two entries of a draw must not both be zero; pass logarithms if entries underflow.")
    log_fraction = logs[..., :-1] - tails[..., :-1]
    log_rest = tails[..., 1:] - tails[..., :-1]
    first = concentration[:-1]
    second = np.cumsum(concentration[::-1])[-2::-1]
    below = log_fraction < log_rest
    lower = _beta_cdf(np.where(below, log_fraction, log_rest), *_in_order(below, first, second))
    return np.where(below, lower, 1.0 - lower)


def averaged_ks_distance(draws: ArrayLike, concentration: ArrayLike, *, log: bool = False) -> float:
    r"""Kolmogorov-Smirnov distance of draws from a Dirichlet distribution, averaged over Rosenblatt coordinates.

    The mean over the d - 1 coordinates of :math:`\sup_u |F_n(u) - u|`, where :math:`F_n` is the empirical distribution
    function of a coordinate of :func:`dirichlet_rosenblatt` ([1]_, appendix E.2, without its last coordinate, which
    is constant). For 1000 independent draws from the distribution itself, the expected value is about 0.0273.

    Parameters
    ----------
    draws : array-like of shape (n_draws, n_components)
        Non-negative vectors: proportions, or any multiples of them.
    concentration : array-like of shape (n_components,)
        Parameters of the Dirichlet distribution.
    log : bool, default=False
        Whether `draws` are logarithms.

    Returns
    -------
    float
        The averaged distance, in [0, 1].

    Raises
    ------
    ValueError
        If :func:`dirichlet_rosenblatt` raises it, or if there are no draws.

    References
    ----------
    .. [1] Baker, J., Fearnhead, P., Fox, E. and Nemeth, C. (2018). Large-scale stochastic sampling from the
       probability simplex. NeurIPS.
    """
    uniforms = dirichlet_rosenblatt(draws, concentration, log=log)
    if uniforms.ndim != 2 or len(uniforms) == 0:
        raise ValueError(f"draws must be a matrix of at least one row; got shape {np.shape(draws)}.")
    uniforms = np.sort(uniforms, axis=0)
    steps = np.arange(len(uniforms) + 1.0)[:, np.newaxis] / len(uniforms)
    return float(np.maximum(steps[1:] - uniforms, uniforms - steps[:-1]).max(axis=0).mean())


def _beta_cdf(log_x, a, b):
    """Distribution function of Beta(a, b) at exp(log_x), accurate also if exp(log_x) underflows."""
    tiny = log_x < -700.0
    power = np.exp(np.where(tiny, a * log_x - np.log(a) - betaln(a, b), -np.inf))
    return np.where(tiny, np.minimum(power, 1.0), betainc(a, b, np.exp(log_x)))


def _in_order(below, first, second):
    return np.where(below, first, second), np.where(below, second, first)


def _checked_concentration(concentration: ArrayLike, least: int) -> np.ndarray:
    concentration = np.asarray(concentration, dtype=np.float64)
    if concentration.ndim != 1 or len(concentration) < least:
        raise ValueError(
            f"concentration must be a vector of at least {least} entries; got shape {concentration.shape}."
        )
    check_gamma_shape(concentration, "concentration")
    return concentration
