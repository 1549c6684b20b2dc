"""Held-out perplexity after equal wall time on one core: StochasticLDA and other libraries, with one evaluator.

StochasticLDA excludes the token from the counts that it is drawn with, as "esca" does. It is fitted once for each
budget and stopped by a callback; a larger budget averages more passes in the estimate. Its time includes reading the
matrix.
Another library trains once and is evaluated whenever a budget is reached; its time excludes reading the documents and
the evaluation. All topic-word matrices are evaluated by ``document_completion`` on the same held-out documents.

    python -m benchmarks.lda_perplexity --corpus wiki --n-components 100 --budgets 10 30 120
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from benchmarks._corpora import load_counts, split_documents
from benchmarks._peers import installed
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks._stop_after import StopAfter
from skmanifold import StochasticLDA
from skmanifold.metrics import document_completion
from skmanifold.samplers import ESCA


def score(topic_word, X_test, alpha):
    n_components = getattr(topic_word, "n_components", None) or len(topic_word)
    return document_completion(topic_word, X_test, np.full(n_components, alpha))


def describe(result, n_passes):
    error = result.perplexity * result.standard_error
    return f"{result.perplexity:.0f} ± {error:.0f}, {n_passes} passes"


def run_ours(X, X_test, n_components, budgets, alpha, beta, seed):
    cells = []
    for budget in budgets:
        lda = StochasticLDA(
            n_components,
            sampler=ESCA(n_average=max(1, round(budget / 2)), exclude_self=True),
            doc_topic_prior=alpha,
            topic_word_prior=beta,
            max_iter=1_000_000,
            burn_in=0,
            thin=1_000_000,
            random_state=seed,
        ).set_callbacks(StopAfter(budget, time.perf_counter))
        lda.fit(X)
        cells.append(describe(score(lda.components_, X_test, alpha), lda.n_iter_))
    row(("`StochasticLDA`", seed, *cells))


def run_peer(trainer, X, X_test, n_components, budgets, alpha, beta, seed):
    peer = trainer(X, n_components, alpha, beta, seed)
    seconds, n_passes, cells = 0.0, 0, []
    for budget in budgets:
        while seconds < budget:
            start = time.perf_counter()
            peer.step()
            seconds += time.perf_counter() - start
            n_passes += 1
        cells.append(describe(score(peer.topic_word(), X_test, alpha), n_passes))
    row((trainer.name, seed, *cells))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="The training result may differ", category=RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--budgets", type=float, nargs="+", default=[10, 30, 120])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--peers", nargs="*", default=["tomotopy"], choices=["tomotopy", "gensim", "sklearn"])
    add_write(parser)
    options = parser.parse_args()
    train, test = split_documents(load_counts(options.corpus))
    StochasticLDA(10, max_iter=3).fit(train[:100])  # load the machine code
    for n in options.n_components:
        title(f"{options.corpus}, K={n}")
        begin_table(("method", "seed", *(f"{budget:g} s" for budget in options.budgets)))
        for seed in options.seeds:
            shared = (train, test, n, options.budgets, 50 / n, 0.1, seed)
            run_ours(*shared)
            for trainer in installed(options.peers):
                run_peer(trainer, *shared)
    part = "" if options.corpus == "wiki" else f"_{options.corpus}"
    notes = "Perplexity ± standard error over documents, of a random tenth of the documents, by document completion."
    finish(options, *options.peers, part=part, notes=notes)
