"""The Conway sphere, which contains the projection matrices of all ranks, and the ranks of rounded points."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from ._base import Manifold, check_count, check_excess, finite_array
from ._sphere import flow_on_sphere, project_to_sphere, retract_to_sphere


class ConwaySphere(Manifold):
    r"""Sphere that contains the projection matrices of all ranks.

    A symmetric m x m matrix is represented by the vector of its upper triangle, in row order, with the off-diagonal
    entries multiplied by :math:`\sqrt 2`, so that Euclidean and Frobenius distances agree. Every projection P, of any
    rank, then has distance :math:`\|P - I/2\|_F = \sqrt m / 2` from the image of I/2. This manifold is the sphere
    with that centre and radius. Its other points are symmetric matrices, which `nearest_projection` rounds to
    projections.

    The base measure is the surface area; random points are uniform.

    .. warning::
        The uniform distribution is not a vague prior on the rank. The trace has mean m / 2 and standard deviation
        :math:`m / (2 \sqrt{m (m + 1) / 2})`, which is less than 0.71 for every m. For m above about eight, ranks far
        from m / 2 practically never occur. Use an explicit prior on the rank.

    Parameters
    ----------
    m : int
        Dimension of the space that the projections act on. A point has m (m + 1) / 2 coordinates.

    Raises
    ------
    TypeError, ValueError
        If `m` is not a positive integer.

    References
    ----------
    Conway, J. H., Hardin, R. H. and Sloane, N. J. A. (1996). Packing lines, planes, etc.: packings in Grassmannian
    spaces. Experimental Mathematics 5.

    St. Thomas, B., Lin, L., Lim, L.-H. and Mukherjee, S. (2014). Learning subspaces of different dimensions.
    arXiv preprint. This implementation corrects the embedding, centre and radius of the preprint.
    """

    def __init__(self, m: int) -> None:
        self.m = m
        self._set_up()

    def _set_up(self) -> None:
        self._check_counts("m")
        self._rows, self._columns = np.triu_indices(self.m)
        self._weights = np.where(self._rows == self._columns, 1.0, np.sqrt(2.0))
        self._centre = np.where(self._rows == self._columns, 0.5, 0.0)
        self._radii = np.array([self.radius])

    @property
    def radius(self) -> float:
        """Radius of the sphere: sqrt(m) / 2."""
        return float(np.sqrt(self.m) / 2)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(m (m + 1) / 2,)``."""
        return (self.m * (self.m + 1) // 2,)

    @property
    def dim(self) -> int:
        """Intrinsic dimension: m (m + 1) / 2 - 1."""
        return self.size - 1

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly."""
        direction = rng.standard_normal(self.shape)
        return self._centre + self.radius / np.linalg.norm(direction) * direction

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless every point has its distance from the centre within `atol`."""
        excess = np.linalg.norm(finite_array(x, self.shape) - self._centre, axis=-1) - self.radius
        check_excess(excess, atol, f"A point must have the distance sqrt(m) / 2 = {self.radius:.6g} from the centre")

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Remove the radial part of `v`, in place."""
        project_to_sphere(x - self._centre, v, self._radii)

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along great circles about the centre for time `t`, in place."""
        x -= self._centre
        flow_on_sphere(x, v, t, self._radii)
        x += self._centre

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Scale the distance of `x` from the centre to the radius, then remove the radial part of `v`, in place."""
        x -= self._centre
        retract_to_sphere(x, v, self._radii)
        x += self._centre

    def embed(self, P: np.ndarray) -> np.ndarray:
        """Represent symmetric matrices as vectors.

        Parameters
        ----------
        P : array of shape (..., m, m)
            Symmetric matrices. The images of projections are points of the sphere.

        Returns
        -------
        x : array of shape (..., m (m + 1) / 2)
            The upper triangles, with off-diagonal entries multiplied by sqrt(2).

        Raises
        ------
        ValueError
            If the matrices have another size, are not finite or are not symmetric.
        """
        P = finite_array(P, (self.m, self.m))
        if not np.allclose(P, P.mT):
            raise ValueError(f"P must be symmetric; two entries differ by {np.abs(P - P.mT).max():.3g}.")
        return P[..., self._rows, self._columns] * self._weights

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """Convert vectors to symmetric matrices: the inverse of `embed`.

        Parameters
        ----------
        x : array of shape (..., m (m + 1) / 2)
            Points.

        Returns
        -------
        P : array of shape (..., m, m)
            Symmetric matrices.

        Raises
        ------
        ValueError
            If `x` has another length or is not finite.
        """
        x = finite_array(x, self.shape)
        P = np.empty((*x.shape[:-1], self.m, self.m))
        P[..., self._rows, self._columns] = P[..., self._columns, self._rows] = x / self._weights
        return P

    def nearest_projection(self, x: np.ndarray) -> np.ndarray:
        """Round points to the nearest projection of any rank.

        The nearest projection is that onto the eigenvectors whose eigenvalues are larger than 1/2: it maximises the
        sum of (eigenvalue - 1/2) over the selected eigenvectors. Rounding the trace to a rank does not.

        Parameters
        ----------
        x : array of shape (..., m (m + 1) / 2)
            Points, which need not be on the sphere.

        Returns
        -------
        P : array of shape (..., m, m)
            Projection matrices.

        Raises
        ------
        ValueError
            If `x` has another length or is not finite.
        """
        eigenvalues, eigenvectors = np.linalg.eigh(self.matrix(x))
        kept = eigenvectors * (eigenvalues > 0.5)[..., None, :]
        return kept @ kept.mT


def projection_distance(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    r"""Chordal distance between subspaces of any dimensions, :math:`\|P - Q\|_F / \sqrt 2`.

    For dimensions d1 and d2 its square is half their difference plus the sum of the squared sines of the principal
    angles. It is the length of a chord of the Conway sphere divided by sqrt(2), not a geodesic distance.

    Parameters
    ----------
    P, Q : arrays of shape (..., m, m)
        Projection matrices; leading axes broadcast.

    Returns
    -------
    distance : array of shape (...)
        The distances; a scalar for two matrices.
    """
    return np.linalg.norm(np.asarray(P) - np.asarray(Q), axis=(-2, -1)) / np.sqrt(2.0)


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

    Entry j, k of the matrix is int int sign(v - u) u^j v^k f(u) f(v) exp(-(u^2 + v^2) / 2) du dv, f = x on the positive
    half line and 1 on the negative one. `within` is the part on one half line, up to a sign; that on both is a product.
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

    By parts, with w(x) = exp(-x^2 / 2): the integral D_j(y) of x^j w(x) over x < y minus that over x > y is (j - 1)
    D_{j-2} - 2 y^{j-1} w(y), and D_1 = 1 - 2 w(y). The square of w is exp(-y^2), with the moments `narrow`.
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
    """Pi in the precision of the decimal context, by arithmetic-geometric means (Gauss and Legendre)."""
    with localcontext() as context:
        context.prec += 10
        a, b, rest = Decimal(1), Decimal("0.5").sqrt(), Decimal("0.25")
        for i in range(context.prec.bit_length()):  # the number of digits doubles with each mean
            a, b, gap = (a + b) / 2, (a * b).sqrt(), a - b
            rest -= 2**i * (gap / 2) ** 2
        pi = (a + b) ** 2 / (4 * rest)
    return +pi


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
