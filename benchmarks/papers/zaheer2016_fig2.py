"""Fig. 2 of Zaheer et al. (2016): held-out log likelihood per word of 1,000 topics, by passes and by seconds.

Settings are those of the paper: K = 1,000, the prior 50/K of the proportions and 0.1 of the topics. English stop words
are removed; 2,000 documents, or a tenth, are held out, and scored by document completion. The corpora are Wikipedia
with 17,554 articles and 20 Newsgroups; PubMed and the whole of Wikipedia, which the paper has, are not available. All
methods run in one thread; seconds are processor time without evaluations. ESCA is run as in the paper and, as "esca",
with each token excluded from the counts that it is drawn with. CVB0 stores a distribution per word and document, which
needs eight gigabytes here. The paper does not state the number of passes, the seeds, and how proportions of held-out
documents are estimated.

The claim: ESCA reaches the accuracy of collapsed Gibbs sampling and of CVB0, in less time.
"""

from __future__ import annotations

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.lda_defaults import split
from benchmarks.lda_paper_curves import run as run_method
from skmanifold.metrics import document_completion
from skmanifold.sparse.counts import canonical_csr, whole_counts

NEEDS_DATA = True
K, ALPHA, BETA = 1000, 50 / 1000, 0.1
CHECKED = (1, 2, 5, 10, 20, 50, 100)  # passes
METHODS = {"ESCA, as printed": "ESCA()", "esca": '"esca"', "collapsed Gibbs": '"collapsed_gibbs"', "CVB0": '"cvb0"'}
CORPORA = ("wiki", "ng20")
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    if quick:
        return [{"corpus": "ng20", "method": name, "seed": 0, "n_topics": 20, "n_passes": 2} for name in METHODS]
    return [
        {"corpus": corpus, "method": name, "seed": seed, "n_topics": K, "n_passes": CHECKED[-1]}
        for seed in range(N_SEEDS)
        for corpus in CORPORA
        for name in METHODS
    ]


def run(corpus, method, seed, n_topics, n_passes):
    """A row after each number of passes: seconds and log likelihood per word."""
    train, test = split(corpus, stop_words=False)
    counts = whole_counts(canonical_csr(train), np.uint64(0))
    alpha, checked, found = 50 / n_topics, [n for n in CHECKED if n <= n_passes], []
    curve = run_method(METHODS[method], counts, n_topics, BETA, seed, checked, alpha)
    for passes, (topics, seconds) in zip(checked, curve, strict=True):
        perplexity = document_completion(topics, test, np.full(n_topics, alpha)).perplexity
        found.append({"passes": passes, "seconds": float(seconds), "log_likelihood": -float(np.log(perplexity))})
    return found


def of(rows, corpus, method, passes, name="log_likelihood"):
    """The values of all seeds."""
    wanted = corpus, method, passes
    return [each[name] for each in rows if tuple(each[k] for k in ("corpus", "method", "passes")) == wanted]


def show(rows):
    """Log likelihoods by passes, and seconds."""
    marks = sorted({each["passes"] for each in rows})
    for corpus in CORPORA:
        if not any(each["corpus"] == corpus for each in rows):
            continue
        title(f"{corpus}: held-out log likelihood per word by passes, median (range) over seeds")
        begin_table(("method", *marks, f"seconds of {marks[-1]} passes"))
        for method in METHODS:
            cells = []
            for mark in marks:
                values = of(rows, corpus, method, mark)
                cells.append(spread(values, ".3f") if values else "")
            seconds = of(rows, corpus, method, marks[-1], "seconds")
            row((method, *cells, f"{np.median(seconds):.0f}" if seconds else ""))


def draw(rows):
    """Log likelihood by passes and by seconds, with the range over seeds."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    corpora = [corpus for corpus in CORPORA if any(each["corpus"] == corpus for each in rows)]
    marks = sorted({each["passes"] for each in rows})
    figure, axes = plt.subplots(len(corpora), 2, figsize=(11, 4 * len(corpora)), layout="constrained", squeeze=False)
    for corpus, of_corpus in zip(corpora, axes, strict=True):
        for number, method in enumerate(METHODS):
            known = [mark for mark in marks if of(rows, corpus, method, mark)]
            scores, style = [of(rows, corpus, method, mark) for mark in known], line_style(number)
            for ax, name in zip(of_corpus, ("passes", "seconds"), strict=True):
                x = [np.median(of(rows, corpus, method, mark, name)) for mark in known]
                ax.plot(x, [np.median(each) for each in scores], label=method, **style)
                low, high = [min(each) for each in scores], [max(each) for each in scores]
                ax.fill_between(x, low, high, color=style["color"], alpha=0.15)
                ax.set(xscale="log", xlabel=name, title=corpus)
        of_corpus[0].set_ylabel("log likelihood per word")
    axes[0, 0].legend(fontsize="small")
    return figure
