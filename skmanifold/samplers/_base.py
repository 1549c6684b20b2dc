"""The base class of samplers, and the state of chains."""

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

    Parameters
    ----------
    position : ndarray or object
        Parameters: points of the manifold, one row per chain, or in the form that the kernels of the model use.
    key : uint64 or ndarray of shape (n_chains,)
        Key of the chain; a step folds `n_steps` into it.
    n_steps : int, default=0
        Number of steps so far.
    log_density : float or ndarray of shape (n_chains,), default=nan
        Log density of the last step, as the documentation of each sampler specifies.
    momentum : ndarray of shape (n_chains, ...), optional
        Momenta or auxiliary variables.
    thermostat : ndarray of shape (n_chains,), optional
        Friction of thermostats.
    statistics : object, optional
        Sufficient statistics.
    latents : object, optional
        Latent variables of tokens or rows.
    memory : object, optional
        Data that the sampler keeps from step to step.
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
        """Return the state with one more step; this is faster than ``_replace``.

        Returns
        -------
        state : State
            The state.
        """
        return State(*self[:2], self.n_steps + 1, *self[3:])

    def detached(self) -> State:
        """Return the state with copies of the arrays that steps may overwrite.

        Returns
        -------
        state : State
            The state.
        """
        moves = (self.position, self.momentum, self.thermostat)
        position, momentum, thermostat = (copy.copy(array) for array in moves)
        return self._replace(position=position, momentum=momentum, thermostat=thermostat)


class BaseSampler(PlainNumbers, BaseEstimator):
    """Base class of samplers.

    The constructor only stores settings of the algorithm: no model, no compiled functions and no random state. So a
    sampler can be cloned, compared, printed and used in a grid search like any scikit-learn object.
    """

    short_name: ClassVar[str]
    requires: ClassVar[tuple[type, ...]] = ()
    # "full": needs all rows at once; "either": has init_stream, resume_stream and step_stream too, for minibatches
    batching: ClassVar[str] = "full"
    log_density_name: ClassVar[str] = "log_likelihood"
    draws_parameters: ClassVar[bool] = False  # whether `parameters` are draws from their posterior
    _parameter_constraints: ClassVar[dict] = {}

    def init(self, model: Any, key: np.uint64) -> State:
        """The state before the first step.

        Parameters
        ----------
        model : object
            The model or target.
        key : uint64
            Key of the chain.

        Returns
        -------
        state : State
            The initial state.
        """
        raise TypeError(f"{type(self).__name__} must define init(model, key).")

    def step(self, model: Any, state: State) -> State:
        """The state after one more pass over the data.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        state : State
            The new state. It may reuse the arrays of the old one.
        """
        raise TypeError(f"{type(self).__name__} must define step(model, state).")

    def parameters(self, model: Any, state: State) -> Any:
        """The parameters of the model in this state: a draw if ``draws_parameters`` is true, else the mode.

        Parameters
        ----------
        model : object
            The model or target.
        state : State
            Current state.

        Returns
        -------
        parameters : object
            Parameters, in the form that the model uses.
        """
        return model.mode(state.statistics)

    def has_converged(self, state: State) -> bool:
        """Whether further steps would not change the result; a fit ends when all chains have converged.

        Parameters
        ----------
        state : State
            Current state.

        Returns
        -------
        bool
            Whether the chain has converged.
        """
        return False

    def average_window(self, n_kept_passes: int) -> int:
        """The number of last passes over which the estimate averages the statistics.

        Parameters
        ----------
        n_kept_passes : int
            Number of passes after burn-in.

        Returns
        -------
        int
            Number of passes.
        """
        return n_kept_passes
