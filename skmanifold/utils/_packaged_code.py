"""Machine code of kernels that is part of the installed package, so that common processors compile nothing.

Wheels for Linux contain it (`.ci/machine_code.py`): a folder for each level of processors, with a file for each kernel
and types of its arguments. The name of a folder has a digest of the sources and of all versions that machine code
depends on, and a file begins with a digest of its content. So code of other sources or versions, and damaged code, is
never used: kernels are then compiled as usual.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from functools import cache
from os import environ
from pathlib import Path
from typing import Any

import llvmlite
import numba
from llvmlite import binding
from numba.core import serialize
from numba.core.compiler import CompileResult

_PACKAGE = Path(__file__).parents[1]
_FOLDER = _PACKAGE / "_kernels"
# Levels of the x86-64 psABI with the features that a processor must have; the first that it has is used.
_V3 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
LEVELS = {"x86-64-v4": (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), "x86-64-v3": _V3}
# Settings of numba that do not change machine code; with any other, kernels are compiled.
_HARMLESS = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"}
_N_DIGEST = hashlib.sha256().digest_size


def folder_of(level: str) -> Path:
    """The folder of the machine code of a level, for these sources and versions."""
    return _FOLDER / f"{level}-{_digest_of_package()}"


def _digest_of_package() -> str:
    """A digest of the sources and of all versions that machine code depends on."""
    digest = hashlib.sha256(binding.get_process_triple().encode())
    for version in (sys.implementation.cache_tag, numba.__version__, llvmlite.__version__):
        digest.update(version.encode() + b"\0")
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(_PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def _folder() -> Path | None:
    if not _FOLDER.is_dir() or any(name.startswith("NUMBA_") for name in environ.keys() - _HARMLESS):
        return None
    features = binding.get_host_cpu_features()
    digest = _digest_of_package()
    levels = (level for level, needed in LEVELS.items() if all(map(features.get, needed)))
    folders = (_FOLDER / f"{level}-{digest}" for level in levels)
    return next(filter(Path.is_dir, folders), None)


def _file(folder: Path, kernel: Any, sig: Any) -> Path:
    code = kernel.__code__
    name = f"{kernel.__module__}.{kernel.__qualname__}.{code.co_firstlineno}"
    return folder / f"{name}.{hashlib.sha256(repr(sig).encode()).hexdigest()[:16]}"


def save(folder: Path, kernel: Any, sig: Any, compiled: CompileResult) -> None:
    """Write the machine code of a kernel for these types of arguments."""
    content = serialize.dumps((sig, compiled._reduce()))
    _file(folder, kernel, sig).write_bytes(hashlib.sha256(content).digest() + content)


def load(kernel: Any, sig: Any, target_context: Any) -> Any:
    """The compiled kernel for these types of arguments, or None if the package has none for this processor."""
    folder = _folder()
    if folder is None:
        return None
    try:
        content = _file(folder, kernel, sig).read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content[_N_DIGEST:]).digest() != content[:_N_DIGEST]:
        return None
    of, data = pickle.loads(content[_N_DIGEST:])
    if of != sig:  # other types with the same names
        return None
    target_context.refresh()
    return CompileResult._rebuild(target_context, *data)
