"""Runs seeded cases in a child process, so that a crash or an endless loop is one failed case.

A door is a module of this package with

- ``prepare(folder)``: what all cases share (compiled kernels, saved files), as one object; the folder if there is none;
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

from numba.core import event

_TESTS = Path(__file__).parents[1]
_PREPARE_LIMIT = 300.0  # seconds: kernels may have to be compiled
_MEMORY = 6 << 30  # bytes of address space: beyond it a case gets a MemoryError, which fails it
LIMIT = 10.0  # seconds a case, without those of the compiler
_COMPILER_LIMIT = 60.0  # seconds more, for types of arrays that no case had before


def failures(
    door: str, seeds: Iterable[int], limit: float = LIMIT, compiler_limit: float = _COMPILER_LIMIT
) -> list[str]:
    """What went wrong, one sentence for each failed case; every case is tried."""
    left, found = list(seeds), []
    with tempfile.TemporaryDirectory() as folder:
        while left:
            n_done, failed = _run_child(door, left, limit, compiler_limit, folder)
            found += failed
            left = left[n_done:]
    return found


def _run_child(door: str, seeds: list[int], limit: float, compiler_limit: float, folder: str) -> tuple[int, list[str]]:
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
                answer = lines.next(limit + compiler_limit)
                if answer is None:
                    child.kill()
                    return n_done + 1, [*failed, f"seed {seed}: no answer within {limit:g} s."]
                if not answer:
                    errors.seek(0)
                    told = errors.read()[-1500:]
                    return n_done + 1, [*failed, f"seed {seed}: the process ended with {child.wait()}:\n{told}"]
                told, seconds = json.loads(answer)
                if told is None and seconds > limit:
                    told = f"an answer took {seconds:.0f} s, more than {limit:g}."
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
    prepared = getattr(module, "prepare", lambda folder: folder)(Path(folder))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    print("ready", file=answers, flush=True)
    compiler = _Compiler()
    event.register("numba:compile", compiler)
    for seed in seeds:
        start, compiler.seconds = time.monotonic(), 0.0
        try:
            told = module.check(prepared, seed)
        except Exception:
            told = traceback.format_exc()[-1500:]
        seconds = time.monotonic() - start - compiler.seconds
        print(json.dumps([told, seconds]), file=answers, flush=True)


class _Compiler(event.Listener):
    """Seconds that numba's compiler takes, of one function and all that it calls once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._start = 0.0

    def on_start(self, event: event.Event) -> None:
        """A function, maybe called by another that is being compiled."""
        if self._depth == 0:
            self._start = time.monotonic()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """That function."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.monotonic() - self._start


def one_sentence(error: BaseException) -> bool:
    """Whether an error says something: one line of words that is not only the name of a key."""
    text = str(error)
    return len(text.split()) >= 4 and "\n" not in text.strip()


def altered_bytes(rng, content: bytes) -> bytes:
    """Bytes that are cut, longer, without a part, or with a few others in place of some."""
    changed = bytearray(content)
    kind = rng.integers(6)
    if kind == 0:
        del changed[rng.integers(len(changed) + 1) :]
    elif kind == 1:
        changed += rng.bytes(int(rng.choice([1, 8, 100])))
    elif kind == 2 and changed:
        start = int(rng.integers(len(changed)))
        del changed[start : start + int(rng.choice([1, 8, 64]))]
    else:
        for _ in range(rng.integers(1, 4) if changed else 0):
            place = rng.integers(len(changed) if rng.random() < 0.5 else min(len(changed), 128))
            changed[place] = rng.integers(256) if rng.random() < 0.5 else changed[place] ^ (1 << rng.integers(8))
    return bytes(changed)


if __name__ == "__main__":
    _main(*sys.argv[1:])
