"""A line and a plane in three dimensions: accuracy compared with the best possible rule, as noise grows.

Data sets of `make_subspaces`, 500 + 500 training and 50 + 50 test rows, at noise precisions from 10 down to 0.2. The
oracle knows the distribution of the rows. `SubspaceMixture` with both samplers is compared with two rules that classify
by its subspaces: the smallest squared residual e, and the smallest e + d, where d is the dimension (St. Thomas et al.,
2014); with k-means; and with Gaussian mixtures with full covariances. Clusters are matched to components by the
training rows. One core.

    python -m benchmarks.subspaces_lines_planes --data-sets 40 --csv lines_planes.csv
"""

from __future__ import annotations

import argparse
import csv
import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks._partitions import match
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.samplers import ConwayWalk, FrameGibbs

N_FITTED, N_HELD_OUT = 500, 50  # of each component


def draw(seed, noise_precision):
    """The mixture; training and test rows with their components."""
    size = N_FITTED + N_HELD_OUT
    mixture = make_subspaces([size, size], 3, (1, 2), noise_precision=noise_precision, shuffle=False, random_state=seed)
    held_out = np.arange(2 * size) % size >= N_FITTED
    fitted = mixture.data[~held_out], mixture.labels[~held_out]
    return mixture, *fitted, mixture.data[held_out], mixture.labels[held_out]


def accuracies(seed, noise_precision, options):
    """Held-out accuracy of each method; dimensions and seconds of `SubspaceMixture`."""
    mixture, X, y, held_out, truth = draw(seed, noise_precision)
    found = {"oracle": np.mean(mixture.log_densities(held_out).argmax(axis=1) == truth)}

    def judge(name, on_fitted, on_held_out):
        found[name] = np.mean(match(on_fitted, y)[on_held_out] == truth)

    settings = {"max_iter": options.max_iter, "n_init": options.n_init, "random_state": seed}
    dimensions, seconds = {}, {}
    for name, sampler in {"gibbs": FrameGibbs(n_pilot=options.n_pilot), "conway": ConwayWalk()}.items():
        start = time.perf_counter()
        ours = SubspaceMixture(2, sampler=sampler, **settings).fit(X)
        seconds[name] = time.perf_counter() - start
        dimensions[name] = "".join(map(str, sorted(ours.dimensions_)))
        judge(name, ours.labels_, ours.predict(held_out))
        for rule, penalty in {"e": 0, "e + d": ours.dimensions_}.items():
            if name == "gibbs":
                judge(rule, *((ours.transform(rows) ** 2 + penalty).argmin(axis=1) for rows in (X, held_out)))
    for name, peer in {
        "k-means": KMeans(2, n_init=10, random_state=seed),
        "Gaussian mixture": GaussianMixture(2, n_init=5, random_state=seed),
    }.items():
        peer.fit(X)
        judge(name, peer.predict(X), peer.predict(held_out))
    return found, dimensions, seconds


def spread(values):
    return f"{np.median(values):.3f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noise-precisions", type=float, nargs="+", default=[10, 2, 1, 0.5, 0.2])
    parser.add_argument("--data-sets", type=int, default=10)
    parser.add_argument("--max-iter", type=int, default=SubspaceMixture().max_iter)
    parser.add_argument("--n-init", type=int, default=SubspaceMixture().n_init)
    parser.add_argument("--n-pilot", type=int, default=FrameGibbs().n_pilot)
    parser.add_argument("--csv", help="file for the figures of each data set")
    add_write(parser)
    options = parser.parse_args()
    rows = []
    with threadpool_limits(1):
        accuracies(0, 10, argparse.Namespace(max_iter=4, n_init=2, n_pilot=2))  # compiles
        for nu in options.noise_precisions:
            title(f"Noise precision {nu:g}")
            gap_of = "below the oracle, mean ± standard error", "dimensions 1 and 2 found"
            begin_table(("method", "accuracy, median (range)", *gap_of, "fit, seconds"))
            runs = [accuracies(seed, nu, options) for seed in range(options.data_sets)]
            oracle = np.array([found["oracle"] for found, _, _ in runs])
            for name in runs[0][0]:
                values = np.array([found[name] for found, _, _ in runs])
                gap = oracle - values
                below, right, fit = "", "", ""
                if name != "oracle":
                    below = f"{gap.mean():.3f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.3f}"
                if name in runs[0][1]:
                    right = f"{sum(dimensions[name] == '12' for _, dimensions, _ in runs)} of {len(runs)}"
                    fit = spread([seconds[name] for *_, seconds in runs])
                row((name, spread(values), below, right, fit))
                for seed, (_, dimensions, seconds) in enumerate(runs):
                    rows.append((nu, name, seed, values[seed], dimensions.get(name, ""), seconds.get(name, "")))
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("noise_precision", "method", "data_set", "accuracy", "dimensions", "seconds"))
            writer.writerows(rows)
    finish(options, notes=f"{options.data_sets} data sets.")
