"""A Dask cluster whose processes can be killed and stopped, and whose network can be cut, for `faults.py`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

import skmanifold


class Proxy:
    """A TCP proxy on this machine, in a thread; `cut` stops its data, and `restore` sends what has waited."""

    def __init__(self, port):
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._open.set()
        threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True).start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._connect, "127.0.0.1", 0), self._loop)
        self._server = server.result(10)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self):
        """Hold back all data, in both directions."""
        self._open.clear()

    def restore(self):
        """Go on."""
        self._open.set()

    def close(self):
        """Stop."""
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _connect(self, reader, writer):
        try:
            await self._wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._wait()
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def _wait(self):
        while not self._open.is_set():
            await asyncio.sleep(0.02)


class FaultCluster:
    """A scheduler and workers of one thread in their own processes; client and workers reach it through a proxy."""

    def __init__(self, n_workers, folder):
        self.n_workers, self.folder = n_workers, Path(folder)
        self.scheduler_port = _free_port()
        self.scheduler = self._start_scheduler()
        self.proxy = Proxy(self.scheduler_port)
        self.address = f"tcp://127.0.0.1:{self.proxy.port}"
        self.nannies = []
        self.start_workers()

    def _start_scheduler(self):
        address = ["--host", "127.0.0.1", "--port", str(self.scheduler_port), "--no-dashboard", "--no-show"]
        started = _start("scheduler", *address, log=self.folder / "scheduler.log")
        _wait_for(lambda: _answers(self.scheduler_port), 30, "the scheduler")
        return started

    def start_workers(self):
        """Start workers until there are `n_workers`; each has a nanny that restarts it."""
        self.nannies = [nanny for nanny in self.nannies if nanny.poll() is None]
        while len(self.nannies) < self.n_workers:
            local = ["--local-directory", str(self.folder / "workers"), "--death-timeout", "20"]
            options = ["--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1", *local]
            self.nannies.append(_start("worker", self.address, *options, log=self.folder / "workers.log"))

    def restart_scheduler(self):
        """Kill the scheduler, and start another one with the same port."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = self._start_scheduler()
        self.start_workers()

    def worker_pids(self):
        """Processes of the workers, without their nannies."""
        return [child.pid for nanny in self.nannies for child in _children(nanny.pid) if _is_worker(child)]

    def signal_worker(self, which, name):
        """Send a signal to a worker; returns its process, or None if there is none at the moment."""
        pids = self.worker_pids()
        if not pids:
            return None
        pid = pids[which % len(pids)]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, getattr(signal, name))
        return pid

    def close(self):
        """End all processes; returns those that had to be killed."""
        self.proxy.restore()
        known = [child for process in (*self.nannies, self.scheduler) for child in _children(process.pid)]
        for process in (*self.nannies, self.scheduler):
            process.terminate()
        left = []
        for process in (*self.nannies, self.scheduler):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                left.append(process.pid)
                process.kill()
        _, alive = psutil.wait_procs(known, 10)
        for process in alive:
            process.kill()
        self.proxy.close()
        return left + [process.pid for process in alive]


def _start(kind, *arguments, log):
    folder = log.parent / kind
    folder.mkdir(exist_ok=True)
    package = str(Path(skmanifold.__file__).parents[1])
    paths = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    with open(log, "ab") as file:
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        settings = {"cwd": folder, "env": {**os.environ, "PYTHONPATH": paths}, "start_new_session": True}
        return subprocess.Popen(command, stdout=file, stderr=file, **settings)


def _children(pid):
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def _is_worker(process):
    with contextlib.suppress(psutil.NoSuchProcess):
        return "spawn_main" in " ".join(process.cmdline())
    return False


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not start within {seconds} seconds")
        time.sleep(0.1)
