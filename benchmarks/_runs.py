"""Results of runs with several seeds in a CSV file: a method, a seed, seconds, and measurements; styles of lines."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

STYLE = "skmanifold.inspection.skmanifold"


def line_style(number):
    """Colour, line and marker of a method; no two methods differ by colour alone."""
    line = ("-", "--", ":")[number // 6]
    return {"color": f"C{number % 6}", "linestyle": line, "marker": "os^Dv*P<>Xhd"[number], "markersize": 4}


def read_runs(path, fields, methods):
    """Rows of each method, in the order of `methods`: arrays of `fields` without the first, the method."""
    found = {}
    with Path(path).open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["method"], []).append([float(row[field]) for field in fields[1:]])
    return {name: np.array(found[name]) for name in methods if name in found}


def spread(values, form):
    """Median and range over seeds, as text."""
    return f"{np.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def of_each_seed(rows):
    """The rows of each seed, which is their first column."""
    return [rows[rows[:, 0] == seed] for seed in np.unique(rows[:, 0])]


def at_time(rows, at):
    """The rows of all seeds at one of the times, their second column: the first after it."""
    found = [own[own[:, 1] >= at][0] for own in of_each_seed(rows) if (own[:, 1] >= at).any()]
    return np.array(found).reshape(-1, rows.shape[1])
