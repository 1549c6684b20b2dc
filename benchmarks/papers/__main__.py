"""Run the experiments of the five papers that have no result yet, and write their tables and figures.

    python -m benchmarks.papers                    # all, which takes hours
    python -m benchmarks.papers ma2015_fig2_left
    python -m benchmarks.papers --quick            # small versions, written to a temporary folder
    python -m benchmarks.papers --draw             # tables and figures from the stored results
    python -m benchmarks.papers --list

Results are in `benchmarks/papers/results`, one CSV file per experiment, with a row for each measurement. Runs whose
rows are there are not repeated, so a command that was interrupted goes on where it stopped. Delete rows to measure them
again.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import tempfile
import time
from pathlib import Path

from benchmarks import _results

from . import _stored_rows

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def module_of(name):
    """The module of an experiment."""
    return importlib.import_module(f"{__package__}.{name}")


def title_of(module):
    """The first line of its docstring."""
    return module.__doc__.partition("\n")[0].rstrip(".")


def needs_data(module):
    """Whether it reads the corpora of SKMANIFOLD_DATA."""
    return getattr(module, "NEEDS_DATA", False)


def measure(module, path, *, quick):
    """Make the runs that are missing, then those whose settings depend on the rows."""
    _measure(module, path, module.cases(quick))
    for later_cases in getattr(module, "LATER_CASES", ()):
        _measure(module, path, later_cases(_stored_rows.read(path)[1], quick))


def _measure(module, path, cases):
    """Make the runs that are missing; each row is written when its run ends."""
    done = _stored_rows.settings_of(path, list(cases[0]))
    for case in cases:
        if _stored_rows.key_of(case) in done:
            continue
        start = time.perf_counter()
        found = module.run(**case)
        seconds = time.perf_counter() - start
        rows = found if isinstance(found, list) else [found]
        _stored_rows.append(path, case, rows, seconds)
        print(f"{path.stem}: {_stored_rows.key_of(case)}, {seconds:.1f} s", flush=True)


def write(module, path):
    """Write the tables and the figure of an experiment from its rows."""
    source, rows, hours = _stored_rows.read(path)
    lines = _results.begin()
    module.show(rows)
    time_taken = f"{hours:.1f} hours" if hours >= 1 else f"{max(1, round(60 * hours))} min"
    name = path.stem
    _results.write(name, lines, f"python -m benchmarks.papers {name}", f"{source}; {time_taken}", folder=path.parent)
    if hasattr(module, "draw"):
        import matplotlib.pyplot as plt

        with plt.style.context("skmanifold.inspection.skmanifold"), plt.rc_context({"svg.hashsalt": name}):
            figure = module.draw(rows)
            figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
            plt.close(figure)


def main():
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments; all by default")
    parser.add_argument("--quick", action="store_true", help="small versions, each less than a minute")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--list", action="store_true", help="print the names and titles")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no experiment {unknown[0]!r}; --list prints the names")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if options.quick else RESULTS
        for name in options.names or NAMES:
            module, path = module_of(name), folder / f"{name}.csv"
            if options.list:
                print(f"{name}: {title_of(module)}")
                continue
            if not options.draw:
                if needs_data(module) and not os.environ.get("SKMANIFOLD_DATA"):
                    print(f"{name}: left out, because SKMANIFOLD_DATA is not set")
                    continue
                measure(module, path, quick=options.quick)
            if path.exists():
                write(module, path)


if __name__ == "__main__":
    main()
