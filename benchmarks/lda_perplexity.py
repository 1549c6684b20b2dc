"""Held-out perplexity at equal wall time, one core against one core, ours and the peers' by one evaluator.

Ours is ``StochasticLDA.fit`` as a user calls it, once for each budget, stopped by a callback; a larger budget averages
more passes in the estimate. Its time includes reading the matrix. A peer trains once and is evaluated whenever a
budget is reached; its time leaves out reading the documents and the evaluation. Both topic-word matrices go through
``document_completion`` on the same held-out documents.

    python benchmarks/lda_perplexity.py --corpus wiki --n-components 100 --budgets 10 30 120
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from _corpora import load_counts, split_documents
from _peers import installed
from _stop_after import StopAfter

from skmanifold import StochasticLDA
from skmanifold.metrics import document_completion
from skmanifold.samplers import ESCA


def score(topic_word, X_test, alpha):
    n_components = getattr(topic_word, "n_components", None) or len(topic_word)
    return document_completion(topic_word, X_test, np.full(n_components, alpha))


def report(corpus, n_components, budget, name, seconds, n_passes, result, seed):
    error = result.perplexity * result.standard_error
    print(
        f"{corpus} K={n_components} budget {budget:g} s: {name:10s} seed {seed} perplexity {result.perplexity:8.1f} "
        f"(+- {error:.1f} over documents), {n_passes} passes in {seconds:.1f} s",
        flush=True,
    )


def run_ours(X, X_test, corpus, n_components, budgets, alpha, beta, seed):
    for budget in budgets:
        lda = StochasticLDA(
            n_components,
            sampler=ESCA(n_average=max(1, round(budget / 2))),
            doc_topic_prior=alpha,
            topic_word_prior=beta,
            max_iter=1_000_000,
            burn_in=0,
            thin=1_000_000,
            random_state=seed,
        ).set_callbacks(StopAfter(budget, time.perf_counter))
        start = time.perf_counter()
        lda.fit(X)
        seconds = time.perf_counter() - start
        result = score(lda.components_, X_test, alpha)
        report(corpus, n_components, budget, "skmanifold", seconds, lda.n_iter_, result, seed)


def run_peer(trainer, X, X_test, corpus, n_components, budgets, alpha, beta, seed):
    peer = trainer(X, n_components, alpha, beta, seed)
    seconds, n_passes = 0.0, 0
    for budget in budgets:
        while seconds < budget:
            start = time.perf_counter()
            peer.step()
            seconds += time.perf_counter() - start
            n_passes += 1
        result = score(peer.topic_word(), X_test, alpha)
        report(corpus, n_components, budget, trainer.name, seconds, n_passes, result, seed)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="The training result may differ", category=RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--budgets", type=float, nargs="+", default=[10, 30, 120])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--peers", nargs="*", default=["tomotopy"], choices=["tomotopy", "gensim", "sklearn"])
    options = parser.parse_args()
    train, test = split_documents(load_counts(options.corpus))
    StochasticLDA(10, max_iter=3).fit(train[:100])  # load the machine code
    for n in options.n_components:
        for seed in options.seeds:
            shared = (train, test, options.corpus, n, options.budgets, 50 / n, 0.1, seed)
            run_ours(*shared)
            for trainer in installed(options.peers):
                run_peer(trainer, *shared)
