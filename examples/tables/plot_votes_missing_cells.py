"""
Votes, some of them missing
===========================

The House of Representatives in 1984: sixteen votes of each member, yes or no. In one cell of eighteen neither is known.
Such a table needs no filling in before it is fitted: `DPCategoricalMixture` integrates missing cells out, and then it
says how each would probably have been cast.

The table is ``house_votes84.csv.gz`` in the folder that ``SKMANIFOLD_DATA`` names; else votes of two parties are drawn.
"""

# %%
# The table
# ---------
# One row a member, one column a vote, and a last column that only we look at: the party. An empty cell becomes NaN.
# `OrdinalEncoder` turns names into codes and leaves NaN as it is.

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold import DPCategoricalMixture


def draw_votes(n_members=435, n_votes=16):
    """Two parties, and in one of them a wing that votes with the other on every second bill."""
    rng = np.random.default_rng(0)
    left = rng.choice([0.1, 0.9], n_votes)
    wing = np.where(np.arange(n_votes) % 2, left, 1 - left)
    groups = rng.choice(3, n_members, p=[0.42, 0.2, 0.38])
    yes = np.stack([left, wing, 1 - left])[groups]
    votes = np.where(rng.random(yes.shape) < yes, "y", "n")
    votes[rng.random(votes.shape) < 0.05] = ""
    return [f"vote {i}" for i in range(n_votes)], votes, np.where(groups < 2, "left", "right")


file = Path(os.environ.get("SKMANIFOLD_DATA", "")) / "house_votes84.csv.gz"
if file.exists():
    source = "US House, 1984"
    header, *cells = np.loadtxt(file, str, delimiter=",", comments=None)
    bills, votes, party = list(header[:-1]), np.array(cells)[:, :-1], np.array(cells)[:, -1]
else:
    source = "synthetic votes of two parties"
    bills, votes, party = draw_votes()
votes = np.where(votes == "", np.nan, votes.astype(object))
missing = votes != votes  # NaN alone is not itself
print(f"Data: {source}; {len(votes)} members, {len(bills)} votes, {missing.mean():.1%} of the cells missing")


def make_mixture(**settings):
    return make_pipeline(OrdinalEncoder(), DPCategoricalMixture("categorical", random_state=0, **settings))


# %%
# Groups and parties
# ------------------
# The mixture knows nothing of parties. Its groups are finer, for a party has wings, but nearly every group is of one
# party. The adjusted Rand index is modest nevertheless: it asks for whole parties. Members of whom the draws do not say
# which group they belong to are left by themselves.

pipeline = make_mixture(n_chains=4, max_iter=1000, n_jobs=2).fit(votes)
mixture = pipeline[-1]
table = contingency_matrix(party, mixture.labels_)
parties = np.unique(party)
table, alone = table[:, table.sum(axis=0) >= 5], table[:, table.sum(axis=0) < 5].sum()
print("\nGroups of the point partition, and how many members of each party they have")
print("  " + " " * 12 + "".join(f"{f'{weight:.0%}':>5}" for weight in mixture.weights_[: table.shape[1]]))
for name, row in zip(parties, table, strict=True):
    print(f"  {name:<12}" + "".join(f"{count:5d}" for count in row))
print(f"  members of their group's larger party: {table.max(axis=0).sum() / table.sum():.0%}")
print(f"  members in groups of fewer than five: {alone}")
print(f"  adjusted Rand index of groups and parties: {adjusted_rand_score(party, mixture.labels_):.2f}")

# %%
# How would they have voted?
# --------------------------
# A member's other votes say which group he is probably of, ``predict_proba``, and the groups say how it voted,
# ``components_``. (The model takes it that a vote is missing whatever it would have been. One who stays away on purpose
# is beyond it.)


def probability_of_yes(pipeline, votes):
    groups = pipeline.predict_proba(votes)
    return np.stack([groups @ component[:, 1] for component in pipeline[-1].components_], axis=1)


yes = probability_of_yes(pipeline, votes)
print("\nProbability of yes, of the first missing votes")
for member, bill in np.argwhere(missing)[:5]:
    print(f"  member {member:<3} ({party[member]}), {bills[bill]}: {yes[member, bill]:.2f}")

# %%
# To see whether such probabilities can be trusted we hide a tenth of the votes that are known, and predict them.

