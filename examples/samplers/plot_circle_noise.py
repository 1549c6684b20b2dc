"""
A circle, and gradients that are mostly noise
=============================================

Gradients from minibatches are noisy. A sampler that follows them blindly takes the noise for
heat: its draws spread wider than the distribution that it was asked for. We add noise of a
known size to the gradients of a density on the circle, and compare two remedies. `SGGMC`
is told how large the noise is and injects that much less of its own. `GSGNHT` is not told: a
thermostat watches the speed of the motion and finds the friction that keeps it right.

The density and the settings are those of section 5.1 of Liu, Zhu and Song (2016), *Stochastic
gradient geodesic MCMC methods*.
"""

# %%
# The target
# ----------
# Two opposite modes, at the angles 60 and -120 degrees; the second has twice the mass. The exact
# density is cheap to compute, so that every histogram below has a curve to agree with.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import sample
from skmanifold.models import NoisyGradient, circle
from skmanifold.samplers import GMC, GSGNHT, SGGMC

target = circle()

degrees = np.linspace(-180, 180, 721)
points = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
exact = np.exp(target.log_density(points))
exact /= np.trapezoid(exact, degrees)

# %%
# Noise
# -----
# To every gradient is added a normal vector of covariance 1000 I. The gradient itself is never
# longer than 5; the noise has a length of about 40.

noisy = NoisyGradient(target, 1000.0)

# %%
# Four samplers
# -------------
# Geodesic Monte Carlo (`GMC`) has the exact gradients and shows what can be had. The others have
# the noisy ones. `SGGMC` asks the target for the covariance of its noise, by
# ``noise_covariance="model"``, its default; ``None`` tells it to look away. All four move along the
# circle, so no draw ever leaves it.
#
# The chains begin anywhere, and cross from one mode to the other only now and then. The long
# burn-in lets them forget where they began. Where the noise is ignored, `sample` warns that the
# kinetic temperature is not 1.

settings = {"step_size": 0.01, "friction": 10.0, "n_steps": 30}
runs = {
    "GMC, exact gradients": (target, GMC(step_size=0.1, n_steps=10)),
    "SGGMC, noise compensated": (noisy, SGGMC(**settings)),
    "GSGNHT, thermostat": (noisy, GSGNHT(**settings)),
    "SGGMC, noise ignored": (noisy, SGGMC(**settings, noise_covariance=None)),
}
axis = np.array([np.cos(np.pi / 3), np.sin(np.pi / 3)])  # from one mode to the other

expected = np.trapezoid(exact * (points @ axis) ** 2, degrees)

angles = {}
print("Mean of (axis . x)^2, which heat makes smaller")
print(f"  {'exact':<25}  {expected:.3f}")
for name, (density, sampler) in runs.items():
    draws = sample(density, sampler, n_draws=1200, burn_in=1000, n_chains=250, random_state=0)
    x = draws.flat()
    angles[name] = np.degrees(np.arctan2(x[:, 1], x[:, 0]))
    print(f"  {name:<25}  {np.mean((x @ axis) ** 2):.3f}")

# %%
# What they drew
# --------------
# Three of the histograms follow the curve. The fourth is too low at the modes and too high between
# them. Where the noise was ignored, it has become heat.

fig, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, sharey=True, layout="constrained")
bins = np.arange(-180, 181, 7.5)
for ax, (name, values) in zip(axes.flat, angles.items(), strict=True):
    ax.hist(values, bins, density=True, color="#9ecae1", label="draws")
    ax.plot(degrees, exact, color="black", linewidth=1.4, label="exact density")
    ax.set_title(name, loc="left", fontsize=11)
    ax.set_xticks(np.arange(-180, 181, 60))
    ax.set_xlim(-180, 180)
    ax.spines[["top", "right"]].set_visible(False)
for ax in axes[1]:
    ax.set_xlabel("angle (degrees)")
for ax in axes[:, 0]:
    ax.set_ylabel("density (per degree)")
axes[0, 1].legend(loc="upper right", frameon=False)

# %%
# How the thermostat finds the noise
# ----------------------------------
# Theory says where the friction should settle. Noise of variance V in the gradient, with steps of
# size h, heats as much as h V / 2 of friction cools: with C = 10, V = 1000 and h = 0.01 that is
# 10 + 5 = 15.
#
# The draws keep the thermostat of each chain beside its positions, in ``stats``. Each of 250 chains
# has one of its own, which begins at C. A single one wanders; that is how it works. Their mean climbs
# to 15 and stays there. Nobody has told them how noisy the gradients are. (One number can only make up
# for noise that is the same everywhere and in all directions, as it is here.)

h = 0.01
sampler = GSGNHT(step_size=h, friction=10.0, n_steps=10)
draws = sample(noisy, sampler, n_draws=1000, burn_in=0, n_chains=250, random_state=0)
friction = draws.stats["thermostat"]
time = h * sampler.n_steps * np.arange(1, draws.n_draws + 1)
print(f"Friction over the last 25 units of time, mean of all chains: {friction[:, time > 75].mean():.2f}")
print(f"Kinetic temperature over the same time: {draws.stats['temperature'][:, time > 75].mean():.3f}")

fig, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.plot(time, friction[0], color="#9ecae1", linewidth=1.2, label="one chain")
ax.plot(time, friction.mean(axis=0), color="#08519c", linewidth=2, label="mean of 250 chains")
ax.axhline(15, color="black", linestyle="--", linewidth=1, label="C + h V / 2 = 15")
ax.set(xlabel="time (number of steps times h)", ylabel="friction", xlim=(0, time[-1]))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(loc="lower right", frameon=False, ncols=3)

plt.show()
