"""Seconds and memory of `SubspaceMixture` on planted subspaces: many rows, many columns, and minibatches.

Each case runs in a new process, whose peak memory is measured, data included. Kernels are compiled before. Sweeps are
timed after the first three of the chain, in processor time of all threads, which depends less on other processes.

    python -m benchmarks.subspaces_scale
    python -m benchmarks.subspaces_scale --cases "100,000 x 128" --n-jobs 1
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks._results import add_write, begin_table, finish, show_output_of
from benchmarks.dp_scale import Clock
from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.metrics import match_subspaces

N_BURNT = 3
N_BATCHES = 20
MANY = tuple(2 + k % 7 for k in range(10))  # dimensions 2 to 8
CASES: dict[str, tuple[int, int, tuple[int, ...], dict[str, Any]]] = {  # rows, columns, dimensions, settings
    "10,000 x 20": (10_000, 20, (1, 2, 3, 4, 5), {}),
    "100,000 x 20": (100_000, 20, (1, 2, 3, 4, 5), {}),
    "1,000,000 x 20": (1_000_000, 20, (1, 2, 3, 4, 5), {"max_iter": 60}),
    "100,000 x 128": (100_000, 128, MANY, {"dimension_prior": 5}),
    "100,000 x 128, partial_fit": (100_000, 128, MANY, {"dimension_prior": 5}),
    "200 x 5,000": (200, 5000, (2, 4, 6), {"max_dimension": 12, "dimension_prior": 5}),
    "3,000 x 5,000": (3000, 5000, (2, 4, 6), {"max_dimension": 12, "dimension_prior": 5, "n_init": 1, "max_iter": 60}),
}


class BusyClock(Clock):
    """Also the processor time of each pass."""

    def __init__(self):
        super().__init__()
        self.busy = []

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.busy.append(time.process_time())
        return super().on_fit_task_end(estimator, context, **kwargs)


def peak_memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(case, n_jobs):
    n_samples, n_features, dimensions, settings = CASES[case]
    data = make_subspaces(n_samples, n_features, dimensions, noise_precision=20.0, random_state=0)
    X, K = data.data, len(dimensions)
    warm = SubspaceMixture(K, max_iter=4, max_dimension=8, random_state=0)
    warm.fit(X[:2000, :100]).partial_fit(X[:2000, :100])
    at_rest, clock = peak_memory(), BusyClock()
    mixture = SubspaceMixture(K, random_state=0, n_jobs=n_jobs, **settings)
    start, busy_start = time.perf_counter(), time.process_time()
    if case.endswith("partial_fit"):
        for batch in np.split(X, N_BATCHES):
            mixture.partial_fit(batch)
        of_sweeps = "-"
    else:
        mixture.set_callbacks(clock).fit(X)
        sweeps = np.diff(clock.busy[: mixture.max_iter])[N_BURNT - 1 :]
        of_sweeps = f"{np.median(sweeps):.4f} ({sweeps.min():.4f} to {sweeps.max():.4f})"
    busy, whole = time.process_time() - busy_start, time.perf_counter() - start
    cells = (
        case,
        n_jobs,
        ", ".join(f"`{name}={value}`" for name, value in settings.items()) or "default",
        of_sweeps,
        f"{busy:.1f}",
        f"{whole:.1f}",
        f"{adjusted_rand_score(data.labels, mixture.predict(X)):.4f}",
        " ".join(map(str, sorted(mixture.dimensions_))),
        "yes" if sorted(mixture.dimensions_) == sorted(dimensions) else "no",
        f"{match_subspaces(data.bases, mixture.bases_).distance.max():.2g}",
        f"{peak_memory():.2f} ({at_rest:.2f})",
    )
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--n-jobs", type=int, nargs="+", default=[1])
    parser.add_argument("--alone", action="store_true", help="measure the first case in this process")
    add_write(parser)
    options = parser.parse_args()
    if options.alone:
        measure(options.cases[0], options.n_jobs[0])
        sys.exit()
    columns = "rows x columns", "n_jobs", "settings", "seconds of processor time per sweep"
    columns += "whole fit, seconds of processor time", "of wall time", "adjusted Rand index", "dimensions"
    begin_table((*columns, "all right", "distance of the farthest subspace", "peak memory, GiB (before the fit)"))
    for case in options.cases:
        for n_jobs in options.n_jobs:
            own = ["--alone", "--cases", case, "--n-jobs", str(n_jobs)]
            show_output_of([sys.executable, "-m", "benchmarks.subspaces_scale", *own])
    finish(options, notes="Planted subspaces with noise of variance 0.05. Medians (ranges) of sweeps.")
