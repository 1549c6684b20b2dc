"""Base classes of manifolds, the protocols of their geometry (geodesics, diffusion metrics), and checks of points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np

from ..utils._parameters import LinksToItsPage, PlainNumbers
from ..utils._typing import ArrayLike, BaseEstimator


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

    def _check_counts(self, *names: str) -> None:
        """Raise an error unless these parameters are positive integers."""
        for name in names:
            check_count(f"The parameter {name} of {type(self).__name__}", getattr(self, name))

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

    def retract(self, x: np.ndarray, v: np.ndarray) -> None:
        """Correct rounding errors of a point close to the manifold and of its tangent vector, in place.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points close to the manifold; modified in place.
        v : ndarray of shape (n_chains, ...)
            Vectors at these points; modified in place.
        """


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

    def divergence(self, x: np.ndarray, out: np.ndarray) -> None:
        r"""Divergence of the inverse metric, :math:`\sum_j \partial (G^{-1})_{ij} / \partial x_j`, written to `out`.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points.
        out : ndarray of shape (n_chains, ...)
            Output: the divergence.
        """

    def reflect(self, x: np.ndarray, momentum: np.ndarray | None = None) -> None:
        """Reflect coordinates that left the space back into it and reverse their momenta, in place.

        Parameters
        ----------
        x : ndarray of shape (n_chains, ...)
            Points after a step; modified in place.
        momentum : ndarray of shape (n_chains, ...), default=None
            Momenta of the points; modified in place; None for samplers without momentum.
        """


class ShapedLikeArray(Manifold):
    """A manifold whose dimension is the number of array entries; its parameter is the shape."""

    shape: tuple[int, ...] = ()  # replaces the property of the base class

    def __init__(self, shape: int | Sequence[int]) -> None:
        self.shape = cast(tuple[int, ...], shape)  # `_set_up` converts it to a tuple
        self._set_up()

    def _set_up(self) -> None:
        self.shape = check_shape(type(self).__name__, self.shape)

    @property
    def dim(self) -> int:
        """Intrinsic dimension: the number of coordinates."""
        return self.size


class RowsOfVectors(Manifold):
    """A manifold of vectors of `d` entries with one constraint, or of `n_points` such vectors as rows."""

    def __init__(self, d: int, n_points: int | None = None) -> None:
        self.d = d
        self.n_points = n_points
        self._set_up()

    def _set_up(self) -> None:
        self._check_counts("d", *([] if self.n_points is None else ["n_points"]))

    @property
    def shape(self) -> tuple[int, ...]:
        """``(d,)``, or ``(n_points, d)``."""
        return (self.d,) if self.n_points is None else (self.n_points, self.d)

    @property
    def dim(self) -> int:
        """Intrinsic dimension: d - 1 for each point."""
        return (self.d - 1) * (self.n_points or 1)


def check_count(subject: str, value: Any) -> None:
    """Raise an error unless `value` is a positive integer; the message begins with `subject`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{subject} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{subject} must be at least 1, got {value!r}.")


def check_shape(owner: str, shape: Any) -> tuple[int, ...]:
    """`shape`, an integer or a sequence of integers, as a tuple of positive integers; a tuple is returned unchanged."""
    if isinstance(shape, Integral) and not isinstance(shape, bool):
        shape = (int(shape),)
    elif isinstance(shape, list):
        shape = tuple(shape)
    if not isinstance(shape, tuple) or not shape:
        raise TypeError(f"The shape of {owner} must be an integer or a tuple of integers, got {shape!r}.")
    for length in shape:
        check_count(f"Every axis of {owner}", length)
    return shape


def finite_array(x: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """`x` as an array of floats; raises a ValueError unless its last axes have the shape `shape` and it is finite."""
    x = np.asarray(x, dtype=np.float64)
    if x.shape[max(x.ndim - len(shape), 0) :] != shape:
        raise ValueError(f"A point must have shape {shape}, after any leading axes; got an array of shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"A point must be finite; {np.count_nonzero(~np.isfinite(x))} of its entries are not.")
    return x


def check_excess(excess: np.ndarray, atol: float, rule: str) -> None:
    """Raise a ValueError that begins with `rule` if a deviation from it exceeds `atol`."""
    largest = np.abs(excess).max(initial=0.0)
    if largest > atol:
        raise ValueError(f"{rule}; the largest deviation is {largest:.3g}.")


def check_non_negative(x: np.ndarray) -> None:
    """Raise a ValueError for negative coordinates of any size, because their square roots are not real."""
    if (x < 0).any():
        raise ValueError(f"The coordinates of a point must not be negative; the smallest is {x.min():.3g}.")
