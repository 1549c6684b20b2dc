"""Fig. 2 (right) of Ma et al. (2015): autocorrelation on the banana of samplers with and without momenta and a metric.

The potential is t1^4 / 10 + (4 (t2 + 1.2) - t1^2)^2 / 2, with exact gradients. The metric of the Riemannian samplers is
G^-1 = 1.5 s sqrt(U + 0.5), in the paper with s = 1. For each sampler 21 settings are run: step sizes and scales s, step
sizes and frictions, or only step sizes. Of the settings whose means of t1^2, t1^4 and t2 are biased by at most 3% of a
standard deviation, the best one has the least autocorrelation time, in gradients, of the slowest of t1, t2 and t1^2.

The paper does not state step sizes and frictions. Its claim: gSGRHMC explores fastest, since both momenta and the
metric help.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
from _results import begin_table, row, title

from skmanifold import sample
from skmanifold.models import banana
from skmanifold.samplers import SGHMC, SGLD, SGRHMC, SGRLD, NonFiniteError

STEP_SIZES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
SCALES = (0.3, 1.0, 3.0)  # of the friction or of the metric
N_CHAINS, TIME, N_DRAWS = 200, 600.0, 1200
BIAS = 0.03  # of a standard deviation
EXACT = np.array([1.068815443662356, 2.5, -0.932796139084411])  # t1^2, t1^4, t2
START = np.array([1.0, -0.95])
N_SHOWN = 60  # gradients between the first and the last point of the figure


def energy(x):
    """The potential at points."""
    return x[..., 0] ** 4 / 10 + (4 * (x[..., 1] + 1.2) - x[..., 0] ** 2) ** 2 / 2


def inverse_metric(scale):
    """G^-1 as a diagonal."""
    return lambda x: np.repeat((1.5 * scale * np.sqrt(energy(x) + 0.5))[:, None], 2, axis=1)


SAMPLERS = {
    "SGLD": lambda h, scale: SGLD(h),
    "SGRLD": lambda h, scale: SGRLD(h, inverse_metric(scale)),
    "SGHMC, Euler": lambda h, scale: SGHMC(h, friction=scale, scheme="euler"),
    "SGHMC": lambda h, scale: SGHMC(h, friction=scale),
    "gSGRHMC, Euler": lambda h, scale: SGRHMC(h, inverse_metric(scale), scheme="euler"),
    "gSGRHMC": lambda h, scale: SGRHMC(h, inverse_metric(scale)),
}


def cases(quick):
    """Settings of the runs. The scale of SGLD is that of its step size."""
    if quick:
        return [{"sampler": sampler, "step_size": 0.02, "scale": 1.0} for sampler in SAMPLERS]
    return [
        {"sampler": sampler, "step_size": h * scale if sampler == "SGLD" else h, "scale": scale}
        for sampler, h, scale in product(SAMPLERS, STEP_SIZES, SCALES)
    ]


def draw_from(sampler, step_size, scale, **options):
    """Draws of a sampler that begins at one point."""
    with np.errstate(all="ignore"):
        return sample(banana(), SAMPLERS[sampler](step_size, scale), position=START, random_state=0, **options)


def run(sampler, step_size, scale):
    """Largest bias, autocorrelation time of the slowest function in gradients, and microseconds of a gradient."""
    start = time.perf_counter()
    thin = max(1, round(TIME / N_DRAWS / step_size))
    try:
        draws = draw_from(sampler, step_size, scale, n_draws=N_DRAWS, thin=thin, n_chains=N_CHAINS)
    except NonFiniteError:
        return {"bias": np.inf, "autocorrelation": np.inf, "microseconds": np.nan}
    n_gradients = N_CHAINS * N_DRAWS * thin
    microseconds = 1e6 * (time.perf_counter() - start) / (1.5 * n_gradients)  # the burn-in is half as long
    t1, t2 = np.moveaxis(draws.position, -1, 0)
    values = np.stack([t1**2, t1**4, t2], axis=-1)
    bias = np.abs(values.mean(axis=(0, 1)) - EXACT) / values.std(axis=(0, 1))
    ess = draws.map(lambda x: np.concatenate([x, x[..., :1] ** 2], axis=-1)).ess(method="mean")
    return {
        "bias": float(bias.max()),
        "autocorrelation": float(n_gradients / ess.min()),
        "microseconds": float(microseconds),
    }


def best_settings(rows):
    """The best row of each sampler, or None if all are biased."""
    found = {}
    for sampler in SAMPLERS:
        own = [each for each in rows if each["sampler"] == sampler and each["bias"] <= BIAS]
        found[sampler] = min(own, key=lambda each: each["autocorrelation"], default=None)
    return found


def show(rows):
    """The best setting of each sampler."""
    title("Autocorrelation time on the banana, at the best setting of each sampler")
    begin_table(("sampler", "step size", "scale", "gradients", "largest bias", "microseconds per gradient"))
    for sampler, best in best_settings(rows).items():
        if best is None:
            row((sampler, "", "", "no setting has a bias below 3%", "", ""))
        else:
            microseconds, size = best["microseconds"], best["step_size"]
            scale = "" if sampler == "SGLD" else f"{best['scale']:g}"
            row(
                (
                    sampler,
                    f"{size:g}",
                    scale,
                    f"{best['autocorrelation']:.0f}",
                    f"{best['bias']:.3f}",
                    f"{microseconds:.2f}",
                )
            )


def draw(rows):
    """The first draws of a chain of each sampler at its best setting, every few gradients, over contours."""
    import matplotlib.pyplot as plt

    found = {sampler: best for sampler, best in best_settings(rows).items() if best is not None}
    figure, axes = plt.subplots(
        1, len(found), figsize=(3 * len(found), 3), layout="constrained", sharey=True, squeeze=False
    )
    x = np.stack(np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-2.2, 1.5, 61)), axis=-1)
    for ax, (sampler, best) in zip(axes[0], found.items(), strict=True):
        ax.contour(x[..., 0], x[..., 1], np.exp(-energy(x)), levels=6, colors="0.7", linewidths=0.8)
        draws = draw_from(
            sampler, best["step_size"], best["scale"], n_draws=11, thin=N_SHOWN // 10, n_chains=1, burn_in=0
        )
        ax.plot(*draws.position[0].T, "o-", markersize=4, linewidth=0.8)
        ax.set(title=f"{sampler}\n{best['autocorrelation']:.0f} gradients", xlabel="t1")
    axes[0, 0].set_ylabel("t2")
    return figure
