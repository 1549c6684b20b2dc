"""A version of numba's `njit` whose cache is optional: kernels that cannot be saved on disk are kept in memory.

With ``cache=True`` numba raises an error if no cache folder is writable, or if reading or writing a cache file fails.
Only this module uses numba's internal names for caches.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba import config
from numba.core import caching

_DAMAGED = (EOFError, pickle.UnpicklingError)  # raised by truncated files
_UNCACHED = (
    "Compiled kernels of skmanifold cannot be cached ({reason}), so every new process compiles them again, which takes "
    "seconds: set the environment variable NUMBA_CACHE_DIR to a writable folder."
)
_warned: set[str] = set()


def njit(*, cache: bool = False, **options: Any) -> Callable[[Callable], Any]:
    """Decorator like `numba.njit`; with `cache`, machine code is cached on disk if possible, also read-only."""

    def decorate(function: Callable) -> Any:
        kernel = numba.njit(**options)(function)
        if cache and not config.DISABLE_JIT:
            kernel._cache = _KernelCache(function)
        return kernel

    return decorate


# For parts of a kernel that run often: without counts of references to arrays, which cost two atomic operations for
# each array and call (measured: 40% of a token's time in document Gibbs sampling). Parts may not make arrays.
njit_part = njit(cache=True, _nrt=False)
njit_inlined = njit(cache=True, _nrt=False, forceinline=True)  # wherever it is called


class _KernelCache(caching.NullCache):
    """The cache of the machine code of one kernel: read from any folder that has it, saved in a writable folder.

    Parameters
    ----------
    function : callable
        The Python function of the kernel.
    """

    def __init__(self, function: Callable):
        self._places: list[caching.FunctionCache] = []
        for writable, filled in _KINDS:
            with suppress(RuntimeError):  # the folder is not writable
                self._places.append(writable(function))
                return
            with suppress(RuntimeError):  # the folder does not exist
                self._places.append(filled(function))

    @property
    def cache_path(self) -> str | None:
        """The folder to which machine code would be written."""
        return self._places[-1].cache_path if self._places else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for these types, or None."""
        for place in self._places:
            try:
                found = place.load_overload(sig, target_context)
            except _DAMAGED:
                with suppress(OSError):
                    place.flush()
            except OSError:  # for example the file of another user
                continue
            else:
                if found is not None:
                    return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the kernel for these types, or warn once that it cannot be saved."""
        reason = "no cache folder is writable"
        if self._places:
            try:
                self._places[-1].save_overload(sig, data)
                return
            except OSError as error:
                reason = f"{self.cache_path}: {error.strerror or error}"
        if not _warned:
            _warned.add(reason)
            warnings.warn(_UNCACHED.format(reason=reason), RuntimeWarning, stacklevel=2)

    def flush(self) -> None:
        """Delete the saved machine code."""
        for place in self._places[-1:]:
            place.flush()


class _Filled:
    """Mixin of numba's locators: an existing folder, which may be read-only."""

    def ensure_cache_path(self) -> None:
        """Raise an OSError if there is no such folder."""
        os.listdir(self.get_cache_path())  # type: ignore[attr-defined]


def _cache_in(locator: type) -> type[caching.FunctionCache]:
    """Numba's cache with a single locator."""
    in_one_place = type("_InOnePlace", (caching.CompileResultCacheImpl,), {"_locator_classes": [locator]})
    return type("_CacheInOnePlace", (caching.FunctionCache,), {"_impl_class": in_one_place})


_KINDS = [
    (_cache_in(locator), _cache_in(type(f"_Filled{locator.__name__}", (_Filled, locator), {})))
    for locator in caching.CacheImpl._locator_classes
]
