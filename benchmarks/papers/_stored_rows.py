"""Rows of measurements in a CSV file whose first line says on which machine, with which versions and when."""

from __future__ import annotations

import csv
import datetime

from benchmarks._results import PACKAGES, machine, versions

SECONDS = "seconds_of_run"  # of the run that measured a row, in its first row


def _text(value):
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _value(text):
    try:
        number = float(text)
    except ValueError:
        return text
    return int(text) if text.lstrip("-").isdigit() else number


def key_of(case):
    """The settings of a run as text."""
    return ", ".join(f"{name}={_text(_value(_text(value)))}" for name, value in case.items())


def settings_of(path, names):
    """The settings with these names of the runs in a file, as text."""
    if not path.exists():
        return set()
    _, rows, _ = read(path)
    return {key_of({name: row[name] for name in names}) for row in rows}


def append(path, case, rows, seconds):
    """Add the rows of a run with these settings to the file, or to a new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = [*case, *rows[0]]
        if not file.tell():
            date = f"{datetime.date.today():%B %Y}"
            file.write(f"# {machine()}; {versions(PACKAGES)[0]}; {date}\n")
            writer.writerow([*names, SECONDS])
        for i, row in enumerate(rows):
            values = [_text(value) for value in {**case, **row}.values()]
            writer.writerow([*values, f"{seconds:.1f}" if i == 0 else ""])


def read(path):
    """The source, the rows as dictionaries with numbers where they are numbers, and the hours of all runs."""
    with path.open(newline="", encoding="utf-8") as file:
        source = file.readline().removeprefix("#").strip()
        rows = [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]
    seconds = sum(row.pop(SECONDS) or 0.0 for row in rows)
    return source, rows, seconds / 3600
