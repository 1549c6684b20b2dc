"""
Where does the wind come from?
==============================

Wind directions lie on a circle: 359 and 1 degrees are neighbours, which their mean of 180 forgets. As unit vectors they
have no such seam. `VonMisesFisherMixture` finds the prevailing winds in them, and how many there are.

Then we look at whole days, in which winds follow each other, and blend. A day is a direction too, in 48 dimensions, and
`SphericalAdmixture` takes it apart into typical days.
"""

# %%
# Two years at the coast
# ----------------------
# We make up a station, to know the truth. It knows three kinds of days: fair ones, with a breeze from the sea in the
# afternoon and a lighter one from the land at night; days with west wind; and days with east wind. Most days are
# something between. Fair days are frequent in summer. Some days are stronger than others, and gusts are added to all.
#
# A wind is a vector with two components, its strength towards the place it comes from: how much from the east, and how
# much from the north.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import SphericalAdmixture, VonMisesFisherMixture
from skmanifold.metrics import match_topics

rng = np.random.default_rng(0)
days, hours = np.arange(730), np.arange(24)


def wind_from(degrees):
    return np.array([np.sin(np.radians(degrees)), np.cos(np.radians(degrees))])


def around(hour, width):
    return np.exp(-0.5 * (((hours - hour + 12) % 24 - 12) / width) ** 2)[:, np.newaxis]


kinds = ["fair", "west wind", "east wind"]
typical = np.stack(
    [
        1.6 * around(15, 2.6) * wind_from(215) + around(3, 4) * wind_from(30),
        np.ones((24, 1)) * wind_from(285),
        np.ones((24, 1)) * wind_from(95),
    ]
)
typical /= np.linalg.norm(typical, axis=(1, 2), keepdims=True) / np.sqrt(24)  # all equally strong over the day
summer = 0.5 - 0.5 * np.cos(2 * np.pi * (days - 15) / 365)
usual = np.stack([0.1 + summer, 0.9 - 0.5 * summer, 0.5 - 0.35 * summer], axis=1)
shares = np.array([rng.dirichlet(0.7 * row / row.sum()) for row in usual])
winds = np.einsum("dk,khc->dhc", shares, typical) + rng.normal(0, 0.45, (len(days), 24, 2))
winds *= rng.gamma(4, 1, (len(days), 1, 1))

# %%
# The prevailing winds
# --------------------
# Only directions count, so that winds can be given as they are. The Bayesian information criterion (lower is better)
# weighs how well a number of winds fits against how many parameters they have. It asks for four: the two breezes of a
# fair day, and one for each of the other kinds. (Not a law of nature: days between the kinds have winds between those.
# Other years may ask for three, or for five.)

hourly = winds.reshape(-1, 2)
numbers = np.arange(1, 9)
mixtures = [VonMisesFisherMixture(n, n_init=5, max_iter=1000, random_state=0).fit(hourly) for n in numbers]
criterion = np.array([mixture.bic(hourly) for mixture in mixtures])
mixture = mixtures[np.argmin(criterion)]
prevailing = np.degrees(np.arctan2(*mixture.mean_directions_.T)) % 360
order = np.argsort(prevailing)
print(f"Number of winds with the lowest criterion: {len(order)}")
for degrees, weight in zip(prevailing[order], mixture.weights_[order], strict=True):
    print(f"  from {degrees:3.0f} degrees, {weight:3.0%} of the time")

# %%
# The mixture was not told the time. When does each of its winds blow?

probabilities = mixture.predict_proba(hourly).reshape(-1, 24, len(order))[..., order]

# %%
# Typical days
# ------------
# A row is now a day: 24 hours with two components each, of both signs. How strong a day's winds are is left to its
# length, which does not count; its direction says how they turn. Three typical days are looked for. A
# ``doc_topic_prior`` below the default of 1/2 expects most days to be near one of them. Four chains start from
# different places, and ``topic_diagnostics`` says whether they end up with the same ones.

daily = winds.reshape(len(days), -1)
admixture = SphericalAdmixture(3, doc_topic_prior=0.25, n_chains=4, random_state=0, n_jobs=2).fit(daily)
match = match_topics(typical.reshape(3, -1), admixture.components_)
found = admixture.components_[match.other].reshape(3, 24, 2)
proportions = admixture.transform(daily)[:, match.other]
print("\nTypical days: cosine with the true ones, and the least with any other chain's")
for kind, cosine, agreed in zip(
    kinds, match.similarity, admixture.topic_diagnostics().similarity[match.other], strict=True
):
    print(f"  {kind:<10}{cosine:6.3f}{agreed:7.3f}")
print(
    f"Correlation of the days' proportions with the true ones: {np.corrcoef(proportions.flat, shares.flat)[0, 1]:.2f}"
)

