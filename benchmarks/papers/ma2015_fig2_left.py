"""Fig. 2 (left) and Fig. S.5 of Ma et al. (2015): distance from the target by step size, with noisy gradients.

Targets are the potentials theta^2/2 ("normal") and theta^4 - 2 theta^2 ("double well"); gradients have Gaussian noise
of variance 1/4, which the samplers know, except for the naive ones. The distance is the Kullback-Leibler divergence of
a histogram of all draws with 80 bins from the target. The metric of the Riemannian samplers is
G^-1 = 1.5 sqrt(|U + C|) with C = 1.5, since with the C = 0.5 of the paper it vanishes at four points of the double
well.

The paper does not state the step sizes, the friction, the noise, the number of draws or the bins. Its claim: SGLD,
SGHMC and gSGRHMC converge to the target as the step size falls, and naive SGRHMC, equation (16), does not.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from benchmarks._results import begin_table, row, title
from skmanifold import sample
from skmanifold.models import NoisyGradient, double_well, standard_normal
from skmanifold.samplers import SGHMC, SGLD, SGNHT, SGRHMC, NonFiniteError, Recipe

NOISE = 0.25  # variance
FRICTION = 1.0
STEP_SIZES = (0.003, 0.01, 0.02, 0.05, 0.1, 0.2)
TARGETS = {
    "normal": (lambda: standard_normal(1), 3.0),
    "double well": (double_well, 1.8),
}  # the density, the end of the histogram
N_BINS, N_CHAINS, TIME, N_PER_CHAIN = 80, 1000, 200.0, 500
OFFSET = 1.5


class Noisy(NoisyGradient):
    """`NoisyGradient` of a target whose functions take all chains at once."""

    vectorized = True


def energy(target, theta):
    """The potential U at points."""
    return theta**2 / 2 if target == "normal" else theta**2 * (theta**2 - 2)


def inverse_metric(target):
    """G^-1 at points, as a diagonal."""
    return lambda x: 1.5 * np.sqrt(np.abs(energy(target, x) + OFFSET))


def naive(target, step_size, *, riemannian):
    """Stochastic HMC with noise in the gradient and no friction, or SGRHMC without its correction (16)."""

    def root_metric(z):  # G^(-1/2)
        return np.sqrt(inverse_metric(target)(z[:, 0])) if riemannian else np.ones(len(z))

    def diffusion(z):
        out = np.zeros((len(z), 2, 2))
        if riemannian:
            out[:, 1, 1] = root_metric(z) ** 2
        return out

    def curl(z):
        out = np.zeros((len(z), 2, 2))
        out[:, 0, 1], out[:, 1, 0] = -root_metric(z), root_metric(z)
        return out

    def drift(z, gradient):
        root = root_metric(z)
        push = root * gradient[:, 0]
        if riemannian:
            push = push - root**2 * z[:, 1]
        return np.stack([root * z[:, 1], push], axis=1)

    return Recipe(
        diffusion,
        curl,
        drift=drift,
        n_auxiliary=1,
        step_size=step_size,
        noise_covariance=None,
        vectorized=True,
    )


SAMPLERS = {
    "SGLD": lambda target, h: SGLD(h),
    "SGHMC, Euler": lambda target, h: SGHMC(h, friction=FRICTION, scheme="euler"),
    "SGHMC": lambda target, h: SGHMC(h, friction=FRICTION),
    "SGNHT": lambda target, h: SGNHT(h, friction=FRICTION),
    "gSGRHMC, Euler": lambda target, h: SGRHMC(h, inverse_metric(target), scheme="euler"),
    "gSGRHMC": lambda target, h: SGRHMC(h, inverse_metric(target)),
    "naive SGHMC": lambda target, h: naive(target, h, riemannian=False),
    "naive SGRHMC": lambda target, h: naive(target, h, riemannian=True),
}


def cases(quick):
    """Settings of the runs."""
    step_sizes = (0.05,) if quick else STEP_SIZES
    return [
        {"target": target, "sampler": sampler, "step_size": h}
        for target, sampler, h in product(TARGETS, SAMPLERS, step_sizes)
    ]


def masses(target):
    """Edges of the bins, and their probabilities given that a point is in the histogram."""
    _, end = TARGETS[target]
    edges = np.linspace(-end, end, N_BINS + 1)
    grid = np.linspace(-end, end, N_BINS * 50 + 1)
    density = np.exp(-energy(target, grid))
    mass = np.add.reduceat(density[:-1] + density[1:], np.arange(0, len(grid) - 1, 50))
    return edges, mass / mass.sum()


def run(target, sampler, step_size):
    """Divergence of the histogram of the second half of a run from the target."""
    density, _ = TARGETS[target]
    edges, mass = masses(target)
    thin = max(1, round(TIME / step_size / N_PER_CHAIN))
    try:
        with np.errstate(all="ignore"):
            draws = sample(
                Noisy(density(), NOISE),
                SAMPLERS[sampler](target, step_size),
                n_draws=N_PER_CHAIN,
                thin=thin,
                n_chains=N_CHAINS,
                position=np.full((N_CHAINS, 1), 0.5),
                random_state=0,
            )
    except NonFiniteError:
        return {"divergence": np.inf}
    counts = np.histogram(draws.position, edges)[0]
    if not counts.all():
        return {"divergence": np.inf}
    return {"divergence": float(np.sum(mass * np.log(mass * counts.sum() / counts)))}


def show(rows):
    """A table for each target."""
    for target in TARGETS:
        own = [found for found in rows if found["target"] == target]
        step_sizes = sorted({found["step_size"] for found in own})
        title(f"Divergence from the target, {target}")
        begin_table(("sampler", *(f"h = {h:g}" for h in step_sizes)))
        for sampler in SAMPLERS:
            found = {each["step_size"]: each["divergence"] for each in own if each["sampler"] == sampler}
            row((sampler, *(f"{found[h]:.5f}" if np.isfinite(found[h]) else "diverges" for h in step_sizes)))


def draw(rows):
    """Divergence against step size."""
    import matplotlib.pyplot as plt

    from benchmarks._runs import line_style

    figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
    for ax, target in zip(axes, TARGETS, strict=True):
        for number, sampler in enumerate(SAMPLERS):
            own = sorted(
                (each["step_size"], each["divergence"])
                for each in rows
                if (each["target"], each["sampler"]) == (target, sampler) and np.isfinite(each["divergence"])
            )
            if own:
                ax.loglog(*zip(*own, strict=True), label=sampler, **line_style(number))
        ax.set(title=target, xlabel="step size")
    axes[0].set_ylabel("Kullback-Leibler divergence")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    return figure
