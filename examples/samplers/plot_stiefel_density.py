r"""
Uncertainty of principal axes: a density on a Stiefel manifold
==============================================================

How certain are the principal axes of a small sample? A pair of axes is a matrix with orthonormal
columns, and such matrices form a Stiefel manifold. To answer the question we need draws from a
posterior on this manifold. This example defines the log density and its gradient as functions of an
ordinary array, checks the gradient, and samples with `GMC` and with minibatches. In three
dimensions the exact answer can be computed on a grid, so all draws can be checked.
"""

# %%
# Model
# -----
# The data are 40 rows y from a normal distribution with mean zero. Their variances are 4 and 2
# along the two columns of an orthonormal matrix X and 1 in the remaining direction. The variances
# are known and X is unknown. With a uniform prior the log posterior of X is, up to a constant,
#
# .. math:: \sum_i \sum_k \tfrac12 c_k (x_k' y_i)^2, \qquad c_k = 1 - 1 / \lambda_k,
#
# where :math:`\lambda_1 = 4` and :math:`\lambda_2 = 2`. This is a matrix Bingham distribution.
# `Density` needs the terms of the rows with the indices ``rows``, so that it can use minibatches.
# With ``vectorized=True``, ``x`` is an array of all chains.

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.inspection import SphereDisplay
from skmanifold.manifolds import Stiefel
from skmanifold.models import Density
from skmanifold.samplers import GMC, SGGMC

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

rng = np.random.default_rng(3)
variances = np.array([4.0, 2.0, 1.0])
true_axes = np.linalg.qr(rng.normal(size=(3, 3)))[0]
Y = rng.normal(size=(40, 3)) * np.sqrt(variances) @ true_axes.T
c = 1 - 1 / variances[:2]


def log_density(x, rows):
    """Terms of the rows, of shape (chains, rows), for x of shape (chains, 3, 2)."""
    return 0.5 * np.sum(c * (Y[rows] @ x) ** 2, axis=-1)


def grad_log_density(x, rows):
    """Gradients of the terms, of shape (chains, rows, 3, 2)."""
    y = Y[rows]
    return y[..., np.newaxis] * (c * (y @ x))[:, :, np.newaxis, :]


target = Density(Stiefel(3, 2), grad_log_density, log_density, n_samples=len(Y), vectorized=True)
eigenvalues, eigenvectors = np.linalg.eigh(Y.T @ Y)
sums_of_squares, sample_axes = eigenvalues[::-1], eigenvectors[:, ::-1]
print("Variances along the principal axes of the sample:", (sums_of_squares / 40).round(1))

# %%
# Check of the gradient
# ---------------------
# A wrong gradient is an easy mistake, and the draws do not always show it. We compare the gradient
# with finite differences. It is the ordinary gradient of the array: `sample` projects it to the
# manifold.

x, all_rows = np.linalg.qr(rng.normal(size=(3, 2)))[0][np.newaxis], np.arange(40)[np.newaxis]
gradient = grad_log_density(x, all_rows).sum(axis=1)[0]
numeric = np.empty_like(gradient)
for entry in np.ndindex(3, 2):
    step = np.zeros((1, 3, 2))
    step[0][entry] = 1e-5
    difference = log_density(x + step, all_rows) - log_density(x - step, all_rows)
    numeric[entry] = difference.sum() / 2e-5
error = np.abs(gradient - numeric).max()
print(f"Largest error of the gradient: {error:.1e}; largest entry: {np.abs(gradient).max():.0f}")

# %%
# Exact answer
# ------------
# The first axis is a point of the sphere, and the second a point of the circle perpendicular to it.
# We compute the density on a grid of both. The sign of an axis is arbitrary, so we use squares: the
# squared cosine between each axis and each principal axis of the sample.

cosine, weight = np.polynomial.legendre.leggauss(80)
turn = 2 * np.pi * np.arange(120) / 120
z, u, v = np.meshgrid(cosine, turn, turn[::3], indexing="ij")
s = np.sqrt(1 - z**2)
first = np.stack([z, s * np.cos(u), s * np.sin(u)])
down = np.stack([-s, z * np.cos(u), z * np.sin(u)])
east = np.stack([0 * u, -np.sin(u), np.cos(u)])
frames = np.stack([first, np.cos(v) * down + np.sin(v) * east])  # axis, coordinate, grid

log_mass = np.einsum("k,kjabc,j->abc", 0.5 * c, frames**2, sums_of_squares)
mass = weight[:, np.newaxis, np.newaxis] * np.exp(log_mass - log_mass.max())
mass /= mass.sum()
exact = np.einsum("kjabc,abc->kj", frames**2, mass)
print("Exact mean squared cosines with the principal axes of the sample")
print(exact.round(3))

