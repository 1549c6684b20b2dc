"""Fig. 5 of Zaheer et al. (2016): perplexity of LDA over time with plain and with sparse, alias-based sampling.

Three versions of the automaton for LDA, update (20), have the same random initial topics of the tokens. "Plain"
computes all K weights of each token. "Alias tables" sums over the topics of the document, and draws from the prior by
an alias table of each word, which is made in each pass (appendix E). "Library" is `ESCA`, which draws by inverse CDF
from sparse counts. All three draw from the same distribution, with other random numbers. The figure shows held-out
perplexity, by document completion, by seconds and by passes. Seconds are processor time of the passes in one thread,
without the initialisation and the evaluations.

The corpus is 20 newsgroups without stop words; a random tenth of the documents is held out. The paper does not state
the corpus, the number of topics and the priors of this figure. Here the prior of the topics is 0.1 and that of the
proportions 50/K, as in the main experiments of the paper, or 1/K, and K is 100 or 1,000. The Java code and 16 nodes of
the paper are replaced by numba and one core. Its claim: the sparse version with alias tables is faster.
"""

from __future__ import annotations

import functools
import time
from itertools import product

import numpy as np

from benchmarks._esca_variants import alias, dense_state, plain, step
from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from benchmarks.lda_defaults import split
from skmanifold.admixture._lda.model import LDAModel
from skmanifold.admixture._tokens.topic_counts import TopicPrior, counts_from_dense
from skmanifold.metrics import document_completion
from skmanifold.random._keys import root_key, subkey
from skmanifold.samplers import ESCA
from skmanifold.sparse.counts import canonical_csr, whole_counts
from skmanifold.utils._threads import Workers

NEEDS_DATA = True
CORPUS, BETA = "ng20", 0.1
N_COMPONENTS, PRIOR_SUMS, N_SEEDS = (100, 1000), (50, 1), 3
CHECKED = (1, 2, 5, 10, 20, 35, 50, 75, 100)  # passes
VERSIONS = {"plain": plain, "alias tables": alias, "library": None}
NEAR = 1.02  # times the last perplexity of plain


def cases(quick):
    """Settings of the runs; `n_documents` is 0 for all, and `prior_sum` is K times the prior of the proportions."""
    numbers, sums, n_seeds, n_documents, n_passes = (
        ((20,), (1,), 1, 500, 5) if quick else (N_COMPONENTS, PRIOR_SUMS, N_SEEDS, 0, CHECKED[-1])
    )
    names = "seed", "n_components", "prior_sum", "version"
    return [
        {"n_documents": n_documents, "n_passes": n_passes, **dict(zip(names, values, strict=True))}
        for values in product(range(n_seeds), numbers, sums, VERSIONS)
    ]


@functools.cache
def read():
    """Training and held-out counts without stop words."""
    return split(CORPUS, stop_words=False)


class Chain:
    """A version of the automaton with random topics."""

    def __init__(self, version, train, n_components, prior_sum, seed):
        counts = whole_counts(canonical_csr(train), np.uint64(0))
        self.alpha = np.full(n_components, prior_sum / n_components)
        prior = TopicPrior(BETA, n_components, counts.n_features)
        self.model = LDAModel(counts, self.alpha, prior, Workers(1))
        self.kernel, self.sampler, self.key = VERSIONS[version], ESCA(), root_key(seed)
        self.state = self.sampler.init(self.model, self.key)
        self.n_passes = 0
        if self.kernel is not None:
            self.state = dense_state(self.model, self.state.latents)

    def step(self):
        """Make a pass."""
        if self.kernel is None:
            self.state = self.sampler.step(self.model, self.state)
        else:
            self.state = step(self.kernel, self.model, self.state, BETA, subkey(self.key, self.n_passes))
        self.n_passes += 1

    def perplexity(self, test):
        """Of held-out documents, given the topics of the last pass."""
        counts = self.state.statistics if self.kernel is None else counts_from_dense(*self.state[1:])
        return document_completion(self.model.topic_prior.smooth(counts), test, self.alpha).perplexity


