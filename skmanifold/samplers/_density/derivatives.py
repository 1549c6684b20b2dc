"""Divergences of matrix fields by finite differences, inside the domain, or by the complex step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_CENTRAL = np.finfo(float).eps ** (1 / 5)  # balances rounding against the error of the five-point rule
_COMPLEX = 1e-100
_TINY = 1e-200  # step at the boundary


def divergence_of(
    field: Callable[[np.ndarray], np.ndarray], x: np.ndarray, positive: bool | np.ndarray, method: str = "central"
) -> np.ndarray:
    r""":math:`\sum_j \partial_j F_{ij}` of a field at each of many points.

    Parameters
    ----------
    field : callable
        Maps points ``(n, size)`` to matrices ``(n, size, size)`` or diagonals ``(n, size)``.
    x : ndarray of shape (n, size)
        The points.
    positive : bool, or bool ndarray of shape (size,)
        Coordinates that must stay positive. Their step is relative to their value, so it does not leave the domain.
    method : "central" or "complex"
        Five-point central differences, or the imaginary part of a step along the imaginary axis: exact to rounding, if
        the field is an analytic function that accepts complex numbers.

    Returns
    -------
    ndarray of shape (n, size)
        The divergence at each point.
    """
    out = np.zeros_like(x)
    scale = np.where(positive, np.maximum(np.abs(x), _TINY), np.maximum(np.abs(x), 1.0))
    for j in range(x.shape[1]):
        if method == "complex":
            moved = x.astype(complex)
            moved[:, j] += _COMPLEX * 1j
            derivative = np.asarray(field(moved)).imag / _COMPLEX
        else:
            step = _CENTRAL * scale[:, j]
            derivative = np.zeros(1)
            for multiple, weight in ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12)):
                moved = x.copy()
                moved[:, j] += multiple * step
                value = np.asarray(field(moved))
                derivative = derivative + weight * value / step.reshape(-1, *(1,) * (value.ndim - 1))
        if derivative.ndim == 3:
            out += derivative[:, :, j]
        else:
            out[:, j] += derivative[:, j]
    return out


def positive_part(manifold: Any, nz: int) -> np.ndarray:
    """Which entries of z must stay positive: the coordinates that the manifold reflects."""
    probe = np.full((1, *manifold.shape), -1.0)
    manifold.reflect(probe)
    positive = np.zeros(nz, dtype=bool)
    positive[: manifold.size] = probe.reshape(-1) > 0
    return positive
