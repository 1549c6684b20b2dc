"""Theorems 5.1 and 5.2 of St. Thomas et al. (2014): distance of the predictive density from the truth, by rows.

The theorems say that the posterior of the density concentrates around the truth as the number of rows grows. Their
conditions exclude every density, since none is bounded away from zero on the whole space; here is what happens for a
mixture of a line and a plane in three dimensions with noise precision 10. The squared Hellinger distance of the
posterior predictive density f from the true one, f_0, is 1 - E sqrt(f / f_0) over 50,000 rows of the truth. "gibbs"
draws from the posterior of the normal likelihood, "conway" from the Gibbs posterior of the loss of the paper, to which
the theorems do not apply.

The claim: the posterior of the normal likelihood is consistent in Hellinger distance.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from skmanifold import SubspaceMixture
from skmanifold.datasets import make_subspaces
from skmanifold.samplers import ConwayWalk

SAMPLERS = {"gibbs": {}, "conway": {"sampler": ConwayWalk()}}
SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
MOST_OF_CONWAY = 3000  # rows
N_TEST, N_SEEDS = 50_000, 5


def cases(quick):
    """Settings of the runs."""
    sizes, n_seeds = ((100, 300), 1) if quick else (SIZES, N_SEEDS)
    return [
        {"sampler": sampler, "n_rows": n, "seed": seed}
        for seed in range(n_seeds)
        for sampler in SAMPLERS
        for n in sizes
        if sampler == "gibbs" or n <= MOST_OF_CONWAY
    ]


def run(sampler, n_rows, seed):
    """Squared Hellinger distance with its standard error, and the dimensions."""
    data = make_subspaces(n_rows + N_TEST, noise_precision=10.0, random_state=seed)
    X, X_test = data.data[:n_rows], data.data[n_rows:]
    with threadpool_limits(1):
        model = SubspaceMixture(2, random_state=seed, **SAMPLERS[sampler]).fit(X)
    ratios = np.exp((model.score_samples(X_test) - logsumexp(data.log_densities(X_test), axis=1)) / 2)
    least, largest = sorted(model.dimensions_.tolist())
    return {
        "hellinger": float(1 - ratios.mean()),
        "error": float(ratios.std(ddof=1) / np.sqrt(N_TEST)),
        "least": least,
        "largest": largest,
    }


def of(rows, sampler, n, name="hellinger"):
    """The values of all seeds."""
    return [each[name] for each in rows if (each["sampler"], each["n_rows"]) == (sampler, n)]


def show(rows):
    """Squared distances by the number of rows."""
    sizes = sorted({each["n_rows"] for each in rows})
    title("Squared Hellinger distance from the true density, times the number of rows: median (range) over seeds")
    begin_table(("sampler", *(f"{n:,} rows" for n in sizes)))
    for sampler in SAMPLERS:
        found = [[n * value for value in of(rows, sampler, n)] for n in sizes]
        row(
            (
                sampler,
                *(spread(each, ".2f") if each else "" for each in found),
            )
        )
    title("Data sets with the dimensions 1 and 2")
    begin_table(("sampler", *(f"{n:,} rows" for n in sizes)))
    for sampler in SAMPLERS:
        pairs = [list(zip(of(rows, sampler, n, "least"), of(rows, sampler, n, "largest"), strict=True)) for n in sizes]
        row((sampler, *(f"{sum(each == (1, 2) for each in of_n)} of {len(of_n)}" if of_n else "" for of_n in pairs)))
