"""
Clustering a table with missing values
======================================

Real tables have missing cells. Do they have to be imputed before clustering? `DPCategoricalMixture`
integrates missing cells out of the likelihood, so a table with NaN can be fitted directly. This
example clusters members of a parliament by their votes, compares the clusters with the parties,
predicts the missing votes, checks whether the predicted probabilities are calibrated, and shows how
the fit changes if more and more cells are missing.
"""

# %%
# Data
# ----
# We simulate 16 votes of 435 members of two parties. A group within the left party, its *wing*,
# votes like the right party on every second bill. Five percent of the cells are missing.
# `OrdinalEncoder` turns the strings into codes and keeps NaN; it also encodes categories that it
# has not seen as NaN. The party is not part of the table.
#
# The votes of the US House of Representatives in 1984 have the same form: ``votes, party =
# fetch_openml("vote", version=1, return_X_y=True)``.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

from skmanifold import DPCategoricalMixture
from skmanifold.inspection import CoClusteringDisplay

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

n_members, n_bills = 435, 16
rng = np.random.default_rng(4)
left = rng.uniform(0.05, 0.95, n_bills)
right = np.clip(1.0 - left + rng.normal(0, 0.25, n_bills), 0.05, 0.95)
wing = np.where(np.arange(n_bills) % 2, left, right)
group = rng.choice(3, n_members, p=[0.42, 0.2, 0.38])
party = np.where(group < 2, "left", "right")
yes = np.stack([left, wing, right])[group]
votes = np.where(rng.random(yes.shape) < yes, "y", "n").astype(object)
votes[rng.random(votes.shape) < 0.05] = np.nan
missing = votes != votes  # NaN is the only value that is not equal to itself
print(f"{n_members} members, {n_bills} votes, {missing.mean():.1%} of the cells missing")
print(votes[5:9, :8])

# %%
# Clusters
# --------
# `CoClusteringDisplay` shows the posterior probability that two members are in the same cluster.
# Rows are sorted by cluster.


def make_mixture(**settings):
    mixture = DPCategoricalMixture("categorical", random_state=0, **settings)
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    return make_pipeline(encoder, mixture)


pipeline = make_mixture(n_chains=4, max_iter=500).fit(votes)
mixture = pipeline[-1]
display = CoClusteringDisplay.from_estimator(mixture)
display.ax_.set_title("Members of a parliament")

# %%
# The blocks on the diagonal are the clusters. Pale rows in a block are members whose cluster is
# uncertain. The following table compares the clusters with the parties.

table = contingency_matrix(party, mixture.labels_)
print("Cluster" + "".join(f"{k:6}" for k in range(table.shape[1])))
for name, counts in zip(np.unique(party), table, strict=True):
    print(f"{name:<7}" + "".join(f"{count:6}" for count in counts))
print(f"Members in the majority party of their cluster: {table.max(axis=0).sum() / n_members:.0%}")

fig, ax = plt.subplots(figsize=(6, 3.6))
positions = np.arange(table.shape[1])
bars = [
    ax.bar(positions, table[0], color="C0", label="left party"),
    ax.bar(positions, table[1], bottom=table[0], color="C1", hatch="//", label="right party"),
]
ax.set(xlabel="cluster", ylabel="members", title="Clusters and parties")
ax.set_xticks(positions)
ax.legend()

# %%
# Nearly every cluster consists of members of one party. The left party is divided into two
# clusters, which correspond to the wing and the other members.
#
# Predicting missing votes
# ------------------------
# The observed votes of a member determine the probabilities of the clusters, ``predict_proba``. The
# clusters have probabilities of yes, ``components_``. Their product gives the probability of yes
# for every cell. This assumes that a vote is missing independently of its value. The model does not
# account for members who are absent on purpose.


def probability_of_yes(pipeline, votes):
    memberships = pipeline.predict_proba(votes)
    components = pipeline[-1].components_  # for each column: clusters x categories
    return np.stack([memberships @ column[:, 1] for column in components], axis=1)


predicted = probability_of_yes(pipeline, votes)
print("Member   Party   Bill   Probability of yes")
for member, bill in np.argwhere(missing)[:5]:
    print(f"{member:6}   {party[member]:<6}{bill:6}{predicted[member, bill]:14.2f}")

