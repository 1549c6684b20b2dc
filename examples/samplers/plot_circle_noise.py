"""
Sampling with noisy gradients on a circle
=========================================

Minibatch gradients contain noise. If a sampler ignores this noise, its draws have too much spread.
This example adds noise of known size to the gradients of a density on the circle and compares two
remedies. `SGGMC` knows the covariance of the noise and injects less noise itself. `GSGNHT` does not
need the covariance: a thermostat adapts the friction until the kinetic temperature is right.

The density and the settings follow section 5.1 of Liu, Zhu and Song (2016), *Stochastic gradient
geodesic MCMC methods*.
"""

# %%
# Target density
# --------------
# The density has two modes, at 60 and -120 degrees; the second has twice the mass of the first. The
# exact density is cheap to compute on a grid, so we can compare all histograms with it.
#
# `NoisyGradient` adds a normal vector with covariance ``1000 * I`` to every gradient. The gradient
# itself has a length of at most 5, and the noise has a length of about 40.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.models import NoisyGradient, circle
from skmanifold.samplers import GMC, GSGNHT, SGGMC

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

target = circle()
noisy = NoisyGradient(target, 1000.0)

degrees = np.linspace(-180, 180, 721)
points = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
exact = np.exp(target.log_density(points))
exact /= np.trapezoid(exact, degrees)
for mode in (60, -120):
    density = np.interp(mode, degrees, exact)
    print(f"Density at the mode of {mode:4} degrees: {density:.4f} per degree")

# %%
# Four samplers
# -------------
# Geodesic Monte Carlo (`GMC`) uses the exact gradients and serves as a reference. The other three
# use the noisy gradients:
#
# - `SGGMC` with the default ``noise_covariance="model"`` asks the target for the covariance of its
#   noise.
# - `GSGNHT` adapts its friction.
# - `SGGMC` with ``noise_covariance=None`` ignores the noise. For this run `sample` warns that the
#   kinetic temperature is not 1.
#
# All samplers move along the circle, so every draw is a point of the circle. The chains start at
# random points and change between the modes rarely; a long burn-in removes the influence of the
# start.

settings = {"step_size": 0.01, "friction": 10.0, "n_steps": 30}
runs = {
    "GMC, exact gradients": (target, GMC(step_size=0.1, n_steps=10)),
    "SGGMC, noise compensated": (noisy, SGGMC(**settings)),
    "GSGNHT, thermostat": (noisy, GSGNHT(**settings)),
    "SGGMC, noise ignored": (noisy, SGGMC(**settings, noise_covariance=None)),
}
axis = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])  # from one mode to the other

angles = {}
print("Mean squared cosine of the angle to the axis of the modes")
print(f"  {'exact':<26}{np.trapezoid(exact * (points @ axis) ** 2, degrees):.3f}")
for name, (density, sampler) in runs.items():
    draws = sample(density, sampler, n_draws=800, burn_in=1000, n_chains=200, random_state=0)
    x = draws.flat()
    angles[name] = np.degrees(np.arctan2(x[:, 1], x[:, 0]))
    print(f"  {name:<26}{np.mean((x @ axis) ** 2):.3f}")

fig, ax = plt.subplots()
edges = np.arange(-180, 181, 10)
centres = (edges[1:] + edges[:-1]) / 2
ax.plot(degrees, exact, color="black", label="exact density")
for (name, values), style in zip(angles.items(), ("C0+", "C2x", "C1s", "C5o--"), strict=True):
    height = np.histogram(values, edges, density=True)[0]
    ax.plot(centres, height, style, markersize=5, markeredgewidth=1.4, lw=1.2, label=name)
ax.set(xlabel="angle (degrees)", ylabel="density (per degree)", xlim=(-180, 180))
ax.set_xticks(np.arange(-180, 181, 60))
ax.set_title("Histograms of the draws")
ax.legend(loc="upper right", bbox_to_anchor=(1, 1))

# %%
# The first three histograms agree with the exact density. If the noise is ignored, the density is
# too low at the modes and too high between them. The mean squared cosine is therefore smaller. (The
# heights of the two modes have a larger error than their widths, because chains rarely change
# between the modes.)
#
# Convergence of the thermostat
# -----------------------------
# Noise of variance V in the gradient, with steps of size h, has the same effect as additional
# injected noise, which a friction of h V / 2 compensates. With an initial friction of C = 10, V =
# 1000 and h = 0.01 the friction of `GSGNHT` should therefore converge to 10 + 5 = 15. The draws
# contain the friction of each chain in ``stats["thermostat"]``. `sample` warns that the chains have
# not converged, because they rarely change between the modes; the friction does not depend on that.

h = 0.01
sampler = GSGNHT(step_size=h, friction=10.0, n_steps=10)
draws = sample(noisy, sampler, n_draws=1000, burn_in=0, n_chains=250, random_state=0)
friction = draws.stats["thermostat"]
time = h * sampler.n_steps * np.arange(1, draws.n_draws + 1)
last = time > 75
print("Means over the last quarter of the run")
print(f"  friction             {friction[:, last].mean():.2f}")
print(f"  kinetic temperature  {draws.stats['temperature'][:, last].mean():.3f}")

fig, ax = plt.subplots()
ax.plot(time, friction[0], color="C4", linewidth=1, label="one chain")
ax.plot(time, friction.mean(axis=0), color="C0", linewidth=3, label="mean of 250 chains")
ax.axhline(15, color="black", linestyle="--", linewidth=1.2, label="C + h V / 2 = 15")
ax.set(xlabel="time (number of steps times h)", ylabel="friction", xlim=(0, time[-1]))
ax.set_title("Friction of GSGNHT")
ax.legend(loc="lower right")

plt.show()

# %%
# The friction of a single chain fluctuates, which is how a thermostat works. The mean over chains
# converges to the expected value, although the sampler does not know the variance of the noise. One
# friction can only compensate noise that has the same variance everywhere and in all directions, as
# in this example.
