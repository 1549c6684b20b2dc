"""
Two directions, learned from ten rows at a time
===============================================

A posterior on a product of circles, written as a user would write it: plain functions of a point
and some rows of the data. With minibatches, a sampler has two jobs. It must not leave the manifold,
and it must not take the noise of the minibatches for a wider posterior. `SGGMC` does the first
by moving along great circles, and the second if it is told to estimate the noise while it runs.

The model is that of section 5.2 of Liu, Zhu and Song (2016), *Stochastic gradient geodesic MCMC
methods*, with the likelihood of their appendix D.
"""

# %%
# Data
# ----
# A hundred directions in the plane: half scatter about -7.5 degrees and half about 7.5. The second
# half mirrors the first, so that the posterior is symmetric and its two modes weigh the same.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from skmanifold import sample
from skmanifold.manifolds import Sphere
from skmanifold.models import Density
from skmanifold.samplers import SGGMC

concentration = 20.0
angles = np.random.default_rng(0).vonmises(np.pi / 24, concentration, 50)
angles = np.concatenate([angles, -angles])
data = np.stack([np.cos(angles), np.sin(angles)], axis=1)

# %%
# Model
# -----
# Half of the data come from a von Mises-Fisher distribution about the first direction, half from one
# about the direction midway between the first and the second. Both directions have a von Mises-Fisher
# prior about (1, 0).
#
# So the first direction takes one of the groups, and the second must lie as far on the other side of
# the other group. Which group is which, the data cannot tell: hence two modes.
#
# A point ``v`` is a pair of unit vectors: ``Sphere(2, n_points=2)``. The functions take all chains at
# once (``vectorized=True``), and return a value or a gradient for *every row*. From the scatter of
# the rows' gradients a sampler learns how noisy a minibatch is.


def midway(v):
    total = v[:, 0] + v[:, 1]
    return total / np.linalg.norm(total, axis=1, keepdims=True)


def turned(v):
    """Unit vectors, by a right angle: the direction in which their angle grows."""
    return np.stack([-v[..., 1], v[..., 0]], axis=-1)


def log_kernel(x, direction):
    return concentration * np.einsum("cni,ci->cn", x, direction)


def log_likelihood(v, rows):
    x = data[rows]
    return np.logaddexp(log_kernel(x, v[:, 0]), log_kernel(x, midway(v)))


def grad_log_likelihood(v, rows):
    x, middle = data[rows], midway(v)
    from_first = expit(log_kernel(x, v[:, 0]) - log_kernel(x, middle))  # probability, for each row
    by_second = (1 - from_first) * log_kernel(x, turned(middle)) / 2  # the middle turns by half
    by_first = from_first * log_kernel(x, turned(v[:, 0])) + by_second
    return np.stack([by_first, by_second], axis=-1)[..., np.newaxis] * turned(v)[:, np.newaxis]


target = Density(
    Sphere(2, n_points=2),
    grad_log_likelihood,
    log_likelihood,
    n_samples=len(data),
    grad_log_prior=lambda v: np.broadcast_to([concentration, 0.0], v.shape),
    log_prior=lambda v: concentration * v[:, :, 0].sum(axis=1),
    vectorized=True,
)

# %%
# Exact posterior
# ---------------
# Two angles are few enough for a grid. The smallest regions that hold 50, 90 and 99 percent of the
# posterior will be our yardstick.

first, second = np.meshgrid(np.linspace(-22, 22, 201), np.linspace(-50, 50, 201), indexing="ij")
grid = np.radians(np.stack([first.ravel(), second.ravel()], axis=1))
log_density = target.log_density(np.stack([np.cos(grid), np.sin(grid)], axis=-1))
probability = np.exp(log_density - log_density.max())
probability /= probability.sum()

falling = np.sort(log_density)[::-1]
held = np.cumsum(np.sort(probability)[::-1])
shares = np.array([0.5, 0.9, 0.99])
levels = falling[np.searchsorted(held, shares)]

# %%
# Three samplers
# --------------
# The first takes all hundred rows at every step. The other two take ten; ``"fisher"`` estimates the
# covariance of the minibatches' noise and injects that much less noise of its own, ``None`` does not, and `sample`
# warns of the temperature that results.
# Chains begin with both directions at zero degrees, between the modes. They cross from one mode to the
# other only now and then, so that the last column below is a rough one.

settings = {"step_size": 0.01, "friction": 50.0, "n_steps": 10}
runs = {
    "all 100 rows": (SGGMC(**settings), None),
    "10 rows, noise ignored": (SGGMC(**settings, noise_covariance=None), 10),
    "10 rows, noise compensated": (SGGMC(**settings, noise_covariance="fisher"), 10),
}
start = np.broadcast_to([1.0, 0.0], (64, 2, 2))

drawn = {}
print("Share of draws inside the exact regions, and in the mode where the first angle is negative")
print(f"  {'exact':<28}{shares[0]:.1%}  {shares[1]:.1%}  {shares[2]:.1%}  {0.5:7.1%}")
for name, (sampler, batch_size) in runs.items():
    draws = sample(
        target, sampler, n_draws=400, burn_in=100, n_chains=64, batch_size=batch_size, position=start, random_state=0
    )
    v = draws.flat()
    inside = [np.mean(target.log_density(v) > level) for level in levels]
    drawn[name] = np.degrees(np.arctan2(v[..., 1], v[..., 0]))
    negative = np.mean(drawn[name][:, 0] < drawn[name][:, 1])
    print(f"  {name:<28}{inside[0]:.1%}  {inside[1]:.1%}  {inside[2]:.1%}  {negative:7.1%}")

# %%
# What they drew
# --------------
# With all rows the draws fill the contours. With ten rows and nothing done about it they spill over on
# all sides: of the draws, six percent are beyond the line that one percent should cross. With the
# noise compensated they are back inside, and still a step reads ten rows.

fig, axes = plt.subplots(1, 3, figsize=(11, 4.4), sharex=True, sharey=True, layout="constrained")
for ax, (name, values) in zip(axes, drawn.items(), strict=True):
    ax.scatter(*values[::8].T, s=4, color="#4292c6", linewidths=0, label="draws")
    ax.contour(first, second, log_density.reshape(first.shape), levels[::-1], colors="black", linestyles="-")
    ax.plot([], [], color="black", label="exact: 50, 90, 99 %")
    ax.set_title(name, loc="left", fontsize=11)
    ax.set_xlabel("first direction (degrees)")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("second direction (degrees)")
axes[0].legend(loc="upper right", frameon=False, markerscale=3)

plt.show()
