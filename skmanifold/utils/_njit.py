"""A version of numba's `njit` that compiles faster, and whose cache is optional.

With ``cache=True`` numba raises an error if no cache folder is writable, or if reading or writing a cache file fails.
Here kernels that cannot be saved on disk are kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config, typeof

from ._machine_code import notice  # noqa: F401 - watches how long kernels are compiled
from ._machine_code.cache import KernelCache
from ._machine_code.kernels import new_interpreted, new_kernel


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """Decorator like `numba.njit`; with `cache`, machine code is cached on disk if possible, also read-only."""
    return _decorator(new_kernel, cache, options)


def njit_or_interpreted(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """As `njit`, for a kernel whose arguments contain functions of a user, such as the gradient of a density.

    If Python calls it, Python also interprets it, and the functions can be any. `call_compiled` calls it in compiled
    form, for functions that numba has compiled. Both have the same results, to the bit.
    """
    return _decorator(new_interpreted, cache, options)


def call_compiled(kernel: Any, functions: dict[Any, Any], *arguments: Any) -> Any:
    """Call an interpreted kernel in compiled form.

    Parameters
    ----------
    kernel : object
        A kernel by `njit_or_interpreted`, whose first arguments are functions.
    functions : dict
        The functions, dispatchers of numba, by their types (`FunctionType`). The kernel is compiled for the types, not
        for the functions, so that it can be cached on disk.
    *arguments : object
        The other arguments.

    Returns
    -------
    object
        The result.
    """
    return kernel.compile((*functions, *map(typeof, arguments)))(*functions.values(), *arguments)


def _decorator(new: Callable[[Callable, dict], Any], cache: bool, options: dict) -> Callable[[Callable], Any]:
    def decorate(function: Callable) -> Any:
        if config.DISABLE_JIT:
            return function
        kernel = new(function, options)
        if cache:
            kernel._cache = KernelCache(function)
        return kernel

    return decorate


# For parts of a kernel that run often: without counts of references to arrays, which cost two atomic operations for
# each array and call (measured: 40% of a token's time in document Gibbs sampling). Parts may not make arrays.
njit_part = njit(cache=True, _nrt=False)
njit_inlined = njit(cache=True, _nrt=False, forceinline=True)  # inlined at each call
