"""Held-out log predictive density of mixtures of web visitors against iterations and seconds, by sampler.

Anonymous MSWeb: 32,711 training and 5,000 test users; scores in nats per user, without multinomial coefficients. The
exact slice sampler by full passes and by minibatches, from 100 random clusters and from one; the stochastic slice
sampler with SCIR and SGRLD and the settings of table 3 of Baker et al. (2018); and a plain collapsed Gibbs sampler.
After fixed times, which exclude scoring, the score is that of the posterior predictive density, averaged over up to 20
evenly spaced draws of the second half of the run so far, as `score` would give it. One core. Results are appended to a
CSV file.

    python -m benchmarks.dp_msweb --seeds 0 1 2 3 4 --out benchmarks/dp_msweb.csv
    python -m benchmarks.dp_msweb --draw --write

The second command draws the figure and prints the table.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks._collapsed_dp import CollapsedDP
from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row
from benchmarks._runs import STYLE, at_time, line_style, of_each_seed, read_runs
from skmanifold.emissions._categorical import CategoricalFamily
from skmanifold.emissions._codes import Table
from skmanifold.emissions._statistics import occupied
from skmanifold.mixture._dirichlet_process.model import DPModel
from skmanifold.mixture._dirichlet_process.stochastic_slice import StochasticSlice
from skmanifold.mixture._memberships import partition_draw
from skmanifold.mixture._scores import log_predictive
from skmanifold.random._keys import root_key
from skmanifold.samplers import SCIR, SGRLD, Slice
from skmanifold.utils._threads import Workers

TARGET = -11.30
TIMES = (0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0)
METHODS = {  # sampler, initial clusters, minibatch, prior of the categories
    "slice, all rows": (lambda: Slice(5), 100, None, 0.5),
    "slice, minibatch 4000": (lambda: Slice(5), 100, 4000, 0.5),
    "slice, minibatch 1000": (lambda: Slice(5), 100, 1000, 0.5),
    "textbook slice, all rows": (lambda: Slice(0, 0, redraw_order=False), 100, None, 0.5),
    "slice from one cluster": (lambda: Slice(5), 1, 4000, 0.5),
    "slice from one cluster, no split-merge": (lambda: Slice(0), 1, 4000, 0.5),
    "scir, table 3": (lambda: StochasticSlice(SCIR(0.1), SCIR(0.1)), 20, 1000, 0.5),
    "sgrld, table 3": (lambda: StochasticSlice(SGRLD(0.001), SGRLD(0.005)), 30, 1000, 0.001),
    "scir, stored counts": (
        lambda: StochasticSlice(SCIR(0.5, control_variate="stored"), SCIR(0.5, control_variate="stored")),
        100,
        1000,
        0.5,
    ),
    "collapsed Gibbs": (None, 100, None, 0.5),
    "collapsed Gibbs from one cluster": (None, 1, None, 0.5),
}
FIELDS = ("method", "seed", "seconds", "iterations", "score", "n_components", "log_joint")


class Sampled:
    """Steps of a sampler of skmanifold."""

    def __init__(self, make, table, n_clusters, batch_size, prior, seed, concentration=None):
        self.mover = make()
        settings = {"init": n_clusters, "batch_size": batch_size, "workers": Workers(1)}
        self.model = DPModel(clusters_of(table, prior), concentration, (1.0, 1.0), **settings)
        self.state = self.mover.init(self.model, root_key(seed))
        self.n_steps = -(-table.n_rows // (batch_size or table.n_rows))

    def step(self):
        self.state = self.mover.step(self.model, self.state)

    def draw(self):
        if isinstance(self.mover, Slice):
            return partition_draw(self.state.statistics, self.state.position)
        return self.mover.parameters(self.model, self.state)

    def size(self):
        return len(occupied(self.state.statistics)), self.state.log_density


class Collapsed:
    """Steps of the collapsed sampler."""

    n_steps = 1

    def __init__(self, table, n_clusters, prior, seed):
        self.chain = CollapsedDP(table, prior, n_clusters, seed)
        self.step, self.draw = self.chain.step, self.chain.draw

    def size(self):
        return np.count_nonzero(self.chain.sizes), np.nan


def clusters_of(table, prior):
    return CategoricalFamily(prior, table.column_start, 1).clusters(table)


def begin(method, table, seed):
    make, n_clusters, batch_size, prior = method
    if make is None:
        return Collapsed(table, n_clusters, prior, seed), prior
    return Sampled(make, table, n_clusters, batch_size, prior, seed), prior


def load(name, rows=None):
    X = sp.csr_array(sp.load_npz(data_folder() / name))
    if rows is not None:
        X = X[rows]
    columns = np.array([0, X.shape[1]])
    return Table.of(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.int32), columns)


def run(method, train, test, seed, marks, by="seconds"):
    """(seconds, iterations, score, components, log joint) at each of the marks: seconds or numbers of passes."""
    chain, prior = begin(method, train, seed)
    yield from scores_of(chain, clusters_of(test, prior), marks, by)


def scores_of(chain, new_rows, marks, by):
    draws, spent, passes = [], 0.0, 0
    with Workers(1) as workers:
        while marks:
            start = time.perf_counter()
            chain.step()
            draw = chain.draw()
            spent += time.perf_counter() - start
            passes += 1
            draws.append(draw)
            now = spent if by == "seconds" else passes
            if now >= marks[0]:
                marks = [mark for mark in marks if mark > now]
                half = draws[len(draws) // 2 :]
                kept = [half[i] for i in np.unique(np.linspace(0, len(half) - 1, 20).astype(int))]
                score = log_predictive(new_rows, kept, workers).mean()
                yield spent, passes * chain.n_steps, score, *chain.size()
                draws = [*([None] * (len(draws) // 2)), *half]  # free draws that are not needed again


def measure(options):
    train, test = load("msweb_train.npz"), load("msweb_test.npz")
    for name in options.methods:  # load the machine code
        next(run(METHODS[name], train, test, 99, [0.25]))
    marks = [at for at in TIMES if at <= options.seconds]
    with Path(options.out).open("a", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(FIELDS)
        for seed in options.seeds:
            for name in options.methods:
                for spent, iterations, score, size, log_joint in run(METHODS[name], train, test, seed, marks):
                    line = (name, seed, round(spent, 3), iterations, round(score, 4), size, round(float(log_joint), 1))
                    writer.writerow(line)
                    file.flush()
                print(*line, flush=True)


def first_time(rows, target):
    """Seconds of each seed to the first score of at least `target`; infinite if there is none."""
    return np.array([min(own[own[:, 3] >= target, 1], default=np.inf) for own in of_each_seed(rows)])


def print_tables(methods):
    shown = (0.5, 1.0, 2.0, 5.0, 10.0, 15.0)
    last = "components", f"seconds to {TARGET:.2f}", "iterations per second"
    begin_table(("method", *(f"{at:g} s" for at in shown), *last))
    for name, rows in methods.items():
        cells = []
        for at in shown:
            scores = at_time(rows, at)[:, 3]
            cells.append(f"{np.median(scores):.3f} ({scores.min():.3f} to {scores.max():.3f})" if len(scores) else "")
        last = rows[rows[:, 1] >= rows[:, 1].max() * 0.9]
        reached = first_time(rows, TARGET)
        when = f"{np.median(reached):.2g} ({reached.min():.2g} to {reached.max():.2g})".replace("inf", "never")
        rate = np.median(last[:, 2] / last[:, 1])
        row((name, *cells, f"{np.median(last[:, 4]):.0f}", when, f"{rate:.0f}"))


def draw(methods, path):
    import matplotlib.pyplot as plt

    plt.style.use(STYLE)
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), sharey=True)
    for number, (name, rows) in enumerate(methods.items()):
        style = line_style(number)
        for axis, column in zip(axes, (2, 1), strict=True):
            points = [at_time(rows, at) for at in TIMES if len(at_time(rows, at))]
            x = [np.median(p[:, column]) for p in points]
            axis.plot(x, [np.median(p[:, 3]) for p in points], label=name, **style)
            low, high = [p[:, 3].min() for p in points], [p[:, 3].max() for p in points]
            axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    for axis, label in zip(axes, ("iterations (minibatches)", "seconds on one core"), strict=True):
        axis.axhline(TARGET, color="0.6", linewidth=0.8)
        axis.set(xscale="log", xlabel=label, ylim=(-11.95, -11.27))
    axes[0].set_ylabel("held-out log predictive density, nats per user")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--out", default="benchmarks/dp_msweb.csv")
    parser.add_argument("--draw", action="store_true", help="draw the figure and print the table of --out")
    add_write(parser)
    options = parser.parse_args()
    if options.draw:
        results = read_runs(options.out, FIELDS, METHODS)
        print_tables(results)
        draw(results, Path(options.out).with_suffix(".png"))
        finish(options, notes="Nats per held-out user: medians (ranges) over seeds, by seconds on one core.")
    else:
        measure(options)
