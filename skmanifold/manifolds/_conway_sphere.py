"""The Conway sphere, which contains the projection matrices of all ranks."""

from __future__ import annotations

import numpy as np

from ._base import Manifold
from ._sphere import flow_on_sphere, project_to_sphere, retract_to_sphere
from ._validation import check_count, finite_array


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
        check_count("The parameter m of ConwaySphere", self.m)
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
        excess = np.abs(np.linalg.norm(finite_array(x, self.shape) - self._centre, axis=-1) - self.radius)
        if (excess > atol).any():
            raise ValueError(
                f"A point must have the distance sqrt(m) / 2 = {self.radius:.6g} from the centre; "
                f"the largest deviation is {excess.max():.3g}."
            )

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
