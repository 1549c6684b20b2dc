"""The probability simplex."""

from __future__ import annotations

import numpy as np

from ._shapes import RowsOfVectors
from ._validation import check_non_negative, finite_array


class Simplex(RowsOfVectors):
    """Probability vectors of `d` entries, or `n_points` of them.

    The base measure is Lebesgue's on the first d - 1 coordinates of each vector, so that Dirichlet densities read as
    they are usually printed; random points are uniform, Dirichlet(1, ..., 1). Zero is a legal coordinate, and a
    negative one is not, whatever the tolerance.

    It has no flow and no diagonal metric of its own: a sampler moves on it by exact transitions, as SCIR does, or
    through a chart that carries the Jacobian to the positive orthant, a Euclidean space or the sphere.

    Parameters
    ----------
    d : int
        Number of entries, at least 1.
    n_points : int, default=None
        Shape ``(n_points, d)``, every row a point of the simplex; None: shape ``(d,)``, one point.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not a positive integer.
    """

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw uniformly."""
        return rng.dirichlet(np.ones(self.d), size=self.n_points)

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` is nowhere negative and every vector sums to one within `atol`."""
        x = finite_array(x, self.shape)
        check_non_negative(x)
        excess = np.abs(x.sum(axis=-1) - 1)
        if (excess > atol).any():
            raise ValueError(
                f"A point of the simplex sums to 1, but the sum of one of these is {excess.max():.3g} off."
            )
