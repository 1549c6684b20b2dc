"""Figures of other libraries in a file, so that they are measured once: one JSON object per line.

The first line says on which machine, with which versions and when they were measured; the other lines are runs.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from benchmarks._results import PACKAGES, machine, versions


def read(path, who="Other libraries"):
    """The sentence about the machine that measured them, and the runs as dictionaries; none if there is no file."""
    if not Path(path).exists():
        return "", []
    first, *lines = Path(path).read_text(encoding="utf-8").splitlines()
    source = who + " were measured on {machine}; {versions}; {date}.".format(**json.loads(first))
    return source, [json.loads(line) for line in lines]


def append(path, run, *packages):
    """Add a run to the file, or to a new one; `packages` are the other libraries."""
    with Path(path).open("a", encoding="utf-8") as file:
        if not file.tell():
            source = {"machine": machine(), "versions": versions((*PACKAGES, *packages))[0]}
            file.write(json.dumps({**source, "date": f"{datetime.date.today():%B %Y}"}) + "\n")
        file.write(json.dumps(run) + "\n")
