"""Seconds per pass and memory of Dirichlet process mixtures of tables: 1e5 and 1e6 rows with 30 columns of four sorts.

The planted tables have 10 clusters, 10 columns of numbers, 10 of categories (5 each), 5 binary columns, 5 columns of
counts, and 20 % missing cells. Each fit runs in a new process, whose peak memory is measured. Passes are timed after
the components have been found.

    python -m benchmarks.table_scale --write
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks._planted_tables import PlantedTables
from benchmarks._results import add_write, begin_table, finish, row
from benchmarks.dp_scale import Clock
from skmanifold import DPMixture
from skmanifold.emissions import Columns

TABLE = PlantedTables(10, 10, 10, 5, 5, n_categories=5)


def peak():
    """Peak memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(n_samples, n_jobs, max_iter):
    """Seconds of the passes of a fit, without the first half, and of the whole fit; components; memory."""
    small = TABLE.frame(TABLE.sample(2000, missing=0.2)[0])
    DPMixture(Columns(count_columns=TABLE.count_columns), max_iter=4, random_state=0).fit(small)
    X, labels = TABLE.sample(n_samples, missing=0.2)
    X = TABLE.frame(X)
    before, clock = peak(), Clock()
    settings = {"max_iter": max_iter, "thin": 2, "n_jobs": n_jobs, "random_state": 0}
    mixture = DPMixture(Columns(count_columns=TABLE.count_columns), **settings).set_callbacks(clock)
    start = time.perf_counter()
    mixture.fit(X)
    stop = time.perf_counter()
    return {
        "whole": stop - start,
        "first": clock.times[0] - start,
        "last": stop - clock.times[-2],
        "passes": np.diff(clock.times[:-1])[max_iter // 2 :].tolist(),
        "components": len(mixture.component_clusters_),
        "agreement": adjusted_rand_score(labels, mixture.labels_),
        "data": float(X.memory_usage(index=False).sum() / 2**30),
        "before": before,
        "memory": peak(),
    }


def measure_alone(options, size, n_jobs):
    """`measure` in a new process."""
    command = [sys.executable, "-m", "benchmarks.table_scale", "--alone", "--max-iter", str(options.max_iter)]
    command += ["--sizes", str(size), "--n-jobs", str(n_jobs)]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
    print(size, n_jobs, found, file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--n-jobs", type=int, nargs="+", default=[1])
    parser.add_argument("--max-iter", type=int, default=20)
    parser.add_argument("--alone", action="store_true", help="measure the first size in this process")
    add_write(parser)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(options.sizes[0], options.n_jobs[0], options.max_iter)))
        sys.exit()
    times = "seconds per pass", "start, seconds", "whole fit, seconds"
    memory = "data frame, GiB", "peak memory, GiB"
    begin_table(("rows", "n_jobs", *times, "components", "adjusted Rand index", *memory))
    for size in options.sizes:
        for n_jobs in options.n_jobs:
            run = measure_alone(options, size, n_jobs)
            passes = run["passes"]
            of_passes = f"{np.median(passes):.2f} ({min(passes):.2f} to {max(passes):.2f})"
            cells = of_passes, f"{run['first']:.1f}", f"{run['whole']:.1f}", run["components"]
            row((f"{size:,}", n_jobs, *cells, f"{run['agreement']:.3f}", f"{run['data']:.2f}", f"{run['memory']:.2f}"))
    notes = (
        f"Medians (ranges) of passes, {options.max_iter} in all; wall times. The start ends with the first pass: it "
        "includes reading, the learned priors and the initial clusters. The peak memory of the process includes the "
        "data and their generator."
    )
    finish(options, notes=notes)
