"""Supplement F.2 of Ma et al. (2015): priors of topic models for SGLD and SGHMC.

The paper found gamma = 0.1 (proportions) and alpha = 0.01 (topics) optimal for these two samplers, and does not state
which other values it tried. Here both samplers have a grid of priors around these, with the step sizes of the paper,
0.01 for SGLD and 0.1 for SGHMC (the Euler scheme). K = 50, minibatches of 50, 10,000 documents, 50 Gibbs sweeps per
document of which 25 are burn-in, 8,000 words, and 1,000 held-out documents. SGRLD, whose steps have a metric, is run
with the same priors for comparison.

The claim: gamma = 0.1 and alpha = 0.01 are best for SGLD and SGHMC.
"""

from __future__ import annotations

from itertools import product

from _results import begin_table, row, title
from _runs import spread

from skmanifold.samplers import SGHMC, SGLD, SGRLD, PolynomialDecay

from ._streams import stream_perplexities

NEEDS_DATA = True
SAMPLERS = {
    "SGLD": lambda: SGLD(0.01),
    "SGHMC": lambda: SGHMC(0.1, scheme="euler"),
    "SGRLD": lambda: SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)),
}
GAMMAS, ALPHAS = (1.0, 0.1, 0.01), (0.5, 0.1, 0.01, 1e-4)
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    gammas, alphas, n_seeds = ((0.1,), (0.01, 0.5), 1) if quick else (GAMMAS, ALPHAS, N_SEEDS)
    n_seen, n_test, sweeps = (500, 20, 4) if quick else (10_000, 1000, 50)
    return [
        {
            "sampler": sampler,
            "gamma": gamma,
            "alpha": alpha,
            "seed": seed,
            "n_seen": n_seen,
            "n_test": n_test,
            "sweeps": sweeps,
        }
        for seed, sampler, gamma, alpha in product(range(n_seeds), SAMPLERS, gammas, alphas)
    ]


def run(sampler, gamma, alpha, seed, n_seen, n_test, sweeps):
    """Perplexities after some documents, and seconds."""
    settings = {"n_components": 50, "n_words": 8000, "n_test": n_test, "n_seen": n_seen, "sweeps": sweeps}
    return stream_perplexities(SAMPLERS[sampler](), gamma, alpha, **settings, seed=seed)


def show(rows):
    """Perplexities after all documents."""
    last = rows[0]["n_seen"]
    alphas = sorted({each["alpha"] for each in rows}, reverse=True)
    title(f"Held-out perplexity after {last:,} documents: median (range) over seeds")
    begin_table(("sampler", "gamma", *(f"alpha = {alpha:g}" for alpha in alphas)))
    for sampler, gamma in product(SAMPLERS, sorted({each["gamma"] for each in rows}, reverse=True)):
        cells = []
        for alpha in alphas:
            wanted = sampler, gamma, alpha
            found = [
                each[f"after_{last}"]
                for each in rows
                if tuple(each[k] for k in ("sampler", "gamma", "alpha")) == wanted
            ]
            cells.append(spread(found, ".0f") if found else "")
        row((sampler, f"{gamma:g}", *cells))
