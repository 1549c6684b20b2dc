"""Seconds per pass and memory of `DPCategoricalMixture`: 1e4 to 1e6 synthetic rows, 50 columns, 30 components.

Each size runs in a new process, whose peak memory is measured. Passes are timed after the components have been found.

    python benchmarks/dp_scale.py
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
from _results import add_write, begin_table, finish, show_output_of

from skmanifold import DPCategoricalMixture
from skmanifold.datasets import make_categorical_mixture


class Clock:
    """Time of each pass, as a callback."""

    def __init__(self):
        self.times = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, **kwargs):
        self.times.append(time.perf_counter())
        return False

    def teardown(self, estimator, context):
        pass


def measure(n_samples, n_jobs, batch_size, max_iter):
    data = make_categorical_mixture(n_samples, 50, 30, n_categories=5, random_state=0)
    warm_up = DPCategoricalMixture("categorical", max_iter=4, random_state=0, batch_size=batch_size)
    warm_up.fit(data.data[:2000])
    clock = Clock()
    mixture = DPCategoricalMixture(
        "categorical", max_iter=max_iter, thin=2, random_state=0, n_jobs=n_jobs, batch_size=batch_size
    ).set_callbacks(clock)
    start = time.perf_counter()
    mixture.fit(data.data)
    whole = time.perf_counter() - start
    of_passes = np.diff(clock.times[:-1])[max_iter // 2 :]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    cells = (
        f"{n_samples:,}",
        n_jobs,
        batch_size,
        f"{np.median(of_passes):.3f} ({of_passes.min():.3f} to {of_passes.max():.3f})",
        f"{1e9 * np.median(of_passes) / n_samples:.0f}",
        mixture.n_components_,
        f"{whole:.1f}",
        f"{peak:.2f}",
    )
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--n-jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=None, help="None: chosen by the estimator")
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--alone", action="store_true", help="measure the first size in this process")
    add_write(parser)
    options = parser.parse_args()
    if options.alone:
        measure(options.sizes[0], options.n_jobs[0], options.batch_size or "auto", options.max_iter)
        sys.exit()
    times = "seconds per pass", "nanoseconds per row and pass", "components", "whole fit, seconds"
    begin_table(("rows", "n_jobs", "minibatch", *times, "peak memory, GiB"))
    for size in options.sizes:
        for n_jobs in options.n_jobs:
            own = ["--sizes", str(size), "--n-jobs", str(n_jobs)]
            own += ["--batch-size", str(options.batch_size)] if options.batch_size else []
            command = [sys.executable, __file__, "--alone", "--max-iter", str(options.max_iter), *own]
            show_output_of(command)
    finish(options, notes="Medians (ranges) of passes; the peak memory includes the data and their generator.")
