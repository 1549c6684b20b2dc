"""Fig. 3a of Baker et al. (2018): why SGRLD with a tiny prior can pass SCIR, by the same priors for both samplers.

With the settings of Table 2, SGRLD has the prior 0.0001 of the topics and 0.01 of the proportions, SCIR 0.5 and 0.1.
SGRLD cannot draw the small weights of words without counts (`baker2018_sgrld_bias`), so that its prior acts as a larger
one. Here both samplers have the same grid of priors, and SCIR the decay exponent 0.6 of SGRLD, so that its steps end as
small. K = 100, minibatches of 50, 50,000 documents, 50 Gibbs sweeps per document, 8,000 words, 1,000 held-out
documents. None of these runs is in the paper.

The question: does the prior explain the difference between the samplers?
"""

from __future__ import annotations

from benchmarks._results import begin_table, row, title
from skmanifold.samplers import SCIR, SGRLD, PolynomialDecay

from ._streams import grid_cases, grid_table, stream_perplexities

NEEDS_DATA = True
SAMPLERS = {
    "SCIR": lambda: SCIR(PolynomialDecay(0.5, 10.0, 0.6)),
    "SGRLD": lambda: SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)),
}
BETAS, ALPHAS = (0.5, 0.2, 0.1, 0.05, 1e-4), (0.1, 0.01)  # of the topics, of the proportions
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    betas, alphas, n_seeds = ((0.1,), (0.1,), 1) if quick else (BETAS, ALPHAS, N_SEEDS)
    n_seen, n_test, sweeps = (500, 20, 4) if quick else (50_000, 1000, 50)
    sizes = {"n_seen": n_seen, "n_test": n_test, "sweeps": sweeps}
    return grid_cases(SAMPLERS, {"beta": betas, "alpha": alphas}, n_seeds, sizes)


def run(sampler, beta, alpha, seed, n_seen, n_test, sweeps):
    """Perplexities after some documents, and seconds."""
    settings = {"n_components": 100, "n_words": 8000, "n_test": n_test, "n_seen": n_seen, "sweeps": sweeps}
    return stream_perplexities(SAMPLERS[sampler](), alpha, beta, **settings, seed=seed)


def show(rows):
    """Perplexities after all documents."""
    title(f"Held-out perplexity after {rows[0]['n_seen']:,} documents: median (range) over seeds")
    heads = "prior of the proportions", "prior of the topics"
    head, lines = grid_table(rows, SAMPLERS, "alpha", "beta", heads)
    begin_table(head)
    for cells in lines:
        row(cells)
