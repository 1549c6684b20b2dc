"""The Stiefel manifold of orthonormal frames, with the metric of the space of matrices."""

from __future__ import annotations

from numbers import Real

import numpy as np

from ._base import Manifold
from ._exponential import exponential
from ._validation import check_count, finite_array


class Stiefel(Manifold):
    r"""Matrices of n rows and p orthogonal columns of length r, by default 1: :math:`X^\top X = r^2 I`.

    The metric is that of the surrounding Euclidean space of matrices. Tangent projection is
    :math:`V - X\,\mathrm{sym}(X^\top V)`. Let :math:`A = X^\top V` (skew) and :math:`V - X A = Q R`, where the columns
    of Q are orthonormal. Geodesics are

    .. math::

        [X(t), V(t)] = [X, Q] \exp\left( t \begin{bmatrix} 2A & -R^\top \\ R & 0 \end{bmatrix} \right)
        \begin{bmatrix} I & A \\ 0 & R \end{bmatrix} \begin{bmatrix} e^{-tA} & 0 \\ 0 & e^{-tA} \end{bmatrix},

    the curves of Edelman, Arias and Smith (1998, section 2.2.2) in an orthonormal basis (Zimmermann and Hueper, 2022).
    The cost of a step is O(n p^2 + p^3): R is a square root of a p x p matrix. The base measure is the Hausdorff
    measure; random frames are uniform (Haar). ``Stiefel(n, 1)`` is the sphere and ``Stiefel(n, n)`` the orthogonal
    group. No geodesic of the orthogonal group connects matrices of determinant 1 and -1, so a chain keeps the sign of
    the determinant of its initial state.

    For columns of length r these are the geodesics of X / r and V / r, multiplied by r; tangent projection is
    :math:`V - X\,\mathrm{sym}(X^\top V) / r^2`.

    Retraction returns the nearest frame, which is the polar factor.

    Parameters
    ----------
    n : int
        Number of rows.
    p : int
        Number of columns, at most n.
    radius : float, default=1.0
        Length r of all columns. Samplers mix more slowly with a larger radius: a step of length h on radius r rotates
        the frame by h / r.

    Raises
    ------
    TypeError, ValueError
        If n or p is not a positive integer, p is larger than n, or the radius is not a positive number.

    References
    ----------
    Edelman, A., Arias, T. A. and Smith, S. T. (1998). The geometry of algorithms with orthogonality constraints. SIAM
    Journal on Matrix Analysis and Applications 20.

    Zimmermann, R. and Hueper, K. (2022). Computing the Riemannian logarithm on the Stiefel manifold: metrics, methods,
    and performance. SIAM Journal on Matrix Analysis and Applications 43.
    """

    _square: float  # square of the radius

    def __init__(self, n: int, p: int, radius: float = 1.0) -> None:
        self.n = n
        self.p = p
        self.radius = radius
        self._set_up()

    def _set_up(self) -> None:
        check_count("The parameter n of Stiefel", self.n)
        check_count("The parameter p of Stiefel", self.p)
        if self.p > self.n:
            raise ValueError(f"The parameter p of Stiefel must be at most n = {self.n}, got {self.p!r}.")
        if not (isinstance(self.radius, Real) and 0 < float(self.radius) < np.inf):
            raise ValueError(f"The parameter radius of Stiefel must be a positive number, got {self.radius!r}.")
        self._square = float(self.radius) ** 2

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n, p)``."""
        return self.n, self.p

    @property
    def dim(self) -> int:
        """Intrinsic dimension: n p - p (p + 1) / 2."""
        return self.n * self.p - self.p * (self.p + 1) // 2

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly (Haar)."""
        frame, triangle = np.linalg.qr(rng.standard_normal(self.shape))
        # LAPACK does not choose signs at random: the frame is Haar only if the diagonal of the triangle is positive
        return frame * (self.radius * np.sign(np.diagonal(triangle)))

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless the columns, divided by r, are orthonormal within `atol`."""
        x = finite_array(x, self.shape) / self.radius
        excess = np.abs(x.mT @ x - np.eye(self.p))
        if (excess > atol).any():
            over = "" if self.radius == 1 else ", divided by the radius,"
            raise ValueError(
                f"The columns of a frame{over} must be orthonormal; the largest deviation is {excess.max():.3g}."
            )

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Remove the part of `v` that is normal to the manifold, in place."""
        v -= x @ (_symmetric_part(x.mT @ v) / self._square)

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along geodesics for time `t`, in place."""
        # In the usual basis [X, V] one exponential is of a matrix that is not skew. Rounding errors then grow
        # exponentially with time, and overflow if a column hardly moves. Here all exponentials are of skew matrices.
        p = self.p
        along = (x.mT @ v) / self._square
        turn = 0.5 * (along - along.mT)
        outward = v - x @ along
        squares, axes = np.linalg.eigh((outward.mT @ outward) / self._square)
        rates = np.sqrt(np.maximum(squares, 0.0))
        pull = rates[:, :, None] * axes.mT
        to_directions = axes / np.where(rates > 0, rates, np.inf)[:, None, :]
        generator = np.zeros((len(x), 2 * p, 2 * p))
        generator[:, :p, :p] = 2 * t * turn
        generator[:, p:, :p] = t * pull
        generator[:, :p, p:] = -t * pull.mT
        turned, back = exponential(generator), exponential(-t * turn)
        to_x = turned[:, :, :p] @ back
        to_v = (turned[:, :, :p] @ turn + turned[:, :, p:] @ pull) @ back
        v[...] = x @ to_v[:, :p] + outward @ (to_directions @ to_v[:, p:])
        x[...] = x @ to_x[:, :p] + outward @ (to_directions @ to_x[:, p:])

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Replace `x` by the nearest frame, its polar factor, then project `v`, in place."""
        squares, axes = np.linalg.eigh((x.mT @ x) / self._square)
        x[...] = x @ ((axes / np.sqrt(squares)[:, None, :]) @ axes.mT)
        self.project(x, v)


def _symmetric_part(matrices):
    return 0.5 * (matrices + matrices.mT)
