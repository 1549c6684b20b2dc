"""Tokens per second of a full pass over a corpus, ours and the peers' in one run.

The state is trained first (speed depends on how many topics a document has), then passes of ours on one worker, ours on
two, and the fastest peer's are timed in turn, so that all see the same machine; medians and ranges are printed, and the
ratios of passes that stood side by side. The variational peers take part with one pass over a few documents.

    python benchmarks/lda_speed.py --corpus wiki --n-components 100 1000
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _corpora import load_counts
from _peers import installed

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


def describe(seconds, n_tokens):
    speeds = n_tokens / np.array(seconds) / 1e6
    return f"{np.median(speeds):7.3f} Mtokens/s ({speeds.min():.3f} to {speeds.max():.3f}, n={len(speeds)})"


def compare(X, n_components, n_train, n_rounds):
    alpha, beta, n_tokens = 50 / n_components, 0.1, int(X.sum())
    print(f"\nK={n_components}: {X.shape[0]} documents, V={X.shape[1]}, {n_tokens} tokens", flush=True)
    ours = Ours(X, n_components, alpha, beta, ESCA())
    exact = {
        "gibbs": Ours(X, n_components, alpha, beta, Gibbs()),
        "collapsed gibbs": Ours(X, n_components, alpha, beta, CollapsedGibbs()),
    }
    for _ in range(n_train):
        ours.step()
    for chain in exact.values():
        for _ in range(min(n_train, 2_000 // n_components)):
            chain.step()
    peers = [trainer(X, n_components, alpha, beta) for trainer in installed(["tomotopy"])]
    for peer in peers:
        for _ in range(min(n_train, 40)):
            peer.step()
    one, two = Workers(1), Workers(2)
    times = {"ours, one core": [], "ours, two cores": [], **{peer.name + ", one core": [] for peer in peers}}
    for _ in range(n_rounds):
        times["ours, one core"] += [timed(lambda: ours.step(one)) for _ in range(2)]
        times["ours, two cores"] += [timed(lambda: ours.step(two)) for _ in range(2)]
        for peer in peers:
            times[peer.name + ", one core"].append(timed(peer.step))
        for name, chain in exact.items():
            times.setdefault(name + ", one core", []).append(timed(lambda chain=chain: chain.step(one)))
        times.setdefault("gibbs, two cores", []).append(timed(lambda: exact["gibbs"].step(two)))
    print(f"trained state: {n_train} passes, {ours.topics_per_document():.1f} topics a document")
    for name, seconds in times.items():
        print(f"{name:24s} {describe(seconds, n_tokens)}", flush=True)
    base = np.array(times["ours, one core"])
    print(f"two cores / one core     {np.median(base / np.array(times['ours, two cores'])):.2f}")
    for peer in peers:
        ratio = np.array(times[peer.name + ", one core"]) / base.reshape(n_rounds, 2).mean(axis=1)
        print(f"ours / {peer.name:17s} {np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f}), one core each")
    for name in ("gibbs, one core", "gibbs, two cores", "collapsed gibbs, one core"):
        ratio = np.array(times[name]) / base.reshape(n_rounds, 2).mean(axis=1)
        print(f"time of {name} / ESCA, one core: {np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})")
    few = X[: max(100, 40_000 // n_components)]
    for trainer in installed(["gensim", "sklearn"]):
        peer = trainer(few, n_components, alpha, beta)
        speed = describe([timed(peer.step)], int(few.sum()))
        print(f"{trainer.name + ', one core':24s} {speed}, {few.shape[0]} documents")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="wiki", choices=["wiki", "ng20", "synthetic"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--n-train", type=int, default=80)
    parser.add_argument("--n-rounds", type=int, default=7)
    options = parser.parse_args()
    counts = load_counts(options.corpus)
    for n in options.n_components:
        compare(counts, n, options.n_train, options.n_rounds)
