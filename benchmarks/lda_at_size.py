"""A fit to its end: 1e8 tokens at K=1000 from disk on two threads, next to tomotopy for the same time.

The corpus is drawn from a fit of the Wikipedia counts: each document has the length and the fitted proportions of a
random article, and its words come from the fitted topics. Perplexity is that of document completion of further
documents; the time for it is not counted. Each score is appended to a file as it is measured.

    SKMANIFOLD_DATA=... python -m benchmarks.lda_at_size make --folder /data/wiki-1e8
    python -m benchmarks.lda_at_size fit --folder /data/wiki-1e8 --seconds 7200
    python -m benchmarks.lda_at_size tomotopy --folder /data/wiki-1e8 --seconds 7200
    python -m benchmarks.lda_at_size show --write
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit

from benchmarks import _stored
from benchmarks._corpora import load_counts
from benchmarks._results import add_write, begin_table, finish, row, show, title
from benchmarks.lda_memory import PeakMemory
from benchmarks.lda_out_of_core import alias_table, count_words, draw_word
from skmanifold import StochasticLDA
from skmanifold.datasets import open_corpus, save_corpus
from skmanifold.metrics import document_completion
from skmanifold.random._keys import fold_in, random_bits, uniform
from skmanifold.utils._threads import split_range

FOUND = Path(__file__).parent / "lda_at_size.jsonl"
K, BETA = 1000, 0.1
ALPHA = 1 / K
N_HELD_OUT = 2_000
TOPIC, WORD = range(2)  # what the random numbers of a document are for
MARKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 130, 160, 200, 250, 300, 350, 400, 500, 600)  # passes


@njit(cache=True, nogil=True)
def draw_documents(key, start, articles, lengths, cumulated, tables, indptr, columns, counts):
    """Fill CSR arrays, which have space for all tokens, with documents from number `start` on."""
    words = np.empty(lengths.max(), np.int32)
    n_pairs = 0
    indptr[0] = 0
    for i in range(len(lengths)):
        own = fold_in(key, start + i)
        topic_key, word_key = fold_in(own, TOPIC), fold_in(own, WORD)
        shares = cumulated[articles[i]]
        for j in range(lengths[i]):
            topic = np.searchsorted(shares, uniform(topic_key, j) * shares[-1], side="right")
            topic = min(topic, len(shares) - 1)
            words[j] = draw_word(random_bits(word_key, j), tables[topic])
        n_pairs = count_words(words[: lengths[i]], columns, counts, n_pairs)
        indptr[i + 1] = n_pairs
    return n_pairs


def make(options):
    """Fit the articles, and write the corpus and the held-out documents."""
    X = load_counts("wiki")
    lda = StochasticLDA(K, max_iter=200, n_jobs=2, random_state=0).fit(X)
    cumulated = np.cumsum(lda.transform(X), axis=1, dtype=np.float64)
    tables = np.empty((K, X.shape[1]), np.uint64)
    for weights, table in zip(lda.components_, tables, strict=True):
        alias_table(weights / weights.sum(), table)
    all_lengths = np.asarray(X.sum(axis=1)).ravel().astype(np.int64)
    n_documents = round(options.n_tokens / all_lengths.mean()) + N_HELD_OUT
    articles = np.random.default_rng(0).integers(0, X.shape[0], n_documents)
    key = np.uint64(1)

    def documents(start, stop):
        chosen = articles[start:stop]
        lengths = all_lengths[chosen]
        indptr = np.empty(len(lengths) + 1, np.int64)
        columns, counts = np.empty((2, lengths.sum()), np.int32)
        n = draw_documents(key, start, chosen, lengths, cumulated, tables, indptr, columns, counts)
        return sp.csr_array((counts[:n], columns[:n], indptr), shape=(len(lengths), X.shape[1]))

    folder = Path(options.folder)
    sp.save_npz(folder.with_suffix(".held_out.npz"), documents(0, N_HELD_OUT))
    blocks = (documents(N_HELD_OUT + a, N_HELD_OUT + b) for a, b in split_range(n_documents - N_HELD_OUT, 5_000))
    print(save_corpus(blocks, folder, n_features=X.shape[1]))


class Scores:
    """Perplexity after passes, and the seconds of the passes; stops the fit before `most` seconds."""

    def __init__(self, name, X, most):
        self.name, self.X, self.most = name, X, most
        self.seconds = 0.0
        self.resume()

    def resume(self):
        """Count time from now on."""
        self.start = time.perf_counter()

    def after(self, n_passes, topics, alpha):
        """After a pass: whether it is time to stop. `topics` returns the current topics."""
        self.seconds += time.perf_counter() - self.start
        stop = self.seconds * (1 + 1 / n_passes) > self.most
        if n_passes in MARKS or stop:
            perplexity = float(document_completion(topics(), self.X, np.full(K, alpha), n_jobs=2).perplexity)
            run = {"name": self.name, "passes": n_passes, "seconds": self.seconds, "perplexity": perplexity}
            _stored.append(FOUND, run, "tomotopy")
            print(run, flush=True)
        self.resume()
        return stop

    # A callback of skmanifold

    def setup(self, estimator, context):
        self.resume()

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is None or context.max_subtasks != 0:
            return False
        return self.after(context.task_id + 1, lambda: fitted_estimator.components_, ALPHA)


def fit(options):
    """StochasticLDA from disk, until it rests or the time has passed."""
    corpus = open_corpus(options.folder)
    X = sp.load_npz(Path(options.folder).with_suffix(".held_out.npz"))
    some = corpus.rows(0, 200)
    StochasticLDA(K, max_iter=2, n_jobs=2).fit(some)  # compiles
    scores = Scores("skmanifold", X, options.seconds)
    lda = StochasticLDA(K, topic_word_prior=BETA, n_jobs=2, random_state=0)
    with PeakMemory() as memory:
        lda.set_callbacks(scores).fit(corpus)
    final = {"name": "skmanifold, average of the last passes", "passes": lda.n_iter_, "seconds": scores.seconds}
    final["perplexity"] = float(lda.perplexity(X))
    final["peak_bytes"], final["tokens"] = memory.peak, corpus.n_tokens
    _stored.append(FOUND, final, "tomotopy")
    print(final)


def tomotopy(options):
    """Fit by tomotopy with two threads for the same time; all documents are in memory."""
    import tomotopy as tp

    corpus = open_corpus(options.folder)
    X = sp.load_npz(Path(options.folder).with_suffix(".held_out.npz"))
    model = tp.LDAModel(k=K, alpha=options.alpha, eta=BETA, seed=1)
    names = np.array([str(word) for word in range(corpus.shape[1])])
    for start, stop in split_range(len(corpus), 5_000):
        counts = corpus.counts(start, stop)
        for i in range(stop - start):
            some = slice(counts.indptr[i], counts.indptr[i + 1])
            words = np.repeat(counts.indices[some], counts.counts[some])
            if len(words):
                model.add_doc(names[words].tolist())
    model.optim_interval = 0
    model.train(0, workers=2)
    columns = np.array([int(word) for word in model.used_vocabs])

    def topics():
        out = np.full((K, corpus.shape[1]), 1e-12)
        for topic in range(K):
            out[topic, columns] = model.get_topic_word_dist(topic)
        return out

    scores = Scores(f"tomotopy, alpha = {options.alpha:g}", X, options.seconds)
    for n_passes in range(1, 100_000):
        model.train(1, workers=2)
        if scores.after(n_passes, topics, options.alpha):
            break


def show_all(options):
    """The table of all scores."""
    source, runs = _stored.read(FOUND, "All runs")
    show(source)
    title("Held-out perplexity by seconds of passes, two threads, K=1000, 1e8 tokens")
    begin_table(("", "passes", "seconds", "perplexity"))
    for run in runs:
        row((run["name"], run["passes"], f"{run['seconds']:.0f}", f"{run['perplexity']:.1f}"))
    finish(options, "tomotopy")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["make", "fit", "tomotopy", "show"])
    parser.add_argument("--folder", default="wiki-1e8")
    parser.add_argument("--n-tokens", type=float, default=1e8)
    parser.add_argument("--seconds", type=float, default=7200.0)
    parser.add_argument("--alpha", type=float, default=ALPHA, help="of tomotopy, for each topic")
    add_write(parser)
    options = parser.parse_args()
    {"make": make, "fit": fit, "tomotopy": tomotopy, "show": show_all}[options.action](options)
