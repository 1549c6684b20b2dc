"""States of chains: the plain one, and functions for states of any sampler.

Most samplers define a NamedTuple of their own, in their own file. Its first four fields are ``position``, ``key``,
``n_steps`` and ``log_density``. A step returns a new state, and may reuse the arrays of the old one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np


class ChainState(Protocol):
    """What all states have: where one chain stands, or several side by side.

    States of samplers on a manifold hold `n_chains` chains as the leading axis of every array, and one key for each.
    """

    @property
    def position(self) -> Any:
        """The parameters, as the model's kernels read them; None where the rows of the state are drawn when read."""
        ...

    @property
    def key(self) -> Any:
        """The chain's random stream; a step folds ``n_steps`` into it."""
        ...

    @property
    def n_steps(self) -> int:
        """Steps made."""
        ...

    @property
    def log_density(self) -> Any:
        """Of the last step, as each sampler defines it."""
        ...


class State(NamedTuple):
    """A plain state for samplers that carry nothing special from one step to the next.

    A sampler that does defines a NamedTuple of its own, whose first four fields are those of this one, and lists it in
    ``state_types``.
    """

    position: Any  # the parameters, as the model's kernels read them
    key: Any  # the chain's random stream; a step folds ``n_steps`` into it
    n_steps: int = 0
    log_density: Any = np.nan  # of the last step, as each sampler defines it
    momentum: Any = None
    thermostat: Any = None
    statistics: Any = None  # sufficient statistics
    latents: Any = None  # variables of the tokens or rows


SHARED_FIELDS = ("position", "key", "n_steps", "log_density")


class PassState(NamedTuple):
    """One chain of passes over the rows, each of which is many steps of a sampler by minibatches.

    The sampler's state may be of any type, so what the estimator keeps from pass to pass is not part of it.
    """

    moving: Any  # the sampler's own state
    log_density: float = np.nan  # of the last pass
    statistics: Any = None  # what is averaged over passes
    latents: Any = None  # variables of the rows, if the estimator draws them

    @property
    def position(self) -> Any:
        """The position of the sampler's state."""
        return self.moving.position

    @property
    def key(self) -> Any:
        """The random stream of the sampler's state."""
        return self.moving.key

    @property
    def n_steps(self) -> int:
        """Steps of the sampler."""
        return self.moving.n_steps


AnyState = TypeVar("AnyState", bound=tuple)


def counted(state: AnyState) -> AnyState:
    """The same state after one more step: in half the time of ``_replace``, which matters for small arrays."""
    return tuple.__new__(type(state), (*state[:2], state[2] + 1, *state[3:]))


def detached(state: Any) -> Any:
    """The same state with its own copies of what steps write to, so that a step that fails leaves `state` as it was.

    Arrays are copied, and fields that have a method ``detached`` of their own; other fields are shared.
    """
    changed: dict[str, Any] = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            changed[name] = value.copy()
        elif hasattr(value, "detached"):
            changed[name] = value.detached()
    return state._replace(**changed)
