"""Tokens per second of a full pass over a corpus: samplers of StochasticLDA and other libraries in one run.

The state is trained first, because speed depends on the number of topics of a document. Then passes of all methods are
timed alternately, so that they run under the same conditions. Printed are medians and ranges, and ratios of times
within a round. The variational methods make one pass over a few documents.

    python -m benchmarks.lda_speed --corpus wiki --n-components 100 1000
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks._corpora import load_counts
from benchmarks._peers import installed
from benchmarks._results import add_write, begin_table, finish, row, show, title
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.samplers import ESCA, CollapsedGibbs, Gibbs
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers


class Ours:
    """One chain, stepped by hand."""

    def __init__(self, X, n_components, alpha, beta, sampler):
        counts = whole_counts(canonical_csr(X), np.uint64(0))
        prior = TopicPrior(beta, n_components, counts.n_features)
        self.model = LDAModel(counts, np.full(n_components, alpha), prior, Workers(1))
        self.sampler = sampler
        self.state = sampler.init(self.model, np.uint64(0))

    def step(self, workers=None):
        self.model.workers = workers or self.model.workers
        self.state = self.sampler.step(self.model, self.state)

    def topics_per_document(self):
        latents, layout = self.state.latents, self.model.layout
        rows = zip(layout.row_start, latents.row_vectors, strict=False)
        return float(np.mean([np.count_nonzero(latents.entries[begin : begin + 16 * n] > 0xFFFF) for begin, n in rows]))


def timed(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def spread(values, digits=3):
    """Median and range, with about three digits."""
    return "{:.{d}g} ({:.{d}g} to {:.{d}g})".format(np.median(values), np.min(values), np.max(values), d=digits)


def compare(X, n_components, n_train, n_rounds):
    alpha, beta, n_tokens = 50 / n_components, 0.1, int(X.sum())
    print(f"\nK={n_components}: {X.shape[0]} documents, V={X.shape[1]}, {n_tokens} tokens", flush=True)
    esca = Ours(X, n_components, alpha, beta, ESCA())
    exact = {
        '"gibbs"': Ours(X, n_components, alpha, beta, Gibbs()),
        '"collapsed_gibbs"': Ours(X, n_components, alpha, beta, CollapsedGibbs()),
    }
    for _ in range(n_train):
        esca.step()
    n_exact = min(n_train, 2_000 // n_components)
    for chain in exact.values():
        for _ in range(n_exact):
            chain.step()
    peers = [trainer(X, n_components, alpha, beta) for trainer in installed(["tomotopy"])]
    for peer in peers:
        for _ in range(min(n_train, 40)):
            peer.step()
    one, two = Workers(1), Workers(2)
    steps = {  # what is timed in each round: how often, and the call
        ('"esca"', 1): (2, lambda: esca.step(one)),
        ('"esca"', 2): (2, lambda: esca.step(two)),
        **{(name, 1): (1, lambda chain=chain: chain.step(one)) for name, chain in exact.items()},
        ('"gibbs"', 2): (1, lambda: exact['"gibbs"'].step(two)),
        **{(f"{peer.name}, collapsed Gibbs", 1): (1, peer.step) for peer in peers},
    }
    times = {method: [] for method in steps}
    for _ in range(n_rounds):
        for method, (n_times, step) in steps.items():
            times[method].append(np.mean([timed(step) for _ in range(n_times)]))
    title(f"K={n_components}")
    begin_table(("method", "cores", "million tokens per second", 'time of a pass / `"esca"` on one core'))
    base = np.array(times['"esca"', 1])
    for (name, n_cores), seconds in times.items():
        ratio = "1" if name == '"esca"' and n_cores == 1 else spread(np.array(seconds) / base)
        method = f"`{name}`" if name.startswith('"') else name
        row((method, n_cores, spread(n_tokens / np.array(seconds) / 1e6), ratio))
    few = X[: max(100, 40_000 // n_components)]
    for trainer in installed(["gensim", "sklearn"]):
        seconds = timed(trainer(few, n_components, alpha, beta).step)
        speed = few.sum() / seconds / 1e6
        ratio = n_tokens / 1e6 / speed / np.median(base)
        row((f"{trainer.name}, online variational Bayes", 1, f"{speed:.2g}", f"{ratio:.0f}"))
    show(
        f'\n`"esca"` was trained for {n_train} passes ({esca.topics_per_document():.0f} topics per document), the '
        f"exact samplers for {n_exact}. Medians (ranges) of {n_rounds} rounds; the online methods read "
        f"{few.shape[0]} documents."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20", "synthetic"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000], help="numbers of topics")
    parser.add_argument("--n-train", type=int, default=80, help="passes before the timed ones")
    parser.add_argument("--n-rounds", type=int, default=7, help="rounds of timed passes")
    add_write(parser)
    options = parser.parse_args()
    counts = load_counts(options.corpus)
    for n in options.n_components:
        compare(counts, n, options.n_train, options.n_rounds)
    data = f"{options.corpus}: {counts.shape[0]:,} documents, {counts.shape[1]:,} words, {int(counts.sum()):,} tokens."
    finish(options, "tomotopy", "gensim", notes=data, part="" if options.corpus == "wiki" else f"_{options.corpus}")
