"""Memory and time of ESCA's topic counts: exact in 32 bits, exact and packed in a byte, or in approximate counters.

Two chains from one seed, with exact and with approximate counters, make their passes alternately on one core. After
each pass of the exact chain its statistics are packed and unpacked, which must reproduce all bytes. Held-out perplexity
is computed by document completion, from the average of the exact counts of the last passes, and from the parameters
after the last pass alone, which belong to rounded counts if counters are approximate. Memory is that of all arrays,
indices and totals included.

    python -m benchmarks.lda_counters --corpus wiki --n-components 100 1000
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks._corpora import load_counts, split_documents
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.compact_counts import pack, round_counts, unpack
from skmanifold.admixture._tokens.topic_counts import TopicPrior, add_counts, mean_counts
from skmanifold.inference._schedule import WindowAverage
from skmanifold.metrics import document_completion
from skmanifold.random._keys import root_key
from skmanifold.samplers import ESCA
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

ROWS = {"exact": ("exact, 32 bits", "exact, packed"), "approximate": ("approximate, 8 bits",)}


class Chain:
    """One chain, stepped by hand."""

    def __init__(self, X, n_components, counter, n_passes, n_average, seed):
        counts = whole_counts(canonical_csr(X), np.uint64(0))
        prior = TopicPrior(0.1, n_components, counts.n_features)
        self.alpha = np.full(n_components, 50 / n_components)
        self.model = LDAModel(counts, self.alpha, prior, Workers(1))
        self.sampler = ESCA(counter=counter)
        self.state = self.sampler.init(self.model, root_key(seed))
        self.average = WindowAverage(n_average, n_passes, 1, add_counts)
        self.seconds, self.packing = [], []

    def step(self):
        start = time.perf_counter()
        self.state = self.sampler.step(self.model, self.state)
        self.seconds.append(time.perf_counter() - start)
        self.average.update(self.state.n_steps, self.state.statistics)

    def pack(self):
        start = time.perf_counter()
        again = unpack(pack(self.state.statistics))
        self.packing.append(time.perf_counter() - start)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(again, self.state.statistics, strict=True))

    def perplexities(self, X_test):
        """Of the average, and of the last position alone with normalised topics."""
        average = self.model.mode(mean_counts(*self.average.total()))
        last = self.state.position.toarray()
        return [document_completion(topics, X_test, self.alpha).perplexity for topics in (average, last)]


def size(arrays):
    return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))


def spread(values, digits):
    return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def describe_memory(chain):
    """Bytes per non-zero count of what a pass reads and writes, and of the average."""
    statistics, sums = chain.state.statistics, chain.average.total()[0]
    n = len(statistics.counts)
    rounded = round_counts(statistics, np.uint64(0))
    kinds = {"exact, 32 bits": statistics, "exact, packed": pack(statistics), "approximate, 8 bits": rounded}
    share = np.mean(statistics.counts >= 255)
    print(f"{n} non-zero counts, {share:.2%} need more than a byte, precision {rounded.precision}")
    print(
        f"in addition: weights of the position {chain.state.position.weights.nbytes / n:.2f} bytes each, "
        f"sums of {chain.average.total()[1]} passes {size(sums) / n:.2f} ({len(sums.counts) / n:.2f} times as many)"
    )
    return {name: size(arrays) / n for name, arrays in kinds.items()}


def compare(corpus, n_components, options):
    train, test = split_documents(load_counts(corpus))
    print(f"\n{corpus}, K={n_components}: {int(train.sum())} tokens, {options.n_passes} passes", flush=True)
    results = {}
    for seed in options.seeds:
        shared = (options.n_passes, options.n_average, seed)
        chains = {counter: Chain(train, n_components, counter, *shared) for counter in ROWS}
        for _ in range(options.n_passes):
            for chain in chains.values():
                chain.step()
            chains["exact"].pack()
        for counter, chain in chains.items():
            results.setdefault(counter, []).append((chain, chain.perplexities(test)))
    n_bytes = describe_memory(results["exact"][0][0])
    times = {
        counter: np.concatenate([chain.seconds[options.n_passes // 4 :] for chain, _ in of])
        for counter, of in results.items()
    }
    packing = np.concatenate([chain.packing[options.n_passes // 4 :] for chain, _ in results["exact"]])
    seconds = dict(
        zip(sum(ROWS.values(), ()), (times["exact"], times["exact"] + packing, times["approximate"]), strict=True)
    )
    title(f"{corpus}, K={n_components}")
    head = "counts", "bytes per non-zero count", "seconds per pass", "time / exact"
    begin_table((*head, "perplexity, average of the last passes", "last pass alone"))
    for counter, names in ROWS.items():
        perplexities = np.array([both for _, both in results[counter]])
        for name in names:
            ratio = seconds[name] / times["exact"]
            quartiles = " to ".join(f"{q:.3f}" for q in np.quantile(ratio, [0.25, 0.75]))
            cells = [f"{n_bytes[name]:.2f}", spread(seconds[name], 3), f"{np.median(ratio):.3f} ({quartiles})"]
            row((name, *cells, *(spread(column, 1) for column in perplexities.T)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--n-passes", type=int, default=100)
    parser.add_argument("--n-average", type=int, default=20)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add_write(parser)
    options = parser.parse_args()
    for n in options.n_components:
        compare(options.corpus, n, options)
    part = "" if options.corpus == "wiki" else f"_{options.corpus}"
    finish(options, part=part, notes="Medians with ranges, of the time ratio with quartiles; bytes include indices.")
