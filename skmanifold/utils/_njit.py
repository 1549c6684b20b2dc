"""A version of numba's `njit` that compiles faster, and whose cache is optional.

With ``cache=True`` numba raises an error if no cache folder is writable, or if reading or writing a cache file fails.
Here kernels that cannot be saved on disk are kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config

from ._machine_code import notice  # noqa: F401 - watches how long kernels are compiled
from ._machine_code.cache import KernelCache
from ._machine_code.kernels import new_kernel


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """Decorator like `numba.njit`; with `cache`, machine code is cached on disk if possible, also read-only."""

    def decorate(function: Callable) -> Any:
        if config.DISABLE_JIT:
            return function
        kernel = new_kernel(function, options)
        if cache:
            kernel._cache = KernelCache(function)
        return kernel

    return decorate


# For parts of a kernel that run often: without counts of references to arrays, which cost two atomic operations for
# each array and call (measured: 40% of a token's time in document Gibbs sampling). Parts may not make arrays.
njit_part = njit(cache=True, _nrt=False)
njit_inlined = njit(cache=True, _nrt=False, forceinline=True)  # inlined at each call
