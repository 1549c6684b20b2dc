"""Fig. 4 of Liu et al. (2016): posterior of two directions, sampled with minibatches of 10 of 100 observations.

Settings are those of the paper: SGGMC with step size sqrt(5e-4 / 100) = 0.00224, friction 44.7 (rho = 0.1), 10 steps
per draw and the estimated covariance of the minibatch noise ("fisher"); GMC on all data with step size 0.001 and 20
steps; concentrations of 20; 25,000 draws after 15,000. The paper does not state the start, the number of chains or the
data. Here chains start with both directions at e_1, between the modes, and each run has 20 chains, of which the first
is the one chain of the figure. The data are the quantiles of the distribution that appendix D of the paper describes,
for which the posterior is symmetric, or, as "sample", a new random sample for each seed.

The likelihood and the prior that the text prints give another posterior, without two modes of equal weight at the
places of the figure; "The models as printed" has their exact values for the quantile data. The other tables use the
model of appendix D. Algorithm 1 draws the minibatch once for all 10 steps; this variant is "SGGMC, one minibatch".

The claim: with minibatches SGGMC draws from the marginals and the joint posterior without visible errors, and fully
explores both modes.
"""

from __future__ import annotations

import warnings
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstwobign

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from skmanifold import sample
from skmanifold.models import vmf_mixture_posterior
from skmanifold.models._reference import _vmf_mixture_angles
from skmanifold.samplers import GMC, SGGMC

from .liu2016_fig3 import OneDrawPerTrajectory

BATCH_SIZE, N_STEPS, KAPPA = 10, 10, 20.0
STEP_SIZE = np.sqrt(5e-4 / 100)
SETTINGS = {"step_size": STEP_SIZE, "friction": 0.1 / STEP_SIZE, "n_steps": N_STEPS}
SAMPLERS = {
    "GMC, all data": lambda: GMC(1e-3, 20, jitter=0.0),
    "SGGMC, ABOBA": lambda: SGGMC(**SETTINGS, scheme="aboba", noise_covariance="fisher"),
    "SGGMC": lambda: SGGMC(**SETTINGS, noise_covariance="fisher"),
    "SGGMC, noise ignored": lambda: SGGMC(**SETTINGS, scheme="aboba", noise_covariance=None),
    "SGGMC, one minibatch": lambda: SGGMC(**SETTINGS, scheme="aboba", noise_covariance="fisher"),
}
FULL, PAPER, PRINTED, GRID = "GMC, all data", "SGGMC, ABOBA", "SGGMC, one minibatch", "exact"
MODELS = {  # the centre of the second component, the angle of the prior of v2, the priors' concentration
    "appendix D": ("middle", 0.0, KAPPA),
    "appendix D, flat priors": ("middle", 0.0, 0.0),
    "likelihood of the text": ("second", 0.0, KAPPA),
    "prior of the text": ("middle", np.pi / 2, KAPPA),
    "both of the text": ("second", np.pi / 2, KAPPA),
}
N_SEEDS = 3
REGIONS = (0.5, 0.9, 0.99)
EDGES = np.linspace(-0.5, 0.5, 31), np.linspace(-1.0, 1.0, 31)  # of the histograms of v1 and v2
APART = 0.2  # a chain has changed its mode when the difference of the angles passes from -0.2 to 0.2 or back


def cases(quick):
    """Settings of the runs."""
    n_chains, n_draws = (4, 100) if quick else (20, 25_000)
    options = {"n_chains": n_chains, "n_draws": n_draws}
    seeds = range(1 if quick else N_SEEDS)
    exact = [{"data": model, "sampler": GRID, "seed": 0, "n_chains": 0, "n_draws": 0} for model in MODELS]
    chosen = [("quantiles", sampler) for sampler in SAMPLERS] + [("sample", FULL), ("sample", PAPER)]
    return exact + [
        {"data": data, "sampler": sampler, "seed": seed, **options} for data, sampler in chosen for seed in seeds
    ]


