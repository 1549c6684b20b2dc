"""States of chains: the default one, and functions for states of any sampler.

Most samplers define their own NamedTuple, in their own file. Its first four fields are ``position``, ``key``,
``n_steps`` and ``log_density``. A step returns a new state, and may reuse the arrays of the old one. On a manifold a
state holds all chains: the first axis of every array is theirs, and each has its own key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..utils._conditions import Array, Real

LARGEST = 1e100  # coordinate in a file; its square is a number
# Arrays of states, in files always of one chain
Points: TypeAlias = Annotated[np.ndarray, Array("float64", "1 ...", low=-LARGEST, high=LARGEST)]  # (n_chains, *shape)
Keys: TypeAlias = Annotated[np.ndarray, Array("uint64", "1")]  # (n_chains,)
LogDensity: TypeAlias = (
    Annotated[np.ndarray, Array("float64", "1", nan=True, infinite=True)]
    | Annotated[float, Real(nan=True, infinite=True)]
)


class State(NamedTuple):
    """The default state, for samplers that keep nothing else from one step to the next.

    Other samplers define their own NamedTuple, with the same first four fields, and list it in ``state_types``.

    Attributes
    ----------
    position : object
        The parameters, in the form that the kernels of the model read.
    key : uint64 or ndarray of uint64
        Key of the chain's random stream; a step folds ``n_steps`` into it.
    n_steps : int
        Number of steps.
    log_density : float or ndarray
        Log density in the last step, as each sampler defines it.
    momentum : object
        Velocity; None for samplers without one.
    thermostat : object
        Friction; None for samplers without one.
    statistics : object
        Sufficient statistics; None for samplers without any.
    latents : object
        Latent variables of the rows or tokens; None for samplers without any.
    """

    position: Any
    key: Any
    n_steps: int = 0
    log_density: Any = np.nan
    momentum: Any = None
    thermostat: Any = None
    statistics: Any = None
    latents: Any = None


class LatentState(NamedTuple):
    """One chain of a sampler of latent variables, each of which says what its position is."""

    position: Any
    key: np.uint64
    n_steps: int
    log_density: float
    statistics: Any  # of the latents, drawn or expected
    latents: Any


def is_of(sampler: type, state: Any) -> bool:
    """Whether a state is one that steps of a kind of sampler read."""
    return type(state) in getattr(sampler, "state_types", ())


SHARED_FIELDS = ("position", "key", "n_steps", "log_density")


class PassState(NamedTuple):
    """One chain of passes over the rows, where a pass is many steps of a sampler, each with one minibatch.

    It wraps the sampler's state, which may be of any type, and adds what the estimator keeps from pass to pass.
    """

    moving: Any  # the sampler's state
    log_density: float = np.nan  # of the last pass
    statistics: Any = None  # what is averaged over passes
    latents: Any = None  # latent variables of the rows, if the estimator draws them

    @property
    def position(self) -> Any:
        """The position in the sampler's state."""
        return self.moving.position

    @property
    def key(self) -> Any:
        """The key in the sampler's state."""
        return self.moving.key

    @property
    def n_steps(self) -> int:
        """Number of steps of the sampler."""
        return self.moving.n_steps


AnyState = TypeVar("AnyState", bound=tuple)


def counted(state: AnyState) -> AnyState:
    """The state with ``n_steps`` increased by one; twice as fast as ``_replace``, which matters for small arrays."""
    return tuple.__new__(type(state), (*state[:2], state[2] + 1, *state[3:]))


def detached(state: Any) -> Any:
    """A copy of the state whose arrays a step may overwrite, so that a step that fails leaves `state` unchanged.

    Arrays are copied. A field that has a method ``detached`` is replaced by its result. Other fields are shared.
    """
    changed: dict[str, Any] = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            changed[name] = value.copy()
        elif hasattr(value, "detached"):
            changed[name] = value.detached()
    return state._replace(**changed)


def run_pilot(step: Callable[[Any], Any], state: Any, n_steps: int) -> tuple[float, Any]:
    """The mean log density of the second half of some steps, to select an initial state, and the final state."""
    trace = []
    for _ in range(n_steps):
        state = step(state)
        trace.append(state.log_density)
    return float(np.mean(trace[n_steps // 2 :])), state
