"""Monitoring of the connection to a cluster and of its workers during a fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any

from .exchange import LostClusterError, LostShardError

_LOOK_AFTER = 5.0  # seconds without an answer after which the workers are checked
_PAUSE = 0.1  # seconds between checks of a connection or of a cluster without workers
_FEWEST_LOOKS = 4  # minimum number of checks within `worker_timeout`


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
        while True:
            try:
                return answer.result(timeout=self.look_after)
            except TimeoutError:
                if answer.done():  # with this error, or since then
                    return answer.result()
            self.check_connected()
            if of is not None:
                self.check(of)
            elif time.monotonic() - asked > self._worker_timeout:
                self._raise_lost(f"The scheduler has not answered for {self._worker_timeout:g} seconds")

    def check(self, addresses: Iterable[str]) -> None:
        """Raise a LostShardError if one of these workers is disconnected or was stopped."""
        lost = sorted(set(addresses) - self.alive())
        if lost:
            raise self.loss(", ".join(lost))

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
            time.sleep(_PAUSE)
        return alive

    def check_connected(self, error: Exception | None = None) -> None:
        """Raise a RuntimeError if the client has lost its connection to the scheduler."""
        while self._client.status == "connecting":  # until the timeout of the client
            time.sleep(_PAUSE)
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
