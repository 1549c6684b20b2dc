"""Fig. 3 of Ma et al. (2015): topics of Wikipedia by samplers with and without momenta and a metric.

Settings are those of the paper: minibatches of 50 documents, K = 50, and for SGRLD and SGRHMC the priors 0.01 of the
proportions and 0.0001 of the topics, for SGLD and SGHMC 0.1 and 0.01; step sizes 0.01 for SGLD, 0.1 for SGHMC, 0.02 for
SGRHMC and 0.01 (1 + t / 1000)^-0.6 for SGRLD. This schedule is that of Patterson and Teh, whose step size is twice
ours, so SGRLD with half of it is run too, and SGRLD with a constant step size. SGRHMC has the scheme of the paper
("Euler") and that of the library, and, as an option of algorithm 1, new momenta after every 50 minibatches. The
documents are 17,554 articles with their 8,000 most frequent words, of which 1,000 are held out. The paper streams new
articles, and does not state its vocabulary, its held-out documents, the number of Gibbs sweeps (here 50, of which 25
are burn-in) and the number of seeds of its three runs.

The claim: the Riemannian samplers have a much lower perplexity, a momentum helps with and without a metric, and SGRHMC
is best; all need a similar time.
"""

from __future__ import annotations

from benchmarks._results import begin_table, row, title
from skmanifold.samplers import SGHMC, SGLD, SGRHMC, SGRLD, PolynomialDecay

from ._streams import draw_curves, stream_perplexities, table_of

NEEDS_DATA = True
RIEMANNIAN, FLAT = (0.01, 1e-4), (0.1, 0.01)  # priors of the proportions and of the topics
METHODS = {
    "SGRLD": (SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)), RIEMANNIAN),
    "SGRLD, half the step size": (SGRLD(PolynomialDecay(0.005, 1000.0, 0.6)), RIEMANNIAN),
    "SGRLD, constant step size": (SGRLD(0.01), RIEMANNIAN),
    "SGRHMC": (SGRHMC(0.02), RIEMANNIAN),
    "SGRHMC, Euler": (SGRHMC(0.02, scheme="euler"), RIEMANNIAN),
    "SGRHMC, new momenta": (SGRHMC(0.02, resample_every=50), RIEMANNIAN),
    "SGLD": (SGLD(0.01), FLAT),
    "SGHMC, Euler": (SGHMC(0.1, scheme="euler"), FLAT),
}
N_SEEDS = 3


def cases(quick):
    """Settings of the runs."""
    n_seen, n_test, sweeps = (500, 20, 4) if quick else (50_000, 1000, 50)
    return [
        {"method": method, "seed": seed, "n_seen": n_seen, "n_test": n_test, "sweeps": sweeps}
        for seed in range(1 if quick else N_SEEDS)
        for method in METHODS
    ]


def run(method, seed, n_seen, n_test, sweeps):
    """Perplexities after some documents, and seconds."""
    sampler, priors = METHODS[method]
    return stream_perplexities(
        sampler, *priors, n_components=50, n_words=8000, n_test=n_test, n_seen=n_seen, sweeps=sweeps, seed=seed
    )


def show(rows):
    """Perplexities by documents seen."""
    title("Held-out perplexity, K = 50: median (range) over seeds; median seconds of all documents")
    head, lines = table_of(rows, METHODS)
    begin_table(head)
    for cells in lines:
        row(cells)


def draw(rows):
    """Perplexity by documents seen."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    draw_curves(ax, rows, METHODS)
    return figure
