"""Shards on the workers of a Dask cluster: one actor per worker, and tree reductions and broadcasts."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError
from copy import copy
from typing import Any

import numpy as np

from ..._version import __version__
from .cluster_watch import ClusterWatch
from .shards import LostShardError, Shard, ShardBuilder, packed, unpacked
from .sources import check_same_width
from .stored_latents import LatentFile

_PATIENCE = 60.0  # seconds to wait for a first worker
_MAX_LOST = 10  # maximum number of worker failures while rows are sent
_PAUSE = 1.0  # seconds before rows are sent again, so that the cluster can detect the failure


class DaskShards:
    """Rows in shards, one on each worker of a cluster.

    Parameters
    ----------
    client : distributed.Client
    builder : ShardBuilder
    source : object
        With ``split(n)``: lists of blocks for n shards, in the order of the rows; a block may be a future.
    worker_timeout : float
        Seconds without a report after which a worker counts as stopped.
    advice : str
        The end of error messages: how to continue after the loss of the cluster.

    Raises
    ------
    RuntimeError
        If there are no workers, they do not have this version of the package, or the cluster is lost.
    ValueError
        If the rows are not valid, or shards differ in width.
    """

    def __init__(self, client: Any, builder: ShardBuilder, source: Any, worker_timeout: float, advice: str):
        self._client = client
        self._watch = ClusterWatch(client, worker_timeout, advice)
        self._builder = builder
        self._source = source
        self._lock = threading.Lock()  # only one chain at a time, because shards wait for each other
        self._futures: list[Any] = []  # of all shards
        self._actors: list[Any] = []  # of those with rows
        self._addresses: list[str] = []
        try:
            self.recover()
        except BaseException:
            self.close()
            raise

    def recover(self) -> None:
        """Send all rows, without latents, to the current workers."""
        for n_lost in range(_MAX_LOST + 1):
            try:
                self._begin()
                return
            except LostShardError:
                if n_lost == _MAX_LOST:
                    raise
                time.sleep(_PAUSE)

    def close(self) -> None:
        """Release the rows and latents on the cluster."""
        for future in self._futures:  # otherwise the traceback of an error would keep a failed shard in memory
            future.release()
        self._actors, self._futures = [], []

    def _begin(self) -> None:
        self.close()
        addresses = self._find_workers()
        parts = [blocks for blocks in self._split(len(addresses)) if blocks]
        self._addresses = addresses[: len(parts)]
        self._actors = self._make_shards(parts)
        shapes = self._on_all("shape", [() for _ in parts])
        if not any(n_rows for n_rows, _ in shapes):
            raise ValueError("X has no rows.")
        self._actors = [actor for actor, (n_rows, _) in zip(self._actors, shapes, strict=True) if n_rows]
        shapes = [shape for shape in shapes if shape[0]]
        widths = [width for _, width in shapes]
        if not self._source.is_ragged:
            check_same_width(widths)
        self.n_features = max(widths)
        first_rows = np.concatenate(([0], np.cumsum([n_rows for n_rows, _ in shapes]))).tolist()
        self.n_rows = first_rows[-1]
        self._on_all("begin", [(first_row, self.n_features) for first_row in first_rows[:-1]])

    def _split(self, n_parts: int) -> list[list]:
        try:
            return self._source.split(n_parts)
        except Exception as error:
            self._raise_if_lost(error)
            raise

    def _make_shards(self, parts: list[list]) -> list[Any]:
        """Proxies of new shards. Dask's own proxies use the default client of the process, which may be another one."""
        given = [block for blocks in parts for block in blocks if hasattr(block, "key")]
        try:
            for blocks, address in zip(parts, self._addresses, strict=True):
                if not hasattr(blocks[0], "key"):
                    blocks = self._scatter(blocks, address)
                    given += blocks
                self._futures.append(
                    self._client.submit(Shard, self._builder, blocks, actor=True, workers=[address], pure=False)
                )
            proxies = self._results(self._futures)
            with self._client.as_current():
                return [copy(proxy) for proxy in proxies]
        except LostShardError:
            raise
        except Exception as error:
            self._raise_if_lost(error)
            raise
        finally:
            for future in given:
                future.release()

    def _scatter(self, blocks: list, address: str) -> list:
        """Send the blocks to a worker; every error is treated as a failed transfer."""
        try:
            return self._watch.call(self._client.scatter, blocks, workers=[address], hash=False, of=[address])
        except (OSError, LookupError, ValueError) as error:
            self._watch.check_connected(error)
            raise self._watch.loss(f"the transfer of rows to {address} failed: {error!r}") from error

    def _find_workers(self) -> list[str]:
        alive = self._watch.wait_for_workers(_PATIENCE)
        asked = "__import__('skmanifold').__version__"  # evaluated on the worker, which may not have this package
        try:
            versions = self._watch.call(
                self._client.run, eval, asked, workers=sorted(alive), on_error="return", of=alive
            )
        except (OSError, LookupError, ValueError) as error:
            self._watch.check_connected(error)
            raise self._watch.loss(f"before rows were sent: {error!r}") from error
        present = self._watch.alive()
        versions = {f"worker {address}": version for address, version in versions.items() if address in present}
        if not versions:
            raise self._watch.loss("before rows were sent")
        for where, version in (versions | {"scheduler": self._version_of_scheduler(asked)}).items():
            if isinstance(version, ImportError):
                raise RuntimeError(f"The {where} does not have skmanifold ({version}): install it there too.")
            if isinstance(version, OSError):
                raise self._watch.loss(f"the {where} does not answer, {version!r}") from version
            if isinstance(version, Exception):
                raise RuntimeError(f"The {where} cannot import skmanifold: {version!r}.") from version
            if version != __version__:
                raise RuntimeError(f"The {where} has skmanifold {version}, this process {__version__}.")
        return sorted(where.removeprefix("worker ") for where in versions)

    def _version_of_scheduler(self, asked: str) -> str | Exception:
        """The scheduler needs the package because it unpickles tasks."""
        try:
            return self._watch.call(self._client.run_on_scheduler, eval, asked)
        except Exception as error:
            self._watch.check_connected(error)
            return error

    def call(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Statistics and log likelihood of all shards."""
        n = len(self._actors)
        with self._lock:
            self._on_some("hold", [(0, chain, packed(self._builder, position))])
            for pairs in reversed(tree_rounds(n)):
                self._on_some("fetch", [(to, chain, self._actors[of]) for of, to in pairs])
            parts = self._on_all("run", [(method, chain, key) for _ in range(n)])
            for pairs in tree_rounds(n):
                self._on_some("absorb", [(into, chain, self._actors[of]) for into, of in pairs])
            (statistics,) = self._on_some("send", [(0, chain)])
        return unpacked(self._builder, statistics), float(np.sum(parts))

    def total(self, name: str) -> int:
        """Sum over shards of the model's attribute with this name."""
        return sum(self._on_all("model_attribute", [(name,) for _ in self._actors]))

    def hash_rows(self, key: np.uint64) -> int:
        """A hash of the contents and order of all rows."""
        return sum(self._on_all("hash_rows", [(key,) for _ in self._actors])) % 2**64

    def save(self, chains: list[int], folder: str) -> dict[int, list[LatentFile]]:
        """Every worker writes its latents of these chains."""
        parts = {chain: self._on_all("save", [(chain, folder) for _ in self._actors]) for chain in chains}
        return {chain: [file for files in of_chain for file in files] for chain, of_chain in parts.items()}

    def load(self, files: dict[int, list[LatentFile]], folder: str) -> None:
        """Every worker reads its latents of each chain."""
        for chain, of_chain in files.items():
            self._on_all("load", [(chain, folder, of_chain) for _ in self._actors])

    def _on_all(self, method: str, arguments: list[tuple]) -> list:
        return self._on_some(method, [(i, *of_shard) for i, of_shard in enumerate(arguments)])

    def _on_some(self, method: str, calls: list[tuple]) -> list:
        """Call a method of some shards in parallel; the first entry of each call is the number of the shard."""
        try:
            futures = [getattr(self._actors[i], method)(*arguments) for i, *arguments in calls]
        except (RuntimeError, ValueError) as error:  # the proxy of a lost actor; ValueError in older versions of Dask
            self._raise_if_lost(error)
            raise
        return self._results(futures)

    def _results(self, futures: list[Any]) -> list:
        try:
            return [self._result(future) for future in futures]
        except LostShardError:
            raise
        except Exception as error:
            self._raise_if_lost(error)
            raise

    def _result(self, future: Any) -> Any:
        """Wait for one answer; a lost worker raises an error."""
        while True:
            try:
                return future.result(timeout=self._watch.look_after)
            except TimeoutError as error:
                if future.done():
                    raise  # the answer
                self._raise_if_lost(error)

    def _raise_if_lost(self, error: Exception) -> None:
        """Raise an error if a shard was lost, also if there is a new worker at its address."""
        self._watch.check_connected(error)
        alive = self._watch.alive()
        lost = [
            address
            for address, future in zip(self._addresses, self._futures, strict=False)
            if address not in alive or (self._actors and future.status != "finished")
        ]
        if lost or _is_of_cluster(error):
            raise self._watch.loss(", ".join(lost) or repr(error)) from error


def _is_of_cluster(error: Exception) -> bool:
    """Whether an error of Dask is about a lost worker or future."""
    of_actor = isinstance(error, (OSError, RuntimeError, ValueError)) and "Actor" in str(error)
    return of_actor or isinstance(error, CancelledError) or type(error).__module__.startswith("distributed.")


def tree_rounds(n: int) -> list[list[tuple[int, int]]]:
    """Pairs of shards to merge in each round of an ordered sum: the rows of the second follow those of the first."""
    steps = [1 << i for i in range((n - 1).bit_length())]
    return [[(i, i + step) for i in range(0, n - step, 2 * step)] for step in steps]
