"""Cost of a minibatch: documents per second compared with online variational Bayes, and growth with the vocabulary.

``--peers``: one minibatch of `--batch` documents of Wikipedia through ``partial_fit`` (K=100, V=14,766), alternating
with online variational Bayes of scikit-learn and gensim on the same minibatch, one core each. ``--race``: held-out
perplexity after equal training time, for each of the batch sizes. ``--vocabulary``: the time of a minibatch of 50
documents of about 200 tokens as V grows, for each sampler.

    python -m benchmarks.lda_minibatch --peers --race --vocabulary
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp

from benchmarks._corpora import load_counts, split_documents
from benchmarks._results import add_write, begin_table, finish, row, title
from skmanifold import StochasticLDA
from skmanifold.metrics import document_completion
from skmanifold.samplers import SCIR, PolynomialDecay

ALPHA, BETA = 0.1, 0.1
SCHEDULE = PolynomialDecay(0.5, 10.0, 0.6)


def make_ours(n_components, total, sampler="scir", **settings):
    return StochasticLDA(
        n_components,
        sampler=sampler,
        doc_topic_prior=ALPHA,
        topic_word_prior=BETA,
        total_samples=total,
        random_state=0,
        **settings,
    )


class Ours:
    n_sweeps = 10
    name = "scir, 10 sweeps"

    def __init__(self, X, n_components):
        sweeps = {"n_local_sweeps": self.n_sweeps, "n_local_burn_in": self.n_sweeps // 2}
        self.model = make_ours(n_components, X.shape[0], SCIR(SCHEDULE), **sweeps)

    def update(self, batch):
        self.model.partial_fit(batch)

    def score(self, X_test):
        return self.model.perplexity(X_test)


class OursShort(Ours):
    n_sweeps = 5
    name = "scir, 5 sweeps"


class OursLong(Ours):
    n_sweeps = 20
    name = "scir, 20 sweeps"


class ScikitLearn:
    name = "scikit-learn"

    def __init__(self, X, n_components):
        from sklearn.decomposition import LatentDirichletAllocation

        self.model = LatentDirichletAllocation(
            n_components, doc_topic_prior=ALPHA, topic_word_prior=BETA, total_samples=X.shape[0], random_state=0
        )
        self.n_components = n_components

    def update(self, batch):
        self.model.batch_size = batch.shape[0]
        self.model.partial_fit(batch)

    def score(self, X_test):
        prior = np.full(self.n_components, ALPHA)
        return document_completion(self.model.components_, X_test, prior).perplexity


class Gensim:
    name = "gensim"

    def __init__(self, X, n_components):
        from gensim.models import LdaModel

        names = {word: str(word) for word in range(X.shape[1])}
        self.model = LdaModel(id2word=names, num_topics=n_components, alpha=[ALPHA] * n_components, eta=BETA)
        self.n_components, self.total = n_components, X.shape[0]

    def update(self, batch):
        from gensim.matutils import Sparse2Corpus

        self.model.num_updates = max(self.model.num_updates, self.total - batch.shape[0])  # documents in all
        self.model.update(list(Sparse2Corpus(batch, documents_columns=False)), chunksize=batch.shape[0])

    def score(self, X_test):
        prior = np.full(self.n_components, ALPHA)
        return document_completion(self.model.get_topics(), X_test, prior).perplexity


def draw_batch(X, size, rng):
    return X[np.sort(rng.choice(X.shape[0], size, replace=False))]


def spread(values):
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def compare_peers(options):
    X, _ = split_documents(load_counts("wiki"))
    for size in options.batch:
        trainers = [kind(X, options.n_components) for kind in (Ours, OursShort, OursLong, ScikitLearn, Gensim)]
        rng = np.random.default_rng(0)
        times = {trainer.name: [] for trainer in trainers}
        for turn in range(options.warm_up + options.turns):
            batch = draw_batch(X, size, rng)
            for trainer in trainers:
                if 0 < turn < options.warm_up and not isinstance(trainer, Ours):
                    continue
                start = time.perf_counter()
                trainer.update(batch)
                seconds = time.perf_counter() - start
                if turn >= options.warm_up:
                    times[trainer.name].append(seconds)
        title(f"Minibatches of {size} documents, K={options.n_components}, V={X.shape[1]:,}, {options.turns} runs")
        begin_table(("method", "seconds", "documents per second", f"time / time of {Ours.name}"))
        for name, seconds in times.items():
            ratio = np.array(seconds) / np.array(times[Ours.name])
            row((name, spread(seconds), f"{size / np.median(seconds):,.0f}", spread(ratio)))


def race(options):
    X, test = split_documents(load_counts("wiki"))
    test = test[:500]
    title(f"Held-out perplexity after the same training time, K={options.n_components}")
    begin_table(("method", "minibatch", *(f"{budget:g} s" for budget in options.budgets)))
    for kind in (OursLong, ScikitLearn, Gensim):
        for size in options.race_batch:
            trainer, rng, seconds, line = kind(X, options.n_components), np.random.default_rng(0), 0.0, []
            for budget in options.budgets:
                while seconds < budget:
                    batch = draw_batch(X, size, rng)
                    start = time.perf_counter()
                    trainer.update(batch)
                    seconds += time.perf_counter() - start
                line.append(f"{trainer.score(test):.0f}")
            row((trainer.name, size, *line))


def make_documents(n_documents, n_words, rng):
    """Documents of about 200 tokens whose words have Zipf's frequencies."""
    weights = 1.0 / np.arange(10, n_words + 10)
    cumulative = np.cumsum(weights / weights.sum())
    tokens = np.minimum(np.searchsorted(cumulative, rng.random((n_documents, 200))), n_words - 1)
    rows = np.repeat(np.arange(n_documents), 200)
    return sp.coo_array((np.ones(tokens.size, np.int32), (rows, tokens.ravel())), (n_documents, n_words)).tocsr()


