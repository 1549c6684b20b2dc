"""Bytes that a pass sends on a cluster, parameters down and counts up, packed and not.

Rows are in shards of this process, which are one group: each gets a piece of the parameters from the client and the
other pieces from the other shards, and merges the counts of a part of the words. Bytes are those of pickles with their
buffers, as Dask sends them. `benchmarks.cluster` measures times.

    SKMANIFOLD_DATA=... python -m benchmarks.lda_traffic --n-components 100 1000
"""

from __future__ import annotations

import argparse
import pickle
import time
from functools import partial

import numpy as np

from benchmarks._corpora import load_counts
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.shards import StorableTokens, TokenShards
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.inference._distributed_fits.exchange import joined_parts, merge_packed, packed, packed_parts
from skmanifold.inference._distributed_fits.shards import Shard, ShardedModel
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
            shard.begin(first_row, counts.n_features, workers=Workers(2))
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
        self.sent = dict.fromkeys(("client to workers", "between workers", "workers to client"), 0)
        self.seconds = {}
        n = len(self.shards)
        if position is not None:
            self.sent["client to workers"] = wire_bytes(self._count("pack", packed, self.builder, position))
            self.sent["between workers"] = (n - 1) * self.sent["client to workers"]
        results = [shard.run(method, chain, position, key) for shard in self.shards]
        parts = [self._count("pack", packed_parts, self.builder, statistics, n) for statistics, _ in results]
        self.sent["between workers"] += sum(wire_bytes(parts[i][j]) for i in range(n) for j in range(n) if i != j)
        merged_parts = [
            self._count("merge", merge_packed, self.builder, list(same)) for same in zip(*parts, strict=True)
        ]
        self.sent["workers to client"] = wire_bytes(merged_parts)
        statistics = self._count("unpack", joined_parts, self.builder, merged_parts)
        return statistics, sum(log_likelihood for _, log_likelihood in results)


def changed_cells(before, after):
    """Share of cells that differ, among those that are non-zero in one of two passes."""
    before, after = before.tocsr(), after.tocsr()
    return (before != after).nnz / ((before + after) != 0).nnz


def measure(counts, n_components, n_passes, n_shards):
    """Passes of ESCA; then the bytes of further passes, sent without packing and packed."""
    alpha = np.full(n_components, 1.0 / n_components)
    head = LDAModel(no_rows(counts.n_features), alpha, TopicPrior(0.1, n_components, counts.n_features), Workers(2))
    sampler, make = ESCA(), partial(StorableTokens, doc_topic_prior=alpha)
    shards = CountedShards(TokenShards(make, np.uint64(0), "StochasticLDA"), counts, n_shards)
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
        shards.builder = kind(make, np.uint64(0), "StochasticLDA")
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
    print(f"topics(c) = {a:.2f} c**{b:.2f}")
    size = f"{n_tokens / 1e6:.0f} million tokens, {V:,} words"
    title(f"Computed for {size}, K={K}, {n_workers} workers: megabytes of a pass")
    begin_table(("counts", "non-zero", "topics per word", "down", "down, packed", "up", "up, packed"))
    for name, nnz in (("by the fitted formula", fitted), ("no count zero", float(V * K))):
        down, up = (6 * nnz + 16 * V) / MB, (6 * nnz + 8 * V) / MB
        packed_down, packed_up = (3 * nnz + 10 * V) / MB, (3 * nnz + 2 * V) / MB
        cells = f"{down:.0f}", f"{packed_down:.0f}", f"{up:.0f}", f"{packed_up:.0f}"
        row((name, f"{nnz / 1e6:.1f} million", f"{nnz / V:.0f}", *cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki")
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--n-passes", type=int, default=100)
    parser.add_argument("--n-shards", type=int, default=2)
    add_write(parser)
    options = parser.parse_args()
    X = load_counts(options.corpus)
    counts = whole_counts(canonical_csr(X), np.uint64(0))
    for n_components in options.n_components:
        richness = measure(counts, n_components, options.n_passes, options.n_shards)
        extrapolate(richness, 738e6, 141_043, n_components, 16)  # PubMed abstracts as the UCI repository has them
    finish(options, "distributed")
