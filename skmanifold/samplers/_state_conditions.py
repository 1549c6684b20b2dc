"""What the states of chains must satisfy that an estimator keeps between minibatches."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..utils._conditions import (
    FLAG,
    Array,
    Condition,
    Either,
    OrNone,
    Real,
    Size,
    Sizes,
    Whole,
    anything,
    refuse,
)
from ..utils._declared import Held, holds
from ._cir.scir import LogPositionState
from ._cir.scir_by_rows import SCIRRowsState
from ._density.gradient_base import GradientMemory, GradientState, MomentumState, ThermostatState
from ._density.integrator_kernels import N_COEFFICIENTS
from ._density.noise_covariance import Covariance
from ._latent.em import EMState
from ._states import State

_MOVING: tuple[type, ...] = (GradientState, MomentumState, ThermostatState, LogPositionState, SCIRRowsState)
LARGEST = 1e100  # coordinate; its square is a number
_KEYS = Array("uint64", (1,))
_LOG_DENSITY = Either(
    lambda value: isinstance(value, np.ndarray),
    Array("float64", (1,), nan=True, infinite=True),
    Real(nan=True, infinite=True),
)


def nothing(value: Any, where: str, sizes: Sizes) -> None:
    """The condition of what is not kept."""
    if value is not None:
        refuse(where, "holds what is not kept")


def moving(*shape: Size, **others: Condition) -> Condition:
    """Condition of one chain of a sampler of points of this shape.

    Parameters
    ----------
    *shape : str or int
        Of a point.
    **others : Condition
        Of fields that only some states have: ``log_theta`` admits `LogPositionState`, ``rows`` and ``latents`` admit
        `SCIRRowsState`.
    """
    point = Array("float64", (1, *shape), low=-LARGEST, high=LARGEST)
    thermostat = Array("float64", (1,), low=-LARGEST, high=LARGEST)
    fields: dict[str, Condition] = {
        "position": point,
        "key": _KEYS,
        "n_steps": Whole(),
        "log_density": _LOG_DENSITY,
        "memory": gradient_memory(*shape),
        "momentum": point,
        "thermostat": thermostat,
        **others,
    }
    known: dict[type, Held] = {}
    for state_type in _MOVING:
        names = state_type._fields  # type: ignore[attr-defined]
        if fields.keys() >= set(names):
            conditions = {name: fields[name] for name in names}
            if state_type is SCIRRowsState:
                conditions["position"] = nothing
            known[state_type] = Held(state_type, **conditions)

    def holds_one(value: Any, where: str, sizes: Sizes) -> None:
        known.get(type(value), Held(*known))(value, where, sizes)

    return holds_one


def gradient_memory(*shape: Size) -> Held:
    """Condition of the memory of a sampler that moves along gradients."""
    point = Array("float64", (1, *shape), low=-LARGEST, high=LARGEST)
    return Held(
        GradientMemory,
        gradient=point,
        noise=point,
        keys=_KEYS,
        coefficients=Array("float64", (N_COEFFICIENTS, 1)),
        covariance=OrNone(Held(Covariance)),
        running=OrNone(_running),
        anchor=OrNone(point),
        anchor_gradient=OrNone(point),
        declared=FLAG,
    )


def _running(value: Any, where: str, sizes: Sizes) -> None:
    Array("float64", (1, None, None)[: np.ndim(value)])(value, where, sizes)


def is_of(sampler: type, state: Any) -> bool:
    """Whether a state is one that steps of a kind of sampler read."""
    return type(state) in getattr(sampler, "state_types", ())


def memory_agrees(memory: GradientMemory, sizes: Sizes) -> str | None:
    """Whether covariances fit the points."""
    size = memory.gradient.size
    covariance, running = memory.covariance, memory.running
    if covariance is not None and (covariance.values.shape != (1, size) or _others(covariance.vectors, size)):
        return "has a covariance that does not fit its points"
    if running is not None and (covariance is None or running.shape[1:] not in ((size,), (size, size))):
        return "has a running covariance that does not fit its points"
    if running is not None and covariance is not None and (running.ndim == 3) != (covariance.vectors is not None):
        return "has a running covariance that is not of the kind of its covariance"
    return None if (memory.anchor is None) == (memory.anchor_gradient is None) else "has an anchor without its gradient"


holds(memory_agrees, **dict.fromkeys(GradientMemory._fields, anything))(GradientMemory)
for _state_type in (State, EMState, *_MOVING):
    holds(**dict.fromkeys(_state_type._fields, anything))(_state_type)  # type: ignore[attr-defined]


def _others(vectors: np.ndarray | None, size: int) -> bool:
    return vectors is not None and vectors.shape != (1, size, size)
