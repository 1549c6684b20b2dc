"""Sec. 2.3 of Baker et al. (2018): the weight of a word without counts that SGRLD draws, by prior and step size.

The weight of a word that does not occur in a topic has the posterior distribution Ga(beta, 1), with the mean beta.
SGRLD cannot draw small weights, so that their mean is larger: that of another prior. The step sizes are the schedule of
Table 2, 0.01 (1 + t / 1000)^-0.6, at the end of 1,000 steps, and constants. Chains begin at weights of one, as topics
do before their words have counts. There are 1,000 chains and, for constant step sizes, 10,000 steps.

The claim: the error of SGRLD near zero is due to its discretisation.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks._results import begin_table, row, title
from skmanifold import sample
from skmanifold.models import gamma
from skmanifold.samplers import SCIR, SGRLD, PolynomialDecay

BETAS = (0.5, 0.1, 0.01, 1e-3, 1e-4)
STEP_SIZES = ("schedule", 0.01, 0.005, 0.002, 0.0005)
N_CHAINS = 1000


def cases(quick):
    """Settings of the runs."""
    betas, step_sizes = (BETAS[1:2], STEP_SIZES[:2]) if quick else (BETAS, STEP_SIZES)
    sgrld = [{"sampler": "SGRLD", "beta": beta, "step_size": str(h)} for beta in betas for h in step_sizes]
    return sgrld + [{"sampler": "SCIR", "beta": beta, "step_size": "0.5"} for beta in betas]


def run(sampler, beta, step_size):
    """Mean and median of the weights, and the mean of the logarithms."""
    if sampler == "SCIR":
        mover, n_steps = SCIR(float(step_size)), 100
    elif step_size == "schedule":
        mover, n_steps = SGRLD(PolynomialDecay(0.01, 1000.0, 0.6)), 1000
    else:
        mover, n_steps = SGRLD(float(step_size)), 10_000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that shapes are below 1/2
        draws = sample(
            gamma([beta]), mover, n_draws=1, burn_in=n_steps, n_chains=N_CHAINS, position=np.ones(1), random_state=0
        )
    weights = draws.position[:, 0, 0]
    return {
        "mean": float(weights.mean()),
        "error": float(weights.std(ddof=1) / np.sqrt(N_CHAINS)),
        "median": float(np.median(weights)),
    }


def show(rows):
    """Means by prior and step size."""
    title("Mean weight of a word without counts (exact: beta), ± standard error")
    kinds = list(dict.fromkeys((each["sampler"], str(each["step_size"])) for each in rows))
    betas = sorted({each["beta"] for each in rows}, reverse=True)
    begin_table(("sampler", "step size", *(f"beta = {beta:g}" for beta in betas)))
    for sampler, step_size in kinds:
        cells = []
        for beta in betas:
            (found,) = (
                each
                for each in rows
                if (each["sampler"], str(each["step_size"]), each["beta"]) == (sampler, step_size, beta)
            )
            cells.append(f"{found['mean']:.4f} ± {found['error']:.4f}")
        row((sampler, step_size, *cells))