# %%
# Calibration
# -----------
# Are such probabilities reliable? We hide a tenth of the known votes, fit the model to the others,
# and predict the hidden ones.

hidden = ~missing & (rng.random(votes.shape) < 0.1)
seen = np.where(hidden, np.nan, votes)
predicted = probability_of_yes(make_mixture(max_iter=500).fit(seen), seen)[hidden]
cast = votes[hidden] == "y"
majority = np.mean(seen == "y", axis=0) > np.mean(seen == "n", axis=0)
print(f"Correct predictions of {len(cast)} hidden votes")
print(f"  majority of all members    {np.mean(majority[np.nonzero(hidden)[1]] == cast):.0%}")
print(f"  mixture                    {np.mean((predicted > 0.5) == cast):.0%}")

bins = np.minimum((5 * predicted).astype(int), 4)
number = np.bincount(bins, minlength=5)
mean = np.bincount(bins, predicted, minlength=5) / number
rate = np.bincount(bins, cast, minlength=5) / number
fig, ax = plt.subplots(figsize=(5.6, 4.4))
ax.plot([0, 1], [0, 1], color="0.35", linestyle="--", label="perfect calibration")
error = np.sqrt(mean * (1 - mean) / number)
ax.errorbar(mean, rate, error, fmt="o", color="C0", capsize=3, label="hidden votes")
for x, y, n in zip(mean, rate, number, strict=True):
    ax.annotate(f"{n} votes", (x, y), (8, -16), textcoords="offset points", fontsize=9)
ax.set(xlabel="predicted probability of yes", ylabel="observed share of yes")
ax.set(xlim=(0, 1.1), ylim=(0, 1.02), title="Calibration (bars: standard error)")
ax.legend()

# %%
# The points are close to the diagonal: the predicted probabilities agree with the observed shares,
# within about two standard errors.
#
# More missing cells
# ------------------
# Finally we hide larger and larger shares of the training data. Cross-validation compares the log
# density of held-out members with that of a model of independent columns, which uses only the
# frequencies of yes in each column.

shares_hidden = np.array([0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95])
uniform = rng.random(votes.shape)
scores = np.empty((2, 5, len(shares_hidden)))
for fold, (train, test) in enumerate(KFold(5, shuffle=True, random_state=0).split(votes)):
    observed = ~missing[test]
    for i, share in enumerate(shares_hidden):
        seen = np.where(uniform[train] < share, np.nan, votes[train])
        fitted = make_mixture(max_iter=200).fit(seen)
        scores[0, fold, i] = fitted.score(votes[test]) * len(test) / observed.sum()
        n_yes, n_known = np.sum(seen == "y", axis=0), np.sum(seen == seen, axis=0)
        frequency = (n_yes + 0.5) / (n_known + 1)
        independent = np.where(votes[test] == "y", frequency, 1 - frequency)
        scores[1, fold, i] = np.log(independent[observed]).mean()

names = "mixture", "independent columns"
fig, ax = plt.subplots()
for values, color, style, name in zip(scores, ("C0", "C1"), ("o-", "s--"), names, strict=True):
    error = values.std(axis=0, ddof=1) / np.sqrt(5)
    average = values.mean(axis=0)
    ax.errorbar(100 * shares_hidden, average, error, fmt=style, color=color, capsize=3, label=name)
ax.set(xlabel="hidden cells of the training data (%)", ylabel="log density (nats per vote)")
ax.set_title("Held-out members (bars: standard error over folds)")
ax.legend()
print("Hidden cells   log density of held-out members (nats per vote)")
print("               mixture   independent columns")
for share, *pair in zip(shares_hidden, *scores.mean(axis=1), strict=True):
    print(f"{share:12.0%}{pair[0]:10.3f}{pair[1]:22.3f}")

plt.show()

# %%
# The score of the mixture decreases slowly until more than half of the cells are hidden. The
# dependence between two bills can be estimated from the members who have both votes. If nearly all
# cells are hidden, few members have two observed votes, and the advantage over independent columns
# becomes small.
