"""Fig. 5a of Liu et al. (2016): held-out score of topics of news groups, by sampler and number of passes.

Corpus, topics, minibatches and concentrations are those of the paper: 1,666 training and 1,107 held-out documents of
20News-different as tf-idf, 20 topics, minibatches of 50. The score is that of up to ten evenly spaced draws of the
topics in the second half of the run so far, averaged document by document; variational methods have one estimate. It is
computed by importance sampling, since the estimator of the paper is biased by a thousand nats and more. The step sizes
are the defaults of SphericalAdmixture, with radii of the topics that are learned during burn-in. The paper does not
state its step sizes, frictions, numbers of steps, lengths of runs, and numbers of draws and seeds.

The claims: variational inference converges fast and then stays; all samplers go below it in the end, SGGMC and gSGNHT
lowest, also with all documents; gSGNHT is better than SGGMC; smaller minibatches are better.
"""

from __future__ import annotations

from benchmarks._sam_runs import METHODS

from ._sam_curves import draw as draw
from ._sam_curves import run_to
from ._sam_curves import show as show

NEEDS_DATA = True
MARKS = (10, 25, 50, 100, 200, 400)  # passes
N_SEEDS = 5


def cases(quick):
    """Settings of the runs."""
    if quick:
        return [{"method": method, "seed": 0, "n_passes": 10} for method in ("gsgnht", "gmc_gibbs", "vb")]
    return [{"method": method, "seed": seed, "n_passes": MARKS[-1]} for seed in range(N_SEEDS) for method in METHODS]


def run(method, seed, n_passes):
    """A row after each number of passes."""
    return run_to("news", method, seed, [mark for mark in MARKS if mark <= n_passes])
