"""Machine code of kernels: libraries of code, the optional cache on disk, and a message if compilation takes long.

The cache is in numba's folders, also if they are read-only, or in a private temporary folder; without a folder, kernels
are kept in memory. Only this module and `_njit` use numba's internal names.
"""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import pickle
import stat
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import caching, event
from numba.core.codegen import JITCodeLibrary
from numba.core.environment import lookup_environment
from numba.core.types.containers import BaseNamedTuple, BaseTuple

from .._version import __version__
from . import _packaged_code
from ._disk import check_own

_LOCATORS = caching.CacheImpl._locator_classes
# Older versions of numba begin its name with an underscore.
_OF_USER: Any = next(locator for locator in _LOCATORS if locator.__name__.endswith("UserWideCacheLocator"))
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
_PATIENCE = 2.0  # patience in seconds
_LINE = (
    "skmanifold compiles its kernels once, when they are first used, and keeps them in %s. "
    "`python -m skmanifold.compile_kernels` compiles them ahead."
)
_logger = logging.getLogger("skmanifold")


class Whole(JITCodeLibrary):
    """The code of a kernel that Python calls, including all functions that it calls."""

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        for variable in self._final_module.global_variables:  # not possible for parts
            environment = lookup_environment(variable.name)
            if environment is not None:
                self._codegen.set_env(variable.name, environment)


class Part(JITCodeLibrary):
    """The code of a function that kernels call, without separate machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Null, because a part has no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """Numba sets the environment of a function in machine code with this."""
        return _NoEngine


class _NoEngine:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


class _Writable:
    """Mixin of numba's locators: a writable folder."""

    def ensure_cache_path(self) -> None:
        """Raise an OSError if there is no such folder."""
        path = self.get_cache_path()  # type: ignore[attr-defined]
        if path.startswith("~"):  # without a home folder, it would be in the current folder
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        super().ensure_cache_path()  # type: ignore[misc]


class _Filled:
    """Mixin of numba's locators: an existing folder, which may be read-only."""

    def ensure_cache_path(self) -> None:
        """Raise an OSError if there is no such folder."""
        os.listdir(self.get_cache_path())  # type: ignore[attr-defined]


class _Temporary(_OF_USER):
    """A folder in the system's folder of temporary files, which no other user can have changed."""

    def __init__(self, function: Any, file: str):
        super().__init__(function, file)
        self._folder = Path(tempfile.gettempdir(), f"skmanifold-kernels{_suffix_of_user()}")
        self._cache_path = str(self._folder / self.get_suitable_cache_subpath(file))

    def ensure_cache_path(self) -> None:
        """Raise an OSError or a ForeignFileError if there is no such folder: numba executes what it reads there."""
        with suppress(FileExistsError):
            self._folder.mkdir(0o700)
        _check_unmovable(self._folder.parent)
        check_own(self._folder, is_folder=True)
        super().ensure_cache_path()

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The folder for a function, or None."""
        with suppress(OSError, ValueError):
            return super().from_function(function, file)
        return None


def _suffix_of_user() -> str:
    return f"-{os.geteuid()}" if os.name == "posix" else ""  # other systems have one temporary folder per user


def _check_unmovable(folder: Path) -> None:
    """Raise a PermissionError if another user may replace files of this user in a folder."""
    status = os.stat(folder)
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
    if os.name == "posix" and (shared or status.st_uid not in (0, os.geteuid())):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


class _CheckedFiles(caching.IndexDataCacheFile):
    """Numba's cache files, in which machine code is stored with the key of its compilation.

    Concurrent or killed processes may leave an index that refers to code for other types, for another processor or of
    older sources. Such code is not used, and is compiled and saved again.
    """

    def save(self, key: Any, data: Any) -> None:
        """Save the code of a key."""
        super().save(key, (key, self._source_stamp, data))

    def load(self, key: Any) -> Any:
        """The code of a key, or None."""
        found = super().load(key)
        if not isinstance(found, tuple) or len(found) != 3 or found[:2] != (key, self._source_stamp):
            return None
        return found[2]


class Place(caching.FunctionCache):
    """Numba's cache of one function in one type of folder.

    Parameters
    ----------
    function : callable
        The Python function of the kernel.

    Raises
    ------
    RuntimeError
        If there is no such folder.
    """

    is_temporary = False

    def __init__(self, function: Any):
        super().__init__(function)
        # Includes the version, because numba does not detect changes of called kernels in other files
        stamp = self._impl.locator.get_source_stamp(), __version__
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    @property
    def root(self) -> Path:
        """The folder that contains the folders of all modules."""
        path = Path(self._cache_path)
        return Path(__file__).parents[1] if path.name == "__pycache__" else path.parent


def _place(locator: type, **attributes: Any) -> type[Place]:
    in_one_place = type("_InOnePlace", (caching.CompileResultCacheImpl,), {"_locator_classes": [locator]})
    return type("_PlaceInOneFolder", (Place,), {"_impl_class": in_one_place, **attributes})


def _with(mixin: type, locator: type) -> type:
    return type(f"{mixin.__name__}{locator.__name__}", (mixin, locator), {})


# Pairs in the order in which they are tried: the folder if it is writable, otherwise if it is readable.
PLACES = [
    *((_place(_with(_Writable, locator)), _place(_with(_Filled, locator))) for locator in _LOCATORS),
    (_place(_Temporary, is_temporary=True), None),
]

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
        self.function = function
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
        if _are_of_a_user(sig):
            return None
        packaged = _packaged_code.load(self.function, sig, target_context)
        if packaged is not None:
            self.loaded.append(sig)
            return packaged
        for place in self._places:
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


class Notice(event.Listener):
    """Measures the total time of compilation, and logs one message when it exceeds a limit.

    Numba calls it, while holding the compiler's lock, at the start and the end of the compilation of a function, also
    after an error. Compilations are nested: a kernel and the kernels that it calls.

    Parameters
    ----------
    patience : float
        The limit.
    """

    def __init__(self, patience: float = _PATIENCE):
        self.patience = patience
        self._seconds, self._depth, self._begun = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        """Start measuring, or check whether the limit is exceeded."""
        if not isinstance(event.data["dispatcher"]._cache, KernelCache):  # a kernel of another package
            return
        self._depth += 1
        if self._depth == 1:
            self._begun = time.perf_counter()
        self._look(event)

    def on_end(self, event: Any) -> None:
        """Stop measuring, if this is the outermost kernel."""
        if not isinstance(event.data["dispatcher"]._cache, KernelCache):
            return
        self._look(event)
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._begun

    def _look(self, event: Any) -> None:
        if self._seconds + time.perf_counter() - self._begun < self.patience:
            return
        self.patience = float("inf")
        place = event.data["dispatcher"]._cache.place
        # Warnings of the cache are more specific. Processes of a pool would repeat the message of the main process.
        if not warned and place is not None and multiprocessing.parent_process() is None:
            _logger.warning(_LINE, place.root)


notice = Notice()
event.register("numba:compile", notice)
