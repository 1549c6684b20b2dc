"""Add the machine code of default settings to a wheel: `python .ci/machine_code.py dist/NAME-py3-none-any.whl`.

It writes a wheel for this version of Python on Linux next to the pure one, which remains for all others. Fits in one
process show which kernels are needed; another compiles them for each level of processors, and does not run them. The
package must be installed, and `wheel`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from skmanifold.utils._packaged_code import LEVELS

FIND = """
import sys
from pathlib import Path
from numba.core.serialize import dumps
from skmanifold.compile_kernels import compile_kernels
from skmanifold.utils._machine_code import caches

compile_kernels(sys.argv[2:] or None, only_defaults=True)
found = [(cache.function.__module__, cache.function.__qualname__, sig) for cache in caches for sig in cache.saved]
Path(sys.argv[1]).write_bytes(dumps(found))
"""
COMPILE = """
import pickle
import sys
from importlib import import_module
from pathlib import Path
from skmanifold.utils import _packaged_code

folder = _packaged_code.folder_of(sys.argv[2])
folder.mkdir(parents=True)
for module, name, sig in pickle.loads(Path(sys.argv[1]).read_bytes()):
    kernel = getattr(import_module(module), name)
    kernel.compile(sig)
    _packaged_code.save(folder, kernel.py_func, sig, kernel.overloads[sig])
files = list(folder.iterdir())
print(f"{folder.name}: {len(files)} kernels, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
"""


def main() -> None:
    """Unpack a wheel, add machine code, and pack it with the tags of this Python and of Linux."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("estimators", nargs="*", metavar="NAME", help="all by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        run("-m", "wheel", "unpack", options.wheel, "--dest", scratch)
        (package,) = Path(scratch).iterdir()
        found = Path(scratch, "found")
        run_in(package, "-c", FIND, found, *options.estimators)
        for level in LEVELS:
            run_in(package, "-c", COMPILE, found, level, NUMBA_CPU_NAME=level, NUMBA_CPU_FEATURES="")
        run("-m", "wheel", "pack", package, "--dest-dir", scratch)
        (packed,) = Path(scratch).glob("*.whl")
        # Machine code calls functions of numba and of the mathematical library that every glibc has.
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        run("-m", "wheel", "tags", f"--python-tag={python}", "--platform-tag=manylinux_2_17_x86_64", "--remove", packed)
        (tagged,) = Path(scratch).glob("*.whl")
        wheel = options.wheel.with_name(tagged.name)
        wheel.write_bytes(tagged.read_bytes())
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


def run_in(package: Path, *arguments: object, **environment: str) -> None:
    """Run Python with an unpacked package and an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        run(*arguments, cwd=package, env={**os.environ, "PYTHONPATH": "", "NUMBA_CACHE_DIR": cache, **environment})


def run(*arguments: object, **settings: object) -> None:
    """Run Python, and stop if it fails."""
    subprocess.run([sys.executable, *map(str, arguments)], check=True, **settings)


if __name__ == "__main__":
    main()
