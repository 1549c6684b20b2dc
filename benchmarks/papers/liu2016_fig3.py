"""Fig. 3 of Liu et al. (2016): a density on the circle, sampled with very noisy gradients.

The density is e^(5 m'x) + 2 e^(-5 m'x) on the circle, with m at the angle pi/3, so that the first mode has a third of
the probability. The gradients of SGGMC and GSGNHT have normal noise with covariance 1000 I. Settings are those of the
paper: step size 0.01, 30 steps per draw and friction 10 (rho = 0.1), 10,000 draws, bins of 0.1. GMC uses the exact
gradients. The paper does not state the burn-in, the start, or whether the gradient noise is drawn again in each of the
30 steps. Here each chain starts at a random point and has a burn-in of 2,000 draws. Algorithm 1 of the paper draws the
minibatch once for all 30 steps; this variant is "SGGMC, one draw of noise". All other variants draw new noise in each
step. Chains change rarely between the modes, so each run has 250 chains: the first is the one chain of the figure, and
all of them show the distribution that the sampler draws from.

The claim: with noisy gradients, 100 and 10,000 draws of SGGMC show no obvious difference from the true density or GMC.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks._results import begin_table, row, title
from benchmarks._runs import spread
from skmanifold import sample
from skmanifold.models import NoisyGradient, circle
from skmanifold.samplers import GMC, GSGNHT, SGGMC

NOISE = 1000.0  # variance
N_STEPS = 30
SETTINGS = {"step_size": 0.01, "friction": 10.0, "n_steps": N_STEPS}
SAMPLERS = {
    "GMC, exact gradients": lambda: GMC(0.01, N_STEPS, jitter=0.0),
    "SGGMC, ABOBA": lambda: SGGMC(**SETTINGS, scheme="aboba"),
    "SGGMC": lambda: SGGMC(**SETTINGS),
    "GSGNHT": lambda: GSGNHT(**SETTINGS, scheme="aboba"),
    "SGGMC, noise ignored": lambda: SGGMC(**SETTINGS, scheme="aboba", noise_covariance=None),
    "SGGMC, one draw of noise": lambda: SGGMC(**SETTINGS, scheme="aboba"),
}
EXACT, PRINTED, PAPER = "GMC, exact gradients", "SGGMC, one draw of noise", "SGGMC, ABOBA"
PARTS = ("first 100 draws", "100 of the 10,000 draws", "one chain", "all chains")
N_SEEDS = 5
FIRST = np.pi / 3  # angle of the first mode
START = FIRST - np.pi / 2  # angles are between START and START + 2 pi; the half circle from START has the first mode
WIDTH = 0.1


class OneDrawPerTrajectory:
    """A target whose noise or minibatch is the same in all steps of a trajectory, as in algorithm 1 as printed."""

    vectorized = True

    def __init__(self, target, n_steps):
        self.target = target
        self.manifold = target.manifold
        self.noise_covariance = target.noise_covariance
        self.n_steps = n_steps
        self.n_calls = 0

    def _keys(self, keys):
        if self.n_calls % self.n_steps == 0:
            self.keys = keys.copy()
        self.n_calls += 1
        return self.keys

    def grad_log_density(self, position, keys, out):
        """The gradient with the noise of the first step of the trajectory."""
        self.target.grad_log_density(position, self._keys(keys), out)

    def grad_with_deviations(self, position, keys, out):
        """The gradient with the minibatch of the first step of the trajectory."""
        return self.target.grad_with_deviations(position, self._keys(keys), out)


def cases(quick):
    """Settings of the runs."""
    n_chains, n_draws = (20, 300) if quick else (250, 10_000)
    return [
        {"sampler": sampler, "seed": seed, "n_chains": n_chains, "n_draws": n_draws}
        for sampler in SAMPLERS
        for seed in range(2 if quick else N_SEEDS)
    ]


def bins():
    """Edges of the bins, which have a width of 0.1 except for the last one of each half circle."""
    half = np.append(np.arange(0.0, np.pi, WIDTH), np.pi)
    return START + np.concatenate([half, np.pi + half[1:]])


def density_at(angles):
    """The density at angles, up to a constant."""
    return np.exp(circle().log_density(np.stack([np.cos(angles), np.sin(angles)], axis=1)))


def exact_shares():
    """Probabilities of the bins."""
    edges = bins()
    places = np.linspace(0.0, 1.0, 201)
    widths = np.diff(edges)
    points = edges[:-1, np.newaxis] + widths[:, np.newaxis] * places
    masses = np.trapezoid(density_at(points.ravel()).reshape(points.shape), places, axis=1) * widths
    return masses / masses.sum()


def variation(shares, exact):
    """Total variation distance of shares of bins."""
    return float(np.abs(shares - exact).sum() / 2)


def within_modes(shares, exact):
    """Total variation distance within the half circle of a mode, averaged over the draws."""
    total = 0.0
    for own, true in zip(np.split(shares, 2), np.split(exact, 2), strict=True):
        if own.sum():
            total += own.sum() * variation(own / own.sum(), true / true.sum())
    return total


def measures(part, angles, temperature):
    """A row of results: distances, the share of the first mode, E(m'x)^2, the temperature and all shares."""
    exact = exact_shares()
    shares = np.histogram(angles, bins())[0] / angles.size
    found = {
        "part": part,
        "variation": variation(shares, exact),
        "within": within_modes(shares, exact),
        "first": float(shares[: len(shares) // 2].sum()),
        "square": float(np.mean(np.cos(angles - FIRST) ** 2)),
        "temperature": float(np.mean(temperature)),
    }
    return {**found, **{f"bin{i}": float(share) for i, share in enumerate(shares)}}


def run(sampler, seed, n_chains, n_draws):
    """Measures of 100 draws of the first chain, of all its draws, and of all chains."""
    target = circle() if sampler == EXACT else NoisyGradient(circle(), NOISE)
    if sampler == PRINTED:
        target = OneDrawPerTrajectory(target, N_STEPS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the temperature is not 1
        draws = sample(
            target, SAMPLERS[sampler](), n_draws=n_draws, burn_in=n_draws // 5, n_chains=n_chains, random_state=seed
        )
    x, y = np.moveaxis(draws.position, -1, 0)
    angles = START + np.mod(np.arctan2(y, x) - START, 2 * np.pi)
    temperature = draws.stats.get("temperature", np.full(angles.shape, np.nan))
    chosen = (0, slice(100)), (0, slice(None, None, max(1, n_draws // 100))), 0, slice(None)
    return [measures(part, angles[which], temperature[which]) for part, which in zip(PARTS, chosen, strict=True)]


def rows_of(rows, sampler, part):
    """The rows of a sampler, one for each seed."""
    return [each for each in rows if (each["sampler"], each["part"]) == (sampler, part)]


def independent(n, exact, n_repeats=200):
    """Mean distances of n independent draws, in total and within modes."""
    shares = np.random.default_rng(0).multinomial(n, exact, n_repeats) / n
    return np.mean([[variation(own, exact), within_modes(own, exact)] for own in shares], axis=0)


def show(rows):
    """A table for the chain of the figure, one for all chains, and one for 100 draws."""
    exact = exact_shares()
    grid = np.linspace(0.0, 2 * np.pi, 2000, endpoint=False)
    square = np.average(np.cos(grid - FIRST) ** 2, weights=density_at(grid))
    first = exact[: len(exact) // 2].sum()
    n_chains, n_draws = rows[0]["n_chains"], rows[0]["n_draws"]
    head = ("total variation", "within modes", "share of the first mode", "E(m'x)^2", "temperature")
    names = ("variation", "within", "first", "square", "temperature")
    for part, count, n in ((PARTS[2], "One chain", n_draws), (PARTS[3], f"{n_chains} chains", n_draws * n_chains)):
        title(f"{count} of {n_draws:,} draws: medians (ranges) over seeds")
        begin_table(("sampler", *head))
        row(("exact", "0", "0", f"{first:.4f}", f"{square:.4f}", "1"))
        total, within = independent(n, exact)
        row(("independent draws", f"{total:.4f}", f"{within:.4f}", "", "", ""))
        for sampler in SAMPLERS:
            own = rows_of(rows, sampler, part)
            found = [[each[name] for each in own] for name in names]
            row((sampler, *("" if np.isnan(values).any() else spread(values, ".4f") for values in found)))
    title("Total variation of 100 draws of one chain: medians (ranges) over seeds")
    begin_table(("sampler", *PARTS[:2]))
    row(("independent draws", *[f"{independent(100, exact)[0]:.2f}"] * 2))
    for sampler in SAMPLERS:
        row(
            (
                sampler,
                *(spread([each["variation"] for each in rows_of(rows, sampler, part)], ".2f") for part in PARTS[:2]),
            )
        )


def draw_circle(ax, rows):
    """One chain of SGGMC on the circle: a bar for the share of each bin, and a dot for each of 100 draws."""
    edges = bins()
    centres, widths = (edges[:-1] + edges[1:]) / 2, np.diff(edges)

    def shares_of(part):
        found = rows_of(rows, PAPER, part)[0]
        return np.array([found[f"bin{i}"] for i in range(len(centres))])

    ax.bar(centres, 0.5 * shares_of(PARTS[2]) / widths, width=widths, bottom=1.0, color="C0", alpha=0.5)
    counts = np.round(100 * shares_of(PARTS[1])).astype(int)
    ranks = np.concatenate([np.arange(count) for count in counts])
    ax.plot(np.repeat(centres, counts), 0.95 - 0.05 * ranks, "o", color="C1", markersize=2.5)
    ax.set(ylim=(0.0, 1.5), yticks=[1.0], yticklabels=[], title="100 draws (dots) and all draws (bars)")


def draw_angles(ax, rows):
    """Densities of the angle."""
    edges = bins()
    grid = np.linspace(edges[0], edges[-1], 500)
    exact = density_at(grid)
    ax.plot(grid, exact / np.trapezoid(exact, grid), color="black", linewidth=1.5, label="exact")
    shown = (
        (PAPER, PARTS[2], "C0", "-", "SGGMC, one chain"),
        (EXACT, PARTS[2], "C2", "--", "GMC, one chain"),
        (PAPER, PARTS[3], "C1", "-", "SGGMC, all chains"),
        ("SGGMC, noise ignored", PARTS[3], "C3", ":", "noise ignored, all chains"),
        (PRINTED, PARTS[3], "C4", "-.", "one draw of noise, all chains"),
    )
    for sampler, part, color, line, label in shown:
        found = rows_of(rows, sampler, part)[0]
        heights = [found[f"bin{i}"] for i in range(len(edges) - 1)] / np.diff(edges)
        ax.stairs(heights, edges, color=color, linestyle=line, linewidth=1.2, label=label)
    ax.set(xlabel="angle", ylabel="density", title="Bins of 0.1")
    ax.legend(fontsize="small")


def draw(rows):
    """The first seed on the circle and by angle."""
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(11, 4.5), layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=(1, 1.6))
    draw_circle(figure.add_subplot(grid[0], projection="polar"), rows)
    draw_angles(figure.add_subplot(grid[1]), rows)
    return figure
