"""Peak memory of a fit in addition to the corpus.

python -m benchmarks.lda_memory                  # K=1000, 12M tokens, V=50,000
python -m benchmarks.lda_memory --huge           # and K=10,000, V=1,000,000
"""

from __future__ import annotations

import argparse
import resource
import threading
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks._corpora import load_counts
from benchmarks._results import add_write, begin_table, finish, row
from skmanifold import StochasticLDA

PAGE = resource.getpagesize()


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class PeakMemory:
    """The largest resident size while the block runs, read a hundred times per second."""

    def __enter__(self):
        self.before = self.peak = resident_bytes()
        self.running = True
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        while self.running:
            self.peak = max(self.peak, resident_bytes())
            time.sleep(0.01)

    def __exit__(self, *exc_info):
        self.running = False
        self.thread.join()


def fit(X, n_components, max_iter):
    StochasticLDA(10, max_iter=3, random_state=0).fit(X[:100])
    lda = StochasticLDA(n_components, doc_topic_prior=50 / n_components, max_iter=max_iter, random_state=0, n_jobs=2)
    with PeakMemory() as memory:
        start = time.perf_counter()
        lda.fit(X)
        seconds = time.perf_counter() - start
    corpus = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    row(
        (
            f"{n_components:,}",
            f"{X.shape[1]:,}",
            f"{int(X.sum()):,}",
            f"{corpus / 2**20:.0f}",
            f"{(memory.peak - memory.before) / 2**20:.0f}",
            max_iter,
            f"{seconds:.0f}",
        )
    )


def wide_corpus():
    """V = 1,000,000: words with Zipf frequencies, and a topic for each of 5,000 parts of the vocabulary."""
    rng = np.random.default_rng(0)
    n_documents, length, n_features = 60_000, 200, 1_000_000
    ranks = np.minimum(rng.zipf(1.3, n_documents * length) - 1, 199)
    stretch = np.repeat(rng.integers(0, 5_000, n_documents), length)
    words = np.where(rng.random(len(ranks)) < 0.9, stretch * 200 + ranks, rng.integers(0, n_features, len(ranks)))
    documents = np.repeat(np.arange(n_documents), length)
    return sp.csr_array((np.ones(len(words), np.int32), (documents, words)), shape=(n_documents, n_features))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--huge", action="store_true", help="also fit K=10,000 with a million words")
    parser.add_argument("--max-iter", type=int, default=100)
    add_write(parser)
    options = parser.parse_args()
    memory = "corpus, MiB", "peak memory of the fit in addition to the corpus, MiB"
    begin_table(("K", "words", "tokens", *memory, "passes", "seconds"))
    fit(load_counts("synthetic"), 1000, options.max_iter)
    if options.huge:
        fit(wide_corpus(), 10_000, min(options.max_iter, 30))
    finish(options)
