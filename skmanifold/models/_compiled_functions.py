"""Functions of a density that numba has compiled, as functions of all chains that compiled samplers can call."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError
from numba.core.types import FunctionType

_NUMBERS, _ROWS = (types.Array(types.float64, ndim, "C") for ndim in (1, 2))
_KEYS = types.Array(types.uint64, 1, "C")
# Of points (n_chains, size), keys and number of the step, and the output
GRADIENT = FunctionType(types.void(_ROWS, _KEYS, types.int64, _ROWS))
LOG_DENSITY = FunctionType(types.void(_ROWS, _NUMBERS))


class CompiledFunctions(NamedTuple):
    """Compiled functions of a density; arrays have one row for each chain.

    Attributes
    ----------
    gradient : Dispatcher
        ``f(x, keys, t, out)``, which writes the gradients.
    log_density : Dispatcher or None
        ``g(x, out)``, which writes the log densities.
    """

    gradient: Any
    log_density: Any


def compiled_functions(
    gradient: Any, log_density: Any, shape: tuple[int, ...], vectorized: bool
) -> CompiledFunctions | None:
    """The functions of a user for compiled samplers, or None if they are not functions of numba.

    Each is compiled once in a process. Functions receive copies of the points, as in uncompiled samplers.
    """
    if not isinstance(gradient, Dispatcher) or not isinstance(log_density, Dispatcher | None):
        return None
    into = _compiled(_gradient_forms(shape, vectorized), gradient, shape, GRADIENT)
    at = None if log_density is None else _compiled(_LOG_DENSITIES[vectorized], log_density, shape, LOG_DENSITY)
    return None if into is None or (at is None and log_density is not None) else CompiledFunctions(into, at)


@lru_cache(maxsize=256)
def _compiled(forms: tuple[Callable, ...], function: Any, shape: tuple[int, ...], signature: Any) -> Any:
    """The first form of the function that numba can compile, or None."""
    for form in forms:
        kernel = numba.njit(nogil=True)(form(function, shape))
        try:
            kernel.compile(signature.signature)
        except NumbaError:
            continue
        return kernel
    return None


# Loops, because numba compiles the assignment of an array to a part of another one for seconds.


def _gradient_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def gradient(x, keys, t, out):
        point = np.empty(shape)
        flat = point.reshape(-1)
        for c in range(len(x)):
            for i in range(len(flat)):
                flat[i] = x[c, i]
            values = function(point)
            if values.shape != shape:
                raise ValueError("grad_log_density must return an array with the shape of x.")
            found = np.ascontiguousarray(values).reshape(-1)
            for i in range(len(flat)):
                out[c, i] = found[i]

    return gradient


def _vector_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def gradient(x, keys, t, out):
        point = np.empty(shape)
        for c in range(len(x)):
            for i in range(len(point)):
                point[i] = x[c, i]
            values = function(point)
            if values.shape != shape:
                raise ValueError("grad_log_density must return an array with the shape of x.")
            for i in range(len(point)):
                out[c, i] = values[i]

    return gradient


def _number_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def gradient(x, keys, t, out):
        for c in range(len(x)):
            out[c, 0] = function(x[c].copy().reshape(shape))

    return gradient


def _gradient_of_all(function: Any, shape: tuple[int, ...]) -> Callable:
    def gradient(x, keys, t, out):
        values = function(x.copy().reshape((len(x), *shape)))
        if values.shape != (len(x), *shape):
            raise ValueError("grad_log_density must return an array with the shape of x.")
        flat = out.reshape(-1)
        for i, value in enumerate(values.flat):
            flat[i] = value

    return gradient


def _density_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def log_density(x, out):
        point = np.empty(shape)
        flat = point.reshape(-1)
        for c in range(len(x)):
            for i in range(len(flat)):
                flat[i] = x[c, i]
            out[c] = function(point)

    return log_density


def _item_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def log_density(x, out):
        for c in range(len(x)):
            out[c] = function(x[c].copy().reshape(shape)).item()

    return log_density


def _density_of_all(function: Any, shape: tuple[int, ...]) -> Callable:
    def log_density(x, out):
        values = function(x.copy().reshape((len(x), *shape)))
        if values.shape != out.shape:
            raise ValueError("log_density must return one number for each chain.")
        for c in range(len(x)):
            out[c] = values[c]

    return log_density


def _gradient_forms(shape: tuple[int, ...], vectorized: bool) -> tuple[Callable, ...]:
    if vectorized:
        return (_gradient_of_all,)
    form = _vector_of_each if len(shape) == 1 else _gradient_of_each
    return (form, _number_of_each) if math.prod(shape) == 1 else (form,)


_LOG_DENSITIES: dict[bool, tuple[Callable, ...]] = {False: (_density_of_each, _item_of_each), True: (_density_of_all,)}
