"""Fig. 1 and 2 of Baker et al. (2018): SCIR and SGRLD on a sparse and a dense Dirichlet posterior, by minibatch.

The posteriors have ten categories and 1,000 observations; the sparse one has counts (800, 100, 100, 0, ...). For each
size of the minibatch and each step size there are five chains of 1,000 draws after 1,000. The distance of a chain is
the Kolmogorov-Smirnov distance to the posterior, averaged over its Rosenblatt coordinates. As in the paper, each chain
counts with the best step size of Table 1.

SGRLD has two parametrisations. "SGRLD, gammas" has independent gammas whose shapes are prior plus counts, the
parametrisation of SCIR. "SGRLD, expanded mean" is that of Patterson and Teh, where minibatches enter by the gradient;
it needs smaller steps, and its grid has as many of them.

The claim: on the sparse posterior SCIR is much closer than SGRLD, and approaches independent draws as the minibatch
grows. On the dense one the two are similar.
"""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np

from benchmarks._results import begin_table, row, title
from skmanifold import sample
from skmanifold.distributions import averaged_ks_distance
from skmanifold.manifolds import PositiveOrthant
from skmanifold.models import ExpandedMean, dense_dirichlet, sparse_dirichlet
from skmanifold.samplers import SCIR, SGRLD, NonFiniteError

POSTERIORS = {"sparse": sparse_dirichlet, "dense": dense_dirichlet}
BATCH_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
EXACT = "independent draws"
STEP_SIZES = {
    "SCIR": (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001),
    "SGRLD, gammas": (0.5, 0.1, 0.05, 0.01, 0.005, 0.001, 5e-4, 1e-4),
    "SGRLD, expanded mean": (1e-3, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6),
}
N_SEEDS = 5
PLACE = 4  # the category of Fig. 1, without observations in the sparse posterior


class Gammas:
    """Independent gammas whose normalised values have the distribution of a `DirichletPosterior`."""

    noise_covariance = None
    vectorized = True

    def __init__(self, posterior):
        self.posterior = posterior
        self.manifold = PositiveOrthant(posterior.manifold.shape)

    def grad_log_density(self, position, keys, out):
        """(shape - 1) / theta - 1 with the shapes of a minibatch."""
        self.posterior.expected_counts(position, keys, out)
        out -= 1
        out /= position
        out -= 1


def cases(quick):
    """Settings of the runs."""
    batch_sizes = (10,) if quick else BATCH_SIZES
    exact = [{"posterior": name, "sampler": EXACT, "batch_size": 1000, "step_size": 0.0} for name in POSTERIORS]
    return exact + [
        {"posterior": name, "sampler": sampler, "batch_size": n, "step_size": h}
        for name, (sampler, grid), n in product(POSTERIORS, STEP_SIZES.items(), batch_sizes)
        for h in grid
    ]


def draws_of(posterior, sampler, batch_size, step_size):
    """Logarithms of the draws of each chain, or None if one diverged."""
    target = POSTERIORS[posterior]()
    if sampler == EXACT:
        rng = np.random.default_rng(0)
        shapes = np.broadcast_to(target.concentrations, (N_SEEDS, 1000, 10))
        return np.log(rng.gamma(shapes + 1.0)) + np.log(rng.random(shapes.shape)) / shapes
    chosen = target.minibatched(None if batch_size == 1000 else batch_size)
    options = {"n_draws": 1000, "burn_in": 1000, "n_chains": N_SEEDS, "random_state": 0}
    if sampler == "SCIR":
        return sample(chosen, SCIR(step_size), **options).stats["log_position"]
    chart = Gammas(chosen) if sampler == "SGRLD, gammas" else ExpandedMean(chosen, total=target.prior.sum())
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that shapes are below 1/2
            position = sample(chart, SGRLD(step_size), **options).position
    except NonFiniteError:
        return None
    return np.log(np.maximum(position, 1e-300))


def run(posterior, sampler, batch_size, step_size):
    """The distance of each chain, and quantiles of the logarithm of one proportion."""
    logs = draws_of(posterior, sampler, batch_size, step_size)
    if logs is None:
        return [
            {"seed": seed, "distance": np.inf, "q05": np.nan, "q50": np.nan, "q95": np.nan} for seed in range(N_SEEDS)
        ]
    concentrations = POSTERIORS[posterior]().concentrations
    rows = []
    for seed, chain in enumerate(logs):
        proportion = chain[:, PLACE] - np.logaddexp.reduce(chain, axis=1)
        q05, q50, q95 = np.quantile(proportion, [0.05, 0.5, 0.95])
        distance = averaged_ks_distance(chain, concentrations, log=True)
        rows.append(
            {"seed": seed, "distance": float(distance), "q05": float(q05), "q50": float(q50), "q95": float(q95)}
        )
    return rows


def best_rows(rows, posterior, sampler, batch_size):
    """The row of the best step size of each seed."""
    names = ("posterior", "sampler", "batch_size")
    own = [each for each in rows if tuple(each[name] for name in names) == (posterior, sampler, batch_size)]
    seeds = sorted({each["seed"] for each in own})
    return [min((r for r in own if r["seed"] == seed), key=lambda r: r["distance"]) for seed in seeds]


def show(rows):
    """Distances by size of the minibatch, and the quantiles of Fig. 1."""
    batch_sizes = sorted({each["batch_size"] for each in rows if each["sampler"] != EXACT})
    for posterior in POSTERIORS:
        (exact, *_) = (best_rows(rows, posterior, EXACT, 1000),)
        median = np.median([each["distance"] for each in exact])
        title(f"Distance, {posterior}: median over five chains (independent draws: {median:.3f})")
        begin_table(("sampler", *(f"n = {n}" for n in batch_sizes)))
        for sampler in STEP_SIZES:
            found = [
                np.median([each["distance"] for each in best_rows(rows, posterior, sampler, n)]) for n in batch_sizes
            ]
            row((sampler, *(f"{value:.3f}" for value in found)))
    title("Fig. 1: natural logarithm of a proportion without observations, sparse posterior, minibatches of 10")
    begin_table(("", "5%", "50%", "95%"))
    for sampler, n in ((EXACT, 1000), *((sampler, 10) for sampler in STEP_SIZES)):
        best = best_rows(rows, "sparse", sampler, n)
        row((sampler, *(f"{np.median([each[q] for each in best]):.1f}" for q in ("q05", "q50", "q95"))))


def draw(rows):
    """Distance against the share of the minibatch, with a line for each chain's median and a range."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    batch_sizes = sorted({each["batch_size"] for each in rows if each["sampler"] != EXACT})
    for ax, posterior in zip(axes, POSTERIORS, strict=True):
        for number, sampler in enumerate(STEP_SIZES):
            found = np.array([[r["distance"] for r in best_rows(rows, posterior, sampler, n)] for n in batch_sizes])
            style = line_style(number)
            shares = np.array(batch_sizes) / 1000
            ax.loglog(shares, np.median(found, axis=1), label=sampler, **style)
            ax.fill_between(shares, found.min(axis=1), found.max(axis=1), alpha=0.2, color=style["color"])
        exact = [each["distance"] for each in best_rows(rows, posterior, EXACT, 1000)]
        ax.axhline(np.median(exact), color="0.4", linestyle=":", label=EXACT)
        ax.set(title=f"{posterior} posterior", xlabel="share of the data in a minibatch")
    axes[0].set_ylabel("averaged Kolmogorov-Smirnov distance")
    axes[0].legend(fontsize="small")
    return figure
