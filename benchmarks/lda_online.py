"""Held-out perplexity against documents seen and against seconds, for the minibatch samplers on a stream.

Each method reads random minibatches of 50 documents through ``partial_fit``, with the priors and step sizes of the
papers: SCIR and SGRLD those of table 2 of Baker et al. (2018), SGRHMC, SGLD and SGHMC those of section F.2 of Ma et al.
(2015). SCIR with a step size that decreases faster and SGRLD with the priors of SCIR are added, and Gibbs and ESCA,
which pass over all documents. After fixed numbers of documents the perplexity is computed from the predictive
probability of held-out halves of documents, averaged over five draws of the second half of the stream. The time of
evaluations does not count. Results are appended to a CSV file, one line per evaluation.

    python -m benchmarks.lda_online --corpus wiki --n-components 100 --seeds 0 1 2 3 4 --out benchmarks/lda_online.csv
    python -m benchmarks.lda_online --draw --write

The second command draws the figure and prints the tables.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks._corpora import load_counts, split_documents
from benchmarks._results import add_write, finish, show, title
from benchmarks._runs import STYLE, line_style
from skmanifold import StochasticLDA
from skmanifold.samplers import ESCA, SCIR, SGHMC, SGLD, SGRHMC, SGRLD, Gibbs, PolynomialDecay

BATCH = 50
SEEN = (500, 1000, 2500, 5000, 10_000, 25_000, 50_000)
STREAMS = {  # sampler, prior of the proportions, prior of the topics
    "scir": (SCIR(PolynomialDecay(0.5, 10.0, 0.33)), 0.1, 0.5),
    "scir, exponent .6": (SCIR(PolynomialDecay(0.5, 10.0, 0.6)), 0.1, 0.5),
    "sgrld": (SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)), 0.01, 1e-4),
    "sgrhmc": (SGRHMC(0.02), 0.01, 1e-4),
    "sgld": (SGLD(0.01), 0.1, 0.01),
    "sghmc": (SGHMC(0.1, scheme="euler"), 0.1, 0.01),
    "sgrld, priors of scir": (SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)), 0.1, 0.5),
}
PASSES = {"gibbs": (Gibbs(), 0.1, 0.5), "esca": (ESCA(), 0.1, 0.5)}
FIELDS = ("corpus", "n_components", "method", "seed", "documents", "seconds", "perplexity")


def perplexity(lda, X_test):
    """As `StochasticLDA.perplexity`; infinite if draws are no longer finite."""
    try:
        return lda.perplexity(X_test)
    except ValueError:
        return np.inf


def run_stream(method, X, X_test, n_components, n_seen, n_local_sweeps, seed):
    """Documents, seconds and perplexity after some documents; `method` is a sampler with its two priors."""
    sampler, alpha, beta = method
    lda = StochasticLDA(
        n_components,
        sampler=sampler,
        doc_topic_prior=alpha,
        topic_word_prior=beta,
        total_samples=X.shape[0],
        n_local_sweeps=n_local_sweeps,
        n_local_burn_in=n_local_sweeps // 2,
        n_predictive_draws=5,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    seconds = 0.0
    for t in range(1, n_seen // BATCH + 1):
        batch = X[rng.choice(X.shape[0], BATCH, replace=False)]
        start = time.perf_counter()
        try:
            lda.partial_fit(batch)
        except FloatingPointError as error:
            print(f"{sampler} seed {seed}: {error}", flush=True)
            yield t * BATCH, seconds, np.inf
            return
        seconds += time.perf_counter() - start
        if t * BATCH in SEEN:
            yield t * BATCH, seconds, perplexity(lda, X_test)


def run_passes(method, X, X_test, n_components, n_seen, n_local_sweeps, seed):
    sampler, alpha, beta = method
    for n_passes in (5, 20, 80):
        start = time.perf_counter()
        lda = StochasticLDA(
            n_components,
            sampler=sampler,
            doc_topic_prior=alpha,
            topic_word_prior=beta,
            max_iter=n_passes,
            thin=max(1, n_passes // 10),
            n_predictive_draws=5,
            random_state=seed,
        ).fit(X)
        seconds = time.perf_counter() - start
        yield n_passes * X.shape[0], seconds, perplexity(lda, X_test)


def measure(options):
    train, test = split_documents(load_counts(options.corpus))
    test = test[: options.n_test]
    for name in options.methods:  # load the machine code
        if name in STREAMS:
            next(run_stream(STREAMS[name], train[:100], test[:5], 5, 500, 2, 0), None)
    with Path(options.out).open("a", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(FIELDS)
        for n_components in options.n_components:
            for seed in options.seeds:
                for name in options.methods:
                    run = run_passes if name in PASSES else run_stream
                    settings = (train, test, n_components, options.n_seen, options.n_local_sweeps, seed)
                    for documents, seconds, value in run({**STREAMS, **PASSES}[name], *settings):
                        row = (options.corpus, n_components, name, seed, documents, round(seconds, 2), round(value, 1))
                        print(*row, flush=True)
                        writer.writerow(row)
                        file.flush()


def load(path):
    """Rows by corpus and number of topics, then by method: arrays (seed, documents, seconds, perplexity)."""
    groups = {}
    with Path(path).open(newline="") as file:
        for row in csv.DictReader(file):
            group = groups.setdefault((row["corpus"], int(row["n_components"])), {})
            values = [float(row[field]) for field in FIELDS[3:]]
            group.setdefault(row["method"], []).append(values)
    return {group: {name: np.array(rows) for name, rows in methods.items()} for group, methods in groups.items()}


def print_tables(groups):
    for (corpus, n_components), methods in groups.items():
        title(f"{corpus}, K={n_components}")
        show("| method | " + " | ".join(f"{n:,} documents" for n in SEEN) + " | seconds |")
        show("|---|" + "---|" * (len(SEEN) + 1))
        for name, rows in methods.items():
            cells = []
            for n in SEEN:
                values = rows[rows[:, 1] == n, 3]
                if len(values):
                    cells.append(f"{np.median(values):.0f} ({values.min():.0f} to {values.max():.0f})")
                else:
                    cells.append("")
            last = rows[rows[:, 1] == rows[:, 1].max()]
            if name in PASSES:
                cells[-1] = f"{rows[:, 1].max():,.0f} documents: {np.median(last[:, 3]):.0f}"
            show(f"| {name} | " + " | ".join(cells) + f" | {np.median(last[:, 2]):.0f} |")


def draw(groups, path):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    plt.style.use(STYLE)
    figure, axes = plt.subplots(2, len(groups), figsize=(4.6 * len(groups), 8), squeeze=False, sharey="col")
    for column, ((corpus, n_components), methods) in enumerate(groups.items()):
        for name in (name for name in (*STREAMS, *PASSES) if name in methods):
            rows, number = methods[name], [*STREAMS, *PASSES].index(name)
            style = line_style(number)
            for row, (field, label) in enumerate(((1, "documents seen"), (2, "seconds"))):
                axis = axes[row, column]
                documents = np.unique(rows[:, 1])
                at = [rows[rows[:, 1] == n] for n in documents]
                x = [np.median(a[:, field]) for a in at]
                middle = np.array([np.median(a[:, 3]) for a in at])
                axis.plot(x, middle, label=name, **style)
                low, high = [a[:, 3].min() for a in at], [a[:, 3].max() for a in at]
                axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
                axis.set(xscale="log", yscale="log", xlabel=label)
                axis.yaxis.set_major_formatter(ScalarFormatter())
                axis.yaxis.set_minor_formatter(ScalarFormatter())
        axes[0, column].set_title(f"{corpus}, {n_components} topics")
        worst = max(rows[rows[:, 3] < np.inf, 3].max() for rows in methods.values())
        best = min(rows[:, 3].min() for rows in methods.values())
        axes[0, column].set_ylim(0.95 * best, min(worst, 5 * best))
    axes[0, 0].set_ylabel("held-out perplexity")
    axes[1, 0].set_ylabel("held-out perplexity")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".* does not draw from the posterior", category=UserWarning)
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--methods", nargs="+", default=[*STREAMS, *PASSES])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--n-seen", type=int, default=50_000)
    parser.add_argument("--n-test", type=int, default=300)
    parser.add_argument("--n-local-sweeps", type=int, default=50)
    parser.add_argument("--out", default="benchmarks/lda_online.csv")
    parser.add_argument("--draw", action="store_true", help="draw the figure and print the tables of --out")
    add_write(parser)
    options = parser.parse_args()
    if options.draw:
        results = load(options.out)
        print_tables(results)
        draw(results, Path(options.out).with_suffix(".png"))
        finish(options, notes="Perplexity: median (range) over seeds, after a number of documents; median seconds.")
    else:
        measure(options)