def grow_vocabulary(options):
    samplers = {
        "scir": SCIR(SCHEDULE),
        "scir, lazy=False": SCIR(SCHEDULE, lazy=False),
        **{name: name for name in ("sgrld", "sgrhmc", "sgld", "sghmc")},
    }
    title(f"Milliseconds per minibatch of 50 documents, K={options.vocabulary_components}")
    begin_table(("words", *samplers))
    for n_words in options.vocabulary:
        cells = []
        for name, sampler in samplers.items():
            n_bytes = 8 * n_words * options.vocabulary_components
            if name != "scir" and n_bytes > options.most_bytes:
                cells.append("")
                continue
            rng = np.random.default_rng(0)
            lda = make_ours(options.vocabulary_components, 100_000, sampler, max_draws_bytes=0)
            times = []
            for turn in range(5 + options.turns):
                batch = make_documents(50, n_words, rng)
                start = time.perf_counter()
                lda.partial_fit(batch)
                if turn >= 5:
                    times.append(1e3 * (time.perf_counter() - start))
            cells.append(spread(times))
        row((f"{n_words:,}", *cells))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message=".* does not draw from the posterior", category=UserWarning)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", action="store_true", help="time minibatches of all libraries")
    parser.add_argument("--race", action="store_true", help="measure perplexity after equal training time")
    parser.add_argument("--vocabulary", nargs="*", type=int, help="time minibatches for these numbers of words")
    parser.add_argument("--n-components", type=int, default=100)
    parser.add_argument("--batch", type=int, nargs="+", default=[50, 500])
    parser.add_argument("--race-batch", type=int, nargs="+", default=[50, 250])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--warm-up", type=int, default=40)
    parser.add_argument("--budgets", type=float, nargs="+", default=[5, 15, 30])
    parser.add_argument("--vocabulary-components", type=int, default=50)
    parser.add_argument("--most-bytes", type=float, default=1e9)
    add_write(parser)
    options = parser.parse_args()
    if options.peers:
        compare_peers(options)
    if options.race:
        race(options)
    if options.vocabulary is not None:
        options.vocabulary = options.vocabulary or [1000, 10_000, 100_000, 1_000_000]
        grow_vocabulary(options)
    finish(options, "gensim", notes="One core per method; medians (ranges).")
