"""A covariance of gradient noise that depends on the position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics.linalg import as_matrices
from ..utils._vectorize import call_at_all


class CovarianceAt:
    """The covariance V(x) of gradient noise, from a user function of a point.

    Parameters
    ----------
    function : callable
        ``V(x)``, which returns a number (a multiple of the identity), a diagonal ``(size,)`` or a matrix
        ``(size, size)``; if `vectorized`, for all chains at once, with a leading axis.
    size : int
        Number of coordinates of a point.
    name : str
        The name of the function in messages.
    vectorized : bool
        Whether the function accepts all chains at once.
    """

    def __init__(self, function: Callable, size: int, name: str, vectorized: bool) -> None:
        self.function, self.size, self.name, self.vectorized = function, size, name, vectorized

    def __call__(self, position: np.ndarray) -> np.ndarray:
        """V at the position of each chain.

        Parameters
        ----------
        position : ndarray of shape (n_chains, ...)
            Position of each chain.

        Returns
        -------
        covariance : ndarray of shape (n_chains,), (n_chains, size) or (n_chains, size, size)
            Multiples of the identity, diagonals or matrices.

        Raises
        ------
        ValueError
            If the function returns another shape, or numbers that are not finite or, on a diagonal, negative.
        """
        n, size = len(position), self.size
        found: Any = np.asarray(call_at_all(self.function, self.name, self.vectorized, position), dtype=np.float64)
        if found.shape not in ((n,), (n, size), (n, size, size)):
            raise ValueError(
                f"{self.name} must return a number, or shape ({size},) or ({size}, {size}), for each point; it "
                f"returned {found.shape[1:]}."
            )
        if not np.isfinite(found).all():
            raise ValueError(f"{self.name} returned a number that is not finite.")
        diagonal = found if found.ndim < 3 else np.einsum("cii->ci", found)
        if diagonal.min() < 0:
            raise ValueError(f"{self.name} returned a negative variance, {diagonal.min():.3g}.")
        return found

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def covariance_matrices(covariance: Any, position: np.ndarray) -> np.ndarray:
    """A covariance of gradient noise at the position of each chain, in any form, as matrices.

    Parameters
    ----------
    covariance : float, ndarray of shape (size,) or (size, size), or CovarianceAt
        V.
    position : ndarray of shape (n_chains, ...)
        Position of each chain.

    Returns
    -------
    matrices : ndarray of shape (n_chains, size, size)
        V at the position of each chain.
    """
    n, size = len(position), position[0].size
    if isinstance(covariance, CovarianceAt):
        covariance = covariance(position)
        covariance = covariance[:, np.newaxis] if covariance.ndim == 1 else covariance
    elif np.ndim(covariance) == 2:
        return np.broadcast_to(covariance, (n, size, size))
    return as_matrices(covariance if np.ndim(covariance) == 3 else np.broadcast_to(covariance, (n, size)))
