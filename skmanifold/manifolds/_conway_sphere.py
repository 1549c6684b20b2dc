"""The sphere on which the projections onto subspaces of every dimension lie together."""

from __future__ import annotations

import numpy as np

from ._base import Manifold
from ._sphere import flow_on_sphere, project_to_sphere, retract_to_sphere
from ._validation import check_count, finite_array


class ConwaySphere(Manifold):
    r"""Projection matrices of every rank in one sphere.

    A symmetric m x m matrix is written as the vector of its upper triangle, rows in order, the off-diagonal entries
    times :math:`\sqrt 2`, so that Euclidean and Frobenius distances agree. Every projection P, whatever its rank, then
    lies at distance :math:`\|P - I/2\|_F = \sqrt m / 2` from the image of I/2. This manifold is the sphere of that
    centre and radius. Its other points are symmetric matrices, which `nearest_projection` rounds.

    The base measure is the surface area; random points are uniform.

    .. warning::
        The uniform law is no vague prior on the rank: the trace has mean m / 2 and standard deviation
        :math:`m / (2 \sqrt{m (m + 1) / 2})`, less than 0.71 for every m, so that ranks away from m / 2 are never seen
        beyond m of about eight. Put an explicit prior on the rank.

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
    arXiv preprint. Its embedding, centre and radius are corrected here.
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
                f"A point has distance sqrt(m) / 2 = {self.radius:.6g} from the centre, "
                f"but the distance of one of these is {excess.max():.3g} off."
            )

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Take the radial part off `v`, in place."""
        project_to_sphere(x - self._centre, v, self._radii)

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Follow great circles about the centre for time `t`, in place."""
        x -= self._centre
        flow_on_sphere(x, v, t, self._radii)
        x += self._centre

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Scale the distance from the centre to the radius, then take the radial part off `v`, in place."""
        x -= self._centre
        retract_to_sphere(x, v, self._radii)
        x += self._centre

    def embed(self, P: np.ndarray) -> np.ndarray:
        """Write symmetric matrices as vectors.

        Parameters
        ----------
        P : array of shape (..., m, m)
            Symmetric matrices; projections land on the sphere.

        Returns
        -------
        x : array of shape (..., m (m + 1) / 2)
            The upper triangles, off-diagonal entries times sqrt(2).

        Raises
        ------
        ValueError
            If the matrices have another size, are not finite or not symmetric.
        """
        P = finite_array(P, (self.m, self.m))
        if not np.allclose(P, P.mT):
            raise ValueError(f"These matrices are not symmetric: two entries differ by {np.abs(P - P.mT).max():.3g}.")
        return P[..., self._rows, self._columns] * self._weights

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """Write vectors as symmetric matrices: the inverse of `embed`.

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

        It keeps the eigenvectors whose eigenvalues are larger than 1/2, which maximises the sum of (eigenvalue - 1/2)
        over those kept; rounding the trace to a rank does not.

        Parameters
        ----------
        x : array of shape (..., m (m + 1) / 2)
            Points, on the sphere or off it.

        Returns
        -------
        P : array of shape (..., m, m)
            Projection matrices.
        """
        eigenvalues, eigenvectors = np.linalg.eigh(self.matrix(x))
        kept = eigenvectors * (eigenvalues > 0.5)[..., None, :]
        return kept @ kept.mT


def projection_distance(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    r"""Chordal distance between subspaces of any dimensions, :math:`\|P - Q\|_F / \sqrt 2`.

    For dimensions d1 and d2 its square is half their difference plus the sum of the squared sines of the principal
    angles. It is a chord's length over sqrt(2) in the Conway sphere, not a geodesic distance.

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
