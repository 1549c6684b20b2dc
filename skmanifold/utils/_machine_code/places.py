"""Folders for machine code: those of numba, also if they are read-only, and then a private temporary folder.

Only the modules of this package and `_njit` use numba's internal names for caches.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba.core import caching

from ..._version import __version__
from .._own_files import check_own

_LOCATORS = caching.CacheImpl._locator_classes
# Older versions of numba begin its name with an underscore.
_OF_USER: Any = next(locator for locator in _LOCATORS if locator.__name__.endswith("UserWideCacheLocator"))


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
        return Path(__file__).parents[2] if path.name == "__pycache__" else path.parent


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
