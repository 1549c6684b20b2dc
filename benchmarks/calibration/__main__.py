"""Simulation-based calibration of every estimator and sampler that draws from the posterior.

    python -m benchmarks.calibration                      # 400 data sets for each sampler, which takes hours
    python -m benchmarks.calibration mixture_bernoulli    # one setting, or all of one file: mixtures
    python -m benchmarks.calibration --n 1000             # more data sets; those that are stored are kept
    python -m benchmarks.calibration --quick              # a few data sets, written to a temporary folder
    python -m benchmarks.calibration --draw               # tables and figures from the stored results
    python -m benchmarks.calibration --list

Parameters are drawn from the prior, data given these parameters, and the posterior given the data is sampled through
the public interface. Results are in `benchmarks/calibration/results`, one CSV file per setting with a row for each data
set: its number, the seconds, the rank of the true value of each quantity among 39 draws, and the autocorrelation of
successive draws.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

from . import directions, dirichlet_processes, mixtures, subspaces, topics, views
from ._report import write
from ._runs import extend

RESULTS = Path(__file__).parent / "results"
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in (mixtures, dirichlet_processes, topics, directions, subspaces, views)
}
N_SIMULATIONS = {"exact": 400, "approximate": 400, "wrong": 100}
N_QUICK = 3


def main():
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="settings, or files of them; all by default")
    parser.add_argument("--n", type=int, help=f"number of data sets for each setting; by default {N_SIMULATIONS}")
    parser.add_argument("--quick", action="store_true", help=f"{N_QUICK} data sets for each setting")
    parser.add_argument("--draw", action="store_true", help="simulate nothing")
    parser.add_argument("--list", action="store_true", help="print the names and titles")
    options = parser.parse_args()
    known = {setting.name for module in MODULES.values() for setting in module.SETTINGS}
    unknown = sorted(set(options.names) - known - set(MODULES))
    if unknown:
        parser.error(f"there is no setting {unknown[0]!r}; --list prints the names")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) if options.quick else RESULTS
        for file, module in MODULES.items():
            chosen = [s for s in module.SETTINGS if not options.names or {s.name, file} & set(options.names)]
            for setting in chosen:
                if options.list:
                    print(f"{setting.name}: {setting.title} ({setting.kind})")
                elif not options.draw:
                    n = N_QUICK if options.quick else options.n or N_SIMULATIONS[setting.kind]
                    extend(setting, folder / f"{setting.name}.csv", n)
            if chosen and not options.list:
                write(file, module, folder)


if __name__ == "__main__":
    main()
