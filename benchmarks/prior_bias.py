"""How wrong Langevin and Hamiltonian steps are below a prior of 1/2, on a word that a topic never takes.

The weight of such a word has the law Ga(beta, 1) a posteriori. Printed for each sampler and beta: the
Kolmogorov-Smirnov distance of the draws from that law, the ratio of their mean to the exact mean beta, and their median
beside the exact one. The step sizes are those that the papers use for topics.

    python benchmarks/prior_bias.py
"""

import numpy as np
from scipy.stats import gamma as gamma_law
from scipy.stats import kstest

from skmanifold import sample
from skmanifold.models import gamma
from skmanifold.samplers import SCIR, SGRHMC, SGRLD

SAMPLERS = {"scir, h=0.5": SCIR(0.5), "sgrld, h=0.01": SGRLD(0.01), "sgrhmc, h=0.02": SGRHMC(0.02)}

if __name__ == "__main__":
    print("| beta | sampler | KS | mean / beta | median | exact median |")
    print("|---|---|---|---|---|---|")
    for beta in (1.0, 0.5, 0.1, 0.01):
        for name, sampler in SAMPLERS.items():
            thin = 8 if "scir" in name else 400
            draws = sample(
                gamma(np.array([beta])), sampler, n_draws=50, burn_in=10_000, thin=thin, n_chains=200, random_state=0
            ).position.ravel()
            law = gamma_law(beta)
            print(
                f"| {beta:g} | {name} | {kstest(draws, law.cdf).statistic:.3f} | {draws.mean() / beta:.2f} | "
                f"{np.median(draws):.1e} | {law.median():.1e} |",
                flush=True,
            )
