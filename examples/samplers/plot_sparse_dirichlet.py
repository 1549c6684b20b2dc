"""
Sparse proportions: where discretisation fails
==============================================

Ten categories, a thousand observations, and seven of the categories were never seen. What are their
proportions? The posterior is a Dirichlet distribution, so we know the answer: typically one in a
million, often far less. Langevin samplers have trouble saying so. They move in small straight steps
and are mirrored at zero, close to which all the mass is. `SCIR` takes no small steps: it draws from
the exact transition of a diffusion.

The target and the comparison are those of Baker, Fearnhead, Fox and Nemeth (2018), *Large-scale
stochastic sampling from the probability simplex*.
"""

# %%
# The posterior
# -------------
# 800, 100 and 100 observations of the first three categories, none of the others, and a Dirichlet
# prior whose concentrations are all 0.1.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.distributions import averaged_ks_distance, sample_log_dirichlet
from skmanifold.models import DirichletPosterior, ExpandedMean
from skmanifold.samplers import SCIR, SGRLD

observations = np.repeat([0, 1, 2], [800, 100, 100])
posterior = DirichletPosterior(np.full(10, 0.1), observations)
exact = posterior.concentrations
print("Concentrations of the posterior:", exact)

# %%
# Two samplers
# ------------
# `SCIR` takes the posterior as it is. `SGRLD`, stochastic-gradient Riemannian Langevin dynamics,
# needs coordinates without the constraint that proportions sum to one: `ExpandedMean` gives it ten
# positive numbers, which ``point`` turns into proportions again.
#
# How far draws are from the posterior is told by the averaged Kolmogorov-Smirnov distance. A thousand
# independent draws from the posterior itself have a distance of 0.027, which is as good as it gets.
#
# Each sampler has the step size, of seven, that comes closest. Without the exact answer one could not
# choose so well; both are flattered alike.

expanded = ExpandedMean(posterior, total=exact.sum())
step_sizes = [1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001]


def proportions(method, step_size, batch_size):
    """Five chains of a thousand draws, after as many steps of burn-in."""
    target, sampler = (posterior, SCIR(step_size)) if method == "SCIR" else (expanded, SGRLD(step_size))
    draws = sample(
        target, sampler, n_draws=1000, burn_in=1000, n_chains=5, batch_size=batch_size, random_state=0
    ).position
    return draws if method == "SCIR" else expanded.point(draws)


def distances(draws):
    """One of each chain."""
    return np.array([averaged_ks_distance(chain, exact) for chain in draws])


# %%
# Against the size of the minibatch
# ---------------------------------
# The more rows, the nearer `SCIR` comes to the posterior. With all of them it is almost as good as
# independent draws. `SGRLD` stays far away, even with all rows: it is not the noise that it suffers
# from. (Bars: from the least to the largest distance of five chains.)

batch_sizes = [1, 10, 50, 100, 500, 1000]
best, chosen = {}, {}
for method in ("SGRLD", "SCIR"):
    for batch_size in batch_sizes:
        tried = {h: distances(proportions(method, h, batch_size)) for h in step_sizes}
        chosen[method, batch_size] = h = min(tried, key=lambda h: tried[h].mean())
        best[method, batch_size] = tried[h]
        print(f"{method:<6} {batch_size:>5} rows: distance {tried[h].mean():.3f}, with steps of {h}")

markers = {"SGRLD": ("#d95f02", "s", "--"), "SCIR": ("#1b6ca8", "o", "-")}
fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
for method, (colour, marker, line) in markers.items():
    values = np.array([best[method, batch_size] for batch_size in batch_sizes])
    middle = values.mean(axis=1)
    spread = np.abs(np.array([values.min(axis=1), values.max(axis=1)]) - middle)
    ax.errorbar(batch_sizes, middle, spread, color=colour, marker=marker, linestyle=line, capsize=3, label=method)
ax.axhline(0.027, color="black", linestyle=":", linewidth=1.2, label="independent draws from the posterior")
ax.set(xscale="log", xlabel="rows in a minibatch (of 1000)", ylabel="averaged Kolmogorov-Smirnov distance")
ax.set_xticks(batch_sizes, batch_sizes)
ax.minorticks_off()
ax.set_ylim(0, None)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(loc="center right", frameon=False)

# %%
# A category that was never seen
# ------------------------------
# The proportion of the fifth category, with minibatches of ten. One in twenty of the exact draws is
# below 1e-16, and about as many of those of `SCIR`. Half of the exact draws are below 1e-6, but of those
# of `SGRLD` three in a hundred: its steps throw it off before it comes so close to zero. About rare
# categories it is wrong by orders of magnitude.

compared = {
    "exact": sample_log_dirichlet(exact, 5000, random_state=0)[:, 4] / np.log(10),
    "SCIR": np.log10(proportions("SCIR", chosen["SCIR", 10], 10)[..., 4].ravel()),
    "SGRLD": np.log10(proportions("SGRLD", chosen["SGRLD", 10], 10)[..., 4].ravel()),
}
print("\nQuantiles of log10 of the fifth proportion:  5%, 50%, 95%")
for name, values in compared.items():
    print(f"  {name:<6}", np.round(np.quantile(values, [0.05, 0.5, 0.95]), 1))

fig, ax = plt.subplots(figsize=(7.5, 3.2), layout="constrained")
boxes = ax.boxplot(
    list(compared.values())[::-1],
    orientation="horizontal",
    tick_labels=list(compared)[::-1],
    whis=(5, 95),
    showfliers=False,
    widths=0.55,
    patch_artist=True,
    medianprops={"color": "black", "linewidth": 2},
)
for box, colour in zip(boxes["boxes"], ["#fdc38d", "#9ecae1", "#d9d9d9"], strict=True):
    box.set_facecolor(colour)
ax.set_xlabel("log10 of the fifth category's proportion (whiskers: 5 and 95 %)")
ax.grid(axis="x", color="#dddddd")
ax.set_axisbelow(True)
ax.spines[["top", "right"]].set_visible(False)

plt.show()
