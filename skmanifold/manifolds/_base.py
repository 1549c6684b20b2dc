"""The base class of manifolds, and the protocols of their geometry: geodesics and diffusion metrics."""

from __future__ import annotations

import math
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from ..utils._parameters import LinksToItsPage, PlainNumbers
from ..utils._typing import BaseEstimator


class Manifold(PlainNumbers, LinksToItsPage, BaseEstimator):
    """Base class of manifolds.

    A point is a float64 array of `shape`; `dim` is the intrinsic dimension. Methods that move points accept
    C-contiguous float64 arrays with one leading axis of chains, ``(n_chains, *shape)``, and modify them in place.
    Chains are independent of each other. Log densities are with respect to the base measure of the manifold, which
    the documentation of each class specifies.

    The constructor of a subclass stores its arguments under their own names, then calls `_set_up`, which validates
    them.
    """

    geometry: Any = None  # a NamedTuple for compiled code (`_geometry`), if the manifold has its functions as kernels

    def _set_up(self) -> None:
        """Validate the parameters and compute the derived attributes."""

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
        """Number of entries of the array that represents a point."""
        return math.prod(self.shape)

    def random_point(self, rng: np.random.Generator) -> np.ndarray:
        """Draw a point; uniform if the manifold is compact.

        Parameters
        ----------
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        x : ndarray
            A point, an array of `shape`.
        """
        raise NotImplementedError

    def check_point(self, x: np.ndarray, atol: float = 1e-8) -> None:
        """Raise a ValueError unless `x` is on the manifold within `atol`.

        Parameters
        ----------
        x : ndarray
            Points: an array of `shape`, after any leading axes.
        atol : float, default=1e-8
            Absolute tolerance.

        Raises
        ------
        ValueError
            If a point is not on the manifold.
        """
        raise NotImplementedError


@runtime_checkable
class Flat(Protocol):
    """A Euclidean space, where a straight step from any point leads to another point.

    A manifold that is not a Euclidean space does not have this attribute, or has it set to False.

    Attributes
    ----------
    is_flat : bool
        Whether the manifold is a Euclidean space.
    """

    is_flat: bool


@runtime_checkable
class GeodesicFlow(Protocol):
    """An embedded manifold whose geodesics are known in closed form."""

    def project(self, x: np.ndarray, v: np.ndarray) -> None:
        """Replace `v` by its tangent part at `x`, in place.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points.
        v : ndarray of shape (n_chains, ...)
            Vectors at these points; modified in place.
        """
        ...

    def flow(self, x: np.ndarray, v: np.ndarray, t: float) -> None:
        """Move along the geodesic from `x` with velocity `v` for time `t`; both are updated in place.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points; replaced by the points at time `t`.
        v : ndarray of shape (n_chains, ...)
            Tangent velocities; replaced by those at time `t`.
        t : float
            Time, which may be negative.
        """
        ...

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Correct rounding errors of a point close to the manifold and of its tangent vector, in place.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points close to the manifold; modified in place.
        v : ndarray of shape (n_chains, ...)
            Vectors at these points; modified in place.
        """
        ...


@runtime_checkable
class DiffusionMetric(Protocol):
    """A space with a diagonal Riemannian metric G, for diffusions in its own coordinates."""

    def inverse_metric(self, x: np.ndarray, out: np.ndarray) -> None:
        """Diagonal of the inverse metric G^-1 at `x`, written to `out`.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points.
        out : ndarray of shape (n_chains, ...)
            Output: the diagonal of the inverse metric.
        """
        ...

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        r"""Divergence of the inverse metric, :math:`\sum_j \partial (G^{-1})_{ij} / \partial x_j`, written to `out`.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points.
        out : ndarray of shape (n_chains, ...)
            Output: the divergence.
        """
        ...

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Reflect coordinates that left the space back into it and reverse their momenta, in place.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points after a step; modified in place.
        momentum : ndarray of shape (n_chains, ...), default=None
            Momenta of the points; modified in place; None for samplers without momentum.
        """
        ...
