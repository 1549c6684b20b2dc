"""What the states of chains must satisfy that an estimator keeps between minibatches."""

from __future__ import annotations

from typing import Annotated, Any

from ..utils._conditions import Condition, Point, Size, Sizes, refuse
from ..utils._declared import check
from ._cir.scir_by_rows import SCIRRowsState
from ._density.gradient_base import MovingState
from ._states import is_of

__all__ = ["is_of", "moving", "nothing"]


def nothing(value: Any, where: str, sizes: Sizes) -> None:
    """The condition of what is not kept."""
    if value is not None:
        refuse(where, "holds what is not kept")


def moving(*shape: Size, rows: Any = None, latents: Any = None) -> Condition:
    """Condition of one chain of a sampler of points of this shape."""
    states: Any = MovingState if rows is None else MovingState | SCIRRowsState
    hint: Any = Annotated[states, Point(" ".join(map(str, shape)))]
    return lambda value, where, sizes: check(hint, value, where, sizes)
