"""Functions of a density that numba has compiled, of a point or of rows, as functions of all chains."""

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

from ..numerics.special import copy_to
from ..random._keys import Purpose
from ..random._variates import sample_rows

_NUMBERS, _ROWS = (types.Array(types.float64, ndim, "C") for ndim in (1, 2))
_KEYS = types.Array(types.uint64, 1, "C")
# Of points (n_chains, size), keys and number of the step, and the output
GRADIENT = FunctionType(types.void(_ROWS, _KEYS, types.int64, _ROWS))
LOG_DENSITY = FunctionType(types.void(_ROWS, _NUMBERS))


class CompiledFunctions(NamedTuple):
    """Compiled functions of a density; arrays have one row for each chain."""

    gradient: Any  # f(x, keys, t, out), which writes the gradients
    log_density: Any  # g(x, out), which writes the log densities; or None


def compiled_functions(
    gradient: Any,
    log_density: Any,
    grad_prior: Any,
    prior: Any,
    shape: tuple[int, ...],
    n_samples: int | None,
    batch_size: int | None,
    vectorized: bool,
) -> CompiledFunctions | None:
    """The functions of a user for compiled samplers, or None if one of them is not a function of numba.

    Each is compiled once in a process. Functions receive copies of the points, as in uncompiled samplers, and
    minibatches are the same, by the same keys.
    """
    given = [function for function in (gradient, log_density, grad_prior, prior) if function is not None]
    if gradient is None or not all(isinstance(function, Dispatcher) for function in given):
        return None
    at = None
    if n_samples is None:
        into = _compiled(_gradient_forms(shape, vectorized), gradient, shape, GRADIENT)
        if log_density is not None:
            at = _compiled(_LOG_DENSITIES[vectorized], log_density, shape, LOG_DENSITY)
    else:
        into = _compiled_gradient(gradient, grad_prior or _nothing, shape, n_samples, batch_size)
        if log_density is not None:
            at = _compiled_density(log_density, prior or _zero, shape, n_samples)
    return None if into is None or (at is None and log_density is not None) else CompiledFunctions(into, at)


def _try(function: Callable, signature: Any) -> Any:
    """The function, compiled for these types, or None if numba cannot compile it."""
    kernel = numba.njit(nogil=True)(function)
    try:
        kernel.compile(signature.signature)
    except NumbaError:
        return None
    return kernel


@lru_cache(maxsize=256)
def _compiled(forms: tuple[Callable, ...], function: Any, shape: tuple[int, ...], signature: Any) -> Any:
    """The first form of the function that numba can compile, or None."""
    kernels = (_try(form(function, shape), signature) for form in forms)
    return next((kernel for kernel in kernels if kernel is not None), None)


# Loops, because numba compiles the assignment of an array to a part of another one for seconds.


def _gradient_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def gradient(x, keys, t, out):
        point = np.empty(shape)
        flat = point.reshape(-1)
        for c in range(len(x)):
            copy_to(flat, x[c])
            values = function(point)
            if values.shape != shape:
                raise ValueError("grad_log_density must return an array with the shape of x.")
            copy_to(out[c].reshape(shape), values)

    return gradient


def _vector_of_each(function: Any, shape: tuple[int, ...]) -> Callable:
    def gradient(x, keys, t, out):
        point = np.empty(shape)
        for c in range(len(x)):
            copy_to(point, x[c])
            values = function(point)
            if values.shape != shape:
                raise ValueError("grad_log_density must return an array with the shape of x.")
            copy_to(out[c], values)

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
            copy_to(flat, x[c])
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
        copy_to(out, values)

    return log_density


def _gradient_forms(shape: tuple[int, ...], vectorized: bool) -> tuple[Callable, ...]:
    if vectorized:
        return (_gradient_of_all,)
    form = _vector_of_each if len(shape) == 1 else _gradient_of_each
    return (form, _number_of_each) if math.prod(shape) == 1 else (form,)


_LOG_DENSITIES: dict[bool, tuple[Callable, ...]] = {False: (_density_of_each, _item_of_each), True: (_density_of_all,)}


_MINIBATCH = Purpose.MINIBATCH


@numba.njit
def _nothing(x):
    return np.zeros_like(x)


@numba.njit
def _zero(x):
    return 0.0


def _n_axes(function: Any, shape: tuple[int, ...]) -> int | None:
    """Number of axes of what a function of a point and rows returns, or None if numba cannot compile it."""
    arguments = types.Array(types.float64, len(shape), "C"), types.Array(types.int64, 1, "C")
    try:
        function.compile(arguments)
    except (NumbaError, RuntimeError):  # the latter if the function has other signatures only
        return None
    returned = function.overloads[arguments].signature.return_type
    return getattr(returned, "ndim", 0)


@lru_cache(maxsize=256)
def _compiled_gradient(
    function: Any, prior: Any, shape: tuple[int, ...], n_samples: int, batch_size: int | None
) -> Any:
    """The gradient with a minibatch by the keys, or None."""
    n, is_drawn = n_samples if batch_size is None else batch_size, batch_size is not None
    factor, each = n_samples / n, (n, *shape)

    @numba.njit
    def summed(point, rows):
        values = function(point, rows)
        if values.shape != each:
            raise ValueError("grad_log_density(x, rows) must return one gradient for each row.")
        of_rows = np.ascontiguousarray(values).reshape(n, -1)
        total = np.zeros(of_rows.shape[1])
        for row in range(n):
            for i in range(len(total)):
                total[i] += of_rows[row, i]
        for i in range(len(total)):
            total[i] *= factor
        return total

    @numba.njit
    def whole(point, rows):
        values = function(point, rows)
        if values.shape != shape:
            raise ValueError("grad_log_density(x, rows) must return an array with the shape of x.")
        return np.ascontiguousarray(values).reshape(-1)

    n_axes = _n_axes(function, shape)
    if n_axes not in (len(shape), len(shape) + 1):
        return None
    estimate = whole if n_axes == len(shape) else summed

    def gradient(x, keys, t, out):
        rows, point = np.empty((len(x), n), np.int64), np.empty(shape)
        flat = point.reshape(-1)
        if is_drawn:
            sample_rows(keys, _MINIBATCH, n_samples, rows)
        else:
            for c in range(len(x)):
                for row in range(n):
                    rows[c, row] = row
        for c in range(len(x)):
            copy_to(flat, x[c])
            values = estimate(point, rows[c])
            copy_to(flat, x[c])
            added = np.ascontiguousarray(prior(point)).reshape(-1)
            for i in range(len(flat)):
                out[c, i] = values[i] + added[i]

    return _try(gradient, GRADIENT)


@lru_cache(maxsize=256)
def _compiled_density(function: Any, prior: Any, shape: tuple[int, ...], n_samples: int) -> Any:
    """The log density of all rows, or None."""

    @numba.njit
    def summed(point, rows):
        return function(point, rows).sum()

    n_axes = _n_axes(function, shape)
    if n_axes not in (0, 1):
        return None
    value = function if n_axes == 0 else summed

    def log_density(x, out):
        point, rows = np.empty(shape), np.arange(n_samples)
        flat = point.reshape(-1)
        for c in range(len(x)):
            copy_to(flat, x[c])
            out[c] = value(point, rows)
            copy_to(flat, x[c])
            out[c] += prior(point)

    return _try(log_density, LOG_DENSITY)
