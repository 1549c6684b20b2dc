"""
Wind directions: clusters on a circle and typical days
======================================================

Wind directions lie on a circle: 359 degrees and 1 degree are neighbours, but their mean of 180
degrees is the opposite direction. As unit vectors they can be averaged. This example uses two years
of simulated winds. First ``VonMisesFisherMixture`` finds the prevailing winds and their number.
Then each day, with its 24 hourly winds, is one direction in 48 dimensions, and
``SphericalAdmixture`` finds typical days and their proportions in each day.
"""

# %%
# Simulated winds
# ---------------
# The simulation has three typical days: fair days, with a wind from the sea in the afternoon and a
# weaker wind from the land at night; days with wind from the west; and days with wind from the
# east. Each day is a mixture of them with noise, and its wind speed is random. Fair days are more
# frequent in summer. Each wind is a vector with two coordinates: the part from the east and the
# part from the north.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import SphericalAdmixture, VonMisesFisherMixture
from skmanifold.metrics import match_topics

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

rng = np.random.default_rng(0)
days, hours = np.arange(730), np.arange(24)


def wind_from(degrees):
    return np.array([np.sin(np.radians(degrees)), np.cos(np.radians(degrees))])


def around(hour, width):
    hours_from = (hours - hour + 12) % 24 - 12
    return np.exp(-0.5 * (hours_from / width) ** 2)[:, np.newaxis]


names = ["fair", "west wind", "east wind"]
fair = 1.6 * around(15, 2.6) * wind_from(215) + around(3, 4) * wind_from(30)
west, east = (np.ones((24, 1)) * wind_from(degrees) for degrees in (285, 95))
typical = np.stack([fair, west, east])
typical /= np.sqrt(np.mean(np.sum(typical**2, axis=2), axis=1))[:, np.newaxis, np.newaxis]

summer = 0.5 - 0.5 * np.cos(2 * np.pi * (days - 15) / 365)
usual = np.stack([0.1 + summer, 0.9 - 0.5 * summer, 0.5 - 0.35 * summer], axis=1)
shares = np.array([rng.dirichlet(0.7 * row / row.sum()) for row in usual])
winds = np.einsum("dk,khc->dhc", shares, typical) + rng.normal(0, 0.45, (len(days), 24, 2))
winds *= rng.gamma(4, 1, (len(days), 1, 1))
print(f"{len(days)} days with {len(hours)} hourly winds")

# %%
# Prevailing winds
# ----------------
# ``VonMisesFisherMixture`` scales its rows to unit length, so the winds need no preparation. We
# choose the number of components by the Bayesian information criterion (BIC; lower is better).

hourly = winds.reshape(-1, 2)
numbers = np.arange(1, 8)
settings = {"n_init": 3, "max_iter": 1000, "random_state": 0}
mixtures = [VonMisesFisherMixture(n, **settings).fit(hourly) for n in numbers]
bic = np.array([mixture.bic(hourly) for mixture in mixtures])
mixture = mixtures[np.argmin(bic)]
prevailing = np.degrees(np.arctan2(*mixture.mean_directions_.T)) % 360
order = np.argsort(prevailing)
prevailing = prevailing[order]
labels = [f"{degrees:.0f}°" for degrees in prevailing]
print("Direction  Share of time")
for label, weight in zip(labels, mixture.weights_[order], strict=True):
    print(f"{label:>9}  {weight:13.0%}")

# %%
# The bars of the next figure show how often the wind comes from each direction; the area of a bar
# is proportional to the share of time. The black line is the density of the mixture, and the other
# lines are the mean directions of its components.

styles = ["-", "--", ":", "-."]
fig, ax = plt.subplots(figsize=(5.2, 4.4), subplot_kw={"projection": "polar"})
ax.set_theta_zero_location("N")
ax.set_theta_direction(-1)
n_bars = 36
angles = np.arctan2(hourly[:, 0], hourly[:, 1])
density, edges = np.histogram(angles, n_bars, (-np.pi, np.pi), density=True)
ax.bar((edges[1:] + edges[:-1]) / 2, np.sqrt(density), 2 * np.pi / n_bars, color="0.85")
circle = np.linspace(0, 2 * np.pi, 361)
points = np.stack([np.sin(circle), np.cos(circle)], axis=1)
uniform = 1 / (2 * np.pi)  # score_samples is relative to the uniform density
radius = np.sqrt(uniform * np.exp(mixture.score_samples(points)))
ax.plot(circle, radius, color="black")
for i, degrees in enumerate(prevailing):
    style = {"color": f"C{i}", "linestyle": styles[i % 4], "label": labels[i]}
    ax.plot(np.radians([degrees, degrees]), [0, radius.max()], linewidth=3, **style)
