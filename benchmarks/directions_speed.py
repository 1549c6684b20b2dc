"""Rows per second and memory of clustering dense directions: 50,000 and 1,000,000 rows of 384 columns, K = 100.

Float32 rows around 100 directions, in memory and mapped from a file. Passes are differences between fits of ten passes
and of one; the start is the rest. scikit-learn's KMeans (Lloyd, one initialisation at rows) and MiniBatchKMeans run in
one thread, of which the processor time is measured, since other processes change it less. Memory is that of the process
beyond the rows, without pages of mapped files; each fit has its own process.

    python -m benchmarks.directions_speed --write
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

from benchmarks._results import add_write, begin_table, finish, row
from skmanifold import VonMisesFisherMixture

N_FEATURES, K, REPEATS, N_PASSES = 384, 100, 3, 9
NOISE = 6.0  # so large that no method converges within ten passes
TIMES = "processor time of one thread, wall time of two, BLAS in one thread"
LEFT_OUT = "Fits of ten passes that took less time than one pass are left out."
METHODS = {
    "soft": {"assignment": "soft"},
    "hard": {"assignment": "hard"},
    "KMeans": {},
    "MiniBatchKMeans": {},
}


def store(path, n_rows):
    """Write rows around K directions to a file, by blocks."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((K, N_FEATURES), np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, N_FEATURES))
    for start in range(0, n_rows, 10_000):
        block = X[start : start + 10_000]
        block[...] = centres[rng.integers(K, size=len(block))]
        block += NOISE * rng.standard_normal(block.shape, np.float32)
    X.flush()


def private_memory():
    """Private memory of this process, MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) / 1024


class Peak:
    """The highest private memory while the context is open, beyond that at its start."""

    def __enter__(self):
        self.before, self.most, self.done = private_memory(), 0.0, False
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        while not self.done:
            self.most = max(self.most, private_memory() - self.before)
            time.sleep(0.01)

    def __exit__(self, *exc_info):
        self.done = True
        self.thread.join()


def seconds(fit, X, clock):
    start = clock()
    fit(X)
    return clock() - start


def measure(path, method, is_mapped, n_jobs):
    """Seconds of a pass, of the start, and memory."""
    warnings.simplefilter("ignore")
    X = np.load(path, mmap_mode="r" if is_mapped else None)

    def fit_of(max_iter):
        if method == "KMeans":
            settings = {"n_init": 1, "algorithm": "lloyd", "tol": 0.0, "init": "random", "random_state": 0}
            return KMeans(K, max_iter=max_iter, **settings).fit
        if method == "MiniBatchKMeans":
            settings = {"n_init": 1, "batch_size": 4096, "max_no_improvement": None, "random_state": 0}
            return MiniBatchKMeans(K, max_iter=max_iter, **settings).fit
        settings = {**METHODS[method], "tol": 0.0, "n_jobs": n_jobs, "random_state": 0}
        return VonMisesFisherMixture(K, max_iter=max_iter, **settings).fit

    fit_of(2)(np.array(X[:3000]))  # compile the kernels
    clock = time.process_time if n_jobs == 1 else time.perf_counter
    with threadpool_limits(1), Peak() as peak:
        fit_of(1)(X)  # the first fit obtains memory
        one, more = seconds(fit_of(1), X, clock), seconds(fit_of(1 + N_PASSES), X, clock)
    of_pass = (more - one) / N_PASSES
    return {"pass": of_pass, "start": one - of_pass, "memory": peak.most}


def measure_alone(*arguments):
    command = [sys.executable, "-m", "benchmarks.directions_speed", "--alone", *map(str, arguments)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 1_000_000])
    parser.add_argument("--alone", nargs=4, help="measure one fit in this process: file, method, mapped, n_jobs")
    add_write(parser)
    options = parser.parse_args()
    if options.alone:
        path, method, is_mapped, n_jobs = options.alone
        print(json.dumps(measure(path, method, is_mapped == "True", int(n_jobs))))
        sys.exit()
    begin_table(
        (
            "rows",
            "method",
            "X",
            "n_jobs",
            "thousand rows per second",
            "times KMeans",
            "start, in passes",
            "memory beyond X, MiB",
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            path = Path(folder) / f"{size}.npy"
            store(path, size)
            results = {
                (method, is_mapped, n_jobs): []
                for method in METHODS
                for is_mapped, n_jobs in ((False, 1), (False, 2), (True, 1))
                if method in ("soft", "hard") or (is_mapped, n_jobs) == (False, 1)
            }
            for key in list(results) * REPEATS:  # in turn, since other processes may change the speed
                results[key].append(measure_alone(path, *key))
            passes = {key: np.array([each["pass"] for each in found]) for key, found in results.items()}
            for (method, is_mapped, n_jobs), found in results.items():
                own = passes[method, is_mapped, n_jobs]
                ratio = np.median(passes["KMeans", False, 1] / own)
                speeds = size / own[own > 0.0] / 1000
                speed = f"{np.median(speeds):.0f} ({min(speeds):.0f} to {max(speeds):.0f})"
                start = np.median([each["start"] / each["pass"] for each in found])
                name = f"VonMisesFisherMixture, {method}" if method in ("soft", "hard") else method
                where, memory = "mapped" if is_mapped else "in memory", max(each["memory"] for each in found)
                row((f"{size:,}", name, where, n_jobs, speed, f"{ratio:.2f}", f"{start:.1f}", f"{memory:.0f}"))
            path.unlink()
    finish(options, notes=f"Medians (ranges) of {REPEATS} fits; {TIMES}. {LEFT_OUT}")
