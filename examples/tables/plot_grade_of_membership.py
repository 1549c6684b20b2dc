"""
Members of two groups at once
=============================

A latent class model says that everybody is of one kind. A grade of membership model says that everybody is of several,
in proportions of his own: each of his answers is that of one of the types. One is a mixture, the other an admixture of
the same emission: `ExponentialFamilyMixture` and `ExponentialFamilyAdmixture`.

The table is ``house_votes84.csv.gz``, sixteen votes of each member of the House of Representatives in 1984, in the
folder that ``SKMANIFOLD_DATA`` names; else votes are drawn.
"""

# %%
# The table
# ---------
# One row a member: 1 is yes, 0 no, and NaN where neither is known, which both models leave out. Nobody is shown the
# party.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import ExponentialFamilyAdmixture, ExponentialFamilyMixture


def draw_votes(n_members=435, n_votes=16):
    """Two types, and members who lean to one of them more or less."""
    rng = np.random.default_rng(0)
    types = np.abs(rng.choice([0.05, 0.95], n_votes) - np.array([[0.0], [1.0]]) * (rng.random(n_votes) < 0.8))
    party = rng.choice(["left", "right"], n_members, p=[0.6, 0.4])
    share = np.where(party == "left", rng.beta(2.0, 0.5, n_members), rng.beta(0.4, 2.5, n_members))
    of_first = rng.random((n_members, n_votes)) < share[:, np.newaxis]
    votes = (rng.random(of_first.shape) < np.where(of_first, *types)).astype(float)
    votes[rng.random(votes.shape) < 0.05] = np.nan
    return [f"vote {i}" for i in range(n_votes)], votes, party


file = Path(os.environ.get("SKMANIFOLD_DATA", "")) / "house_votes84.csv.gz"
if file.exists():
    source = "US House, 1984"
    header, *cells = np.loadtxt(file, str, delimiter=",", comments=None)
    cells, bills = np.array(cells), list(header[:-1])
    votes, party = np.where(cells[:, :-1] == "", np.nan, cells[:, :-1] == "y"), cells[:, -1]
else:
    source = "synthetic votes"
    bills, votes, party = draw_votes()
known = ~np.isnan(votes)
print(f"Data: {source}; {len(votes)} members, {len(bills)} votes, {1 - known.mean():.1%} of the cells missing")

# %%
# Two types
# ---------
# With two components the types are what one would call the parties' lines. But a latent class must explain a member who
# votes with the other side now and then by its own probabilities, which are less extreme for it. Grades of membership
# leave the types pure, and tell how far each member is from either.

classes = ExponentialFamilyMixture(2, emission="bernoulli", sampler="gibbs", random_state=0).fit(votes)
grades = ExponentialFamilyAdmixture(2, emission="bernoulli", sampler="gibbs", random_state=0).fit(votes)

parties = np.unique(party)
of_first = party == parties[0]


def in_order(shares, components):
    """Types such that the first is that of the first party's members."""
    order = np.argsort(-shares[of_first].mean(axis=0))
    return shares[:, order], components[order]


certain, of_classes = in_order(classes.predict_proba(votes), classes.components_)
share, of_types = in_order(grades.transform(votes, average_draws=True), grades.components_)
print("\nMembers by what they share with the first type" + " " * 8 + "0-.2  .2-.4 .4-.6 .6-.8 .8-1")
for name, values in (("latent class", certain), ("grade of membership", share)):
    for one in parties:
        counts = np.histogram(values[party == one, 0], 5, (0, 1))[0]
        print(f"  {name:<22}{one:<28}" + "".join(f"{count:6d} " for count in counts))
purity = [np.abs(components - 0.5).mean() for components in (of_classes, of_types)]
print("\nMean distance of the types' probabilities of yes from 1/2")
print(f"  latent classes {purity[0]:.2f}, grades of membership {purity[1]:.2f}")

# %%
# Which of the two is right?
# --------------------------
# A tenth of the known votes is hidden, five times over, and predicted from the member's other votes. Two types in
# proportions predict better than two classes, nearly as well as three. With the votes of 1984 the mixture gains from
# further classes and the admixture hardly does: a party has wings, who go together on some matters and not on others,
# and then most members are of one kind after all. Of the synthetic votes, which have two types, two are enough.

sizes = (1, 2, 3, 4, 6)
rng = np.random.default_rng(0)
hidden = [known & (rng.random(votes.shape) < 0.1) for _ in range(5)]
scores = np.empty((2, len(sizes), len(hidden)))
for i, n_components in enumerate(sizes):
    for j, hide in enumerate(hidden):
        seen, cast = np.where(hide, np.nan, votes), votes[hide]
        settings = {"emission": "bernoulli", "sampler": "gibbs", "max_iter": 150, "random_state": j, "n_jobs": -1}
        mixture = ExponentialFamilyMixture(n_components, **settings).fit(seen)
        admixture = ExponentialFamilyAdmixture(n_components, **settings).fit(seen)
        guesses = mixture.predict_proba(seen) @ mixture.components_, admixture.transform(seen) @ admixture.components_
        for which, yes in enumerate(guesses):
            scores[which, i, j] = np.log(np.where(cast == 1, yes[hide], 1 - yes[hide])).mean()
print("\nLog probability of hidden votes, nats a vote")
print("  components           " + "".join(f"{n:8d}" for n in sizes))
for name, values in zip(("latent class", "grade of membership"), scores.mean(axis=2), strict=True):
    print(f"  {name:<21}" + "".join(f"{value:8.3f}" for value in values))

# %%
# The picture
# -----------
# Left, the types of either model, one dot a vote and type. Middle, how much of the first type each member is. Right,
# the hidden votes.

blue, red, ink = "#2166ac", "#b2182b", "#333333"
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.8), layout="constrained", width_ratios=[1.25, 1, 1])
fig.suptitle(f"Grades of membership ({source})")
order = np.argsort(of_types[0] - of_types[1])
places = np.arange(len(bills))
for k, colour in enumerate((blue, red)):
    left.scatter(of_types[k, order], places, color=colour, s=30, label=f"type {k + 1}, grades")
    left.scatter(of_classes[k, order], places, facecolors="none", edgecolors=colour, s=30, label=f"class {k + 1}")
left.set_yticks(places, [bills[i] for i in order], fontsize=8)
left.set(xlabel="probability of yes", title="types and classes", xlim=(-0.03, 1.03))
left.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.28, 1.0))

edges = np.linspace(0, 1, 21)
both = [share[of_first, 0], share[~of_first, 0]]
middle.hist(both, edges, stacked=True, color=[blue, red], label=list(parties))
middle.set(xlabel="share of the first type", ylabel="members", title="grades of membership")
middle.legend(frameon=False)

for name, values, colour in zip(("latent class", "grade of membership"), scores, (ink, blue), strict=True):
    error = values.std(axis=1, ddof=1) / np.sqrt(len(hidden))
    right.errorbar(sizes, values.mean(axis=1), error, fmt="o-", color=colour, capsize=3, label=name)
right.set(xlabel="components", ylabel="nats a vote", title="log probability of hidden votes")
right.legend(frameon=False, loc="lower right")
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
