"""Fig. 2 (right) of Ma et al. (2015): autocorrelation on the banana of samplers with and without momenta and a metric.

The potential is t1^4 / 10 + (4 (t2 + 1.2) - t1^2)^2 / 2, with exact gradients. The metric of the Riemannian samplers is
G^-1 = 1.5 s sqrt(U + 0.5), in the paper with s = 1. For each sampler 21 settings are run: step sizes and scales s, step
sizes and frictions, or only step sizes. Of the settings whose means of t1^2, t1^4 and t2 are biased by at most 3% of a
standard deviation, the best one has the least autocorrelation time, in gradients, of the slowest of t1, t2 and t1^2.

The paper does not state step sizes and frictions. Its claim: gSGRHMC explores fastest, since both momenta and the
metric help.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks._results import title
from skmanifold import sample
from skmanifold.models import banana
from skmanifold.samplers import SGHMC, SGLD, SGRHMC, SGRLD

from ._efficiency import best_settings, measure, show_best

STEP_SIZES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
SCALES = (0.3, 1.0, 3.0)  # of the friction or of the metric
N_CHAINS, TIME = 200, 600.0
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


def autocorrelation_time(draws, n_gradients):
    """Of the slowest of t1, t2 and t1^2, in gradients."""
    return n_gradients / draws.map(lambda x: np.concatenate([x, x[..., :1] ** 2], axis=-1)).ess(method="mean").min()


def run(sampler, step_size, scale):
    """Largest bias, autocorrelation time of the slowest function in gradients, and microseconds of a gradient."""
    return measure(
        banana(),
        SAMPLERS[sampler](step_size, scale),
        START,
        N_CHAINS,
        TIME,
        checked=lambda x: np.stack([x[..., 0] ** 2, x[..., 0] ** 4, x[..., 1]], axis=-1),
        means=EXACT,
        gradients_of=autocorrelation_time,
    )


def show(rows):
    """The best setting of each sampler."""
    title("Autocorrelation time on the banana, at the best setting of each sampler")
    show_best(rows, SAMPLERS, without_scale=("SGLD",))


def draw(rows):
    """The first draws of a chain of each sampler at its best setting, every few gradients, over contours."""
    import matplotlib.pyplot as plt

    found = {sampler: best for sampler, best in best_settings(rows, SAMPLERS).items() if best is not None}
    figure, axes = plt.subplots(
        1, len(found), figsize=(3 * len(found), 3), layout="constrained", sharey=True, squeeze=False
    )
    x = np.stack(np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-2.2, 1.5, 61)), axis=-1)
    for ax, (sampler, best) in zip(axes[0], found.items(), strict=True):
        ax.contour(x[..., 0], x[..., 1], np.exp(-energy(x)), levels=6, colors="0.7", linewidths=0.8)
        own = SAMPLERS[sampler](best["step_size"], best["scale"])
        options = {"n_draws": 11, "thin": N_SHOWN // 10, "n_chains": 1, "burn_in": 0, "random_state": 0}
        draws = sample(banana(), own, position=START, **options)
        ax.plot(*draws.position[0].T, "o-", markersize=4, linewidth=0.8)
        ax.set(title=f"{sampler}\n{best['gradients']:.0f} gradients", xlabel="t1")
    axes[0, 0].set_ylabel("t2")
    return figure
