"""Seconds per pass and memory of `SubspaceMixture`: 1e4 to 1e6 rows, 20 columns, subspaces of dimensions 1 to 5.

Each size runs in a new process, whose peak memory is measured, data included. Sweeps are timed after the first three of
the chain, in wall time and in processor time of all threads.

    python -m benchmarks.subspaces_scale
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from benchmarks._results import add_write, begin_table, finish, show_output_of
from benchmarks.dp_scale import Clock
from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.metrics import match_subspaces

N_BURNT = 3


class BusyClock(Clock):
    """Also the processor time of each pass, which depends less on other processes."""

    def __init__(self):
        super().__init__()
        self.busy = []

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.busy.append(time.process_time())
        return super().on_fit_task_end(estimator, context, **kwargs)


def measure(n_samples, n_jobs, max_iter, n_init):
    dimensions = 1, 2, 3, 4, 5
    data = make_subspaces(n_samples, 20, dimensions, noise_precision=10.0, random_state=0)
    SubspaceMixture(5, max_iter=4, random_state=0).fit(data.data[:2000])
    at_rest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    clock = BusyClock()
    mixture = SubspaceMixture(5, n_init=n_init, max_iter=max_iter, random_state=0, n_jobs=n_jobs).set_callbacks(clock)
    start = time.perf_counter()
    mixture.fit(data.data)
    whole = time.perf_counter() - start
    sweeps, busy = (np.diff(times[:max_iter])[N_BURNT - 1 :] for times in (clock.times, clock.busy))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    far = match_subspaces(data.bases, mixture.bases_).distance.max()
    cells = (
        f"{n_samples:,}",
        n_jobs,
        n_init,
        f"{np.median(sweeps):.4f} ({sweeps.min():.4f} to {sweeps.max():.4f})",
        f"{np.median(busy):.4f} ({busy.min():.4f} to {busy.max():.4f})",
        f"{1e9 * np.median(busy) / n_samples:.0f}",
        " ".join(map(str, sorted(mixture.dimensions_))),
        f"{far:.2g}",
        f"{whole:.1f}",
        f"{peak:.2f}",
        f"{at_rest:.2f}",
    )
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--n-jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--n-init", type=int, default=1, help="initialisations, each tried for some passes")
    parser.add_argument("--alone", action="store_true", help="measure the first size in this process")
    add_write(parser)
    options = parser.parse_args()
    if options.alone:
        measure(options.sizes[0], options.n_jobs[0], options.max_iter, options.n_init)
        sys.exit()
    columns = "rows", "n_jobs", "n_init", "seconds per pass", "seconds of processor time per pass"
    columns += "nanoseconds per row", "dimensions", "distance of the farthest subspace", "whole fit, seconds"
    begin_table((*columns, "peak memory, GiB", "memory before the fit, GiB"))
    for size in options.sizes:
        for n_jobs in options.n_jobs:
            own = ["--sizes", str(size), "--n-jobs", str(n_jobs), "--max-iter", str(options.max_iter)]
            show_output_of(
                [sys.executable, "-m", "benchmarks.subspaces_scale", "--alone", *own, "--n-init", str(options.n_init)]
            )
    finish(options, notes="Medians (ranges) of passes.")
