"""Shards on the workers of a Dask cluster: one actor per worker, one call of each in a pass, and a watch on them."""

from __future__ import annotations

import itertools
import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from copy import copy
from threading import Lock, Thread
from typing import Any

import numba
import numpy as np

from ..._version import __version__
from ...utils._threads import Workers
from .exchange import (
    MAX_LOST,
    AnyShardBuilder,
    LostClusterError,
    LostShardError,
    PassCall,
    groups_of,
    joined_parts,
    merged,
    packed,
    pieces_of,
)
from .session import active_session
from .shards import LocalShards, Shard, Shards
from .sources import check_same_width

_PATIENCE = 60.0  # seconds to wait for a first worker
_VERSION = "{'skmanifold': __import__('skmanifold').__version__}"  # evaluated where this package may be missing
_VERSIONS = _VERSION.replace("}", ", 'numba': __import__('numba').__version__}")  # which compiles the kernels
_PAUSE = 1.0  # seconds before rows are sent again, so that the cluster can detect the failure
_LOOK_AFTER = 5.0  # seconds without an answer after which the workers are checked
_CHECK_PAUSE = 0.1  # seconds between checks of a connection or of a cluster without workers
_FEWEST_LOOKS = 4  # minimum number of checks within `worker_timeout`


class DaskShards(Shards):
    """Rows in shards, one on each worker of a cluster.

    ``source.split(n)`` has blocks, perhaps futures, for n shards, in the order of rows. See `ClusterWatch` for the
    timeout. RuntimeError without workers, with other versions of skmanifold and numba, or if the cluster is lost;
    ValueError if rows are not valid or shards differ in width.
    """

    def __init__(self, client: Any, builder: AnyShardBuilder, source: Any, worker_timeout: float, advice: str):
        self._client = client
        self._watch = ClusterWatch(client, worker_timeout, advice)
        self._given = builder
        self.builder: Any = builder  # of the models
        self._source = source
        self._lock = Lock()  # of the numbers of passes:
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
                with suppress(RuntimeError, ValueError):  # of a lost one, as in `_on_all`; the answers do not matter
                    actor.give_up()
            self._under_way.clear()
        for future in self._futures:  # otherwise the traceback of an error would keep a failed shard in memory
            future.release()
        self._actors, self._futures = [], []

    def _begin(self) -> None:
        self.close()
        addresses = self._find_workers()
        with self._losses():
            parts = [blocks for blocks in self._source.split(len(addresses)) if blocks]
        self._addresses = addresses[: len(parts)]
        self._actors = self._make_shards(parts)
        shapes = self._on_all("shape", ())
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
        if hasattr(self._given, "builder_of"):
            summaries = self._on_all("summarize", *((first, self.n_rows, width) for first, width in places))
            self.builder = self._given.builder_of(summaries)
            places = [(*place, self.builder) for place in places]
        self._on_all("begin", *places)

    def _make_shards(self, parts: list[list]) -> list[Any]:
        """Proxies of new shards. Dask's own proxies use the default client of the process, which may be another one."""
        given = [block for blocks in parts for block in blocks if hasattr(block, "key")]
        try:
            with self._losses():
                for blocks, address in zip(parts, self._addresses, strict=True):
                    if not hasattr(blocks[0], "key"):
                        with self._watch.transfer(f"the transfer of rows to {address} failed"):
                            blocks = self._watch.call(
                                self._client.scatter, blocks, workers=[address], hash=False, of=[address]
                            )
                        given += blocks
                    self._futures.append(
                        self._client.submit(Shard, self._given, blocks, actor=True, workers=[address], pure=False)
                    )
                proxies = self._results(self._futures)
                with self._client.as_current():
                    return [copy(proxy) for proxy in proxies]
        finally:
            for future in given:
                future.release()

    def _find_workers(self) -> list[str]:
        alive = self._watch.wait_for_workers(_PATIENCE)
        with self._watch.transfer("before rows were sent"):
            versions = self._watch.call(
                self._client.run, eval, _VERSIONS, workers=sorted(alive), on_error="return", of=alive
            )
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
        sent = None if position is None else pickle.dumps(packed(self.builder, position), protocol=5)
        groups = groups_of(len(self._actors), len(sent or b""))
        calls = [
            (PassCall(number, oldest, method, chain, key, place, self._actors[start:stop], piece),)
            for start, stop in groups
            for place, piece in enumerate(pieces_of(sent, stop - start))
        ]
        parts, log_likelihoods = zip(*self._on_all("make_pass", *calls), strict=True)
        with self._lock:
            self._under_way.remove(number)
        statistics = [joined_parts(self.builder, parts[start:stop]) for start, stop in groups]
        return merged(self.builder, statistics), float(np.sum(log_likelihoods))

    def _on_all(self, method: str, *arguments: tuple) -> list:
        of_shards = arguments if len(arguments) > 1 else arguments * len(self._actors)
        with self._losses():
            calls = zip(self._actors, of_shards, strict=True)
            futures = [getattr(actor, method)(*of_shard) for actor, of_shard in calls]
        return self._results(futures)

    def _results(self, futures: list[Any]) -> list:
        with self._losses():
            return [self._watch.answer(future, self._raise_if_lost) for future in futures]

    @contextmanager
    def _losses(self) -> Iterator[None]:
        """Raise a LostShardError in place of an error that a lost shard has caused."""
        try:
            yield
        except LostShardError:
            raise
        except Exception as error:
            self._raise_if_lost(error)
            raise

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


