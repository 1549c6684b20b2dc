"""The converse of the recipe in the plane: the curl matrix implied by a drift and a stationary density."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...utils._typing import ArrayLike
from .._density.derivatives import divergence_of
from .._density.recipe import InvalidRecipeError, format_point


def recover_curl(
    drift: Callable[[np.ndarray], np.ndarray | Sequence[float]],
    diffusion: Callable[[np.ndarray], ArrayLike] | ArrayLike,
    log_density: Callable[[np.ndarray], float],
    z: ArrayLike,
    *,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    tolerance: float = 1e-6,
) -> np.ndarray:
    r"""The curl matrix of a diffusion in the plane, from its drift f, its D and its stationary density p.

    By theorem 2 of [1]_ every diffusion with a stationary density is a recipe. In two dimensions its curl is

    .. math:: Q_{21}(z) = -Q_{12}(z) = -\frac{1}{p(z)} \int_{-\infty}^{z_2} \left[ f_1 p - \partial_1 (D_{11} p)
        - \partial_s (D_{12} p) \right] ds

    at :math:`(z_1, s)`: eq. S.11 of [1]_ with the sign corrected, and with all terms divided by p. If p is stationary,
    the integral over the whole line is zero, so the integral is taken from the side where it is smaller.

    In more dimensions a curl exists but is not unique: a matrix R with the divergence of R p zero can be added. One is
    :math:`Q_{ij} p = \partial_j \phi_i - \partial_i \phi_j` with :math:`\Delta \phi = f p - \nabla \cdot (D p)`,
    and each of its values is an integral over the whole space. This function therefore has only the plane.

    Parameters
    ----------
    drift : callable
        f, a function of z, ``(2,)``, that returns ``(2,)``.
    diffusion : array-like of shape (2, 2) or callable
        D, or a function of z that returns it.
    log_density : callable
        log p up to a constant, a function of z. Its length scale should be of the order of one.
    z : array-like of shape (2,) or (n, 2)
        Points at which the curl is computed.
    bounds : tuple of float, default=(-inf, inf)
        Range of the second coordinate.
    tolerance : float, default=1e-6
        Maximum of the integral over the whole line, relative to the integral of the absolute value.

    Returns
    -------
    ndarray of shape (2, 2) or (n, 2, 2)
        The matrix Q at each point.

    Raises
    ------
    InvalidRecipeError
        If the integral over the whole line is not zero, so that p is not stationary.

    References
    ----------
    .. [1] Y.-A. Ma, T. Chen and E. B. Fox, "A complete recipe for stochastic gradient MCMC", NIPS 2015, supplement C.

    Examples
    --------
    Hamiltonian dynamics, dx = r dt, dr = -x dt:

    >>> import numpy as np
    >>> from skmanifold.samplers import recover_curl
    >>> Q = recover_curl(lambda z: [z[1], -z[0]], np.zeros((2, 2)), lambda z: -0.5 * (z @ z), [0.3, -0.8])
    >>> np.round(Q, 6) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    """
    from scipy.integrate import quad  # imported here because the import is slow

    z = np.array(z, dtype=np.float64)
    if z.shape[-1:] != (2,) or z.ndim > 2:
        raise ValueError(f"z must be of shape (2,) or (n, 2); got {z.shape}.")
    if z.ndim == 2:
        options: Any = {"bounds": bounds, "tolerance": tolerance}
        return np.array([recover_curl(drift, diffusion, log_density, point, **options) for point in z])
    matrix: Any = diffusion if callable(diffusion) else lambda _: diffusion
    here = log_density(z)

    def first_column(points: np.ndarray) -> np.ndarray:
        """D_11 and log p, which are differentiated with respect to the first coordinate."""
        values = [(np.asarray(matrix(point))[0][0], log_density(point)) for point in points]
        return np.array(values)[:, :, None] * np.array([1.0, 0.0])

    def flux(s: float) -> float:
        """f_1 p - d_1 (D_11 p), divided by p(z)."""
        point = np.array([z[0], s])
        spread, slope = divergence_of(first_column, point[None], np.array([False, True]))[0]
        inward = spread + np.asarray(matrix(point))[0][0] * slope
        return float((drift(point)[0] - inward) * np.exp(log_density(point) - here))

    precision = {"epsabs": 1e-11, "epsrel": 1e-10, "limit": 200}
    below, above = quad(flux, bounds[0], z[1], **precision)[0], quad(flux, z[1], bounds[1], **precision)[0]
    size = sum(quad(lambda s: abs(flux(s)), *sorted((z[1], end)), epsrel=1e-3, limit=200)[0] for end in bounds)
    if not abs(below + above) <= tolerance * (1 + size):
        raise InvalidRecipeError(
            f"The density is not stationary: the net flux across the line through {format_point(z)} is "
            f"{below + above:.4g} times the density there."
        )
    integral = below if abs(below) < abs(above) else -above
    curl = np.asarray(matrix(z))[0][1] - integral
    return np.array([[0.0, -curl], [curl, 0.0]])
