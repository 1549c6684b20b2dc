"""Topics with default settings after different numbers of passes: held-out perplexity and coherence by seconds.

Each point is a fit of its own with `max_iter` passes, because burn-in and the learned priors depend on their number.
Everything else is as in `lda_defaults.py`: K=50, stop words are kept.

    python -m benchmarks.lda_default_curves --write
    python -m benchmarks.lda_default_curves --draw
    python -m benchmarks.lda_default_curves --measure --corpora ap --seeds 0

The third command makes the fits that are missing, and adds them to `lda_default_curves.jsonl`, from which the first two
make the table and the figure.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from benchmarks import _stored
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks._runs import STYLE, line_style
from benchmarks.lda_defaults import ALL_WORDS, CORPORA, OURS, PEERS, corpora_of, scores, split
from skmanifold import StochasticLDA

STORED = Path(__file__).with_suffix(".jsonl")
K = 50
PASSES = {
    '"esca"': (25, 50, 100, 200, 400, 800),
    '"gibbs"': (25, 50, 100, 200, 400),
    '"collapsed_gibbs"': (25, 50, 100, 200, 400),
    '"cvb0"': (12, 25, 50, 100, 200),
    "tomotopy": (30, 100, 300, 1000),
    "gensim": (1, 3, 10, 30),
    "scikit-learn": (1, 3, 10, 30),
}
NAMES = "corpus", "method", "passes", "seed"


def measure(options):
    """Fit what is missing, and add it to the file."""
    _, runs = _stored.read(STORED)
    done = {tuple(run[name] for name in NAMES) for run in runs}
    fits = {**OURS, **PEERS}
    for corpus in options.corpora:
        train, test = split(corpus, stop_words=True)
        for method, numbers in PASSES.items():
            if method in OURS:
                settings = getattr(fits[method], "keywords", {})
                StochasticLDA(3, max_iter=2, **settings).fit(train[:50])  # load the machine code
            for n_passes in numbers:
                for seed in options.seeds:
                    of_run = corpus, method, n_passes, seed
                    if of_run in done:
                        continue
                    topics, prior, seconds = fits[method](train, K, seed, max_iter=n_passes)
                    found = scores(topics, prior, train, test) | {"seconds": seconds}
                    _stored.append(STORED, dict(zip(NAMES, of_run, strict=True)) | found, "tomotopy", "gensim")
                    print(*of_run, *(f"{value:.4g}" for value in found.values()), flush=True)


def curve(runs, corpus, method, name):
    """Median seconds and mean of a score for each number of passes."""
    points = []
    for n_passes in PASSES[method]:
        found = [run for run in runs if (run["corpus"], run["method"], run["passes"]) == (corpus, method, n_passes)]
        if found:
            points.append((np.median([run["seconds"] for run in found]), np.mean([run[name] for run in found])))
    return points


def show(runs):
    for corpus in corpora_of(runs):
        title(corpus)
        begin_table(("method", "passes", "seconds", "perplexity", "coherence"))
        for method, numbers in PASSES.items():
            perplexity, coherence = (curve(runs, corpus, method, name) for name in ("perplexity", "coherence"))
            for n_passes, (seconds, value), (_, coherent) in zip(numbers, perplexity, coherence, strict=False):
                row((method, n_passes, f"{seconds:.3g}", f"{value:.0f}", f"{coherent:.3f}"))


def draw(runs, path):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    plt.style.use(STYLE)
    corpora = corpora_of(runs)
    figure, axes = plt.subplots(len(corpora), 2, figsize=(11, 4 * len(corpora)), squeeze=False)
    for corpus, of_corpus in zip(corpora, axes, strict=True):
        for axis, name in zip(of_corpus, ("perplexity", "coherence"), strict=True):
            for number, method in enumerate(PASSES):
                x, y = zip(*curve(runs, corpus, method, name), strict=True)
                axis.plot(x, y, label=method, **line_style(number))
            axis.set(xscale="log", xlabel="seconds of processor time", ylabel=f"{corpus}: {name}")
            axis.xaxis.set_major_formatter("{x:g}")
        of_corpus[0].set_yscale("log")
        of_corpus[0].yaxis.set_major_formatter(ScalarFormatter())
        of_corpus[0].yaxis.set_minor_formatter(ScalarFormatter())
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    warnings.filterwarnings("ignore", category=UserWarning)  # of short fits
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="fit what is missing")
    parser.add_argument("--corpora", nargs="+", default=["ap"], choices=CORPORA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
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
        notes = (
            f"K={K}; each row is a fit of its own. Perplexity by document completion of a random tenth of the "
            "documents; NPMI coherence of the ten most probable words in the training documents; processor time in one "
            f"thread. {ALL_WORDS} {source}"
        )
        finish(options, "tomotopy", "gensim", notes=notes)
