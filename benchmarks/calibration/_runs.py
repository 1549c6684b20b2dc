"""Stored simulations: a CSV file per setting, which further simulations extend."""

from __future__ import annotations

import csv
import time

import numpy as np

from ._settings import simulate

REPORT_EVERY = 50


def extend(setting, path, n):
    """Simulate the data sets 0, ..., n - 1 that are not in the file."""
    names = list(setting.quantities)
    fields = ["number", "seconds", *names, *(f"lag {name}" for name in names)]
    done = set()
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            done = {int(row["number"]) for row in reader}
            if reader.fieldnames != fields:
                raise ValueError(f"{path.name} has other quantities than {setting.name}: delete it to simulate again.")
    for number in range(n):
        if number in done:
            continue
        start = time.process_time()
        found = simulate(setting, number)
        ranks = [found[name][0] for name in names]
        lags = [f"{found[name][1]:.2f}" for name in names]
        is_new = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(fields)
            writer.writerow([number, f"{time.process_time() - start:.2f}", *ranks, *lags])
        if (number + 1) % REPORT_EVERY == 0 or number + 1 == n:
            print(f"{setting.name}: {number + 1} data sets", flush=True)


def read(path):
    """Ranks by quantity, mean autocorrelations by quantity, and the seconds of all simulations."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in ("number", "seconds") and not name.startswith("lag ")]
    ranks = {name: np.array([int(row[name]) for row in rows]) for name in names}
    lags = {name: float(np.mean([float(row[f"lag {name}"]) for row in rows])) for name in names}
    return ranks, lags, sum(float(row["seconds"]) for row in rows)
