"""What a manifold is: a value that knows shapes, tangents, geodesics and metrics, and no data."""

from __future__ import annotations

import math
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator

from ..utils._plain_numbers import PlainNumbers


class Manifold(PlainNumbers, BaseEstimator):
    """Base class of manifolds.

    A point is a float64 array of `shape`; `dim` is the intrinsic dimension. Methods that move points take float64
    arrays with one leading axis of chains, ``(n_chains, *shape)``, C-contiguous, and write in place: chains do not see
    each other. Log densities are with respect to the manifold's base measure, which the class names.

    A subclass stores its constructor's arguments under their own names, then calls `_set_up`, which refuses bad ones.
    """

    def _set_up(self) -> None:
        """Check the parameters and derive what the methods need."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, checked as in the constructor.

        Parameters
        ----------
        **params : dict
            Names and values of parameters.

        Returns
        -------
        self : Manifold
            The same object.
        """
        super().set_params(**params)
        self._set_up()
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array that represents a point."""
        raise NotImplementedError

    @property
    def dim(self) -> int:
        """Intrinsic dimension."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """How many numbers represent a point."""
        return math.prod(self.shape)

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a point of `shape`: uniform where the manifold is compact."""
        raise NotImplementedError

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x`, of `shape` after any leading axes, is on the manifold within `atol`."""
        raise NotImplementedError


@runtime_checkable
class Flat(Protocol):
    """A whole Euclidean space: a straight step from any point leads to a point; declared only where it is so."""

    is_flat: bool


@runtime_checkable
class GeodesicFlow(Protocol):
    """An embedded manifold whose geodesics are known in closed form."""

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Replace `v` by its tangent part at `x`, in place."""
        ...

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Follow the geodesic from `x` with velocity `v` for time `t`; both move, in place."""
        ...

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Take rounding errors off a point that left the manifold by little, and off its tangent vector, in place."""
        ...


@runtime_checkable
class DiffusionMetric(Protocol):
    """A space with a diagonal Riemannian metric G, for diffusions in its own coordinates."""

    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Diagonal of the inverse metric G^-1 at `x`, written to `out`, shaped like `x`."""
        ...

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        r"""Its divergence, :math:`\sum_j \partial (G^{-1})_{ij} / \partial x_j`, written to `out`."""
        ...

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Mirror coordinates that left the space back into it, and turn their momenta round, in place."""
        ...
