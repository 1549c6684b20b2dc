"""The command ``python -m skmanifold.compile_kernels``."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from ..utils._progress import show_progress
from ._cases import ESTIMATORS
from ._compile import CompiledKernels, KernelsNotSavedError, compile_kernels, known_names


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile the requested kernels, and return the exit status: 0, or 1 if they cannot be saved."""
    parser = argparse.ArgumentParser(
        prog="python -m skmanifold.compile_kernels",
        description="Compile the kernels of estimators and save them in numba's cache.",
        epilog="The cache is in NUMBA_CACHE_DIR if it is set, else in the installation, else in a folder of the user. "
        "Its code is for this processor (or NUMBA_CPU_NAME), this version of numba and this path of the installation.",
    )
    parser.add_argument("estimators", nargs="*", metavar="ESTIMATOR", help=f"all by default: {', '.join(ESTIMATORS)}")
    parser.add_argument(
        "--only-defaults", action="store_true", help="omit samplers and emissions that are not the default"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes; -1: one per core")
    options = parser.parse_args(arguments)
    try:
        names = known_names(options.estimators or None)
    except ValueError as error:
        return _fail(error)
    try:
        with warnings.catch_warnings(record=True) as caught, show_progress() as report:
            warnings.simplefilter("always")
            compiled = compile_kernels(names, only_defaults=options.only_defaults, n_jobs=options.jobs, report=report)
    except KernelsNotSavedError as error:
        return _fail(error)
    for warning in caught:
        print(warning.message, file=sys.stderr)
    print(_summary(compiled))
    return 0


def _fail(error: Exception) -> int:
    print(error, file=sys.stderr)
    return 1


def _summary(compiled: CompiledKernels) -> str:
    size = f"{', '.join(compiled.folders)}, {compiled.n_bytes / 1e6:.1f} MB, {compiled.seconds:.0f} s"
    if not compiled.n_compiled:
        return f"Nothing was left to compile, {compiled.n_found} kernels were loaded: {size}."
    loaded = f", {compiled.n_found} others were there before" if compiled.n_found else ""
    return f"{compiled.n_compiled} kernels were compiled{loaded}: {size}."


if __name__ == "__main__":
    sys.exit(main())
