"""Held-out scores of mixtures of exponential families by sampler, scikit-learn and StepMix; and seconds per pass.

Random 80/20 splits, each with its own seed; all methods have the same number of components and of initialisations, and
otherwise default settings. Gaussian rows are the digits of scikit-learn (20 principal components of the training rows)
and breast cancer (scaled); rows of zeros and ones are the dark pixels of digits and the categories of mushrooms, one
column each. Scores are normalised log densities in nats per row. `--speed` measures the time of passes instead: the
difference between a long and a short fit from random labels, divided by the difference in the number of passes.

    python -m benchmarks.families_held_out
    python -m benchmarks.families_held_out --speed
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, finish, show
from skmanifold import ExponentialFamilyMixture
from skmanifold.emissions import Gaussian
from skmanifold.samplers import EM, ESCA, Gibbs

SIZES = {"digits": (10, 20), "breast": (1, 2, 4), "pixels": (10, 40), "mushroom": (10, 20)}
KINDS = {"digits": ("full", "diag"), "breast": ("full", "diag"), "pixels": ("bernoulli",), "mushroom": ("bernoulli",)}


def load(name):
    """Rows, and the transformer that is fitted to the training rows first."""
    if name == "breast":
        return load_breast_cancer().data, StandardScaler()
    if name == "digits":
        return load_digits().data, PCA(20, random_state=0)
    if name == "pixels":
        return (load_digits().data >= 8).astype(float), None
    with gzip.open(data_folder() / "mushroom.csv.gz", "rt") as lines:
        cells = np.array([line.rstrip("\n").split(",")[:-1] for line in lines][1:])
    return OneHotEncoder(sparse_output=False).fit_transform(cells), None  # an empty cell is a category too


def split(X, transformer, seed):
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = (X[rows] for rows in np.split(order, [int(0.8 * len(X))]))
    if transformer is not None:
        train, test = transformer.fit(train).transform(train), transformer.transform(test)
    return train, test


def ours(kind, sampler, **settings):
    emission = kind if kind == "bernoulli" else Gaussian(kind)
    return ExponentialFamilyMixture(emission=emission, sampler=sampler, **settings)


def latent_classes(**settings):
    from stepmix import StepMix

    return StepMix(measurement="binary", verbose=0, progress_bar=0, **settings)


def methods(kind, n_starts):
    """Estimators by name, but for the number of components and the seed."""
    found = {f'"{name}"': ours(kind, name, n_chains=n_starts) for name in ("esca", "em", "gibbs")}
    if kind == "bernoulli":
        return {**found, "StepMix": latent_classes(n_init=n_starts)}
    peers = {"GaussianMixture": GaussianMixture, "BayesianGaussianMixture": BayesianGaussianMixture}
    return {**found, **{name: peer(covariance_type=kind, n_init=n_starts) for name, peer in peers.items()}}


def spread(values, digits=2):
    return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def measure_scores(tables, seeds, n_starts):
    columns = "held-out log density, nats per row", "difference to the other library", "fit, seconds"
    columns = "rows", "family", "K", "method", *columns
    show(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for table in tables:
        X, transformer = load(table)
        splits = [split(X, transformer, seed) for seed in seeds]
        for kind in KINDS[table]:
            peer = "StepMix" if kind == "bernoulli" else "GaussianMixture"
            for n_components in SIZES[table]:
                scores, seconds = {}, {}
                for name, estimator in methods(kind, n_starts).items():
                    estimator.set_params(n_components=n_components)
                    scores[name], seconds[name] = np.empty((2, len(seeds)))
                    for i, (seed, (train, test)) in enumerate(zip(seeds, splits, strict=True)):
                        start = time.perf_counter()
                        estimator.set_params(random_state=seed).fit(train)
                        seconds[name][i] = time.perf_counter() - start
                        scores[name][i] = estimator.score(test)
                for name, found in scores.items():
                    difference = "" if name == peer else spread(found - scores[peer])
                    cells = table, kind, n_components, name, spread(found), difference
                    cells = *cells, f"{np.median(seconds[name]):.2f}"
                    show(f"| {' | '.join(map(str, cells))} |")


def seconds_a_pass(make, X, n_passes):
    """Wall and processor time, from two fits, one of them `n_passes` passes longer."""
    times = np.empty((2, 2))
    for i, max_iter in enumerate((2, 2 + n_passes)):
        times[i] = time.perf_counter(), time.process_time()
        make(max_iter=max_iter, random_state=0).fit(X)
        times[i] = (time.perf_counter(), time.process_time()) - times[i]
    return (times[1] - times[0]) / n_passes


def measure_speed(n_passes, n_rounds):
    rng = np.random.default_rng(0)
    means, rates = rng.normal(0.0, 4.0, (20, 10)), rng.random((10, 100))
    real = means[rng.integers(0, 20, 100_000)] + rng.normal(size=(100_000, 10))
    events = (rng.random((50_000, 100)) < rates[rng.integers(0, 10, 50_000)]).astype(float)
    cases = {
        "Gaussian, full, n=100,000, d=10, K=20": (real, "full", 20),
        "Bernoulli, n=50,000, m=100, K=10": (events, "bernoulli", 10),
    }
    show("| rows | method | cores | seconds per pass | seconds of processor time |\n|---|---|---|---|---|")
    for name, (X, kind, n_components) in cases.items():
        runs = {}
        for name_of, sampler in {"esca": ESCA(), "em": EM(tol=0), "gibbs": Gibbs()}.items():
            for n_jobs in (1, 2):
                make = partial(ours, kind, sampler, n_components=n_components, init="random", n_jobs=n_jobs)
                make(max_iter=2).fit(X[:3000])
                runs[f'"{name_of}"', n_jobs] = make
        for n_cores in (1, 2):  # for linear algebra
            if kind == "bernoulli":
                runs["StepMix", n_cores] = partial(latent_classes, n_components=n_components, abs_tol=0, rel_tol=0)
            else:
                settings = {"tol": 0.0, "init_params": "random_from_data"}
                runs["GaussianMixture", n_cores] = partial(GaussianMixture, n_components, **settings)
        found = {run: [] for run in runs}
        for _ in range(n_rounds):  # alternately: the load of the machine varies
            for (method, n_cores), make in runs.items():
                with threadpool_limits(n_cores):
                    found[method, n_cores].append(seconds_a_pass(make, X, n_passes))
        for (method, n_cores), seconds in found.items():
            clock, processor = (spread(values, 3) for values in np.transpose(seconds))
            show(f"| {name} | {method} | {n_cores} | {clock} | {processor} |")


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)  # of methods that reach the largest number of iterations
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--n-starts", type=int, default=3)
    parser.add_argument("--speed", action="store_true", help="measure seconds per pass instead of scores")
    parser.add_argument("--passes", type=int, default=10, help="passes of --speed")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of --speed")
    add_write(parser)
    options = parser.parse_args()
    if options.speed:
        measure_speed(options.passes, options.rounds)
    else:
        with threadpool_limits(1):
            measure_scores(options.tables, options.seeds, options.n_starts)
    finish(options, "stepmix", part="_speed" if options.speed else "", notes="Medians (ranges).")
