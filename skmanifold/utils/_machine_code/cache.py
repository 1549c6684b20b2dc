"""The optional cache of the machine code of one kernel: without a writable folder the code is kept in memory."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba.core import caching
from numba.core.types.containers import BaseNamedTuple, BaseTuple

from .kernels import Part
from .places import PLACES, Place

# Raised by truncated files, and by those of a version of the package in which types of kernels had other names
_UNREADABLE = (EOFError, pickle.UnpicklingError, ImportError, AttributeError)
_ADVICE = "set the environment variable NUMBA_CACHE_DIR to a writable folder"
_UNCACHED = (
    "Compiled kernels of skmanifold cannot be cached ({reason}), so every new process compiles them again, which takes "
    f"seconds: {_ADVICE}."
)
_TEMPORARY = (
    "Compiled kernels of skmanifold are kept in the temporary folder {folder}, because neither its installation nor a "
    f"folder of the user is writable: {_ADVICE}to keep them permanently."
)
# Warnings that were already given in this process
warned: list[str] = []
# The caches of all kernels, which exist as long as their modules
caches: list[KernelCache] = []


class KernelCache(caching.NullCache):
    """The cache of the machine code of one kernel: read from any folder that has it, saved in a writable folder.

    Parameters
    ----------
    function : callable
        The Python function of the kernel.
    """

    def __init__(self, function: Callable):
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._places: list[Place] = []
        self.place: Place | None = None  # the folder with the code, or the one to which it would be written
        self.loaded: list[Any] = []  # types of arguments
        self.saved: list[Any] = []
        self.failure: str | None = None  # reasons why code could not be saved
        caches.append(self)
        for writable, filled in PLACES:
            with suppress(RuntimeError):  # the folder is not writable
                self.place = writable(function)
                self._places.append(self.place)
                return
            if filled is not None:
                with suppress(RuntimeError):  # the folder does not exist
                    self._places.append(filled(function))

    @property
    def cache_path(self) -> str | None:
        """The folder to which machine code would be written."""
        return self._places[-1].cache_path if self._places else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for these types, or None."""
        for place in [] if _are_of_a_user(sig) else self._places:
            try:
                found = place.load_overload(sig, target_context)
            except _UNREADABLE:
                with suppress(OSError):
                    place.flush()
            except OSError:  # for example a file of another user
                continue
            else:
                if found is not None:
                    self.place = place
                    self.loaded.append(sig)
                    return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the kernel for these types, or warn once that it cannot be saved or only in a temporary folder."""
        if isinstance(data.library, Part) or _are_of_a_user(sig):  # parts are saved with the kernels that call them
            return
        reason = "no cache folder is writable"
        if self._places:
            place = self._places[-1]
            try:
                place.save_overload(sig, data)
            except OSError as error:
                reason = f"{self.cache_path}: {error.strerror or error}"
            else:
                self.place = place
                self.saved.append(sig)
                if place.is_temporary:
                    _warn(_TEMPORARY.format(folder=place.root))
                return
        self.failure = _UNCACHED.format(reason=reason)
        _warn(self.failure)

    def flush(self) -> None:
        """Delete the saved machine code."""
        for place in self._places[-1:]:
            place.flush()


def _are_of_a_user(sig: Any) -> bool:
    """Whether named tuples of other packages are among the types: their kernels may change, unseen by numba."""
    for of in getattr(sig, "args", sig):
        if isinstance(of, BaseNamedTuple) and not of.instance_class.__module__.startswith("skmanifold"):
            return True
        if isinstance(of, BaseTuple) and _are_of_a_user(tuple(of)):
            return True
    return False


def _warn(message: str) -> None:
    if not warned:
        warned.append(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