def run(n_documents, n_passes, seed, n_components, prior_sum, version):
    """Seconds and perplexity after some passes."""
    train, test = read()
    if n_documents:
        train, test = train[:n_documents], test[: n_documents // 10]
    Chain(version, train[:20], 5, prior_sum, seed).step()  # loads the machine code
    chain = Chain(version, train, n_components, prior_sum, seed)
    seconds, rows = 0.0, []
    for n_done in range(1, n_passes + 1):
        start = time.process_time()
        chain.step()
        seconds += time.process_time() - start
        if n_done in CHECKED:
            rows.append({"passes": n_done, "seconds": seconds, "perplexity": float(chain.perplexity(test))})
    return rows


def curves(rows, n_components, prior_sum, version):
    """Passes; seconds and perplexities of each seed at these passes."""
    wanted = n_components, prior_sum, version
    own = [each for each in rows if (each["n_components"], each["prior_sum"], each["version"]) == wanted]
    seeds, passes = sorted({each["seed"] for each in own}), sorted({each["passes"] for each in own})
    of = {(each["seed"], each["passes"]): each for each in own}
    seeds = [seed for seed in seeds if all((seed, n) in of for n in passes)]
    seconds, perplexities = (
        np.array([[of[seed, n][name] for n in passes] for seed in seeds]) for name in ("seconds", "perplexity")
    )
    return np.array(passes), seconds, perplexities


def settings_of(rows):
    """The numbers of topics with the priors that were measured."""
    return sorted({(each["n_components"], each["prior_sum"]) for each in rows})


def prior_name(prior_sum):
    """The prior of the proportions as text."""
    return f"{prior_sum:g}/K"


def show(rows):
    """Perplexity by passes, and seconds."""
    passes = sorted({each["passes"] for each in rows})
    n_seeds = len({each["seed"] for each in rows})
    title(f"Held-out perplexity after passes, mean of {n_seeds} seeds")
    begin_table(("K", "prior", "version", *map(str, passes)))
    for (n_components, prior_sum), version in product(settings_of(rows), VERSIONS):
        _, _, found = curves(rows, n_components, prior_sum, version)
        row((n_components, prior_name(prior_sum), version, *(f"{value:.0f}" for value in found.mean(axis=0))))
    title("Seconds of processor time, median and range")
    near = f"until {NEAR - 1:.0%} above the last perplexity of plain"
    begin_table(("K", "prior", "version", "per pass", near, "times faster than plain, per pass"))
    for n_components, prior_sum in settings_of(rows):
        _, plain_seconds, plain_found = curves(rows, n_components, prior_sum, "plain")
        level = NEAR * plain_found[:, -1].mean()
        for version in VERSIONS:
            passes, seconds, found = curves(rows, n_components, prior_sum, version)
            reached = [time_of(level, *of_seed) for of_seed in zip(seconds, found, strict=True)]
            cells = spread(seconds[:, -1] / passes[-1], ".3f"), spread(reached, ".3g")
            ratio = np.median(plain_seconds[:, -1]) / np.median(seconds[:, -1])
            row((n_components, prior_name(prior_sum), version, *cells, f"{ratio:.1f}"))


def time_of(level, seconds, perplexities):
    """The seconds after which a curve is below a level, with linear interpolation; NaN if it is never."""
    below = np.flatnonzero(perplexities <= level)
    if not len(below):
        return np.nan
    i = below[0]
    return float(np.interp(-level, -perplexities[i - 1 : i + 1], seconds[i - 1 : i + 1])) if i else float(seconds[0])


def draw(rows):
    """Perplexity by seconds and by passes, mean over seeds."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    settings = settings_of(rows)
    figure, axes = plt.subplots(
        2, len(settings), figsize=(4 * len(settings), 6), layout="constrained", sharey="col", squeeze=False
    )
    for (top, bottom), (n_components, prior_sum) in zip(axes.T, settings, strict=True):
        for number, version in enumerate(VERSIONS):
            passes, seconds, found = curves(rows, n_components, prior_sum, version)
            style = line_style(number)
            top.semilogx(seconds.mean(axis=0), found.mean(axis=0), label=version, **style)
            bottom.semilogx(passes, found.mean(axis=0), label=version, **style)
        top.set(title=f"K = {n_components}, prior {prior_name(prior_sum)}", xlabel="seconds")
        bottom.set_xlabel("passes")
    for ax in axes[:, 0]:
        ax.set_ylabel("held-out perplexity")
    axes[0, -1].legend(fontsize="small")
    return figure
