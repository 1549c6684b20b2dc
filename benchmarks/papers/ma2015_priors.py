"""Supplement F.2 of Ma et al. (2015): priors of topic models for SGLD and SGHMC.

The paper found gamma = 0.1 (proportions) and alpha = 0.01 (topics) optimal for these two samplers, and does not state
which other values it tried. Here both samplers have a grid of priors around these, with the step sizes of the paper,
0.01 for SGLD and 0.1 for SGHMC (the Euler scheme). K = 50, minibatches of 50, 10,000 documents, 50 Gibbs sweeps per
document of which 25 are burn-in, 8,000 words, and 1,000 held-out documents. SGRLD, whose steps have a metric, is run
with the same priors for comparison.

The claim: gamma = 0.1 and alpha = 0.01 are best for SGLD and SGHMC.
"""

from __future__ import annotations

from benchmarks._results import begin_table, row, title
from skmanifold.samplers import SGHMC, SGLD, SGRLD, PolynomialDecay

from ._streams import grid_cases, grid_table, stream_perplexities

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
    sizes = {"n_seen": n_seen, "n_test": n_test, "sweeps": sweeps}
    return grid_cases(SAMPLERS, {"gamma": gammas, "alpha": alphas}, n_seeds, sizes)


def run(sampler, gamma, alpha, seed, n_seen, n_test, sweeps):
    """Perplexities after some documents, and seconds."""
    settings = {"n_components": 50, "n_words": 8000, "n_test": n_test, "n_seen": n_seen, "sweeps": sweeps}
    return stream_perplexities(SAMPLERS[sampler](), gamma, alpha, **settings, seed=seed)


def show(rows):
    """Perplexities after all documents."""
    title(f"Held-out perplexity after {rows[0]['n_seen']:,} documents: median (range) over seeds")
    head, lines = grid_table(rows, SAMPLERS, "gamma", "alpha", ("gamma", "alpha ="))
    begin_table(head)
    for cells in lines:
        row(cells)
