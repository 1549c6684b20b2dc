"""Shards on the workers of a Dask cluster: one actor per worker, and one call of each in a pass."""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from copy import copy
from typing import Any

import numba
import numpy as np

from ..._version import __version__
from .cluster_watch import ClusterWatch
from .exchange import (
    MAX_LOST,
    LostClusterError,
    LostShardError,
    PassCall,
    groups_of,
    joined_parts,
    merged,
    packed,
    pickled,
    pieces_of,
)
from .shard_builder import AnyShardBuilder
from .shards import Shard
from .sources import check_same_width
from .stored_latents import LatentFile

_PATIENCE = 60.0  # seconds to wait for a first worker
_VERSION = "{'skmanifold': __import__('skmanifold').__version__}"  # evaluated where this package may be missing
_VERSIONS = _VERSION.replace("}", ", 'numba': __import__('numba').__version__}")  # which compiles the kernels
_PAUSE = 1.0  # seconds before rows are sent again, so that the cluster can detect the failure


class DaskShards:
    """Rows in shards, one on each worker of a cluster.

    ``source.split(n)`` has blocks, perhaps futures, for n shards, in the order of rows. See `ClusterWatch` for the
    timeout. RuntimeError without workers, with other versions of skmanifold and numba, or if the cluster is lost;
    ValueError if rows are not valid or shards differ in width.
    """

    def __init__(self, client: Any, builder: AnyShardBuilder, source: Any, worker_timeout: float, advice: str):
        self._client = client
        self._watch = ClusterWatch(client, worker_timeout, advice)
        self._given = builder
        self.builder: Any = builder  # of the models: the given one, settled
        self._source = source
        self._lock = threading.Lock()  # of the numbers of passes:
        self._numbers = itertools.count()
        self._under_way: set[int] = set()  # those that failed stay until shards are closed
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
        for n_lost in range(MAX_LOST + 1):
            try:
                self._begin()
                return
            except LostShardError:
                if n_lost == MAX_LOST:
                    raise
                time.sleep(_PAUSE)

    def close(self) -> None:
        """Release the rows and latents on the cluster."""
        if self._under_way:  # passes that failed
            for actor in self._actors:
                with suppress(RuntimeError, ValueError):  # of a lost one, as in `_on_some`; the answers do not matter
                    actor.give_up()
            self._under_way.clear()
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
        places: list[tuple] = [(first_row, self.n_features) for first_row in first_rows[:-1]]
        if hasattr(self._given, "settle"):
            summaries = self._on_all("summarize", [(first, self.n_rows, width) for first, width in places])
            self.builder = self._given.settle(summaries)
            places = [(*place, self.builder) for place in places]
        self._on_all("begin", places)

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
                    self._client.submit(Shard, self._given, blocks, actor=True, workers=[address], pure=False)
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
        try:
            versions = self._watch.call(
                self._client.run, eval, _VERSIONS, workers=sorted(alive), on_error="return", of=alive
            )
        except (OSError, LookupError, ValueError) as error:
            self._watch.check_connected(error)
            raise self._watch.loss(f"before rows were sent: {error!r}") from error
        present = self._watch.alive()
        versions = {f"worker {address}": version for address, version in versions.items() if address in present}
        if not versions:
            raise self._watch.loss("before rows were sent")
        here = {"skmanifold": __version__, "numba": numba.__version__}
        for where, found in (versions | {"scheduler": self._version_of_scheduler()}).items():
            if isinstance(found, ImportError):
                raise RuntimeError(f"The {where} does not have skmanifold ({found}): install it there too.")
            if isinstance(found, OSError):
                raise self._watch.loss(f"the {where} does not answer, {found!r}") from found
            if isinstance(found, Exception):
                raise RuntimeError(f"The {where} cannot import skmanifold: {found!r}.") from found
            for package, version in found.items():
                if version != here[package]:
                    raise RuntimeError(
                        f"The {where} has {package} {version}, this process {here[package]}: install the same version."
                    )
        return sorted(where.removeprefix("worker ") for where in versions)

    def _version_of_scheduler(self) -> dict[str, str] | Exception:
        """The scheduler needs the package because it unpickles tasks; it compiles nothing."""
        try:
            return self._watch.call(self._client.run_on_scheduler, eval, _VERSION)
        except LostClusterError:
            raise
        except Exception as error:
            self._watch.check_connected(error)
            return error

    def call(self, method: str, chain: int, position: Any, key: np.uint64 | None) -> tuple[Any, float]:
        """Statistics and log likelihood of all shards."""
        with self._lock:
            number = next(self._numbers)
            self._under_way.add(number)
            oldest = min(self._under_way)
        sent = None if position is None else pickled(packed(self.builder, position))
        groups = groups_of(len(self._actors), len(sent or b""))
        calls = [
            (PassCall(number, oldest, method, chain, key, place, self._actors[start:stop], piece),)
            for start, stop in groups
            for place, piece in enumerate(pieces_of(sent, stop - start))
        ]
        parts, log_likelihoods = zip(*self._on_all("make_pass", calls), strict=True)
        with self._lock:
            self._under_way.remove(number)
        statistics = [joined_parts(self.builder, parts[start:stop]) for start, stop in groups]
        return merged(self.builder, statistics), float(np.sum(log_likelihoods))

    def total(self, name: str) -> int:
        """Sum over shards of the model's attribute with this name."""
        return sum(self._on_all("model_attribute", [(name,) for _ in self._actors]))

    def ask(self, method: str, *arguments: Any) -> list:
        """What a method of the builder returns for the model of each shard, in the order of the rows."""
        return self._on_all("ask", [(method, *arguments) for _ in self._actors])

    def begin_chain(self, method: str, chain: int, *arguments: Any) -> None:
        """Store what a method of the model of each shard returns as the latents of a chain."""
        self._on_all("begin_chain", [(method, chain, *arguments) for _ in self._actors])

    def ask_latents(self, method: str, chain: int | None, *arguments: tuple) -> list:
        """What a method of the model of each shard returns for the latents of a chain.

        There is one tuple of arguments for all shards, or one for each of them.
        """
        of_shards = arguments if len(arguments) > 1 else arguments * len(self._actors)
        return self._on_all("ask_latents", [(method, chain, *of_shard) for of_shard in of_shards])

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
                if future.done():  # with this error, or since then
                    return future.result()
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
