"""Held-out log perplexity of spherical admixtures against seconds, by sampler.

20News-different with the tf-idf of the authors (1,666 training and 1,107 test documents, V=5,000), K=20, or Wikipedia
or 16,000 abstracts of NSF as tf-idf (3,000 words of medium document frequency, 1,000 test documents), K=50, at the
concentrations of Liu et al. (2016), figure 5. After fixed times, which exclude scoring, the score is that of up to 10
evenly spaced draws of the second half of the run so far, averaged document by document, as `score` would give it;
variational methods have one estimate. It is the negative mean log density per document with respect to surface area,
by importance sampling. With ``--biased`` the estimator of the paper (1,000 draws from the prior) is applied to the
last topics of a run. One core. Results are appended to a CSV file.

    python -m benchmarks.sam_perplexity --data news --seeds 0 1 2 3 4
    python -m benchmarks.sam_perplexity --data news --draw --write

The second command draws the figure and prints the table.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row
from benchmarks._runs import STYLE, at_time, line_style, of_each_seed, read_runs
from skmanifold.admixture._spherical.estimator import SphericalAdmixture
from skmanifold.admixture._spherical.fit_strategies import fit_strategy, is_variational
from skmanifold.base import Run, Schedule
from skmanifold.metrics._spherical_held_out import integrate_documents, spherical_document_likelihood
from skmanifold.random._keys import root_key
from skmanifold.samplers import GMC, GSGNHT, SGGMC, SVRG, BlockwiseGMC, MeanField, StochasticMeanField
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

TIMES = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
SETTINGS = SphericalAdmixture._settings
MINIBATCH = "minibatch"
METHODS = {  # sampler, and the size of its minibatches: that of the paper, None for all documents
    "gsgnht": (lambda: GSGNHT(**SETTINGS["gsgnht"]), MINIBATCH),
    "sggmc": (lambda: SGGMC(**SETTINGS["sggmc"]), MINIBATCH),
    "gsgnht, SVRG": (lambda: GSGNHT(**{**SETTINGS["gsgnht"], "control_variate": SVRG(50)}), MINIBATCH),
    "gsgnht, all documents": (lambda: GSGNHT(**SETTINGS["gsgnht"]), None),
    "gmc": (lambda: GMC(**SETTINGS["gmc"]), None),
    "gmc_gibbs": (lambda: BlockwiseGMC(**SETTINGS["gmc_gibbs"]), None),
    "vb": (MeanField, None),
    "svb": (StochasticMeanField, MINIBATCH),
    "sggmc, all documents": (lambda: SGGMC(**SETTINGS["sggmc"]), None),
    "gsgnht, minibatches of 25": (lambda: GSGNHT(**SETTINGS["gsgnht"]), 25),
    "gsgnht, minibatches of 200": (lambda: GSGNHT(**SETTINGS["gsgnht"]), 200),
}
DATA = {  # topics, minibatch, kappa_1, sigma, kappa_0, passes of burn-in of minibatch and of other samplers
    "news": (20, 50, 3e4, 1e4, 1e4, 40, 150),
    "wiki": (50, 100, 2e4, 6e3, 6e3, 20, 20),
    "nsf": (50, 100, 2e4, 6e3, 6e3, 20, 20),
}
COUNTS = {"wiki": ("wiki2018_counts", None), "nsf": ("nsf_counts", 16_000)}  # file, and largest number of documents
FIELDS = ("method", "seed", "seconds", "passes", "log_perplexity", "single", "temperature", "biased")
N_AVERAGED = 10


def load(name):
    """Training and test directions."""
    if name == "news":
        parts = [sp.load_npz(data_folder() / f"ng20diff_{part}_tfidf.npz") for part in ("train", "test")]
    else:
        file, most = COUNTS[name]
        counts = sp.csr_array(sp.load_npz(data_folder() / f"{file}.npz")).astype(np.float64)
        frequency = np.asarray((counts > 0).sum(axis=0)).ravel() / counts.shape[0]
        middling = np.argsort(np.abs(np.log(frequency + 1e-12) - np.log(0.02)), kind="stable")[:3000]
        counts = counts[:, np.sort(middling)]
        counts = counts[np.asarray(counts.sum(axis=1)).ravel() > 20]
        order = np.random.default_rng(0).permutation(counts.shape[0])[:most]
        parts = [tfidf(counts[order[1000:]]), tfidf(counts[order[:1000]])]
    return [as_directions(part) for part in parts]


def some_of(rows, n):
    """The same random rows in each run, all if `n` is None; the rows of the corpus are sorted by class."""
    return as_directions(matrix(rows)[np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:n])])


def tfidf(counts):
    n = counts.shape[0]
    frequency = np.asarray((counts > 0).sum(axis=0)).ravel()
    return counts @ sp.diags_array(np.log(n / (1.0 + frequency)))


def begin(name, rows, data, seed, workers, prepare=None):
    """The strategy of the fit, its model, which `prepare` may change, and first state."""
    make, batch = METHODS[name]
    K, minibatch, kappa, sigma, kappa_0, burn_in, burn_in_full = DATA[data]
    sampler, key = make(), root_key(seed)
    batch = minibatch if batch == MINIBATCH else batch
    admixture = SphericalAdmixture(
        K,
        doc_topic_prior=10.0,
        document_concentration=kappa,
        topic_concentration=sigma,
        mean_concentration=kappa_0,
        batch_size=batch,
        n_doc_samples=5,
        random_state=seed,
    )
    burn_in = burn_in if batch else burn_in_full
    strategy = fit_strategy(admixture, matrix(rows), Run(sampler, key, Schedule(burn_in + 1, burn_in, 1)))
    model = strategy.model(workers)
    if prepare:
        prepare(model)
    return strategy, model, strategy.passes.init(model, key), burn_in


def score(topics, held_out, data, seed, workers):
    """Log densities of the documents under each of the topics, (n_topics, n_documents)."""
    K, _, kappa, *_ = DATA[data]
    return np.array(
        [
            integrate_documents(held_out, [t], np.full(K, 10.0), kappa, root_key(seed), 200, workers).log_density
            for t in topics
        ]
    )


def run(name, rows, held_out, data, seed, marks, biased=False, by="seconds", prepare=None):
    """One row of results at each of the marks, which are seconds or numbers of passes."""
    kept, spent, passes, known = [], 0.0, 0, {}
    with Workers(1) as workers, threadpool_limits(1):
        start = time.process_time()
        strategy, model, state, burn_in = begin(name, rows, data, seed, workers, prepare)
        spent += time.process_time() - start
        while marks:
            start = time.process_time()
            state = strategy.passes.step(model, state)
            passes += 1
            if passes <= burn_in:
                model = strategy.adapt(model, state)
            spent += time.process_time() - start
            variational = is_variational(strategy.sampler)
            topics = state.statistics if variational else state.statistics.topics
            kept.append((passes, topics.astype(np.float32)))
            now = spent if by == "seconds" else passes
            if now >= marks[0]:
                marks = [mark for mark in marks if mark > now]
                half = [pair for pair in kept if pair[0] > passes // 2] if not variational else kept[-1:]
                chosen = [half[i] for i in np.unique(np.linspace(0, len(half) - 1, N_AVERAGED).astype(int))]
                known = {at: logs for at, logs in known.items() if at > passes // 2}
                for at, drawn in chosen:
                    if at not in known:
                        known[at] = score([drawn], held_out, data, seed, workers)[0]
                logs = np.array([known[at] for at, _ in chosen])
                mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
                temperature = np.nan if variational else state.statistics.temperature
                last = np.nan
                if biased and not marks:
                    last = -paper_score(chosen[-1][1], held_out, data)
                yield spent, passes, -mean.mean(), -logs[-1].mean(), temperature, last
                kept = half


def paper_score(topics, held_out, data):
    K, _, kappa, *_ = DATA[data]
    X = matrix(held_out)
    return spherical_document_likelihood(
        np.ascontiguousarray(topics, np.float64),
        X,
        np.full(K, 10.0),
        kappa,
        method="prior",
        n_draws=1000,
        random_state=0,
    ).log_density.mean()


def measure(options):
    rows, held_out = load(options.data)
    held_out = some_of(held_out, options.n_held_out)
    print(options.data, rows.n_rows, held_out.n_rows, rows.n_features, flush=True)
    for name in options.methods:  # load the machine code
        next(
            run(
                name,
                as_directions(matrix(rows)[:300]),
                as_directions(matrix(held_out)[:50]),
                options.data,
                99,
                [0.5],
            )
        )
    marks = [at for at in TIMES if at <= options.seconds]
    with Path(options.out).open("a", newline="") as file:
        writer = csv.writer(file)
        if file.tell() == 0:
            writer.writerow(FIELDS)
        for seed in options.seeds:
            for name in options.methods:
                for result in run(name, rows, held_out, options.data, seed, marks, options.biased):
                    line = (name, seed, *(round(float(value), 3) for value in result))
                    writer.writerow(line)
                    file.flush()
                print(*line, flush=True)


def matrix(rows):
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_features))


def print_table(methods):
    shown = [at for at in TIMES if any(len(at_time(rows, at)) for rows in methods.values())]
    begin_table(("method", *(f"{at:g} s" for at in shown), "passes per second", "temperature", "one draw", "biased"))
    for name, rows in methods.items():
        cells = []
        for at in shown:
            scores = at_time(rows, at)[:, 3]
            cells.append(f"{np.median(scores):.0f} ({scores.min():.0f} to {scores.max():.0f})" if len(scores) else "")
        last = np.array([own[-1] for own in of_each_seed(rows)])
        rate, single, temperature, biased = np.median(
            np.stack((last[:, 2] / last[:, 1], last[:, 4], last[:, 5], last[:, 6])), axis=1
        )
        last = f"{rate:.3g}", f"{temperature:.3f}", f"{single:.0f}", f"{biased:.0f}"
        row((name, *cells, *("" if text == "nan" else text for text in last)))


def draw(methods, path, data):
    import matplotlib.pyplot as plt

    plt.style.use(STYLE)
    figure, axis = plt.subplots(figsize=(8, 5.5))
    ends = []
    for number, (name, rows) in enumerate(methods.items()):
        points = [at_time(rows, at) for at in TIMES if len(at_time(rows, at))]
        x = [np.median(p[:, 1]) for p in points]
        middle = [np.median(p[:, 3]) for p in points]
        ends.append(middle[-1])
        style = line_style(number)
        axis.plot(x, middle, label=name, **style)
        low, high = [p[:, 3].min() for p in points], [p[:, 3].max() for p in points]
        axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axis.set(xscale="log", xlabel="seconds on one core", ylabel="held-out log perplexity, nats per document")
    axis.set_ylim(min(ends) - 50, max(ends) + 500)
    axis.set_title({"news": "20News-different, K=20", "wiki": "Wikipedia, K=50", "nsf": "NSF, K=50"}[data])
    figure.legend(loc="outside right upper")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=tuple(DATA), default="news")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--n-held-out", type=int, help="number of held-out documents that are scored")
    parser.add_argument("--biased", action="store_true", help="also apply the estimator of the paper")
    parser.add_argument("--out")
    parser.add_argument("--draw", action="store_true", help="draw the figure and print the table of --out")
    add_write(parser)
    options = parser.parse_args()
    options.out = options.out or f"benchmarks/sam_{options.data}.csv"
    if options.draw:
        results = read_runs(options.out, FIELDS, METHODS)
        print_table(results)
        draw(results, Path(options.out).with_suffix(".png"), options.data)
        part = "" if options.data == "news" else f"_{options.data}"
        finish(options, part=part, notes="Lower is better. Medians (ranges) over seeds, by seconds on one core.")
    else:
        measure(options)
