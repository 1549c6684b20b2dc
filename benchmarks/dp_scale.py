"""Seconds per pass and memory of Dirichlet process mixtures: 1e4 to 1e6 synthetic rows of 30 components.

Categorical rows have 50 columns of 5 categories; Gaussian rows have 10 columns (`_planted_gaussians.py`). Each fit runs
in a new process, whose peak memory is measured. Passes are timed after the components have been found. Fits with
different numbers of threads run alternately; their ratio is taken between fits next to each other.

    python -m benchmarks.dp_scale
    python -m benchmarks.dp_scale --emission gaussian --sizes 100000 1000000 --turns 3
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

from benchmarks._results import add_write, begin_table, finish, row, show
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


def categorical(n_samples):
    """Rows, and the mixture that is fitted to them."""
    X = make_categorical_mixture(n_samples, 50, 30, n_categories=5, random_state=0).data
    return X, lambda **settings: DPCategoricalMixture("categorical", **settings)


def gaussian(n_samples):
    """Rows, and the mixture that is fitted to them."""
    from benchmarks._planted_gaussians import PlantedGaussians
    from skmanifold import DPMixture

    return PlantedGaussians(10).sample(n_samples)[0], lambda **settings: DPMixture("gaussian", **settings)


EMISSIONS = {"categorical": categorical, "gaussian": gaussian}


def measure(emission, n_samples, n_jobs, batch_size, max_iter):
    """Seconds of the passes of a fit, without the first half, and of the whole fit; components; peak memory."""
    X, make = EMISSIONS[emission](n_samples)
    make(max_iter=4, random_state=0, batch_size=batch_size).fit(X[:2000])
    clock = Clock()
    settings = {"max_iter": max_iter, "thin": 2, "n_jobs": n_jobs, "batch_size": batch_size}
    mixture = make(**settings, random_state=0).set_callbacks(clock)
    start = time.perf_counter()
    mixture.fit(X)
    return {
        "whole": time.perf_counter() - start,
        "passes": np.diff(clock.times[:-1])[max_iter // 2 :].tolist(),
        "components": len(mixture.component_clusters_),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def measure_alone(options, size, n_jobs):
    """`measure` in a new process."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.dp_scale",
        "--alone",
        "--emission",
        options.emission,
        "--max-iter",
        str(options.max_iter),
    ]
    command += ["--batch-size", str(options.batch_size)] if options.batch_size else []
    command += ["--sizes", str(size), "--n-jobs", str(n_jobs)]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
    print(size, n_jobs, found, file=sys.stderr, flush=True)
    return found


def cells_of(runs):
    passes = np.concatenate([run["passes"] for run in runs])
    return (
        f"{np.median(passes):.3f} ({passes.min():.3f} to {passes.max():.3f})",
        runs[0]["components"],
        f"{np.median([run['whole'] for run in runs]):.1f}",
        f"{max(run['memory'] for run in runs):.2f}",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--emission", default="categorical", choices=EMISSIONS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--n-jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=None, help="None: chosen by the estimator")
    parser.add_argument("--max-iter", type=int, default=40)
    parser.add_argument("--turns", type=int, default=1, help="fits for each number of rows and of threads")
    parser.add_argument("--alone", action="store_true", help="measure the first size in this process")
    add_write(parser)
    options = parser.parse_args()
    if options.alone:
        batch_size = options.batch_size or "auto"
        found = measure(options.emission, options.sizes[0], options.n_jobs[0], batch_size, options.max_iter)
        print(json.dumps(found))
        sys.exit()
    times = "seconds per pass", "nanoseconds per row and pass", "components", "whole fit, seconds"
    begin_table(("rows", "n_jobs", *times, "peak memory, GiB"))
    ratios = {}
    for size in options.sizes:
        runs = [[measure_alone(options, size, n_jobs) for n_jobs in options.n_jobs] for _ in range(options.turns)]
        for n_jobs, own in zip(options.n_jobs, zip(*runs, strict=True), strict=True):
            per_pass, *others = cells_of(own)
            per_row = 1e9 * np.median(np.concatenate([run["passes"] for run in own])) / size
            row((f"{size:,}", n_jobs, per_pass, f"{per_row:.0f}", *others))
        ratios[size] = [np.median(turn[0]["passes"]) / np.median(turn[-1]["passes"]) for turn in runs]
    if len(options.n_jobs) > 1:
        show(f"\nTime per pass with n_jobs={options.n_jobs[0]} over that with n_jobs={options.n_jobs[-1]}:\n")
        begin_table(("rows", "ratio"))
        for size, found in ratios.items():
            row((f"{size:,}", f"{np.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"))
    part = "" if options.emission == "categorical" else f"_{options.emission}"
    notes = "Medians (ranges) of passes; wall times; the peak memory includes the data and their generator."
    finish(options, part=part, notes=notes)
