"""What a pass of topics on a cluster sends: bytes of parameters down and of counts up, packed and not, and its seconds.

Rows are in shards of this process; bytes are those of pickles with their buffers, as Dask sends them. Of each worker
it says what it receives and sends in a pass when there are two, of the client the same.

    SKMANIFOLD_DATA=... python benchmarks/lda_traffic.py --n-components 100 1000
"""

from __future__ import annotations

import argparse
import pickle
import time

import numpy as np
from _corpora import load_counts
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
    """Shards that send what they have as it is."""

    pack = unpack = staticmethod(lambda value: value)


def wire_bytes(value):
    """Bytes of a pickle and of the arrays that travel beside it."""
    buffers = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(pickled) + sum(buffer.raw().nbytes for buffer in buffers)


class CountedShards:
    """Shards in this process, and how many bytes a cluster would send between them."""

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
    """Share of the cells that are non-zero in one of two passes and differ."""
    before, after = before.tocsr(), after.tocsr()
    return (before != after).nnz / ((before + after) != 0).nnz


def measure(counts, n_components, n_passes, n_shards):
    """Passes of ESCA; then the bytes of one more, sent as it is and packed."""
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
                f"pass {iteration}: {nnz} non-zeros, {nnz / counts.n_features:.1f} topics a word, "
                f"{counts.n_tokens / nnz:.1f} tokens each, {large:.2%} of 255 and more, "
                f"{changed_cells(before, state.statistics):.0%} changed",
                flush=True,
            )
    richness = fit_richness(counts, state.statistics)
    nnz, V, K = len(state.statistics.topics), counts.n_features, n_components
    halves = [len(shard.model._count_topics(shard.latents[0]).topics) for shard in shards.shards]
    print(f"non-zeros of the shards: {halves}; in all {nnz}")
    print(
        f"formula: position {(6 * nnz + 16 * V + 8 * K) / MB:.1f} MB, packed {(3 * nnz + 10 * V + 8 * K) / MB:.1f} MB"
    )
    print(f"formula: counts {(6 * nnz + 8 * V + 8 * K) / MB:.1f} MB, packed {(3 * nnz + 2 * V + 8 * K) / MB:.1f} MB")
    for kind in (Unpacked, TokenShards):
        shards.builder = kind(alpha, np.uint64(0), "StochasticLDA")
        for shard in shards.shards:
            shard.builder = shards.builder
        seconds = []
        for _ in range(5):
            state = sampler.step(model, state)
            seconds.append(shards.seconds)
        told = ", ".join(f"{name} {n_bytes / MB:.1f} MB" for name, n_bytes in shards.sent.items())
        spent = ", ".join(f"{name} {np.median([s[name] for s in seconds]):.3f} s" for name in shards.seconds)
        print(f"{kind.__name__}: {told}; {spent}", flush=True)
    return richness


def fit_richness(counts, statistics):
    """Exponent b and factor a of topics(c) = a c**b, by words of c tokens that have more than one and not all."""
    tokens = np.bincount(counts.indices, counts.counts, counts.n_features)
    n_topics, K = np.diff(statistics.indptr), len(statistics.totals)
    for low in 4.0 ** np.arange(1, 9):
        some = (tokens >= low) & (tokens < 4 * low)
        if some.any():
            told = f"words of {low:.0f} to {4 * low:.0f} tokens: {n_topics[some].mean():.0f} topics of {K}"
            print(f"{told}, {some.sum()} words")
    inner = (tokens >= 16) & (n_topics < K / 2)
    b, log_a = np.polyfit(np.log(tokens[inner]), np.log(n_topics[inner]), 1)
    return np.exp(log_a), b


def extrapolate(richness, n_tokens, V, K, n_workers):
    """A pass of a corpus that is not here: Zipf's law for its words, and for each the topics that words here have."""
    a, b = richness
    tokens = n_tokens / np.sum(1.0 / np.arange(1, V + 1)) / np.arange(1, V + 1)
    law = np.minimum(np.minimum(a * tokens**b, K), tokens).sum()
    print(f"V = {V}, K = {K}, {n_tokens / 1e6:.0f}M tokens; topics(c) = {a:.2f} c**{b:.2f}; {n_workers} workers")
    for name, nnz in (("by the law", law), ("every cell", float(V * K))):
        down, up = (6 * nnz + 16 * V) / MB, (6 * nnz + 8 * V) / MB
        packed_down, packed_up = (3 * nnz + 10 * V) / MB, (3 * nnz + 2 * V) / MB
        print(
            f"{name}: {nnz / 1e6:.1f}M non-zeros, {nnz / V:.0f} topics a word; down {down:.0f} MB, packed "
            f"{packed_down:.0f}; up {up:.0f} MB, packed {packed_up:.0f}; {len(tree_rounds(n_workers))} rounds each way"
        )


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
    """Medians over the passes of fits that take turns: one thread, two threads, two workers of one thread."""
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
    for name, values in seconds.items():
        print(f"K = {n_components}, {name}: {np.median(values):.3f} s a pass ({len(values)} passes)", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki")
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--n-passes", type=int, default=100)
    parser.add_argument("--n-shards", type=int, default=2)
    parser.add_argument("--timed-passes", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    X = load_counts(options.corpus)
    counts = whole_counts(canonical_csr(X), np.uint64(0), by_content=False)
    for n_components in options.n_components:
        richness = measure(counts, n_components, options.n_passes, options.n_shards)
        extrapolate(richness, 738e6, 141_043, n_components, 16)  # PubMed abstracts as the UCI repository has them
    for n_components in options.n_components:
        if options.rounds:
            synchronous_cost(X, n_components, options.timed_passes, options.rounds)
