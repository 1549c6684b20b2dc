"""The Stiefel manifold of orthonormal frames, with the metric of the space of matrices."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np

from ..utils._njit import njit
from ._base import Manifold, check_excess, finite_array


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
        self._check_counts("n", "p")
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
        over = "" if self.radius == 1 else ", divided by the radius,"
        check_excess(x.mT @ x - np.eye(self.p), atol, f"The columns of a frame{over} must be orthonormal")

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Remove the part of `v` that is normal to the manifold, in place."""
        inner = x.mT @ v
        v -= x @ (0.5 * (inner + inner.mT) / self._square)

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


_INVERSE_FACTORIALS = np.array([1.0 / math.factorial(j) for j in range(17)])


@njit(cache=True, nogil=True)
def exponential(matrices):
    """Matrix exponentials along the first axis, by scaling and squaring with a Taylor polynomial of degree 16.

    These are plain loops, because linear algebra libraries may start threads even for 4 x 4 matrices: on busy cores a
    step of a microsecond then waits for milliseconds.
    """
    result = np.empty_like(matrices)
    n = matrices.shape[1]
    powers = np.empty((5, n, n))
    product = np.empty((n, n))
    for i in range(matrices.shape[0]):
        total = result[i]
        norm = _largest_row_sum(matrices[i])
        if not math.isfinite(norm):
            _scale(matrices[i], math.nan, total)
            continue
        # For norms below 3/4 the first omitted term is smaller than half a unit in the last place of one
        n_squarings = max(math.frexp(norm / 0.75)[1], 0)
        _scale(matrices[i], 0.5**n_squarings, powers[1])
        for k in range(2, 5):
            _multiply(powers[1], powers[k - 1], powers[k])
        _scale(powers[4], _INVERSE_FACTORIALS[16], total)
        _add_terms(powers, 12, total)
        for first in (8, 4, 0):
            _multiply(powers[4], total, product)
            _scale(product, 1.0, total)
            _add_terms(powers, first, total)
        for _ in range(n_squarings):
            _multiply(total, total, product)
            _scale(product, 1.0, total)
    return result


@njit(cache=True, nogil=True)
def _largest_row_sum(a):
    largest = 0.0
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += abs(a[i, j])
        if not math.isfinite(total):
            return total
        largest = max(largest, total)
    return largest


@njit(cache=True, nogil=True)
def _scale(a, factor, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = factor * a[i, j]


@njit(cache=True, nogil=True)
def _add_terms(powers, first, total):
    """Add the terms of degree 0 to 3, with the coefficients of degree `first` and after."""
    for i in range(total.shape[0]):
        total[i, i] += _INVERSE_FACTORIALS[first]
        for k in range(1, 4):
            coefficient = _INVERSE_FACTORIALS[first + k]
            for j in range(total.shape[1]):
                total[i, j] += coefficient * powers[k, i, j]


@njit(cache=True, nogil=True)
def _multiply(a, b, out):
    """Matrix product by rows, each a sum of rows of `b`, so that the order of additions is fixed."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0.0
        for k in range(b.shape[0]):
            a_ik = a[i, k]
            for j in range(b.shape[1]):
                out[i, j] += a_ik * b[k, j]
