"""Held-out perplexity of the samplers of topics by passes, seconds, number of topics and prior of the topics.

These are the experiments of Fig. 6 of Zaheer et al. (2016), with corpora that fit on one core. All methods have the
prior 1/K of the proportions and the same prior beta of the topics. English stop words are removed, and a random tenth
of the documents is held out; of wiki, 2,000 random documents in all. The perplexity at a pass is that of the topics
which belong to the counts of this pass, without an average over passes, by document completion. Seconds are processor
time in one thread, from the sorting of the corpus on, without evaluations.

    python -m benchmarks.lda_paper_curves --write
    python -m benchmarks.lda_paper_curves --draw
    python -m benchmarks.lda_paper_curves --measure --corpora ap --seeds 0 1 2

The third command makes the runs that are missing for these corpora and seeds, and adds them to
`lda_paper_curves.jsonl`, from which the first two make the tables and the figure.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks import _stored
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks._runs import STYLE, line_style
from benchmarks.lda_defaults import split
from skmanifold.admixture._lda.expectation import ExpectationLDA
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.topic_counts import TopicPrior, counts_from_dense
from skmanifold.metrics import document_completion
from skmanifold.random._keys import root_key
from skmanifold.samplers import CVB0, EM, ESCA, CollapsedGibbs, Gibbs
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

STORED = Path(__file__).with_suffix(".jsonl")
CORPORA = ("ap", "ng20", "wiki")
WIKI_DOCUMENTS = 1800, 200  # training, held out
CHECKED = (1, 2, 5, 10, 20, 35, 50, 75, 100)  # passes
TICKS = (1, 2, 5, 10, 20, 50, 100)
LAST = 75  # pass of the comparisons by K and by beta
K, BETA = 100, 0.1
NUMBERS = (20, 50, 100, 200)
PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)
CASES = [(K, BETA), *((n, BETA) for n in NUMBERS if n != K), *((K, beta) for beta in PRIORS if beta != BETA)]
METHODS = {
    '"esca"': ESCA(exclude_self=True),
    "ESCA()": ESCA(),
    '"collapsed_gibbs"': CollapsedGibbs(),
    '"gibbs"': Gibbs(),
    '"cvb0"': CVB0(),
    '"em"': EM(tol=0.0),
}
NAMES = "corpus", "n_components", "topic_word_prior", "method", "seed"


def read(corpus):
    """Training and held-out counts."""
    train, test = split(corpus, stop_words=False)
    if corpus == "wiki":
        return train[: WIKI_DOCUMENTS[0]], test[: WIKI_DOCUMENTS[1]]
    return train, test


def topics_of(model, statistics):
    """The topics given the counts of a pass."""
    if isinstance(model, ExpectationLDA):
        statistics = counts_from_dense(statistics.word_topic, statistics.totals)
    return model.topic_prior.smooth(statistics)


def run(method, counts, n_components, beta, seed, checked, alpha=None):
    """The topics and the seconds so far after each of the `checked` passes; `alpha` is 1/K by default."""
    sampler = METHODS[method]
    alpha = np.full(n_components, 1.0 / n_components if alpha is None else alpha)
    start = time.process_time()
    model = (ExpectationLDA if isinstance(sampler, EM) else LDAModel)(
        counts, alpha, TopicPrior(beta, n_components, counts.n_features), Workers(1)
    )
    state = sampler.init(model, root_key(seed))
    seconds = time.process_time() - start
    for n_done in range(1, max(checked) + 1):
        start = time.process_time()
        state = sampler.step(model, state)
        seconds += time.process_time() - start
        if n_done in checked:
            yield topics_of(model, state.statistics), seconds


def measure(options):
    """Make the runs that are missing, and add them to the file."""
    _, runs = _stored.read(STORED)
    done = {tuple(stored[name] for name in NAMES) for stored in runs}
    for seed in options.seeds:
        for corpus in options.corpora:
            train, test = read(corpus)
            counts = whole_counts(canonical_csr(train), np.uint64(0))
            few = whole_counts(canonical_csr(train[:50]), np.uint64(0))
            for method in options.methods:  # load the machine code
                list(run(method, few, 5, BETA, 0, (2,)))
            for n_components, beta in CASES[: 1 if options.only_curves else None]:
                alpha = np.full(n_components, 1.0 / n_components)
                checked = CHECKED if (n_components, beta) == (K, BETA) else (LAST,)
                for method in options.methods:
                    of_run = corpus, n_components, beta, method, seed
                    if of_run in done or (method == '"cvb0"' and n_components > options.most_of_cvb0):
                        continue
                    seconds, perplexities = [], []
                    for topics, spent in run(method, counts, n_components, beta, seed, checked):
                        seconds.append(round(spent, 3))
                        perplexities.append(round(document_completion(topics, test, alpha).perplexity, 2))
                    found = {"passes": checked, "seconds": seconds, "perplexity": perplexities}
                    _stored.append(STORED, dict(zip(NAMES, of_run, strict=True)) | found)
                    print(*of_run, seconds[-1], perplexities[-1], flush=True)


def values(runs, corpus, method, n_components=K, beta=BETA, name="perplexity", at=LAST):
    """A measurement after pass `at`, for each seed."""
    wanted = corpus, n_components, beta, method
    return np.array(
        [run[name][run["passes"].index(at)] for run in runs if tuple(run[each] for each in NAMES[:4]) == wanted]
    )


def cell(found, digits=0):
    """Mean and standard error over seeds."""
    if len(found) == 0:
        return ""
    error = f" ± {found.std(ddof=1) / np.sqrt(len(found)):.{max(digits, 1)}f}" if len(found) > 1 else ""
    return f"{found.mean():.{digits}f}{error}"


def corpora_of(runs):
    return [corpus for corpus in CORPORA if any(run["corpus"] == corpus for run in runs)]


def show(runs):
    """The tables of all runs."""
    for corpus in corpora_of(runs):
        title(f"{corpus}: perplexity after passes, K={K}, beta={BETA}")
        begin_table(("method", *CHECKED, f"seconds of {CHECKED[-1]} passes"))
        for method in METHODS:
            seconds = values(runs, corpus, method, name="seconds", at=CHECKED[-1])
            last = f"{np.median(seconds):.3g}" if len(seconds) else ""
            row((method, *(cell(values(runs, corpus, method, at=n)) for n in CHECKED), last))
        if any(run["n_components"] != K for run in runs if run["corpus"] == corpus):
            show_settings(runs, corpus)


def show_settings(runs, corpus):
    """The tables by number of topics and by prior."""
    title(f"{corpus}: perplexity after {LAST} passes, by the number of topics (beta={BETA})")
    begin_table(("method", *(f"K={n}" for n in NUMBERS)))
    for method in METHODS:
        row((method, *(cell(values(runs, corpus, method, n_components=n)) for n in NUMBERS)))
    title(f"{corpus}: perplexity after {LAST} passes, by the prior of the topics (K={K})")
    begin_table(("method", *(f"beta={beta:g}" for beta in PRIORS)))
    for method in METHODS:
        row((method, *(cell(values(runs, corpus, method, beta=beta)) for beta in PRIORS)))


def curves_of(runs, corpus, method):
    """For each of the four panels: the abscissae, and the perplexities of each seed there."""
    seconds = [values(runs, corpus, method, name="seconds", at=n) for n in CHECKED]
    by_pass = [values(runs, corpus, method, at=n) for n in CHECKED]
    yield CHECKED, by_pass
    yield [np.median(each) if len(each) else np.nan for each in seconds], by_pass
    yield NUMBERS, [values(runs, corpus, method, n_components=n) for n in NUMBERS]
    yield PRIORS, [values(runs, corpus, method, beta=beta) for beta in PRIORS]


def draw(runs, path):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, ScalarFormatter

    plt.style.use(STYLE)
    labels = "passes", "seconds of processor time", f"topics (pass {LAST})", f"prior of the topics (pass {LAST})"
    corpora = corpora_of(runs)
    figure, axes = plt.subplots(len(corpora), 4, figsize=(15, 3.7 * len(corpora)), squeeze=False)
    for corpus, of_corpus in zip(corpora, axes, strict=True):
        for number, method in enumerate(METHODS):
            style = line_style(number)
            for axis, (x, found) in zip(of_corpus, curves_of(runs, corpus, method), strict=True):
                there = [(at, each) for at, each in zip(x, found, strict=True) if len(each)]
                if len(there) < 2:
                    continue
                x = [at for at, _ in there]
                axis.plot(x, [each.mean() for _, each in there], label=method, **style)
                low, high = [each.min() for _, each in there], [each.max() for _, each in there]
                axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        for axis, label, ticks in zip(of_corpus, labels, (TICKS, None, NUMBERS, PRIORS), strict=True):
            axis.set_visible(bool(axis.lines))
            axis.set(xscale="log", yscale="log", xlabel=label)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_major_formatter(ScalarFormatter())
            axis.yaxis.set_minor_formatter(ScalarFormatter())
            if ticks:
                axis.set_xticks(ticks)
                axis.minorticks_off()
                axis.yaxis.set_minor_locator(LogLocator(subs="all"))
        of_corpus[0].set_ylabel(f"{corpus}: held-out perplexity")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="make the runs that are missing")
    parser.add_argument("--corpora", nargs="+", default=["ap"], choices=CORPORA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=[*METHODS], choices=METHODS)
    parser.add_argument("--only-curves", action="store_true", help=f"only K={K} and beta={BETA}")
    parser.add_argument("--most-of-cvb0", type=int, default=200, help='largest number of topics of "cvb0"')
    parser.add_argument("--draw", action="store_true", help="draw the figure")
    add_write(parser)
    options = parser.parse_args()
    if options.measure:
        measure(options)
    source, stored = _stored.read(STORED, "All methods")
    if stored:
        show(stored)
        if options.draw:
            draw(stored, STORED.with_suffix(".png"))
        seeds = {corpus: len({run["seed"] for run in stored if run["corpus"] == corpus}) for corpus in CORPORA}
        n_train, n_test = WIKI_DOCUMENTS
        of_wiki = f"; of wiki, {n_train:,} random documents are read and {n_test} held out" if seeds["wiki"] else ""
        notes = (
            "Perplexity of held-out documents by document completion; mean ± standard error where several seeds were "
            f"measured (at most {', '.join(f'{n} for {corpus}' for corpus, n in seeds.items() if n)}). The topics are "
            "those of the counts of one pass. The prior of the proportions is 1/K. English stop words are removed. A "
            f"random tenth of the documents is held out{of_wiki}. Seconds are processor time in one thread, median "
            f"over seeds. Empty cells were not measured. {source}"
        )
        finish(options, notes=notes)
