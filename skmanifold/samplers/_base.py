"""What a sampler is: a value that holds an algorithm's settings, and moves a state when asked."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..utils._plain_numbers import PlainNumbers


class State(NamedTuple):
    """Everything that moves. A step returns a new state, and may reuse the old one's buffers.

    Samplers of a model with its own statistics hold one chain; samplers on a manifold hold `n_chains` chains beside
    each other, as the leading axis of every array, and one key for each.
    """

    position: Any  # parameters, as the model's kernels read them
    key: Any  # the chain's stream; a step folds ``n_steps`` into it
    n_steps: int = 0
    log_density: Any = np.nan  # of the last step, as each sampler says
    momentum: Any = None
    thermostat: Any = None
    statistics: Any = None  # sufficient statistics
    latents: Any = None  # per-token or per-row variables
    memory: Any = None  # what the estimator of the gradient carries from step to step

    def counted(self) -> State:
        """Return the same after one more step: in half the time of ``_replace``, which small arrays feel."""
        return State(*self[:2], self.n_steps + 1, *self[3:])

    def detached(self) -> State:
        """Return the same with arrays of its own for what moves: steps may reuse those of the state they are given."""
        moves = (self.position, self.momentum, self.thermostat)
        position, momentum, thermostat = (copy.copy(array) for array in moves)
        return self._replace(position=position, momentum=momentum, thermostat=thermostat)


class BaseSampler(PlainNumbers, BaseEstimator):
    """Base class of samplers.

    The constructor holds settings of the algorithm only: nothing of the model, nothing compiled, no random state. So a
    sampler can be cloned, compared, printed and searched over like any scikit-learn object.
    """

    short_name: ClassVar[str]
    requires: ClassVar[tuple[type, ...]] = ()
    # "full": needs all rows at once; "either": has init_stream, resume_stream and step_stream too, for minibatches
    batching: ClassVar[str] = "full"
    log_density_name: ClassVar[str] = "log_likelihood"
    draws_parameters: ClassVar[bool] = False  # whether `parameters` are draws from their posterior
    _parameter_constraints: ClassVar[dict] = {}

    @property
    def can_converge(self) -> bool:
        """Whether `has_converged` may be true of a state."""
        return False

    def init(self, model: Any, key: np.uint64) -> State:
        """The state before the first step."""
        raise TypeError(f"{type(self).__name__} does not say how to begin: define init(model, key).")

    def step(self, model: Any, state: State) -> State:
        """The state after one more pass over the data."""
        raise TypeError(f"{type(self).__name__} does not say how to move: define step(model, state).")

    def parameters(self, model: Any, state: State) -> Any:
        """The model's parameters in this state: a draw where ``draws_parameters``, else the mode."""
        return model.mode(state.statistics)

    def has_converged(self, state: State) -> bool:
        """Whether further steps are of no use; a fit ends when all its chains say so."""
        return False

    def average_window(self, n_kept_passes: int) -> int:
        """Over how many of the last passes the statistics are averaged to give the estimate."""
        return n_kept_passes
