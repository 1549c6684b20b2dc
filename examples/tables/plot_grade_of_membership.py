"""
Mixed membership in a table of votes
====================================

In a latent class model every row belongs to one class. In a grade of membership model every row has
proportions of several types, and each of its cells comes from one of the types. Which model fits a
table of yes/no votes better, and what do the proportions show? This example compares
`ExponentialFamilyMixture` and `ExponentialFamilyAdmixture` with the same emission. It checks the
estimated proportions against the simulated ones and compares the models by the prediction of hidden
cells.
"""

# %%
# Data
# ----
# We simulate 16 votes of 435 members of a parliament with two parties. There are two types of
# voters with different probabilities of yes for each bill. Each member has a share of the first
# type, which is large for most members of the left party and small for most members of the right
# party. In the table, 1 is yes, 0 is no, and 5% of the cells are missing (NaN). Both models leave
# missing cells out. The models do not use the party.
#
# The votes of the US House of Representatives in 1984 have the same form: ``table =
# fetch_openml("vote", version=1).data``, with "y" and "n" as categories.

import matplotlib.pyplot as plt
import numpy as np

from skmanifold import ExponentialFamilyAdmixture, ExponentialFamilyMixture

# sphinx_gallery_thumbnail_number = 1
plt.style.use("skmanifold.inspection.skmanifold")

n_members, n_bills = 435, 16
rng = np.random.default_rng(0)
first_type = rng.choice([0.05, 0.95], n_bills)
differs = rng.random(n_bills) < 0.8
second_type = np.where(differs, 1 - first_type, first_type)
is_left = rng.random(n_members) < 0.6
true_share = np.where(is_left, rng.beta(2.0, 0.5, n_members), rng.beta(0.4, 2.5, n_members))

from_first = rng.random((n_members, n_bills)) < true_share[:, np.newaxis]
probability = np.where(from_first, first_type, second_type)
votes = (rng.random(probability.shape) < probability).astype(float)
votes[rng.random(votes.shape) < 0.05] = np.nan
known = ~np.isnan(votes)
print(f"{n_members} members, {n_bills} votes, {1 - known.mean():.1%} of the cells missing")

# %%
# Two classes and two types
# -------------------------
# We fit both models with two components. ``predict_proba`` of the latent class model gives the
# probabilities of the classes of a member. ``transform`` of the grade of membership model gives the
# shares of the types. The components of both are ordered such that the first one is that of the
# left party.

classes = ExponentialFamilyMixture(2, emission="bernoulli", sampler="gibbs", random_state=0)
grades = ExponentialFamilyAdmixture(2, emission="bernoulli", sampler="gibbs", random_state=0)
classes.fit(votes)
grades.fit(votes)


def in_order(shares, components):
    """Put the component of the left party first."""
    order = np.argsort(-shares[is_left].mean(axis=0))
    return shares[:, order], components[order]


class_shares, class_votes = in_order(classes.predict_proba(votes), classes.components_)
type_shares, type_votes = in_order(grades.transform(votes, average_draws=True), grades.components_)
estimates = {"latent class": class_shares[:, 0], "grade of membership": type_shares[:, 0]}
print("Error of the estimated share of the first type (root mean square)")
for name, shares in estimates.items():
    print(f"  {name:<20}{np.sqrt(np.mean((shares - true_share) ** 2)):.2f}")

fig, ax = plt.subplots()
ax.plot([0, 1], [0, 1], color="0.35", linestyle=":", label="true share = estimate")
styles = {"latent class": ("C1", "x"), "grade of membership": ("C0", "o")}
for name, (color, marker) in styles.items():
    ax.scatter(true_share, estimates[name], s=22, color=color, marker=marker, alpha=0.7, label=name)
