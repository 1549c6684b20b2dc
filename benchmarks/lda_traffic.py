"""Bytes that a pass sends on a cluster, parameters down and counts up, packed and not, and seconds per pass.

Rows are in shards of this process; bytes are those of pickles with their buffers, as Dask sends them: between the
client and the first of two workers, and between the workers.

    SKMANIFOLD_DATA=... python benchmarks/lda_traffic.py --n-components 100 1000
"""

from __future__ import annotations

import argparse
import pickle
import time

import numpy as np
from _corpora import load_counts
from _results import add_write, begin_table, finish, row, title
from sklearn.base import clone

from skmanifold import StochasticLDA, distributed
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.shards import TokenShards
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.inference._chains import Chain
from skmanifold.inference._distributed_fits.dask_shards import tree_rounds
from skmanifold.inference._distributed_fits.shards import Shard, ShardedModel, packed, unpacked
from skmanifold.inference._distributed_fits.sources import CountsSource
from skmanifold.samplers import ESCA
from skmanifold.sparse.counts import canonical_csr, no_rows, whole_counts
from skmanifold.utils._threads import Workers

MB = 1e6


class Unpacked(TokenShards):
    """Shards that send arrays without packing."""

    pack = unpack = staticmethod(lambda value: value)


def wire_bytes(value):
    """Bytes of a pickle and of its buffers."""
    buffers = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(pickled) + sum(buffer.raw().nbytes for buffer in buffers)


class CountedShards:
    """Shards in this process, with the number of bytes that a cluster would send between them."""

    def __init__(self, builder, counts, n_shards):
        self.builder = builder
        self.shards = []
        first_row = 0
        for blocks in CountsSource(counts).split(n_shards):
            shard = Shard(builder, blocks)
            shard.begin(first_row, counts.n_features, Workers(2))
            self.shards.append(shard)
            first_row += shard.n_rows
        self.sent = {}
        self.seconds = {}

    def _count(self, name, function, *arguments):
        start = time.perf_counter()
        value = function(*arguments)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        return value

    def call(self, method, chain, position, key):
        self.sent = dict.fromkeys(("client to worker", "down the tree", "up the tree", "worker to client"), 0)
        self.seconds = {}
        position = self._count("pack", packed, self.builder, position)
        self.sent["client to worker"] = wire_bytes(position)
        self.shards[0].hold(chain, position)
        for pairs in reversed(tree_rounds(len(self.shards))):
            for of, to in pairs:
                self.sent["down the tree"] += wire_bytes(self.shards[of].held_by(chain))
                self.shards[to].hold(chain, self.shards[of].held_by(chain))
        log_likelihood = sum(shard.run(method, chain, key) for shard in self.shards)
        for pairs in tree_rounds(len(self.shards)):
            for into, of in pairs:
                statistics = self._count("pack", self.shards[of].send, chain)
                self.sent["up the tree"] += wire_bytes(statistics)
                statistics = self._count("unpack", unpacked, self.builder, statistics)
                mine = self.shards[into].take(chain)
                self.shards[into].hold(chain, self._count("merge", self.builder.merge, mine, statistics))
        statistics = self._count("pack", self.shards[0].send, chain)
        self.sent["worker to client"] = wire_bytes(statistics)
        return self._count("unpack", unpacked, self.builder, statistics), log_likelihood


def changed_cells(before, after):
    """Share of cells that differ, among those that are non-zero in one of two passes."""
    before, after = before.tocsr(), after.tocsr()
    return (before != after).nnz / ((before + after) != 0).nnz


def measure(counts, n_components, n_passes, n_shards):
    """Passes of ESCA; then the bytes of further passes, sent without packing and packed."""
    alpha = np.full(n_components, 1.0 / n_components)
    head = LDAModel(no_rows(counts.n_features), alpha, TopicPrior(0.1, n_components, counts.n_features), Workers(2))
    sampler = ESCA()
    shards = CountedShards(TokenShards(alpha, np.uint64(0), "StochasticLDA"), counts, n_shards)
    model = ShardedModel(head, shards)
    state = sampler.init(model, np.uint64(1))
    print(f"\nK = {n_components}: {counts.n_rows} documents, {counts.n_features} words, {counts.n_tokens} tokens")
    for iteration in range(1, n_passes + 1):
        before = state.statistics
        state = sampler.step(model, state)
        if iteration in (1, 2, 5, 10, 20, 50, 100, n_passes):
            nnz = len(state.statistics.topics)
            large = np.mean(state.statistics.counts > 254)
            print(
                f"pass {iteration}: {nnz} non-zeros, {nnz / counts.n_features:.1f} topics per word, "
                f"{counts.n_tokens / nnz:.1f} tokens each, {large:.2%} of 255 or more, "
                f"{changed_cells(before, state.statistics):.0%} changed",
                flush=True,
            )
    richness = fit_richness(counts, state.statistics)
    nnz, V, K = len(state.statistics.topics), counts.n_features, n_components
    halves = [len(shard.model._count_topics(shard.latents[0]).topics) for shard in shards.shards]
    print(f"non-zeros of the shards: {halves}; together {nnz}")
    print(
        f"formula: position {(6 * nnz + 16 * V + 8 * K) / MB:.1f} MB, packed {(3 * nnz + 10 * V + 8 * K) / MB:.1f} MB"
    )
    print(f"formula: counts {(6 * nnz + 8 * V + 8 * K) / MB:.1f} MB, packed {(3 * nnz + 2 * V + 8 * K) / MB:.1f} MB")
    sent = f"{nnz / 1e6:.2f} million", f"{nnz / counts.n_features:.0f}"
    for kind in (Unpacked, TokenShards):
        shards.builder = kind(alpha, np.uint64(0), "StochasticLDA")
        for shard in shards.shards:
            shard.builder = shards.builder
        seconds = []
        for _ in range(5):
            state = sampler.step(model, state)
            seconds.append(shards.seconds)
        spent = ", ".join(f"{name} {np.median([s[name] for s in seconds]):.3f} s" for name in shards.seconds)
        print(f"{kind.__name__}: {spent}", flush=True)
        if kind is Unpacked:
            title(f"K={n_components}: megabytes of a pass after {n_passes} passes")
            begin_table(("counts", "non-zero", "topics per word", *shards.sent))
        row(("32 bits" if kind is Unpacked else "packed", *sent, *(f"{n / MB:.1f}" for n in shards.sent.values())))
    return richness


