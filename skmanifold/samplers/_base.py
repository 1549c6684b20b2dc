"""What a sampler is: a value that holds an algorithm's settings, and moves a state when asked."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from ..utils._plain_numbers import PlainNumbers
from ._capabilities import FullPasses, MinibatchStreams
from ._states import ChainState, State


class BaseSampler(PlainNumbers, BaseEstimator):
    """Base class of samplers.

    The constructor holds settings of the algorithm only: nothing of the model, nothing compiled, no random state. So a
    sampler can be cloned, compared, printed and searched over like any scikit-learn object.
    """

    short_name: ClassVar[str]
    requires: ClassVar[tuple[type, ...]] = ()
    # "full": needs all rows at once; "either": has the methods of `MinibatchStreams` too
    batching: ClassVar[str] = "full"
    state_types: ClassVar[tuple[type, ...]] = (State,)  # the NamedTuples that `init` and `step` return
    log_density_name: ClassVar[str] = "log_likelihood"
    draws_parameters: ClassVar[bool] = False  # whether `parameters` are draws from their posterior
    _parameter_constraints: ClassVar[dict] = {}

    @property
    def can_converge(self) -> bool:
        """Whether `has_converged` may be true of a state."""
        return False

    @property
    def capabilities(self) -> tuple[type, ...]:
        """The protocols that the sampler declares to satisfy; a fit refuses one that lacks their methods."""
        return (FullPasses, MinibatchStreams) if self.batching == "either" else (FullPasses,)

    def init(self, model: Any, key: np.uint64) -> Any:
        """The state before the first step."""
        raise TypeError(f"{type(self).__name__} does not say how to begin: define init(model, key).")

    def step(self, model: Any, state: Any) -> Any:
        """The state after one more pass over the data."""
        raise TypeError(f"{type(self).__name__} does not say how to move: define step(model, state).")

    def parameters(self, model: Any, state: Any) -> Any:
        """The model's parameters in this state: a draw where ``draws_parameters``, else the mode."""
        return model.mode(state.statistics)

    def has_converged(self, state: ChainState) -> bool:
        """Whether further steps are of no use; a fit ends when all its chains say so."""
        return False

    def average_window(self, n_kept_passes: int) -> int:
        """Over how many of the last passes the statistics are averaged to give the estimate."""
        return n_kept_passes
