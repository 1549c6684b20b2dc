"""What targets that wrap another target have in common: they offer what it offers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from ..utils._typing import available_if


def target_has(name: str) -> Callable[[Any], bool]:
    """Condition for `available_if`: the wrapped target has this method."""
    return lambda self: getattr(self.target, name, None) is not None


class TargetWrapper:
    """Base class of targets around a `target`, whose rows and minibatches are theirs."""

    target: Any

    @property
    def n_samples(self) -> int | None:
        """Number of data points behind the target, where it tells."""
        return getattr(self.target, "n_samples", None)

    @property
    def batch_size(self) -> int | None:
        """Rows in a minibatch of the target; None: all."""
        return getattr(self.target, "batch_size", None)

    @property
    def vectorized(self) -> bool:
        """Whether functions that go with the target take all chains at once."""
        return getattr(self.target, "vectorized", False)

    @available_if(target_has("minibatched"))
    def minibatched(self, batch_size: int | None) -> Self:
        """Return the same around ``target.minibatched(batch_size)``.

        Parameters
        ----------
        batch_size : int or None
            From 1 to `n_samples`; None means all rows.
        """
        other = copy.copy(self)
        other.target = self.target.minibatched(batch_size)
        return other