def unit(angles):
    """Points of the circle."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def posterior(data, seed):
    """The target distribution."""
    return vmf_mixture_posterior(data if data == "quantiles" else seed)


@lru_cache(maxsize=2)
def exact(data, seed):
    """A grid of angles, the probabilities of pairs, and the log densities that bound the regions."""
    grid = np.linspace(-1.2, 1.2, 401)  # the density is zero beyond
    target = posterior(data, seed)
    logs = np.array([target.log_density(unit(np.stack([np.full(401, a), grid], axis=1))) for a in grid])
    probability = np.exp(logs - logsumexp(logs))
    order = np.argsort(-logs.ravel())
    bounds = logs.ravel()[order][np.searchsorted(np.cumsum(probability.ravel()[order]), REGIONS)]
    return grid, probability, bounds


def exact_measures(model):
    """The exact values of `measures` under one of the models, for the quantile data."""
    centre, angle, kappa = MODELS[model]
    x = _vmf_mixture_angles("quantiles", KAPPA)
    grid = np.linspace(-np.pi, np.pi, 400, endpoint=False)
    logs = np.empty((400, 400))
    for i, a in enumerate(grid):
        middle = np.angle(np.exp(1j * a) + np.exp(1j * grid)) if centre == "middle" else grid
        components = np.logaddexp(KAPPA * np.cos(x - a), KAPPA * np.cos(x - middle[:, None]))
        logs[i] = components.sum(axis=1) + kappa * (np.cos(a) + np.cos(grid - angle))
    first, second = np.meshgrid(grid, grid, indexing="ij")
    return moments(first.ravel(), second.ravel(), np.exp(logs - logsumexp(logs)).ravel())


def moments(first, second, weights=None):
    """P(v1 < v2) with half of ties, second moments, and the means of both angles in each mode."""
    weights = np.full(first.shape, 1.0 / first.size) if weights is None else weights
    lower = np.where(first == second, 0.5, first < second)
    share = np.sum(weights * lower)
    out = {"lower": share, "square1": np.sum(weights * first**2), "square2": np.sum(weights * second**2)}
    for name, half, total in (("low", lower, share), ("high", 1.0 - lower, 1.0 - share)):
        for number, angles in ((1, first), (2, second)):
            out[f"{name}{number}"] = np.sum(weights * half * angles) / total if total > 0 else np.nan
    return {name: float(value) for name, value in out.items()}


def ks_distance(angles, grid, marginal):
    """Kolmogorov-Smirnov distance of draws to a marginal of the grid."""
    ordered = np.sort(angles.ravel())
    halves = np.cumsum(marginal) - marginal / 2  # the distribution function at the points of the grid
    values = np.interp(ordered, grid, halves, left=0.0, right=1.0)
    n = len(ordered)
    return float(max(np.abs(values - np.arange(n) / n).max(), np.abs(values - np.arange(1, n + 1) / n).max()))


def changes_of_mode(difference):
    """Mean number of changes of a chain between v1 < v2 and v1 > v2."""
    counts = []
    for own in difference:
        sides = np.sign(own[np.abs(own) > APART])
        counts.append(np.count_nonzero(np.diff(sides)))
    return float(np.mean(counts))


def measures(part, angles, logs, temperature, truth):
    """A row of results for angles (n_chains, n_draws, 2)."""
    grid, probability, bounds = truth
    first, second = np.moveaxis(angles, -1, 0)
    found = {
        "part": part,
        "ks1": ks_distance(first, grid, probability.sum(axis=1)),
        "ks2": ks_distance(second, grid, probability.sum(axis=0)),
        **{f"in{100 * share:.0f}": float(np.mean(logs > bound)) for share, bound in zip(REGIONS, bounds, strict=True)},
        "changes": changes_of_mode(first - second),
        "temperature": float(np.mean(temperature)),
        **moments(first, second),
    }
    for name, values, edges in (("a", first, EDGES[0]), ("b", second, EDGES[1])):
        shares = np.histogram(values, edges)[0] / values.size
        found |= {f"{name}{i}": float(share) for i, share in enumerate(shares)}
    return found


def draws_of(sampler, target, **options):
    """Draws of chains that start between the modes."""
    if sampler != FULL:
        target = target.minibatched(BATCH_SIZE)
    if sampler == PRINTED:
        target = OneDrawPerTrajectory(target, N_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the temperature is not 1
        return sample(target, SAMPLERS[sampler](), position=unit(np.zeros(2)), **options)


def run(data, sampler, seed, n_chains, n_draws):
    """Measures of the first chain and of all chains, or the exact values of a model."""
    if sampler == GRID:
        empty = measures("all chains", np.zeros((1, 1, 2)), np.zeros(1), np.nan, exact("quantiles", 0))
        values = exact_measures(data)
        return {name: old if name == "part" else values.get(name, np.nan) for name, old in empty.items()}
    target = posterior(data, seed)
    options = {"n_draws": n_draws, "burn_in": n_draws * 3 // 5, "n_chains": n_chains, "random_state": seed}
    draws = draws_of(sampler, target, **options)
    angles = np.arctan2(draws.position[..., 1], draws.position[..., 0])
    logs = np.array([target.log_density(own) for own in draws.position])
    temperature = draws.stats.get("temperature", np.full(logs.shape, np.nan))
    truth = exact(data, seed if data == "sample" else 0)
    return [
        measures("one chain", angles[:1], logs[:1], temperature[:1], truth),
        measures("all chains", angles, logs, temperature, truth),
    ]


def rows_of(rows, data, sampler, part):
    """The rows of a sampler, one for each seed."""
    return [each for each in rows if (each["data"], each["sampler"], each["part"]) == (data, sampler, part)]


def show_printed(rows):
    """The exact values of the models."""
    title("The models as printed: exact values for the quantile data")
    means = ("E(v1 \\| v1 < v2)", "E(v2 \\| v1 < v2)", "E(v1 \\| v1 > v2)", "E(v2 \\| v1 > v2)")
    begin_table(("model", "P(v1 < v2)", *means))
    row(("places of the modes in appendix D", "0.5", *(f"{np.pi / n:.4f}" for n in (-24, 8, 24, -8))))
    for model in MODELS:
        (found,) = rows_of(rows, model, GRID, "all chains")
        row((model, f"{found['lower']:.6f}", *(f"{found[name]:.4f}" for name in ("low1", "low2", "high1", "high2"))))


def show(rows):
    """A table for the chain of the figure, one for all chains, and one for random data."""
    show_printed(rows)
    measured = [each for each in rows if each["sampler"] != GRID]
    n_chains, n_draws = measured[0]["n_chains"], measured[0]["n_draws"]
    names = ("ks1", "ks2", "lower", "changes", "in50", "in90", "in99", "square1", "square2", "temperature")
    head = ("distance, v1", "distance, v2", "P(v1 < v2)", "changes of mode per chain")
    head = (*head, *(f"in {p:.0%}" for p in REGIONS), "E v1^2", "E v2^2", "temperature")
    (truth,) = rows_of(rows, "appendix D", GRID, "all chains")
    for part, n in (("one chain", n_draws), ("all chains", n_draws * n_chains)):
        of = "one chain" if part == "one chain" else f"{n_chains} chains"
        title(f"{of.capitalize()} of {n_draws:,} draws, quantile data: medians (ranges) over seeds")
        begin_table(("sampler", *head))
        moments_of = (f"{truth['lower']:.3f}", "", *(f"{p:.3f}" for p in REGIONS))
        row(("exact", "0", "0", *moments_of, f"{truth['square1']:.4f}", f"{truth['square2']:.4f}", "1"))
        row(("independent draws", *[f"{kstwobign.mean() / np.sqrt(n):.4f}"] * 2, *[""] * 8))
        for sampler in SAMPLERS:
            own = rows_of(rows, "quantiles", sampler, part)
            found = {name: [each[name] for each in own] for name in names}
            digits = {"changes": 1, "square1": 4, "square2": 4}
            cells = ("" if np.isnan(v).any() else spread(v, f".{digits.get(name, 3)}f") for name, v in found.items())
            row((sampler, *cells))
    title(f"Random data, {n_chains} chains: P(v1 < v2) and Kolmogorov-Smirnov distance of v2")
    seeds = sorted({each["seed"] for each in measured})
    begin_table(("sampler", *(f"data {seed}" for seed in seeds)))
    grids = [exact("sample", seed)[1] for seed in seeds]
    row(("exact", *(f"{np.triu(grid, 1).sum() + np.trace(grid) / 2:.3f}" for grid in grids)))
    for sampler in (FULL, PAPER):
        found = rows_of(rows, "sample", sampler, "all chains")
        row((sampler, *(f"{each['lower']:.3f}, {each['ks2']:.3f}" for each in found)))


def draw(rows):
    """Marginals of the first seed's single chain, and draws of many short chains over the exact joint density."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    grid, probability, _ = exact("quantiles", 0)
    shown = ((PAPER, "C0", "-", "SGGMC"), (FULL, "C2", "--", "GMC"), (PRINTED, "C3", ":", "one minibatch"))
    for ax, name, edges, axis in ((axes[0], "a", EDGES[0], 1), (axes[1], "b", EDGES[1], 0)):
        ax.plot(grid, probability.sum(axis=axis) / (grid[1] - grid[0]), color="black", linewidth=1.5, label="exact")
        for sampler, color, line, label in shown:
            found = rows_of(rows, "quantiles", sampler, "one chain")[0]
            heights = np.array([found[f"{name}{i}"] for i in range(len(edges) - 1)]) / np.diff(edges)
            ax.stairs(heights, edges, color=color, linestyle=line, linewidth=1.2, label=label)
        ax.set(xlim=(edges[0], edges[-1]), xlabel=f"angle of v{2 - axis}", ylabel="density", title="One chain")
    axes[0].legend(fontsize="small")
    draws = draws_of(PAPER, posterior("quantiles", 0), n_draws=100, burn_in=200, n_chains=64, random_state=0)
    x, y = np.moveaxis(draws.flat(), -1, 0)
    axes[2].scatter(*np.arctan2(y, x).T, s=2, color="C0", linewidths=0)
    axes[2].contour(grid, grid, probability.T, 6, colors="black", linewidths=0.8)
    axes[2].set(xlim=EDGES[0][[0, -1]], ylim=EDGES[1][[0, -1]], xlabel="angle of v1", ylabel="angle of v2")
    axes[2].set_title("SGGMC, 64 short chains")
    return figure