class ClusterWatch:
    """Waits for a cluster, and raises an error that ends with `advice` if workers or the connection are lost.

    A worker's event loop reports to the scheduler every few seconds, also during computations, because kernels and
    linear algebra release the GIL. One that does not for `worker_timeout` seconds has been stopped.
    """

    def __init__(self, client: Any, worker_timeout: float, advice: str):
        self._client = client
        self._worker_timeout = worker_timeout
        self._advice = advice
        self._lock = Lock()
        self._reports: dict[str, tuple[float, float]] = {}  # by address: the last report, and the time since then
        self._last_look = time.monotonic()
        self._given_up: set[str] = set()
        self.look_after = min(_LOOK_AFTER, worker_timeout / _FEWEST_LOOKS)

    def call(self, function: Callable, *arguments: Any, of: Iterable[str] | None = None, **options: Any) -> Any:
        """Call a method of the client, which may never return.

        LostShardError if a worker whose address is in `of` was lost, RuntimeError if the cluster was.
        """
        answer: Future = Future()

        def run() -> None:
            try:
                answer.set_result(function(*arguments, **options))
            except BaseException as error:
                answer.set_exception(error)

        Thread(target=run, name="skmanifold-call", daemon=True).start()
        asked = time.monotonic()

        def check(error: Exception) -> None:
            self.check_connected()
            if of is not None:
                if lost := sorted(set(of) - self.alive()):
                    raise self.loss(", ".join(lost))
            elif time.monotonic() - asked > self._worker_timeout:
                self._raise_lost(f"The scheduler has not answered for {self._worker_timeout:g} seconds")

        return self.answer(answer, check)

    def answer(self, future: Any, check: Callable[[Exception], None]) -> Any:
        """The result of a future; while there is none, `check` may raise an error from time to time."""
        while True:
            try:
                return future.result(timeout=self.look_after)
            except TimeoutError as error:
                if future.done():  # with this error, or since then
                    return future.result()
                check(error)

    @contextmanager
    def transfer(self, what: str) -> Iterator[None]:
        """Treat every error in the block as a lost worker, or as a lost connection."""
        try:
            yield
        except (OSError, LookupError, ValueError) as error:
            self.check_connected(error)
            raise self.loss(f"{what}: {error!r}") from error

    def alive(self) -> set[str]:
        """Addresses of the workers that the scheduler knows and that report to it."""
        self.check_connected()
        try:
            workers = self.call(self._client.scheduler_info, n_workers=-1).get("workers", {})
        except Exception as error:
            self.check_connected(error)
            raise
        self.check_connected()  # the client may have answered from its cache
        with self._lock:
            return self._reporting({address: info["last_seen"] for address, info in workers.items()})

    def loss(self, names: str) -> LostShardError:
        """The error for lost workers; users see it after too many losses."""
        return LostShardError(f"Workers of the cluster were lost ({names}): {self._advice}.")

    def wait_for_workers(self, patience: float) -> set[str]:
        """Addresses of the reporting workers, as soon as there is one."""
        end = time.monotonic() + patience
        while not (alive := self.alive()):
            if time.monotonic() > end:
                without = f"none came within {patience:g} seconds"
                raise RuntimeError(f"The Dask cluster has no workers that answer, and {without}: {self._advice}.")
            time.sleep(_CHECK_PAUSE)
        return alive

    def check_connected(self, error: Exception | None = None) -> None:
        """Raise a RuntimeError if the client has lost its connection to the scheduler."""
        while self._client.status == "connecting":  # until the timeout of the client
            time.sleep(_CHECK_PAUSE)
        if self._client.status != "running":
            self._raise_lost("The connection to the Dask cluster was closed", error)

    def _reporting(self, last_seen: dict[str, float]) -> set[str]:
        """Addresses of the workers that still report.

        Long intervals between checks are truncated, because the scheduler or this process may have been suspended.
        """
        now, newest, before, alive = time.monotonic(), max(last_seen.values(), default=0.0), self._reports, set()
        passed = min(now - self._last_look, 2 * self.look_after)
        self._last_look, self._reports = now, {}
        for address, seen in last_seen.items():
            known, silence = before.get(address, (seen, 0.0))
            silence = silence + passed if address in before and known == seen else 0.0
            self._reports[address] = seen, silence
            silence = max(silence, newest - seen)  # by the clocks of this process and of the scheduler
            if silence < self._worker_timeout:
                alive.add(address)
                self._given_up.discard(address)
            elif address not in self._given_up:
                self._given_up.add(address)
                warnings.warn(
                    f"The worker {address} has not reported for {silence:.0f} seconds (worker_timeout is "
                    f"{self._worker_timeout:g}): its rows are moved to the other workers.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return alive

    def _raise_lost(self, what: str, error: Exception | None = None) -> None:
        raise LostClusterError(f"{what} during the fit: {self._advice}.") from error


def open_shards(builder: AnyShardBuilder, source: Any, workers: Workers) -> Shards:
    """Shards with the rows of a source, on the workers of the session's cluster, or in this process with `workers`."""
    session = active_session()
    if session is None or session.client is None:
        return LocalShards(builder, source.split(1)[0], workers)
    rest = " (with checkpoint_dir it would continue from its last checkpoint)"
    if session.checkpoint_dir is not None:
        rest = f", and it continues from its last checkpoint in {session.checkpoint_dir}"
    advice = f"run the same fit again on a new cluster{rest}"
    return DaskShards(session.client, builder, source, session.worker_timeout, advice)
