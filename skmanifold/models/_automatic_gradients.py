"""Functions of all chains, and their gradients, from functions of one point that JAX or PyTorch can differentiate."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from .._install import install_command

_Function = Callable[..., Any]


class Differentiated(NamedTuple):
    """Functions of the points of all chains, with the rows of each chain as a second argument if there are samples."""

    value: _Function
    gradient: _Function


def differentiate_by_jax(function: _Function, scale_of: Callable[[Any], float] | None = None) -> Differentiated:
    """Value and gradient in 64-bit floats, compiled by XLA, of ``f(x)``, a number, or ``f(x, rows)``, one for each row.

    ``scale_of(rows)`` is the factor of the sum over rows in the gradient; None for functions of a point alone.
    """
    _require("jax")
    import jax

    def total(*arguments: Any) -> Any:
        values = function(*arguments)
        return values if scale_of is None else values.sum() * scale_of(arguments[1])

    def of_all(each: _Function) -> _Function:
        mapped = jax.jit(jax.vmap(each))

        def call(*arguments: np.ndarray) -> np.ndarray:
            with jax.enable_x64(True):
                return np.asarray(mapped(*arguments), dtype=np.float64)

        return call

    return Differentiated(of_all(function), of_all(jax.grad(total)))


def differentiate_by_torch(function: _Function, scale_of: Callable[[Any], float] | None = None) -> Differentiated:
    """Value and gradient in 64-bit floats, by ``torch.func``; as `differentiate_by_jax`."""
    _require("torch")
    import torch

    def total(*arguments: Any) -> Any:
        values = function(*arguments)
        return values if scale_of is None else values.sum() * scale_of(arguments[1])

    def of_all(each: _Function) -> _Function:
        mapped = torch.func.vmap(each)

        def call(*arguments: np.ndarray) -> np.ndarray:
            copies = (torch.from_numpy(np.array(argument)) for argument in arguments)  # x itself is read-only
            return mapped(*copies).detach().numpy()

        return call

    return Differentiated(of_all(function), of_all(torch.func.grad(total)))


def _require(package: str) -> None:
    if find_spec(package) is None:
        raise ImportError(f"Density.from_{package} needs {package}: {install_command(package)}")
