"""What a sampler can do, as protocols: a sampler declares them, and `check_compatible` checks their methods."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class FullPasses(Protocol):
    """A sampler whose steps are passes over all rows, or over all minibatches of them."""

    def init(self, model: Any, key: Any) -> Any:
        """The state before the first step.

        Parameters
        ----------
        model : object
            The model or target.
        key : uint64 or ndarray of uint64
            Key of the chain's random stream; an array, one for each chain, for samplers on a manifold.

        Returns
        -------
        state : object
            Of one of the sampler's ``state_types``.
        """
        ...

    def step(self, model: Any, state: Any) -> Any:
        """The state after one more pass over the data.

        Parameters
        ----------
        model : object
            The model or target.
        state : object
            The state before the step, whose arrays may be overwritten.

        Returns
        -------
        state : object
            The new state.
        """
        ...


@runtime_checkable
class MinibatchStreams(Protocol):
    """A sampler whose statistics follow a stream of minibatches.

    The rows of one model are one minibatch, and the sampler sees each minibatch once.
    """

    def init_stream(self, model: Any, key: np.uint64, scale: float) -> Any:
        """The state after the first minibatch.

        Parameters
        ----------
        model : object
            The model of the minibatch.
        key : uint64
            Key of the random stream.
        scale : float
            Number of rows of the stream that each row of the minibatch represents.

        Returns
        -------
        state : object
            A state with `statistics`.
        """
        ...

    def resume_stream(self, model: Any, statistics: Any, key: np.uint64, n_steps: int) -> Any:
        """A state from the statistics that are kept between minibatches.

        Parameters
        ----------
        model : object
            The model of the next minibatch.
        statistics : object
            ``state.statistics`` after the last minibatch.
        key : uint64
            Key of the random stream.
        n_steps : int
            Number of minibatches so far.

        Returns
        -------
        state : object
            The state before the next minibatch.
        """
        ...

    def step_stream(self, model: Any, state: Any, rate: float, scale: float) -> Any:
        """The state after one more minibatch.

        Parameters
        ----------
        model : object
            The model of the minibatch.
        state : object
            The state before it.
        rate : float
            Weight of the new statistics, from 0 to 1.
        scale : float
            Number of rows of the stream that each row of the minibatch represents.

        Returns
        -------
        state : object
            A state with the new `statistics`.
        """
        ...
