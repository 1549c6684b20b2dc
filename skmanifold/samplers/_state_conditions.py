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
from ._base import State
from ._cir.lazy_cir_rows import LazyRows
from ._cir.scir import SCIR
from ._density.gradient_base import GradientMemory, GradientSampler
from ._density.integrator_kernels import N_COEFFICIENTS
from ._density.noise_covariance import Covariance
from ._density.recipe import Recipe

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


def moving(
    *shape: Size,
    statistics: Condition = nothing,
    latents: Condition = nothing,
    memory: Condition | None = None,
    position: Condition | None = None,
) -> Held:
    """Condition of one chain of a sampler of points of this shape."""
    point = Array("float64", (1, *shape), low=-LARGEST, high=LARGEST)
    return Held(
        State,
        position=point if position is None else position,
        key=_KEYS,
        n_steps=Whole(),
        log_density=_LOG_DENSITY,
        momentum=OrNone(point),
        thermostat=OrNone(Array("float64", (1,), low=-LARGEST, high=LARGEST)),
        statistics=statistics,
        latents=latents,
        memory=gradient_memory(*shape) if memory is None else memory,
    )


def gradient_memory(*shape: Size) -> OrNone:
    """Condition of the memory of a sampler that moves along gradients, None for another."""
    point = Array("float64", (1, *shape), low=-LARGEST, high=LARGEST)
    return OrNone(
        Held(
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
    )


def _running(value: Any, where: str, sizes: Sizes) -> None:
    Array("float64", (1, None, None)[: np.ndim(value)])(value, where, sizes)


def is_of(sampler: type, state: State) -> bool:
    """Whether a state has what steps of a kind of sampler read."""
    if isinstance(state.memory, LazyRows):
        return issubclass(sampler, SCIR)
    if not issubclass(sampler, GradientSampler):
        return state.memory is None and (state.latents is not None) == issubclass(sampler, SCIR)
    has = isinstance(state.memory, GradientMemory), state.momentum is not None, state.thermostat is not None
    return has == (True, sampler._has_momentum, sampler._has_thermostat) or (has[0] and issubclass(sampler, Recipe))


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
holds(**dict.fromkeys(State._fields, anything))(State)


def _others(vectors: np.ndarray | None, size: int) -> bool:
    return vectors is not None and vectors.shape != (1, size, size)
