"""Bias of Langevin and Hamiltonian steps for priors below 1/2, on a word that does not occur in a topic.

The weight of such a word has the posterior distribution Ga(beta, 1). The table has, for each sampler and beta, the
Kolmogorov-Smirnov distance of the draws from this distribution, the ratio of their mean to the exact mean beta, their
median and the exact median. The step sizes are those that the papers use for topics.

    python -m benchmarks.prior_bias
"""

import argparse

import numpy as np
from scipy.stats import gamma as gamma_distribution
from scipy.stats import kstest

from benchmarks._results import add_write, begin_table, finish, row
from skmanifold import sample
from skmanifold.models import gamma
from skmanifold.samplers import SCIR, SGRHMC, SGRLD

SAMPLERS = {"scir, h=0.5": SCIR(0.5), "sgrld, h=0.01": SGRLD(0.01), "sgrhmc, h=0.02": SGRHMC(0.02)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_write(parser)
    options = parser.parse_args()
    head = "Kolmogorov-Smirnov distance", "mean / exact mean", "median", "exact median"
    begin_table(("prior", "sampler", *head))
    for beta in (1.0, 0.5, 0.1, 0.01):
        for name, sampler in SAMPLERS.items():
            thin = 8 if "scir" in name else 400
            draws = sample(
                gamma(np.array([beta])), sampler, n_draws=50, burn_in=10_000, thin=thin, n_chains=200, random_state=0
            ).position.ravel()
            exact = gamma_distribution(beta)
            cells = f"{kstest(draws, exact.cdf).statistic:.3f}", f"{draws.mean() / beta:.2f}"
            row((f"{beta:g}", name, *cells, f"{np.median(draws):.2g}", f"{exact.median():.2g}"))
    finish(options, notes="A weight with the exact distribution Ga(prior, 1); 10,000 draws, step sizes of the papers.")
