"""Runs of spherical admixtures at the concentrations of Liu et al. (2016), figure 5, and their held-out scores.

20News-different with the tf-idf of the authors (1,666 training and 1,107 test documents, V=5,000), K=20; Wikipedia, or
16,000 abstracts of NSF, as tf-idf (3,000 words of medium document frequency, 1,000 test documents), K=50. After given
numbers of passes the score is that of up to 10 evenly spaced draws of the second half of the run so far, averaged
document by document, as `score` would give it; variational methods have one estimate. It is the negative mean log
density per document with respect to surface area, by importance sampling. Seconds are of one core, without scoring.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from skmanifold.admixture._spherical.estimator import SphericalAdmixture
from skmanifold.admixture._spherical.fit_strategies import fit_strategy, is_variational
from skmanifold.base import Run, Schedule
from skmanifold.metrics._spherical_held_out import integrate_documents
from skmanifold.random._keys import root_key
from skmanifold.samplers import GMC, GSGNHT, SGGMC, SVRG, BlockwiseGMC, MeanField, StochasticMeanField
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

SETTINGS = SphericalAdmixture._settings
MINIBATCH = "minibatch"
METHODS = {  # sampler, and the size of its minibatches: that of the paper, None for all documents
    "gsgnht": (lambda: GSGNHT(**SETTINGS["gsgnht"]), MINIBATCH),
    "sggmc": (lambda: SGGMC(**SETTINGS["sggmc"]), MINIBATCH),
    "gsgnht, SVRG": (lambda: GSGNHT(**{**SETTINGS["gsgnht"], "control_variate": SVRG(50)}), MINIBATCH),
    "gsgnht, all documents": (lambda: GSGNHT(**SETTINGS["gsgnht"]), None),
    "gmc": (lambda: GMC(**SETTINGS["gmc"]), None),
    "gmc_gibbs": (lambda: BlockwiseGMC(**SETTINGS["gmc_gibbs"]), None),
    "vb": (MeanField, None),
    "svb": (StochasticMeanField, MINIBATCH),
    "sggmc, all documents": (lambda: SGGMC(**SETTINGS["sggmc"]), None),
    "gsgnht, minibatches of 25": (lambda: GSGNHT(**SETTINGS["gsgnht"]), 25),
    "gsgnht, minibatches of 200": (lambda: GSGNHT(**SETTINGS["gsgnht"]), 200),
}
DATA = {  # topics, minibatch, kappa_1, sigma, kappa_0, passes of burn-in of minibatch and of other samplers
    "news": (20, 50, 3e4, 1e4, 1e4, 40, 150),
    "wiki": (50, 100, 2e4, 6e3, 6e3, 20, 20),
    "nsf": (50, 100, 2e4, 6e3, 6e3, 20, 20),
}
COUNTS = {"wiki": ("wiki2018_counts", None), "nsf": ("nsf_counts", 16_000)}  # file, and largest number of documents
N_AVERAGED = 10


def load(name):
    """Training and test directions."""
    if name == "news":
        parts = [sp.load_npz(data_folder() / f"ng20diff_{part}_tfidf.npz") for part in ("train", "test")]
    else:
        file, most = COUNTS[name]
        counts = sp.csr_array(sp.load_npz(data_folder() / f"{file}.npz")).astype(np.float64)
        frequency = np.asarray((counts > 0).sum(axis=0)).ravel() / counts.shape[0]
        middling = np.argsort(np.abs(np.log(frequency + 1e-12) - np.log(0.02)), kind="stable")[:3000]
        counts = counts[:, np.sort(middling)]
        counts = counts[np.asarray(counts.sum(axis=1)).ravel() > 20]
        order = np.random.default_rng(0).permutation(counts.shape[0])[:most]
        parts = [tfidf(counts[order[1000:]]), tfidf(counts[order[:1000]])]
    return [as_directions(part) for part in parts]


def some_of(rows, n):
    """The same random rows in each run, all if `n` is None; the rows of the corpus are sorted by class."""
    return as_directions(matrix(rows)[np.sort(np.random.default_rng(0).permutation(rows.n_rows)[:n])])


def tfidf(counts):
    n = counts.shape[0]
    frequency = np.asarray((counts > 0).sum(axis=0)).ravel()
    return counts @ sp.diags_array(np.log(n / (1.0 + frequency)))


def begin(name, rows, data, seed, workers, prepare=None):
    """The strategy of the fit, its model, which `prepare` may change, and first state."""
    make, batch = METHODS[name]
    K, minibatch, kappa, sigma, kappa_0, burn_in, burn_in_full = DATA[data]
    sampler, key = make(), root_key(seed)
    batch = minibatch if batch == MINIBATCH else batch
    admixture = SphericalAdmixture(
        K,
        doc_topic_prior=10.0,
        document_concentration=kappa,
        topic_concentration=sigma,
        mean_concentration=kappa_0,
        batch_size=batch,
        n_doc_samples=5,
        random_state=seed,
    )
    burn_in = burn_in if batch else burn_in_full
    strategy = fit_strategy(admixture, matrix(rows), Run(sampler, key, Schedule(burn_in + 1, burn_in, 1)))
    model = strategy.model(workers)
    if prepare:
        prepare(model)
    return strategy, model, strategy.passes.init(model, key), burn_in


def score(topics, held_out, data, seed, workers):
    """Log densities of the documents given the topics."""
    K, _, kappa, *_ = DATA[data]
    return integrate_documents(held_out, [topics], np.full(K, 10.0), kappa, root_key(seed), 200, workers).log_density


def run(name, rows, held_out, data, seed, marks, prepare=None):
    """Seconds, passes, scores of the average and of the last draw, and temperature after these numbers of passes."""
    kept, spent, known = [], 0.0, {}
    with Workers(1) as workers, threadpool_limits(1):
        start = time.process_time()
        strategy, model, state, burn_in = begin(name, rows, data, seed, workers, prepare)
        spent += time.process_time() - start
        for passes in range(1, max(marks) + 1):
            start = time.process_time()
            state = strategy.passes.step(model, state)
            if passes <= burn_in:
                model = strategy.adapt(model, state)
            spent += time.process_time() - start
            variational = is_variational(strategy.sampler)
            topics = state.statistics if variational else state.statistics.topics
            kept.append((passes, topics.astype(np.float32)))
            if passes in marks:
                half = [pair for pair in kept if pair[0] > passes // 2] if not variational else kept[-1:]
                chosen = [half[i] for i in np.unique(np.linspace(0, len(half) - 1, N_AVERAGED).astype(int))]
                known = {at: logs for at, logs in known.items() if at > passes // 2}
                for at, drawn in chosen:
                    if at not in known:
                        known[at] = score(drawn, held_out, data, seed, workers)
                logs = np.array([known[at] for at, _ in chosen])
                mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
                temperature = np.nan if variational else state.statistics.temperature
                yield spent, passes, -mean.mean(), -logs[-1].mean(), temperature
                kept = half


def matrix(rows):
    return sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_features))
