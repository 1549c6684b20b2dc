"""
Clusters of website visitors
============================

Each row of a table counts the visits of a person to the areas of a website. Which groups of
visitors are there, and how many? `DPCategoricalMixture` infers the number of clusters together with
the clusters. This example plots the posterior of the number of clusters and the profile of each
cluster. It assigns new visitors with probabilities, and compares the inferred number with fixed
numbers of clusters by the log density of held-out visitors.
"""

# %%
# Data
# ----
# We simulate 8,000 visitors in six clusters. The visitors of a cluster prefer certain areas of the
# site, and all of them also see the other areas. The data are a sparse matrix of counts, and the
# last 1,500 visitors are held out.
#
# A real data set of this type is *Anonymous Microsoft Web Data* at the UCI Machine Learning
# Repository, with 38,000 visitors and 294 areas.

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.metrics import adjusted_rand_score

from skmanifold import DPCategoricalMixture, ExponentialFamilyMixture
from skmanifold.emissions import Multinomial
from skmanifold.inspection import DimensionPosteriorDisplay
from skmanifold.samplers import EM

# sphinx_gallery_thumbnail_number = 2
plt.style.use("skmanifold.inspection.skmanifold")

preferred = {  # share of the cluster, and relative frequencies of its preferred areas
    "office": (0.30, {"word processor": 7, "spreadsheet": 7, "templates": 4, "support": 3}),
    "developer": (0.23, {"developer docs": 8, "code samples": 6, "downloads": 3, "forums": 3}),
    "player": (0.19, {"games": 8, "graphics drivers": 5, "downloads": 4, "forums": 2}),
    "administrator": (0.13, {"servers": 7, "security": 6, "licences": 4, "support": 3}),
    "student": (0.09, {"tutorials": 7, "education": 6, "free software": 5, "downloads": 2}),
    "applicant": (0.06, {"jobs": 9, "company": 6, "news": 3}),
}
areas = ["home page", "search"]
areas += [area for _, frequencies in preferred.values() for area in frequencies]
areas = list(dict.fromkeys(areas))
true_profiles = np.full((len(preferred), len(areas)), 0.25)
true_profiles[:, :2] = 2.5
for k, (_, frequencies) in enumerate(preferred.values()):
    for area, frequency in frequencies.items():
        true_profiles[k, areas.index(area)] += frequency
true_profiles /= true_profiles.sum(axis=1, keepdims=True)

rng = np.random.default_rng(0)
true_labels = rng.choice(len(preferred), 8000, p=[share for share, _ in preferred.values()])
visits = rng.multinomial(1 + rng.poisson(7, len(true_labels)), true_profiles[true_labels])
train, test = sp.csr_array(visits[:6500]), sp.csr_array(visits[6500:])
print(f"{train.shape[0]} visitors for training, {test.shape[0]} held out")
print(f"{len(areas)} areas, {visits.sum() / len(visits):.1f} visits per visitor")

# %%
# Number of clusters
# ------------------
# By default a chain starts with 100 random clusters and removes those that are not needed. With
# ``init=1`` it starts with one cluster and splits it. If both give the same posterior, the result
# does not depend on the initialisation.

mixture = DPCategoricalMixture(n_chains=2, max_iter=600, random_state=0).fit(train)
from_one = DPCategoricalMixture(init=1, max_iter=600, random_state=0).fit(train)

fits = {"start from 100": mixture, "start from 1": from_one}
width = max(len(fit.n_components_posterior_) for fit in fits.values())
posteriors = np.zeros((len(fits), width))
for row, fit in zip(posteriors, fits.values(), strict=True):
    row[: len(fit.n_components_posterior_)] = fit.n_components_posterior_
value_name = "number of clusters"
names = list(fits)
display = DimensionPosteriorDisplay(probabilities=posteriors, names=names, value_name=value_name)
display.plot()
display.ax_.set_title("Posterior of the number of clusters")

print("Log density of held-out visitors (nats per visitor)")
for name, fit in fits.items():
    print(f"  {name:<15}{fit.score(test):8.3f}")

# %%
# For both initialisations the most probable number of clusters is the simulated one. Larger numbers
# also have some probability: in many draws a few visitors form a small additional cluster. This is
# a known property of Dirichlet process mixtures, which tend to overestimate the number if the data
# come from a finite number of components (Miller and Harrison, 2013).
#
# With more rows or less distinct clusters the two posteriors can differ, because clusters are then
# rarely split and merged. In that case run more passes, compare the held-out log densities of the
# fits, and treat the number of clusters as approximate.
#
# Profiles of the clusters
# ------------------------
# ``labels_`` is a point estimate of the partition; ``weights_`` and ``components_`` describe its
# clusters, largest first. We plot the relative frequency of each area in each cluster.

