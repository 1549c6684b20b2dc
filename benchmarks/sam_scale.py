"""Time of a step of a spherical admixture and memory as the corpus grows, and the time of the parts of a step.

Synthetic sparse corpora with V=3,000, K=50, 80 entries per document (`make_spherical_admixture`), minibatches of 100;
and 20News-different (1,666 documents, V=5,000), K=20, minibatches of 50, with ten transitions of proportions per visit,
and the gradient from all documents. Medians over repetitions, with ranges. One core.

With `--scores` held-out densities of 2,000 embeddings of 20 Newsgroups (`embeddings.py`), after a fit of 3,000 others
with default settings. Errors are differences from a run with twenty times as many draws of the proportions.

    python -m benchmarks.sam_scale --sizes 1500 15000 150000
    python -m benchmarks.sam_scale --scores
"""

from __future__ import annotations

import argparse
import resource
import time
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks._corpora import data_folder
from benchmarks._results import add_write, begin_table, finish, row, title
from benchmarks.embeddings import read_texts
from skmanifold import SphericalAdmixture
from skmanifold.admixture._spherical.passes import SphericalMinibatchPasses
from skmanifold.admixture._spherical.setup import set_up
from skmanifold.admixture._spherical.targets import ConditionalSAM, MinibatchSAM, move_chains
from skmanifold.datasets import make_spherical_admixture
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import GSGNHT
from skmanifold.sparse.directions import as_directions
from skmanifold.utils._threads import Workers

N_TURNS = 15
ABOUT_SCORES = "2,000 held-out embeddings of 20 Newsgroups, 384 columns, K=20, default settings."


def begin(X, n_components, batch_size, n_draws, workers):
    """A sampler, its target and first state."""
    key = root_key(0)
    settings = SimpleNamespace(
        n_components=n_components,
        doc_topic_prior=None,
        document_concentration="auto",
        topic_concentration="auto",
        mean_concentration="auto",
        mean_direction=None,
        topic_scale="auto",
        n_jobs=1,
    )
    setup = set_up(settings, as_directions(X), key, batch_size)
    sampler = GSGNHT(**SphericalAdmixture._settings["gsgnht"])
    model = setup.model(workers)
    begun = SphericalMinibatchPasses(sampler, batch_size, n_draws, 1).init(model, key)
    return sampler, MinibatchSAM(model, begun.latents, subkey(key, 1), batch_size, n_draws, True), begun.moving


def times_of(call, n_calls):
    """Milliseconds of a call: median and range over repetitions of several calls."""
    call()
    turns = []
    for _ in range(N_TURNS):
        start = time.perf_counter()
        for _ in range(n_calls):
            call()
        turns.append(1e3 * (time.perf_counter() - start) / n_calls)
    return f"{np.median(turns):.2f} ({min(turns):.2f} to {max(turns):.2f})"


def time_steps(sampler, target, state):
    def step():
        nonlocal state
        state = sampler.step(target, state)

    return times_of(step, 20)


def measure_growth(sizes):
    title("Growth with the corpus")
    head = "documents", "milliseconds per step", "set-up and first step, seconds"
    begin_table((*head, "peak memory, GiB", "data, GiB"))
    for n in sizes:
        X = make_spherical_admixture(n, 3000, 50, n_words=80, random_state=0).data
        data = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**30
        with Workers(1) as workers:
            start = time.perf_counter()
            sampler, target, state = begin(X, 50, 100, 5, workers)
            state = sampler.step(target, state)
            first = time.perf_counter() - start
            of_step = time_steps(sampler, target, state)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        row((f"{n:,}", of_step, f"{first:.1f}", f"{peak:.2f}", f"{data:.3f}"))


def measure_parts():
    X = sp.load_npz(data_folder() / "ng20diff_train_tfidf.npz")
    with Workers(1) as workers:
        sampler, target, state = begin(X, 20, 50, 10, workers)
        title("Parts of a step")
        begin_table(("part", "milliseconds"))
        row(("a step with 50 documents, ten transitions of proportions", time_steps(sampler, target, state)))
        model, rows = target.model, target.model.directed
        out = np.empty_like(state.position)
        draws = np.empty((len(rows), 1, 20))
        turned = model.to_word_major(state.position[0])
        of_chains = times_of(lambda: move_chains(model, target.chains, rows, 1, turned, 1, True, draws), 3)
        row(("one transition of the proportions of all documents", of_chains))
        conditional = ConditionalSAM(model, draws)
        of_gradient = times_of(lambda: conditional.grad_log_density(state.position, None, out), 10)
        row(("gradient of the topics from all documents, given proportions", of_gradient))


def measure_scores(n_turns=5):
    X = read_texts("20 Newsgroups", 384, 5000).embeddings
    model = SphericalAdmixture(20, n_jobs=1, random_state=0).fit(X[:3000])
    held_out, few = X[3000:], model.n_importance_draws
    begin_table(
        ("method", "draws of the topics", "seconds of processor time", "error of a row, nats (root mean square)")
    )
    for n_topics, name in ((20, "score_samples"), (100, "score_samples"), (1, "transform")):
        model.set_params(n_predictive_draws=n_topics)
        turns, found, method = [], [], getattr(model, name)
        for _ in range(n_turns + 1):  # the first one may compile
            model._key = subkey(model._key, 0)  # other random numbers
            start = time.process_time()
            found.append(method(held_out))
            turns.append(time.process_time() - start)
        error = ""
        if name == "score_samples":
            exact = model.set_params(n_importance_draws=20 * few).score_samples(held_out)
            model.set_params(n_importance_draws=few)
            error = f"{np.sqrt(np.mean((np.array(found) - exact) ** 2)):.4f}"
        seconds = f"{np.median(turns[1:]):.2f} ({min(turns[1:]):.2f} to {max(turns[1:]):.2f})"
        row((f"`{name}`", n_topics, seconds, error))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[1500, 15000, 150000])
    parser.add_argument("--scores", action="store_true", help="held-out densities of dense rows instead")
    add_write(parser)
    options = parser.parse_args()
    with threadpool_limits(1):
        if options.scores:
            measure_scores()
        else:
            measure_parts()
            measure_growth(options.sizes)
    if options.scores:
        finish(options, part="_scores", notes=f"{ABOUT_SCORES} Medians (ranges) of five runs, one core.")
    else:
        finish(options, notes="Medians (ranges) of 15 repetitions, one core.")