ax.set_xticks(np.radians(np.arange(0, 360, 45)), ["N", "NE", "E", "SE", "S", "SW", "W", "NW"])
ax.set_yticks([])
ax.legend(title="mean direction", loc="center left", bbox_to_anchor=(1.1, 0.5))
plt.show()

# %%
# The components correspond to the two winds of a fair day, the west wind and the east wind. The
# next figure shows the BIC, without that of one component, which is much higher.

fig, ax = plt.subplots(figsize=(5.6, 3.8))
ax.plot(numbers[1:], (bic - bic.min())[1:], "o-")
ax.set(xlabel="number of components", ylabel="BIC minus lowest BIC", xticks=numbers[1:])
plt.show()

# %%
# The BIC has its minimum at four components. It need not be four for other years: on days that are
# mixtures the wind has directions between the prevailing ones.
#
# Time of day
# -----------
# The mixture does not use the time. Its posterior probabilities, averaged over days, show when each
# wind occurs.

probabilities = mixture.predict_proba(hourly)[:, order].reshape(len(days), 24, -1)
month = (days % 365 / 365 * 12).astype(int)
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), sharey=True)
for ax, name, number in zip(axes, ["January", "July"], [0, 6], strict=True):
    means = probabilities[month == number].mean(axis=0)
    for i, label in enumerate(labels):
        ax.plot(hours, 100 * means[:, i], linestyle=styles[i % 4], label=label)
    ax.set(xlabel="hour of the day", title=name, xticks=[0, 6, 12, 18], ylim=(0, 100))
axes[0].set_ylabel("mean probability (%)")
axes[1].legend(title="mean direction", loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

# %%
# In July the wind from the sea, from the south-west, occurs in the afternoon, and the wind from the
# land, from the north-east, at night. In January the probabilities depend much less on the hour.
#
# Typical days
# ------------
# A row is now a day: 24 hours with two coordinates each. ``SphericalAdmixture`` uses only the
# direction of the row, that is, how the wind changes during the day and not how strong it is. We
# fit three topics, which are typical days. A ``doc_topic_prior`` below the default of 1/2 means
# that most days are close to one of them. Four chains show whether the result is reproducible.

daily = winds.reshape(len(days), -1)
admixture = SphericalAdmixture(
    3,
    doc_topic_prior=0.25,
    n_chains=4,
    random_state=0,
    n_jobs=2,
)
admixture.fit(daily)
match = match_topics(typical.reshape(3, -1), admixture.components_)
found = admixture.components_[match.other].reshape(3, 24, 2)
between_chains = admixture.topic_diagnostics().similarity[match.other]
print("Typical day  Cosine with true day  Smallest cosine with another chain")
for name, true_cosine, cosine in zip(names, match.similarity, between_chains, strict=True):
    print(f"{name:<11}  {true_cosine:20.3f}  {cosine:34.3f}")

# %%
# Each arrow of the next figure points in the direction to which the wind blows, and its length is
# the wind speed.

fig, axes = plt.subplots(3, 1, figsize=(7.2, 4.6), sharex=True)
for k, ax in enumerate(axes):
    truth = typical[k] / np.linalg.norm(typical[k])
    for arrows, color, height in ((truth, "0.6", 0.5), (found[k], "C0", -0.5)):
        u, v = -arrows.T
        ax.quiver(hours, np.full(24, height), u, v, color=color, scale=7, width=0.004, pivot="mid")
    ax.set(ylim=(-1.2, 1.2), xlim=(-0.8, 23.8), xticks=[0, 6, 12, 18], title=names[k])
    ax.set_yticks([0.5, -0.5], ["true", "fitted"])
axes[-1].set_xlabel("hour of the day")
plt.show()

# %%
# The fitted days agree with the true days, and all chains find the same ones.
#
# Proportions of typical days
# ---------------------------
# ``transform`` computes the proportions of the typical days in each day. Lines are the monthly
# means of the fitted proportions, and black crosses those of the true ones.

proportions = admixture.transform(daily)[:, match.other]
correlation = np.corrcoef(proportions.ravel(), shares.ravel())[0, 1]
print(f"Correlation of fitted and true proportions: {correlation:.2f}")


def monthly_means(values):
    return np.array([100 * values[month == m].mean(axis=0) for m in range(12)])


fig, ax = plt.subplots(figsize=(5.6, 3.8))
for k, (name, style) in enumerate(zip(names, ["o-", "s--", "^:"], strict=True)):
    ax.plot(range(12), monthly_means(proportions)[:, k], style, label=name)
    ax.plot(range(12), monthly_means(shares)[:, k], "x", color="black")
ax.set_xticks(range(12), list("JFMAMJJASOND"))
ax.set(xlabel="month", ylabel="mean proportion (%)", ylim=(0, None))
ax.legend()
plt.show()

# %%
# The proportions follow the seasons: fair days dominate in summer, and days with west wind in
# winter. Fitted means are slightly closer to one third than the true means, because the prior of
# the proportions is the same for all days.