def fit_richness(counts, statistics):
    """Factor a and exponent b of topics(c) = a c**b, from words of c tokens with neither one nor all topics."""
    tokens = np.bincount(counts.indices, counts.counts, counts.n_features)
    n_topics, K = np.diff(statistics.indptr), len(statistics.totals)
    for low in 4.0 ** np.arange(1, 9):
        some = (tokens >= low) & (tokens < 4 * low)
        if some.any():
            words = f"words with {low:.0f} to {4 * low:.0f} tokens: {n_topics[some].mean():.0f} topics of {K}"
            print(f"{words}, {some.sum()} words")
    inner = (tokens >= 16) & (n_topics < K / 2)
    b, log_a = np.polyfit(np.log(tokens[inner]), np.log(n_topics[inner]), 1)
    return np.exp(log_a), b


def extrapolate(richness, n_tokens, V, K, n_workers):
    """Bytes of a pass over a larger corpus: Zipf's law for its words, and the fitted number of topics for each word."""
    a, b = richness
    tokens = n_tokens / np.sum(1.0 / np.arange(1, V + 1)) / np.arange(1, V + 1)
    fitted = np.minimum(np.minimum(a * tokens**b, K), tokens).sum()
    print(f"topics(c) = {a:.2f} c**{b:.2f}; {len(tree_rounds(n_workers))} rounds each way")
    size = f"{n_tokens / 1e6:.0f} million tokens, {V:,} words"
    title(f"Computed for {size}, K={K}, {n_workers} workers: megabytes of a pass")
    begin_table(("counts", "non-zero", "topics per word", "down", "down, packed", "up", "up, packed"))
    for name, nnz in (("by the fitted formula", fitted), ("no count zero", float(V * K))):
        down, up = (6 * nnz + 16 * V) / MB, (6 * nnz + 8 * V) / MB
        packed_down, packed_up = (3 * nnz + 10 * V) / MB, (3 * nnz + 2 * V) / MB
        cells = f"{down:.0f}", f"{packed_down:.0f}", f"{up:.0f}", f"{packed_up:.0f}"
        row((name, f"{nnz / 1e6:.1f} million", f"{nnz / V:.0f}", *cells))


def timed(lda, X):
    """Seconds of each pass after the first."""
    times, advance = [], Chain.advance

    def clocked(chain, *arguments):
        advance(chain, *arguments)
        times.append(time.perf_counter())

    Chain.advance = clocked
    try:
        clone(lda).fit(X)
    finally:
        Chain.advance = advance
    return np.diff(times)


def synchronous_cost(X, n_components, n_passes, n_rounds):
    """Median seconds per pass of alternating fits: one thread, two threads, two workers of one thread."""
    from distributed import Client, LocalCluster

    lda = StochasticLDA(n_components, max_iter=n_passes, burn_in=n_passes - 1, random_state=0)
    seconds = {"one thread": [], "two threads": [], "two workers": [], "two workers, direct": []}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        Client(cluster, direct_to_workers=True, set_as_default=False) as direct,
    ):
        for _ in range(n_rounds):
            seconds["one thread"] += timed(clone(lda).set_params(n_jobs=1), X).tolist()
            seconds["two threads"] += timed(clone(lda).set_params(n_jobs=2), X).tolist()
            for name, own in (("two workers", client), ("two workers, direct", direct)):
                with distributed(own):
                    seconds[name] += timed(lda, X).tolist()
    title(f"K={n_components}: seconds per pass, medians")
    begin_table(tuple(seconds), [[f"{np.median(values):.3f}" for values in seconds.values()]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki")
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--n-passes", type=int, default=100)
    parser.add_argument("--n-shards", type=int, default=2)
    parser.add_argument("--timed-passes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    add_write(parser)
    options = parser.parse_args()
    X = load_counts(options.corpus)
    counts = whole_counts(canonical_csr(X), np.uint64(0))
    for n_components in options.n_components:
        richness = measure(counts, n_components, options.n_passes, options.n_shards)
        extrapolate(richness, 738e6, 141_043, n_components, 16)  # PubMed abstracts as the UCI repository has them
    for n_components in options.n_components:
        if options.rounds:
            synchronous_cost(X, n_components, options.timed_passes, options.rounds)
    finish(options, "distributed")
