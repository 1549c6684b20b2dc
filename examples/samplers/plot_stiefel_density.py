"""
How sure is a principal axis? A density of your own
===================================================

A principal component is an axis, and a few axes are a frame: columns of length one at right angles. The frames are a
curved space, a Stiefel manifold. To ask how sure an axis is means to draw from a density *there*. You write the log
density and its gradient as for any array, and `sample` stays on the manifold.

In three dimensions the answer is also a sum over a grid, so that every draw below can be held against it.
"""

# %%
# The density
# -----------
# Forty rows, normal about zero. Along the two axes of a frame X their variances are 4 and 2, across them 1. That is
# known; the frame is not. With a uniform prior the log posterior of X is, up to a constant,
#
# .. math:: \sum_i \sum_k \tfrac12 c_k (x_k' y_i)^2, \qquad c_k = 1 - 1 / \lambda_k,
#
# with :math:`\lambda` the two variances: each axis likes rows that are long in its direction. (Statisticians call it a
# matrix Bingham law.) It is told as a sum over rows, so that minibatches can be drawn of them: `Density` asks for the
# terms of the rows with the numbers ``rows``, and adds them up. ``x`` is always an array of chains, because we say
# ``vectorized=True``.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.manifolds import Stiefel
from skmanifold.models import Density
from skmanifold.samplers import GMC, SGGMC

rng = np.random.default_rng(3)
variances = np.array([4.0, 2.0, 1.0])
true_frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
Y = rng.normal(size=(40, 3)) * np.sqrt(variances) @ true_frame.T
c = 1 - 1 / variances[:2]


def log_density(x, rows):
    """Terms of the rows: from frames (chains, 3, 2) and rows (chains, n) to (chains, n)."""
    return 0.5 * np.sum(c * (Y[rows] @ x) ** 2, axis=-1)


def grad_log_density(x, rows):
    """Their gradients, (chains, n, 3, 2)."""
    y = Y[rows]
    return y[..., np.newaxis] * (c * (y @ x))[:, :, np.newaxis, :]


target = Density(Stiefel(3, 2), grad_log_density, log_density, n_samples=len(Y), vectorized=True)

# %%
# Is the gradient right?
# ----------------------
# A wrong gradient is the mistake that is easiest to make, and a sampler may live with it for long. Differences of the
# density tell. The gradient is the one of the array: what points off the manifold is projected away later, and need not
# be thought of.

x, everything = np.linalg.qr(rng.normal(size=(3, 2)))[0][np.newaxis], np.arange(40)[np.newaxis]
analytic = grad_log_density(x, everything).sum(axis=1)[0]
numeric = np.empty_like(analytic)
for entry in np.ndindex(3, 2):
    step = np.zeros((1, 3, 2))
    step[0][entry] = 1e-5
    numeric[entry] = (log_density(x + step, everything) - log_density(x - step, everything)).sum() / 2e-5
error, largest = np.abs(analytic - numeric).max(), np.abs(analytic).max()
print(f"Largest error of the gradient: {error:.1e}, of entries up to {largest:.0f}")

# %%
# The answer
# ----------
# In the coordinates of the sample's own principal axes the density is simple. The first axis of a frame is a point of
# the sphere, the second one of the circle at right angles to it; a grid of both has as many points as we like. Signs
# are of no interest: an axis has no front. So the answer is told in squares: how much of each axis, on average, lies
# along the first, second and third principal axis of the sample.

lengths, sample_axes = np.linalg.eigh(Y.T @ Y)
lengths, sample_axes = lengths[::-1], sample_axes[:, ::-1]

cosine, weight = np.polynomial.legendre.leggauss(80)
turn = 2 * np.pi * np.arange(120) / 120
z, u, v = np.meshgrid(cosine, turn, turn[::3], indexing="ij")
s = np.sqrt(1 - z**2)
first = np.stack([z, s * np.cos(u), s * np.sin(u)])
down, east = np.stack([-s, z * np.cos(u), z * np.sin(u)]), np.stack([0 * u, -np.sin(u), np.cos(u)])
frames = np.stack([first, np.cos(v) * down + np.sin(v) * east])  # (axis, coordinate, grid)

log_mass = np.einsum("k,kjabc,j->abc", 0.5 * c, frames**2, lengths)
mass = weight[:, np.newaxis, np.newaxis] * np.exp(log_mass - log_mass.max())
mass /= mass.sum()
exact = np.einsum("kjabc,abc->kj", frames**2, mass)

# %%
# Eight chains
# ------------
# `GMC` moves along geodesics, with a Metropolis test: it has no error but that of too few draws.

draws = sample(target, GMC(step_size=0.06, n_steps=6), n_draws=800, n_chains=8, random_state=0)
off = np.abs(draws.position.mT @ draws.position - np.eye(2)).max()
print(f"\nDraws are frames up to {off:.0e}; accepted {draws.stats['accepted'].mean():.0%}")


def squares(frames):
    """Squared coordinates of each axis in the sample's principal axes, (..., 2, 3)."""
    return (frames.mT @ sample_axes) ** 2


