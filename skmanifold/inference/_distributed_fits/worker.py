"""The worker of a cluster that runs this code."""

from __future__ import annotations

import sys
from typing import Any


def cluster_worker() -> Any:
    """The worker of a Dask cluster that runs this code, or None."""
    try:
        return sys.modules["distributed"].get_worker()
    except (KeyError, ValueError):
        return None


def scratch_folder() -> str | None:
    """The folder for temporary files: on a cluster that of the worker, which removes it at the end."""
    worker = cluster_worker()
    return worker.local_directory if worker else None
