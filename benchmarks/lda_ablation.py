"""Time of ESCA's S step by the method of the draws: all weights, alias tables, or the library's kernels.

The question is that of Fig. 5 of Zaheer et al. (2016). Four S steps begin from the same state, after 20 passes of ESCA,
and make their passes in turn in one thread:

- all weights: the K weights of each token from dense counts, and one draw by inverse CDF;
- alias tables: a sum over the topics of the document, and for the prior one alias table per word, made in each pass
  (appendix E of the paper);
- inverse CDF: `LDAModel.sample_latents`, which also computes the log likelihood;
- inverse CDF, without the token: `LDAModel.sample_given_others`, the S step of `sampler="esca"`.

The first three draw from the same distribution. The time contains the counts of the new topics, but not the M step.

    python -m benchmarks.lda_ablation --write
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks._corpora import load_counts
from benchmarks._esca_variants import alias, dense_state, plain, seconds_of_tables, step
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.topic_counts import TopicPrior
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import ESCA
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

BETA = 0.1
NAMES = "all weights", "alias tables", "inverse CDF", "inverse CDF, without the token"


class Dense:
    """A chain whose S step is a kernel of `_esca_variants`."""

    def __init__(self, kernel, model, latents):
        self.kernel, self.model = kernel, model
        self.state = dense_state(model, latents)

    def step(self, key):
        """Make a pass; return its seconds."""
        start = time.process_time()
        self.state = step(self.kernel, self.model, self.state, BETA, key)
        return time.process_time() - start


class Library:
    """A chain whose S step is that of the library."""

    def __init__(self, sample, model, state):
        self.sample, self.model = sample, model
        self.latents = type(state.latents)(*(array.copy() for array in state.latents))
        self.position = state.position

    def step(self, key):
        """Make a pass; return the seconds of its S step."""
        start = time.process_time()
        self.latents, statistics, _ = self.sample(self.position, self.latents, key)
        seconds = time.process_time() - start
        self.position = self.model.mode(statistics)
        return seconds


def make_chains(X, n_components, n_passes):
    """The chains by name, in the same state after `n_passes` passes."""
    counts = whole_counts(canonical_csr(X), np.uint64(0))
    alpha = np.full(n_components, 1.0 / n_components)
    model = LDAModel(counts, alpha, TopicPrior(BETA, n_components, counts.n_features), Workers(1))
    sampler = ESCA()
    state = sampler.init(model, root_key(0))
    for _ in range(n_passes):
        state = sampler.step(model, state)
    return model, {
        NAMES[0]: Dense(plain, model, state.latents),
        NAMES[1]: Dense(alias, model, state.latents),
        NAMES[2]: Library(model.sample_latents, model, state),
        NAMES[3]: Library(model.sample_given_others, model, state),
    }


def topics_per_document(state, counts):
    """The mean number of topics that a document has."""
    rows = np.repeat(np.repeat(np.arange(counts.n_rows), np.diff(counts.indptr)), counts.counts)
    return len(np.unique(rows.astype(np.int64) << 16 | state.topics)) / counts.n_rows


def main(options):
    X = load_counts(options.corpus)
    _, small = make_chains(X[:20], 5, 1)
    for chain in small.values():  # load the machine code
        chain.step(np.uint64(0))
    seconds_of_tables(small[NAMES[1]].model, small[NAMES[1]].state, BETA)
    title(f"{options.corpus}: million tokens per second")
    begin_table(("K", "topics per document", *NAMES, "share of the tables"))
    for n_components in options.n_components:
        model, chains = make_chains(X, n_components, options.n_first)
        n_topics = topics_per_document(chains[NAMES[0]].state, model.counts)
        speeds, shares = {name: [] for name in NAMES}, []
        for turn in range(options.n_turns):
            for name, chain in chains.items():
                seconds = chain.step(subkey(root_key(1), turn))
                speeds[name].append(model.n_tokens / seconds / 1e6)
                if name == "alias tables":
                    shares.append(seconds_of_tables(model, chain.state, BETA) / seconds)
        cells = (f"{np.median(each):.3g} ({min(each):.3g} to {max(each):.3g})" for each in speeds.values())
        row((n_components, f"{n_topics:.1f}", *cells, f"{np.median(shares):.0%}"))
    notes = (
        f"Median (range) of {options.n_turns} passes in turn, processor time in one thread, after {options.n_first} "
        f"passes of ESCA; {model.n_tokens:,} tokens, {X.shape[0]:,} documents, {X.shape[1]:,} words; prior 1/K of the "
        f"proportions and {BETA} of the topics. The time is that of the S step with the counts of the new topics. "
        "The last column is the share of the time with alias tables in which the tables are made."
    )
    finish(options, notes=notes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="ng20", choices=["ng20", "wiki", "synthetic"])
    parser.add_argument("--n-components", type=int, nargs="+", default=[50, 100, 200, 500, 1000])
    parser.add_argument("--n-first", type=int, default=20)
    parser.add_argument("--n-turns", type=int, default=5)
    add_write(parser)
    main(parser.parse_args())