shares = draws.map(squares)
print("\nMean square along the sample's axes     first  second   third")
for k, name in enumerate(("first", "second")):
    for law, values in (("exact", exact), ("drawn", shares.mean())):
        print(f"  {name:<7}axis, {law:<23}" + "".join(f"{value:8.3f}" for value in values[k]))
deviation = np.abs(shares.mean() - exact) / shares.mcse()
print(f"Off the exact answer by {deviation.max():.1f} standard errors at most")

# %%
# Have the chains converged? R-hat of the frames' entries is alarming, and it is right: chains sit at different signs of
# the same axes, four copies of one answer, and seldom cross over. Of what we asked for, the squares, they agree.

print(f"R-hat, the worst: of entries {draws.rhat().max():.2f}, of squares {shares.rhat().max():.3f}")
print(f"Effective draws of squares, the fewest: {shares.ess(method='mean').min():.0f} of {8 * draws.n_draws}")

# %%
# Minibatches
# -----------
# Gradients from four of the forty rows are noisy, and noise is heat. `SGGMC` can estimate how large it is, from how the
# rows of a minibatch differ (``noise_covariance="fisher"``), and adds that much less of its own. If it is told to look
# away (None), axes come out less sure than they are.

settings = {"step_size": 0.02, "friction": 10.0, "n_steps": 10}
run = {"n_draws": 300, "n_chains": 40, "batch_size": 4, "random_state": 0}
runs = {
    "GMC, all rows": draws,
    "SGGMC, four rows": sample(target, SGGMC(**settings, noise_covariance="fisher"), **run),
    "SGGMC, noise ignored": sample(target, SGGMC(**settings, noise_covariance=None), **run),
}
print("\nMean square of the first axis along the sample's first, and standard error")
print(f"  {'exact':<22}{exact[0, 0]:.3f}")
for name, result in runs.items():
    along = result.map(lambda frames: squares(frames)[..., 0, 0])
    print(f"  {name:<22}{along.mean():.3f} +- {along.mcse():.3f}")

# %%
# The picture
# -----------
# Left, draws of both axes, each with the sign that is nearer to the sample's axis (black), and the true axes (crosses).
# Right, the angle between the first axis and the sample's: the exact law is the black line.

colours = {"GMC, all rows": "#08519c", "SGGMC, four rows": "#3a8f4d", "SGGMC, noise ignored": "#cb6a5d"}
figure = plt.figure(figsize=(11.5, 4.8), layout="constrained")
grid = figure.add_gridspec(1, 2, width_ratios=[1, 1.15])

ax = figure.add_subplot(grid[0], projection="3d", computed_zorder=False)
around, up = np.meshgrid(np.linspace(0, 2 * np.pi, 49), np.linspace(0, np.pi, 25))
ball = np.stack([np.cos(around) * np.sin(up), np.sin(around) * np.sin(up), np.cos(up)])
ax.plot_surface(*ball, color="0.93", shade=False, linewidth=0, zorder=0)
towards = sample_axes @ [0.65, 0.65, 0.4]  # we look from between the axes
for k, colour in enumerate(("#08519c", "#e08214")):
    centre = sample_axes[:, k] * np.sign(sample_axes[:, k] @ towards)
    points = draws.flat()[::10, :, k]
    points = points * np.sign(points @ centre)[:, np.newaxis]
    true_axis = true_frame[:, k] * np.sign(true_frame[:, k] @ centre)
    ax.scatter(*points.T, s=5, color=colour, alpha=0.5, linewidth=0, depthshade=False, label=f"axis {k + 1}", zorder=1)
    ax.plot(*np.stack([np.zeros(3), 1.3 * centre], axis=1), color="black", linewidth=1.5, zorder=2)
    ax.plot(*1.02 * true_axis, "x", color="black", markersize=9, markeredgewidth=2, zorder=3)
ax.set_box_aspect((1, 1, 1), zoom=1.35)
ax.set_axis_off()
ax.view_init(
    elev=np.degrees(np.arcsin(towards[2] / np.linalg.norm(towards))),
    azim=np.degrees(np.arctan2(towards[1], towards[0])),
)
ax.legend(frameon=False, loc="upper left", markerscale=3)
ax.set_title("how sure are two axes of forty rows?")

ax = figure.add_subplot(grid[1])
edges = np.arange(0, 91, 3)
for name, result in runs.items():
    angles = np.degrees(np.arccos(np.sqrt(np.minimum(result.map(squares).flat()[:, 0, 0], 1.0))))
    share = np.histogram(angles, edges, density=True)[0]
    ax.stairs(share, edges, color=colours[name], linewidth=1.8, label=name)
half = cosine > 0  # both signs of an axis are one; in degrees, the density of the cosine times a sine
angle = np.degrees(np.arccos(cosine[half]))
density = 2 * mass.sum(axis=(1, 2))[half] / weight[half] * np.sin(np.radians(angle)) * np.pi / 180
ax.plot(angle, density, color="black", linewidth=1.4, label="exact")
ax.set(xlabel="angle to the sample's first principal axis (degrees)", ylabel="density (per degree)")
ax.set(xlim=(0, 50), ylim=(0, None), title="the first axis")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)

plt.show()
