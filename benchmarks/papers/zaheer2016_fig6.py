"""Fig. 6 of Zaheer et al. (2016): perplexity of LDA by passes, seconds, number of topics and prior of the topics.

As in appendix G of the paper, topics of one corpus are evaluated on another one: those of Wikipedia on news, and those
of news on Wikipedia. The first two panels have 100 topics and the prior 0.1; the third has other numbers of topics and
the fourth other priors, after 75 passes; and there are five seeds. All methods run in one thread; seconds are processor
time without evaluations. ESCA draws from all weights of a token in the paper, and with the library's sparse kernels
here. "esca" is ESCA with each token excluded from the counts that it is drawn with.

The corpora are 17,554 articles of Wikipedia and, instead of Reuters, 2,246 articles of the Associated Press; those of
the paper have 6.7 million and 0.8 million documents. English stop words and words that are not in both corpora are
removed. All documents of one corpus are used for training, and 500 random documents of the other one, instead of
10,000, for the score by document completion. The paper does not state the numbers of topics, the priors of the topics,
the prior of the proportions, and how the proportions of new documents are estimated. Here the prior of the proportions
is 50/K, as in the main experiments of the paper.

The claim: after the same number of passes, ESCA has about the perplexity of collapsed Gibbs sampling and CVB0, also
with other numbers of topics and other priors.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.lda_defaults import read
from benchmarks.lda_paper_curves import BETA, CASES, CHECKED, LAST, PRIORS, K
from benchmarks.lda_paper_curves import run as run_method
from skmanifold.metrics import document_completion
from skmanifold.sparse.counts import canonical_csr, whole_counts

from .zaheer2016_fig2 import METHODS

NEEDS_DATA = True
CORPORA = {"wiki": "ap", "ap": "wiki"}  # training, held out
N_HELD_OUT, N_SEEDS = 500, 5
MARKS = [n for n in CHECKED if n <= LAST]
REFERENCE = "collapsed Gibbs"


def cases(quick):
    """Settings of the runs."""
    corpora, settings, n_seeds, n_passes = (
        (("ap",), ((10, BETA), (K, BETA)), 1, 5) if quick else (CORPORA, CASES, N_SEEDS, LAST)
    )
    return [
        {"corpus": corpus, "n_topics": n, "beta": beta, "method": name, "seed": seed, "n_passes": n_passes}
        for seed in range(n_seeds)
        for corpus in corpora
        for n, beta in settings
        for name in METHODS
    ]


@functools.cache
def read_both():
    """The counts of both corpora for the words that are in both."""
    found = {corpus: read(corpus) for corpus in CORPORA}
    common = sorted(set.intersection(*(set(words) for _, words in found.values())) - ENGLISH_STOP_WORDS)
    counts = {}
    for corpus, (X, words) in found.items():
        place = {word: number for number, word in enumerate(words)}
        counts[corpus] = sp.csr_array(X, dtype=np.int32)[:, [place[word] for word in common]]
    return counts


@functools.cache
def split(corpus):
    """Training counts of a corpus, those of its first documents, and held-out documents of the other corpus."""
    counts = read_both()
    other = counts[CORPORA[corpus]]
    held_out = np.random.default_rng(0).permutation(other.shape[0])[:N_HELD_OUT]
    train, few = (whole_counts(canonical_csr(X), np.uint64(0)) for X in (counts[corpus], counts[corpus][:50]))
    return train, few, other[held_out]


def run(corpus, n_topics, beta, method, seed, n_passes):
    """A row after each number of passes: seconds and perplexity."""
    counts, few, held_out = split(corpus)
    marks = [n for n in MARKS if n <= n_passes] if (n_topics, beta) == (K, BETA) else [n_passes]
    alpha, found = 50 / n_topics, []
    list(run_method(METHODS[method], few, 5, beta, seed, (2,)))  # loads the machine code
    curve = run_method(METHODS[method], counts, n_topics, beta, seed, marks, alpha)
    for passes, (topics, seconds) in zip(marks, curve, strict=True):
        perplexity = document_completion(topics, held_out, np.full(n_topics, alpha)).perplexity
        found.append({"passes": passes, "seconds": float(seconds), "perplexity": float(perplexity)})
    return found


def of(rows, corpus, method, n_topics, beta, passes, name="perplexity"):
    """The values of all seeds, in their order."""
    wanted = corpus, method, n_topics, beta, passes
    names = "corpus", "method", "n_topics", "beta", "passes"
    own = [each for each in rows if tuple(each[k] for k in names) == wanted]
    return [each[name] for each in sorted(own, key=lambda each: each["seed"])]


def panels(rows):
    """For each corpus and panel: label, the values of the abscissa, and the settings (K, beta, passes) there."""
    last = max(each["passes"] for each in rows)
    for corpus in CORPORA:
        known = {(each["n_topics"], each["beta"], each["passes"]) for each in rows if each["corpus"] == corpus}
        for label, settings in (
            ("passes", {n: (K, BETA, n) for n in MARKS}),
            ("topics", {n: (n, BETA, last) for n in sorted({n for n, _, _ in known})}),
            ("prior of the topics", {beta: (K, beta, last) for beta in PRIORS}),
        ):
            found = {x: setting for x, setting in settings.items() if setting in known}
            if found:
                yield corpus, label, found


def show(rows):
    """Perplexities of each panel, and their ratios to those of collapsed Gibbs sampling."""
    for corpus, label, settings in panels(rows):
        title(f"Topics of {corpus}, perplexity of {CORPORA[corpus]} by {label}: median (range) over seeds")
        begin_table(("method", *settings))
        for method in METHODS:
            row((method, *(text_of(of(rows, corpus, method, *each), ".0f") for each in settings.values())))
        title(f"Topics of {corpus}, perplexity of {CORPORA[corpus]} by {label}, divided by that of {REFERENCE}")
        begin_table(("method", *settings))
        for method in METHODS:
            if method != REFERENCE:
                ratios = [ratio(rows, corpus, method, setting) for setting in settings.values()]
                row((method, *(text_of(each, ".3f") for each in ratios)))


def text_of(values, form):
    """Median and range, or nothing."""
    return spread(values, form) if len(values) else ""


def ratio(rows, corpus, method, setting):
    """Perplexities of all seeds, divided by the median of collapsed Gibbs sampling."""
    reference = of(rows, corpus, REFERENCE, *setting)
    return np.divide(of(rows, corpus, method, *setting), np.median(reference)) if reference else []


def draw(rows):
    """The four panels of the figure for each corpus."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    corpora = [corpus for corpus in CORPORA if any(each["corpus"] == corpus for each in rows)]
    found = {corpus: {label: settings for of, label, settings in panels(rows) if of == corpus} for corpus in corpora}
    labels = "passes", "seconds", "topics", "prior of the topics"
    figure, axes = plt.subplots(
        len(corpora), 4, figsize=(14, 3.4 * len(corpora)), layout="constrained", sharey="row", squeeze=False
    )
    for corpus, of_corpus in zip(corpora, axes, strict=True):
        for ax, label in zip(of_corpus, labels, strict=True):
            settings = found[corpus].get("passes" if label == "seconds" else label, {})
            for number, method in enumerate(METHODS):
                known = {x: each for x, each in settings.items() if of(rows, corpus, method, *each)}
                if not known:
                    continue
                scores, style = [of(rows, corpus, method, *each) for each in known.values()], line_style(number)
                x = list(known)
                if label == "seconds":
                    x = [np.median(of(rows, corpus, method, *each, "seconds")) for each in known.values()]
                ax.plot(x, [np.median(each) for each in scores], label=method, **style)
                low, high = [min(each) for each in scores], [max(each) for each in scores]
                ax.fill_between(x, low, high, color=style["color"], alpha=0.15)
            ax.set(xscale="log", xlabel=label)
            if label != "seconds" and settings:
                ax.set_xticks(list(settings), [f"{x:g}" for x in settings])
                ax.minorticks_off()
        of_corpus[0].set_ylabel(f"topics of {corpus},\nperplexity of {CORPORA[corpus]}")
    figure.legend(*axes[0, 2].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