# %%
# Sampling with all rows
# ----------------------
# `GMC` moves along geodesics of the manifold and has a Metropolis test, so its only error is the
# Monte Carlo error. `sample` warns that the chains have not converged; the text below explains why
# this does no harm here, so we ignore the warning.


def squared_cosines(x):
    """Squared cosines between the columns of x and the principal axes of the sample."""
    return (x.mT @ sample_axes) ** 2


warnings.filterwarnings("ignore", message="The chains have not converged")
draws = sample(target, GMC(step_size=0.06, n_steps=6), n_draws=800, n_chains=8, random_state=0)
squares = draws.map(squared_cosines)
deviation = np.abs(squares.mean() - exact) / squares.mcse()
print("Mean squared cosines of the draws")
print(squares.mean().round(3))
print(f"Largest difference from the exact means: {deviation.max():.1f} standard errors")
print(f"Acceptance rate: {draws.stats['accepted'].mean():.0%}")
print(f"Largest R-hat of the entries of X:       {draws.rhat().max():.2f}")
print(f"Largest R-hat of the squared cosines:    {squares.rhat().max():.3f}")

# %%
# The means agree with the exact values. R-hat of the entries of X is far above 1.01, because the
# chains have different signs of the same axes and rarely change them. The four combinations of
# signs are equivalent. The squared cosines do not depend on the signs, and their R-hat is close to
# 1. Always compute diagnostics for the quantity of interest.
#
# We plot the draws of both axes with the sign that is closer to the axis of the sample.
# `SphereDisplay` shows the sphere as two hemispheres; the stars are the principal axes of the
# sample.

signs = np.sign(np.einsum("cdjk,jk->cdk", draws.position, sample_axes[:, :2]))
aligned = draws.position * signs[:, :, np.newaxis]
centres = sample_axes[:, :2] * np.where(sample_axes[2, :2] < 0, -1, 1)
aligned = aligned * np.where(sample_axes[2, :2] < 0, -1, 1)
points = aligned.reshape(-1, 3, 2)[::4]
display = SphereDisplay(
    directions=points.transpose(0, 2, 1).reshape(-1, 3),
    groups=np.tile([0, 1], len(points)),
    means=centres.T,
    names=["first axis", "second axis"],
).plot()
display.ax_.set_title("Posterior draws of two principal axes")

# %%
# The clouds show the posterior uncertainty. The second axis is less certain than the first, because
# its variance is closer to the third one.
#
# Minibatches
# -----------
# With minibatches of four rows the gradients are noisy. `SGGMC` with ``noise_covariance="fisher"``
# estimates the covariance of the noise from the rows of the minibatch and injects less noise
# itself. With ``None`` it ignores the minibatch noise, and `sample` warns that the kinetic
# temperature is not 1.

settings = {"step_size": 0.02, "friction": 10.0, "n_steps": 10}
options = {"n_draws": 300, "n_chains": 40, "batch_size": 4, "random_state": 0}
compensated = SGGMC(**settings, noise_covariance="fisher")
ignored = SGGMC(**settings, noise_covariance=None)
runs = {
    "GMC, all rows": draws,
    "SGGMC, 4 rows": sample(target, compensated, **options),
    "SGGMC, 4 rows, noise ignored": sample(target, ignored, **options),
}
print("Mean squared cosine of the first axis and the first principal axis of the sample")
print(f"  {'exact':<30}{exact[0, 0]:.3f}")
for name, result in runs.items():
    value = result.map(lambda x: squared_cosines(x)[..., 0, 0])
    print(f"  {name:<30}{value.mean():.3f} +- {value.mcse():.3f}")

fig, ax = plt.subplots()
edges = np.arange(0, 91, 3)
for (name, result), style in zip(runs.items(), ("C0-", "C2--", "C5-."), strict=True):
    angles = np.degrees(np.arccos(np.sqrt(result.map(squared_cosines).flat()[:, 0, 0].clip(0, 1))))
    heights = np.histogram(angles, edges, density=True)[0]
    ax.stairs(heights, edges, color=style[:2], linestyle=style[2:], linewidth=2, label=name)
half = cosine > 0
angle = np.degrees(np.arccos(cosine[half]))
density = 2 * mass.sum(axis=(1, 2))[half] / weight[half] * np.sin(np.radians(angle)) * np.pi / 180
ax.plot(np.append(angle, 0), np.append(density, 0), "k", linewidth=1.4, label="exact")
ax.set(xlabel="angle to the first principal axis of the sample (degrees)", xlim=(0, 50))
ax.set(ylabel="density (per degree)", ylim=(0, None), title="Uncertainty of the first axis")
ax.legend()

plt.show()

# %%
# With all rows and with compensated minibatches, the histograms agree with the exact density. If
# the noise is ignored, the draws are too far from the axis, and its uncertainty is overestimated.