ax.set(xlabel="true share of the first type", ylabel="estimate for each member")
ax.set_title("Estimates of the shares of 435 members")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The grade of membership model estimates intermediate shares with a moderate error; each estimate
# is based on 16 votes at most. The latent class model can only express such members as uncertain
# assignments, and it assigns most of them to one class with high probability.
#
# The probabilities of yes
# ------------------------
# The next figure shows the estimated probabilities of yes for each bill, with the simulated ones.

fig, ax = plt.subplots(figsize=(7.2, 4.8))
order = np.lexsort((second_type, first_type))
positions = np.arange(n_bills)
for k, (color, truth) in enumerate((("C0", first_type), ("C1", second_type))):
    name = ("first", "second")[k]
    ax.plot(truth[order], positions, "|", color=color, ms=14, mew=2, label=f"{name} type, true")
    ax.plot(type_votes[k, order], positions, "o", color=color, label=f"{name} type, estimate")
    ax.plot(class_votes[k, order], positions, "x", color=color, mew=2, label=f"{name} class")
ax.set_yticks(positions, [f"bill {i}" for i in order])
ax.set(xlabel="probability of yes", xlim=(-0.03, 1.03), title="Types and classes")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

true_types = np.stack([first_type, second_type])
print("Error of the probabilities of yes (root mean square)")
for name, found in (("latent class", class_votes), ("grade of membership", type_votes)):
    print(f"  {name:<20}{np.sqrt(np.mean((found - true_types) ** 2)):.2f}")

# %%
# The probabilities of the types are close to the simulated values. Those of the latent classes are
# less extreme, because a class must also explain members who vote with the other type on some
# bills.
#
# Prediction of hidden votes
# --------------------------
# In practice the truth is unknown. We can still compare the models: we hide a tenth of the known
# votes, fit the models to the others, and compute the log probability of the hidden votes. This is
# repeated five times for each number of components.

numbers = (1, 2, 3, 4, 6)
hidden = [known & (rng.random(votes.shape) < 0.1) for _ in range(5)]
scores = np.empty((2, len(numbers), len(hidden)))
settings = {"emission": "bernoulli", "sampler": "gibbs", "max_iter": 100}
for i, n_components in enumerate(numbers):
    for j, hide in enumerate(hidden):
        seen, cast = np.where(hide, np.nan, votes), votes[hide]
        mixture = ExponentialFamilyMixture(n_components, random_state=j, **settings).fit(seen)
        admixture = ExponentialFamilyAdmixture(n_components, random_state=j, **settings).fit(seen)
        predictions = (
            mixture.predict_proba(seen) @ mixture.components_,
            admixture.transform(seen) @ admixture.components_,
        )
        for model, yes in enumerate(predictions):
            right = np.where(cast == 1, yes[hide], 1 - yes[hide])
            scores[model, i, j] = np.log(right).mean()

print("Log probability of hidden votes (nats per vote)")
print("  components          " + "".join(f"{n:8d}" for n in numbers))
for name, values in zip(estimates, scores.mean(axis=2), strict=True):
    print(f"  {name:<20}" + "".join(f"{value:8.3f}" for value in values))

fig, ax = plt.subplots()
for (name, (color, marker)), values in zip(styles.items(), scores, strict=True):
    error = values.std(axis=1, ddof=1) / np.sqrt(len(hidden))
    style = {"color": color, "marker": marker, "capsize": 3, "label": name}
    ax.errorbar(numbers, values.mean(axis=1), error, **style)
ax.set(xlabel="number of components", ylabel="log probability (nats per vote)")
ax.set_title("Hidden votes (bars: standard error over five repetitions)")
ax.set_xticks(numbers)
ax.legend(loc="lower right")

plt.show()

# %%
# The grade of membership model with two types predicts best, as expected for these data. More types
# do not improve it. The latent class model remains below it with all numbers of classes tried here.
# Both models predict the same cells, so their difference is more certain than the bars suggest. For
# other tables the result can be different: if a party has groups that vote together on some
# matters, a latent class model with more classes can predict better. Compare both models on hidden
# cells.
