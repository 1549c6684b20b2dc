"""A log message if kernels are compiled for more than two seconds, with the folder of their cache."""

from __future__ import annotations

import logging
import multiprocessing
import time
from typing import Any

from numba.core import event

from .cache import KernelCache, warned

_PATIENCE = 2.0  # patience in seconds
_LINE = (
    "skmanifold compiles its kernels once, when they are first used, and keeps them in %s. "
    "`python -m skmanifold.compile_kernels` compiles them ahead."
)
_logger = logging.getLogger("skmanifold")


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
