"""A corpus larger than memory: it is drawn from topics block by block, written to disk, and read in pieces.

The topics are Dirichlet around Zipf's law, as in `make_lda_corpus`. Documents are drawn with their proportions
integrated out: each token has a new topic, or that of an earlier token of its document. The draws of a document depend
on the seed and its number only, so that the corpus is the same for any block size and any number of threads. A corpus
that exists in the folder is used again.

    python -m benchmarks.lda_out_of_core --folder /data/corpus --n-tokens 1e9
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numba import njit

from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks.lda_memory import PeakMemory
from skmanifold import StochasticLDA
from skmanifold.datasets import make_lda_corpus, open_corpus, save_corpus
from skmanifold.random._discrete_variates import poisson
from skmanifold.random._keys import fold_in, random_bits, subkey, uniform
from skmanifold.random._variates import gamma_variate
from skmanifold.utils._threads import split_range

DISPERSION = 0.5  # of documents' lengths, as in collections of news articles
DOC_TOPIC_PRIOR = 0.1
LENGTHS, TOPICS, WORDS = range(3)  # what a document's draws are for


def draw_topics(n_components, n_features, seed):
    """Topics that share frequent words; rare words belong to few topics."""
    return make_lda_corpus(
        1, n_features, n_components, topic_word_prior=0.01, dtype=np.float32, random_state=seed
    ).components


@njit(cache=True, nogil=True)
def alias_table(weights, out):
    """Cells of equal weight, each shared by two words: 32 bits for the share of the first, 32 for the second word."""
    n = len(weights)
    scaled = weights.astype(np.float64) * (n / weights.astype(np.float64).sum())
    poor, rich = np.empty(n, np.int64), np.empty(n, np.int64)
    n_poor = n_rich = 0
    for v in range(n):
        out[v] = (np.uint64(0xFFFFFFFF) << np.uint64(32)) | np.uint64(v)
        if scaled[v] < 1.0:
            poor[n_poor] = v
            n_poor += 1
        else:
            rich[n_rich] = v
            n_rich += 1
    while n_poor > 0 and n_rich > 0:
        n_poor -= 1
        v, other = poor[n_poor], rich[n_rich - 1]
        out[v] = (np.uint64(scaled[v] * 4294967295.0) << np.uint64(32)) | np.uint64(other)
        scaled[other] -= 1.0 - scaled[v]
        if scaled[other] < 1.0:
            n_rich -= 1
            poor[n_poor] = other
            n_poor += 1


@njit(cache=True, nogil=True)
def draw_lengths(key, start, mean_length, out):
    """Negative binomial: a gamma mixture of Poissons."""
    for i in range(len(out)):
        own = fold_in(fold_in(key, start + i), LENGTHS)
        rate = gamma_variate(fold_in(own, 0), 1.0 / DISPERSION) * DISPERSION * mean_length
        out[i] = np.int64(poisson(fold_in(own, 1), rate))


@njit(cache=True, nogil=True)
def draw_word(bits, table):
    """The column that these random bits choose from an `alias_table`."""
    low = np.uint64(0xFFFFFFFF)
    cell = np.int64(((bits >> np.uint64(32)) * np.uint64(len(table))) >> np.uint64(32))
    shared = table[cell]
    return np.int32(cell) if (bits & low) <= (shared >> np.uint64(32)) else np.int32(shared & low)


@njit(cache=True, nogil=True)
def count_words(words, columns, counts, n_pairs):
    """Append the sorted words of a document with their counts to CSR arrays; returns the number of pairs."""
    words.sort()
    last = -1
    for word in words:
        if word != last:
            columns[n_pairs] = word
            counts[n_pairs] = 0
            n_pairs += 1
            last = word
        counts[n_pairs - 1] += 1
    return n_pairs


@njit(cache=True, nogil=True)
def draw_documents(key, start, lengths, tables, concentration, indptr, columns, counts):
    """Fill CSR arrays, which have space for all tokens, with documents from number `start` on."""
    n_components = len(tables)
    longest = lengths.max() if len(lengths) else 0
    topics = np.empty(longest, np.int32)
    words = np.empty(longest, np.int32)
    n_pairs = 0
    indptr[0] = 0
    for i in range(len(lengths)):
        own = fold_in(key, start + i)
        topic_key, word_key = fold_in(own, TOPICS), fold_in(own, WORDS)
        for j in range(lengths[i]):
            place = uniform(topic_key, j) * (concentration + j)
            if j == 0 or place < concentration:
                topics[j] = min(np.int64(place / concentration * n_components), n_components - 1)
            else:
                topics[j] = topics[min(np.int64(place - concentration), j - 1)]
        for j in range(lengths[i]):  # on its own: reads of different tokens' cells wait together
            words[j] = draw_word(random_bits(word_key, j), tables[topics[j]])
        n_pairs = count_words(words[: lengths[i]], columns, counts, n_pairs)
        indptr[i + 1] = n_pairs
    return n_pairs


class TopicModel:
    """The truth, from which documents are drawn by their numbers."""

    def __init__(self, n_components, n_features, mean_length, seed):
        self.mean_length = mean_length
        self.components = draw_topics(n_components, n_features, seed)
        self.key = subkey(np.uint64(seed), 0)
        self.tables = np.empty(self.components.shape, np.uint64)
        for weights, table in zip(self.components, self.tables, strict=True):
            alias_table(weights, table)

    def documents(self, start, stop):
        """The documents of these numbers as a CSR array."""
        n_components, n_features = self.tables.shape
        lengths = np.empty(stop - start, np.int64)
        draw_lengths(self.key, start, self.mean_length, lengths)
        indptr = np.empty(len(lengths) + 1, np.int64)
        columns, counts = np.empty((2, lengths.sum()), np.int32)
        concentration = DOC_TOPIC_PRIOR * n_components
        n = draw_documents(self.key, start, lengths, self.tables, concentration, indptr, columns, counts)
        return sp.csr_array((counts[:n], columns[:n], indptr), shape=(len(lengths), n_features))

    def blocks(self, n_documents, n_threads, size=5_000):
        """All documents in order, drawn by threads a few blocks ahead of who takes them."""
        with ThreadPoolExecutor(n_threads) as pool:
            ahead = deque()
            for piece in split_range(n_documents, size):
                ahead.append(pool.submit(self.documents, *piece))
                if len(ahead) > 2 * n_threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()


def corpus_on_disk(options):
    """The corpus in the folder; it is made if it does not exist."""
    n_documents = round(options.n_tokens / options.mean_length)
    if Path(options.folder).exists():
        corpus = open_corpus(options.folder)
        if corpus.shape != (n_documents, options.n_features):
            raise SystemExit(
                f"{corpus} is not {n_documents} documents of {options.n_features} words: name another folder."
            )
        return corpus
    model = TopicModel(options.n_topics, options.n_features, options.mean_length, options.seed)
    model.documents(0, 1)  # compiles
    with PeakMemory() as memory:
        start = time.perf_counter()
        blocks = model.blocks(n_documents, options.n_threads)
        corpus = save_corpus(blocks, options.folder, n_features=options.n_features)
        seconds = time.perf_counter() - start
    print(
        f"drawn and written in {seconds:.0f} s: {corpus.n_tokens / seconds / 1e6:.1f} million tokens/s, "
        f"{corpus.nnz / seconds / 1e6:.1f} million pairs/s, "
        f"at most {(memory.peak - memory.before) / 2**20:.0f} MiB of memory"
    )
    return corpus


def describe(corpus):
    n_bytes = sum(file.stat().st_size for file in corpus.path.iterdir())
    print(corpus)
    print(f"{n_bytes / 2**30:.2f} GiB on disk: {corpus.nnz} pairs, {n_bytes / corpus.n_tokens:.2f} bytes per token")


def read(corpus, piece_tokens):
    """Once through the corpus, piece by piece."""
    with PeakMemory() as memory:
        start = time.perf_counter()
        for piece in corpus.pieces(piece_tokens):
            corpus.counts(*piece)
        seconds = time.perf_counter() - start
    print(
        f"read in {seconds:.1f} s: {corpus.n_tokens / seconds / 1e6:.0f} million tokens/s, "
        f"at most {(memory.peak - memory.before) / 2**20:.0f} MiB of memory"
    )


def fit(corpus, options):
    """Passes over the corpus, of which only a piece is in memory."""
    tail = (corpus.shape[0] - options.n_held_out, corpus.shape[0])
    held_out = corpus.rows(*tail)
    lda = StochasticLDA(
        options.n_components, doc_topic_prior=0.1, max_iter=options.max_iter, random_state=0, n_jobs=options.n_jobs
    )
    with PeakMemory() as memory:
        start = time.perf_counter()
        lda.fit(corpus)
        seconds = time.perf_counter() - start
    trace = lda.log_density_trace_[0] / corpus.n_tokens
    speed = (options.max_iter + 1) * corpus.n_tokens / seconds / 1e6
    title(f"{corpus.n_tokens:,} tokens, {corpus.shape[0]:,} documents, {corpus.shape[1]:,} words")
    head = "million tokens per second", "peak memory, MiB", "memory before the fit, MiB"
    begin_table(("K", "threads", "passes, and a random start", "seconds", *head))
    cells = f"{speed:.2f}", f"{memory.peak / 2**20:,.0f}", f"{memory.before / 2**20:,.0f}"
    row((options.n_components, options.n_jobs, options.max_iter, f"{seconds:.0f}", *cells))
    print("log likelihood per token by pass:", " ".join(f"{value:.4f}" for value in trace))
    print(f"perplexity of {options.n_held_out} documents by document completion: {lda.perplexity(held_out):.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="where the corpus is or will be")
    parser.add_argument("--n-tokens", type=float, default=1e9)
    parser.add_argument("--n-features", type=int, default=50_000)
    parser.add_argument("--n-topics", type=int, default=100)
    parser.add_argument("--mean-length", type=float, default=200)
    parser.add_argument("--piece-tokens", type=float, default=1e6)
    parser.add_argument("--n-threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--n-components", type=int, default=100)
    parser.add_argument("--max-iter", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--n-held-out", type=int, default=10_000)
    add_write(parser)
    options = parser.parse_args()
    corpus = corpus_on_disk(options)
    describe(corpus)
    read(corpus, int(options.piece_tokens))
    warm_up = make_lda_corpus(200, 500, 5, random_state=0).data
    StochasticLDA(5, max_iter=2).fit(warm_up).perplexity(warm_up)  # compiles
    fit(corpus, options)
    finish(options)
