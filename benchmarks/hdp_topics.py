"""`HDPAdmixture` on real text: perplexity and coherence without a number of topics, and LDA over a grid of numbers.

`StochasticLDA` has learned priors of the proportions. tomotopy's `HDPModel` and gensim's `HdpModel` are read after 30
and 120 seconds of processor time in one thread; `HDPAdmixture` makes as many passes as take 70% to 100% of this time,
by trials with fewer passes. A random tenth of the documents is held out. Perplexity is computed by document completion,
with each method's own prior of the proportions. Coherence is the mean NPMI of the ten most probable words of each topic
with more than 0.1% of the tokens, in the training documents.

    python -m benchmarks.hdp_topics --write
    python -m benchmarks.hdp_topics --measure --corpora ap --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import _stored
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks.lda_defaults import ALL_WORDS, corpora_of, split
from skmanifold import HDPAdmixture, StochasticLDA
from skmanifold.metrics import document_completion, topic_coherence
from skmanifold.sparse.counts import as_counts
from skmanifold.topics.proportions import infer_proportions
from skmanifold.topics.topic_word import as_topic_word

STORED = Path(__file__).with_suffix(".jsonl")
CORPORA = ("ap", "bbc", "ng20", "wiki")
BUDGETS = (30, 120)
GRID = (20, 50, 100, 200)
LEAST_SHARE = 0.001
_ENOUGH, _AIM = 0.7, 0.95  # of the seconds that a method may use


def fit_hdp(X, seed, max_iter=400):
    start = time.process_time()
    hdp = HDPAdmixture(max_iter=max_iter, max_draws_bytes=0, random_state=seed).fit(X)
    return hdp.components_, hdp.doc_topic_prior_, time.process_time() - start


def fit_hdp_for(seconds, X, seed):
    n_passes = 20  # the first passes take longer than the later ones
    while True:
        fitted = fit_hdp(X, seed, n_passes)
        if _ENOUGH * seconds < fitted[2] <= seconds:
            return fitted
        n_passes = int(n_passes * _AIM * seconds / fitted[2])


def fit_lda(K, X, seed):
    start = time.process_time()
    lda = StochasticLDA(K, doc_topic_prior="auto", random_state=seed).fit(X)
    return lda.components_, lda.doc_topic_prior_, time.process_time() - start


def fit_tomotopy(seconds, X, seed, initial_k=2):
    import tomotopy

    model = tomotopy.HDPModel(seed=seed + 1, initial_k=initial_k)
    for i in range(X.shape[0]):
        entries = slice(X.indptr[i], X.indptr[i + 1])
        words = np.repeat(X.indices[entries], X.data[entries])
        if len(words):
            model.add_doc([str(word) for word in words])
    model.train(0, workers=1)
    start = time.process_time()
    while time.process_time() - start < seconds:
        model.train(5, workers=1)
    used = time.process_time() - start
    lda, _ = model.convert_to_lda()
    columns = np.array([int(word) for word in lda.used_vocabs])
    topics = np.full((lda.k, X.shape[1]), 1e-12)
    for topic in range(lda.k):
        topics[topic, columns] = lda.get_topic_word_dist(topic)
    return topics / topics.sum(axis=1, keepdims=True), np.broadcast_to(lda.alpha, lda.k).astype(float), used


def fit_gensim(seconds, X, seed):
    from gensim.matutils import Sparse2Corpus
    from gensim.models import HdpModel

    documents = Sparse2Corpus(X, documents_columns=False)
    names = {word: str(word) for word in range(X.shape[1])}
    start = time.process_time()
    model = HdpModel(documents, names, max_time=seconds, random_state=seed)
    used = time.process_time() - start
    alpha, topics = model.hdp_to_lda()
    return topics / topics.sum(axis=1, keepdims=True), np.maximum(alpha, 1e-12), used


METHODS = {
    "HDPAdmixture": fit_hdp,
    **{f"StochasticLDA, K = {K}": partial(fit_lda, K) for K in GRID},
    **{f"HDPAdmixture, {s} s": partial(fit_hdp_for, s) for s in BUDGETS},
    **{f"tomotopy HDPModel, {s} s": partial(fit_tomotopy, s) for s in BUDGETS},
    **{f"tomotopy HDPModel, initial_k=100, {s} s": partial(fit_tomotopy, s, initial_k=100) for s in BUDGETS},
    **{f"gensim HdpModel, {s} s": partial(fit_gensim, s) for s in BUDGETS},
}


def scores(topics, prior, train, test):
    """Perplexity, coherence, and numbers of topics."""
    perplexity = document_completion(topics, test, prior).perplexity
    some = train[: min(2000, train.shape[0])]
    proportions = infer_proportions(as_topic_word(topics), as_counts(some), prior)
    lengths = np.asarray(some.sum(axis=1)).ravel()
    shares = lengths @ proportions / lengths.sum()
    large = shares > LEAST_SHARE
    coherence = float(np.nanmean(topic_coherence(topics[large], train)))
    return {
        "perplexity": perplexity,
        "coherence": coherence,
        "n_topics": len(topics),
        "above 0.1%": int(large.sum()),
        "above 1%": int((shares > 0.01).sum()),
    }


def measure(options):
    """Fit what is missing, and add it to the file."""
    _, runs = _stored.read(STORED)
    done = {(run["corpus"], run["method"], run["seed"]) for run in runs}
    for corpus in options.corpora:
        train, test = split(corpus, True)
        fit_hdp(train[:50], 0, 4)  # load the machine code
        for seed in options.seeds:
            for method in options.methods:
                if (corpus, method, seed) in done:
                    continue
                topics, prior, seconds = METHODS[method](train, seed)
                found = scores(topics, prior, train, test)
                run = {"corpus": corpus, "method": method, "seed": seed, "seconds": seconds, **found}
                _stored.append(STORED, run, "tomotopy", "gensim")
                print(corpus, method, seed, f"{seconds:.0f} s", *(f"{x:.4g}" for x in found.values()), flush=True)


def cell(runs, name, digits):
    """Mean and standard error over seeds."""
    values = np.array([run[name] for run in runs])
    if not len(values):
        return ""
    spread = f" ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}" if len(values) > 1 else ""
    return f"{values.mean():.{digits}f}{spread}"


def show(runs):
    """A table for each corpus."""
    columns = {"perplexity": 1, "coherence": 3, "n_topics": 0, "above 0.1%": 0, "above 1%": 0, "seconds": 0}
    for corpus in corpora_of(runs):
        of_corpus = [run for run in runs if run["corpus"] == corpus]
        title(corpus)
        begin_table(("method", "perplexity", "NPMI", "topics", "above 0.1%", "above 1%", "seconds"))
        for method in METHODS:
            of_method = [run for run in of_corpus if run["method"] == method]
            if of_method:
                row((method, *(cell(of_method, name, digits) for name, digits in columns.items())))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="fit what is missing")
    parser.add_argument("--corpora", nargs="+", default=["ap"], choices=CORPORA)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    add_write(parser)
    options = parser.parse_args()
    if options.measure:
        measure(options)
    source, runs = _stored.read(STORED, "All methods")
    if runs:
        show(runs)
        notes = "Mean ± standard error over seeds. `HDPAdmixture` and `StochasticLDA` make 400 passes by default."
        finish(options, "tomotopy", "gensim", notes=f"{notes} {ALL_WORDS} {source}")
