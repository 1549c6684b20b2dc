"""Python in another process, whose compiled kernels are kept in a folder of the test."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_python(code, folder, *arguments, **environment):
    """What code prints that may import modules of the folder; variables of the environment that are "" are not set."""
    paths = {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]), "NUMBA_CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "0", **paths, **environment}
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-B", "-W", "error", "-c", textwrap.dedent(code), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
