"""Numbers of topics that `HDPAdmixture` finds in corpora with planted topics, from one topic and from three times K.

Words have Zipf frequencies. A topic is a draw from a Dirichlet distribution with these means, which is also the prior
of the fit, and a document has few topics. Topics with at least a given share of the tokens are counted in the draws
after burn-in and in the corpus. R-hat is that of this number over the two starts.

    python -m benchmarks.hdp_planted --write
    python -m benchmarks.hdp_planted --measure --n-components 10 30 100 --corpora 0 1 2 3 4
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from arviz_stats.base import array_stats

from benchmarks import _stored
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import HDPAdmixture
from skmanifold.metrics import match_topics

STORED = Path(__file__).with_suffix(".jsonl")
N_WORDS, LENGTH = 5000, 150
DOCUMENTS = {10: 2000, 30: 2000, 100: 4000}
PASSES = 600
SHARES = (0.01, 0.001)
PRIOR = 1 / (np.arange(N_WORDS) + 10.0)
PRIOR *= 0.05 * N_WORDS / PRIOR.sum()


def plant(K, seed):
    """Counts, topics and the topics' shares of the tokens."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(PRIOR, K)
    proportions = rng.dirichlet(np.full(K, 3.0 / K), DOCUMENTS[K])
    n_tokens = np.array([rng.multinomial(LENGTH, p) for p in proportions])
    words = proportions @ topics
    counts = np.array([rng.multinomial(LENGTH, p / p.sum()) for p in words])
    return counts, topics, n_tokens.sum(axis=0) / n_tokens.sum()


def shares_of_draws(hdp):
    """Weights of the topics in the second half of the passes, divided by their sum; NaN for others."""
    weights = hdp.posterior_["topic_weights"][0]
    return weights / np.nansum(weights, axis=1, keepdims=True)


def measure(options):
    """Fit what is missing, and add it to the file."""
    _, runs = _stored.read(STORED)
    done = {(run["K"], run["corpus"], run["start"]) for run in runs}
    for K in options.n_components:
        for corpus in options.corpora:
            X, topics, shares = plant(K, corpus)
            for start in (1, 3 * K):
                if (K, corpus, start) in done:
                    continue
                begin = time.process_time()
                hdp = HDPAdmixture(
                    init=start, topic_word_prior=PRIOR, max_iter=PASSES, max_draws_bytes=0, random_state=corpus
                ).fit(X)
                seconds = time.process_time() - begin
                drawn = shares_of_draws(hdp)
                cosines = match_topics(topics, hdp.components_).similarity
                run = {
                    "K": K,
                    "corpus": corpus,
                    "start": start,
                    "seconds": seconds,
                    "cosine": float(cosines.mean()),
                    "n_topics": hdp.posterior_["n_components"][0].tolist(),
                }
                for share in SHARES:
                    run[f"planted {share}"] = int((shares > share).sum())
                    run[f"found {share}"] = (drawn > share).sum(axis=1).tolist()
                _stored.append(STORED, run)
                found = [f"{np.median(run[f'found {share}']):g}/{run[f'planted {share}']}" for share in SHARES]
                print(K, corpus, start, *found, f"{run['cosine']:.3f} {seconds:.0f} s", flush=True)


def show(runs):
    """A table of numbers for each planted number."""
    for share in SHARES:
        title(
            f"Topics with more than {100 * share:g}% of the tokens: planted, and median over the draws from each start"
        )
        begin_table(("K", "corpus", "planted", "from 1", "from 3K", "R-hat", "all topics from 1", "from 3K"))
        for K, corpus in sorted({(run["K"], run["corpus"]) for run in runs}):
            pair = {run["start"]: run for run in runs if (run["K"], run["corpus"]) == (K, corpus)}
            if len(pair) < 2:
                continue
            one, many = pair[1], pair[3 * K]
            found = [np.array(run[f"found {share}"], float) for run in (one, many)]
            spread = np.ptp(found)
            rhat = array_stats.rhat(np.array(found), chain_axis=0, draw_axis=1) if spread else 1.0
            medians = [f"{np.median(values):g}" for values in found]
            totals = [f"{np.median(run['n_topics']):g}" for run in (one, many)]
            row((K, corpus, one[f"planted {share}"], *medians, f"{float(rhat):.2f}", *totals))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help="fit what is missing")
    parser.add_argument("--n-components", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--corpora", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    add_write(parser)
    options = parser.parse_args()
    if options.measure:
        measure(options)
    source, runs = _stored.read(STORED, "All runs")
    if runs:
        show(runs)
        setting = f"{N_WORDS} words, documents of {LENGTH} tokens, {PASSES} passes, of which half are burn-in."
        finish(options, notes=f"{setting} {source}")
