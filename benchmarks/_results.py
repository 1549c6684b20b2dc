"""Files of results: the tables that a benchmark prints, with its command, machine, versions and date.

A script calls `show`, `title`, `begin_table` and `row` instead of `print` for everything that belongs in its file, and
`finish` at the end. With `--write` the file `benchmarks/results/NAME.md` is replaced, where NAME is the name of the
script. Pages of the documentation include these files, so that each measured figure is written in one place.
"""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
PACKAGES = ("skmanifold", "scikit-learn", "numpy", "scipy", "numba")
_shown: list[str] = []


def begin():
    """Forget the lines that were shown so far, and return the list of those that follow."""
    _shown.clear()
    return _shown


def add_write(parser):
    """Add the option `--write` to a script's parser."""
    parser.add_argument(
        "--write",
        action="store_true",
        help="also write the tables to benchmarks/results, which the documentation shows",
    )


def show(line=""):
    """Print a line of Markdown and keep it for the file of results."""
    print(line, flush=True)
    _shown.append(line)


def title(text):
    """Show a short heading above a table."""
    show(f"\n**{text}**\n")


def row(cells):
    """Show a row of a table."""
    show("| " + " | ".join(map(str, cells)) + " |")


def begin_table(head, rows=()):
    """Show the head of a table and its rows; rows that are measured later are added by `row`."""
    row(head)
    show("|---" * len(head) + "|")
    for cells in rows:
        row(cells)


def show_output_of(command):
    """Run a command and print its lines as they arrive."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            show(line.rstrip("\n"))
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)


def finish(options, *packages, part="", notes=""):
    """With `--write`, replace the file of the script that runs; `packages` are the other libraries that took part.

    `part` is appended to the name of the file, where a script measures different things in different runs.
    """
    if not options.write:
        return
    script = Path(sys.argv[0])
    arguments = [argument for argument in sys.argv[1:] if argument != "--write"]
    command = shlex.join(["python", "-m", f"benchmarks.{script.stem}", *arguments])
    source = f"{machine()}; {versions((*PACKAGES, *packages))[0]}; {datetime.date.today():%B %Y}"
    print(f"Written: {write(script.stem + part, _shown, command, source, notes)}")


def write(name, lines, command, source, notes="", folder=None):
    """Write a file of results; `source` says where, with which versions and when they were measured."""
    path = (folder or FOLDER) / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    head = f"Measured with `{command}` on {source}."
    body = "\n".join(lines).strip("\n")
    path.write_text("\n\n".join(part for part in (head, notes, body) if part) + "\n", encoding="utf-8")
    return path


def machine():
    """Processor, cores and memory."""
    model = platform.processor() or platform.machine()
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()}, Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {system}"


def versions(packages):
    """The installed ones of these distributions with their versions, and the names of those that are missing."""
    import importlib.metadata  # here, because `first_fit.py` measures imports

    found, missing = [], []
    for name in packages:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    return ", ".join(found), ", ".join(missing)


def _read(path):
    try:
        return Path(path).read_text()
    except OSError:
        return ""