n_clusters = mixture.n_components_
weights, profiles = mixture.weights_[:n_clusters], mixture.components_[:n_clusters]
overall = np.asarray(train.sum(axis=0)).ravel() / train.sum()
print("Share   Most typical areas (frequency relative to all visitors)")
for weight, profile in zip(weights, profiles, strict=True):
    typical = np.argsort(-profile * np.log(profile / overall))[:3]
    names = ", ".join(f"{areas[i]} ({profile[i] / overall[i]:.1f}x)" for i in typical)
    print(f"{weight:5.1%}   {names}")
agreement = adjusted_rand_score(true_labels[:6500], mixture.labels_)
print(f"Adjusted Rand index with the simulated clusters: {agreement:.2f}")

fig, ax = plt.subplots(figsize=(7.2, 4.2))
image = ax.imshow(profiles, vmin=0, aspect="auto")
ax.set_xticks(range(len(areas)), areas, rotation=60, ha="right", rotation_mode="anchor")
ax.set_yticks(range(n_clusters), [f"cluster {k} ({w:.0%})" for k, w in enumerate(weights)])
ax.tick_params(length=0)
ax.spines[:].set_visible(False)
ax.set_title("Profiles of the clusters")
fig.colorbar(image, label="share of the visits of the cluster")

# %%
# Each row of the figure has its own group of frequent areas, and the home page and the search are
# frequent in all. The clusters match the simulated ones. The adjusted Rand index is below 1 because
# a few visits are sometimes not enough to identify the cluster of a visitor.
#
# New visitors
# ------------
# ``predict_proba`` gives the probabilities of the clusters for new rows. ``co_clustering`` gives
# the probability that two rows are in the same cluster, averaged over all posterior draws.

new = {
    "A": ["developer docs", "code samples"],
    "B": ["downloads", "forums"],
    "C": ["games", "graphics drivers", "forums"],
}
rows = np.array([[area in visited for area in areas] for visited in new.values()], dtype=float)
print("Probability of   " + "  ".join(f"cluster {k}" for k in range(n_clusters)))
for name, row in zip(new, mixture.predict_proba(rows), strict=True):
    print(f"visitor {name}      " + "".join(f"{p:11.2f}" for p in row[:n_clusters]))
print("\nProbability of the same cluster")
same = mixture.co_clustering(rows)
for i, j in ((0, 1), (0, 2), (1, 2)):
    print(f"  {'ABC'[i]} and {'ABC'[j]}   {same[i, j]:.2f}")

# %%
# Visitors A and C are assigned to different clusters with high probability. The areas that B
# visited are frequent in two clusters, so B belongs to either with a considerable probability. The
# probability that two rows are in the same cluster shows this too.
#
# Comparison with fixed numbers of clusters
# -----------------------------------------
# `ExponentialFamilyMixture` with the EM algorithm fits a mixture with a given number of clusters.
# The best number must be found by trying several. We use the same prior for the areas in both
# models.

numbers = [1, 2, 4, 6, 8, 12, 20]
settings = {"sampler": EM(), "max_iter": 1000, "random_state": 0}
settings["emission"] = Multinomial(category_prior=mixture.category_prior)
fixed = [ExponentialFamilyMixture(k, **settings).fit(train).score(test) for k in numbers]
inferred = mixture.score(test)

fig, ax = plt.subplots()
ax.plot(numbers, fixed, "o-", color="C0", label="fixed number, EM")
ax.axhline(inferred, color="C1", linestyle="--", label="inferred number, DPCategoricalMixture")
ax.set(xlabel="number of clusters", ylabel="held-out log density (nats per visitor)")
ax.set_xticks(numbers)
ax.set_title("Log density of held-out visitors")
ax.legend(loc="lower right")
print("Log density of held-out visitors (nats per visitor)")
for number, score in zip([*numbers, "inferred"], [*fixed, inferred], strict=True):
    print(f"  {number:>8} {score:9.3f}")

plt.show()

# %%
# The score of the fixed models increases up to the simulated number and then stays nearly the same.
# `DPCategoricalMixture` reaches the best of these scores without a search over the number of
# clusters.
