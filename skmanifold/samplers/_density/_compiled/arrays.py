"""The arrays of all chains that kernels of compiled samplers update, as rows of numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Chains(NamedTuple):
    """Arrays of all chains; those of points have the shape (n_chains, size)."""

    position: np.ndarray
    momentum: np.ndarray
    thermostat: np.ndarray  # (n_chains,)
    gradient: np.ndarray
    noise: np.ndarray
    key: np.ndarray  # (n_chains,): of the chains
    keys: np.ndarray  # (n_chains,): of the step
    coefficients: np.ndarray


def chains_of(state: Any) -> Chains:
    """Views of the arrays of a state; a momentum or a thermostat that it lacks has no entries."""
    n_chains, memory = len(state.key), state.memory
    momentum = getattr(state, "momentum", np.empty((n_chains, 0)))
    return Chains(
        state.position.reshape(n_chains, -1),
        momentum.reshape(n_chains, -1),
        getattr(state, "thermostat", np.empty(0)),
        memory.gradient.reshape(n_chains, -1),
        memory.noise.reshape(n_chains, -1),
        state.key,
        memory.keys,
        memory.coefficients,
    )
