"""
Writing and checking a new sampler
==================================

How do you implement a new sampler, and how do you know that it draws from the right distribution?
Every diffusion with a given stationary distribution can be written with two matrices (Ma, Chen and
Fox, 2015, the *complete recipe*): a positive semi-definite matrix D of noise and friction, and a
skew-symmetric matrix Q. `Recipe` makes a sampler from D and Q, and `check_recipe` tests whether a
sampler leaves its target invariant. This example defines a sampler in a few lines, checks it and
runs it. It then omits one term and shows how the check finds the mistake.
"""

# %%
# Target
# ------
# The target is a density in the plane with curved contours. The marginal density of its first
# coordinate is known: it is proportional to exp(-x^4 / 10).

import textwrap

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.models import banana
from skmanifold.samplers import InvalidRecipeError, Recipe, check_recipe

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

target = banana()
print("(x1, x2)       log density (without the constant)")
for point in ((0.0, -1.2), (2.0, 0.0)):
    value = target.log_density(np.array([point]))[0]
    print(f"({point[0]:.1f}, {point[1]:4.1f})   {value:8.2f}")

# %%
# Sampler
# -------
# The state has four variables: a position in the plane and a momentum. The energy is the negative
# log density plus half of the squared momentum. We change Hamiltonian dynamics with friction in two
# ways:
#
# - The coupling of position and momentum depends on the position: ``speed`` is small where the
#   gradients are large.
# - The two momenta rotate into each other, as in a magnetic field. This does not change the energy
#   and needs no gradients.
#
# Both belong to Q. Because Q depends on the state, the dynamics need a correction: the divergence
# of D + Q. Here it is a force on the first momentum, the derivative of ``speed``. Without the
# argument ``correction`` `Recipe` computes it by central differences; a formula is faster.

friction, field = 1.0, 2.0


def speed(z):
    return 1 / (1 + z[:, 0] ** 2)


def curl(z):
    Q = np.zeros((len(z), 4, 4))
    Q[:, 0, 2] = Q[:, 1, 3] = -speed(z)
    Q[:, 2, 3] = field
    return Q - Q.mT


def correction(z):
    gamma = np.zeros_like(z)
    gamma[:, 2] = -2 * z[:, 0] * speed(z) ** 2
    return gamma


diffusion = np.diag([0.0, 0.0, friction, friction])
settings = {"n_auxiliary": 2, "step_size": 0.01, "vectorized": True}
sampler = Recipe(diffusion, curl, correction=correction, **settings)

# %%
# Check
# -----
# `check_recipe` tests at random points that D and Q have the required form, that the target is a
# stationary solution of the Fokker-Planck equation, and that the mean and the covariance of actual
# steps agree with the drift and D.

print(check_recipe(sampler, target))

# %%
# All residuals are zero up to rounding errors, and the scores of the steps are within their limits.
# The report does not measure how fast the sampler mixes. But a sampler that fails a test draws from
# the wrong distribution.
#
# Run
# ---
# We plot a path of one chain together with contours of the target.

start = np.tile([0.0, -1.2], (500, 1))
options = {"n_draws": 1500, "thin": 5, "burn_in": 0, "n_chains": 1, "random_state": 1}
path = sample(target, sampler, position=start[:1], **options).flat()

x = np.linspace(-3.6, 3.6, 400)
plane = np.stack(np.meshgrid(x, np.linspace(-2.1, 1.0, 300), indexing="ij"), axis=-1)
density = np.exp(target.log_density(plane.reshape(-1, 2))).reshape(plane.shape[:2])

fig, ax = plt.subplots()
ax.contour(plane[..., 0], plane[..., 1], density, [0.02, 0.2, 0.6], colors="black", linewidths=1)
ax.plot(*path.T, color="C0", linewidth=0.8, alpha=0.8)
ax.set(xlabel="first coordinate", ylabel="second coordinate")
ax.set_title("Path of one chain and contours of the target")

# %%
# The chain moves quickly through the middle of the target. At the ends, where ``speed`` is small,
# the rotation of the momentum makes it move in small circles. Next we compare the draws of many
# chains with the exact marginal density.

options = {"n_draws": 300, "thin": 40, "burn_in": 3000, "n_chains": 400}
options |= {"position": start[:400], "random_state": 0}
draws = sample(target, sampler, **options)

exact = np.exp(-(x**4) / 10)
exact /= np.trapezoid(exact, x)


def plot_histogram(draws, title):
    _, ax = plt.subplots()
    bins = np.linspace(-3.6, 3.6, 49)
    ax.hist(draws.flat()[:, 0], bins, density=True, color="C4", alpha=0.6, label="draws")
    ax.plot(x, exact, color="black", label="exact density")
    ax.set(xlabel="first coordinate", ylabel="density", ylim=(0, 0.42), title=title)
    return ax


plot_histogram(draws, "Draws of the sampler").legend()

# %%
# The histogram agrees with the exact density.
#
# A sampler with a mistake
# ------------------------
# The argument ``drift`` of `Recipe` replaces the drift that follows from D and Q. The function
# below is a plausible drift: positions move with the momentum, scaled by ``speed``; momenta follow
# the gradient, lose energy by friction and rotate. The correction is missing.


def incomplete_drift(z, gradient):
    momentum, scale = z[:, 2:], speed(z)[:, np.newaxis]
    rotated = np.stack([momentum[:, 1], -momentum[:, 0]], axis=1)
    force = scale * gradient - friction * momentum - field * rotated
    return np.concatenate([scale * momentum, force], axis=1)


wrong = Recipe(diffusion, curl, drift=incomplete_drift, **settings)
try:
    check_recipe(wrong, target)
except InvalidRecipeError as error:
    print(textwrap.fill(str(error), 95))

# %%
# The check rejects the sampler and names the entry of the drift that is wrong: entry 2, the first
# momentum. There the derivative of ``speed`` is missing.
#
# What does the wrong sampler draw? Its stationary distribution is the target divided by ``speed``.

wrong_draws = sample(target, wrong, **options)
followed = exact / speed(x[:, np.newaxis])
followed /= np.trapezoid(followed, x)

print("Mean square of the first coordinate")
for name, density in (("target", exact), ("target / speed", followed)):
    print(f"  {name:<24}{np.trapezoid(x**2 * density, x):.2f}")
for name, result in (("draws, correct sampler", draws), ("draws, wrong sampler", wrong_draws)):
    print(f"  {name:<24}{np.mean(result.flat()[:, 0] ** 2):.2f}")

ax = plot_histogram(wrong_draws, "Draws of the sampler without the correction")
ax.plot(x, followed, color="C5", linestyle="--", label="exact density / speed")
ax.legend()

plt.show()

# %%
# The draws follow the dashed curve, not the target. The chains of the wrong sampler converge and
# agree with each other, so convergence diagnostics such as R-hat cannot find this mistake.
