"""One line while kernels are compiled for more than two seconds: that it is done once, and where they are kept."""

from __future__ import annotations

import logging
import multiprocessing
import time
from typing import Any

from numba.core import event

from .cache import KernelCache, warned

_PATIENCE = 2.0  # seconds
_LINE = (
    "skmanifold compiles its kernels once, when they are first used, and keeps them in %s. "
    "`python -m skmanifold.compile_kernels` compiles them ahead."
)
_logger = logging.getLogger("skmanifold")


class Notice(event.Listener):
    """Adds up the seconds in which kernels are compiled, and logs one line when they exceed a limit.

    Numba calls it under its lock of the compiler, when the compilation of a function begins and when it ends, however
    it ends. Compilations are nested: of a kernel, and of the kernels that it calls.

    Parameters
    ----------
    patience : float
        The limit.
    """

    def __init__(self, patience: float = _PATIENCE):
        self.patience = patience
        self._seconds, self._depth, self._begun = 0.0, 0, 0.0

    def on_start(self, event: Any) -> None:
        """Begin to count, or look whether the limit is exceeded."""
        if not isinstance(event.data["dispatcher"]._cache, KernelCache):  # a kernel of others
            return
        self._depth += 1
        if self._depth == 1:
            self._begun = time.perf_counter()
        self._look(event)

    def on_end(self, event: Any) -> None:
        """Stop counting, if this is the outermost kernel."""
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
        # A warning says more than the line. Processes of a pool would each repeat what the main process says.
        if not warned and place is not None and multiprocessing.parent_process() is None:
            _logger.warning(_LINE, place.root)


notice = Notice()
event.register("numba:compile", notice)
