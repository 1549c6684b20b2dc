"""Shards on the workers of a Dask cluster: one actor a worker, statistics merged and parameters spread along a tree."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .._version import __version__
from ._shards import LostShardError, Shard, ShardBuilder

_PATIENCE = "60s"  # for a worker to come, if there is none
_TURN_UP = 0.5  # seconds between looks at whether a worker is lost


class DaskShards:
    """Rows in shards, one on each worker of a cluster.

    Parameters
    ----------
    client : distributed.Client
    builder : ShardBuilder
    source : object
        With ``split(n)``: lists of blocks for n shards, in the order of the rows; a block may be a future.

    Raises
    ------
    RuntimeError
        If there are no workers, or they do not have this version of the package.
    ValueError
        If the rows are not valid, or shards differ in width.
    """

    def __init__(self, client: Any, builder: ShardBuilder, source: Any):
        self._client = client
        self._builder = builder
        self._source = source
        self._lock = threading.Lock()  # chains take turns: shards wait for each other
        self._begin()

    def _begin(self) -> None:
        addresses = self._find_workers()
        parts = [blocks for blocks in self._source.split(len(addresses)) if blocks]
        self._addresses = addresses[: len(parts)]
        futures = [
            self._client.submit(Shard, self._builder, blocks, actor=True, workers=[address], pure=False)
            for blocks, address in zip(parts, self._addresses, strict=True)
        ]
        try:
            self._actors = [future.result() for future in futures]
        except (ValueError, TypeError):
            raise  # of the rows
        except Exception as error:
            self._raise_if_lost(error)
            raise
        shapes = self._on_all("shape", [() for _ in self._actors])
        widths = sorted({width for _, width in shapes})
        if len(widths) > 1 and not self._source.is_ragged:
            raise ValueError(f"All parts of X must have the same number of columns; there are parts of {widths}.")
        self.n_features = widths[-1]
        first_rows = np.concatenate(([0], np.cumsum([n_rows for n_rows, _ in shapes]))).tolist()
        self.n_rows = first_rows[-1]
        self._on_all("begin", [(first_row, self.n_features) for first_row in first_rows[:-1]])

    def _find_workers(self) -> list[str]:
        if not self._client.scheduler_info(n_workers=-1)["workers"]:
            try:
                self._client.wait_for_workers(1, timeout=_PATIENCE)
            except TimeoutError as error:
                raise RuntimeError("The Dask cluster has no workers, and none came within a minute.") from error
        asked = "__import__('skmanifold').__version__"  # evaluated there: nothing of ours need be known
        versions = self._client.run(eval, asked, on_error="return")
        for address, version in versions.items():
            if isinstance(version, ImportError):
                raise RuntimeError(f"The worker {address} does not have skmanifold ({version}): install it there too.")
            if isinstance(version, Exception):
                raise RuntimeError(f"The worker {address} cannot import skmanifold: {version!r}.") from version
            if version != __version__:
                raise RuntimeError(f"The worker {address} has skmanifold {version}, this process {__version__}.")
        return sorted(versions)

    def call(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Statistics and log likelihood of all shards."""
        n = len(self._actors)
        with self._lock:
            self._on_some("hold", [(0, chain, position)])
            steps = [1 << i for i in range((n - 1).bit_length())]
            for step in reversed(steps):
                pairs = [(i, i + step) for i in range(0, n - step, 2 * step)]
                self._on_some("fetch", [(to, chain, self._actors[of]) for of, to in pairs])
            parts = self._on_all("run", [(method, chain, key) for _ in range(n)])
            for step in steps:
                pairs = [(i, i + step) for i in range(0, n - step, 2 * step)]
                self._on_some("absorb", [(into, chain, self._actors[of]) for into, of in pairs])
            (statistics,) = self._on_some("take", [(0, chain)])
        return statistics, float(np.sum(parts))

    def save(self, chains: list[int], folder: str) -> None:
        """Every worker writes its latents."""
        for chain in chains:
            self._on_all("save", [(chain, folder) for _ in self._actors])

    def load(self, chains: list[int], folder: str) -> None:
        """Every worker reads its latents."""
        for chain in chains:
            self._on_all("load", [(chain, folder) for _ in self._actors])

    def recover(self) -> None:
        """The rows once more, on the workers that there are."""
        self._actors = []
        self._begin()

    def _on_all(self, method: str, arguments: list[tuple]) -> list:
        return self._on_some(method, [(i, *of_shard) for i, of_shard in enumerate(arguments)])

    def _on_some(self, method: str, calls: list[tuple]) -> list:
        """Call a method of some shards at once: the first of each call is the shard's number."""
        futures = [getattr(self._actors[i], method)(*arguments) for i, *arguments in calls]
        try:
            return [future.result() for future in futures]
        except (ValueError, TypeError, MemoryError):
            raise
        except Exception as error:
            self._raise_if_lost(error)
            raise

    def _raise_if_lost(self, error: Exception) -> None:
        present = self._client.scheduler_info(n_workers=-1)["workers"]
        lost = [address for address in self._addresses if address not in present]
        if lost or "Actor" in str(error):
            raise LostShardError(f"Workers of the cluster were lost: {', '.join(lost) or error}.") from error
