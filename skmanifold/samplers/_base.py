"""What samplers can do, their base class, the parameter `sampler`, and whether a chain has settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from sklearn.base import clone

from ..utils._parameters import LinksToItsPage, PlainNumbers
from ..utils._typing import BaseEstimator
from ._states import State

N_COMPARED = 7  # passes in each of the two means that are compared


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
        scale : float
            Number of rows of the stream that each row of the minibatch represents.

        Returns
        -------
        state : object
            A state with `statistics`.
        """

    def resume_stream(self, model: Any, statistics: Any, key: np.uint64, n_steps: int) -> Any:
        """A state from the statistics that are kept between minibatches.

        Parameters
        ----------
        model : object
            The model of the next minibatch.
        statistics : object
            ``state.statistics`` after the last minibatch.
        key : uint64
        n_steps : int
            Number of minibatches so far.

        Returns
        -------
        state : object
            The state before the next minibatch.
        """

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

    def has_converged(self, state: Any) -> bool:
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


def named_sampler(name: str, known: dict[str, Any], context: str = "") -> BaseSampler:
    """The sampler of this short name, with default settings; an unknown name raises a ValueError."""
    if name not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"Unknown sampler {name!r}{context}: known names are {names}.")
    return known[name]()


def resolve_sampler(
    sampler: Any, known: dict[str, Any], context: str = "", wanted: str = "a name or an instance of a sampler"
) -> BaseSampler:
    """A new, validated sampler: a clone of an instance, or the sampler of a name with default settings."""
    if isinstance(sampler, str):
        return named_sampler(sampler, known, context)
    if isinstance(sampler, type):
        raise TypeError(
            f"sampler must be an instance or a name, not the class {sampler.__name__}: write {sampler.__name__}()."
        )
    if not isinstance(sampler, BaseSampler):
        raise TypeError(f"sampler must be {wanted}; got {sampler!r}.")
    sampler = clone(sampler)
    sampler._validate_params()
    return sampler


def mean_rise(log_density: Sequence[float]) -> float:
    """Mean log density of the last seven passes minus that of the seven before, in nats; infinite without these."""
    if len(log_density) < 2 * N_COMPARED:
        return float("inf")
    rise = sum(log_density[-N_COMPARED:]) - sum(log_density[-2 * N_COMPARED : -N_COMPARED])
    return rise / N_COMPARED
