"""Hosts of a cluster in network namespaces of this machine, each with its own folders and processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

_OWN = os.getpid() % 250  # tests may run in several processes
_BRIDGE = f"skm{_OWN}"
_NETWORK = f"10.207.{_OWN}"
_PORT = 8786


def missing():
    """Why there can be no hosts, or an empty string."""
    if not sys.platform.startswith("linux") or os.geteuid():
        return "network namespaces need Linux and the superuser"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "network namespaces need ip and tc"
    tried = subprocess.run(["ip", "netns", "add", f"skm{_OWN}-try"], capture_output=True, check=False)
    if tried.returncode:
        return f"network namespaces cannot be made: {tried.stderr.decode().strip()}"
    _ip("netns", "delete", f"skm{_OWN}-try")
    return ""


class Host:
    """One namespace, connected to the bridge by a link of limited rate."""

    def __init__(self, number, folder, rate):
        self.name, self.address = f"skm{_OWN}-{number}", f"{_NETWORK}.{number}"
        self.link = f"skm{_OWN}-l{number}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.processes = []
        _ip("netns", "add", self.name)
        _ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("link", "set", self.link, "master", _BRIDGE, "up")
        _ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.name, "link", "set", "eth0", "up")
        _ip("-n", self.name, "link", "set", "lo", "up")
        limit = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]
        _run("tc", "qdisc", "add", "dev", self.link, *limit)
        _run("ip", "netns", "exec", self.name, "tc", "qdisc", "add", "dev", "eth0", *limit)

    def start(self, kind, *arguments):
        """Start a scheduler or a worker of Dask here."""
        command = ["ip", "netns", "exec", self.name, sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments]
        environment = {**os.environ, "TMPDIR": str(self.folder)}
        with open(self.folder / f"{kind}.log", "ab") as log:
            started = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=self.folder, start_new_session=True
            )
        self.processes.append(started)
        return started

    def cut(self):
        """Disconnect the host."""
        _ip("link", "set", self.link, "down")

    def restore(self):
        """Connect it again."""
        _ip("link", "set", self.link, "up")

    def kill(self):
        """End all processes here."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes = []

    def close(self):
        """Remove the host."""
        self.kill()
        _run("ip", "netns", "delete", self.name, check=False)
        _run("ip", "link", "delete", self.link, check=False)


class Hosts:
    """A host with the scheduler, and hosts with a worker each; the client is in the namespace of this process."""

    def __init__(self, n_workers, folder, rate="200mbit"):
        self.folder = folder
        _run("ip", "link", "delete", _BRIDGE, check=False)
        _ip("link", "add", _BRIDGE, "type", "bridge")
        _ip("addr", "add", f"{_NETWORK}.1/24", "dev", _BRIDGE)
        _ip("link", "set", _BRIDGE, "up")
        self.head = Host(2, folder, rate)
        self.workers = [Host(3 + i, folder, rate) for i in range(n_workers)]
        self.address = f"tcp://{self.head.address}:{_PORT}"
        self.start_scheduler()
        for host in self.workers:
            self.start_worker(host)

    def start_scheduler(self):
        """Start the scheduler."""
        self.head.start("scheduler", "--host", self.head.address, "--port", str(_PORT), "--no-dashboard", "--no-show")

    def start_worker(self, host, *options):
        """Start the worker of a host."""
        own = ["--host", host.address, "--local-directory", str(host.folder), "--nthreads", "1", "--no-dashboard"]
        return host.start("worker", self.address, *own, *options)

    def close(self):
        """Remove all hosts."""
        for host in (*self.workers, self.head):
            host.close()
        _run("ip", "link", "delete", _BRIDGE, check=False)


def wait_until(condition, seconds=60):
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def _ip(*arguments):
    _run("ip", *arguments)


def _run(*command, check=True):
    subprocess.run(command, check=check, capture_output=True)
