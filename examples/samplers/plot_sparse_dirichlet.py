"""
Sampling sparse proportions
===========================

If most categories have never been observed, the posterior of their proportions has nearly all its
mass close to zero. Which sampler represents this posterior? This example compares two samplers on a
Dirichlet posterior that is known exactly. `SGRLD` simulates a Langevin diffusion with small
discrete steps and has a large error near zero. `SCIR` draws from the exact transition of a
Cox-Ingersoll-Ross process and has no discretisation error.

The target and the comparison follow Baker, Fearnhead, Fox and Nemeth (2018), *Large-scale
stochastic sampling from the probability simplex*.
"""

# %%
# Posterior
# ---------
# There are ten categories and 1,000 observations: 800, 100 and 100 of the first three categories
# and none of the others. With a Dirichlet prior with the concentration 0.1 for each category the
# posterior is a Dirichlet distribution.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.distributions import averaged_ks_distance, sample_log_dirichlet
from skmanifold.models import DirichletPosterior, ExpandedMean
from skmanifold.samplers import SCIR, SGRLD

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

observations = np.repeat([0, 1, 2], [800, 100, 100])
posterior = DirichletPosterior(np.full(10, 0.1), observations)
exact = posterior.concentrations
print("Concentrations of the posterior:")
print(exact.round(1))

# %%
# Two samplers
# ------------
# `SCIR` samples the posterior directly. `SGRLD` needs coordinates without the constraint that
# proportions sum to one. `ExpandedMean` provides ten positive coordinates, and its method ``point``
# converts them to proportions. `SGRLD` warns if a concentration is below 1/2, because no step size
# is then small enough near zero. It also warns that the chains have not converged, because steps of
# 0.01 are short. We show both warnings once and then suppress them.
#
# The averaged Kolmogorov-Smirnov distance measures the error of the draws. It is the mean over
# categories of the largest difference between the empirical and the exact distribution function.

expanded = ExpandedMean(posterior, total=exact.sum())


def proportions(method, step_size, batch_size):
    """Five chains of 1,000 draws, after 1,000 steps of burn-in."""
    if method == "SCIR":
        target, sampler = posterior, SCIR(step_size)
    else:
        target, sampler = expanded, SGRLD(step_size)
    options = {"n_draws": 1000, "burn_in": 1000, "n_chains": 5, "random_state": 0}
    position = sample(target, sampler, batch_size=batch_size, **options).position
    return position if method == "SCIR" else expanded.point(position)


def distances(draws):
    """Distance of each chain."""
    return np.array([averaged_ks_distance(chain, exact) for chain in draws])


independent = np.exp(sample_log_dirichlet(exact, 5000, random_state=0)).reshape(5, 1000, 10)
best_possible = distances(independent).mean()
first_try = distances(proportions("SGRLD", 0.01, 10)).mean()
print(f"Distance of 1,000 independent draws:      {best_possible:.3f}")
print(f"Distance of SGRLD, minibatches of 10:     {first_try:.3f}")
warnings.filterwarnings("ignore", message="SGRLD does not draw|The chains have not converged")

# %%
# Error for each minibatch size
# -----------------------------
# For each sampler and minibatch size we try several step sizes and use the one with the smallest
# distance. In practice this choice is not possible, because the exact posterior is unknown; here it
# favours both samplers equally.

batch_sizes = [1, 10, 100, 1000]
step_sizes = [1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001]
best, chosen = {}, {}
print("Sampler   rows   step size   distance")
for method in ("SGRLD", "SCIR"):
    for batch_size in batch_sizes:
        tried = {h: distances(proportions(method, h, batch_size)) for h in step_sizes}
        chosen[method, batch_size] = h = min(tried, key=lambda h: tried[h].mean())
        best[method, batch_size] = tried[h]
        print(f"{method:<7}{batch_size:7}{h:12}{tried[h].mean():11.3f}")

fig, ax = plt.subplots()
for method, style in (("SGRLD", "C1s--"), ("SCIR", "C0o-")):
    values = np.array([best[method, batch_size] for batch_size in batch_sizes])
    mean = values.mean(axis=1)
    spread = np.abs(np.array([values.min(axis=1), values.max(axis=1)]) - mean)
    ax.errorbar(batch_sizes, mean, spread, fmt=style, capsize=3, label=method)
ax.axhline(best_possible, color="black", linestyle=":", label="independent draws")
ax.set(xscale="log", xlabel="rows per minibatch (of 1,000)", ylim=(0, None))
ax.set_ylabel("averaged Kolmogorov-Smirnov distance")
ax.set_xticks(batch_sizes, batch_sizes)
ax.minorticks_off()
ax.set_title("Error of the draws (bars: range over five chains)")
ax.legend()

# %%
# With larger minibatches `SCIR` approaches the distance of independent draws. `SGRLD` keeps a large
# distance even if it uses all rows. Its error is therefore not caused by the noise of the
# minibatches but by its discrete steps.
#
# A category without observations
# -------------------------------
# We compare the draws of the proportion of the fifth category, with minibatches of ten rows.

compared = {
    "exact": sample_log_dirichlet(exact, 5000, random_state=0)[:, 4] / np.log(10),
    "SCIR": np.log10(proportions("SCIR", chosen["SCIR", 10], 10)[..., 4].ravel()),
    "SGRLD": np.log10(proportions("SGRLD", chosen["SGRLD", 10], 10)[..., 4].ravel()),
}
print("Quantiles of log10 of the proportion")
print("           5%     50%     95%")
for name, values in compared.items():
    print(f"{name:<6}" + "".join(f"{q:8.1f}" for q in np.quantile(values, [0.05, 0.5, 0.95])))

fig, ax = plt.subplots()
lowest = -20
grid = np.linspace(lowest, 0, 400)
for (name, values), style in zip(compared.items(), ("k-", "C0--", "C1-."), strict=True):
    ax.plot(grid, np.searchsorted(np.sort(values), grid) / len(values), style, label=name)
ax.set(xlabel="log10 of the proportion of the fifth category", ylabel="share of draws below")
ax.set(xlim=(lowest, 0), ylim=(0, 1.02), title="A category that was never observed")
ax.legend(loc="upper left")

plt.show()

# %%
# The distribution of the draws of `SCIR` is close to the exact one over many orders of magnitude.
# The draws of `SGRLD` are rarely close enough to zero: its steps move it away before it reaches
# such values. It overestimates the typical proportion of rare categories by orders of magnitude.
# For a Langevin sampler use the coordinates of ``Softmax``, as the warning recommends.
