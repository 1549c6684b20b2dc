"""Runs seeded cases in a child process, so that a crash or an endless loop is one failed case.

A door is a module of this package with

- ``prepare(folder)``: what all cases share (compiled kernels, saved files), as one object;
- ``check(prepared, seed)``: builds the case of this seed and tries it; returns None, or a sentence that says what went
  wrong. An exception that escapes is a failure too.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_PREPARE_LIMIT = 300.0  # seconds: kernels may have to be compiled
_MEMORY = 6 << 30  # bytes of address space: beyond it a case gets a MemoryError, which fails it
LIMIT = 10.0  # seconds a case


def failures(door: str, seeds: Iterable[int], limit: float = LIMIT) -> list[str]:
    """What went wrong, one sentence for each failed case; every case is tried."""
    left, found = list(seeds), []
    with tempfile.TemporaryDirectory() as folder:
        while left:
            n_done, failed = _run_child(door, left, limit, folder)
            found += failed
            left = left[n_done:]
    return found


def _run_child(door: str, seeds: list[int], limit: float, folder: str) -> tuple[int, list[str]]:
    """Number of cases that were begun by one child, and the failures among them."""
    command = [sys.executable, "-X", "faulthandler", "-m", f"{__package__}._cases", door, folder]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, sys.path)])}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(seeds).encode())
            child.stdin.close()
            lines = _Lines(child.stdout.fileno())
            answer = lines.next(_PREPARE_LIMIT)
            if answer != "ready":
                child.kill()
                errors.seek(0)
                raise RuntimeError(f"{door} could not be prepared ({answer!r}):\n{errors.read()[-4000:]}")
            failed = []
            for n_done, seed in enumerate(seeds):
                answer = lines.next(limit)
                if answer is None:
                    child.kill()
                    return n_done + 1, [*failed, f"seed {seed}: no answer within {limit:g} s."]
                if not answer:
                    errors.seek(0)
                    told = errors.read()[-1500:]
                    return n_done + 1, [*failed, f"seed {seed}: the process ended with {child.wait()}:\n{told}"]
                told = json.loads(answer)
                if told is not None:
                    failed.append(f"seed {seed}: {told}")
            return len(seeds), failed
        finally:
            child.kill()


class _Lines:
    """Lines of a pipe, each waited for so many seconds."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._rest = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(descriptor, selectors.EVENT_READ)

    def next(self, seconds: float) -> str | None:
        """The next line; empty when the pipe is closed, None when nothing came in time."""
        until = time.monotonic() + seconds
        while b"\n" not in self._rest:
            if not self._selector.select(max(0.0, until - time.monotonic())):
                return None
            piece = os.read(self._descriptor, 1 << 16)
            if not piece:
                return ""
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()


def _main(door: str, folder: str) -> None:
    """Answer one line for each seed of standard input."""
    seeds = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a case prints is no answer
    module = importlib.import_module(f"{__package__}.{door}")
    prepared = module.prepare(Path(folder))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    print("ready", file=answers, flush=True)
    for seed in seeds:
        try:
            told = module.check(prepared, seed)
        except Exception:
            told = traceback.format_exc()[-1500:]
        print(json.dumps(told), file=answers, flush=True)


def one_sentence(error: BaseException) -> bool:
    """Whether an error says something: one line of words that is not only the name of a key."""
    text = str(error)
    return len(text.split()) >= 4 and "\n" not in text.strip()


if __name__ == "__main__":
    _main(*sys.argv[1:])
