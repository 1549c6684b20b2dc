"""The probability simplex."""

from __future__ import annotations

import numpy as np

from ._shapes import RowsOfVectors
from ._validation import check_non_negative, finite_array


class Simplex(RowsOfVectors):
    """Probability vectors of `d` entries, or `n_points` of them.

    The base measure is the Lebesgue measure on the first d - 1 coordinates of each vector, for which the Dirichlet
    density has its usual form. Random points are uniform, Dirichlet(1, ..., 1). Zero is a valid coordinate; negative
    coordinates are never valid, whatever the tolerance.

    This manifold has neither a geodesic flow nor a diagonal metric. Samplers use exact transitions on it, as SCIR does,
    or a chart, with its Jacobian, to the positive orthant, a Euclidean space or the sphere.

    Parameters
    ----------
    d : int
        Number of entries, at least 1.
    n_points : int, default=None
        Number of vectors. A point then has shape ``(n_points, d)``, and each row is in the simplex. None: one vector,
        of shape ``(d,)``.

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
                f"The entries of a point of the simplex must sum to 1; the largest deviation is {excess.max():.3g}."
            )
