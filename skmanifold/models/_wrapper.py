"""The base class of targets that wrap another target."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from ..utils._typing import available_if


def target_has(name: str) -> Callable[[Any], bool]:
    """Condition for `available_if`: the wrapped target has this method."""
    return lambda self: getattr(self.target, name, None) is not None


class TargetWrapper:
    """Base class of targets that wrap a `target`; they have its rows and minibatches."""

    target: Any

    @property
    def n_samples(self) -> int | None:
        """Number of data points of the target; None if it has no data."""
        return getattr(self.target, "n_samples", None)

    @property
    def batch_size(self) -> int | None:
        """Number of rows of a minibatch of the target; None means all rows."""
        return getattr(self.target, "batch_size", None)

    @property
    def vectorized(self) -> bool:
        """Whether user functions of the target accept all chains at once."""
        return getattr(self.target, "vectorized", False)

    @available_if(target_has("minibatched"))
    def minibatched(self, batch_size: int | None) -> Self:
        """Return a copy that wraps ``target.minibatched(batch_size)``.

        Parameters
        ----------
        batch_size : int or None
            Number of rows, from 1 to `n_samples`; None means all rows.

        Returns
        -------
        target : TargetWrapper
            The copy.
        """
        other = copy.copy(self)
        other.target = self.target.minibatched(batch_size)
        return other
