"""The base class of samplers, and the state of chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..utils._parameters import LinksToItsPage, PlainNumbers
from ..utils._typing import BaseEstimator
from ._capabilities import FullPasses, MinibatchStreams
from ._states import ChainState, State


class BaseSampler(PlainNumbers, LinksToItsPage, BaseEstimator):
    """Base class of samplers.

    The constructor only stores settings of the algorithm: no model, no compiled functions and no random state. So a
    sampler can be cloned, compared, printed and used in a grid search like any scikit-learn object.
    """

    short_name: ClassVar[str]
    requires: ClassVar[tuple[type, ...]] = ()
    # "full": needs all rows at once; "either": has the methods of `MinibatchStreams` too
    batching: ClassVar[str] = "full"
    state_types: ClassVar[tuple[type, ...]] = (State,)  # the NamedTuples that `init` and `step` return
    log_density_name: ClassVar[str] = "log_likelihood"
    draws_parameters: ClassVar[bool] = False  # whether `parameters` are draws from their posterior
    averages_passes: ClassVar[bool] = True  # false if it converges, or if labels have another meaning in each pass
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
        raise TypeError(f"{type(self).__name__} must define init(model, key).")

    def step(self, model: Any, state: Any) -> Any:
        """The state after one more pass over the data."""
        raise TypeError(f"{type(self).__name__} must define step(model, state).")

    def parameters(self, model: Any, state: Any) -> Any:
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

    def has_converged(self, state: ChainState) -> bool:
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

    def has_settled(self, log_density: Sequence[float], n_rows: int) -> bool:
        """Whether burn-in can end early, because the log density has ceased to rise; False for samplers that draw.

        When all chains have settled, burn-in ends, and the fit ends after as many passes as the estimate averages. The
        decision depends on log densities alone, so that it is the same for every `n_jobs` and in distributed fits.

        Parameters
        ----------
        log_density : sequence of float
            The log density of each pass so far.
        n_rows : int
            Number of rows of the data.

        Returns
        -------
        bool
            Whether the chain has settled.
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
            Number of passes; 1 if ``averages_passes`` is false.
        """
        return n_kept_passes if self.averages_passes else 1
