"""Base classes of manifolds whose parameter is an array shape, or a number of vectors of some length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ._base import Manifold
from ._validation import check_count, check_shape


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
        check_count(f"The parameter d of {type(self).__name__}", self.d)
        if self.n_points is not None:
            check_count(f"The parameter n_points of {type(self).__name__}", self.n_points)

    @property
    def shape(self) -> tuple[int, ...]:
        """``(d,)``, or ``(n_points, d)``."""
        return (self.d,) if self.n_points is None else (self.n_points, self.d)

    @property
    def dim(self) -> int:
        """Intrinsic dimension: d - 1 for each point."""
        return (self.d - 1) * (self.n_points or 1)