# %%
# The pictures
# ------------
# A rose shows where the wind comes from: bars for the hours of two years, a black line for the mixture, and a coloured
# one for each of its winds. Next to it the BIC (those of one and two winds lie above the frame), and the hours of the
# day at which each wind blows in July and in January.

purple, green, orange, blue = "#7d5ba6", "#3a8f4d", "#e08214", "#1b6ca8"
colours = [purple, green, orange, blue, "#b03a48", "#8c6d46", "0.5", "0.2"][: len(order)]
figure = plt.figure(figsize=(12, 4.6), layout="constrained")
grid = figure.add_gridspec(2, 3, width_ratios=[1.25, 0.9, 1.1])

ax = figure.add_subplot(grid[:, 0], projection="polar")
ax.set_theta_zero_location("N")
ax.set_theta_direction(-1)
angles = np.arctan2(hourly[:, 0], hourly[:, 1])
n_bars = 36
count, edges = np.histogram(angles, n_bars, (-np.pi, np.pi))
ax.bar((edges[1:] + edges[:-1]) / 2, np.sqrt(count / len(angles) * n_bars), 2 * np.pi / n_bars, color="#c9d6e2")
circle = np.linspace(0, 2 * np.pi, 361)
density = np.exp(mixture.score_samples(np.stack([np.sin(circle), np.cos(circle)], axis=1)))
ax.plot(circle, np.sqrt(density), color="black", linewidth=1.3)
for degrees, colour in zip(prevailing[order], colours, strict=True):
    ax.plot(np.radians([degrees, degrees]), [0, np.sqrt(density.max())], color=colour, linewidth=2.5)
ax.set_xticks(np.radians(np.arange(0, 360, 45)), ["N", "NE", "E", "SE", "S", "SW", "W", "NW"])
ax.set_yticks([])
ax.set_title("two years of hourly winds (area: share of time)")

ax = figure.add_subplot(grid[:, 1])
ax.plot(numbers, criterion - criterion.min(), "o-", color="#08519c")
ax.plot(len(order), 0, "o", color="#cb6a5d", markersize=9)
ax.set(
    xlabel="number of winds",
    ylabel="BIC minus its lowest value",
    title="how many winds?",
    xticks=numbers,
)
ax.set_ylim(-8, 150)
ax.spines[["top", "right"]].set_visible(False)

month = days % 365 // 30.42
for place, (name, number) in enumerate((("July", 6), ("January", 0))):
    ax = figure.add_subplot(grid[place, 2])
    ax.stackplot(
        hours,
        probabilities[month == number].mean(axis=0).T,
        colors=colours,
        labels=[f"{degrees:.0f}°" for degrees in prevailing[order]],
    )
    ax.set(xlim=(0, 23), ylim=(0, 1), title=f"which wind blows in {name}", xticks=[0, 6, 12, 18], yticks=[0, 1])
    if place:
        ax.set_xlabel("hour of the day")
        ax.legend(ncols=len(order), loc="upper center", bbox_to_anchor=(0.5, -0.45), frameon=False, handlelength=1)

# %%
# The typical days: an arrow for the wind of each hour, flying with it. The true ones are drawn in grey. Below, how the
# days of each month are mixed of them: dots are the truth.

figure = plt.figure(figsize=(12, 5), layout="constrained")
grid = figure.add_gridspec(3, 2, width_ratios=[1.4, 1])
colours = [orange, blue, green]
for k, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
    ax = figure.add_subplot(grid[k, 0])
    truth = typical[k] / np.linalg.norm(typical[k])
    for arrows, style, height in ((truth, {"color": "0.75"}, 0.5), (found[k], {"color": colour}, -0.5)):
        ax.quiver(hours, np.full(24, height), *-arrows.T, scale=7, width=0.0035, pivot="middle", **style)
    ax.set(ylim=(-1.3, 1.3), xlim=(-0.8, 23.8), xticks=[0, 6, 12, 18], yticks=[0.5, -0.5])
    ax.set_yticklabels(["truth", "found"])
    ax.set_title(kind, color=colour, fontweight="bold")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
ax.set_xlabel("hour of the day")

ax = figure.add_subplot(grid[:, 1])
for k, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
    monthly = [[values[month == m, k].mean() for m in range(12)] for values in (proportions, shares)]
    ax.plot(np.arange(12), monthly[0], color=colour, linewidth=2, label=kind)
    ax.plot(np.arange(12), monthly[1], "o", color=colour, markersize=4)
ax.set_xticks(np.arange(12), list("JFMAMJJASOND"))
ax.set(ylim=(0, None), ylabel="mean proportion", title="what the days of a month are mixed of")
ax.legend(frameon=False)
ax.spines[["top", "right"]].set_visible(False)

plt.show()
