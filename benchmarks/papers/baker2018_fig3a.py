"""Fig. 3a and 4a of Baker et al. (2018): topics of Wikipedia by SCIR and SGRLD, and by collapsed Gibbs sampling.

Settings are those of Table 2: K = 100, minibatches of 50 documents, 200 Gibbs sweeps per document (the first 100 are
burn-in here); SCIR with the step sizes 0.5 (1 + t / 10)^-0.33 and the priors 0.1 of the proportions and 0.5 of the
topics; SGRLD with 0.01 (1 + t / 1000)^-0.6, 0.01 and 0.0001. In the notation of Patterson and Teh, from whom these step
sizes are, a step size is twice ours, so half of it is run too. Rows outside the paper separate the step sizes and the
priors: SCIR with the exponent 0.6, and each sampler with the priors of the other. Collapsed Gibbs sampling has the
priors of SCIR and makes 100 passes over all documents. There are 17,554 articles with their 8,000 most frequent words,
of which 1,000 are held out. The paper streams new articles, and does not state how many, nor which 8,000 words.

The claims: the two samplers are similar at first, then the perplexity of SCIR falls below that of SGRLD; SCIR is
competitive with collapsed Gibbs sampling.
"""

from __future__ import annotations

import time

from benchmarks._results import begin_table, row, title
from skmanifold import StochasticLDA
from skmanifold.samplers import SCIR, SGRLD, CollapsedGibbs, PolynomialDecay

from ._streams import documents, draw_curves, seen, stream_perplexities, table_of, values_of

NEEDS_DATA = True
K, N_WORDS = 100, 8000
OF_SCIR, OF_SGRLD = (0.1, 0.5), (0.01, 1e-4)  # priors of the proportions and of the topics
METHODS = {
    "SCIR": (SCIR(PolynomialDecay(0.5, 10.0, 0.33)), OF_SCIR),
    "SGRLD": (SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)), OF_SGRLD),
    "SGRLD, half the step size": (SGRLD(PolynomialDecay(0.005, 1000.0, 0.6)), OF_SGRLD),
    "SCIR, exponent 0.6": (SCIR(PolynomialDecay(0.5, 10.0, 0.6)), OF_SCIR),
    "SCIR, exponent 0.6, priors of SGRLD": (SCIR(PolynomialDecay(0.5, 10.0, 0.6)), OF_SGRLD),
    "SGRLD, priors of SCIR": (SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)), OF_SCIR),
}
GIBBS = "collapsed Gibbs sampling"
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    n_seen, n_test, sweeps, n_passes = (500, 20, 4, 3) if quick else (50_000, 1000, 200, 100)
    return [
        {"method": method, "seed": seed, "n_seen": n_seen, "n_test": n_test, "sweeps": sweeps, "n_passes": n_passes}
        for seed in range(1 if quick else N_SEEDS)
        for method in (*METHODS, GIBBS)
    ]


def run(method, seed, n_seen, n_test, sweeps, n_passes):
    """Perplexities after some documents, and seconds; for Gibbs sampling only one perplexity after all passes."""
    if method != GIBBS:
        sampler, priors = METHODS[method]
        settings = {"n_components": K, "n_words": N_WORDS, "n_test": n_test, "n_seen": n_seen}
        return {**stream_perplexities(sampler, *priors, **settings, sweeps=sweeps, seed=seed), "after_passes": ""}
    train, test = documents(N_WORDS, n_test)
    alpha, beta = OF_SCIR
    settings = {"doc_topic_prior": alpha, "topic_word_prior": beta, "max_iter": n_passes, "random_state": seed}
    start = time.perf_counter()
    lda = StochasticLDA(K, sampler=CollapsedGibbs(), **settings).fit(train)
    seconds = time.perf_counter() - start
    return {
        **{f"after_{n}": "" for n in seen(n_seen)},
        "seconds": seconds,
        "after_passes": float(lda.perplexity(test)),
    }


def show(rows):
    """Perplexities by documents seen, and after the passes of Gibbs sampling."""
    title("Held-out perplexity, K = 100: median (range) over seeds; median seconds of all documents")
    head, lines = table_of(rows, METHODS)
    begin_table(head)
    for cells in lines:
        row(cells)
    gibbs = values_of(rows, method=GIBBS)
    if gibbs:
        found = sorted(each["after_passes"] for each in gibbs)
        title(f"Collapsed Gibbs sampling, {gibbs[0]['n_passes']} passes, average of the last ones")
        begin_table(("least", "median", "largest"))
        row((f"{found[0]:.0f}", f"{found[len(found) // 2]:.0f}", f"{found[-1]:.0f}"))


def draw(rows):
    """Perplexity by documents seen; a line for Gibbs sampling."""
    import matplotlib.pyplot as plt
    import numpy as np

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    gibbs = values_of(rows, method=GIBBS)
    if gibbs:
        median = np.median([each["after_passes"] for each in gibbs])
        ax.axhline(median, color="0.4", linestyle=":", label=f"{GIBBS}, {gibbs[0]['n_passes']} passes")
    draw_curves(ax, rows, METHODS)
    return figure
