"""Fig. 5b of Liu et al. (2016): held-out score of topics of Wikipedia, by sampler and number of passes.

Topics, minibatches and concentrations are those of the paper: 50 topics, minibatches of 100, tf-idf of 3,000 words of
medium document frequency. The 150,000 documents of the paper are not available; here are 15,056 training documents,
and 200 of 1,000 held-out documents are scored. The score, the step sizes and what the paper does not state are as in
`liu2016_fig5a`.

The claims: the advantage of SGGMC and gSGNHT is larger than on the small corpus; minibatches and thermostats help;
SGGMC and gSGNHT with all documents are better than the GMC variants, which converge slowly.
"""

from __future__ import annotations

from benchmarks._sam_runs import METHODS

from ._sam_curves import draw as draw
from ._sam_curves import run_to
from ._sam_curves import show as show

NEEDS_DATA = True
MARKS = (1, 2, 5, 10, 20, 50, 100)  # passes
N_SEEDS = 3
LEFT_OUT = ("gsgnht, SVRG", "gsgnht, minibatches of 25", "gsgnht, minibatches of 200")


def cases(quick):
    """Settings of the runs."""
    methods = ("gsgnht", "vb") if quick else [method for method in METHODS if method not in LEFT_OUT]
    n_seeds, n_held_out = (1, 20) if quick else (N_SEEDS, 200)
    return [
        {"method": method, "seed": seed, "n_passes": 1 if quick else MARKS[-1], "n_held_out": n_held_out}
        for seed in range(n_seeds)
        for method in methods
    ]


def run(method, seed, n_passes, n_held_out):
    """A row after each number of passes."""
    return run_to("wiki", method, seed, [mark for mark in MARKS if mark <= n_passes], n_held_out)