rng = np.random.default_rng(0)
hidden = ~missing & (rng.random(votes.shape) < 0.1)
partly = np.where(hidden, np.nan, votes)
predicted = probability_of_yes(make_mixture(max_iter=500).fit(partly), partly)[hidden]
cast = votes[hidden] == "y"
majority = (np.mean(partly == "y", axis=0) > np.mean(partly == "n", axis=0))[np.nonzero(hidden)[1]]
print(f"\nHidden votes: {len(cast)}; guessed right")
print(f"  {'the majority of all':<22}{np.mean(majority == cast):.0%}")
print(f"  {'from the other votes':<22}{np.mean((predicted > 0.5) == cast):.0%}")

# %%
# Hiding more and more
# --------------------
# Members in one of five folds are held out, and of the votes of the others ever more are hidden. Half of them can be
# spared: which votes go together is told by those who have both. Only when hardly anyone has two votes left does the
# mixture know no more than how often each vote was a yes.

shares_hidden = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
when = rng.random(votes.shape)  # a cell hidden at one share is hidden at all above
scores = np.empty((2, 5, len(shares_hidden)))
for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=0).split(votes)):
    n_known = np.sum(~missing[test])
    for place, share in enumerate(shares_hidden):
        seen = np.where(when[train] < share, np.nan, votes[train])
        scores[0, fold, place] = make_mixture(max_iter=200).fit(seen).score(votes[test]) * len(test) / n_known
        often = (np.sum(seen == "y", axis=0) + 0.5) / (np.sum(seen == seen, axis=0) + 1)
        by_itself = np.where(votes[test] == "y", often, 1 - often)
        scores[1, fold, place] = np.log(by_itself[~missing[test]]).mean()

print("\nLog density of held-out members, nats a vote")
print("  hidden   mixture  votes by themselves")
for share, mixed, by_itself in zip(shares_hidden, *scores.mean(axis=1), strict=True):
    print(f"  {share:6.0%}{mixed:10.3f}{by_itself:10.3f}")

# %%
# The picture
# -----------
# Members in the order of their groups; dark: surely of the same group. The bar at the side shows the parties.

accent, pale, red = "#08519c", "#9ecae1", "#cb6a5d"
colours = [accent, red]
figure, ((left, upper), (lower, right)) = plt.subplots(2, 2, figsize=(11, 8.6), layout="constrained")
figure.suptitle(f"Votes, some of them missing ({source})")

order = np.lexsort((party, mixture.labels_))
left.imshow(mixture.co_clustering()[np.ix_(order, order)], cmap="Greys", vmin=0, vmax=1)
side = left.inset_axes([-0.06, 0, 0.04, 1])
side.imshow((party[order] == parties[1])[:, np.newaxis], aspect="auto", cmap=ListedColormap(colours))
for ax in (left, side):
    ax.set(xticks=[], yticks=[])
left.set_title("probability that two members are of one group")

bottom = np.zeros(table.shape[1])
for name, row, colour in zip(parties, table, colours, strict=True):
    upper.bar(np.arange(1, len(bottom) + 1), row, bottom=bottom, color=colour, label=name)
    bottom += row
upper.set_xticks(np.arange(1, len(bottom) + 1))
upper.set(xlabel="group (of five members or more)", ylabel="members", title="groups of the point partition")
upper.set_ylim(0, 1.05 * bottom.max())
upper.legend(frameon=False)

edges = np.linspace(0, 1, 6)
binned = np.clip(np.digitize(predicted, edges) - 1, 0, 4)
n_of_bin = np.bincount(binned, minlength=5)
some = n_of_bin > 0
rate = np.bincount(binned, cast, minlength=5)[some] / n_of_bin[some]
mean = np.bincount(binned, predicted, minlength=5)[some] / n_of_bin[some]
lower.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
lower.errorbar(mean, rate, np.sqrt(mean * (1 - mean) / n_of_bin[some]), fmt="o", color=accent, capsize=3)
for x, y, n in zip(mean, rate, n_of_bin[some], strict=True):
    lower.annotate(f"{n} votes", (x, y), (7, -12), textcoords="offset points", fontsize=9)
lower.set(xlabel="predicted probability of yes", ylabel="share that was a yes", title="a tenth of the votes, hidden")
lower.set(xlim=(-0.05, 1.1), ylim=(-0.05, 1.05))

for values, colour, name in zip(scores, (accent, "grey"), ("mixture", "each vote by itself"), strict=True):
    spread = values.std(axis=0, ddof=1) / np.sqrt(5)
    right.errorbar(100 * shares_hidden, values.mean(axis=0), spread, fmt="o-", color=colour, capsize=3, label=name)
right.set(xlabel="share of votes hidden, %", ylabel="nats a vote", title="log density of held-out members")
right.legend(frameon=False)
for ax in (upper, lower, right):
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
